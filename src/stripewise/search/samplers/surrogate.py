"""Surrogate search: a regressor learns the cost, an acquisition function picks what to run next.

An acquisition function says what another run of a configuration promises; it is large where that is much. Costs are
logarithmic, so an expected improvement of 0.05 means about 5% off the best. The regressors give the uncertainty of
their predictions.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.options import Keywords
from stripewise.plugins import Plugins
from stripewise.search.base import PriorMean, Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.belief.belief import Belief, expect_cost
from stripewise.search.belief.costs import Costs, Floats
from stripewise.search.belief.kernel import Geometry, features, neighbours
from stripewise.search.belief.posterior import expected_improvement
from stripewise.search.samplers.initial import Plan, complete_plan
from stripewise.threads import one_thread
from stripewise.trial import History

Acquisition = Literal["ei", "pi"]
Search = Literal["auto", "exhaustive", "screened"]

_MOST_LISTED = 1_500_000
_AFFORDABLE = 1e9
_PROBES = 20_000
_SAMPLE = 2_000
_STARTS = 10
_MOST_VALUES = 64
_ROUNDS = 12


def acquire(rule: Acquisition, mean: Floats, sd: Floats, best: float, margin: float) -> Floats:
    """Score configurations, larger is more promising.

    Parameters
    ----------
    rule : {"ei", "pi"}
        Expected improvement, or (the logarithm of the) probability of improvement.
    mean, sd : ndarray, shape (n,)
        Of the cost.
    best : float
        Cost of the incumbent.
    margin : float
        Improvements below it do not count.
    """
    if rule == "ei":
        return expected_improvement(mean, sd, best - margin)
    return np.asarray(scipy.special.log_ndtr((best - margin - mean) / np.maximum(sd, 1e-12)), dtype=np.float64)


class Pool:
    """The configurations of a space, listed if they are few enough."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._expected: tuple[PriorMean | None, Floats] | None = None

    @cached_property
    def _moving(self) -> NDArray[np.int64]:
        """Axes that are ever active; the others of a stack mean nothing for the workload at hand."""
        rng = np.random.default_rng(0)
        drawn = np.stack([rng.integers(0, size, size=_PROBES) for size in self.space.shape], axis=1)
        default = self.space.levels([self.space.default])[0]
        return np.flatnonzero(np.any(self.space.fold(drawn) != default, axis=0))

    @cached_property
    def levels(self) -> Levels | None:
        """All distinct feasible configurations, or None if there may be too many to list."""
        space = self.space
        if space.listed or space.cardinality <= _PROBES:
            return space.enumerate()
        moving = self._moving
        shape = [space.shape[int(axis)] for axis in moving]
        if np.prod(shape, dtype=float) > _MOST_LISTED or space.cardinality > 2**62:
            return None
        grid = np.empty((*shape, len(space.shape)), dtype=np.int64)
        grid[:] = space.levels([space.default])[0]
        for place, axis in enumerate(moving):
            grid[..., axis] = np.arange(shape[place]).reshape([-1 if k == place else 1 for k in range(len(shape))])
        rows = grid.reshape(-1, len(space.shape))
        if any(p.active_if is not None or p.same_as_default is not None for p in space.parameters):
            rows = rows[np.all(space.fold(rows) == rows, axis=1)]
        return rows[space.feasible(rows)] if space.constraints else rows

    @cached_property
    def knots(self) -> NDArray[np.int64]:
        """Knots of :attr:`levels`, which take longer to find than a belief takes to score them."""
        assert self.levels is not None
        return Geometry(self.space).knots(self.levels)

    def expected(self, prior: PriorMean | None) -> Floats:
        """Cost of :attr:`levels` that a prior expects; asked for anew with each question, computed once."""
        assert self.levels is not None
        if prior is None:
            return np.zeros(len(self.levels))
        if self._expected is None or self._expected[0] is not prior:
            self._expected = prior, expect_cost(prior, self.space, self.levels)
        return self._expected[1]

    def unseen(self, seen: Seen) -> NDArray[np.bool_]:
        """Say which of :attr:`levels` are new, shape ``(n,)``."""
        assert self.levels is not None
        return ~np.isin(self._numbers, self.space.flat(seen.levels))

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        assert self.levels is not None
        return self.space.flat(self.levels)


