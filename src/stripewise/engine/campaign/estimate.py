"""How long the rest of a campaign takes: said only when runs have shown it, and with how far it can be off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Key = tuple[object, ...]
_LEAST = 3
_TRUSTED = math.log(3.0)
"""A line that kinds seen miss by more than a factor of three, typically, says nothing of kinds not seen."""


@dataclass(frozen=True)
class Remaining:
    """Seconds that are left.

    Attributes
    ----------
    seconds : float or None
        None before three runs have ended, and while what is left is not like what has ended.
    low, high : float
        Nine of ten campaigns whose runs vary as these did end within.
    """

    seconds: float | None = None
    low: float = 0.0
    high: float = math.inf


class Clock:
    """Learns what runs take, by kind of run and by the bytes that they move."""

    def __init__(self) -> None:
        self._seen: dict[Key, list[float]] = {}
        self._bytes: dict[Key, float] = {}

    def add(self, key: Key, moved: float, seconds: float) -> None:
        """Take a run in: ``seconds`` from its start to the moment at which the next could start."""
        self._seen.setdefault(key, []).append(seconds)
        self._bytes[key] = moved

    def remaining(self, left: Iterable[tuple[Key, float]], capacity: int = 1) -> Remaining:
        """Estimate what the runs that are left take.

        Parameters
        ----------
        left : iterable of (key, bytes)
        capacity : int
            Runs at a time.

        Notes
        -----
        Kinds seen before take their mean; others a straight line over bytes, through all means, if those of three kinds
        or more lie near one. The interval adds the scatter of single runs, which shrinks with their number, and the
        error of the means, which does not.
        """
        total = sum(map(len, self._seen.values()))
        if total < _LEAST:
            return Remaining()
        means = {key: float(np.mean(values)) for key, values in self._seen.items()}
        spread = self._spread(means)
        offset, slope, off = self._line(means)
        counts: dict[Key, int] = {}
        size: dict[Key, float] = {}
        for key, moved in left:
            counts[key] = counts.get(key, 0) + 1
            size[key] = moved
        if off > _TRUSTED and not counts.keys() <= means.keys():
            return Remaining()
        expected, scatter, error = 0.0, 0.0, 0.0
        for key, count in counts.items():
            seen = len(self._seen.get(key, ()))
            each = means[key] if seen else offset + slope * size[key]
            expected += count * each
            scatter += count * (spread * each) ** 2
            # The error of one mean is shared by all runs of its kind; a kind never seen may be off by as much as kinds
            # differ from the line.
            error += (count * each) ** 2 * (spread**2 / seen if seen else off**2 + spread**2)
        half = 1.645 * math.sqrt(scatter + error)
        return Remaining(expected / capacity, max(0.0, expected - half) / capacity, (expected + half) / capacity)

    def _spread(self, means: Mapping[Key, float]) -> float:
        """Relative standard deviation of runs of one kind, pooled; a half where no kind was seen twice."""
        parts = [
            ((value / means[key] - 1) ** 2, len(values))
            for key, values in self._seen.items()
            if len(values) > 1 and means[key] > 0
            for value in values
        ]
        degrees = sum(len(values) - 1 for values in self._seen.values() if len(values) > 1)
        return math.sqrt(sum(part for part, _ in parts) / degrees) if degrees else 0.5

    def _line(self, means: Mapping[Key, float]) -> tuple[float, float, float]:
        """Seconds at no bytes, seconds a byte, both 0 or more, and the typical ratio to the line, as a logarithm.

        Relative errors are made small: a line that suits the longest runs only may say nothing, or less, of the others.
        """
        keys: Sequence[Key] = list(means)
        if len(keys) < _LEAST:
            return 0.0, 0.0, math.inf
        x = np.array([self._bytes[key] for key in keys])
        y = np.maximum([means[key] for key in keys], 1e-9)
        scale = max(float(np.max(x)), 1.0)
        from scipy.optimize import nnls  # noqa: PLC0415  slow to load

        (offset, slope), _ = nnls(np.column_stack([1 / y, x / scale / y]), np.ones(len(y)))
        # Positive wherever a kind was seen: otherwise a larger multiple of the same line would be nearer.
        ratios = np.log(y / np.maximum(offset + slope * x / scale, 1e-12))
        return float(offset), float(slope) / scale, float(np.sqrt(np.sum(ratios**2) / (len(y) - 2)))
