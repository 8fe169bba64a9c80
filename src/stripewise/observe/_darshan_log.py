"""One Darshan log, summed up record by record; imported only by the reading process.

PyDarshan's own report keeps every record in memory. Here each is read through its C library and added to the sums of
its file, so that memory grows with the number of files alone, and that is bounded too.
"""

from __future__ import annotations

import bz2
import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from darshan.backend import cffi_backend as backend

from stripewise.observe._darshan_fold import STREAMS, Folded, LogError, LogHead
from stripewise.observe._darshan_sums import find_damage
from stripewise.observe.traces.dxt import Request
from stripewise.sizes import format_duration, format_size

__all__ = ["LogError", "list_requests", "summarise"]

_ffi, _library = backend.ffi, backend.libdutil
_MAX_RANKS = 1 << 24
_MAX_BINS = 1 << 20
_MAX_COMPONENTS = 1 << 12
_MAX_STRIPES = 1 << 20
_MAX_SEGMENTS = 1 << 28
# MPI-IO first: the time of the calls below it is within its own.
_SUMMED = {"MPI-IO": "mpiio", "POSIX": "posix", "STDIO": "stdio", "H5D": "hdf5", "PNETCDF_VAR": "pnetcdf"}
_HEATMAPS = {16592106915301738621: "POSIX", 3989511027826779520: "STDIO", 3668870418325792824: "MPIIO"}
# The library refuses records of a newer version as it refuses damaged ones: told apart, the rest of the log is of use.
_NEWEST = {
    "POSIX": 4, "MPI-IO": 3, "STDIO": 2, "H5D": 2, "H5F": 3, "PNETCDF_VAR": 1, "PNETCDF_FILE": 3, "LUSTRE": 2,
    "HEATMAP": 1, "DXT_POSIX": 1, "DXT_MPIIO": 2,
}  # fmt: skip
# Layouts first: a trace is spread over OSTs with them.
_ORDER = ("LUSTRE", *_SUMMED, "H5F", "PNETCDF_FILE", "HEATMAP", "DXT_POSIX", "DXT_MPIIO")
_COUNTED = ("DFS", "DAOS")
_MOST_BYTES = 1 << 62
_HEADER, _NAMES_AT, _MOST_JOB, _LEAST_GAP = 1328, 32, 1 << 20, 64
_MAGIC, _WITH_NANOSECONDS = 6567223, b"3.41"
_PIPE = re.compile(r"(^|[/_.-])(named)?(pipe|fifo)([_.-]|\d|$)[^/]*$", re.IGNORECASE)
_POSIX_SEEKS = backend.counter_names("POSIX").index("POSIX_SEEKS")
_JUDGED = {
    "POSIX": "sizes, alignment and order of the requests to the file system are",
    "MPI-IO": "collective and independent calls are",
    "STDIO": "the I/O of buffered streams is",
    "LUSTRE": "striping and the balance of OSTs are",
    "HEATMAP": "I/O over time is",
    "DXT_POSIX": "the time and the OST of each request are",
}


def summarise(path: str) -> dict[str, Any]:
    """Sum up a log.

    Returns
    -------
    dict
        An activity as JSON.

    Raises
    ------
    LogError
        If it is not a Darshan log, or is damaged; says where.
    """
    handle = _library.darshan_log_open(os.fsencode(path))
    if handle == _ffi.NULL:
        raise LogError("it has no header of a Darshan log, or one that is cut off")
    log = {"handle": handle, "modules": None, "name_records": None}
    try:
        return _summarise(path, log)
    finally:
        _library.darshan_log_close(handle)


def list_requests(path: str, most: int) -> list[Request]:
    """Give the requests of a log's trace, at most so many.

    Raises
    ------
    LogError
        If it is no log, is damaged, or has no trace of the POSIX level.
    """
    handle = _library.darshan_log_open(os.fsencode(path))
    if handle == _ffi.NULL:
        raise LogError("it has no header of a Darshan log, or one that is cut off")
    log = {"handle": handle, "modules": None, "name_records": None}
    try:
        modules = backend.log_get_modules(log)
        if "DXT_POSIX" not in modules:
            raise LogError("it has no trace of single requests: run the program with DXT_ENABLE_IO_TRACE=1")
        found: list[Request] = []
        for buffer in _records(log, "DXT_POSIX", modules["DXT_POSIX"]["idx"]):
            file, rank, written, read = _segments_of(buffer)
            for way, segments in (("write", written), ("read", read)):
                rows = segments[: most - len(found)].tolist()
                found += [(rank, str(file), way, size, offset, start, end) for offset, size, start, end in rows]
        return found
    finally:
        _library.darshan_log_close(handle)