def maximise(pool: Pool, seen: Seen, belief: Belief, rng: np.random.Generator, search: Search) -> Levels:
    """Find the new configuration with the largest acquisition function (:func:`score_configurations`).

    1. If the space can be listed, and scoring all of it takes less than about a second (rows times squared observations
       below 10^9) or ``search`` is "exhaustive": score everything, and take the best.
    2. Otherwise: score a sample and climb (:func:`screen_space`).

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) if nothing new is left.
    """
    listed = pool.levels if search != "screened" else None
    if listed is not None and (search == "exhaustive" or len(listed) * belief.observations**2 < _AFFORDABLE):
        gains = np.where(
            pool.unseen(seen), score_configurations(belief, listed, pool.knots, pool.expected(belief.prior)), -1.0
        )
        best = int(np.argmax(gains)) if len(gains) else 0
        return listed[[best]] if len(gains) and gains[best] >= 0 else listed[:0]
    return screen_space(pool.space, seen, belief, rng)


def score_configurations(
    belief: Belief, rows: Levels, knots: NDArray[np.int64] | None = None, prior: Floats | None = None
) -> Floats:
    """Expected improvement of each configuration, times the probability that it works."""
    knots = belief.geometry.knots(rows) if knots is None else knots
    mean, sd = belief.predict(rows, knots, prior)
    return expected_improvement(mean, sd, belief.best) * belief.probability_of_success(rows, knots)


def screen_space(space: Space, seen: Seen, belief: Belief, rng: np.random.Generator) -> Levels:
    """Find a configuration with a large acquisition function in a space too large to be scored.

    1. Score a random sample, and all configurations one step from the best known.
    2. Score all configurations one step from the best of those, and repeat until none is better.

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) if nothing new is left.
    """
    rows = np.concatenate([seen.draw(rng, _SAMPLE), seen.new(list_steps(space, belief.leaders(_STARTS), rng))])
    if len(rows) == 0:
        return rows
    gains = score_configurations(belief, rows)
    for _ in range(_ROUNDS):
        order = np.argsort(-gains, kind="stable")[:_STARTS]
        top, most = rows[order], gains[order]
        steps = seen.new(list_steps(space, top, rng))
        if len(steps) == 0:
            break
        stepped = score_configurations(belief, steps)
        rows, gains = np.concatenate([top, steps]), np.concatenate([most, stepped])
        if stepped.max() <= most[0]:
            break
    return rows[[int(np.argmax(gains))]]


def list_steps(space: Space, rows: Levels, rng: np.random.Generator) -> Levels:
    """All configurations that differ from one of the rows on one axis (of axes with very many values, some)."""
    steps = [rows]
    for axis, size in enumerate(space.shape):
        if size == 1:
            continue
        values = np.arange(size) if size <= _MOST_VALUES else np.unique(rng.integers(0, size, size=_MOST_VALUES))
        moved = np.repeat(rows, len(values), axis=0)
        moved[:, axis] = np.tile(values, len(rows))
        steps.append(moved)
    return np.concatenate(steps)


ENTRY_POINTS = "stripewise.regressors"

_BUILT_IN = {
    "gaussian_process": "sklearn.gaussian_process:GaussianProcessRegressor",
    "random_forest": "sklearn.ensemble:RandomForestRegressor",
    "extra_trees": "sklearn.ensemble:ExtraTreesRegressor",
    "gradient_boosting": "sklearn.ensemble:GradientBoostingRegressor",
    "decision_tree": "sklearn.tree:DecisionTreeRegressor",
    "bayesian_ridge": "sklearn.linear_model:BayesianRidge",
    "support_vector": "sklearn.svm:SVR",
}


def _regressors() -> Plugins:
    from sklearn.base import RegressorMixin  # noqa: PLC0415  slow import

    return Plugins("regressor", ENTRY_POINTS, RegressorMixin, _BUILT_IN)


def regressor_names() -> list[str]:
    """List all names that :func:`make_regressor` knows."""
    return _regressors().names()


Predictor = Callable[[Floats], tuple[Floats, Floats]]
"""A fitted regressor: points ``(n, f)`` to mean and standard deviation of the cost, each ``(n,)``."""


