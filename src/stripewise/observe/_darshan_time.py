"""Bytes over time, from Darshan's heatmap or, without one, from a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROWS = 64
_BINS = 200


class TimeGrid:
    """A grid of bins that all ranks share.

    Heatmaps of ranks may have bins of different widths; these are powers of two of one width, so that the finer ones
    fold into the coarser.

    Attributes
    ----------
    native : bool
        Whether a heatmap filled it.
    """

    def __init__(self, ranks: int, elapsed: float) -> None:
        self._ranks, self._elapsed = ranks, elapsed
        self._a_row = -(-ranks // _ROWS)
        self._width = 0.0
        self._read: NDArray[np.float64] = np.zeros(0)
        self._written: NDArray[np.float64] = np.zeros(0)
        self._heat: NDArray[np.float64] = np.zeros((-(-ranks // self._a_row), 0))
        self._loads: dict[int, list[int]] = {}
        self.native = False

    def add(self, rank: int, width: float, written: NDArray[np.int64], read: NDArray[np.int64]) -> None:
        """Add the bins of one rank."""
        self.native = True
        written, read = np.maximum(written, 0), np.maximum(read, 0)
        load = self._loads.setdefault(rank, [0, 0])
        load[0] += int(read.sum())
        load[1] += int(written.sum())
        if not self._width:
            self._width = width
        if width > self._width * 1.5:
            self._coarsen(round(width / self._width))
            self._width = width
        factor = max(1, round(self._width / width))
        self._deposit(rank, _fold(read, factor), _fold(written, factor))

    def add_requests(
        self,
        rank: int,
        start: NDArray[np.float64],
        end: NDArray[np.float64],
        length: NDArray[np.int64],
        written: bool,
    ) -> None:
        """Add single requests, each at its middle."""
        if self._elapsed <= 0:
            return
        self._width = self._elapsed / _BINS
        place = np.clip(((start + end) / 2 / self._width).astype(np.int64), 0, _BINS - 1)
        bins = np.bincount(place, length, _BINS)
        nothing = np.zeros(_BINS)
        self._deposit(rank, nothing if written else bins, bins if written else nothing)

    def _deposit(self, rank: int, read: NDArray[Any], written: NDArray[Any]) -> None:
        wide = max(len(read), len(self._read))
        self._read = _wide(self._read, wide) + _wide(read, wide)
        self._written = _wide(self._written, wide) + _wide(written, wide)
        if self._heat.shape[1] < wide:
            self._heat = np.pad(self._heat, ((0, 0), (0, wide - self._heat.shape[1])))
        if 0 <= rank < self._ranks:
            self._heat[rank // self._a_row, : len(read)] += read + written

    def _coarsen(self, factor: int) -> None:
        self._read, self._written = _fold(self._read, factor), _fold(self._written, factor)
        self._heat = np.array([_fold(row, factor) for row in self._heat])

    def loads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Bytes read and written by each rank, None without a heatmap."""
        if not self._loads:
            return None
        both = np.zeros((2, self._ranks), np.int64)
        for rank, (read, written) in self._loads.items():
            both[:, rank] = read, written
        return both[0], both[1]

    def timeline(self) -> dict[str, Any] | None:
        """All as part of an activity."""
        used = np.flatnonzero(self._read + self._written)
        if not len(used) or self._width <= 0:
            return None
        last = int(used[-1]) + 1
        return {
            "width": self._width,
            "read": self._read[:last].astype(np.int64).tolist(),
            "written": self._written[:last].astype(np.int64).tolist(),
            "heat": self._heat[:, :last].astype(np.int64).tolist(),
            "ranks_a_row": self._a_row,
        }


def _wide(values: NDArray[Any], wide: int) -> NDArray[np.float64]:
    return np.pad(values.astype(np.float64), (0, wide - len(values)))


def _fold(values: NDArray[Any], factor: int) -> NDArray[np.float64]:
    if factor <= 1:
        return values.astype(np.float64)
    padded = np.pad(values.astype(np.float64), (0, -len(values) % factor))
    folded: NDArray[np.float64] = padded.reshape(-1, factor).sum(axis=1)
    return folded
