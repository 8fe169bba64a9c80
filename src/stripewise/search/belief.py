"""What ``auto`` believes after a history: cost and feasibility of every configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr

from stripewise.search.averaged import Averaged
from stripewise.search.base import PriorMean
from stripewise.search.costs import Costs, CostScale, Floats
from stripewise.search.gp import Data, Hyperprior, Process, fit, most_probable
from stripewise.search.kernel import DECAYS, Geometry
from stripewise.spec.space import Levels, Space
from stripewise.spec.trial import History

_MOST_FITTED = 120
_DOUBT = 0.1
"""Variance of a label: small, because costs that fall towards a failing region must not draw the search into it."""
_OUTLYING = 4.0
_ROUNDS = 2
_INFORMED = Hyperprior(amplitude=(float(np.log(0.3)), 0.5))
"""What a prior worth having leaves open: costs within about a third of what it expects."""


@dataclass(frozen=True)
class Belief:
    """A normal belief about the cost of configurations, and the probability that they work at all.

    Attributes
    ----------
    geometry : Geometry
    prior : PriorMean or None
        None also where one was given and the data speak against it.
    evidence : float
        For the prior: how many e-folds more probable the data are with it than without; 0 where it was not judged.
    run : ndarray, shape (m, d)
        Configurations with a value.
    centre, offset : float
        Subtracted from costs and from the prior inside the process.
    process : Averaged
        Of the cost, over both ways in which correlation may fall along an axis.
    feasibility : Process or None
        Of a label, 1 where a configuration worked and -1 where it failed; None while nothing has failed.
    best : float
        Least mean cost among what was run (or is running).
    """

    geometry: Geometry
    prior: PriorMean | None
    run: Levels
    centre: float
    offset: float
    process: Averaged
    feasibility: Process | None
    best: float
    evidence: float = 0.0

    def _expected(self, levels: Levels) -> Floats:
        return expected(self.prior, self.geometry.space, levels) - self.offset

    def mean(self, levels: Levels) -> Floats:
        """Mean of the true cost, shape ``(n,)``."""
        return self.process.mean(self.geometry.knots(levels), self._expected(levels)) + self.centre

    @property
    def observations(self) -> int:
        """How many the process learned from."""
        return len(self.process.data.cost)

    def predict(
        self, levels: Levels, knots: NDArray[np.int64] | None = None, prior: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the true cost, shape ``(n,)`` each.

        ``knots`` and ``prior`` (see :func:`expected`) save finding them again.
        """
        knots = self.geometry.knots(levels) if knots is None else knots
        mean, sd = self.process.predict(knots, self._expected(levels) if prior is None else prior - self.offset)
        return mean + self.centre, sd

    def works(self, levels: Levels, knots: NDArray[np.int64] | None = None) -> Floats:
        """Probability that a run does not fail, shape ``(n,)``."""
        if self.feasibility is None:
            return np.ones(len(levels))
        knots = self.geometry.knots(levels) if knots is None else knots
        mean, sd = self.feasibility.predict(knots, np.zeros(len(levels)))
        return np.asarray(ndtr(mean / np.sqrt(_DOUBT + sd**2)), dtype=np.float64)

    def leaders(self, count: int) -> Levels:
        """The configurations that were run and are believed best, shape ``(m, d)``."""
        return self.run[np.argsort(self.process.seen()[: len(self.run)], kind="stable")[:count]]

    def seen(self, levels: Levels) -> Floats:
        """Mean of the true cost of configurations that may have been run, shape ``(n,)``."""
        mean, _ = self.predict(levels)
        known = {row.tobytes(): cost for row, cost in zip(self.run, self.process.seen(), strict=False)}
        inner = [known.get(row.tobytes(), np.nan) + self.centre for row in levels]
        return np.where(np.isnan(inner), mean, inner)

    def imagine(self, levels: Levels) -> Belief:
        """Give the belief as if runs still to end had cost what is expected: it looks elsewhere meanwhile."""
        if len(levels) == 0:
            return self
        mean, _ = self.predict(levels)
        knots = self.geometry.knots(levels)
        more = Data(knots, mean - self.centre, np.ones(len(levels)), self._expected(levels))
        return replace(self, process=self.process.conditioned(more), best=min(self.best, float(mean.min())))


def expected(prior: PriorMean | None, space: Space, levels: Levels) -> Floats:
    """Cost that a prior expects, up to a constant, shape ``(n,)``; 0 without one."""
    return np.zeros(len(levels)) if prior is None else -np.asarray(prior(space, levels), dtype=np.float64)


