"""Measurements gathered by cell (a folded point), and found again among very many points.

What a model learns from: points, logarithms, and which rows are repeats or share a workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import Domain, Floats
from stripewise.models.features import Encoder, Matrix, at_least_one
from stripewise.models.table import Table

Ints = NDArray[np.int64]
_MOST_CORRELATED = 0.95
_LEAST_COMPARED = 3
"""Workloads of an operation from whose errors those of gains are estimated."""
_MOSTLY = 0.5


def group_rows(rows: NDArray[Any]) -> Ints:
    """Number the distinct rows, and give each row its number; all have the same where there are no columns."""
    if rows.shape[1] == 0:
        return np.zeros(len(rows), dtype=np.int64)
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Rows gathered by cell.

    Attributes
    ----------
    first : ndarray of int, shape (m,)
        The first row of each cell.
    cell : ndarray of int, shape (n,)
        The cell of each row, 0, 1, ...
    count : ndarray of int, shape (m,)
        Rows of each cell.
    """

    first: Ints
    cell: Ints
    count: Ints

    def means(self, values: Floats) -> Floats:
        """Mean of each cell's values, shape ``(m,)``."""
        return np.bincount(self.cell, values) / self.count

    def medians(self, values: Floats) -> Floats:
        """Median of each cell's values, shape ``(m,)``."""
        order = np.argsort(self.cell, kind="stable")
        return np.array([np.median(part) for part in np.split(values[order], np.cumsum(self.count)[:-1])])


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
        return cls(points, target, group_rows(points), group_rows(points[:, : domain.contexts]))

    def __len__(self) -> int:
        return len(self.target)

    def take(self, keep: NDArray[np.bool_]) -> Data:
        """Give some rows."""
        return Data(self.points[keep], self.target[keep], self.cells[keep], self.workloads[keep])

    @cached_property
    def gathered(self) -> Gathered:
        """The rows by cell."""
        return Gathered(*np.unique(self.cells, return_index=True, return_inverse=True, return_counts=True)[1:])

    @cached_property
    def noise(self) -> float:
        """Standard deviation of repeats about their mean, pooled over all cells; 0 without repeats."""
        freedom = len(self) - len(self.gathered.count)
        if freedom < 1:
            return 0.0
        mean = self.gathered.means(self.target)[self.gathered.cell]
        return float(np.sqrt(np.sum((self.target - mean) ** 2) / freedom))

    @cached_property
    def reach(self) -> float:
        """Largest difference in ln(value) that the configurations of one workload make; 0 if there is none.

        Of means over the runs of a cell, so that a single lucky run counts less. Where most workloads have a single
        configuration, all differences count.
        """
        mean = self.gathered.means(self.target)
        _, workload = np.unique(self.workloads[self.gathered.first], return_inverse=True)
        low, high = np.full(workload.max() + 1, np.inf), np.full(workload.max() + 1, -np.inf)
        np.minimum.at(low, workload, mean)
        np.maximum.at(high, workload, mean)
        several = np.bincount(workload) > 1
        found = np.max(high - low) if several[workload].mean() > _MOSTLY else np.max(high) - np.min(low)
        return float(np.float32(found))  # as an artifact holds it


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


_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(29)