def make_regressor(name: str, options: Mapping[str, Any], columns: int, rng: np.random.Generator) -> Any:
    """Make an unfitted scikit-learn regressor.

    Parameters
    ----------
    name : str
        One of :func:`regressor_names`. It comes from experiment files and requests, so it never names a module.
    options : mapping
        Arguments of the class.
    columns : int
        Features of a point, for the length scales of a Gaussian process.
    rng : numpy.random.Generator
        Seeds a regressor that has a ``random_state``.

    Raises
    ------
    UserError
        Unknown name or argument.
    """
    cls = _regressors().load(name)
    arguments: dict[str, Any] = dict(options)
    if name == "gaussian_process" and "kernel" not in arguments:
        arguments = {"kernel": _kernel(columns), "normalize_y": True, **arguments}
    try:
        regressor: Any = cls(**arguments)
    except (TypeError, ValueError) as error:
        raise UserError(f"regressor '{name}': {error}", "correct regressor_options") from error
    if "random_state" in regressor.get_params() and "random_state" not in arguments:
        regressor.set_params(random_state=int(rng.integers(2**31)))
    return regressor


def _kernel(columns: int) -> Any:
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # noqa: PLC0415  slow import

    shape = Matern(np.full(columns, 0.5), length_scale_bounds=(0.05, 20.0), nu=2.5)
    return ConstantKernel(1.0, (0.05, 20.0)) * shape + WhiteKernel(0.01, (1e-4, 1.0))


def fit_predictor(regressor: Any, x: Floats, y: Floats, copies: int, rng: np.random.Generator) -> Predictor:
    """Fit a regressor, and find how uncertain its predictions are.

    The standard deviation is the regressor's own if it predicts one, that over the trees of a forest, or else that over
    ``copies`` fits to bootstrap samples.

    Raises
    ------
    UserError
        If the regressor cannot be fitted to these data.
    """
    try:
        with one_thread():
            return _fit_predictor(regressor, x, y, copies, rng)
    except (ValueError, TypeError) as error:
        what = f"regressor {type(regressor).__name__} cannot learn: {error}"
        raise UserError(what, "use another regressor or other regressor_options") from error


def _fit_predictor(regressor: Any, x: Floats, y: Floats, copies: int, rng: np.random.Generator) -> Predictor:
    from sklearn.base import clone  # noqa: PLC0415  slow import
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor  # noqa: PLC0415

    if "return_std" in inspect.signature(regressor.predict).parameters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kernels at their bounds say so at every fit
            fitted = regressor.fit(x, y)

        def predict_both(points: Floats) -> tuple[Floats, Floats]:
            mean, sd = fitted.predict(points, return_std=True)
            return np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)

        return predict_both
    if isinstance(regressor, RandomForestRegressor | ExtraTreesRegressor):
        members = regressor.fit(x, y).estimators_
    else:
        samples = [rng.integers(len(x), size=len(x)) for _ in range(copies)]
        members = [clone(regressor).fit(x[rows], y[rows]) for rows in samples]

    def predict(points: Floats) -> tuple[Floats, Floats]:
        each = [np.asarray(member.predict(points), dtype=np.float64) for member in members]
        return np.mean(each, axis=0), np.std(each, axis=0)

    return predict


class SurrogateOptions(SamplerOptions):
    """Options of ``surrogate``."""

    regressor: str = Field(
        default="gaussian_process",
        description="gaussian_process, random_forest, extra_trees, gradient_boosting, decision_tree, bayesian_ridge, "
        "support_vector, or one that a plug-in registers",
    )
    regressor_options: Keywords = Field(default_factory=dict, description="arguments of the regressor")
    acquisition: Acquisition = Field(default="ei", description="expected improvement, or probability of improvement")
    margin: float = Field(default=0.01, ge=0, le=10, description="a smaller gain counts for nothing (0.01: 1%)")
    initial: int = Field(default=8, ge=1, le=10_000, description="points tried before the regressor is asked")
    plan: Plan = Field(default="latin_hypercube", description="how the first points are spread")
    candidates: int = Field(default=2048, ge=1, le=1_000_000, description="most configurations scored at a time")
    copies: int = Field(default=16, ge=2, le=1000, description="bootstrap fits where a regressor gives no deviation")
    observations: int = Field(default=200, ge=2, le=1_000_000, description="most trials that the regressor learns from")

    @model_validator(mode="after")
    def _exists(self) -> SurrogateOptions:
        # Checked before the first run, not when the first points are through.
        make_regressor(self.regressor, self.regressor_options, columns=1, rng=np.random.default_rng(0))
        return self


