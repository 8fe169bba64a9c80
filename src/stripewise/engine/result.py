"""What an experiment has shown: default, best, whether the gain is proven, which settings did anything, how much."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.special

from stripewise.catalogue.expectation import list_cautions
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.budget import RUNS_FOR_SHARE, confirmation_runs, leaving_out_runs, pairs_left
from stripewise.engine.ceiling import ceiling_of
from stripewise.engine.conclusion import (
    Conclusion,
    conclusion_of,
    kept_limits,
    more_budget,
    proof_of,
    typical_run,
    verdict,
)
from stripewise.engine.confirmation import Decision, Pair, find_candidate, list_tested, pairs_of
from stripewise.engine.effects import all_idle, beside_a_proven_gain, effects_of
from stripewise.engine.launching import plan_of, switched_off
from stripewise.engine.ledger import ExperimentLedger, Spent
from stripewise.engine.planner import Planner
from stripewise.engine.protocol import find_less_work, name_limits
from stripewise.engine.riders import list_changed
from stripewise.engine.space import BoundSpace, describe_space
from stripewise.requests.objective import Objective
from stripewise.result import (
    Alternative,
    Arm,
    Best,
    Candidate,
    Cost,
    Effect,
    Interval,
    LevelChange,
    LevelOfRun,
    MachineLevel,
    Reference,
    Result,
    Share,
    Summary,
    Validity,
)
from stripewise.search.belief.costs import Costs, bring_to_one_level
from stripewise.search.belief.posterior import NEAR, find_passed_over, price_configuration
from stripewise.search.statistics import log_speedups, summarize_values
from stripewise.trial import History, Phase, Role, Run, State, Trial, failures_of


def list_shares(
    space: Space,
    answer: Trial,
    effects: Sequence[Effect],
    pairs: Sequence[Pair],
    without: Sequence[Run],
    objective: Objective,
    whole: Share,
) -> tuple[Share, ...]:
    """Give the share of each setting of an answer whose gain is proven.

    Parameters
    ----------
    answer : Trial
        What the result proposes.
    pairs, without : sequence of Pair, sequence of Run
        Its confirmation, and the runs beside the pairs that leave a setting out.
    whole : Share
        Of all settings together, which is that of a single one.

    Returns
    -------
    tuple of Share
        In the order of the parameters; what no run measured says so.
    """
    names = list_changed(space, answer.configuration)
    if len(names) == 1:
        return (whole.model_copy(update={"name": names[0]}),)
    acting = {effect.name for effect in effects if effect.status == "effective"}
    beside = {pair.number: pair.candidate for pair in pairs if pair.candidate is not None}
    level = whole.interval.level if whole.interval is not None else Interval(0.0, math.inf).level
    found = []
    for name in names:
        own = [run for run in without if run.facts.left_out == name and run.pair in beside]
        share = _measure(own, beside, objective, level)
        found.append(share.model_copy(update={"name": name, "acts": name in acting}))
    return tuple(found)


def _measure(own: Sequence[Run], beside: Mapping[int, Run], objective: Objective, level: float) -> Share:
    """Compare runs without a setting with the candidate's of the same pairs; nothing where too few pairs have both."""
    both = [
        (run.value, with_it.value)
        for run in own
        if run.pair is not None
        and (with_it := beside[run.pair]).state is State.FINISHED
        and run.state is State.FINISHED
        and run.value is not None
        and with_it.value is not None
    ]
    if len(both) < RUNS_FOR_SHARE:
        return Share(pairs=len(both))
    logs = log_speedups([less for less, _ in both], [more for _, more in both], objective.maximize)
    mean = statistics.fmean(logs)
    # Few pairs: normal noise of the logarithms is assumed, as their ranks alone could bound nothing (Student, 1908).
    reach = float(scipy.special.stdtrit(len(logs) - 1, (1 + level) / 2)) * statistics.stdev(logs) / math.sqrt(len(logs))
    interval = Interval(math.exp(mean - reach), math.exp(mean + reach), level)
    return Share(slowdown=math.exp(mean), interval=interval, pairs=len(logs))


