"""One Darshan log, summed up record by record; imported only by the reading process.

PyDarshan's own report keeps every record in memory. Here each is read through its C library and added to the sums of
its file, so that memory grows with the number of files alone, and that is bounded too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from darshan.backend import cffi_backend as backend

from stripewise.observe._darshan_fold import Folded, LogError, LogHead

__all__ = ["LogError", "summarise"]

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
_JUDGED = {
    "POSIX": "sizes, alignment and order of the requests to the file system",
    "MPI-IO": "collective and independent calls",
    "STDIO": "buffered streams",
    "LUSTRE": "striping and the balance of OSTs",
    "HEATMAP": "I/O over time",
    "DXT_POSIX": "single requests: when each ran, how long it took, and which OST served it",
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
        raise LogError(
            "it is not a Darshan log, a report of the runtime or the output of IOR, or is cut off within its header"
        )
    log = {"handle": handle, "modules": None, "name_records": None}
    try:
        return _summarise(path, log)
    finally:
        _library.darshan_log_close(handle)


def _summarise(path: str, log: dict[str, Any]) -> dict[str, Any]:
    job = _job(log)
    modules = backend.log_get_modules(log)
    folded = Folded(job["ranks"], job["elapsed"], _mounts(log))
    # Layouts first: a trace is spread over OSTs with them.
    order = ["LUSTRE", *_SUMMED, "H5F", "PNETCDF_FILE", "HEATMAP", "DXT_POSIX", "DXT_MPIIO"]
    names: dict[int, str] = {}
    newer: list[str] = []
    for module in order:
        if module not in modules:
            continue
        if modules[module]["ver"] > _NEWEST[module]:
            newer.append(
                f"module {module} has version {modules[module]['ver']}, newer than the installed PyDarshan "
                "knows: not read"
            )
            continue
        if module == "HEATMAP":
            names = _names(log)
        for buffer in _records(log, module, modules[module]["idx"]):
            _add(folded, module, buffer, names)
    if not names:
        names = _names(log)
    seen = [name for name in modules if name not in ("NULL",)]
    unseen = [f"no {name} module: nothing is known of {what}" for name, what in _JUDGED.items() if name not in modules]
    partial = [name for name, entry in modules.items() if entry["partial_flag"]]
    hints = _hints(job.pop("metadata"))
    head = LogHead("darshan", path, [*unseen, *newer], job.pop("version"), seen, partial, hints)
    return folded.activity(head, job, names)


def _job(log: dict[str, Any]) -> dict[str, Any]:
    record = _ffi.new("struct darshan_job *")
    if _library.darshan_log_get_job(log["handle"], record) < 0:
        raise LogError("its job record cannot be read: it is cut off or damaged")
    ranks = int(record.nprocs)
    if not 1 <= ranks <= _MAX_RANKS:
        raise LogError(f"it is damaged: it tells of {ranks} processes")
    elapsed = _ffi.new("double *")
    _library.darshan_log_get_job_runtime(log["handle"], record[0], elapsed)
    executable = _ffi.new("char[]", 8192)
    _library.darshan_log_get_exe(log["handle"], executable)
    started = int(record.start_time_sec) + int(record.start_time_nsec) * 1e-9
    return {
        "executable": _decode_text(executable),
        "identifier": str(int(record.jobid)),
        "ranks": ranks,
        "elapsed": max(0.0, float(elapsed[0])) if np.isfinite(elapsed[0]) else 0.0,
        "started": started if started > 0 else None,
        "metadata": _ffi.buffer(record.metadata)[:].split(b"\0")[0].decode("utf-8", "backslashreplace"),
        # PyDarshan takes the version from the start of the handle in the same way: it has no function for this.
        "version": _decode_text(_ffi.cast("char *", log["handle"]), 8),
    }


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


def _add(folded: Folded, module: str, buffer: Any, names: dict[int, str]) -> None:
    if module in _SUMMED:
        record = _ffi.cast(backend._structdefs[module], buffer)[0]
        owner = int(record.file_rec_id) if module in ("H5D", "PNETCDF_VAR") else int(record.base_rec.id)
        counters = np.frombuffer(_ffi.buffer(record.counters), np.int64)
        fcounters = np.frombuffer(_ffi.buffer(record.fcounters), np.float64)
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
        kind = names[owner].rpartition(":")[2] if owner in names else _HEATMAPS.get(owner, "")
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
    record = _ffi.cast(backend._structdefs["DXT_POSIX"], buffer)[0]
    writes, reads = int(record.write_count), int(record.read_count)
    if writes < 0 or reads < 0 or writes + reads > _MAX_SEGMENTS:
        raise LogError(f"it is damaged: a trace with {writes} writes and {reads} reads of one rank")
    start = _ffi.cast("char *", buffer[0]) + _ffi.sizeof("struct dxt_file_record")
    raw = _ffi.buffer(start, (writes + reads) * _SEGMENT.itemsize) if writes + reads else b""
    segments = np.frombuffer(raw, _SEGMENT)
    identifier, rank = int(record.base_rec.id), int(record.base_rec.rank)
    folded.add_trace(identifier, rank, segments[:writes], written=True)
    folded.add_trace(identifier, rank, segments[writes:], written=False)
