"""The outcome of the confirmation, in numbers and in a sentence."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stripewise.catalogue.workload import Workload
from stripewise.engine.budget import confirmation_runs, pairs_left
from stripewise.engine.confirmation import (
    HOPELESS_PAIRS,
    Assessment,
    Decision,
    Pair,
    arms,
    broken_in,
    count_alternating,
    find_candidate,
    judge,
    more_pairs,
    pairs_of,
    pairs_to_prove,
    provable_pairs,
    same_against_same,
)
from stripewise.engine.ledger import ExperimentLedger, Spent
from stripewise.engine.protocol import Shift, TypicalRun, find_shift, protocol_points
from stripewise.engine.schedule import schedule_of
from stripewise.requests.experiment import Confirmation, Experiment
from stripewise.requests.objective import Bound, Objective
from stripewise.result import Interval, PairOfRuns, Proof, Same
from stripewise.search.statistics import Speedup
from stripewise.sizes import count_of, format_factor
from stripewise.trial import History, State, Trial


@dataclass(frozen=True)
class Conclusion:
    """The outcome of the confirmation.

    Attributes
    ----------
    level : float
        Of its interval, for all looks and candidates together.
    same : Same or None
        None where the pairs are too few for it.
    more : int or None
        Pairs that a gain of the size seen would need, if it was not proven.
    default, candidate : tuple of float
        Values of the two arms, pair by pair; a failed run as the worst value there is.
    broken : str
        The limit of the objective that the candidate broke; empty where all held.
    shift : Shift or None
        Where the candidate leaves work to the run after it.
    ordered : bool
        Whether the order of the pairs could show that.
    """

    decision: Decision
    speedup: Speedup
    level: float
    same: Same | None
    more: int | None
    default: tuple[float, ...]
    candidate: tuple[float, ...]
    broken: str = ""
    shift: Shift | None = None
    ordered: bool = True

    @property
    def interval(self) -> Interval | None:
        """The speed-up's interval; None where the pairs cannot bound it."""
        ends = self.speedup.interval
        return Interval(ends.low, ends.high, self.level) if ends.bounded else None


def conclusion_of(pairs: Sequence[Pair], objective: Objective, rule: Confirmation, most: int) -> Conclusion | None:
    """Judge the pairs, of which ``most`` were planned, once no more will come; None without a complete one."""
    complete = [pair for pair in pairs if pair.complete]
    verdict: Assessment = judge(complete, objective, rule, most, final=True)
    if verdict.speedup is None:
        return None
    default, candidate = arms(complete, objective)
    same = same_against_same(default, objective.maximize, rule.confidence)
    decision = verdict.decision
    if decision is Decision.PROVEN and same is not None and not same.passed:
        decision = Decision.INVALID
    shift = find_shift([(pair.default, pair.candidate) for pair in complete], objective.maximize)
    if decision is Decision.PROVEN and shift is not None and shift.takes_the_gain:
        decision = Decision.SHIFTED
    decided = decision in (Decision.PROVEN, Decision.BROKEN, Decision.SHIFTED)
    more = None if decided else more_pairs(verdict.speedup, complete, objective, rule)
    return Conclusion(
        decision,
        verdict.speedup,
        rule.confidence,
        same,
        more,
        tuple(default),
        tuple(candidate),
        broken_in(complete),
        shift,
        ordered=count_alternating(complete) < len(complete),
    )


NOTHING_BETTER = "no configuration looked better than the default"
"""Why a session ends whose search found nothing."""


def so_far(objective: Objective, experiment: Experiment, trials: Sequence[Trial]) -> tuple[str, bool]:
    """Say how far an experiment within one launch has come whose program ended, and whether more phases may decide."""
    runs = confirmation_runs(trials)
    if not runs:
        searched = sum(run.state.ended for trial in trials for run in trial.runs)
        return f"{schedule_of(experiment).counted(searched)} of the search, and no pair yet", True
    candidate = find_candidate(runs[-1])
    # Orders for the next pairs may have been ahead of the program.
    pairs = [pair for pair in pairs_of([run for run in runs if run.state.ended], candidate) if pair.complete]
    most = pairs_left(experiment, trials, candidate)
    found = judge(pairs, objective, experiment.confirmation, most).speedup
    if found is None:
        return "the proof has just begun", True
    needed = more_pairs(found, pairs, objective, experiment.confirmation) if len(pairs) > 1 else most
    said = f"after {count_of(len(pairs), 'pair')}, the best found looks {format_factor(found.estimate)} times as fast"
    if needed is None:
        return f"{said}: no number of pairs would prove that, so the default stays", False
    left = max(1, min(needed, most) - len(pairs))
    cost = schedule_of(experiment).cost_of_pair(runs[-1].facts.block)
    return f"{said}; about {count_of(math.ceil(left * cost), 'more phase')} may decide", True