_MEASURED = "measured for these ranks, nodes, sizes and versions; confirm again after any of them changes"
_SIMULATED = "simulated, not measured: confirm on the real machine before relying on it"


def conclude(ledger: ExperimentLedger, planner: Planner, bound: BoundSpace, reason: str) -> Result:
    """Draw the conclusion from all runs, once they have ended for a reason."""
    trials, facts, spent = ledger.trials, ledger.facts, ledger.spent()
    experiment, objective, schedule = planner.experiment, planner.objective, planner.schedule
    history = planner.history(trials)
    runs = confirmation_runs(trials)
    tested = list_tested(runs)
    conclusions = {
        number: conclusion_of(
            pairs_of(runs, number), objective, experiment.confirmation, pairs_left(experiment, trials, number)
        )
        for number in tested
    }
    chosen = max(tested, key=lambda number: _rank_conclusion(conclusions[number])) if tested else None
    conclusion = None if chosen is None else conclusions[chosen]
    pairs = [] if chosen is None else pairs_of(runs, chosen)
    # What stands beside the speed-up comes from the same pairs: other candidates were tested at other times.
    shown_runs = [run for run in runs if find_candidate(run) == chosen]
    default = next(trial for trial in trials if trial.role is Role.DEFAULT)
    reference = next((trial for trial in trials if trial.role is Role.REFERENCE), None)
    found = _trial(trials, chosen)
    shown = found if found is not None else _trial(trials, planner.candidate(trials))
    effects = [] if shown is None else effects_of(bound.space, shown, default, trials)
    if conclusion is not None and conclusion.decision is Decision.PROVEN and all_idle(effects):
        conclusion = replace(conclusion, decision=Decision.IDLE)
    proven = conclusion is not None and conclusion.decision is Decision.PROVEN
    best = found if proven and found is not None else default
    workload = facts.workload or Workload()
    if proven:
        effects = beside_a_proven_gain(effects)
    tried = any(trial.role not in (Role.DEFAULT, Role.CEILING) and trial.runs for trial in trials)
    # A proof without a candidate says nothing of why none was tried.
    why = reason if tried else facts.search_ended or reason
    without = [run for run in leaving_out_runs(trials) if find_candidate(run) == chosen]
    speedup = _speedup(conclusion, best, default, shown_runs, objective) if proven else 1.0
    interval = conclusion.interval if proven and conclusion is not None else None
    whole = Share(slowdown=speedup, interval=interval, pairs=len(pairs))
    shares = (
        list_shares(bound.space, best, effects, pairs, without, objective, whole)
        if proven and best.role is Role.CANDIDATE
        else ()
    )
    unneeded = planner.count_unneeded(trials, spent)
    more = (
        ""
        if all_idle(effects)
        else more_budget(ledger.identifier, conclusion, shown, history, experiment, spent, unneeded)
    )
    plan = plan_of(ledger.identifier, experiment, bound, best)
    warned = list_cautions(plan.settings, workload, facts.io, facts.environment.get("mpi") or "") if proven else ()
    limits = name_limits(experiment, typical_run(pairs).seconds, workload, ledger.simulated)
    less = find_less_work([(pair.default, pair.candidate) for pair in pairs]) if proven else ""
    off = switched_off(bound).model_dump(exclude_defaults=True)
    return Result(
        experiment=ledger.identifier,
        name=experiment.name,
        simulated=ledger.simulated,
        objective=replace(objective, unit=objective.unit or facts.units.get(objective.name, "")),
        reference=None if reference is None else Reference(**dict(_summary(reference, runs)), off=off),
        default=Arm(**dict(_summary(default, shown_runs)), configuration=dict(bound.space.default)),
        best=Best(
            **dict(_summary(best, shown_runs)),
            configuration=_configuration(best, bound),
            trial=best.number,
            role=best.role.value,
        ),
        speedup=speedup,
        speedup_interval=interval,
        confirmed=proven,
        verdict=" ".join(
            filter(
                None,
                [
                    verdict(conclusion, shown, default, why, experiment, tried, limits),
                    *(kept_limits(objective, best) if proven else ()),
                    less,
                    *warned,
                ],
            )
        ),
        reason=reason,
        search_ended=facts.search_ended or ("" if runs else reason),
        runs=spent.runs,
        seconds=spent.seconds,
        node_hours=spent.node_hours,
        settings={effect.name: effect.status for effect in effects},
        effects=tuple(effects),
        objective_notes=tuple(facts.objective_notes),
        shares=shares,
        cautions=warned,
        ineffective=tuple(sorted(effect.name for effect in effects if effect.status == "no_effect")),
        left_out=dict(bound.left_out),
        warm_start=tuple(facts.warm_start or ()),
        model=facts.model,
        confirmation=proof_of(ledger, conclusion, pairs, chosen, len(tested), more),
        candidate=None if shown is None or proven else _candidate(shown, bound, conclusion, shown_runs),
        replays=schedule.replays(trials, default, shown, facts.replay or {}),
        cheapest=find_cheapest(bound, history, best, tested),
        preferred_over=preferred_over(bound, history, shown) if schedule.takes_cheapest else None,
        level=machine_level(history),
        failures=failures_of(run for trial in trials if trial.role is not Role.CEILING for run in trial.runs),
        ceiling=ceiling_of(trials, best, facts.ceiling),
        cost=cost(trials, spent, default, best, shown_runs, unneeded),
        plan=plan.text(),
        environment={**facts.environment, "driver": workload.driver, "file_system": workload.file_system},
        validity=Validity(
            ranks=workload.processes,
            nodes=workload.nodes,
            bytes=facts.run_bytes,
            mpi=facts.environment.get("mpi"),
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            warning=_SIMULATED if ledger.simulated else _MEASURED,
        ),
        space=describe_space(bound),
        workload=workload,
    )


