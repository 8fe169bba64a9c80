"""Which filter of HDF5 pays for a dataset: measured on a sample of its own data, for storage of a known bandwidth.

A sample of a dataset in an HDF5 file, read by a child in bounded time and memory.

What filters of HDF5 do to a sample of a dataset: its blocks go through each of them in memory.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.runtime import HDF5
from stripewise.errors import UserError, import_optional
from stripewise.interpreter import inherit_environment, python
from stripewise.result import Interval

_MOST_BLOCKS = 16
_SECONDS = 300
_MEMORY = 2 << 30
_LARGEST_CHUNK = 256 << 20


@dataclass(frozen=True)
class Sample:
    """Blocks of a dataset, each as large as a chunk would be.

    Attributes
    ----------
    dataset : str
        Its path.
    share : float
        Of all its elements.
    chunked, filtered : bool
        Whether the program chunks and filters it by itself.
    """

    dataset: str
    blocks: tuple[NDArray[Any], ...]
    share: float
    chunked: bool
    filtered: bool


def load_h5py() -> Any:
    """Import h5py, which only this part needs.

    Raises
    ------
    UserError
        If it is not installed.
    """
    with import_optional("hdf5"):
        import h5py  # noqa: PLC0415
    return h5py


def chunk_shape(shape: Sequence[int], element: int, size: int) -> tuple[int, ...]:
    """Divide a dataset as the runtime does it: at most so many bytes, with the fastest dimensions kept whole."""
    left = max(1, size // element)
    chunk: list[int] = []
    for extent in reversed(shape):
        chunk.append(min(extent, left))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))


def take_sample(path: Path, dataset: str | None, chunk_size: int, most: int) -> Sample:
    """Read blocks at even distances from a dataset.

    A child reads them, in bounded time and memory: the file may be damaged, or somebody else's, and neither what it
    says of its sizes nor the library's behaviour on it can be trusted.

    Parameters
    ----------
    dataset : str or None
        Its path in the file, or a pattern, which stands for the largest that it matches; None for the largest.
    chunk_size : int
        Bytes of a chunk, where the program has none.
    most : int
        Bytes to read, at least one block.

    Raises
    ------
    UserError
        If the file or dataset cannot be read, or holds no numbers.
    """
    load_h5py()
    fix = "name a file that the program has written"
    if not path.is_file():
        raise UserError(f"{path} is not a regular file" if path.exists() else f"{path} does not exist", fix)
    asked = json.dumps([os.fspath(path.absolute()), dataset, chunk_size, most]).encode()
    environment = {**inherit_environment(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            python("-m", __name__),
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"cannot read {path} as HDF5: it takes more than {_SECONDS} s", fix) from None
    if done.returncode:
        why = f"it is damaged, or too large: its reader ended with {done.returncode}"
        raise UserError(f"cannot read {path} as HDF5: {why}", fix)
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as arrays:
        told = json.loads(arrays["told"].tobytes())
        if "error" in told:
            raise UserError(*told["error"])
        return Sample(told["dataset"], tuple(arrays[name] for name in told["blocks"]), *told["rest"])


def main() -> None:
    """Read a sample for the parent, which asks on standard input."""
    path, dataset, chunk_size, most = json.load(sys.stdin)
    load_h5py()
    # An alarm that nobody handles ends this process in the middle of a library too, also without the parent.
    signal.alarm(_SECONDS)
    limit = _MEMORY + 3 * max(most, _LARGEST_CHUNK)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told, blocks = read_sample(Path(path), dataset, chunk_size, most)
    np.savez(sys.stdout.buffer, allow_pickle=False, told=np.frombuffer(json.dumps(told).encode(), np.uint8), **blocks)


def read_sample(
    path: Path, dataset: str | None, size: int, most: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Give what a child tells of a file, and the blocks, by name."""
    try:
        taken = _read(path, dataset, size, most)
    except UserError as error:
        return {"error": (error.what, error.fix)}, {}
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        return {"error": (f"cannot read {path} as HDF5: {why}", "name a file that the program has written")}, {}
    blocks = {f"block{number}": block for number, block in enumerate(taken.blocks)}
    rest = (taken.share, taken.chunked, taken.filtered)
    return {"dataset": taken.dataset, "blocks": list(blocks), "rest": rest}, blocks