def verdict(
    conclusion: Conclusion | None,
    shown: Trial | None,
    default: Trial,
    reason: str,
    experiment: Experiment,
    tried: bool,
    limits: str,
) -> str:
    """Say in a sentence or two what was shown, for people; ``limits`` ends the sentence of a proven gain."""
    least = experiment.confirmation.minimum_effect
    bar = "1" if least == 1 else f"the required {least:g}"
    if conclusion is None:
        if not tried:
            return f"The default is kept: {reason}, so no other configuration was tried."
        if shown is None or shown.number == default.number:
            why = "" if reason == NOTHING_BETTER else f" ({reason})"
            return f"No configuration looked better than the default, which is kept{why}."
        if experiment.confirmation.pairs == 0:
            return "The default is kept: no confirmation was asked for, so no gain is proven."
        return f"The default is kept: {reason}, so nothing was confirmed."
    found = conclusion.speedup.estimate
    pairs = "1 pair" if conclusion.speedup.pairs == 1 else f"{conclusion.speedup.pairs} pairs"
    bounds = conclusion.interval
    span = (
        ""
        if bounds is None
        else f"{bounds.percent} interval {format_factor(bounds.low)} to {format_factor(bounds.high)}"
    )
    where = schedule_of(experiment).proven
    match conclusion.decision:
        case Decision.PROVEN if bounds is None:
            return f"Proven{where} in {pairs}{limits}: {_failures(conclusion)}."
        case Decision.PROVEN:
            return f"Proven{where}: {format_factor(found)} times the default ({span}, {pairs}){limits}."
        case Decision.IDLE:
            return (
                f"The default is kept: {pairs} show a gain, but by the evidence no setting did anything, "
                "so it counts as chance."
            )
        case Decision.BROKEN:
            return (
                f"Not proven, so the default is kept: in {pairs}, the best found broke the limit {conclusion.broken}."
            )
        case Decision.INVALID:
            return (
                "The default is kept: the machine changed so much during the confirmation that the default differs "
                "from itself. Repeat when it is quieter."
            )
        case Decision.SHIFTED if conclusion.shift is not None:
            return (
                f"The default is kept: {conclusion.shift.says}, and run one after the other they are no faster. They "
                "leave work to the next run."
            )
        case _ if found <= 1 and math.isfinite(found) and not _failures(conclusion):
            # The search saw a gain, or there would be no candidate.
            told = f" ({span}, {pairs})" if span else f" in {pairs}"
            return (
                "Not proven, so the default is kept: side by side with it, the best of the search was "
                f"{format_factor(found)} times as fast{told}."
            )
        case _ if bounds is None:
            looks = f"the best found looks {format_factor(found)} times as fast, but {pairs} cannot tell whether that "
            # Fewer pairs than any order needs are too few whatever their order was.
            few = conclusion.ordered or conclusion.speedup.pairs < provable_pairs(experiment.confirmation)
            looks += f"exceeds {bar}" if few else "is work left to the next run: one side never ran twice in a row"
            return f"Not proven, so the default is kept: {_failures(conclusion) or looks}."
        case _:
            return (
                f"Not proven, so the default is kept: the best found looks {format_factor(found)} times as fast, but "
                f"its {span} does not clear {bar}."
            )


def kept_limits(objective: Objective, best: Trial) -> list[str]:
    """Say of each limit of the objective by how much the runs of an answer kept it."""
    found = []
    for text in objective.subject_to:
        values = [run.facts.subject_to[text] for run in best.runs if run.state is State.FINISHED]
        worst = (min if Bound.parse(text).least else max)(values)
        found.append(f"It kept {text} in all its {count_of(len(values), 'run')}, at worst with {worst:.6g}.")
    return found