def _summarise(path: str, log: dict[str, Any]) -> dict[str, Any]:
    job = _job(log, path)
    modules = backend.log_get_modules(log)
    names = _names(log)
    folded = Folded(job["ranks"], job["elapsed"], job.pop("mounts"))
    left_out = _LeftOut(names)
    newer: list[str] = []
    for module in _ORDER:
        if module not in modules:
            continue
        if modules[module]["ver"] > _NEWEST[module]:
            newer.append(
                f"module {module} has version {modules[module]['ver']}, newer than the installed PyDarshan "
                "knows: not read"
            )
            continue
        for buffer in _records(log, module, modules[module]["idx"]):
            _add(folded, module, buffer, left_out)
    seen = [name for name in modules if name not in ("NULL",)]
    # Single requests show I/O over time, too.
    known = {*modules, "HEATMAP"} if "DXT_POSIX" in modules else set(modules)
    unseen = [f"no {name} module, so {what} unknown" for name, what in _JUDGED.items() if name not in known]
    unread = [_describe_unread(log, name, modules[name]["idx"]) for name in seen if name not in _ORDER]
    partial = [name for name, entry in modules.items() if entry["partial_flag"]]
    hints = _hints(job.pop("metadata"))
    gap = job.pop("gap")
    skipped = [f"the log has a gap of {gap:,} bytes behind its header, which was skipped"] if gap else []
    head = LogHead(
        "darshan", path, [*unseen, *newer, *unread, *left_out.told, *skipped], job.pop("version"), seen, partial, hints
    )
    return folded.activity(head, job, names)


class _LeftOut:
    """Records of what is no data file: the program's own streams, and named pipes, whose opens wait for a partner.

    Parameters
    ----------
    names : dict
        Paths by record.
    """

    def __init__(self, names: dict[int, str]) -> None:
        self.names = names
        self._streams = {key for key, name in names.items() if name in STREAMS}
        self._pipes = {key for key, name in names.items() if _PIPE.search(name)}
        self._waited: dict[int, float] = {}
        self.streamed = False
        self.damaged: dict[str, list[str]] = {}

    def holds(self, module: str, owner: int, counters: Any, fcounters: Any) -> bool:
        """Whether a record belongs to no data file; notes what it took."""
        if owner in self._streams:
            return True
        if module == "STDIO":
            self.streamed = True
        if owner not in self._pipes or (module == "POSIX" and counters[_POSIX_SEEKS]):
            return False
        if module in ("POSIX", "STDIO"):
            times = backend.fcounter_names(module)
            waited = sum(float(fcounters[times.index(f"{module}_F_{kind}_TIME")]) for kind in ("READ", "WRITE", "META"))
            self._waited[owner] = self._waited.get(owner, 0.0) + waited
        return True

    @property
    def told(self) -> list[str]:
        """Say what was left out, and why."""
        told = []
        if self._waited:
            count, waited = len(self._waited), sum(self._waited.values())
            pipes = "1 named pipe is" if count == 1 else f"{count:,} named pipes are"
            told.append(
                f"{pipes} left out: calls on pipes wait for their partners, here {format_duration(waited)} in all"
            )
        for module, wrong in self.damaged.items():
            one = len(wrong) == 1
            records = "1 damaged record" if one else f"{len(wrong):,} damaged records"
            told.append(f"{records} of module {module} {'is' if one else 'are'} left out: {wrong[0]}")
        return told


def _describe_unread(log: dict[str, Any], module: str, index: int) -> str:
    """Say that a module is not judged, with the bytes that it holds where it counts some."""
    words = f"module {module} is in the log and is not judged"
    if module not in _COUNTED:
        return words
    names = backend.counter_names(module)
    moved = {"read": 0, "written": 0}
    for buffer in _records(log, module, index):
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        counters = np.frombuffer(_ffi.buffer(record.counters), np.int64)
        for way in moved:
            moved[way] += int(counters[names.index(f"{module}_BYTES_{way.upper()}")])
    if not 0 <= sum(moved.values()) <= _MOST_BYTES:
        return words
    return f"{words}: it holds {format_size(moved['read'])} read and {format_size(moved['written'])} written"