class SurrogateSampler(Sampler):
    """Sequential model-based optimisation with a regressor (Hutter, Hoos, Leyton-Brown, LION 5, 2011).

    1. Try the points of an initial plan.
    2. Fit the regressor to the costs. A failed trial counts as the worst cost seen, a pruned one as its bound, and one
       still running as the median cost, so that simultaneous runs explore different places.
    3. Score candidates (everything new, or a sample and the neighbours of the best) by the acquisition function, and
       take the best; of equal ones, any.
    """

    name: ClassVar[str] = "surrogate"
    uses_prior: ClassVar[bool] = True
    Options: ClassVar[type[SamplerOptions]] = SurrogateOptions
    options: SurrogateOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen, levels, cost = self._read(space, history)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            if len(seen) < self.options.initial:
                point = complete_plan(self.options.plan, space, seen, rng, size=self.options.initial, n=1)
            elif len(cost) == 0:
                point = seen.draw(rng, 1)
            else:
                point = self._pick(space, seen, levels, cost, rng)
            if len(point) == 0:
                break
            seen.add(point)
            if len(cost):
                levels, cost = np.concatenate([levels, point]), np.append(cost, np.median(cost))
            suggestions += suggest(space, point)
        return suggestions

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """See :meth:`stripewise.search.base.Sampler.expected_improvement`; None until the first points are through."""
        seen, levels, cost = self._read(space, history)
        if len(seen) < self.options.initial or len(cost) == 0:
            return None
        rng = np.random.default_rng(len(history.trials))
        candidates = self._candidates(space, seen, levels, cost, rng)
        if len(candidates) == 0:
            return 0.0
        predict, best = self._learn(space, levels, cost, rng)
        return float(np.max(expected_improvement(*predict(candidates), best)))

    def expected_cost(self, space: Space, levels: Levels) -> Floats:
        """What the prior expects, shape ``(n,)``; 0 without one."""
        return np.zeros(len(levels)) if self.prior is None else -self.prior(space, levels)

    @staticmethod
    def _read(space: Space, history: History) -> tuple[Seen, Levels, Floats]:
        """What was asked for, and its costs without gaps; no costs if none is known."""
        levels = space.levels([trial.configuration for trial in history.trials])
        costs = Costs.of(history)
        known = costs.known
        if np.all(np.isnan(known)):
            return Seen(space, levels), levels, np.empty(0)
        worst, median = np.nanmax(known), np.nanmedian(known)
        return Seen(space, levels), levels, np.where(costs.failed, worst, np.where(costs.open, median, known))

    def _pick(self, space: Space, seen: Seen, levels: Levels, cost: Floats, rng: np.random.Generator) -> Levels:
        candidates = self._candidates(space, seen, levels, cost, rng)
        if len(candidates) <= 1:
            return candidates
        predict, best = self._learn(space, levels, cost, rng)
        score = acquire(self.options.acquisition, *predict(candidates), best, self.options.margin)
        # A forest scores many configurations alike: among equals none is preferred.
        return candidates[[rng.choice(np.flatnonzero(score >= score.max()))]]

    def _learn(
        self, space: Space, levels: Levels, cost: Floats, rng: np.random.Generator
    ) -> tuple[Callable[[Levels], tuple[Floats, Floats]], float]:
        """Fit the regressor; give what predicts mean and deviation of the cost, and the least mean of what was run."""
        kept = np.arange(len(cost))
        if len(cost) > self.options.observations:
            half = self.options.observations // 2
            kept = np.union1d(np.argsort(cost, kind="stable")[:half], kept[half - self.options.observations :])
        levels, cost = levels[kept], cost[kept]
        x = features(space, levels)
        regressor = make_regressor(self.options.regressor, self.options.regressor_options, x.shape[1], rng)
        predictor = fit_predictor(regressor, x, cost - self.expected_cost(space, levels), self.options.copies, rng)

        def predict(rows: Levels) -> tuple[Floats, Floats]:
            mean, sd = predictor(features(space, rows))
            return mean + self.expected_cost(space, rows), sd

        # The best by belief: a single lucky run would hide what can still be gained.
        return predict, float(np.min(predict(levels)[0]))

    def _candidates(self, space: Space, seen: Seen, levels: Levels, cost: Floats, rng: np.random.Generator) -> Levels:
        """What to score: everything new where that is little, else a random sample and neighbours of the best."""
        most = self.options.candidates
        if space.cardinality <= 4 * most:
            return rng.permutation(seen.new(space.enumerate()))[:most]
        best = levels[int(np.argmin(cost))]
        near = seen.new(neighbours(space, best, rng, max(1, most // 4)))
        return seen.new(np.concatenate([near, seen.draw(rng, most - most // 4)]))[:most]
