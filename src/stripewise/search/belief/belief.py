"""What ``auto`` believes after a history: cost and feasibility of every configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp, ndtr

from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.search.base import PriorMean
from stripewise.search.belief.costs import Costs, Floats
from stripewise.search.belief.gp import GaussianProcess, Hyperprior, ModelAverage, Observations, fit, most_probable
from stripewise.search.belief.kernel import DECAYS, Geometry, Hyperparameters
from stripewise.search.belief.posterior import RepeatNoise
from stripewise.search.policy.failures import Failures
from stripewise.trial import History, State

_MOST_FITTED = 120
_LABEL_VARIANCE = 0.1
"""Small, because costs that fall towards a failing region must not draw the search into it."""
_OUTLIER_FREEDOM = 4.0
_CORRECTIONS = 2
_INFORMED = Hyperprior(amplitude=(float(np.log(0.3)), 0.5))
"""What an informative prior leaves open: costs within about a third of what it expects."""


@dataclass(frozen=True)
class Belief:
    """A normal belief about the cost of configurations, and the probability that they work at all.

    Attributes
    ----------
    geometry : Geometry
    prior : PriorMean or None
        None also where one was given and the data speak against it.
    run : ndarray, shape (m, d)
        Configurations with a value.
    centre, offset : float
        Subtracted from costs and from the prior inside the process.
    process : ModelAverage
        Of the cost, over both ways in which correlation may fall along an axis.
    feasibility : GaussianProcess or None
        Of a label, 1 where a configuration worked and -1 where it failed; None while nothing has failed.
    best : float
        Least mean cost among what was run (or is running).
    log_bayes_factor : float
        Logarithm of how much more probable the data are with the prior than without it; 0 where it was not tested.
    """

    geometry: Geometry
    prior: PriorMean | None
    run: Levels
    centre: float
    offset: float
    process: ModelAverage
    feasibility: GaussianProcess | None
    best: float
    log_bayes_factor: float = 0.0

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

        Callers that already have ``knots`` and ``prior`` (see :func:`expected`) hand them over.
        """
        knots = self.geometry.knots(levels) if knots is None else knots
        mean, sd = self.process.predict(knots, self._expected(levels) if prior is None else prior - self.offset)
        return mean + self.centre, sd

    def probability_of_success(self, levels: Levels, knots: NDArray[np.int64] | None = None) -> Floats:
        """Probability that a run does not fail, shape ``(n,)``."""
        if self.feasibility is None:
            return np.ones(len(levels))
        knots = self.geometry.knots(levels) if knots is None else knots
        mean, sd = self.feasibility.predict(knots, np.zeros(len(levels)))
        return np.asarray(ndtr(mean / np.sqrt(_LABEL_VARIANCE + sd**2)), dtype=np.float64)

    def leaders(self, count: int) -> Levels:
        """The configurations that were run and are believed best, shape ``(m, d)``."""
        return self.run[np.argsort(self.process.fitted()[: len(self.run)], kind="stable")[:count]]

    def known_mean(self, levels: Levels) -> Floats:
        """Mean of the true cost of configurations that may have been run, shape ``(n,)``."""
        mean, _ = self.predict(levels)
        known = {row.tobytes(): cost for row, cost in zip(self.run, self.process.fitted(), strict=False)}
        inner = [known.get(row.tobytes(), np.nan) + self.centre for row in levels]
        return np.where(np.isnan(inner), mean, inner)

    def fantasize(self, levels: Levels) -> Belief:
        """Give the belief as if pending runs had cost what is expected, so that the next ones look elsewhere.

        The "kriging believer" of Ginsbourger, Le Riche and Carraro, Computational Intelligence in Expensive
        Optimization Problems, 2010.
        """
        if len(levels) == 0:
            return self
        mean, _ = self.predict(levels)
        knots = self.geometry.knots(levels)
        more = Observations(knots, mean - self.centre, np.ones(len(levels)), self._expected(levels))
        return replace(self, process=self.process.conditioned(more), best=min(self.best, float(mean.min())))


