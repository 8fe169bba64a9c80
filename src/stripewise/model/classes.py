"""Performance classes: ten of equal width up to 5% of the maximum, then each 10% wider than the one before.

A class says how far apart two performances are where a relative error would exaggerate (very slow runs) and an absolute
one would hide it (Kunkel, Zimmer and Betke, 2015). Where smaller values are better, performance is the inverse.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats

_EQUAL = 10
_SHARE = 0.05
_GROWTH = 1.10


def class_bounds(maximum: float) -> Floats:
    """Upper bounds of all classes but the last, which has none; ascending.

    Parameters
    ----------
    maximum : float
        Largest performance of the system; positive.
    """
    width = maximum * _SHARE / _EQUAL
    bounds = [width * (i + 1) for i in range(_EQUAL)]
    while bounds[-1] < maximum:
        width *= _GROWTH
        bounds.append(bounds[-1] + width)
    return np.asarray(bounds[:-1] if len(bounds) > _EQUAL else bounds)


def classes(values: Floats, bounds: Floats) -> NDArray[np.int64]:
    """Class of each performance, 0 for the slowest; a value on a bound belongs below it."""
    return np.searchsorted(bounds, values, side="left").astype(np.int64)


def class_error(actual: Floats, predicted: Floats, *, maximize: bool, maximum: float | None = None) -> float:
    """Mean distance, in classes, between what was measured and what was predicted.

    Parameters
    ----------
    actual, predicted : ndarray, shape (n,)
        Positive values of the objective.
    maximize : bool
        Whether larger values are better; if not, performance is the inverse.
    maximum : float, optional
        Largest performance; that of ``actual`` by default.
    """
    first = actual if maximize else 1.0 / actual
    second = predicted if maximize else 1.0 / predicted
    bounds = class_bounds(float(first.max()) if maximum is None else maximum)
    return float(np.mean(np.abs(classes(first, bounds) - classes(second, bounds))))
