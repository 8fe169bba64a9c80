"""How launches are divided between search and confirmation, and the worst case that is announced before the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.measure.confirmation import pairs_needed
from stripewise.measure.sequential import FIRST_LOOK
from stripewise.spec.experiment import Experiment
from stripewise.spec.trial import History, Phase, Role, Run, State, Trial

MOST_PAIRS = 30
_TYPICAL_SPREAD = 0.10
_SHARE = 0.6


@dataclass(frozen=True)
class Spent:
    """What an experiment has used so far.

    Attributes
    ----------
    runs : int
        Launches, of every phase and outcome.
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
    return Spent(len(runs), seconds, sum(float(run.facts.get("node_hours", 0.0)) for run in runs))


def most_pairs(experiment: Experiment) -> int:
    """The largest number of confirmation pairs that the budget can ever hold."""
    if experiment.confirmation.pairs is not None:
        return min(experiment.confirmation.pairs, experiment.budget.runs // 2)
    free = experiment.budget.runs - experiment.warmup - 2
    return max(0, min(MOST_PAIRS, int(free * _SHARE / 2)))


def reserved_pairs(experiment: Experiment, history: History) -> int:
    """Pairs to keep free for the confirmation, given what the search has seen so far.

    A large gain is proven with few pairs and a small one needs many, so the reserve follows the gain and the noise
    seen: the search may use what a confirmation of its present best would leave.

    Returns
    -------
    int
        At least the pairs of the first look where the budget holds as many.
    """
    most = most_pairs(experiment)
    fewest = min(FIRST_LOOK, most)
    default = next((t for t in history.trials if t.role is Role.DEFAULT and t.values), None)
    best = history.best
    if default is None or best is None or best is default or default.value is None or best.value is None:
        return fewest
    gain = abs(float(np.log(history.objective.speedup(best.value, default.value))))
    needed = pairs_needed(gain, noise(history), experiment.confirmation.confidence)
    return max(fewest, min(most, needed))


def noise(history: History) -> float:
    """Standard deviation of the log of one run's value, pooled over repeated configurations.

    A prior worth three observations of 10% keeps one lucky pair from looking like silence.
    """
    squares, freedom = 3 * _TYPICAL_SPREAD**2, 3.0
    for trial in history.finished:
        values = np.log(np.asarray([v for v in trial.values if v > 0]))
        if len(values) > 1:
            squares += float(np.sum((values - values.mean()) ** 2))
            freedom += len(values) - 1
    return float(np.sqrt(squares / freedom))


def worst_case(
    experiment: Experiment, nodes: int, run_seconds: float | None, run_bytes: int | None
) -> dict[str, float | None]:
    """The most that the experiment can cost.

    Parameters
    ----------
    experiment : Experiment
    nodes : int
        Nodes that a run occupies.
    run_seconds : float or None
        The longest that a run may take (its time limit), if known.
    run_bytes : int or None
        Bytes a run moves, if known.

    Returns
    -------
    dict
        ``runs``, ``seconds``, ``node_hours``, ``bytes``; None where not known before the first run.
    """
    budget = experiment.budget
    seconds = None if run_seconds is None else budget.runs * run_seconds
    if budget.seconds is not None:
        seconds = budget.seconds if seconds is None else min(seconds, budget.seconds)
    node_hours = None if seconds is None else seconds * nodes / 3600
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
    before = sum(run.phase is not Phase.CONFIRMATION for trial in trials for run in trial.runs)
    wanted = experiment.confirmation.pairs
    limit = MOST_PAIRS if wanted is None else wanted
    return max(0, min(limit, (experiment.budget.runs - before) // 2))


def confirmation_runs(trials: Sequence[Trial]) -> list[Run]:
    """All runs of the confirmation, in order of planning."""
    runs = [run for trial in trials for run in trial.runs if run.phase is Phase.CONFIRMATION]
    return sorted(runs, key=lambda run: run.number)


def ended(runs: Sequence[Run]) -> bool:
    """Whether every run has its result."""
    return all(run.state in (State.FINISHED, State.FAILED, State.PRUNED) for run in runs)
