"""Initial plans: which configurations to try before anything is known.

A plan is never stored. :func:`complete` fills up whatever the history already holds, so that a sampler which asks for
one point at a time, after failures or from several runners, still ends with one even plan.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from stripewise.search.axes import embed, squared_distances
from stripewise.search.costs import Floats
from stripewise.search.unseen import Seen
from stripewise.spec.space import Levels, Space

Plan = Literal["random", "latin_hypercube", "hybrid"]

_DESIGNS = 32
_ROUNDS = 24
_MOST_ROWS = 32
_MOST_NEIGHBOURS = 256
_SHARPNESS = 10.0


def complete(plan: Plan, space: Space, seen: Seen, rng: np.random.Generator, *, size: int, n: int) -> Levels:
    """Give the next points of a plan that is to have ``size`` points together with those seen.

    Parameters
    ----------
    plan : {"random", "latin_hypercube", "hybrid"}
        ``hybrid`` is a Latin hypercube for as long as the shortest axis still has a value that was not used, and random
        beyond.
    space : Space
    seen : Seen
        What was asked for so far, the default configuration included.
    rng : numpy.random.Generator
    size : int
        Of the whole plan.
    n : int
        How many points are wanted now; no more than what the plan lacks are given.

    Returns
    -------
    ndarray, shape (m, d)
        Feasible, canonical, distinct and unseen; fewer than wanted only if no more are left.
    """
    wanted = min(n, size - len(seen))
    if wanted <= 0:
        return seen.draw(rng, 0)
    if plan == "hybrid":
        size = min(size, min((count for count in space.shape if count > 1), default=1))
    if plan == "random" or size <= len(seen):
        return seen.draw(rng, wanted)
    points = latin_hypercube(space, seen, min(size - len(seen), _MOST_ROWS), rng)[:wanted]
    if len(points) < wanted:
        beyond = Seen(space, seen.levels)
        beyond.add(points)
        points = np.concatenate([points, beyond.draw(rng, wanted - len(points))])
    return points


def latin_hypercube(space: Space, seen: Seen, rows: int, rng: np.random.Generator) -> Levels:
    """Spread new points evenly over every axis and far from one another.

    1. Divide the values of each axis into equal ranges, one for each point, and draw several designs that use the
       ranges as evenly as possible, counting what was seen (McKay, Beckman, Conover, Technometrics 21, 1979).
    2. Take the design with the most usable rows and the largest distances between points, and improve it by exchanging
       values of one axis between two rows (Morris and Mitchell, J. Stat. Plan. Inference 43, 1995).
    3. Replace rows that constraints or folding took away by distant random points.

    Returns
    -------
    ndarray, shape (m, d)
        ``m < rows`` only if no more are left.
    """
    known = seen.levels
    total = len(known) + rows
    columns = [_even_columns(known[:, axis], count, total, rows, rng) for axis, count in enumerate(space.shape)]
    designs = np.stack(columns, axis=-1) if columns else np.zeros((_DESIGNS, rows, 0), dtype=np.int64)
    others = embed(space, known[-_MOST_NEIGHBOURS:])
    quality = _quality(space, designs, others)
    best, value = designs[int(np.argmin(quality))], float(np.min(quality))
    for _ in range(_ROUNDS if rows > 1 else 0):
        changed = _exchange(best, rng)
        quality = _quality(space, changed, others)
        if (lowest := float(np.min(quality))) < value:
            best, value = changed[int(np.argmin(quality))], lowest
    return _repair(space, seen, seen.new(best), rows, rng)


def _even_columns(known: Levels, count: int, total: int, rows: int, rng: np.random.Generator) -> Levels:
    """Levels of one axis for many designs, shape ``(designs, rows)``: the least used ranges of levels come first."""
    ranges = min(count, total)
    used = np.bincount(known * ranges // count, minlength=ranges)
    chosen = np.empty(rows, dtype=np.int64)
    for row in range(rows):
        chosen[row] = rng.choice(np.flatnonzero(used == used.min()))
        used[chosen[row]] += 1
    chosen = rng.permuted(np.tile(chosen, (_DESIGNS, 1)), axis=1)
    # Level l lies in range l * ranges // count: these are the first level of a range and of the one after it.
    first, after = -(-chosen * count // ranges), -(-(chosen + 1) * count // ranges)
    return rng.integers(first, after)


def _exchange(design: Levels, rng: np.random.Generator) -> Levels:
    """Copies of a design, in each of which two rows have exchanged their value on one axis."""
    rows, axes = design.shape
    copies = np.repeat(design[None], _DESIGNS, axis=0)
    index = np.arange(_DESIGNS)
    axis = rng.integers(axes, size=_DESIGNS)
    a = rng.integers(rows, size=_DESIGNS)
    b = (a + rng.integers(1, rows, size=_DESIGNS)) % rows
    copies[index, a, axis], copies[index, b, axis] = design[b, axis], design[a, axis]
    return copies


def _quality(space: Space, designs: Levels, others: Floats) -> Floats:
    """Rank designs, smaller is better, shape ``(designs,)``: first by rows lost, then by crowding."""
    count, rows, axes = designs.shape
    folded = space.fold(designs.reshape(-1, axes))
    usable = space.feasible(folded).reshape(count, rows)
    points = embed(space, folded.reshape(count, rows, axes))
    apart = squared_distances(points, points)
    apart[:, np.arange(rows), np.arange(rows)] = np.inf
    away = squared_distances(points, np.broadcast_to(others, (count, *others.shape)))
    distances = np.concatenate([apart, away], axis=-1)
    usable &= np.min(distances, axis=-1, initial=np.inf) > 1e-9
    # A soft minimum of the distances: the closest pair counts most, but a design is not judged by one pair alone.
    largest = float(sum(size > 1 for size in space.shape)) or 1.0
    closeness = np.sum((np.maximum(distances, 1e-9) / largest) ** (-_SHARPNESS / 2), axis=-1, where=usable[..., None])
    crowding = np.log1p(np.sum(closeness, axis=-1))
    return np.asarray(np.sum(~usable, axis=-1) * 1e6 + crowding, dtype=np.float64)


def _repair(space: Space, seen: Seen, points: Levels, rows: int, rng: np.random.Generator) -> Levels:
    """Replace the rows that constraints or folding took away by the most distant of some random ones."""
    taken = Seen(space, seen.levels)
    taken.add(points)
    while len(points) < rows:
        candidates = taken.draw(rng, _DESIGNS)
        if len(candidates) == 0:
            break
        known = embed(space, taken.levels[-_MOST_NEIGHBOURS:])
        distance = np.min(squared_distances(embed(space, candidates), known), axis=-1, initial=np.inf)
        farthest = candidates[[int(np.argmax(distance))]]
        points = np.concatenate([points, farthest])
        taken.add(farthest)
    return rng.permutation(points)
