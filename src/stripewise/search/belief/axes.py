"""Where configurations lie: positions on each axis, distances between configurations, and random neighbours."""

from __future__ import annotations

import numpy as np

from stripewise.catalogue.parameter import Parameter, Scale, logarithms
from stripewise.catalogue.space import Levels, Space
from stripewise.search.belief.costs import Floats

_ONE_AXIS = 0.7


def positions(parameter: Parameter) -> Floats:
    """Place the values of a parameter on [0, 1] by its scale, shape ``(k,)``; categories are numbered evenly."""
    count = len(parameter.values)
    if not parameter.ordered:
        return np.arange(count) / max(1, count - 1)
    values = np.asarray(parameter.values, dtype=np.float64)
    if parameter.scale is Scale.LOG2:
        values = logarithms(values)
    return np.asarray((values - values[0]) / ((values[-1] - values[0]) or 1.0), dtype=np.float64)


def features(space: Space, levels: Levels) -> Floats:
    """Numbers for a regressor: one column an ordered or two-valued axis, one column a value for other categories.

    Returns
    -------
    ndarray, shape (n, f)
        All within [0, 1].
    """
    widths = [1 if p.ordered or len(p.values) <= 2 else len(p.values) for p in space.parameters]
    # Made at once: a space may have ten thousand values, and designs are drawn by the hundred.
    found, at, rows = np.zeros((len(levels), sum(widths))), 0, np.arange(len(levels))
    for parameter, column, width in zip(space.parameters, levels.T, widths, strict=True):
        if width == 1:
            found[:, at] = positions(parameter)[column]
        else:
            found[rows, at + column] = 1.0
        at += width
    return found


def embed(space: Space, levels: Levels) -> Floats:
    """Points whose squared Euclidean distance is the sum over axes of squared differences of position.

    Two different categories are 1 apart, as are the ends of an ordered axis.

    Parameters
    ----------
    space : Space
    levels : ndarray, shape (..., d)

    Returns
    -------
    ndarray, shape (..., f)
    """
    flat: Floats = features(space, levels.reshape(-1, levels.shape[-1]))
    weights = []
    for parameter in space.parameters:
        several = not parameter.ordered and len(parameter.values) > 2
        weights += [np.sqrt(0.5)] * len(parameter.values) if several else [1.0]
    points: Floats = flat * np.asarray(weights)
    return points.reshape(*levels.shape[:-1], points.shape[-1])


def squared_distances(a: Floats, b: Floats) -> Floats:
    """Between all pairs of embedded points, ``(..., n, f)`` and ``(..., m, f)`` to ``(..., n, m)``."""
    squares: Floats = np.sum(a**2, axis=-1)[..., :, None] + np.sum(b**2, axis=-1)[..., None, :]
    squares -= 2 * (a @ np.swapaxes(b, -1, -2))
    return np.maximum(squares, 0.0, out=squares)


def neighbours(space: Space, row: Levels, rng: np.random.Generator, count: int) -> Levels:
    """Draw random neighbours of a configuration.

    Each differs on one axis that is active, less often on two or more. Small steps along an ordered axis are likelier,
    in inverse proportion to their length, but every value up to either end can be reached in one; another category is
    as near as any.

    Parameters
    ----------
    space : Space
    row : ndarray, shape (d,)
        Folded.
    rng : numpy.random.Generator
    count : int

    Returns
    -------
    ndarray, shape (count, d)
        Not folded nor checked, and possibly repeated; empty if no axis can be moved.
    """
    movable = np.flatnonzero(space.active(row[None])[0] & (np.asarray(space.shape) > 1))
    if len(movable) == 0:
        return np.empty((0, len(row)), dtype=np.int64)
    steps = np.repeat(row[None], count, axis=0)
    moves = np.minimum(rng.geometric(_ONE_AXIS, size=count), len(movable))
    # The axes with the smallest random keys move.
    rank = np.argsort(np.argsort(rng.random((count, len(movable))), axis=1), axis=1)
    for place, axis in enumerate(movable):
        moving = rank[:, place] < moves
        steps[moving, axis] = _step(space, int(axis), int(row[axis]), rng, int(np.sum(moving)))
    return steps


def _step(space: Space, axis: int, level: int, rng: np.random.Generator, count: int) -> Levels:
    """Other levels of one axis."""
    size = space.shape[axis]
    if not space.parameters[axis].ordered:
        return np.asarray((level + rng.integers(1, size, size=count)) % size, dtype=np.int64)
    above, below = size - 1 - level, level
    up = rng.random(count) < 0.5 if above and below else np.full(count, above > 0)
    room = np.where(up, above, below)
    length = np.minimum(room, np.floor((room + 1.0) ** rng.random(count)).astype(np.int64))
    return np.asarray(level + np.where(up, length, -length), dtype=np.int64)
