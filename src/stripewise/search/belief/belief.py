"""What ``auto`` believes after a history: cost and feasibility of every configuration.

Before the first run, it believes the expert knowledge of the stack files and the trials of earlier experiments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration, Value, place_of
from stripewise.catalogue.parameter import Parameter, Scale, logarithms
from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.search.base import PriorMean
from stripewise.search.belief.costs import Costs, Floats
from stripewise.search.belief.gp import GaussianProcess, Hyperprior, ModelAverage, Observations, find_most_probable, fit
from stripewise.search.belief.kernel import DECAYS, Geometry, Hyperparameters
from stripewise.search.belief.posterior import RepeatNoise
from stripewise.search.policy.resampling import Failures
from stripewise.trial import History, Role, State, Trial

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
        return expect_cost(self.prior, self.geometry.space, levels) - self.offset

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

        Callers that already have ``knots`` and ``prior`` (see :func:`expect_cost`) hand them over.
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
        return np.asarray(scipy.special.ndtr(mean / np.sqrt(_LABEL_VARIANCE + sd**2)), dtype=np.float64)

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


def expect_cost(prior: PriorMean | None, space: Space, levels: Levels) -> Floats:
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
       (:func:`stripewise.search.belief.gp.find_most_probable`), and average them.
    4. Correct pruned runs and outliers by what the other observations predict.
    5. If something failed: fit a process to the labels "worked" and "failed".
    6. Count trials that are pending or running as if they cost what is expected.

    Parameters
    ----------
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
    knots, cost, prior_cost = geometry.knots(levels[kept]), costs.known[kept], expect_cost(prior, space, levels[kept])
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
    process = replace(average, processes=tuple(_correct_process(one, censored) for one in average.processes))
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
    return [find_most_probable(geometry, part, trust=trust, hyperprior=hyperprior, decay=decay) for decay in DECAYS]


def _log_evidence(fits: list[tuple[Hyperparameters, float]]) -> float:
    """Logarithm of the probability of the data over all decays, up to a constant."""
    return float(scipy.special.logsumexp([density for _, density in fits]))


def _correct_process(process: GaussianProcess, censored: NDArray[np.bool_]) -> GaussianProcess:
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
    hazard = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - scipy.special.log_ndtr(-z))
    return np.asarray(mean + sd * hazard, dtype=np.float64)


def _feasibility(
    geometry: Geometry, levels: Levels, history: History, costs: Costs, most: int
) -> GaussianProcess | None:
    """Fit a process to labels, 1 where a configuration worked and -1 where it failed; None if nothing failed.

    Where the program fails at random, a failure says less: its label lies between the two
    (:class:`stripewise.search.policy.resampling.Failures`).
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
        tried = [history.trials[int(place)] for place in ended]
        counts = [sum(run.state is State.FAILED for run in trial.runs) for trial in tried]
        # What has broken a limit of the objective once is no answer.
        chance = np.array([0.0 if trial.broken else failures.chance(n) for trial, n in zip(tried, counts, strict=True)])
        label = np.where(costs.failed[ended], 2 * chance - 1, 1.0)
    data = Observations(geometry.knots(levels[ended]), label, np.ones(len(ended)), np.zeros(len(ended)))
    fitted = fit(geometry, data.take(np.arange(min(len(ended), _MOST_FITTED))))
    return GaussianProcess(geometry, data, fitted.hyperparameters, 0.0)


_OBSERVATIONS = 200
_TRUST = 0.5
_DOUBLINGS = 4.0
_UNKNOWN = 0.25
_KINDS = ("operation", "layout", "collective", "file_per_process", "api", "driver", "file_system")
_SIZES = ("nodes", "processes_per_node", "file_size", "transfer_size", "piece_size")


def knowledge_prior(space: Space, levels: Levels) -> NDArray[np.float64]:
    """Expected log-performance from :attr:`stripewise.catalogue.space.Space.knowledge`; a :class:`PriorMean`.

    Shapes: levels ``(n, d)``.

    Returns
    -------
    ndarray, shape (n,)
        Sum of the logarithms of the gains whose condition holds; 0 where nothing is known.
    """
    gain = np.zeros(len(levels))
    columns = space.columns(space.fold(levels))
    for piece in space.knowledge:
        holds = np.broadcast_to(np.asarray(piece.condition(columns), dtype=bool), gain.shape)
        gain += np.log(piece.gain) * holds
    return gain


