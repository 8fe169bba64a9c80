"""How launches are divided between search and confirmation, and the worst case that is announced before the first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stripewise.catalogue.configuration import find_changes
from stripewise.engine.confirmation import (
    FIRST_LOOK,
    find_candidate,
    pairs_to_prove,
    provable_pairs,
    shuffled_pairs,
)
from stripewise.engine.schedule import schedule_of
from stripewise.requests.experiment import Experiment
from stripewise.search.belief.costs import Costs
from stripewise.trial import History, Phase, Role, Run, State, Trial

MOST_PAIRS = 40
_SHARE = 0.6
_FEWEST_SEARCHED = 2
RUNS_FOR_SHARE = 3
"""Fewest pairs that give a share an interval."""
_PART_FOR_SHARES = 8
"""A search keeps at most this part of the budget for shares: an eighth."""


def most_pairs(experiment: Experiment) -> int:
    """The largest number of confirmation pairs that the budget keeps free; 0 where it is too small for a proof."""
    if experiment.confirmation.pairs is not None:
        return min(
            experiment.confirmation.pairs, math.floor(experiment.budget.runs / schedule_of(experiment).cost_of_pair())
        )
    free = experiment.budget.runs - experiment.warmup - 2
    cost = schedule_of(experiment).cost_of_pair()
    for fewest in (provable_pairs(experiment.confirmation), fewest_pairs(experiment)):
        shared = max(fewest, min(MOST_PAIRS, int(free * _SHARE / cost)))
        if free - cost * shared >= _FEWEST_SEARCHED:
            return shared
    # Fewer pairs prove nothing, whatever they show: such a budget is better spent on the search.
    return 0


def fewest_pairs(experiment: Experiment) -> int:
    """Fewest pairs that can prove a gain: of launches, those whose runs are in one random order."""
    ordered, fewest = provable_pairs(experiment.confirmation), shuffled_pairs(experiment.confirmation)
    return fewest if schedule_of(experiment).saves and fewest < FIRST_LOOK else ordered


def useful_pairs(experiment: Experiment, held: int) -> int:
    """Of so many pairs, those that can help to prove a gain: between the fewest in either order, more prove no more."""
    fewest = fewest_pairs(experiment)
    return held if held >= provable_pairs(experiment.confirmation) else fewest if held >= fewest else 0


def fewest_launches(experiment: Experiment) -> int:
    """The smallest budget of which :func:`most_pairs` keeps pairs free, where their number is left to it."""
    proof = math.ceil(schedule_of(experiment).cost_of_pair() * fewest_pairs(experiment))
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
    needed = None if best is None else pairs_to_prove(experiment.confirmation, history, best, block=block, most=most)
    kept = fewest * schedule.cost_of_pair()
    if needed is not None:
        kept = max(kept, min(held, needed * schedule.cost_of_pair(block)))
    return math.ceil(kept + _for_shares(experiment, history, best))


def _for_shares(experiment: Experiment, history: History, best: Trial | None) -> int:
    """Runs to keep for measuring what each setting of the present best contributes."""
    default = next((trial for trial in history.trials if trial.role is Role.DEFAULT), None)
    if best is None or default is None or not measures_shares(experiment) or not most_pairs(experiment):
        return 0
    if not experiment.budget.spend_all:
        return 0  # they come in the first half of the budget
    settings = len(find_changes(best.configuration, default.configuration))
    kept = min(RUNS_FOR_SHARE * settings, experiment.budget.runs // _PART_FOR_SHARES)
    return kept if settings > 1 and kept >= RUNS_FOR_SHARE else 0


def measures_shares(experiment: Experiment) -> bool:
    """Whether the confirmation leaves settings out in some of its pairs."""
    # Further candidates need the runs.
    return schedule_of(experiment).leaves_out and experiment.confirmation.candidates == 1


def runs_for_shares(experiment: Experiment, trials: Sequence[Trial], settings: int, needed: int) -> int:
    """How many runs of a confirmation that begins now are to leave a setting out; 0 where too few are left for one.

    No gain needs them for its proof, so only the first half of the budget has any, unless all of it is to be spent.

    Parameters
    ----------
    settings : int
        That can be left out one by one, with others left.
    needed : int
        Pairs that the proof is expected to take: these come first.
    """
    if settings < 1 or not measures_shares(experiment):
        return 0
    spent, budget = sum(len(trial.runs) for trial in trials), experiment.budget
    most = budget.runs if budget.spend_all or not schedule_of(experiment).saves else budget.runs // 2
    left = math.floor(most - spent - schedule_of(experiment).cost_of_pair() * needed)
    found = min(2 * RUNS_FOR_SHARE * settings, left)
    return found if found >= RUNS_FOR_SHARE else 0


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


def pairs_left(experiment: Experiment, trials: Sequence[Trial], candidate: int) -> int:
    """Most pairs of a candidate's proof, fixed at its first run: what the runs before it have left of the budget.

    Parameters
    ----------
    candidate : int
        Its trial, which may not be there yet.
    """
    first = next((run for run in confirmation_runs(trials) if find_candidate(run) == candidate), None)
    runs = [run for trial in trials for run in trial.runs if first is None or run.number < first.number]
    before = sum(run.facts.phases_spent for run in runs) + (0 if first is None else first.facts.extra)
    block = 1 if first is None else first.facts.block
    held = max(0, math.floor((experiment.budget.runs - before) / schedule_of(experiment).cost_of_pair(block)))
    if experiment.confirmation.pairs is not None:
        return min(experiment.confirmation.pairs, held)
    return min(MOST_PAIRS, useful_pairs(experiment, held))


def confirmation_runs(trials: Sequence[Trial]) -> list[Run]:
    """All runs of the confirmation's pairs, in order of planning."""
    return [run for run in _confirming(trials) if not run.facts.left_out]


def leaving_out_runs(trials: Sequence[Trial]) -> list[Run]:
    """All runs beside the pairs, with the candidate but for one setting, in order of planning."""
    return [run for run in _confirming(trials) if run.facts.left_out]


def _confirming(trials: Sequence[Trial]) -> list[Run]:
    runs = [run for trial in trials for run in trial.runs if run.phase is Phase.CONFIRMATION]
    return sorted(runs, key=lambda run: run.number)


def have_ended(runs: Sequence[Run]) -> bool:
    """Whether every run has its result."""
    return all(run.state in (State.FINISHED, State.FAILED, State.PRUNED) for run in runs)