def _rank_conclusion(conclusion: Conclusion | None) -> tuple[bool, bool, float]:
    """Rank candidates that were tested: a proven one first, one that broke a limit last, by what their pairs show."""
    if conclusion is None:
        return False, False, 0.0
    decision = conclusion.decision
    return decision is Decision.PROVEN, decision is not Decision.BROKEN, conclusion.speedup.estimate


def _trial(trials: Sequence[Trial], number: int | None) -> Trial | None:
    return next((trial for trial in trials if trial.number == number), None)


def _configuration(trial: Trial, bound: BoundSpace) -> dict[str, Any]:
    return dict(trial.configuration if trial.role is Role.CANDIDATE else bound.space.default)


def _values(trial: Trial, confirmation: Sequence[Run]) -> list[float]:
    """A trial's values: those of the confirmation if it took part, for the search's own runs flatter the best."""
    confirmed = [
        run.value
        for run in confirmation
        if run.trial == trial.number and run.state is State.FINISHED and run.value is not None
    ]
    return confirmed or list(trial.values)


def _summary(trial: Trial, confirmation: Sequence[Run]) -> Summary:
    return summarize_values(_values(trial, confirmation))


def _speedup(
    conclusion: Conclusion | None, best: Trial, default: Trial, confirmation: Sequence[Run], objective: Objective
) -> float:
    """The pairs' estimate; where failed runs leave none, the ratio of the medians of the runs that worked."""
    if conclusion is not None and conclusion.interval is not None:
        return conclusion.speedup.estimate
    fast, slow = _values(best, confirmation), _values(default, confirmation)
    ratio = objective.speedup(statistics.median(fast), statistics.median(slow)) if fast and slow else 1.0
    # A value of 0 has no ratio to another, and JSON has no infinity.
    return ratio if math.isfinite(ratio) else 1.0


def _candidate(trial: Trial, bound: BoundSpace, conclusion: Conclusion | None, pairs: Sequence[Run]) -> Candidate:
    return Candidate(
        configuration=_configuration(trial, bound),
        trial=trial.number,
        value=_summary(trial, pairs).value,
        speedup=conclusion.speedup.estimate if conclusion and 0 < conclusion.speedup.estimate < math.inf else None,
        speedup_interval=conclusion.interval if conclusion else None,
    )