def _failures(conclusion: Conclusion) -> str:
    """Say how many runs of each arm failed; empty if none did."""
    failed = [sum(not 0 < value < math.inf for value in arm) for arm in (conclusion.default, conclusion.candidate)]
    if not any(failed):
        return ""
    return (
        f"of {count_of(conclusion.speedup.pairs, 'run')} each, {failed[0]} of the default and {failed[1]} of "
        "the best found failed"
    )


def proof_of(
    ledger: ExperimentLedger,
    conclusion: Conclusion | None,
    pairs: Sequence[Pair],
    candidate: int | None,
    tested: int,
    more_budget: str,
) -> Proof:
    """The result's section on the confirmation."""
    experiment = ledger.experiment
    kept, limits = protocol_points(
        experiment,
        len(pairs),
        conclusion.speedup if conclusion else None,
        conclusion.same if conclusion else None,
        typical_run(pairs),
        ledger.facts.workload or Workload(),
        ledger.simulated,
    )
    if pairs:
        runs = [run for p in pairs for run in (p.default, p.candidate) if run]
        held, broken = schedule_of(experiment).points(runs)
        kept, limits = [*kept, *held], [*limits, *broken]
        if conclusion is not None and conclusion.shift is not None:
            limits.append(f"carry-over: {conclusion.shift.says}")
    proof = Proof(
        pairs=tuple(
            PairOfRuns(
                pair=pair.number,
                order=f"{pair.first}-first",
                default=None if pair.default is None else pair.default.value,
                candidate=None if pair.candidate is None else pair.candidate.value,
            )
            for pair in pairs
        ),
        candidate_trial=candidate,
        candidates_tested=tested,
        minimum_effect=experiment.confirmation.minimum_effect,
        confidence=experiment.confirmation.confidence,
        kept=tuple(kept),
        limits=tuple(limits),
        more_budget=more_budget,
    )
    if conclusion is None:
        return proof
    return proof.model_copy(
        update={
            "decision": conclusion.decision.value,
            "estimate": _make_finite(conclusion.speedup.estimate),
            "interval": conclusion.interval,
            "geometric_mean": _make_finite(conclusion.speedup.geometric_mean),
            "p10": _make_finite(conclusion.speedup.p10),
            "same_against_same": conclusion.same,
        }
    )


def typical_run(pairs: Sequence[Pair]) -> TypicalRun:
    """Give medians of the pairs' finished runs; None where none tells."""
    default = [pair.default for pair in pairs if pair.default is not None]
    runs = [run for run in (*default, *(pair.candidate for pair in pairs)) if run and run.state is State.FINISHED]
    elapsed = [run.elapsed for run in runs if run.elapsed is not None]
    activities = [run.activity for run in default if run in runs and run.activity is not None and run.activity.timed]
    shares = [share for one in activities if (share := one.io_share) is not None]
    return TypicalRun(statistics.median(elapsed) if elapsed else None, statistics.median(shares) if shares else None)


def more_budget(
    identifier: str,
    conclusion: Conclusion | None,
    shown: Trial | None,
    history: History,
    experiment: Experiment,
    spent: Spent,
    unneeded: int = 0,
) -> str:
    """Say how many pairs would decide, as a command; empty where nothing suggests that any number would.

    Parameters
    ----------
    unneeded : int
        Launches that were left: pairs that fit into them are not expected to prove a gain, so none were made.
    """
    made = 0 if conclusion is None else conclusion.speedup.pairs
    if conclusion is not None and made > 1:
        needed = conclusion.more
    else:
        # A single pair says nothing of the noise, the runs of the search do.
        needed = None if shown is None else pairs_to_prove(experiment.confirmation, history, shown)
    if needed is None or needed >= HOPELESS_PAIRS or (conclusion is None and 2 * needed <= unneeded):
        return ""
    # Where as many pairs were made in vain, their spread was underestimated: twice as many settle it.
    needed = needed if needed > made else min(2 * made, HOPELESS_PAIRS)
    chance = f"If the gain is real, {needed} pairs would prove it in four cases out of five"
    if experiment.runner == "function":
        searched = spent.runs - 2 * made
        return f"{chance}: a budget of {searched + 2 * needed} with a confirmation of {needed} pairs."
    return f"{chance}: stripewise tune --confirm {identifier} --pairs {needed}"


def _make_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
