"""Steps from one configuration to others near it."""

from __future__ import annotations

import numpy as np

from stripewise.spec.space import Levels, Space

_ONE_AXIS = 0.7


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
