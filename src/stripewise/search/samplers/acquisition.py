"""Acquisition functions: what another run of a configuration promises, and where in a space it promises most.

All of them give large numbers to promising configurations. Costs are logarithmic, so an expected improvement of 0.05
means about 5% off the best.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from stripewise.catalogue.space import Levels, Space
from stripewise.models.landscape import TableSpace
from stripewise.search.base import PriorMean, Seen
from stripewise.search.belief.belief import Belief, expected
from stripewise.search.belief.costs import Floats
from stripewise.search.belief.kernel import Geometry
from stripewise.search.belief.posterior import expected_improvement

Acquisition = Literal["ei", "pi", "lcb"]
Search = Literal["auto", "exhaustive", "screened"]

_MOST_LISTED = 1_500_000
_AFFORDABLE = 1e9
_PROBES = 20_000
_SAMPLE = 2_000
_STARTS = 10
_MOST_VALUES = 64
_ROUNDS = 12


def acquire(rule: Acquisition, mean: Floats, sd: Floats, best: float, *, margin: float, width: float) -> Floats:
    """Score configurations, larger is more promising.

    Parameters
    ----------
    rule : {"ei", "pi", "lcb"}
        Expected improvement, (the logarithm of the) probability of improvement, or lower confidence bound.
    mean, sd : ndarray, shape (n,)
        Of the cost.
    best : float
        Cost of the incumbent.
    margin : float
        ``ei``, ``pi``: improvements below it do not count.
    width : float
        ``lcb``: standard deviations below the mean.
    """
    if rule == "ei":
        return expected_improvement(mean, sd, best - margin)
    if rule == "pi":
        return np.asarray(log_ndtr((best - margin - mean) / np.maximum(sd, 1e-12)), dtype=np.float64)
    return width * sd - mean


class Pool:
    """The configurations of a space, listed if they are few enough.

    Parameters
    ----------
    space : Space
    """

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
        if isinstance(space, TableSpace) or space.cardinality <= _PROBES:
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
            self._expected = prior, expected(prior, self.space, self.levels)
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
    """Find the new configuration with the largest acquisition function (:func:`score`).

    1. If the space can be listed, and scoring all of it takes less than about a second (rows times squared observations
       below 10^9) or ``search`` is "exhaustive": score everything, and take the best.
    2. Otherwise: score a sample and climb (:func:`screen`).

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) if nothing new is left.
    """
    listed = pool.levels if search != "screened" else None
    if listed is not None and (search == "exhaustive" or len(listed) * belief.observations**2 < _AFFORDABLE):
        gains = np.where(pool.unseen(seen), score(belief, listed, pool.knots, pool.expected(belief.prior)), -1.0)
        best = int(np.argmax(gains)) if len(gains) else 0
        return listed[[best]] if len(gains) and gains[best] >= 0 else listed[:0]
    return screen(pool.space, seen, belief, rng)


def score(belief: Belief, rows: Levels, knots: NDArray[np.int64] | None = None, prior: Floats | None = None) -> Floats:
    """Expected improvement of each configuration, times the probability that it works."""
    knots = belief.geometry.knots(rows) if knots is None else knots
    mean, sd = belief.predict(rows, knots, prior)
    return expected_improvement(mean, sd, belief.best) * belief.probability_of_success(rows, knots)


def screen(space: Space, seen: Seen, belief: Belief, rng: np.random.Generator) -> Levels:
    """Find a configuration with a large acquisition function in a space too large to be scored.

    1. Score a random sample, and all configurations one step from the best known.
    2. Score all configurations one step from the best of those, and repeat until none is better.

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) if nothing new is left.
    """
    rows = np.concatenate([seen.draw(rng, _SAMPLE), seen.new(one_step(space, belief.leaders(_STARTS), rng))])
    if len(rows) == 0:
        return rows
    gains = score(belief, rows)
    for _ in range(_ROUNDS):
        order = np.argsort(-gains, kind="stable")[:_STARTS]
        top, most = rows[order], gains[order]
        steps = seen.new(one_step(space, top, rng))
        if len(steps) == 0:
            break
        stepped = score(belief, steps)
        rows, gains = np.concatenate([top, steps]), np.concatenate([most, stepped])
        if stepped.max() <= most[0]:
            break
    return rows[[int(np.argmax(gains))]]


def one_step(space: Space, rows: Levels, rng: np.random.Generator) -> Levels:
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
