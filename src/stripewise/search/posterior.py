"""Who is best under noise: trial costs shrunk towards one another by how little each was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.search.costs import Costs, CostScale, Floats
from stripewise.spec.trial import History, Trial

TYPICAL_NOISE = 0.10
_PRIOR_FREEDOM = 1.0
_LEAST_NOISE = 1e-3


def pooled_repeats(history: History) -> tuple[float, int]:
    """Pool the repeats of each trial: squared deviations of the costs from their means, and degrees of freedom."""
    scale = CostScale.of(history)
    squares, freedom = 0.0, 0
    for trial in history.finished:
        costs = scale(trial.values)
        squares += float(np.var(costs)) * len(costs)
        freedom += len(costs) - 1
    return squares, freedom


def learned_noise(history: History) -> float:
    """Standard deviation of the cost of one run, pooled over the repeats of each trial.

    Without repeats it is :data:`TYPICAL_NOISE`, which weighs as much as one degree of freedom afterwards: a lucky pair
    must not look like silence.
    """
    squares, freedom = pooled_repeats(history)
    if freedom > 1 and squares == 0:
        return _LEAST_NOISE  # what repeats to the last digit was computed, not measured
    squares += _PRIOR_FREEDOM * TYPICAL_NOISE**2
    return max(_LEAST_NOISE, float(np.sqrt(squares / (freedom + _PRIOR_FREEDOM))))


@dataclass(frozen=True)
class Posterior:
    """Belief about the true cost of each finished trial: independent normal distributions.

    Trials are taken as draws from one population whose spread is what the noise does not explain (empirical Bayes).

    Attributes
    ----------
    trials : tuple of Trial
        Those with a value, in order of asking.
    mean, sd : ndarray, shape (n,)
    runs : ndarray of int, shape (n,)
    noise : float
        Standard deviation of one run's cost.
    spread : float
        Standard deviation of the population of trials.
    """

    trials: tuple[Trial, ...]
    mean: Floats
    sd: Floats
    runs: NDArray[np.int64]
    noise: float
    spread: float

    @classmethod
    def of(cls, history: History) -> Posterior:
        """Learn from the history."""
        costs = Costs.of(history)
        have = ~np.isnan(costs.cost)
        trials = tuple(trial for trial, keep in zip(history.trials, have, strict=True) if keep)
        cost, runs = costs.cost[have], costs.runs[have]
        noise = learned_noise(history)
        if not trials:
            return cls((), cost, cost, runs, noise, noise)
        variance = noise**2 / runs
        unexplained = float(np.var(cost) - np.mean(variance))
        spread = float(np.sqrt(max(noise**2, unexplained)))
        weight = spread**2 / (spread**2 + variance)
        centre = float(np.average(cost, weights=weight))
        return cls(trials, centre + weight * (cost - centre), np.sqrt(weight * variance), runs, noise, spread)


def rank(history: History) -> list[Trial]:
    """Order the finished trials by posterior mean cost, best first; at a tie the older one."""
    posterior = Posterior.of(history)
    return [posterior.trials[int(index)] for index in np.argsort(posterior.mean, kind="stable")]
