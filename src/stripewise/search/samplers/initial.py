"""Initial plans: which configurations to try before anything is known.

A plan is never stored. :func:`complete_plan` fills up whatever the history already holds, so that a sampler which asks
for one point at a time, after failures or from several runners, still ends with one even plan.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.grid import Levels, levels_at
from stripewise.catalogue.space import Space
from stripewise.search.base import PriorMean, Seen
from stripewise.search.belief.costs import Floats
from stripewise.search.belief.kernel import embed, squared_distances

Plan = Literal["random", "latin_hypercube", "hybrid"]

_DESIGNS = 32
_ROUNDS = 24
_MOST_ROWS = 32
_MOST_NEIGHBOURS = 256
_SHARPNESS = 10.0
_MOST_COMBINED = 4096
_TOLD_APART = 0.01


def complete_plan(
    plan: Plan,
    space: Space,
    seen: Seen,
    rng: np.random.Generator,
    *,
    size: int,
    n: int,
    prior: PriorMean | None = None,
) -> Levels:
    """Give the next points of a plan that is to have ``size`` points together with those seen.

    Points that cover the strong switches come first (:func:`next_switch`).

    Parameters
    ----------
    plan : {"random", "latin_hypercube", "hybrid"}
        ``hybrid`` is a Latin hypercube for as long as the shortest axis still has a value that was not used, and random
        beyond.
    seen : Seen
        What was asked for so far, the default configuration included.
    size : int
        Of the whole plan.
    n : int
        How many points are wanted now; no more than what the plan lacks are given.
    prior : PriorMean, optional
        See :func:`next_switch`.

    Returns
    -------
    ndarray, shape (m, d)
        Feasible, canonical, distinct and unseen; fewer than wanted only if no more are left.
    """
    wanted = min(n, size - len(seen))
    if wanted <= 0:
        return seen.draw(rng, 0)
    switch = next_switch(space, seen, prior)
    if len(switch):
        seen = Seen(space, np.concatenate([seen.levels, switch]))
        rest = complete_plan(plan, space, seen, rng, size=size, n=wanted - 1, prior=prior)
        return np.concatenate([switch, rest])
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


def next_switch(space: Space, seen: Seen, prior: PriorMean | None = None, *, trusted: bool = False) -> Levels:
    """Give a configuration with strong switches that were not tried yet.

    A stack file names the values that change the most (:attr:`~stripewise.catalogue.parameter.Parameter.switch`). Each
    of them is to be tried where it acts, in as few runs as possible:

    1. Combine the default and the switches of all parameters that have some.
    2. A combination covers the values of its parameters that are active in it. Take one that covers the most values
       that no configuration seen so far covers.
    3. Of several, take the one in which most of the parameters that these values depend on are switched as well (the
       number of aggregators shows where aggregation is on for certain), then the one that the prior expects most of,
       then the one that changes the fewest parameters.

    Parameters
    ----------
    trusted : bool
        Leave out parameters whose switches the prior tells apart: the measurements agree with it.

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) where all are covered.
    """
    default = space.levels([space.default])[0]
    targets = _switch_targets(space, default)
    rows = _combine_switches(space, default, targets)
    if trusted and prior is not None:
        targets = [target for target in targets if not _told_apart(space, rows, default, target[0], prior)]
    if not targets:
        return rows[:0]
    rows = seen.new(rows)
    adds = _find_covered(space, rows, targets) & ~np.any(_find_covered(space, seen.levels, targets), axis=0)
    if not adds.any():
        return rows[:0]
    changed = rows != default
    support = np.zeros(len(rows))
    for place, (axis, _) in enumerate(targets):
        condition = space.parameters[axis].active_if
        needs = [space.names.index(name) for name in (condition.names if condition else ()) if name in space.names]
        support += adds[:, place] * np.sum(changed[:, needs], axis=1)
    cost = np.zeros(len(rows)) if prior is None else -np.round(prior(space, rows), 9)
    order = np.lexsort((np.sum(changed, axis=1), cost, -support, -np.sum(adds, axis=1)))
    return rows[order[:1]]


def _switch_targets(space: Space, default: Levels) -> list[tuple[int, int]]:
    """Axis and position of each strong switch; of an end, the outermost position that the constraints allow."""
    targets: list[tuple[int, int]] = []
    for axis, parameter in enumerate(space.parameters):
        for levels in parameter.switch_levels:
            rows = np.tile(default, (len(levels), 1))
            rows[:, axis] = levels
            targets += [(axis, levels[int(k)]) for k in np.flatnonzero(space.feasible(rows))[:1]]
    return list(dict.fromkeys(targets))


def _combine_switches(space: Space, default: Levels, targets: list[tuple[int, int]]) -> Levels:
    """All feasible combinations of the default and the switches, folded; of very many, a fixed sample."""
    axes = list(dict.fromkeys(axis for axis, _ in targets))
    choices = [np.array([default[axis], *(position for own, position in targets if own == axis)]) for axis in axes]
    shape = tuple(len(choice) for choice in choices)
    count = math.prod(shape)
    if count <= _MOST_COMBINED:
        picks = levels_at(np.arange(count), shape)
    else:
        picks = np.random.default_rng(0).integers(0, shape, size=(_MOST_COMBINED, len(shape)))
    rows = np.tile(default, (len(picks), 1))
    for place, axis in enumerate(axes):
        rows[:, axis] = choices[place][picks[:, place]]
    rows = np.unique(space.fold(rows), axis=0)
    return rows[space.feasible(rows)]


def _find_covered(space: Space, rows: Levels, targets: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Say which switches act in which rows, shape ``(rows, switches)``."""
    axes, levels = (np.array(part, dtype=np.int64) for part in zip(*targets, strict=True))
    return np.asarray((rows[:, axes] == levels) & space.active(rows)[:, axes], dtype=bool)


def _told_apart(space: Space, rows: Levels, default: Levels, axis: int, prior: PriorMean) -> bool:
    """Whether the prior expects something else where a parameter is switched than where it is at its default."""
    plain = np.array(rows)
    plain[:, axis] = default[axis]
    difference = prior(space, rows) - prior(space, space.fold(plain))
    return bool(np.max(np.abs(difference), initial=0.0) > _TOLD_APART)


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
    # Level l lies in range l * ranges // count: these are the first position of a range and of the one after it.
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
