"""Which filter of HDF5 pays for a dataset: measured on a sample of its own data, for storage of a known bandwidth."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.hdf5 import HDF5
from stripewise.diagnose.filter_sample import Sample, load_h5py
from stripewise.diagnose.filter_trials import PIXELS, Filter, Measured
from stripewise.errors import UserError
from stripewise.result import Interval

LEVELS = (1, 4, 9)
_ENCODES = 1
_RESAMPLES = 2000
_LARGEST, _SMALLEST = 1e300, 1e-37
"""The accuracies that the runtime takes."""


@dataclass(frozen=True)
class Expected:
    """What a filter is expected to gain.

    Attributes
    ----------
    filter : Filter
    ratio : float
        Stored bytes for one byte of data.
    write_rate, read_rate : float
        Bytes per second that one process sends through the filter; infinite where it costs nothing.
    speedup : float
        Time without a filter over time with this one.
    interval : Interval
        Of the speed-up, over the blocks and the measurements of the bandwidth.
    """

    filter: Filter
    ratio: float
    write_rate: float
    read_rate: float
    speedup: float
    interval: Interval


def candidates(
    sample: Sample, accuracy: float | None, plugins: Sequence[str], processes: int
) -> tuple[list[Filter], list[str]]:
    """Give the filters to try, and what is left out with the reason.

    Raises
    ------
    UserError
        If an accuracy or a plugin is not one.
    """
    h5z = load_h5py().h5z
    dtype = sample.blocks[0].dtype
    shuffle = ("shuffle", "true")
    tried, left = [Filter((shuffle, ("deflate", str(level)))) for level in LEVELS], []
    if dtype.kind in "iu":
        tried.append(Filter((("scaleoffset", "0"),)))
    if processes > 1:
        left.append("szip: HDF5 before 1.14 loses chunks that it cannot shrink where several ranks write")
    elif h5z.filter_avail(h5z.FILTER_SZIP) and h5z.get_filter_info(h5z.FILTER_SZIP) & _ENCODES:
        tried.append(Filter((("szip", str(PIXELS)),)))
    else:
        left.append("szip: this HDF5 library has no encoder")
    for plugin in plugins:
        numbers = [int(word) if word.isdecimal() else -1 for word in plugin.split(",")]
        if not 256 <= numbers[0] <= 65535 or min(numbers) < 0 or max(numbers) >= 2**32:
            raise UserError(f"--plugin {plugin} is not the number of a filter", "write 32015 or 32015,3 for instance")
        if not h5z.filter_avail(numbers[0]):
            raise UserError(f"HDF5 finds no filter {numbers[0]}", "name the folder of its library in HDF5_PLUGIN_PATH")
        tried.append(Filter((("plugin", plugin),)))
    if accuracy is not None and dtype.kind == "f" and dtype.itemsize in (4, 8):
        if not _SMALLEST <= accuracy <= _LARGEST:
            raise UserError(f"--accuracy {accuracy} is not possible", f"give a number from {_SMALLEST} to {_LARGEST}")
        tried += [Filter((("accuracy", repr(accuracy)), *one.settings)) for one in tried]
    elif accuracy is not None:
        left.append(f"rounding: only reals of 4 or 8 bytes are rounded, the elements are {dtype}")
    return tried, left


def expect(
    measured: Sequence[Measured], bandwidths: Sequence[float], processes: int, reads: float = 0.0, seed: int = 0
) -> list[Expected]:
    """Expect the time per byte: processes send data through the filter side by side, then storage takes what is left.

    Parameters
    ----------
    measured : sequence of Measured
    bandwidths : sequence of float
        Measurements of what storage takes from the whole program, bytes per second.
    processes : int
        That share the work of the filter.
    reads : float
        How often data are read for each time they are written.
    seed : int
        Of the resamples.

    Returns
    -------
    list of Expected
        The fastest first.
    """
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, len(measured[0].ratios), (_RESAMPLES, len(measured[0].ratios)))
    rates = np.asarray(bandwidths, dtype=np.float64)
    picked = rates[rng.integers(0, len(rates), (_RESAMPLES, len(rates)))].mean(axis=1)
    found = []
    for one in measured:
        spent = (one.write + reads * one.read) / processes

        def speedup(work: Any, ratio: Any, bandwidth: Any) -> Any:
            return (1 + reads) / bandwidth / (work + (1 + reads) * ratio / bandwidth)

        draws = speedup(spent[blocks].mean(axis=1), one.ratios[blocks].mean(axis=1), picked)
        low, high = np.quantile(draws, (0.025, 0.975))
        write, read = float(one.write.mean()), float(one.read.mean())
        found.append(
            Expected(
                one.filter,
                float(one.ratios.mean()),
                1 / write if write else math.inf,
                1 / read if read else math.inf,
                float(speedup(spent.mean(), one.ratios.mean(), rates.mean())),
                Interval(float(low), float(high), 0.95),
            )
        )
    return sorted(found, key=lambda entry: -entry.speedup)


def best(expected: Sequence[Expected]) -> Expected:
    """Give the fastest whose gain the interval shows; no filter where there is none."""
    plain = next(entry for entry in expected if not entry.filter.settings)
    return next((entry for entry in expected if entry.interval.low > 1), plain)


def settings_of(
    sample: Sample, chosen: Filter, chunk_size: int, collective: bool, pattern: str | None = None
) -> tuple[Setting, ...]:
    """Write the filter as settings of a plan for the datasets of a pattern, or this one; none for no filter."""
    if not chosen.settings:
        return ()
    keys = [("datasets", (pattern or sample.dataset).strip("/"))]
    keys += [] if sample.chunked else [("chunk_size", str(chunk_size))]
    keys += [*chosen.settings, *([("collective_writes", "true")] if collective else [])]
    return tuple(Setting(HDF5, key, value) for key, value in keys)


def measure_folder(folder: Path, size: int, repeats: int = 6) -> list[float]:
    """Write files to a folder, each until storage has it, and give the bytes per second of each but the first.

    Raises
    ------
    UserError
        If the folder cannot be written.
    """
    data = os.urandom(min(size, 4 << 20))
    found = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".stripewise-") as file:
            for _ in range(repeats + 1):
                file.seek(0)
                began = time.perf_counter()
                for _ in range(max(1, size // len(data))):
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
                found.append(max(1, size // len(data)) * len(data) / (time.perf_counter() - began))
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}", "name a folder that you may write to") from error
    return found[1:]
