"""What each value of a parameter does by itself, over all workloads and all values of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.output.summaries.five_numbers import FiveNumbers, make_signature
from stripewise.result import USUAL_LEVEL, Interval

OF_MEDIAN = math.pi / 2
"""Variance of a median in that of a mean."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SettingEffect:
    """What one value of one parameter does, over all workloads and all values of the others.

    Attributes
    ----------
    median : float
        Factor on the median against the parameter's worst value, by least squares on the logarithms with a term for
        each workload: designs that are not full grids still compare like with like.
    low : float
        The same for the worse quartile: under load.
    median_interval, low_interval : Interval
        Of these factors, for all pairs of the parameter's values together.
    configurations : int
        That have the value.
    """

    parameter: str
    value: Value
    median: float
    low: float
    median_interval: Interval
    low_interval: Interval
    configurations: int


def _design(
    summaries: Sequence[FiveNumbers],
) -> tuple[NDArray[np.float64], dict[tuple[str, str], int], dict[tuple[str, str], Value]]:
    """Give a matrix with a column for each workload and each value, the places of values, and the values."""
    contexts = {key: place for place, key in enumerate(dict.fromkeys(make_signature(s.context) for s in summaries))}
    columns: dict[tuple[str, str], int] = {}
    values: dict[tuple[str, str], Value] = {}
    cells = []
    for row, entry in enumerate(summaries):
        cells.append((row, contexts[make_signature(entry.context)]))
        for name, value in entry.configuration.items():
            if value is not None:
                columns.setdefault((name, repr(value)), len(contexts) + len(columns))
                values[name, repr(value)] = value
                cells.append((row, columns[name, repr(value)]))
    matrix = np.zeros((len(summaries), len(contexts) + len(columns)))
    matrix[tuple(np.transpose(cells))] = 1
    return matrix, columns, values


def expect_values(summaries: Sequence[FiveNumbers], maximize: bool) -> list[float]:
    """Give what each configuration is expected to reach: its odd repeats, drawn towards what its values bring alone.

    The best of many noisy medians is mostly luck. As far as the residuals of the main effects are no larger than the
    noise of the repeats, they are noise (empirical Bayes).
    """
    matrix = _design(summaries)[0]
    seen = (1 if maximize else -1) * np.log([one.picked for one in summaries])
    alone = matrix @ np.linalg.lstsq(matrix, seen, rcond=None)[0]
    free = max(1, len(seen) - int(np.linalg.matrix_rank(matrix)))
    noise = OF_MEDIAN * np.mean([one.deviation**2 / -(-one.runs // 2) for one in summaries])
    residual = float(((seen - alone) ** 2).sum()) / free
    kept = max(0.0, 1.0 - noise / residual) if residual > 0 else 1.0
    return [float(value) for value in alone + kept * (seen - alone)]


def effects(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[SettingEffect]:
    """Tell the parameters' values apart by their main effects.

    A factor needs an interval, so there is none where the design has as many terms as configurations. A parameter of
    whose values no two can be told apart is left out.
    """
    matrix, columns, values = _design(summaries)
    sign = 1 if maximize else -1
    quartile = 1 if maximize else 3
    from scipy.special import stdtrit  # noqa: PLC0415  slow to load

    targets = np.log([[s.median, s.numbers[quartile]] for s in summaries])
    solved, _, rank, _ = np.linalg.lstsq(matrix, targets, rcond=None)
    free = len(summaries) - int(rank)
    if free < 1:
        return []
    variance = ((targets - matrix @ solved) ** 2).sum(axis=0) / free
    shape = np.linalg.pinv(matrix.T @ matrix)
    known = shape @ (matrix.T @ matrix)
    solved = sign * solved
    found = []
    for name in summaries[0].configuration:
        own = [key for key in columns if key[0] == name]
        if len(own) < 2:
            continue
        places = np.array([columns[key] for key in own])
        contrasts = np.eye(len(known))[places] - np.eye(len(known))[places[0]]
        if not np.allclose(contrasts @ known, contrasts, atol=1e-6):
            continue  # the design does not tell these values from other parameters or from workloads
        worst = places[solved[places].argmin(axis=0)]
        # Bonferroni's level: the worst value is known only from the same data.
        quantile = float(stdtrit(free, 1 - (1 - USUAL_LEVEL) / (len(own) * (len(own) - 1))))
        bounds = []
        for target, base in enumerate(worst):
            spread = shape[places, places] + shape[base, base] - 2 * shape[places, base]
            half = quantile * np.sqrt(variance[target] * np.maximum(spread, 0.0))
            factor = solved[places, target] - solved[base, target]
            bounds.append(np.exp([factor, factor - half, factor + half]))
        if not any(np.any(low > 1 + _ROUNDING) for _, low, _ in bounds):
            continue
        rows = [
            SettingEffect(
                name,
                values[key],
                float(bounds[0][0][place]),
                float(bounds[1][0][place]),
                Interval(float(bounds[0][1][place]), float(bounds[0][2][place])),
                Interval(float(bounds[1][1][place]), float(bounds[1][2][place])),
                int(matrix[:, columns[key]].sum()),
            )
            for place, key in enumerate(own)
        ]
        found += sorted(rows, key=lambda row: -row.low)
    return found
