"""Bytes and seconds of each storage target, from the stripes of the files of a log."""

from __future__ import annotations

from typing import Any

import numpy as np

from stripewise.observe._darshan_sums import Floats, Ints


class TargetLoads:
    """What each target carried; nothing at first."""

    def __init__(self) -> None:
        self._loads: dict[int, list[float]] = {}

    def add_requests(self, size: int, targets: list[int], offset: Ints, length: Ints, spent: Floats) -> None:
        """Add requests one by one: each stripe that one touches gets its part of bytes and time."""
        if not targets:
            return
        count = len(targets)
        first = offset // size
        spans = np.maximum((offset + np.maximum(length, 1) - 1) // size - first + 1, 1)
        parts = np.minimum(spans, count)
        moved, time = np.zeros(count), np.zeros(count)
        for step in range(int(parts.max(initial=0))):
            within = parts > step
            place = ((first[within] + step) % count).astype(np.int64)
            moved += np.bincount(place, length[within] / parts[within], count)
            time += np.bincount(place, spent[within] / parts[within], count)
        for i, target in enumerate(targets):
            entry = self._loads.setdefault(target, [0.0, 0.0])
            entry[0] += float(moved[i])
            entry[1] += float(time[i])

    def add_evenly(self, size: int, targets: list[int], moved: int, extent: int) -> None:
        """Add a file of which only the sum is known: its stripes get equal parts."""
        # A file smaller than a whole row of stripes does not reach all its targets.
        reached = targets[: max(1, min(len(targets), -(-extent // size)))]
        for target in reached:
            self._loads.setdefault(target, [0.0, 0.0])[0] += moved / len(reached)

    def entries(self) -> dict[int, dict[str, Any]]:
        """Give them as the fields of :class:`stripewise.observe.activity.OstLoad`."""
        return {target: {"bytes": int(moved), "seconds": time or None} for target, (moved, time) in self._loads.items()}
