"""How good predictions are, and how good they could be: the scores of an oracle that knows every true value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.models.data import Data
from stripewise.models.domain import Domain, Floats
from stripewise.models.table import Table

_ROUNDING = 1e-24
_EQUAL = 10
_SHARE = 0.05
_GROWTH = 1.10


@dataclass(frozen=True)
class Scores:
    """Scores of predictions ``r`` for measured values ``y``.

    Attributes
    ----------
    prediction_accuracy : float
        ``100 - mean(|y - r| / y) * 100``, in percent; it may be negative.
    mape : float
        Mean absolute error relative to ``y``, in percent.
    r2_log : float or None
        Share of the variance of ln y that is explained; None where y does not vary.
    mae : float
        Mean absolute error, in the objective's unit.
    class_error : float
        See :func:`class_error`.
    """

    prediction_accuracy: float
    mape: float
    r2_log: float | None
    mae: float
    class_error: float

    def as_json(self) -> Mapping[str, float | None]:
        """By name."""
        return asdict(self)


def scores(actual: Floats, predicted: Floats, *, maximize: bool) -> Scores:
    """Score predictions.

    Parameters
    ----------
    actual, predicted : ndarray, shape (n,)
        Positive; at least one.
    maximize : bool
        Whether larger is better, for the classes.
    """
    mape = 100.0 * float(np.mean(np.abs(actual - predicted) / actual))
    y, r = np.log(actual), np.log(predicted)
    total = float(np.sum((y - y.mean()) ** 2))
    return Scores(
        prediction_accuracy=100.0 - mape,
        mape=mape,
        # Equal values leave rounding errors, of which nothing is to be explained.
        r2_log=1.0 - float(np.sum((y - r) ** 2)) / total if total > _ROUNDING * len(y) else None,
        mae=float(np.mean(np.abs(actual - predicted))),
        class_error=class_error(actual, predicted, maximize=maximize),
    )


def oracle_scores(table: Table) -> Scores | None:
    """Scores of the noise-free oracle: it predicts each run by the median of all runs of its folded configuration.

    Returns
    -------
    Scores or None
        None where nothing was repeated: noise is then unknown.
    """
    truth = true_values(table)
    if truth is None:
        return None
    return scores(table.values, truth, maximize=table.objective.maximize)


def true_values(table: Table) -> Floats | None:
    """True value of each row: the median over all runs that fold together; None where nothing was repeated."""
    cells = Data.of(Domain.of(table), table).cells
    _, cell, count = np.unique(cells, return_inverse=True, return_counts=True)
    if count.max() < 2:
        return None
    order = np.argsort(cell, kind="stable")
    medians = np.array([np.median(part) for part in np.split(table.values[order], np.cumsum(count)[:-1])])
    truth: Floats = medians[cell]
    return truth


def class_bounds(maximum: float) -> Floats:
    """Upper bounds of all performance classes but the last, which has none; ascending.

    Ten classes are of equal width up to 5% of the maximum, then each is 10% wider than the one before. A class says how
    far apart two performances are where a relative error would exaggerate (very slow runs) and an absolute one would
    hide it (Kunkel, Zimmer and Betke, 2015).

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


def class_error(actual: Floats, predicted: Floats, *, maximize: bool) -> float:
    """Mean distance, in classes, between what was measured and what was predicted.

    Parameters
    ----------
    actual, predicted : ndarray, shape (n,)
        Positive values of the objective.
    maximize : bool
        Whether larger values are better; if not, performance is the inverse.
    """
    first = actual if maximize else 1.0 / actual
    second = predicted if maximize else 1.0 / predicted
    bounds = class_bounds(float(first.max()))
    return float(np.mean(np.abs(classes(first, bounds) - classes(second, bounds))))
