"""A part: what a process without MPI did to its files, in the form that ``native/observer/part.h`` defines."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ctypes import Array, Structure, c_char, c_int32, c_int64, c_uint32, c_uint64, sizeof
from dataclasses import dataclass
from pathlib import Path

from stripewise.formats import SIZE_NAMES

_MAGIC = b"SWPROC7"
OPERATIONS = (
    "open", "close", "read", "read_at", "write", "write_at", "read_stream", "write_stream", "read_async", "write_async",
    "read_copy", "write_copy", "seek", "sync", "set_size", "map", "advise",
)  # fmt: skip
METADATA = ("failed_open", "stat", "change", "list")
WAYS = ("read", "write")
_OF_WAY = {way: tuple(at for at, name in enumerate(OPERATIONS) if name.startswith(way)) for way in WAYS}
_MOST_SETTINGS = 24
_LAYOUT_NUMBERS = 6
_FILE_SYSTEMS = 3
_TOP = 4
GIVEN, REFUSED = 1, 2


def _counters(*names: str) -> list[tuple[str, type]]:
    return [(name, c_uint64) for name in names]


class Calls(Structure):
    """``struct calls``."""

    count: int
    bytes: int
    time: int
    least: int
    most: int
    _fields_ = _counters("count", "bytes", "time", "least", "most")


class _Size(Structure):
    size: int
    count: int
    _fields_ = _counters("size", "count")


class Direction(Structure):
    """``struct direction``."""

    first: int
    last: int
    bins: Array[c_uint64]
    contiguous: int
    strided: int
    random: int
    low: int
    high: int
    top: Array[_Size]
    _fields_ = (
        *_counters("first", "last"),
        ("bins", c_uint64 * len(SIZE_NAMES)),
        *_counters("contiguous", "strided", "random", "low", "high"),
        ("top", _Size * _TOP),
    )


class _Effect(Structure):
    acted: int
    missed: int
    failed: int
    _fields_ = _counters("acted", "missed", "failed")


class FileRecord(Structure):
    """``struct file_record``."""

    state: int
    hash: int
    told: int
    place: int
    layout: Array[c_int64]
    path: bytes
    calls: Array[Calls]
    way: Array[Direction]
    effects: Array[_Effect]
    note: bytes
    _fields_ = (
        *((name, c_uint32) for name in ("state", "hash", "told", "place")),
        ("layout", c_int64 * _LAYOUT_NUMBERS),
        ("path", c_char * 512),
        ("calls", Calls * len(OPERATIONS)),
        ("way", Direction * len(WAYS)),
        ("effects", _Effect * _MOST_SETTINGS),
        ("note", c_char * 96),
    )


class _Metadata(Structure):
    count: int
    time: int
    _fields_ = _counters("count", "time")


class Asked(Structure):
    """``struct asked_setting``."""

    name: bytes
    value: bytes
    state: int
    _fields_ = (("name", c_char * 24), ("value", c_char * 64), ("state", c_uint64))


class Windows(Structure):
    """What the accelerator of small reads did."""

    fetches: int
    fetched: int
    used: int
    memory: int
    _fields_ = _counters("fetches", "fetched", "used", "memory")


class _Layouts(Structure):
    system: bytes
    keys: Array[Array[c_char]]
    _fields_ = (("system", c_char * 24), ("keys", c_char * 24 * _LAYOUT_NUMBERS))


class Head(Structure):
    """``struct part`` before its files."""

    magic: bytes
    record_size: int
    records: int
    pid: int
    parent: int
    rank: int
    ranks: int
    real: int
    start: int
    end: int
    host: bytes
    executable: bytes
    script: bytes
    metadata: Array[_Metadata]
    settings: Array[Asked]
    misread: int
    windows: Windows
    layouts: Array[_Layouts]
    _fields_ = (
        ("magic", c_char * 8),
        *((name, c_uint32) for name in ("record_size", "records")),
        *((name, c_int32) for name in ("pid", "parent", "rank", "ranks")),
        *_counters("real", "start", "end"),
        ("host", c_char * 64),
        ("executable", c_char * 512),
        ("script", c_char * 128),
        ("metadata", _Metadata * len(METADATA)),
        ("settings", Asked * _MOST_SETTINGS),
        ("misread", c_uint64),
        ("windows", Windows),
        ("layouts", _Layouts * _FILE_SYSTEMS),
    )


_FILES = 512
_READY = 2
"""State of a record that is in use."""
SECOND = 1e9
"""Ticks of a part's clock."""


@dataclass
class Process:
    """One part, and where its clock stands beside that of the calendar.

    Attributes
    ----------
    head : Head
        What it says of the process.
    files : sequence of FileRecord
        Those of its files with calls.
    script : str
        What it interprets; empty if that is nothing.
    """

    head: Head
    files: Sequence[FileRecord]
    script: str

    @property
    def rank(self) -> int:
        """Of the launcher; 0 where there is none."""
        return max(0, self.head.rank)

    @property
    def host(self) -> str:
        """The name of its node."""
        return decode_field(self.head.host)

    @property
    def start(self) -> float:
        """Seconds since 1970."""
        return self.head.real / SECOND

    @property
    def end(self) -> float:
        """Seconds since 1970, of its last act if it was killed."""
        return self.moment(max([self.head.end, *(way.last for file in self.files for way in file.way)]))

    @property
    def executable(self) -> str:
        """Its path."""
        return decode_field(self.head.executable)

    def moment(self, tick: int) -> float:
        """Seconds since 1970 of a time in the part."""
        return (self.head.real + max(0, tick - self.head.start)) / SECOND

    def seconds(self, way: str = "") -> float:
        """Time in reads or writes; in all operations without a direction."""
        wanted = _OF_WAY[way] if way else range(len(OPERATIONS))
        spent = sum(file.calls[at].time for file in self.files for at in wanted)
        return (spent if way else spent + sum(one.time for one in self.head.metadata)) / SECOND


def bytes_moved(files: Iterable[FileRecord], way: str) -> int:
    """Sum what was read from files, or written."""
    return sum(file.calls[at].bytes for file in files for at in _OF_WAY[way])


def read_part(path: Path) -> Process | None:
    """Read a part; None if it is not whole, because the process was killed while it made it."""
    record, before = sizeof(FileRecord), sizeof(Head)
    size = before + _FILES * record
    try:
        content = path.read_bytes() if path.stat().st_size == size else b""
    except OSError:
        return None
    if len(content) != size:
        return None
    head = Head.from_buffer_copy(content)
    if head.magic != _MAGIC or head.record_size != record:
        return None
    # Copies: most of a part is empty, and there may be thousands.
    ready = (at for at in range(before, size, record) if struct.unpack_from("I", content, at)[0] == _READY)
    files = [FileRecord.from_buffer_copy(content, at) for at in ready]
    files = [file for file in files if any(one.count for one in file.calls)]
    return Process(head, files, decode_field(head.script)) if files else None


def decode_field(data: bytes) -> str:
    """Read a field that zero bytes fill up."""
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