@dataclass(frozen=True)
class Earlier:
    """An experiment that has ended.

    Attributes
    ----------
    default : mapping
        What acted there where nothing was set, by name.
    history : History
        Of the same objective; its configurations may lack parameters of this experiment's space and have others.
    """

    workload: Workload
    default: Mapping[str, Value]
    history: History


def compare_workloads(one: Workload, other: Workload) -> float:
    """How much a workload says about another, 1 for the same.

    It falls to 1/e with each word of the field that differs, and with each size that differs by a factor of 16.
    """
    a, b = one.model_dump(), other.model_dump()
    apart = sum(_measure_apart(a[name], b[name], a[name] != b[name]) for name in _KINDS)
    for name in _SIZES:
        both = a[name] and b[name]
        apart += _measure_apart(
            a[name], b[name], min(1.0, abs(np.log2(a[name] / b[name])) / _DOUBLINGS) if both else 1.0
        )
    return float(np.exp(-apart))


def _measure_apart(a: object, b: object, distance: float) -> float:
    if a is None and b is None:
        return 0.0
    return _UNKNOWN if a is None or b is None else float(distance)


def translate(space: Space, earlier: Earlier) -> History:
    """Translate earlier trials to this experiment's space, as a history; those that it cannot express are left out.

    A withdrawn number becomes the nearest that is offered. Trials that have become one keep all their runs.
    """
    found: dict[bytes, Trial] = {}
    for trial in earlier.history.trials:
        if trial.role is Role.REFERENCE or not (trial.values or trial.bounds):
            continue
        values = earlier.default if trial.role is Role.DEFAULT else trial.configuration
        near = {p.name: _find_nearest(p, values.get(p.name, p.default)) for p in space.parameters}
        known = {name: value for name, value in near.items() if value is not None}
        if len(known) < len(near):
            continue
        row = space.levels([known])
        same = found.get(row.tobytes())
        if same is None:
            number = len(found)
            found[row.tobytes()] = Trial(number, Configuration(space.configuration(row[0])), runs=trial.runs)
        else:
            found[row.tobytes()] = replace(same, runs=(*same.runs, *trial.runs))
    return History(earlier.history.objective, tuple(found.values()))


def _find_nearest(parameter: Parameter, value: Value) -> Value | None:
    place = place_of(value, parameter.values)
    if place is not None:
        return parameter.values[place]
    if not parameter.ordered or isinstance(value, str | bool):
        return None
    offered = np.asarray(parameter.values, dtype=np.float64)
    if parameter.scale is Scale.LOG2 and value > 0:
        return parameter.values[int(np.argmin(np.abs(logarithms(offered) - np.log2(float(value)))))]
    return parameter.values[int(np.argmin(np.abs(offered - float(value))))]


class EarlierPrior:
    """The prior mean of earlier experiments, each weighed by the similarity of its workload to this one's.

    Each experiment has a belief of its own, which says nothing where it has not been. What the weights leave open up
    to one goes to the base: a single experiment with a distant workload moves it only a little. (Weighted ensembles of
    processes: Wistuba, Schilling, Schmidt-Thieme, Machine Learning 107, 2018.)

    Parameters
    ----------
    workload : Workload
        This experiment's.
    base : PriorMean, optional
        What is expected without them.
    """

    def __init__(
        self, space: Space, workload: Workload, earlier: Sequence[Earlier], base: PriorMean | None = None
    ) -> None:
        self.base = base
        self.default = space.levels([space.default])
        parts: list[tuple[float, Belief]] = []
        for one in earlier:
            belief = believe(space, translate(space, one), base, trust=_TRUST, most=_OBSERVATIONS)
            if belief is not None:
                parts.append((compare_workloads(one.workload, workload), belief))
        total = max(1.0, sum(weight for weight, _ in parts))
        self.parts = [(weight / total, belief) for weight, belief in parts]

    def __call__(self, space: Space, levels: Levels) -> NDArray[np.float64]:
        """See :class:`stripewise.search.base.PriorMean`: relative to the default of each experiment."""
        left = 1.0 - sum(weight for weight, _ in self.parts)
        expected = np.zeros(len(levels))
        if self.base is not None:
            expected += left * (self.base(space, levels) - self.base(space, self.default))
        for weight, belief in self.parts:
            expected -= weight * (belief.mean(levels) - belief.mean(self.default))
        return expected
