"""Which trial is best under noise: costs shrunk towards one another, the more the less each was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.search.costs import Costs, CostScale, Floats
from stripewise.spec.trial import History, Trial

TYPICAL_NOISE = 0.10
"""Standard deviation of the cost of one run that is assumed where no repeats say otherwise."""
_LEAST_NOISE = 1e-3


@dataclass(frozen=True)
class RepeatNoise:
    """The noise of single runs, pooled over the repeats of each trial.

    Attributes
    ----------
    squares : float
        Sum of squared deviations of the costs from the mean of their trial.
    freedom : int
        Degrees of freedom of that sum.
    """

    squares: float
    freedom: int

    @classmethod
    def of(cls, history: History) -> RepeatNoise:
        """Pool the repeats of a history."""
        scale = CostScale.of(history)
        costs = [scale(trial.values) for trial in history.finished]
        return cls(sum(float(np.var(c)) * len(c) for c in costs), sum(len(c) - 1 for c in costs))

    def deviation(self, prior_runs: float = 1.0) -> float:
        """Standard deviation of the cost of one run.

        :data:`TYPICAL_NOISE` counts as ``prior_runs`` degrees of freedom, so that one lucky pair does not look like the
        absence of noise.
        """
        squares = self.squares + prior_runs * TYPICAL_NOISE**2
        return float(np.sqrt(squares / (self.freedom + prior_runs)))


def learned_noise(history: History) -> float:
    """Standard deviation of the cost of one run, as the search takes it; at least 0.1%."""
    repeats = RepeatNoise.of(history)
    if repeats.freedom > 1 and repeats.squares == 0:
        return _LEAST_NOISE  # what repeats to the last digit was computed, not measured
    return max(_LEAST_NOISE, repeats.deviation())


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
