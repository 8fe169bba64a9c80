"""What each value of a parameter does by itself, over all workloads and all values of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

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


@dataclass(frozen=True)
class _Design:
    """Which configuration has which value, with a term for each workload.

    The workloads' terms are taken out of both sides by their means: as columns, thousands of them fill the memory.

    Attributes
    ----------
    matrix : array, (configurations, values)
        1 where it has the value, else 0, less the mean of its workload.
    columns : mapping
        The place of each value, by the parameter's name and the value's text.
    values : mapping
    counts : array, (values,)
        How many configurations have the value.
    workloads : array, (configurations,)
        Their numbers, from 0.
    """

    matrix: NDArray[np.float64]
    columns: Mapping[tuple[str, str], int]
    values: Mapping[tuple[str, str], Value]
    counts: NDArray[np.float64]
    workloads: NDArray[np.int64]

    @classmethod
    def of(cls, summaries: Sequence[FiveNumbers]) -> Self:
        numbers: dict[str, int] = {}
        workloads = np.array([numbers.setdefault(make_signature(one.context), len(numbers)) for one in summaries])
        columns: dict[tuple[str, str], int] = {}
        values: dict[tuple[str, str], Value] = {}
        cells = []
        for row, entry in enumerate(summaries):
            for name, value in entry.configuration.items():
                if value is not None:
                    columns.setdefault((name, repr(value)), len(columns))
                    values[name, repr(value)] = value
                    cells.append((row, columns[name, repr(value)]))
        matrix = np.zeros((len(summaries), len(columns)))
        if cells:
            matrix[tuple(np.transpose(cells))] = 1
        return cls(matrix - _means(matrix, workloads), columns, values, matrix.sum(axis=0), workloads)

    def solve(self, seen: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        """Give the values' effects, what they make of each configuration, and the degrees of freedom that are left."""
        means = _means(seen, self.workloads)
        solved, _, rank, _ = np.linalg.lstsq(self.matrix, seen - means, rcond=None)
        free = len(seen) - int(self.workloads.max()) - 1 - int(rank)
        return np.asarray(solved, float), np.asarray(means + self.matrix @ solved, float), free


def _means(data: NDArray[np.float64], workloads: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give for each row the mean of all rows of its workload."""
    sums = np.zeros((int(workloads.max()) + 1, *data.shape[1:]))
    np.add.at(sums, workloads, data)
    counts = np.bincount(workloads).reshape(-1, *[1] * (data.ndim - 1))
    return np.asarray((sums / counts)[workloads], float)


def expect_values(summaries: Sequence[FiveNumbers], maximize: bool) -> list[float]:
    """Give what each configuration is expected to reach: its odd repeats, drawn towards what its values bring alone.

    The best of many noisy medians is mostly luck. As far as the residuals of the main effects are no larger than the
    noise of the repeats, they are noise (empirical Bayes).
    """
    seen = (1 if maximize else -1) * np.log([one.picked for one in summaries])
    _, alone, free = _Design.of(summaries).solve(seen)
    noise = OF_MEDIAN * float(np.mean([one.deviation**2 / -(-one.runs // 2) for one in summaries]))
    residual = float(((seen - alone) ** 2).sum()) / max(1, free)
    kept = max(0.0, 1.0 - noise / residual) if residual > 0 else 1.0
    return [float(value) for value in alone + kept * (seen - alone)]


def effects(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[SettingEffect]:
    """Tell the parameters' values apart by their main effects.

    A factor needs an interval, so there is none where the design has as many terms as configurations. A parameter of
    whose values no two can be told apart is left out.
    """
    design = _Design.of(summaries)
    matrix, columns, values = design.matrix, design.columns, design.values
    sign = 1 if maximize else -1
    quartile = 1 if maximize else 3
    from scipy.special import stdtrit  # noqa: PLC0415  slow to load

    targets = np.log([[s.median, s.numbers[quartile]] for s in summaries])
    solved, alone, free = design.solve(targets)
    if free < 1:
        return []
    variance = ((targets - alone) ** 2).sum(axis=0) / free
    shape = np.linalg.pinv(matrix.T @ matrix, rcond=_ROUNDING, hermitian=True)
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
                int(design.counts[columns[key]]),
            )
            for place, key in enumerate(own)
        ]
        found += sorted(rows, key=lambda row: -row.low)
    return found
