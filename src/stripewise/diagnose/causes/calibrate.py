"""Calibrate a site: measure operations under known conditions and fit a model to each."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from stripewise.diagnose.causes.models import CONDITIONS, Calibration, TimeModel, fit
from stripewise.diagnose.causes.probe import PATTERNS, SIZES, Prober, Series
from stripewise.errors import StripewiseError

_EXTENT = 64 << 20
_REPEATS = 12
_FEW = 8
_WRITTEN_SIZES = SIZES[:-1]


def calibrate(
    folder: Path,
    *,
    extent: int = _EXTENT,
    repeats: int = _REPEATS,
    seed: int = 0,
    on_series: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Measure and fit.

    Parameters
    ----------
    folder : Path
        On the storage to be calibrated.
    extent : int
        Bytes of the test file.
    repeats : int
        Operations of each series.
    seed : int
        Of random places.
    on_series : callable, optional
        Told how many series are done, of how many.

    Raises
    ------
    StripewiseError
        If the storage gives no uncached reads: memory itself (tmpfs), or a cache that cannot be emptied.
    """
    plan = [
        Series(operation, condition, pattern, moving, size)
        for operation in ("read", "write")
        for condition in CONDITIONS
        for pattern in PATTERNS
        for moving in (False, True)
        for size in (SIZES if operation == "read" else _WRITTEN_SIZES)
        # Where no file is, the pattern is missing too; one stands for all.
        if condition in ("cached", "uncached") or pattern == PATTERNS[0]
    ]
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    prober = Prober(folder, extent)
    began = time.time()
    try:
        for number, series in enumerate(plan):
            # Waiting for storage is slow: fewer repeats do, for its times differ far more than by chance.
            count = max(3, repeats // 3) if series.condition == "uncached" else repeats
            # The first of a series pays for what the others do not: pages of the buffer, the code itself.
            times = list(prober.times(series, count + 1, seed))[1:]
            found[series.operation, series.condition] += [(series.size, seconds) for seconds in times]
            if on_series is not None:
                on_series(number + 1, len(plan))
    finally:
        prober.close()
    models: dict[str, dict[str, TimeModel]] = {"read": {}, "write": {}}
    for operation, of in models.items():
        for condition in CONDITIONS:
            own = found[operation, condition]
            if len(own) >= _FEW:
                of[condition] = fit([size for size, _ in own], [seconds for _, seconds in own])
    if "uncached" not in models["read"]:
        raise StripewiseError(
            f"no read in {folder} was uncached: its pages cannot be put out of memory",
            "name a folder on real storage, not tmpfs",
        )
    notes = {
        "folder": str(folder),
        "machine": platform.node(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "measured": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        "seconds": round(time.time() - began, 1),
        "file_bytes": extent,
        "operations": sum(map(len, found.values())),
    }
    return Calibration(models, notes)
