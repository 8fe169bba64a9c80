"""Where configurations lie: each axis on its own scale, and how far apart two configurations are."""

from __future__ import annotations

import numpy as np

from stripewise.search.costs import Floats
from stripewise.spec.parameter import Parameter, Scale
from stripewise.spec.space import Levels, Space


def positions(parameter: Parameter) -> Floats:
    """Place the values of a parameter on [0, 1] by its scale, shape ``(k,)``; categories are numbered evenly."""
    count = len(parameter.values)
    if not parameter.ordered:
        return np.arange(count) / max(1, count - 1)
    values = np.asarray(parameter.values, dtype=np.float64)
    if parameter.scale is Scale.LOG2:
        values = np.log2(values)
    return np.asarray((values - values[0]) / ((values[-1] - values[0]) or 1.0), dtype=np.float64)


def features(space: Space, levels: Levels) -> Floats:
    """Numbers for a regressor: one column an ordered or two-valued axis, one column a value for other categories.

    Returns
    -------
    ndarray, shape (n, f)
        All within [0, 1].
    """
    columns = []
    for parameter, column in zip(space.parameters, levels.T, strict=True):
        if parameter.ordered or len(parameter.values) <= 2:
            columns.append(positions(parameter)[column][:, None])
        else:
            columns.append(np.eye(len(parameter.values))[column])
    return np.concatenate(columns, axis=1) if columns else np.empty((len(levels), 0))


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
