"""Measurements gathered by cell (a folded point), and found again among very many points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.models.data import Data, Ints
from stripewise.models.domain import Floats
from stripewise.models.features import Encoder, Matrix, at_least_one

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
        return _sorted(self.points)

    @cached_property
    def _workload_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        return _sorted(self._workloads)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Give the arrays, for a model file."""
        return {prefix + key: getattr(self, key) for key in ("points", "estimate", "deviation")}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], prefix: str, contexts: int) -> Memory:
        """Take back what :meth:`arrays` gave."""
        points, estimate, deviation = (
            np.asarray(arrays[prefix + key], dtype=np.float64) for key in ("points", "estimate", "deviation")
        )
        if len(estimate) not in (0, len(points)) or len(estimate) != len(deviation):
            raise ValueError("the remembered cells do not fit")
        return cls(points, estimate, deviation, contexts)


def _hash(points: Floats) -> NDArray[np.uint64]:
    """A number for each row that depends on every bit of it; equal rows have equal numbers."""
    bits = np.ascontiguousarray(points + 0.0).view(np.uint64).reshape(points.shape)
    result = np.zeros(len(points), dtype=np.uint64)
    for column in bits.T:
        result = (result ^ column) * _FACTOR
        result ^= result >> _TURN
    return result


def _sorted(points: Floats) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    keys = _hash(points)
    order = np.argsort(keys, kind="stable")
    return keys[order], order


def _find(known: Floats, keys: tuple[NDArray[np.uint64], NDArray[np.int64]], points: Floats) -> NDArray[np.int64]:
    ordered, numbers = keys
    if len(known) == 0 or len(points) == 0:
        return np.full(len(points), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(ordered, _hash(points)), len(ordered) - 1)
    found = numbers[place]
    return np.where(np.all(known[found] == points, axis=1), found, -1)
