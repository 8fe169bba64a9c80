"""How launches are divided between search and confirmation, and the worst case that is announced before the first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.engine.confirmation import FIRST_LOOK, pairs_needed
from stripewise.requests.experiment import Confirmation, Experiment
from stripewise.search.belief.costs import Costs
from stripewise.search.belief.posterior import RepeatNoise
from stripewise.trial import History, Phase, Role, Run, State, Trial

MOST_PAIRS = 40
_PRIOR_RUNS = 3
"""Weight of the typical noise: more careful than the search, whose mistakes cost a run and not a proof."""
_SHARE = 0.6
_FEWEST_SEARCHED = 2
_CHANCE = 0.8
_CHANGES = 1.5
"""Phases of a pair that only separate settings: one in the pair, and half of the time one before it."""
LONGEST_BLOCK = 2
_CERTAIN = 0.99
_DISCOUNT = 0.5
"""What is left of a gain that the search saw, at the least: the best of many noisy runs looks better than it is."""


@dataclass(frozen=True)
class Spent:
    """What an experiment has used so far.

    Attributes
    ----------
    runs : int
        Launches, of every phase and outcome; where all runs are within one launch, its phases.
    seconds : float
        Wall time.
    node_hours : float
    """

    runs: int
    seconds: float
    node_hours: float


def spent(trials: Sequence[Trial], seconds: float) -> Spent:
    """Count what the runs have used; ``seconds`` is the wall time of all sessions."""
    runs = [run for trial in trials for run in trial.runs]
    return Spent(sum(run.facts.phases_spent for run in runs), seconds, sum(run.facts.node_hours for run in runs))


def most_pairs(experiment: Experiment) -> int:
    """The largest number of confirmation pairs that the budget keeps free; 0 where it is too small for a proof."""
    if experiment.confirmation.pairs is not None:
        return min(experiment.confirmation.pairs, math.floor(experiment.budget.runs / cost_of_pair(experiment)))
    free = experiment.budget.runs - experiment.warmup - 2
    fewest = provable_pairs(experiment.confirmation)
    cost = cost_of_pair(experiment)
    shared = max(fewest, min(MOST_PAIRS, int(free * _SHARE / cost)))
    # Fewer pairs prove nothing, whatever they show: such a budget is better spent on the search.
    return shared if free - cost * shared >= _FEWEST_SEARCHED else 0


def cost_of_pair(experiment: Experiment, block: int = 1) -> float:
    """What a pair takes of the budget: two launches, or in one launch the phases of both runs and those between."""
    return 2 * block + _CHANGES if experiment.in_one_launch else 2.0


def block_for(experiment: Experiment, history: History, trial: Trial, left: float) -> int:
    """How many phases each run of a proof within one launch is to hold.

    Each change of settings costs a phase that proves nothing, so longer runs prove more with as many phases: two phases
    a run halve the variance of a pair, for 5.5 phases in place of 3.5. A gain so large that the first look will show it
    anyway, even if the search saw twice the truth, is proven soonest with single phases. Only the search decides, which
    is no part of the proof. Where ``left``, the rest of the budget, holds too few pairs for a proof by longer runs,
    they have single phases too.
    """
    fewest = max(FIRST_LOOK, provable_pairs(experiment.confirmation))
    if not experiment.in_one_launch or left < fewest * cost_of_pair(experiment, LONGEST_BLOCK):
        return 1
    return 1 if shows_at_first_look(experiment, history, trial) else LONGEST_BLOCK


def shows_at_first_look(experiment: Experiment, history: History, trial: Trial, *, chance: float = _CERTAIN) -> bool:
    """Whether the smallest proof shows the gain of a trial with a chance, even if the search saw twice the truth."""
    needed = pairs_to_prove(experiment, history, trial, share=_DISCOUNT, chance=chance)
    return needed is not None and needed <= FIRST_LOOK


def fewest_launches(experiment: Experiment) -> int:
    """The smallest budget of which :func:`most_pairs` keeps pairs free, where their number is left to it."""
    proof = math.ceil(cost_of_pair(experiment) * provable_pairs(experiment.confirmation))
    return experiment.warmup + 2 + proof + _FEWEST_SEARCHED


def shortfall(experiment: Experiment) -> str:
    """Say what the budget lacks for a proof; empty where it lacks nothing, or the number of pairs was asked for."""
    if experiment.confirmation.pairs is not None or most_pairs(experiment) > 0:
        return ""
    fewest = fewest_launches(experiment)
    held = experiment.counted(experiment.budget.runs)
    return f"{held} can prove no gain, so all are searched; {fewest} are the fewest that can"


def provable_pairs(rule: Confirmation) -> int:
    """Fewest pairs that can prove a gain at all: as many as make winning every one of them unlikely enough."""
    return math.ceil(-math.log2((1 - rule.confidence) / 2 / rule.candidates))


def reserved_runs(experiment: Experiment, history: History) -> int:
    """Part of the budget to keep free for the confirmation, given what the search has seen so far.

    A large gain is proven with few pairs and a small one needs many, so the reserve follows the gain and the noise
    seen: the search may use what a confirmation of its present best would leave.

    Returns
    -------
    int
        At least the pairs of the first look where the budget holds as many.
    """
    most = most_pairs(experiment)
    fewest = min(FIRST_LOOK, most)
    cost = Costs.of(history).cost
    best = None if np.isnan(cost).all() else history.trials[int(np.nanargmin(cost))]
    held = most * cost_of_pair(experiment)
    block = 1 if best is None else block_for(experiment, history, best, held)
    needed = None if best is None else pairs_to_prove(experiment, history, best, block=block)
    kept = fewest * cost_of_pair(experiment)
    if needed is not None:
        kept = max(kept, min(held, needed * cost_of_pair(experiment, block)))
    return math.ceil(kept)


def pairs_to_prove(
    experiment: Experiment,
    history: History,
    trial: Trial,
    *,
    block: int = 1,
    share: float = 1.0,
    chance: float = _CHANCE,
) -> int | None:
    """Pairs that would prove with a chance a share of the gain that a trial's search runs show; None without one."""
    default = next((t for t in history.trials if t.role is Role.DEFAULT and t.values), None)
    if default is None or trial.number == default.number or not trial.values:
        return None
    rule = experiment.confirmation
    cost = dict(zip((t.number for t in history.trials), Costs.of(history).cost, strict=True))
    if trial.number in cost:
        seen = float(cost[default.number] - cost[trial.number])
    else:
        # The reference is not part of the history.
        ratio = history.objective.speedup(float(trial.value or 0.0), float(default.value or 0.0))
        seen = math.log(ratio) if ratio > 0 else -math.inf
    gain = share * seen - math.log(rule.minimum_effect)
    noise = RepeatNoise.of(history).deviation(_PRIOR_RUNS)
    return pairs_needed(gain, noise / math.sqrt(block), 1 - (1 - rule.confidence) / rule.candidates, chance)