@dataclass(frozen=True, eq=False)
class Cells:
    """One row per cell.

    Attributes
    ----------
    points : ndarray, shape (m, c)
    x : ndarray of float32, shape (m, f)
        Features; at least one column.
    mean : ndarray, shape (m,)
        Of ln(value).
    count : ndarray of float, shape (m,)
        Runs.
    workload : ndarray of int, shape (m,)
        0, 1, ...
    cell : ndarray of int, shape (n,)
        The cell of each row of the data, 0, 1, ...
    """

    points: Floats
    x: Matrix
    mean: Floats
    count: Floats
    workload: Ints
    cell: Ints

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def weight(self) -> Floats:
        """How much each cell counts, shape ``(m,)``: one of many runs is known better, but never exactly."""
        return self.count / (1.0 + self.count)

    @classmethod
    def of(cls, data: Data, encoder: Encoder) -> Cells:
        """Gather rows."""
        rows = data.gathered
        workload = np.unique(data.workloads[rows.first], return_inverse=True)[1]
        points, count = data.points[rows.first], rows.count.astype(np.float64)
        x = at_least_one(encoder.encode(points))
        return cls(points, x, rows.means(data.target), count, workload, rows.cell)

    def take(self, keep: NDArray[Any]) -> Cells:
        """Give some cells (a mask, or numbers); ``cell`` stays that of all rows and must not be used."""
        return Cells(self.points[keep], self.x[keep], self.mean[keep], self.count[keep], self.workload[keep], self.cell)

    def folds(self, rng: np.random.Generator, k: int) -> Ints:
        """Deal the cells at random into ``k`` folds, shape ``(m,)``."""
        return np.asarray(rng.permutation(len(self)) % k, dtype=np.int64)

    def workload_folds(self, rng: np.random.Generator, k: int) -> Ints:
        """Deal whole workloads at random into ``k`` folds, shape ``(m,)``."""
        return np.asarray((rng.permutation(int(self.workload.max()) + 1) % k)[self.workload], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Memory:
    """Measured cells with what their runs and the models together say.

    Attributes
    ----------
    points : ndarray, shape (m, c)
        Folded.
    estimate, deviation : ndarray, shape (m,)
        Of ln(value); empty where only the workloads are remembered.
    contexts : int
        Number of context columns.
    """

    points: Floats
    estimate: Floats
    deviation: Floats
    contexts: int

    @classmethod
    def of(cls, cells: Cells, estimate: Floats, deviation: Floats, contexts: int) -> Memory:
        """Keep cells."""
        return cls(cells.points, estimate, deviation, contexts)

    def find(self, points: Floats) -> NDArray[np.int64]:
        """Number of each point's cell, shape ``(n,)``; -1 where it was not measured."""
        return _find(self.points, self._keys, points)

    def knows_workload(self, points: Floats) -> NDArray[np.bool_]:
        """Whether each point's workload was measured with any configuration, shape ``(n,)``."""
        if self.contexts == 0:
            return np.ones(len(points), dtype=bool)
        return _find(self._workloads, self._workload_keys, points[:, : self.contexts]) >= 0

    @cached_property
    def _workloads(self) -> Floats:
        return np.unique(self.points[:, : self.contexts], axis=0)

    @cached_property
    def _keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return _sort_rows(self.points)

    @cached_property
    def _workload_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return _sort_rows(self._workloads)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Give the arrays, for a model file."""
        return {prefix + key: getattr(self, key) for key in ("points", "estimate", "deviation")}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], prefix: str, domain: Domain) -> Memory:
        """Take back what :meth:`arrays` gave."""
        points, estimate, deviation = (
            np.asarray(arrays[prefix + key], dtype=np.float64) for key in ("points", "estimate", "deviation")
        )
        if points.shape != (len(points), len(domain.columns)) or estimate.shape not in ((0,), (len(points),)):
            raise ValueError("the remembered cells do not fit the columns")
        if deviation.shape != estimate.shape:
            raise ValueError("the remembered cells need a deviation each")
        return cls(points, estimate, deviation, domain.contexts)


def _hash_rows(points: Floats) -> NDArray[np.uint64]:
    """A number for each row that depends on every bit of it; equal rows have equal numbers."""
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64).reshape(points.shape)
    result = np.zeros(len(points), dtype=np.uint64)
    for column in bits.T:
        result = (result ^ column) * _FACTOR
        result ^= result >> _TURN
    return result


def _sort_rows(points: Floats) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    keys = _hash_rows(points)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _find(known: Floats, keys: tuple[NDArray[np.uint64], NDArray[np.int64]], points: Floats) -> NDArray[np.int64]:
    ordered, numbers = keys
    if len(known) == 0 or len(points) == 0:
        return np.full(len(points), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(ordered, _hash_rows(points)), len(ordered) - 1)
    found = numbers[place]
    return np.where(np.all(known[found] == points, axis=1), found, -1)
