"""What filters of HDF5 do to a sample of a dataset: its blocks go through each of them in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.diagnose.filter_sample import Sample, load_h5py

Floats = NDArray[np.float64]

PIXELS = 16
"""Of a block that szip compresses."""
_NEAREST_NEIGHBOUR, _OPTIONAL, _WHOLE_NUMBERS = 32, 1, 2
_REPEATS = 2


@dataclass(frozen=True)
class Filter:
    """A way of storing chunks, by keys of plans.

    Attributes
    ----------
    settings : tuple of (str, str)
        Keys and values of the carrier hdf5, in the order in which data go through them; none: as they are.
    """

    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """As people read it."""
        return " ".join(f"{key} {value}".removesuffix(" true") for key, value in self.settings) or "none"

    @property
    def accuracy(self) -> float | None:
        """What reals are rounded to."""
        return next((float(value) for key, value in self.settings if key == "accuracy"), None)


@dataclass(frozen=True)
class Measured:
    """What a filter does to each block: stored bytes, and seconds to write and read, for one byte of data."""

    filter: Filter
    ratios: Floats
    write: Floats
    read: Floats


def rounded(values: NDArray[Any], accuracy: float) -> NDArray[Any]:
    """Round reals as the runtime does it (``sw_round_reals``): to the nearest multiples of a power of two.

    No number is further off than the accuracy. NaN and infinities stay, and so do numbers whose multiple is infinite.
    """
    step = math.ldexp(1.0, math.frexp(accuracy)[1])
    with np.errstate(all="ignore"):
        near = (np.rint(values.astype(np.float64) / step) * step).astype(values.dtype)
        finer = np.abs(values) < step * 2.0 ** np.finfo(values.dtype).nmant
    return np.where(finer & np.isfinite(near), near, values).astype(values.dtype)


def measure(sample: Sample, tried: Sequence[Filter]) -> tuple[list[Measured], list[str]]:
    """Send every block through every filter in memory, and read it back.

    Returns
    -------
    measured : list of Measured
        Those that keep the data, or the accuracy.
    lost : list of str
        The others, with what went wrong.
    """
    plain = _measured(sample, Filter())
    found, lost = [plain], []
    for one in tried:
        try:
            got = _measured(sample, one)
        except (OSError, RuntimeError, ValueError) as error:
            lost.append(f"{one.name}: {' '.join(str(error).split())}")
            continue
        # Only what the filter adds: copies into and out of HDF5 are made without one, too.
        write, read = np.maximum(got.write - plain.write, 0), np.maximum(got.read - plain.read, 0)
        found.append(Measured(one, got.ratios, write, read))
    found[0] = Measured(plain.filter, np.ones_like(plain.ratios), np.zeros_like(plain.write), np.zeros_like(plain.read))
    return found, lost


def _measured(sample: Sample, one: Filter) -> Measured:
    rows = []
    for block in sample.blocks:
        times = [_through(block, one) for _ in range(_REPEATS)]
        rows.append([times[0][0], *(min(time[i] for time in times) for i in (1, 2))])
    per_byte = np.array(rows, dtype=np.float64) / np.array([[block.nbytes] for block in sample.blocks])
    return Measured(one, *per_byte.T)


def _through(block: NDArray[Any], one: Filter) -> tuple[int, float, float]:
    """Stored bytes of a block, and the seconds of processor time to write and to read it.

    Raises
    ------
    ValueError
        If what is read is not what was written.
    """
    h5py = load_h5py()
    with h5py.File("sample.h5", "w", driver="core", backing_store=False, block_size=1 << 20) as file:
        began = time.thread_time()
        made = h5py.h5d.create(
            file.id,
            b"block",
            h5py.h5t.py_create(block.dtype),
            h5py.h5s.create_simple(block.shape),
            _creation(h5py, block.shape, one),
        )
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, block if one.accuracy is None else rounded(block, one.accuracy))
        file.flush()
        written = time.thread_time()
        stored = made.get_storage_size()
        del made  # and with it HDF5's cache of the chunk
        back = np.empty_like(block)
        opened = time.thread_time()
        h5py.h5d.open(file.id, b"block").read(h5py.h5s.ALL, h5py.h5s.ALL, back)
        ended = time.thread_time()
    _check(block, back, one.accuracy)
    return stored, written - began, ended - opened


def _creation(h5py: Any, shape: tuple[int, ...], one: Filter) -> Any:
    made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    made.set_chunk(shape)
    for key, value in one.settings:
        if key == "shuffle":
            made.set_shuffle()
        elif key == "deflate":
            made.set_deflate(int(value))
        elif key == "scaleoffset":
            made.set_scaleoffset(_WHOLE_NUMBERS, 0)
        elif key == "szip":
            made.set_szip(_NEAREST_NEIGHBOUR, int(value))
        elif key == "plugin":
            number, *values = (int(word) for word in value.split(","))
            made.set_filter(number, _OPTIONAL, tuple(values))
    return made


def _check(block: NDArray[Any], back: NDArray[Any], accuracy: float | None) -> None:
    if accuracy is None:
        if block.tobytes() != back.tobytes():
            raise ValueError("what is read is not what was written")
        return
    with np.errstate(all="ignore"):
        off = np.abs(back.astype(np.float64) - block.astype(np.float64)) > accuracy
    special = ~np.isfinite(block)
    if np.any(off & ~special) or not np.array_equal(block[special], back[special], equal_nan=True):
        raise ValueError("the accuracy is exceeded")