def worst_case(
    experiment: Experiment, nodes: int, run_seconds: float | None, run_bytes: int | None, *, at_once: int = 1
) -> dict[str, float | None]:
    """The most that the experiment can cost.

    Parameters
    ----------
    experiment : Experiment
    nodes : int
        Nodes that a run occupies.
    run_seconds : float or None
        The longest that a run may occupy its nodes (its time limit, or its job's), if known.
    run_bytes : int or None
        Bytes a run moves, if known.
    at_once : int
        Runs at the same time.

    Returns
    -------
    dict
        ``runs``, ``seconds``, ``node_hours``, ``bytes``; None where not known before the first run.
    """
    budget = experiment.budget
    seconds = None if run_seconds is None else budget.runs * run_seconds
    if budget.seconds is not None:
        most = at_once * budget.seconds
        seconds = most if seconds is None else min(seconds, most)
    node_hours = None if seconds is None else seconds * nodes / 3600
    if budget.seconds is not None and seconds is not None:
        seconds = min(seconds, budget.seconds)
    if budget.node_hours is not None:
        node_hours = budget.node_hours if node_hours is None else min(node_hours, budget.node_hours)
    return {
        "runs": budget.runs,
        "seconds": seconds,
        "node_hours": node_hours,
        "bytes": None if run_bytes is None else budget.runs * run_bytes,
    }


def pairs_left(experiment: Experiment, trials: Sequence[Trial]) -> int:
    """Most pairs of the confirmation, fixed at its first run: what the runs before it have left of the budget."""
    runs = [run for trial in trials for run in trial.runs]
    before = sum(run.phase is not Phase.CONFIRMATION for run in runs)
    block = next((run.facts.block for run in runs if run.phase is Phase.CONFIRMATION), 1)
    held = max(0, math.floor((experiment.budget.runs - before) / cost_of_pair(experiment, block)))
    if experiment.confirmation.pairs is not None:
        return min(experiment.confirmation.pairs, held)
    return min(MOST_PAIRS, held) if held >= provable_pairs(experiment.confirmation) else 0


def confirmation_runs(trials: Sequence[Trial]) -> list[Run]:
    """All runs of the confirmation, in order of planning."""
    runs = [run for trial in trials for run in trial.runs if run.phase is Phase.CONFIRMATION]
    return sorted(runs, key=lambda run: run.number)


def ended(runs: Sequence[Run]) -> bool:
    """Whether every run has its result."""
    return all(run.state in (State.FINISHED, State.FAILED, State.PRUNED) for run in runs)