def _job(log: dict[str, Any], path: str) -> dict[str, Any]:
    found = _find_job(path)
    if found is not None:
        record, executable, mounts, gap = found
    else:
        record, gap = _ffi.new("struct darshan_job *"), 0
        if _library.darshan_log_get_job(log["handle"], record) < 0:
            raise LogError("its job record cannot be read: it is cut off or damaged")
        name = _ffi.new("char[]", 8192)
        _library.darshan_log_get_exe(log["handle"], name)
        executable, mounts = _decode_text(name), _mounts(log)
    ranks = int(record.nprocs)
    if not 1 <= ranks <= _MAX_RANKS:
        raise LogError(f"it is damaged: it tells of {ranks} processes")
    elapsed = _ffi.new("double *")
    _library.darshan_log_get_job_runtime(log["handle"], record[0], elapsed)
    started = int(record.start_time_sec) + int(record.start_time_nsec) * 1e-9
    return {
        "executable": executable,
        "mounts": mounts,
        "gap": gap,
        "identifier": str(int(record.jobid)),
        "ranks": ranks,
        "elapsed": max(0.0, float(elapsed[0])) if np.isfinite(elapsed[0]) else 0.0,
        "started": started if started > 0 else None,
        "metadata": _ffi.buffer(record.metadata)[:].split(b"\0")[0].decode("utf-8", "backslashreplace"),
        # PyDarshan takes the version from the start of the handle in the same way: it has no function for this.
        "version": _decode_text(_ffi.cast("char *", log["handle"]), 8),
    }


def _find_job(path: str) -> tuple[Any, str, list[tuple[str, str]], int] | None:
    """Find the job record behind a gap after the header, where the library does not look; None without a gap.

    Some builds of Darshan leave 8 KiB of zeros there; all else is where the header says.

    Returns
    -------
    record : struct darshan_job *
    executable : str
    mounts : list of (path, type)
    gap : int
        Bytes.
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEADER)
        # The magic number as a little machine writes it; earlier formats have a shorter record.
        if len(head) < _HEADER or struct.unpack_from("<q", head, 8)[0] != _MAGIC or head[:4] < _WITH_NANOSECONDS:
            return None
        (names_at,) = struct.unpack_from("<Q", head, _NAMES_AT)
        packed = file.read(max(0, min(names_at, _MOST_JOB) - _HEADER))
    job = packed.lstrip(b"\0")
    gap, kind = len(packed) - len(job), head[16]
    if gap < _LEAST_GAP or kind not in (0, 1):
        return None
    size = _ffi.sizeof("struct darshan_job")
    try:
        data = zlib.decompressobj().decompress(job, _MOST_JOB) if kind == 0 else bz2.decompress(job)
    except (zlib.error, OSError, ValueError):
        return None
    if len(data) < size:
        return None
    record = _ffi.new("struct darshan_job *")
    _ffi.memmove(record, data[:size], size)
    lines = data[size:].split(b"\0")[0].decode("utf-8", "backslashreplace").split("\n")
    mounts = [(place, kind) for kind, _, place in (line.partition("\t") for line in lines[1:]) if place]
    return record, lines[0], sorted(mounts, key=lambda mount: -len(mount[0])), gap


def _decode_text(pointer: Any, most: int = 4096) -> str:
    return bytes(_ffi.string(pointer, most)).decode("utf-8", "backslashreplace")


def _hints(metadata: str) -> dict[str, str]:
    """The hints with which Darshan wrote its own log say nothing of the program: only the library's version is kept."""
    return {key: value for key, _, value in (line.partition("=") for line in metadata.splitlines()) if key == "lib_ver"}


def _mounts(log: dict[str, Any]) -> list[tuple[str, str]]:
    found = _ffi.new("struct darshan_mnt_info **")
    count = _ffi.new("int *")
    if _library.darshan_log_get_mounts(log["handle"], found, count) < 0 or count[0] <= 0:
        return []
    mounts = [
        (_decode_text(found[0][i].mnt_path, 3015), _decode_text(found[0][i].mnt_type, 3015)) for i in range(count[0])
    ]
    _library.darshan_free(found[0])
    return sorted(mounts, key=lambda mount: -len(mount[0]))


def _names(log: dict[str, Any]) -> dict[int, str]:
    found = _ffi.new("struct darshan_name_record **")
    count = _ffi.new("int *")
    _library.darshan_log_get_name_records(log["handle"], found, count)
    names = {}
    for i in range(count[0]):
        names[int(found[0][i].id)] = _decode_text(found[0][i].name)
        _library.darshan_free(found[0][i].name)
    if count[0]:
        _library.darshan_free(found[0])
    return names


def _records(log: dict[str, Any], module: str, index: int) -> Iterator[Any]:
    """The records of a module, each alive until the next is asked for."""
    while True:
        buffer = _ffi.new("void **")
        got = _library.darshan_log_get_record(log["handle"], index, buffer)
        if got < 0:
            raise LogError(f"it is damaged: module {module} cannot be read to its end")
        if got == 0 or buffer[0] == _ffi.NULL:
            return
        try:
            yield buffer
        finally:
            _library.darshan_free(buffer[0])


