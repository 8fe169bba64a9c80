"""Where most is to be gained: the acquisition function over a whole space, or over what is worth a look."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stripewise.model.landscape import TableSpace
from stripewise.search.belief import Belief
from stripewise.search.improvement import expected_improvement
from stripewise.search.unseen import Seen
from stripewise.spec.space import Levels, Space

Search = Literal["auto", "exhaustive", "screened"]

AFFORDABLE = 50_000
_MOST_LISTED = 4_000_000
_PROBES = 20_000
_SAMPLE = 2_000
_STARTS = 12
_MOST_VALUES = 64
_ROUNDS = 20


class Pool:
    """The configurations of a space, listed if they are few enough.

    Parameters
    ----------
    space : Space
    """

    def __init__(self, space: Space) -> None:
        self.space = space

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
        if np.prod(shape, dtype=float) > _MOST_LISTED:
            return None
        rows = np.repeat(space.levels([space.default]), int(np.prod(shape)), axis=0)
        rows[:, moving] = np.stack(np.unravel_index(np.arange(len(rows)), shape), axis=1)
        own = np.all(space.fold(rows) == rows, axis=1)
        rows = rows[own]
        return rows[space.feasible(rows)]


def maximise(pool: Pool, seen: Seen, belief: Belief, rng: np.random.Generator, search: Search) -> Levels:
    """Find the new configuration whose next run promises most.

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) if nothing new is left.
    """
    listed = pool.levels if search != "screened" else None
    if search == "exhaustive" and listed is None:
        listed = pool.space.enumerate()
    if listed is not None and (search == "exhaustive" or len(listed) <= AFFORDABLE):
        rows = seen.new(listed)
        return rows[[int(np.argmax(score(belief, rows)))]] if len(rows) else rows
    return screen(pool, seen, belief, rng)


def score(belief: Belief, rows: Levels) -> NDArray[np.float64]:
    """Expected improvement of each configuration, times the probability that it works."""
    mean, sd = belief.predict(rows)
    return expected_improvement(mean, sd, belief.best) * belief.works(rows)


def screen(pool: Pool, seen: Seen, belief: Belief, rng: np.random.Generator) -> Levels:
    """Score a sample and the neighbourhood of the best known, then climb from the most promising, axis by axis."""
    rows = seen.draw(rng, _SAMPLE)
    if len(rows) == 0:
        return rows
    good = belief.leaders(_STARTS)
    rows = np.concatenate([rows, seen.new(one_step(pool.space, good, rng))])
    gains = score(belief, rows)
    top = rows[np.argsort(-gains)[:_STARTS]]
    best, most = top[:1], float(gains.max())
    for _ in range(_ROUNDS):
        steps = seen.new(one_step(pool.space, top, rng))
        if len(steps) == 0:
            break
        gains = score(belief, steps)
        top = steps[np.argsort(-gains)[:_STARTS]]
        if gains.max() <= most:
            break
        best, most = top[:1], float(gains.max())
    return best


def one_step(space: Space, rows: Levels, rng: np.random.Generator) -> Levels:
    """All configurations that differ from one of the rows on one axis (of axes with very many values, some)."""
    steps = [rows]
    for axis, size in enumerate(space.shape):
        values = np.arange(size) if size <= _MOST_VALUES else np.unique(rng.integers(0, size, size=_MOST_VALUES))
        moved = np.repeat(rows, len(values), axis=0)
        moved[:, axis] = np.tile(values, len(rows))
        steps.append(moved)
    return np.concatenate(steps)
