"""What a model learns from: points, logarithms, and which rows are repeats or share a workload."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import Domain, Floats
from stripewise.models.table import Table

Ints = NDArray[np.int64]
_MOST_CORRELATED = 0.95
_LEAST_COMPARED = 3
"""Workloads of an operation from whose errors those of gains are estimated."""
_MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows.

    Attributes
    ----------
    points : ndarray, shape (n, c)
        Folded.
    target : ndarray, shape (n,)
        Natural logarithm of the objective.
    cells : ndarray of int, shape (n,)
        Rows with the same number are repeats: the same point once folded.
    workloads : ndarray of int, shape (n,)
        Rows with the same number share all contexts.
    """

    points: Floats
    target: Floats
    cells: Ints
    workloads: Ints

    @classmethod
    def of(cls, domain: Domain, table: Table) -> Data:
        """Take the rows of a table, all of which have positive values."""
        return cls.of_points(domain, domain.folded(domain.table_points(table)), np.log(table.values))

    @classmethod
    def of_points(cls, domain: Domain, points: Floats, target: Floats) -> Data:
        """Take folded points, shape ``(n, c)``, with the natural logarithms of their values."""
        cells = _groups(points)
        contexts = points[:, : domain.contexts]
        workloads = _groups(contexts) if domain.contexts else np.zeros(len(points), dtype=np.int64)
        return cls(points, target, cells, workloads)

    def __len__(self) -> int:
        return len(self.target)

    def take(self, keep: NDArray[np.bool_]) -> Data:
        """Give some rows."""
        return Data(self.points[keep], self.target[keep], self.cells[keep], self.workloads[keep])

    @cached_property
    def noise(self) -> float:
        """Standard deviation of repeats about their mean, pooled over all cells; 0 without repeats."""
        _, cell = np.unique(self.cells, return_inverse=True)
        count = np.bincount(cell)
        freedom = int(np.sum(count - 1))
        if freedom < 1:
            return 0.0
        mean = np.bincount(cell, self.target) / count
        return float(np.sqrt(np.sum((self.target - mean[cell]) ** 2) / freedom))

    @cached_property
    def reach(self) -> float:
        """Largest difference in ln(value) that the configurations of one workload make; 0 if there is none.

        Of means over the runs of a cell, so that a single lucky run counts less. Where most workloads have a single
        configuration, all differences count.
        """
        _, first, cell = np.unique(self.cells, return_index=True, return_inverse=True)
        mean = np.bincount(cell, self.target) / np.bincount(cell)
        _, workload = np.unique(self.workloads[first], return_inverse=True)
        low, high = np.full(workload.max() + 1, np.inf), np.full(workload.max() + 1, -np.inf)
        np.minimum.at(low, workload, mean)
        np.maximum.at(high, workload, mean)
        several = np.bincount(workload) > 1
        found = np.max(high - low) if several[workload].mean() > _MOSTLY else np.max(high) - np.min(low)
        return float(np.float32(found))  # as an artifact holds it


def _groups(rows: Floats) -> Ints:
    if rows.shape[1] == 0:
        return np.zeros(len(rows), dtype=np.int64)
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def gain_errors(errors: Floats, workloads: NDArray[np.int64], operations: NDArray[np.int64], count: int) -> Floats:
    """Estimate how far predicted gains are wrong, from the errors on held-out workloads.

    A gain is the difference of two configurations of one workload, so its error has twice the variance of their errors
    within the workload.

    Parameters
    ----------
    errors : ndarray, shape (n,)
        Of ln(value), on workloads that were held out. The noise of the measurements is a part of them.
    workloads, operations : ndarray of int, shape (n,)
    count : int
        Operations: 0, 1, ..., ``count - 1``.

    Returns
    -------
    ndarray, shape (count,)
        Standard deviation of the error of ln(gain) of each operation; infinite where fewer than three of its workloads
        have two configurations.
    """
    found = np.full(count, np.inf)
    for operation in range(count):
        _, group, rows = np.unique(workloads[operations == operation], return_inverse=True, return_counts=True)
        own = errors[operations == operation]
        freedom = len(own) - len(rows)
        if np.sum(rows > 1) >= _LEAST_COMPARED:
            mean = np.bincount(group, own) / rows
            found[operation] = np.sqrt(2.0 * np.sum((own - mean[group]) ** 2) / freedom)
    return found


def error_correlation(errors: Floats, workloads: NDArray[np.int64], noise: Floats | float = 0.0) -> float:
    """Estimate how far the errors of configurations of one workload agree: the intraclass correlation about zero.

    Which configuration is best depends on differences within a workload, in which the common part cancels out.

    Parameters
    ----------
    errors : ndarray, shape (n,)
        Of ln(value), on what was held out.
    workloads : ndarray of int, shape (n,)
    noise : ndarray, shape (n,), or float
        Variance of the measurements themselves, which is not an error of the model.

    Returns
    -------
    float
        0 to 0.95; 0 where no workload has two configurations.
    """
    _, group, count = np.unique(workloads, return_inverse=True, return_counts=True)
    freedom = int(np.sum(count - 1))
    if freedom < 1:
        return 0.0
    mean = np.bincount(group, errors) / count
    own = float(np.mean(noise))
    within = float(np.sum((errors - mean[group]) ** 2)) / freedom - own
    whole = float(np.mean(errors**2)) - own
    if whole <= 0:
        return 0.0
    return float(np.clip(1.0 - within / whole, 0.0, _MOST_CORRELATED))