def _add(folded: Folded, module: str, buffer: Any, left_out: _LeftOut) -> None:
    if module in _SUMMED:
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        owner = int(record.file_rec_id) if module in ("H5D", "PNETCDF_VAR") else int(record.base_rec.id)
        counters = np.frombuffer(_ffi.buffer(record.counters), np.int64)
        fcounters = np.frombuffer(_ffi.buffer(record.fcounters), np.float64)
        if left_out.holds(module, owner, counters, fcounters):
            folded.add_aside(_SUMMED[module], int(record.base_rec.rank), counters, fcounters)
            return
        wrong = find_damage(_SUMMED[module], counters, fcounters)
        if wrong is not None and wrong.hopeless:
            raise LogError(f"it is damaged: module {module} holds {wrong.says}")
        if wrong is not None:
            left_out.damaged.setdefault(module, []).append(wrong.says)
            return
        folded.add(_SUMMED[module], owner, int(record.base_rec.rank), counters, fcounters)
    elif module == "H5F":
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        folded.add_file("hdf5", int(record.base_rec.id), int(record.counters[1]), float(record.fcounters[4]))
    elif module == "PNETCDF_FILE":
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        folded.add_file("pnetcdf", int(record.base_rec.id), int(record.counters[5]), float(record.fcounters[6]))
    elif module == "LUSTRE":
        _add_lustre(folded, _ffi.cast(backend._structdefs[module], buffer)[0])
    elif module == "HEATMAP":
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        owner = int(record.base_rec.id)
        named = left_out.names.get(owner)
        kind = named.rpartition(":")[2] if named is not None else _HEATMAPS.get(owner, "")
        if kind == "STDIO" and not left_out.streamed:
            return
        bins = int(record.nbins)
        if not 0 < bins <= _MAX_BINS:
            raise LogError(f"it is damaged: a heatmap with {bins} bins")
        written = np.frombuffer(_ffi.buffer(record.write_bins, 8 * bins), np.int64)
        read = np.frombuffer(_ffi.buffer(record.read_bins, 8 * bins), np.int64)
        folded.add_heatmap(kind, int(record.base_rec.rank), float(record.bin_width_seconds), written, read)
    elif module == "DXT_POSIX":
        # The segments of DXT_MPIIO are the same bytes a second time: only its presence is noted.
        _add_trace(folded, buffer)


def _add_lustre(folded: Folded, record: Any) -> None:
    components = int(record.num_comps)
    if not 0 <= components <= _MAX_COMPONENTS:
        raise LogError(f"it is damaged: a Lustre layout of {components} components")
    targets = [int(record.ost_ids[i]) for i in range(max(0, min(int(record.num_stripes), _MAX_STRIPES)))]
    place = 0
    found = []
    for i in range(components):
        size, count = int(record.comps[i].counters[0]), int(record.comps[i].counters[1])
        start, end = int(record.comps[i].counters[4]), int(record.comps[i].counters[5])
        count = max(0, count)
        found.append((size, targets[place : place + count] or [], start, end, count))
        place += count
    folded.add_layout(int(record.base_rec.id), "LUSTRE", found)


_SEGMENT = np.dtype(
    {
        "names": ["offset", "length", "start", "end"],
        "formats": ["<i8", "<i8", "<f8", "<f8"],
        "offsets": [
            _ffi.offsetof("struct segment_info", name) for name in ("offset", "length", "start_time", "end_time")
        ],
        "itemsize": _ffi.sizeof("struct segment_info"),
    }
)


def _add_trace(folded: Folded, buffer: Any) -> None:
    identifier, rank, written, read = _segments_of(buffer)
    folded.add_trace(identifier, rank, written, written=True)
    folded.add_trace(identifier, rank, read, written=False)


def _segments_of(buffer: Any) -> tuple[int, int, Any, Any]:
    """The file and the rank of a trace's record, its writes and its reads."""
    record = _ffi.cast(backend._structdefs["DXT_POSIX"], buffer)[0]
    writes, reads = int(record.write_count), int(record.read_count)
    if writes < 0 or reads < 0 or writes + reads > _MAX_SEGMENTS:
        raise LogError(f"it is damaged: a trace with {writes} writes and {reads} reads of one rank")
    start = _ffi.cast("char *", buffer[0]) + _ffi.sizeof("struct dxt_file_record")
    raw = _ffi.buffer(start, (writes + reads) * _SEGMENT.itemsize) if writes + reads else b""
    segments = np.frombuffer(raw, _SEGMENT)
    return int(record.base_rec.id), int(record.base_rec.rank), segments[:writes], segments[writes:]
