"""Calibrate a site: repeat operations under known conditions, time each, and fit a model to each condition."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.diagnose.causes.models import CONDITIONS, Calibration, TimeModel, fit
from stripewise.errors import StripewiseError, UserError, choose

PATTERNS = ("sequential", "reverse", "strided", "random")
SIZES = (1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
_STRIDE = 8
_BATCH = 1 << 20


@dataclass(frozen=True)
class Series:
    """Operations that are timed one by one.

    Attributes
    ----------
    operation : {"read", "write"}
    condition : str
        Of :data:`~stripewise.diagnose.causes.models.CONDITIONS`.
    pattern : str
        Of :data:`PATTERNS`.
    moving : bool
        Whether each operation uses other memory than the one before.
    size : int
        Bytes.
    """

    operation: str
    condition: str
    pattern: str
    moving: bool
    size: int


def offsets(pattern: str, size: int, count: int, extent: int, seed: int) -> list[int]:
    """Places of a series of operations in a file of ``extent`` bytes."""
    places = max(1, extent // size)
    if pattern == "sequential":
        chosen = [i % places for i in range(count)]
    elif pattern == "reverse":
        chosen = [(places - 1 - i) % places for i in range(count)]
    elif pattern == "strided":
        chosen = [i * _STRIDE % places + (i * _STRIDE // places) % _STRIDE for i in range(count)]
    elif pattern == "random":
        draw = random.Random(f"{seed}/{size}")
        chosen = [draw.randrange(places) for _ in range(count)]
    else:
        raise UserError(f"unknown pattern '{pattern}'", choose(pattern, PATTERNS))
    return [min(place, places - 1) * size for place in chosen]


class Prober:
    """A file on the storage to be calibrated, and operations on it.

    Parameters
    ----------
    folder : Path
        On that storage.
    extent : int
        Bytes of the file.

    Raises
    ------
    StripewiseError
        If the file cannot be made.
    """

    def __init__(self, folder: Path, extent: int) -> None:
        self._extent = extent
        self._path = folder / f".stripewise-calibration-{os.getpid()}"
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise StripewiseError(
                f"cannot make a file in {folder}: {error.strerror}", "name a folder of yours"
            ) from error
        # Two buffers larger than any operation: one page-aligned place each, for O_DIRECT as well.
        self._memory = mmap.mmap(-1, 4 * max(SIZES))
        self._view = memoryview(self._memory)
        try:
            self._fill()
        except OSError as error:
            self.close()
            raise StripewiseError(
                f"cannot write {extent >> 20} MiB in {folder}: {error.strerror}", "free some space"
            ) from error

    def close(self) -> None:
        """Delete the file."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)

    def _fill(self) -> None:
        block = os.urandom(_BATCH)
        for start in range(0, self._extent, _BATCH):
            os.pwrite(self._file, block, start)
        os.fsync(self._file)

    def times(self, series: Series, count: int, seed: int) -> Iterator[float]:
        """Time a series; an operation on the file whose pages were not as arranged is left out.

        Parameters
        ----------
        count : int
            Operations.
        seed : int
            Of random places.

        Yields
        ------
        float
            Seconds of an operation.
        """
        places = offsets(series.pattern, series.size, count, self._extent, seed)
        if series.condition in ("memory", "discarded"):
            yield from self._without_file(series, count)
        else:
            yield from self._with_file(series, places)

    def _buffers(self, moving: bool, size: int, number: int) -> memoryview:
        room = len(self._memory) - size
        start = (number * size) % (room - room % 4096 + 4096) if moving else 0
        start = min(start // 4096 * 4096, room // 4096 * 4096)
        return self._view[start : start + size]

    def _without_file(self, series: Series, count: int) -> Iterator[float]:
        source = memoryview(bytearray(series.size))
        device = os.open("/dev/zero" if series.operation == "read" else "/dev/null", os.O_RDWR)
        try:
            for i in range(count):
                buffer = self._buffers(series.moving, series.size, i)
                if series.condition == "memory":
                    yield _time_operation(buffer.__setitem__, slice(None), source)
                elif series.operation == "read":
                    yield _time_operation(os.readv, device, [buffer])
                else:
                    yield _time_operation(os.write, device, buffer)
        finally:
            os.close(device)

    def _with_file(self, series: Series, places: Sequence[int]) -> Iterator[float]:
        size, reads, uncached = series.size, series.operation == "read", series.condition == "uncached"
        descriptor = self._file
        if uncached and not reads:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_DSYNC)
        try:
            if uncached:
                self.forget()
            for i, place in enumerate(places):
                if reads and uncached:
                    # Read-ahead brings in neighbours: forget them all, so that the next range is on storage alone.
                    drop(self._file)
                elif reads and self.found(place, size) != "cached":
                    # What is resident is not touched again: the processor's cache would answer then.
                    os.pread(self._file, size, place)
                if reads and self.found(place, size) != series.condition:
                    continue
                buffer = self._buffers(series.moving, size, i)
                if reads:
                    yield _time_operation(os.preadv, descriptor, [buffer], place)
                else:
                    yield _time_operation(os.pwrite, descriptor, buffer, place)
        finally:
            if descriptor != self._file:
                os.close(descriptor)

    def found(self, place: int, size: int) -> str:
        """What mincore says of a range: ``cached``, ``uncached`` or ``mixed``."""
        part = measure_resident(self._file, place, size)
        return "cached" if part == 1 else "uncached" if part == 0 else "mixed"

    def partly(self, size: int, places: Sequence[int], parts: Sequence[float]) -> Iterator[tuple[float, float]]:
        """Reads of which only the first part is in memory: that part as mincore says just before, and the time."""
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        try:
            for place, part in zip(places, parts, strict=True):
                drop(self._file)
                os.pread(self._file, int(part * size), place)
                resident = measure_resident(self._file, place, size)
                yield resident, _time_operation(os.preadv, self._file, [self._view[:size]], place)
        finally:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_NORMAL)

    def direct(self, size: int, places: Sequence[int]) -> Iterator[float]:
        """Times of reads that go past the page cache (O_DIRECT): storage for certain."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        try:
            for place in places:
                buffer = self._view[:size]
                yield _time_operation(os.preadv, descriptor, [buffer], place)
        finally:
            os.close(descriptor)

    def natural(self, size: int, places: Sequence[int]) -> Iterator[tuple[str, float]]:
        """Reads as a program makes them, each with what mincore said just before: nothing is arranged in between."""
        for place in places:
            found = self.found(place, size)
            buffer = self._view[:size]
            yield found, _time_operation(os.preadv, self._file, [buffer], place)

    def forget(self) -> None:
        """Put the whole file out of memory."""
        os.fsync(self._file)
        drop(self._file)


def _time_operation(operation: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter_ns()
    operation(*arguments)
    return (time.perf_counter_ns() - start) * 1e-9


PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


def measure_resident(descriptor: int, offset: int, length: int) -> float:
    """Part of a range's pages that are in memory, 0 to 1.

    Parameters
    ----------
    descriptor : int
        An open file that the caller may write to, for the kernel tells of others' files nothing.
    offset, length : int
        Bytes.

    Raises
    ------
    StripewiseError
        If the system does not tell.
    """
    start = offset // PAGE * PAGE
    span = -(-(offset + length - start) // PAGE) * PAGE
    address = _libc.mmap(None, span, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address == _FAILED:
        raise StripewiseError(f"mmap: {os.strerror(ctypes.get_errno())}")
    try:
        pages = ctypes.create_string_buffer(span // PAGE)
        if _libc.mincore(address, span, pages):
            raise StripewiseError(f"mincore: {os.strerror(ctypes.get_errno())}")
        return sum(byte & 1 for byte in pages.raw) / len(pages.raw)
    finally:
        _libc.munmap(address, span)


def drop(descriptor: int) -> None:
    """Ask the kernel to forget a file's pages; they must have been written to disk before (fsync)."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


_EXTENT = 64 << 20
_REPEATS = 12
_FEW = 8
_WRITTEN_SIZES = SIZES[:-1]


def measure_series(
    prober: Prober, repeats: int, seed: int, on_series: Callable[[int, int], None] | None = None
) -> dict[Series, list[float]]:
    """Time every series of a calibration, in seconds; see :func:`calibrate`."""
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
    found = {}
    for number, series in enumerate(plan):
        # Waiting for storage is slow: fewer repeats do, for its times differ far more than by chance.
        count = max(3, repeats // 3) if series.condition == "uncached" else repeats
        # The first of a series pays for what the others do not: pages of the buffer, the code itself.
        found[series] = list(prober.times(series, count + 1, seed))[1:]
        if on_series is not None:
            on_series(number + 1, len(plan))
    return found


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
    prober = Prober(folder, extent)
    began = time.time()
    try:
        measured = measure_series(prober, repeats, seed, on_series)
    finally:
        prober.close()
    found: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for series, times in measured.items():
        found[series.operation, series.condition] += [(series.size, seconds) for seconds in times]
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
