"""Which trial is best under noise: costs shrunk towards one another, the more the less each was measured.

Among configurations nearly as good as the best, the cheapest: fewer stripes, fewer aggregators, less memory.

Compare the one-standard-error rule (Breiman et al., Classification and Regression Trees, 1984), which prefers the
simplest model among those as good as the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.space import Space
from stripewise.search.belief.costs import Costs, Floats, RunCosts
from stripewise.trial import History, Role, State, Trial

TYPICAL_NOISE = 0.10
"""Standard deviation of the cost of one run that is assumed where no repeats say otherwise."""
_LEAST_NOISE = 1e-3
_MOST_DEPENDENT = 1000
"""Of more trials the dependence is left out: it would take too long."""


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
    @lru_cache(maxsize=8)
    def of(cls, history: History) -> RepeatNoise:
        """Pool the repeats of a history."""
        each = RunCosts.of(history)
        ended = np.array([run.state is State.FINISHED for run in each.runs], dtype=bool)
        costs = [each.cost[index[ended[index]]] for index in each.by_trial(len(history.trials))]
        freedom = sum(len(c) - 1 for c in costs if len(c))
        if each.level.moves:
            # The level follows the repeats, so their scatter around it says too little.
            return cls(each.level.noise**2 * freedom, freedom)
        return cls(sum(float(np.var(c)) * len(c) for c in costs if len(c)), freedom)

    def deviation(self, prior_runs: float = 1.0) -> float:
        """Standard deviation of the cost of one run.

        :data:`TYPICAL_NOISE` counts as ``prior_runs`` degrees of freedom, so that one lucky pair does not look like the
        absence of noise.
        """
        squares = self.squares + prior_runs * TYPICAL_NOISE**2
        return float(np.sqrt(squares / (self.freedom + prior_runs)))


def learn_noise(history: History, doubt: float | None = None) -> float:
    """Standard deviation of the cost of one run, as the search takes it; at least 0.1%.

    Parameters
    ----------
    doubt : float, optional
        Give instead the deviation that the true one exceeds with this probability. Of few repeats it is far larger.
    """
    repeats = RepeatNoise.of(history)
    if repeats.freedom > 1 and repeats.squares == 0:
        return _LEAST_NOISE  # what repeats to the last digit was computed, not measured
    share = 1.0 if doubt is None else scipy.special.chdtri(repeats.freedom + 1, 1 - doubt) / (repeats.freedom + 1)
    return max(_LEAST_NOISE, float(repeats.deviation() / np.sqrt(share)))


@dataclass(frozen=True)
class Posterior:
    """Belief about the true cost of each finished trial, a normal distribution.

    Trials are taken as draws from one population whose spread is what the noise does not explain (empirical Bayes).
    They are independent of one another unless the level of the machine moves: its uncertainty is shared by all trials
    that ran at the same time.

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
    covariance : ndarray, shape (n, n), or None
        None where trials are independent.
    to_next : ndarray, shape (n,)
        Covariance of each trial's cost with the level at the time of the next run; empty while they are independent.
    next_variance : float
        Variance of that level.
    """

    trials: tuple[Trial, ...]
    mean: Floats
    sd: Floats
    runs: NDArray[np.int64]
    noise: float
    spread: float
    covariance: Floats | None = None
    to_next: Floats = field(default_factory=lambda: np.empty(0))
    next_variance: float = 0.0

    @classmethod
    def of(cls, history: History, noise: float | None = None) -> Posterior:
        """Learn from the history; the noise too, unless it is given."""
        costs = Costs.of(history)
        have = ~np.isnan(costs.cost)
        trials = tuple(trial for trial, keep in zip(history.trials, have, strict=True) if keep)
        cost, runs = costs.cost[have], costs.runs[have]
        noise = learn_noise(history) if noise is None else noise
        if not trials:
            return cls((), cost, cost, runs, noise, noise)
        variance = noise**2 / runs
        if costs.each.level.moves:
            shared = costs.each.shared(np.flatnonzero(have))
            if len(trials) <= _MOST_DEPENDENT:
                return cls._dependent(trials, cost, runs, noise, shared)
            variance = variance + np.diag(shared)[:-1]
        unexplained = float(np.var(cost) - np.mean(variance))
        spread = float(np.sqrt(max(noise**2, unexplained)))
        weight = spread**2 / (spread**2 + variance)
        centre = float(np.average(cost, weights=weight))
        return cls(trials, centre + weight * (cost - centre), np.sqrt(weight * variance), runs, noise, spread)

    @classmethod
    def _dependent(
        cls, trials: tuple[Trial, ...], cost: Floats, runs: NDArray[np.int64], noise: float, shared: Floats
    ) -> Posterior:
        """As above, where the errors of the trials have a covariance."""
        error = np.diag(noise**2 / runs) + shared[:-1, :-1]
        spread = float(np.sqrt(max(noise**2, float(np.var(cost) - np.mean(np.diag(error))))))
        gain = spread**2 * np.linalg.inv(error + spread**2 * np.eye(len(cost)))
        centre = float(np.sum(gain @ cost) / np.sum(gain))
        covariance = spread**2 * (np.eye(len(cost)) - gain)
        # What is observed of a trial too cheaply is a level that was higher: errors of both go opposite ways.
        to_next = -gain @ shared[:-1, -1]
        known = shared[-1, :-1] @ gain @ shared[:-1, -1] / spread**2
        return cls(
            trials,
            centre + gain @ (cost - centre),
            np.sqrt(np.maximum(0.0, np.diag(covariance))),
            runs,
            noise,
            spread,
            covariance,
            to_next,
            float(max(0.0, shared[-1, -1] - known)),
        )

    def compare(self, one: Trial, other: Trial) -> tuple[float, float] | None:
        """By how much one trial costs more than another, and the standard deviation; None if one has no value."""
        place = {trial.number: index for index, trial in enumerate(self.trials)}
        if one.number not in place or other.number not in place:
            return None
        a, b = place[one.number], place[other.number]
        shared = 0.0 if self.covariance is None else 2 * float(self.covariance[a, b])
        spread = np.sqrt(max(self.sd[a] ** 2 + self.sd[b] ** 2 - shared, 1e-12))
        return float(self.mean[a] - self.mean[b]), float(spread)


def rank_trials(history: History) -> list[Trial]:
    """Order the finished trials by posterior mean cost, best first; at a tie the older one."""
    posterior = Posterior.of(history)
    return [posterior.trials[int(index)] for index in np.argsort(posterior.mean, kind="stable")]


def expected_improvement(mean: Floats, sd: Floats, best: float) -> Floats:
    """Mean of ``max(0, best - cost)`` (Jones, Schonlau, Welch, J. Global Optim. 13, 1998), shape ``(n,)``."""
    sd = np.maximum(sd, 1e-12)
    z = (best - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(sd * (z * scipy.special.ndtr(z) + density), dtype=np.float64)


NEAR = 0.05
"""How much worse than the best a cheaper configuration may be."""
LIKELY = 0.6
"""How probable that must be for the cheaper one to be preferred."""


def price_configuration(space: Space, configuration: Mapping[str, Value]) -> float:
    """Price a configuration: the sum over parameters of their ``cost``, in full at the highest position."""
    levels = space.levels([configuration])[0]
    return sum(
        p.cost * int(position) / max(1, len(p.values) - 1) for p, position in zip(space.parameters, levels, strict=True)
    )


def count_departures(space: Space, configuration: Mapping[str, Value]) -> int:
    """Count the parameters that a configuration sets to anything but their default."""
    return int(np.sum(space.levels([configuration]) != space.levels([space.default])))


def prefer_cheapest(space: Space, history: History, ranked: Sequence[Trial]) -> list[Trial]:
    """Put the cheapest trial that is probably within 5% of the best in front.

    1. Take the trials ranked before the default; if there are none, keep the order.
    2. Keep those that are within :data:`NEAR` of the first with a probability of at least :data:`LIKELY`, by the
       posterior of their costs (:class:`stripewise.search.belief.posterior.Posterior`). So one lucky run is not enough.
    3. Choose the one with the lowest price; of several, the one that changes the fewest parameters.

    Parameters
    ----------
    ranked : sequence of Trial
        Best first.
    """
    belief = _beliefs(history)
    contenders: list[Trial] = []
    for trial in ranked:
        if trial.role is Role.DEFAULT:
            break
        contenders.append(trial)
    if not contenders:
        return list(ranked)
    best = contenders[0]
    near = [best, *(t for t in contenders[1:] if _probably_near(belief[t.number], belief[best.number]))]

    def price_then_changes(trial: Trial) -> tuple[float, int]:
        return price_configuration(space, trial.configuration), count_departures(space, trial.configuration)

    chosen = min(near, key=price_then_changes)
    return [chosen, *(trial for trial in ranked if trial is not chosen)]


def find_passed_over(space: Space, history: History, chosen: Trial) -> Trial | None:
    """Give the trial that is believed best, if the chosen one was preferred to it for its price."""
    belief = _beliefs(history)
    candidates = [t for t in history.trials if t.number in belief and t.role is Role.CANDIDATE]
    if chosen.role is not Role.CANDIDATE or chosen.number not in belief:
        return None
    best = min(candidates, key=lambda trial: belief[trial.number][0])
    ahead = belief[chosen.number][0] - belief[best.number][0]
    saved = price_configuration(space, best.configuration) - price_configuration(space, chosen.configuration)
    near = _probably_near(belief[chosen.number], belief[best.number])
    return best if ahead > 0 and near and saved > 0 else None


def _beliefs(history: History) -> dict[int, tuple[float, float]]:
    """Mean and standard deviation of each trial's cost."""
    posterior = Posterior.of(history)
    beliefs = zip(posterior.trials, posterior.mean, posterior.sd, strict=True)
    return {trial.number: (float(mean), float(sd)) for trial, mean, sd in beliefs}


def _probably_near(trial: tuple[float, float], best: tuple[float, float]) -> bool:
    room = -np.log(1 - NEAR) - (trial[0] - best[0])
    return bool(room >= scipy.special.ndtri(LIKELY) * np.hypot(trial[1], best[1]))
