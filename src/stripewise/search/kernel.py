"""How alike two configurations are: one correlation an axis, multiplied; inactive parameters contribute nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stripewise.search.axes import positions
from stripewise.search.costs import Floats
from stripewise.spec.parameter import Parameter
from stripewise.spec.space import Levels, Space

_MOST_KNOTS = 256
# Of the same length it reaches 1.7 times as far as the exponential: an even rise is told by its ends. Better by
# measurement than Matern's own root of 5 (docs/benchmarks/search-notes.md).
_REACH = 0.7 * np.sqrt(5)


@dataclass(frozen=True)
class Axis:
    """One parameter as the kernel sees it.

    Attributes
    ----------
    distance : ndarray, shape (k, k)
        Between its knots; for categories 0 or infinity.
    knot : ndarray of int, shape (levels,)
        The knot of each level (axes with very many values are rounded to a few hundred knots).
    ordered : bool
        Whether a length scale can be learned.
    """

    distance: Floats
    knot: NDArray[np.int64]
    ordered: bool

    @classmethod
    def of(cls, parameter: Parameter) -> Axis:
        """Place the values; on an ordered axis half by scale and half by rank."""
        count = len(parameter.values)
        if not parameter.ordered or count <= 2:
            knots = np.arange(count)
            return cls(np.where(knots[:, None] == knots, 0.0, np.inf), knots, False)
        spread = 0.5 * positions(parameter) + 0.5 * np.linspace(0, 1, count)
        if count <= _MOST_KNOTS:
            return cls(np.abs(spread[:, None] - spread), np.arange(count), True)
        grid = np.linspace(0, 1, _MOST_KNOTS)
        knot = np.round(spread * (_MOST_KNOTS - 1)).astype(np.int64)
        return cls(np.abs(grid[:, None] - grid), knot, True)


class Geometry:
    """The axes of a space, and configurations as knots on them.

    Parameters
    ----------
    space : Space
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.moving = np.flatnonzero(np.asarray(space.shape) > 1)
        self.axes = [Axis.of(space.parameters[int(index)]) for index in self.moving]

    @cached_property
    def ordered(self) -> NDArray[np.int64]:
        """Indices (among the moving axes) of those with a length scale."""
        return np.flatnonzero([axis.ordered for axis in self.axes])

    def knots(self, levels: Levels) -> NDArray[np.int64]:
        """Knot of each configuration on each moving axis, one past the last where it is inactive, ``(n, a)``."""
        if len(self.axes) == 0:
            return np.empty((len(levels), 0), dtype=np.int64)
        result = levels[:, self.moving]
        for place, axis in enumerate(self.axes):
            if len(axis.knot) > len(axis.distance):
                result[:, place] = axis.knot[result[:, place]]
        if any(self.space.parameters[int(i)].active_if is not None for i in self.moving):
            active = self.space.active(levels)[:, self.moving]
            result = np.where(active, result, [len(axis.distance) for axis in self.axes])
        return result


Decay = Callable[[Floats, float], tuple[Floats, Floats]]
"""Gives the correlation at a distance, for a length, and its derivative by the logarithm of the length."""


def exponential(distance: Floats, length: float) -> tuple[Floats, Floats]:
    """Correlation of settings that act in steps (a buffer fits or does not); a :data:`Decay`.

    What is known of one value says little of the slope. Multiplied over axes it is the kernel of random partitions,
    which trees draw from.
    """
    ratio = distance / length
    value = np.exp(-ratio)
    return value, np.where(np.isfinite(ratio), ratio, 0.0) * value


def matern(distance: Floats, length: float) -> tuple[Floats, Floats]:
    """Correlation of settings that act evenly (more targets, more bandwidth): Matern's with 5/2; a :data:`Decay`."""
    apart = np.isinf(distance)
    reach = _REACH * np.where(apart, 0.0, distance) / length
    value = np.where(apart, 0.0, np.exp(-reach))
    return (1 + reach + reach**2 / 3) * value, (reach**2 + reach**3) / 3 * value


DECAYS: tuple[Decay, ...] = (exponential, matern)


def with_inactive(table: Floats) -> Floats:
    """Add the knot of an inactive parameter to a table of correlations, ``(k, k)`` to ``(k + 1, k + 1)``.

    Inactive is as like every value as the values are on average alike to it, so that switching a parameter off moves a
    configuration by what its switch says and no more. As a kernel: the feature of an inactive parameter is the mean of
    those of its values, so the result stays positive definite.
    """
    mean = np.mean(table, axis=1, keepdims=True)
    corner = np.ones((1, 1)) if table[0, 0] == 1.0 else np.zeros((1, 1))
    return np.block([[table, mean], [mean.T, corner]])