def _read(path: Path, dataset: str | None, chunk_size: int, most: int) -> Sample:
    h5py = load_h5py()
    with h5py.File(path, "r") as file:
        found = _dataset(h5py, file, path, dataset)
        shape, element = tuple(found.shape), found.dtype.itemsize
        stored = found.id.get_create_plist()
        if found.file.filename != file.filename or found.is_virtual or stored.get_external_count():
            raise UserError(f"the data of {found.name} lie in other files than {path}", "name the file that has them")
        chunk = found.chunks or chunk_shape(shape, element, chunk_size)
        size = math.prod(chunk) * element
        if size > max(_LARGEST_CHUNK, chunk_size):
            raise UserError(
                f"{found.name} has chunks of {size >> 20} MiB",
                f"name a dataset with chunks of {_LARGEST_CHUNK >> 20} MiB",
            )
        counts = [-(-extent // length) for extent, length in zip(shape, chunk, strict=True)]
        total = math.prod(counts)
        wanted = min(total, _MOST_BLOCKS, max(1, most // size))
        blocks = []
        for number in range(wanted):
            corner, place = [], (total - 1) * number // max(1, wanted - 1)
            for count in reversed(counts):
                place, at = divmod(place, count)
                corner.append(at)
            slices = (slice(at * length, (at + 1) * length) for at, length in zip(reversed(corner), chunk, strict=True))
            blocks.append(np.ascontiguousarray(found[tuple(slices)]))
        share = sum(block.size for block in blocks) / math.prod(shape)
        return Sample(found.name, tuple(blocks), share, found.chunks is not None, stored.get_nfilters() > 0)


def _dataset(h5py: Any, file: Any, path: Path, name: str | None) -> Any:
    """The dataset of that name, or the largest of numbers; names that no plan can hold do not count."""

    def usable(item: Any) -> bool:
        if not isinstance(item, h5py.Dataset) or not isinstance(item.name, str) or not item.name.isprintable():
            return False
        try:
            return item.dtype.kind in "iuf" and bool(item.shape) and 0 not in item.shape
        except (TypeError, ValueError):  # a type that NumPy does not have
            return False

    if name is not None and not any(mark in name for mark in "*?["):
        if usable(file.get(name)):
            return file[name]
        raise UserError(f"{path} has no dataset of numbers called {name}", f"look at its names: h5ls -r {path}")
    found: list[Any] = []
    file.visititems(lambda _, item: found.append(item) if usable(item) else None)
    pattern = "*" if name is None else name.strip("/")
    found = [item for item in found if any(fnmatchcase(word, pattern) for word in _names(item.name))]
    if not found:
        raise UserError(
            f"{path} has no dataset of numbers that {pattern} matches", f"look at its names: h5ls -r {path}"
        )
    return max(found, key=lambda item: math.prod(item.shape) * item.dtype.itemsize)


def _names(path: str) -> tuple[str, str]:
    """A dataset's path, and the last part of it: the runtime compares patterns with both."""
    return path.strip("/"), path.rpartition("/")[2]


if __name__ == "__main__":
    main()


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


def find_best(expected: Sequence[Expected]) -> Expected:
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


def round_reals(values: NDArray[Any], accuracy: float) -> NDArray[Any]:
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
    plain = _measure_filter(sample, Filter())
    found, lost = [plain], []
    for one in tried:
        try:
            got = _measure_filter(sample, one)
        except (OSError, RuntimeError, ValueError) as error:
            lost.append(f"{one.name}: {' '.join(str(error).split())}")
            continue
        # Only what the filter adds: copies into and out of HDF5 are made without one, too.
        write, read = np.maximum(got.write - plain.write, 0), np.maximum(got.read - plain.read, 0)
        found.append(Measured(one, got.ratios, write, read))
    found[0] = Measured(plain.filter, np.ones_like(plain.ratios), np.zeros_like(plain.write), np.zeros_like(plain.read))
    return found, lost


def _measure_filter(sample: Sample, one: Filter) -> Measured:
    rows = []
    for block in sample.blocks:
        times = [_pass_block(block, one) for _ in range(_REPEATS)]
        rows.append([times[0][0], *(min(time[i] for time in times) for i in (1, 2))])
    per_byte = np.array(rows, dtype=np.float64) / np.array([[block.nbytes] for block in sample.blocks])
    return Measured(one, *per_byte.T)


def _pass_block(block: NDArray[Any], one: Filter) -> tuple[int, float, float]:
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
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, block if one.accuracy is None else round_reals(block, one.accuracy))
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