def expected(prior: PriorMean | None, space: Space, levels: Levels) -> Floats:
    """Cost that a prior expects, up to a constant, shape ``(n,)``; 0 without one.

    Raises
    ------
    UserError
        If the prior gives NaN, which no search can go on from.
    """
    if prior is None:
        return np.zeros(len(levels))
    cost = -np.asarray(prior(space, levels), dtype=np.float64)
    if unknown := int(np.isnan(cost).sum()):
        raise UserError(
            f"the prior of the search gives NaN for {unknown} of {len(cost)} configurations",
            "use another model, or search without it",
        )
    return cost


def believe(
    space: Space, history: History, prior: PriorMean | None, *, trust: float, most: int, test_prior: bool = False
) -> Belief | None:
    """Learn from a history.

    1. Choose the observations to learn from (:func:`subsample`), at one level of the machine
       (:class:`stripewise.search.belief.level.Level`), and subtract their median.
    2. With ``test_prior``: fit with the prior and without, under the same assumptions, and drop the prior if the data
       are less probable with it.
    3. Fit one process for each way in which correlation may fall along an axis
       (:func:`stripewise.search.belief.gp.most_probable`), and average them.
    4. Correct pruned runs and outliers by what the other observations predict.
    5. If something failed: fit a process to the labels "worked" and "failed".
    6. Count trials that are pending or running as if they cost what is expected.

    Parameters
    ----------
    space : Space
    history : History
    prior : PriorMean or None
    trust : float
        Standard deviation of the prior's weight.
    most : int
        Observations to learn from; of more, see :func:`subsample`.
    test_prior : bool
        Drop the prior where the data are less probable with it than without.

    Returns
    -------
    Belief or None
        None while no run has a value.
    """
    costs = Costs.of(history)
    levels = space.levels([trial.configuration for trial in history.trials])
    kept = subsample(costs.known, most)
    if len(kept) == 0:
        return None
    geometry = Geometry(space)
    knots, cost, prior_cost = geometry.knots(levels[kept]), costs.known[kept], expected(prior, space, levels[kept])
    centre, offset = float(np.median(cost)), float(np.mean(prior_cost))
    noise = RepeatNoise.of(history)
    level = costs.each.shared(kept)[:-1, :-1] if costs.each.level.moves else 0.0
    data = Observations(
        knots, cost - centre, 1.0 / costs.runs[kept], prior_cost - offset, noise.squares, noise.freedom, level
    )
    log_bayes_factor = 0.0
    if prior is not None and test_prior:
        # Under the same assumptions with and without, so that a prior which expects no differences gains nothing.
        bare = replace(data, prior=np.zeros(len(kept)))
        fits = _fit_all(geometry, data, trust, _INFORMED)
        log_bayes_factor = _log_evidence(fits) - _log_evidence(_fit_all(geometry, bare, trust, _INFORMED))
        if log_bayes_factor < 0:
            prior, offset, data = None, 0.0, bare
    if prior is None or not test_prior:
        fits = _fit_all(geometry, data, trust, Hyperprior())
    processes = [
        GaussianProcess(geometry, data, hyperparameters, trust, decay)
        for (hyperparameters, _), decay in zip(fits, DECAYS, strict=True)
    ]
    average = ModelAverage.of(processes, [density for _, density in fits])
    censored = np.isnan(costs.cost[kept])
    process = replace(average, processes=tuple(_corrected(one, censored) for one in average.processes))
    mean = process.fitted()
    best = float(np.min(mean if censored.all() else mean[~censored])) + centre
    feasibility = _feasibility(geometry, levels, history, costs, most)
    belief = Belief(geometry, prior, levels[kept], centre, offset, process, feasibility, best, log_bayes_factor)
    return belief.fantasize(levels[costs.open][:most])