def believe(
    space: Space, history: History, prior: PriorMean | None, *, trust: float, most: int, judged: bool = False
) -> Belief | None:
    """Learn from a history.

    Parameters
    ----------
    space : Space
    history : History
    prior : PriorMean or None
    trust : float
        Standard deviation of the prior's weight.
    most : int
        Observations to learn from; of more, see :func:`thin`.
    judged : bool
        Drop the prior wherever the data are less probable with it than without.

    Returns
    -------
    Belief or None
        None while no run has a value.
    """
    costs = Costs.of(history)
    levels = space.levels([trial.configuration for trial in history.trials])
    kept = thin(costs.known, most)
    if len(kept) == 0:
        return None
    geometry = Geometry(space)
    knots, cost, prior_cost = geometry.knots(levels[kept]), costs.known[kept], expected(prior, space, levels[kept])
    centre, offset = float(np.median(cost)), float(np.mean(prior_cost))
    squares, freedom = _repeats(history)
    data = Data(knots, cost - centre, 1.0 / costs.runs[kept], prior_cost - offset, squares, freedom)
    evidence = 0.0
    if prior is not None and judged:
        # Under the same assumptions with and without, so that a prior which expects no differences gains nothing.
        bare = replace(data, prior=np.zeros(len(kept)))
        fits = _fitted(geometry, data, trust, _INFORMED)
        evidence = _evidence(fits) - _evidence(_fitted(geometry, bare, trust, _INFORMED))
        if evidence < 0:
            prior, offset, data = None, 0.0, bare
    if prior is None or not judged:
        fits = _fitted(geometry, data, trust, Hyperprior())
    processes = [Process(geometry, data, theta, trust, decay) for (theta, _), decay in zip(fits, DECAYS, strict=True)]
    weighed = Averaged.of(processes, [density for _, density in fits])
    censored = np.isnan(costs.cost[kept])
    process = replace(weighed, processes=tuple(_corrected(one, censored) for one in weighed.processes))
    mean = process.seen()
    ended = ~np.isnan(costs.cost[kept])
    best = float(np.min(mean[ended] if ended.any() else mean)) + centre
    feasibility = _feasibility(geometry, levels, costs, most)
    belief = Belief(geometry, prior, levels[kept], centre, offset, process, feasibility, best, evidence)
    return belief.imagine(levels[costs.open][:most])


def thin(cost: Floats, most: int) -> NDArray[np.int64]:
    """Choose the observations to learn from, in order: all, or the better half of ``most`` and a spread of the rest.

    The spread takes every so many by rank of cost, so that bad regions stay known. NaN is never chosen.
    """
    known = np.flatnonzero(~np.isnan(cost))
    if len(known) <= most:
        return known
    ranked = known[np.argsort(cost[known], kind="stable")]
    half = most // 2
    spread = half + np.linspace(0, len(ranked) - half - 1, most - half).astype(np.int64)
    return np.sort(np.concatenate([ranked[:half], ranked[spread]]))


def _fitted(geometry: Geometry, data: Data, trust: float, hyper: Hyperprior) -> list[tuple[Floats, float]]:
    """Most probable hyperparameters for each of :data:`DECAYS`, and how probable, by a part of many data."""
    few = thin(data.cost, _MOST_FITTED)
    part = replace(data, knots=data.knots[few], cost=data.cost[few], variance=data.variance[few], prior=data.prior[few])
    return [most_probable(geometry, part, trust=trust, hyper=hyper, decay=decay) for decay in DECAYS]


def _evidence(fits: list[tuple[Floats, float]]) -> float:
    """How probable the data are whichever decay holds, as a logarithm up to a constant."""
    return float(logsumexp([density for _, density in fits]))


def _corrected(process: Process, censored: NDArray[np.bool_]) -> Process:
    """Correct what a normal error cannot express: values known only to lie above a bound, and stragglers."""
    data = process.data
    for _ in range(_ROUNDS):
        mean, sd = process.left_out()
        cost, variance = data.cost.copy(), data.variance.copy()
        if censored.any():
            cost[censored] = _beyond(mean[censored], sd[censored], data.cost[censored])
        # As under a t distribution: a run far slower than its neighbours say counts less, the more so the farther.
        surprise = np.where(censored, 0.0, np.maximum(0.0, (data.cost - mean) / sd))
        variance *= np.maximum(1.0, (_OUTLYING + surprise**2) / (_OUTLYING + 1))
        corrected = replace(data, cost=cost, variance=variance)
        process = Process(process.geometry, corrected, process.theta, process.trust, process.decay)
    return process


def _beyond(mean: Floats, sd: Floats, bound: Floats) -> Floats:
    """Mean of a normal distribution given that it exceeds a bound."""
    z = (bound - mean) / sd
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
    return np.asarray(mean + sd * hazard, dtype=np.float64)


def _repeats(history: History) -> tuple[float, float]:
    """Sum of squares within trials, and its degrees of freedom."""
    scale = CostScale.of(history)
    groups = [scale(trial.values) for trial in history.finished if len(trial.values) > 1]
    return float(sum(np.var(g) * len(g) for g in groups)), float(sum(len(g) - 1 for g in groups))


def _feasibility(geometry: Geometry, levels: Levels, costs: Costs, most: int) -> Process | None:
    if not costs.failed.any():
        return None
    judged = np.flatnonzero(~np.isnan(costs.known) | costs.failed)
    # All failures first: of the configurations that work there are usually plenty.
    judged = judged[np.argsort(~costs.failed[judged], kind="stable")][:most]
    label = np.where(costs.failed[judged], -1.0, 1.0)
    nothing = np.zeros(len(judged))
    data = Data(geometry.knots(levels[judged]), label, nothing + 1.0, nothing)
    few = Data(data.knots[:_MOST_FITTED], label[:_MOST_FITTED], nothing[:_MOST_FITTED] + 1.0, nothing[:_MOST_FITTED])
    return Process(geometry, data, fit(geometry, few).theta, 0.0)
