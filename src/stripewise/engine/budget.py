"""How launches are divided between search and confirmation, and the worst case that is announced before the first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stripewise.engine.confirmation import FIRST_LOOK, pairs_to_prove, provable_pairs
from stripewise.engine.schedule import schedule_of
from stripewise.requests.experiment import Experiment
from stripewise.search.belief.costs import Costs
from stripewise.trial import History, Phase, Run, State, Trial

MOST_PAIRS = 40
_SHARE = 0.6
_FEWEST_SEARCHED = 2


def most_pairs(experiment: Experiment) -> int:
    """The largest number of confirmation pairs that the budget keeps free; 0 where it is too small for a proof."""
    if experiment.confirmation.pairs is not None:
        return min(
            experiment.confirmation.pairs, math.floor(experiment.budget.runs / schedule_of(experiment).cost_of_pair())
        )
    free = experiment.budget.runs - experiment.warmup - 2
    fewest = provable_pairs(experiment.confirmation)
    cost = schedule_of(experiment).cost_of_pair()
    shared = max(fewest, min(MOST_PAIRS, int(free * _SHARE / cost)))
    # Fewer pairs prove nothing, whatever they show: such a budget is better spent on the search.
    return shared if free - cost * shared >= _FEWEST_SEARCHED else 0


def fewest_launches(experiment: Experiment) -> int:
    """The smallest budget of which :func:`most_pairs` keeps pairs free, where their number is left to it."""
    proof = math.ceil(schedule_of(experiment).cost_of_pair() * provable_pairs(experiment.confirmation))
    return experiment.warmup + 2 + proof + _FEWEST_SEARCHED


def shortfall(experiment: Experiment) -> str:
    """Say what the budget lacks for a proof; empty where it lacks nothing, or the number of pairs was asked for."""
    if experiment.confirmation.pairs is not None or most_pairs(experiment) > 0:
        return ""
    fewest = fewest_launches(experiment)
    launches = schedule_of(experiment).counted(fewest)
    return f"a proof needs at least {launches}; these {experiment.budget.runs} only search"


def reserved_runs(experiment: Experiment, history: History) -> int:
    """Part of the budget to keep free for the confirmation, given what the search has seen so far.

    A large gain is proven with few pairs and a small one needs many, so the reserve follows the gain and the noise
    seen: the search may use what a confirmation of its present best would leave.

    Returns
    -------
    int
        At least the pairs of the first look where the budget holds as many.
    """
    most, schedule = most_pairs(experiment), schedule_of(experiment)
    fewest = min(FIRST_LOOK, most)
    cost = Costs.of(history).cost
    best = None if np.isnan(cost).all() else history.trials[int(np.nanargmin(cost))]
    held = most * schedule.cost_of_pair()
    block = 1 if best is None else schedule.block_for(history, best, held)
    needed = None if best is None else pairs_to_prove(experiment.confirmation, history, best, block=block)
    kept = fewest * schedule.cost_of_pair()
    if needed is not None:
        kept = max(kept, min(held, needed * schedule.cost_of_pair(block)))
    return math.ceil(kept)


def worst_case(
    experiment: Experiment, nodes: int, run_seconds: float | None, run_bytes: int | None, *, at_once: int = 1
) -> dict[str, float | None]:
    """The most that the experiment can cost.

    Parameters
    ----------
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
    held = max(0, math.floor((experiment.budget.runs - before) / schedule_of(experiment).cost_of_pair(block)))
    if experiment.confirmation.pairs is not None:
        return min(experiment.confirmation.pairs, held)
    return min(MOST_PAIRS, held) if held >= provable_pairs(experiment.confirmation) else 0


def confirmation_runs(trials: Sequence[Trial]) -> list[Run]:
    """All runs of the confirmation, in order of planning."""
    runs = [run for trial in trials for run in trial.runs if run.phase is Phase.CONFIRMATION]
    return sorted(runs, key=lambda run: run.number)


def have_ended(runs: Sequence[Run]) -> bool:
    """Whether every run has its result."""
    return all(run.state in (State.FINISHED, State.FAILED, State.PRUNED) for run in runs)