def subsample(cost: Floats, most: int) -> NDArray[np.int64]:
    """Choose the observations to learn from, in order: all, or the better half of ``most`` and a spread of the rest.

    The spread takes every k-th by rank of cost, so that bad regions stay known. NaN is never chosen.
    """
    known = np.flatnonzero(~np.isnan(cost))
    if len(known) <= most:
        return known
    ranked = known[np.argsort(cost[known], kind="stable")]
    half = most // 2
    spread = half + np.linspace(0, len(ranked) - half - 1, most - half).astype(np.int64)
    return np.sort(np.concatenate([ranked[:half], ranked[spread]]))


def _fit_all(
    geometry: Geometry, data: Observations, trust: float, hyperprior: Hyperprior
) -> list[tuple[Hyperparameters, float]]:
    """Most probable hyperparameters and their log density for each of :data:`DECAYS`, by a part of many data."""
    part = data.take(subsample(data.cost, _MOST_FITTED))
    return [most_probable(geometry, part, trust=trust, hyperprior=hyperprior, decay=decay) for decay in DECAYS]


def _log_evidence(fits: list[tuple[Hyperparameters, float]]) -> float:
    """Logarithm of the probability of the data over all decays, up to a constant."""
    return float(logsumexp([density for _, density in fits]))


def _corrected(process: GaussianProcess, censored: NDArray[np.bool_]) -> GaussianProcess:
    """Correct what a normal error cannot express: values known only to lie above a bound, and outliers."""
    data = process.data
    for _ in range(_CORRECTIONS):
        mean, sd = process.leave_one_out()
        cost, variance = data.cost.copy(), data.variance.copy()
        if censored.any():
            cost[censored] = _truncated_mean(mean[censored], sd[censored], data.cost[censored])
        # As under a t distribution: a run far slower than its neighbours say counts less, the more so the farther.
        surprise = np.where(censored, 0.0, np.maximum(0.0, (data.cost - mean) / sd))
        variance *= np.maximum(1.0, (_OUTLIER_FREEDOM + surprise**2) / (_OUTLIER_FREEDOM + 1))
        corrected = replace(data, cost=cost, variance=variance)
        process = GaussianProcess(process.geometry, corrected, process.hyperparameters, process.trust, process.decay)
    return process


def _truncated_mean(mean: Floats, sd: Floats, bound: Floats) -> Floats:
    """Mean of a normal distribution given that it exceeds a bound."""
    z = (bound - mean) / sd
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-z))
    return np.asarray(mean + sd * hazard, dtype=np.float64)


def _feasibility(
    geometry: Geometry, levels: Levels, history: History, costs: Costs, most: int
) -> GaussianProcess | None:
    """Fit a process to labels, 1 where a configuration worked and -1 where it failed; None if nothing failed.

    Where the program fails at random, a failure says less: its label lies between the two
    (:class:`stripewise.search.policy.failures.Failures`).
    """
    if not costs.failed.any():
        return None
    ended = np.flatnonzero(~np.isnan(costs.known) | costs.failed)
    # All failures first: of the configurations that work there are usually plenty.
    ended = ended[np.argsort(~costs.failed[ended], kind="stable")][:most]
    label = np.where(costs.failed[ended], -1.0, 1.0)
    failures = Failures.of(history)
    if failures.seen:
        # The program fails at random: what has failed may work all the same. What has worked once does work.
        counts = [sum(run.state is State.FAILED for run in history.trials[int(place)].runs) for place in ended]
        chance = np.array([failures.chance(count) for count in counts])
        label = np.where(costs.failed[ended], 2 * chance - 1, 1.0)
    data = Observations(geometry.knots(levels[ended]), label, np.ones(len(ended)), np.zeros(len(ended)))
    fitted = fit(geometry, data.take(np.arange(min(len(ended), _MOST_FITTED))))
    return GaussianProcess(geometry, data, fitted.hyperparameters, 0.0)
