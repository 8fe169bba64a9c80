"""The kernel over configurations: one correlation for each axis, multiplied, and its hyperparameters.

Where configurations lie: positions on each axis, distances between configurations, and random neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

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

    Shapes: levels ``(..., d)``; returns ``(..., f)``.
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
    row : ndarray, shape (d,)
        Folded.

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


def _step(space: Space, axis: int, position: int, rng: np.random.Generator, count: int) -> Levels:
    """Other levels of one axis."""
    size = space.shape[axis]
    if not space.parameters[axis].ordered:
        return np.asarray((position + rng.integers(1, size, size=count)) % size, dtype=np.int64)
    above, below = size - 1 - position, position
    up = rng.random(count) < 0.5 if above and below else np.full(count, above > 0)
    room = np.where(up, above, below)
    length = np.minimum(room, np.floor((room + 1.0) ** rng.random(count)).astype(np.int64))
    return np.asarray(position + np.where(up, length, -length), dtype=np.int64)


_MOST_KNOTS = 256
# Of the same length it reaches 1.7 times as far as the exponential: an even rise is told by its ends. Better by
# measurement than Matern's own root of 5 (benchmarks/notes/search-notes.md).
_REACH = 0.7 * np.sqrt(5)


@dataclass(frozen=True)
class KernelAxis:
    """One parameter as the kernel sees it.

    Attributes
    ----------
    distance : ndarray, shape (k, k)
        Between its knots; for categories 0 or infinity.
    knot : ndarray of int, shape (levels,)
        The knot of each position. An axis with very many values is rounded to a few hundred knots.
    ordered : bool
        Whether a length scale can be learned.
    """

    distance: Floats
    knot: NDArray[np.int64]
    ordered: bool

    @classmethod
    def of(cls, parameter: Parameter) -> KernelAxis:
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
    """The axes of a space, and configurations as knots on them."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.moving = np.flatnonzero(np.asarray(space.shape) > 1)
        self.axes = [KernelAxis.of(space.parameters[int(index)]) for index in self.moving]

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


Decay = Callable[[Floats, float | Floats], tuple[Floats, Floats]]
"""Maps distances and length scales (one, or one for each) to correlations and their derivatives by the logarithm of the
length scale."""


def exponential(distance: Floats, length: float | Floats) -> tuple[Floats, Floats]:
    """Correlation of settings that act in steps (a buffer fits or does not); a :data:`Decay`.

    Knowing one value says little about the slope. The product over axes is the kernel of random partitions, from which
    trees draw.
    """
    ratio = distance / length
    value = np.exp(-ratio)
    return value, np.where(np.isfinite(ratio), ratio, 0.0) * value


def matern(distance: Floats, length: float | Floats) -> tuple[Floats, Floats]:
    """Matern correlation with smoothness 5/2, for settings that act evenly (more targets, more bandwidth).

    A :data:`Decay`; Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, equation 4.17.
    """
    apart = np.isinf(distance)
    reach = _REACH * np.where(apart, 0.0, distance) / length
    value = np.where(apart, 0.0, np.exp(-reach))
    return (1 + reach + reach**2 / 3) * value, (reach**2 + reach**3) / 3 * value


DECAYS: tuple[Decay, ...] = (exponential, matern)


def with_inactive(table: Floats) -> Floats:
    """Add the knot of an inactive parameter to a table of correlations, ``(k, k)`` to ``(k + 1, k + 1)``.

    An inactive parameter is as similar to each value as the values are to that one on average. So switching a parameter
    off moves a configuration by the effect of its switch alone. The feature vector of an inactive parameter is the mean
    of those of its values, hence the result stays positive definite.
    """
    grown = np.empty((len(table) + 1, len(table) + 1))
    grown[:-1, :-1] = table
    grown[-1, :-1] = grown[:-1, -1] = np.mean(table, axis=1)
    grown[-1, -1] = table[0, 0] == 1.0
    return grown


@dataclass(frozen=True)
class Hyperparameters:
    """Parameters of the kernel and of the noise, on the unbounded scale on which they are fitted.

    Attributes
    ----------
    log_amplitude : float
        Logarithm of the standard deviation of what configurations share with their neighbours.
    log_noise : float
        Logarithm of the standard deviation of one run.
    log_residue : float
        Logarithm of the standard deviation of a configuration's own part of its true cost, shared with no neighbour.
    logit_relevance : ndarray, shape (a,)
        Logit of the share of the variance that goes with each moving axis, 0 for a parameter without effect. With small
        relevances and a large amplitude the product of the axes comes close to a sum of main effects.
    log_length : ndarray, shape (o,)
        Logarithm of the length scale of each ordered axis, in the order of :attr:`Geometry.ordered`.
    """

    log_amplitude: float
    log_noise: float
    log_residue: float
    logit_relevance: Floats
    log_length: Floats

    @classmethod
    def unpack(cls, vector: Floats, axes: int) -> Hyperparameters:
        """Read a vector of shape ``(3 + a + o,)``, as :meth:`pack` makes it, for ``axes`` moving axes."""
        amplitude, noise, residue = vector[:3]
        return cls(amplitude, noise, residue, vector[3 : 3 + axes], vector[3 + axes :])

    def pack(self) -> Floats:
        """Give all values as one vector for an optimiser, shape ``(3 + a + o,)``."""
        scales = (self.log_amplitude, self.log_noise, self.log_residue)
        return np.concatenate([scales, self.logit_relevance, self.log_length])

    @property
    def amplitude_variance(self) -> float:
        """Variance of the shared part of the cost."""
        return float(np.exp(2 * self.log_amplitude))

    @property
    def residue_variance(self) -> float:
        """Variance of a configuration's own part of its true cost."""
        return float(np.exp(2 * self.log_residue))

    @property
    def noise(self) -> float:
        """Standard deviation of the cost of one run."""
        return float(np.exp(self.log_noise))

    @property
    def relevance(self) -> Floats:
        """Share of the variance of each moving axis, shape ``(a,)``."""
        return np.asarray(scipy.special.expit(self.logit_relevance), dtype=np.float64)

    def lengths(self, geometry: Geometry) -> Floats:
        """Length scale of each moving axis, shape ``(a,)``; 1 where none is learned."""
        lengths = np.ones(len(geometry.axes))
        lengths[geometry.ordered] = np.exp(self.log_length)
        return lengths
