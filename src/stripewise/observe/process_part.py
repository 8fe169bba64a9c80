"""A part: what a process without MPI did to its files, in the form that ``native/observer/part.h`` defines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.formats import SIZE_NAMES

_MAGIC = b"SWPROC7"
OPERATIONS = (
    "open", "close", "read", "read_at", "write", "write_at", "read_stream", "write_stream", "read_async", "write_async",
    "read_copy", "write_copy", "seek", "sync", "set_size", "map", "advise",
)  # fmt: skip
METADATA = ("failed_open", "stat", "change", "list")
_CALLS = np.dtype([(name, "u8") for name in ("count", "bytes", "time", "least", "most")])
_DIRECTION = np.dtype(
    [
        ("first", "u8"),
        ("last", "u8"),
        ("bins", "u8", len(SIZE_NAMES)),
        ("contiguous", "u8"),
        ("strided", "u8"),
        ("random", "u8"),
        ("low", "u8"),
        ("high", "u8"),
        ("top", [("size", "u8"), ("count", "u8")], 4),
    ]
)
_MOST_SETTINGS = 24
_LAYOUT_NUMBERS = 6
_FILE_SYSTEMS = 3
GIVEN, REFUSED = 1, 2
_FILE = np.dtype(
    [
        ("state", "u4"),
        ("hash", "u4"),
        ("told", "u4"),
        ("place", "u4"),
        ("layout", "i8", _LAYOUT_NUMBERS),
        ("path", "S512"),
        ("calls", _CALLS, len(OPERATIONS)),
        ("way", _DIRECTION, 2),
        ("effects", [(way, "u8") for way in ("acted", "missed", "failed")], _MOST_SETTINGS),
        ("note", "S96"),
    ]
)
_HEAD = np.dtype(
    [
        ("magic", "S8"),
        ("record_size", "u4"),
        ("records", "u4"),
        ("pid", "i4"),
        ("parent", "i4"),
        ("rank", "i4"),
        ("ranks", "i4"),
        ("real", "u8"),
        ("start", "u8"),
        ("end", "u8"),
        ("host", "S64"),
        ("executable", "S512"),
        ("script", "S128"),
        ("metadata", [("count", "u8"), ("time", "u8")], len(METADATA)),
        ("settings", [("name", "S24"), ("value", "S64"), ("state", "u8")], _MOST_SETTINGS),
        ("misread", "u8"),
        ("windows", [("fetches", "u8"), ("fetched", "u8"), ("used", "u8"), ("memory", "u8")]),
        ("layouts", [("system", "S24"), ("keys", "S24", _LAYOUT_NUMBERS)], _FILE_SYSTEMS),
    ]
)
_FILES = 512
SECOND = 1e9
"""Ticks of a part's clock."""


@dataclass
class Process:
    """One part, and where its clock stands beside that of the calendar.

    Attributes
    ----------
    data : numpy record
        What it says of the process.
    files : numpy array
        Of the records of its files, those with calls.
    script : str
        What it interprets; empty if that is nothing.
    """

    data: Any
    files: Any
    script: str

    @property
    def rank(self) -> int:
        """Of the launcher; 0 where there is none."""
        return max(0, int(self.data["rank"]))

    @property
    def start(self) -> float:
        """Seconds since 1970."""
        return float(self.data["real"]) / SECOND

    @property
    def end(self) -> float:
        """Seconds since 1970, of its last act if it was killed."""
        seen = [int(self.data["end"]), *(int(last) for last in self.files["way"]["last"].ravel())]
        return self.moment(max(seen))

    @property
    def executable(self) -> str:
        """Its path."""
        return decode_field(self.data["executable"])

    def moment(self, tick: int) -> float:
        """Seconds since 1970 of a time in the part."""
        return (int(self.data["real"]) + max(0, tick - int(self.data["start"]))) / SECOND

    def seconds(self, *names: str) -> float:
        """Time in operations whose names begin so; in all without any."""
        wanted = [at for at, name in enumerate(OPERATIONS) if name.startswith(names or "")]
        spent = int(self.files["calls"]["time"][:, wanted].sum()) / SECOND
        return spent if names else spent + int(self.data["metadata"]["time"].sum()) / SECOND


def read_part(path: Path) -> Process | None:
    """Read a part; None if it is not whole, because the process was killed while it made it."""
    size = _HEAD.itemsize + _FILES * _FILE.itemsize
    try:
        content = path.read_bytes() if path.stat().st_size == size else b""
    except OSError:
        return None
    if len(content) != size:
        return None
    # Copies: most of a part is empty, and there may be thousands.
    head = np.frombuffer(content, _HEAD, 1).copy()[0]
    if head["magic"] != _MAGIC or head["record_size"] != _FILE.itemsize:
        return None
    files = np.frombuffer(content, _FILE, _FILES, _HEAD.itemsize)
    files = files[files["state"] == 2]
    files = files[files["calls"]["count"].sum(axis=1) > 0]
    return Process(head, files, decode_field(head["script"])) if len(files) else None


def decode_field(data: bytes) -> str:
    """Read a field that zero bytes fill up."""
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