# -- costs -------------------------------------------------------------------------------------------------


def find_cheapest(bound: BoundSpace, history: History, best: Trial, tested: Collection[int]) -> Alternative | None:
    """The cheapest configuration within 5% of the best in the search, if it is cheaper than the best.

    Neither the default nor another candidate of the confirmation: by its pairs, the best is better than these.

    Parameters
    ----------
    tested : collection of int
        Trials of the confirmation.
    """
    cost = dict(zip((trial.number for trial in history.trials), Costs.of(history).cost, strict=True))
    if best.role is not Role.CANDIDATE or np.isnan(cost.get(best.number, np.nan)):
        return None

    def price_of(trial: Trial) -> float:
        return price_configuration(bound.space, trial.configuration)

    cheaper = [
        trial
        for trial in bring_to_one_level(history).finished
        if trial.role is Role.CANDIDATE
        and trial.number not in tested
        and price_of(trial) < price_of(best)
        and cost[trial.number] - cost[best.number] <= -math.log(1 - NEAR)
    ]
    return _alternative(min(cheaper, key=lambda trial: (price_of(trial), trial.number))) if cheaper else None


def preferred_over(bound: BoundSpace, history: History, shown: Trial | None) -> Alternative | None:
    """The configuration that looked best, if the one shown was preferred to it for its price."""
    best = None if shown is None else find_passed_over(bound.space, history, shown)
    return None if best is None else _alternative(best)


def _alternative(trial: Trial) -> Alternative:
    return Alternative(configuration=dict(trial.configuration), value=trial.value, trial=trial.number)


def cost(
    trials: Sequence[Trial],
    used: Spent,
    default: Trial,
    best: Trial,
    confirmation: Sequence[Run],
    unneeded: int = 0,
) -> Cost:
    """What was spent and what not, what a run saves now, and after how many runs the search has paid for itself."""
    runs = [run for trial in trials for run in trial.runs]

    def elapsed(trial: Trial) -> float | None:
        own = [run for run in confirmation or trial.runs if run.trial == trial.number]
        worked = [run.elapsed for run in own if run.state is State.FINISHED and run.elapsed]
        return statistics.median(worked) if worked else None

    slow, fast = elapsed(default), elapsed(best)
    saved = slow - fast if slow is not None and fast is not None and best is not default else 0.0
    return Cost(
        launches={phase.value: sum(run.phase is phase for run in runs) for phase in Phase},
        repeated=sum(run.facts.repeats for run in runs),
        unneeded=unneeded,
        seconds=used.seconds,
        node_hours=used.node_hours,
        bytes=sum(_bytes(run) for run in runs),
        saved_a_run_seconds=saved,
        break_even_runs=math.ceil(used.seconds / saved) if saved > 0 else None,
    )


def _bytes(run: Run) -> int:
    return sum(one.bytes for one in run.activity.directions.values()) if run.activity is not None else 0


def machine_level(history: History) -> MachineLevel:
    """Give what the search believes about the level of the machine; empty while it did not change.

    Parameters
    ----------
    history : History
        With the default among its trials.
    """
    costs = Costs.of(history)
    each, level = costs.each, costs.each.level
    if not level.moves:
        return MachineLevel()
    sign = -1 if history.objective.maximize else 1
    # What the default would have shown in each run's place.
    default = next((cost for trial, cost in zip(history.trials, costs.cost, strict=True) if trial.role is Role.DEFAULT))
    runs = (
        LevelOfRun(run=run.number, slower=math.exp(mean), default=math.exp(sign * (default + mean)))
        for run, mean in zip(each.runs, level.mean, strict=True)
    )
    changes = tuple(
        LevelChange(
            before=each.runs[change.before].number,
            after=each.runs[change.after].number,
            started=each.runs[change.after].started,
            slower=math.exp(change.rise),
        )
        for change in level.changes
    )
    return MachineLevel(changes=changes, runs=tuple(sorted(runs, key=lambda one: one.run)))
