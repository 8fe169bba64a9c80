"""Measurements gathered by cell (a point, once folded): mean, count and variance of ln(value)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.data import Data, Ints
from stripewise.model.domain import Floats
from stripewise.model.features import Encoder, Matrix, at_least_one


@dataclass(frozen=True, eq=False)
class Cells:
    """One row a cell.

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

    @classmethod
    def of(cls, data: Data, encoder: Encoder) -> Cells:
        """Gather rows."""
        _, first, cell = np.unique(data.cells, return_index=True, return_inverse=True)
        count = np.bincount(cell).astype(np.float64)
        mean = np.bincount(cell, data.target) / count
        workload = np.unique(data.workloads[first], return_inverse=True)[1]
        points = data.points[first]
        return cls(points, at_least_one(encoder.encode(points)), mean, count, workload, cell)

    def take(self, keep: NDArray[Any]) -> Cells:
        """Give some cells (a mask, or numbers); ``cell`` stays that of all rows and must not be used."""
        return Cells(self.points[keep], self.x[keep], self.mean[keep], self.count[keep], self.workload[keep], self.cell)

    def folds(self, rng: np.random.Generator, k: int) -> Ints:
        """Deal the cells at random into ``k`` folds, shape ``(m,)``."""
        return np.asarray(rng.permutation(len(self)) % k, dtype=np.int64)

    def workload_folds(self, rng: np.random.Generator, k: int) -> Ints:
        """Deal whole workloads at random into ``k`` folds, shape ``(m,)``."""
        return np.asarray((rng.permutation(int(self.workload.max()) + 1) % k)[self.workload], dtype=np.int64)
