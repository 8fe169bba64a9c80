"""Single calls of a trace, collected by process and file, and folded into the sums of a Darshan log."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stripewise.formats import SIZE_LIMITS
from stripewise.observe._darshan_fold import Folded, LogHead
from stripewise.observe._darshan_sums import Floats, Ints, places

_NOT_FILES = ("/dev/", "/proc/", "/sys/", "pipe:", "socket:", "<")
_OPENS = ("open", "openat", "creat", "fopen", "fdopen")
_STATS = ("stat", "access", "readlink", "opendir", "xstat")
_FSYNCS = ("fsync", "fdatasync", "fflush", "msync")
_COMMON = 4
_SEGMENT = np.dtype([("offset", "<i8"), ("length", "<i8"), ("start", "<f8"), ("end", "<f8")])
Who = tuple[Hashable, str, str]
"""Process, file (its path or a key of :attr:`TraceCalls.names`) and level (``posix`` or ``stdio``)."""
Span = tuple[float, float]
_LARGEST = 1 << 53
"""Bytes: more is damage, and sums of a thousand of them still fit."""


@dataclass
class _Moved:
    """Data calls of one direction."""

    offset: array[int] = field(default_factory=lambda: array("q"))
    length: array[int] = field(default_factory=lambda: array("q"))
    start: array[float] = field(default_factory=lambda: array("d"))
    end: array[float] = field(default_factory=lambda: array("d"))

    def add(self, offset: int, length: int, span: Span) -> None:
        self.offset.append(offset)
        self.length.append(length)
        self.start.append(span[0])
        self.end.append(max(span))

    def segments(self, origin: float) -> Any:
        found = np.zeros(len(self.offset), _SEGMENT)
        found["offset"], found["length"] = self.offset, self.length
        found["start"], found["end"] = np.array(self.start) - origin, np.array(self.end) - origin
        return found


@dataclass
class _Used:
    """What a process did to a file."""

    read: _Moved = field(default_factory=_Moved)
    write: _Moved = field(default_factory=_Moved)
    counted: Counter[str] = field(default_factory=Counter)
    meta_seconds: float = 0.0


class TraceCalls:
    """The calls of a trace.

    Methods that add a call raise ValueError, and change nothing, where its numbers cannot be those of a call.

    Attributes
    ----------
    names : mapping
        Paths by the keys that calls name files with; a key without an entry is the path.
    """

    def __init__(self) -> None:
        self.names: Mapping[str, str] = {}
        self._used: dict[Who, _Used] = {}
        self._position: dict[tuple[Hashable, str], int] = {}
        self._extent: dict[str, int] = {}
        self._first, self._last = float("inf"), float("-inf")

    @property
    def known(self) -> bool:
        """Whether any call named a file."""
        return bool(self._used)

    def moved(self, who: Who, way: str, size: int, offset: int | None, span: Span) -> None:
        """Add a read or a write; one without an offset begins where the last one of its process ended."""
        place = who[:2]
        begin = self._position.get(place, 0) if offset is None else offset
        if not (0 <= begin <= _LARGEST and 0 <= size <= _LARGEST):
            raise ValueError("no file has so many bytes")
        moved: _Moved = getattr(self._of(who, span), way)
        moved.add(begin, size, span)
        if offset is None:
            self._position[place] = begin + size
        self._extent[who[1]] = max(self._extent.get(who[1], 0), begin + size)

    def sought(self, who: Who, whence: int, offset: int, ended: int | None, span: Span) -> None:
        """Add a seek; ``ended`` is where it led, where the trace tells."""
        bases = {0: 0, 1: self._position.get(who[:2], 0), 2: self._extent.get(who[1], 0)}
        place = ended if ended is not None and ended >= 0 else max(0, bases.get(whence, 0) + offset)
        if place > _LARGEST:
            raise ValueError("no file has so many bytes")
        used = self._of(who, span)
        used.counted["SEEKS"] += 1
        used.meta_seconds += max(0.0, span[1] - span[0])
        self._position[who[:2]] = place

    def other(self, who: Who, name: str, span: Span) -> None:
        """Add a call that moves no data."""
        used = self._of(who, span)
        used.meta_seconds += max(0.0, span[1] - span[0])
        if name in _OPENS:
            used.counted["OPENS"] += 1
            self._position[who[:2]] = 0
        elif name in _FSYNCS:
            used.counted["FSYNCS" if who[2] == "posix" else "FLUSHES"] += 1
        elif any(part in name for part in _STATS):
            used.counted["STATS"] += 1

    def seen(self, span: Span) -> None:
        """Add to the time of the run: of what names no file, this is all that counts.

        Raises
        ------
        ValueError
            If a time is not a number.
        """
        if not all(map(math.isfinite, span)):
            raise ValueError("a time is not a number")
        self._first, self._last = min(self._first, span[0]), max(self._last, *span)

    def _of(self, who: Who, span: Span) -> _Used:
        self.seen(span)
        return self._used.setdefault(who, _Used())

    def activity(
        self,
        head: LogHead,
        *,
        executable: str = "",
        ranks: int | None = None,
        nodes: int | None = None,
        started: bool = False,
    ) -> dict[str, Any]:
        """Fold all calls into an activity, as JSON.

        Parameters
        ----------
        head : LogHead
        executable, nodes
            As those of :class:`stripewise.observe.activity.ActivityJob`.
        ranks : int, optional
            Where processes are numbered by rank; else each that moved data counts as one.
        started : bool
            Whether times count from 1970.
        """
        used = {who: calls for who, calls in self._used.items() if not self._path(who[1]).startswith(_NOT_FILES)}
        moving = dict.fromkeys(who[0] for who, calls in used.items() if calls.read.offset or calls.write.offset)
        order = {process: number for number, process in enumerate(moving)}
        number_of = range(ranks) if ranks is not None else None
        elapsed = max(0.0, self._last - self._first)
        folded = Folded(ranks or max(1, len(order)), elapsed, [])
        identifiers: dict[str, int] = {}
        for (process, key, level), calls in used.items():
            # A process that moved no data is a shell or a launcher: what it did to paths counts with the first.
            rank = number_of[int(str(process))] if number_of is not None else order.get(process, 0)
            identifier = identifiers.setdefault(self._path(key), len(identifiers))
            segments = {way: getattr(calls, way).segments(self._first) for way in ("read", "write")}
            folded.add(level, identifier, rank, *_counters(level, calls, segments))
            for way, requests in segments.items():
                folded.add_trace(identifier, rank, requests, written=way == "write")
        return folded.activity(
            head,
            job={
                "executable": executable,
                "ranks": ranks or max(1, len(order)),
                "nodes": nodes,
                "elapsed": elapsed,
                "started": self._first if started else None,
            },
            names={identifier: path for path, identifier in identifiers.items()},
        )

    def _path(self, key: str) -> str:
        return self.names.get(key, key)


def _counters(level: str, calls: _Used, segments: Mapping[str, Any]) -> tuple[Ints, Floats]:
    """Count as Darshan does, in the order of its counters."""
    place, fplace = places(level)
    counters, seconds = np.zeros(len(place), np.int64), np.zeros(len(fplace))
    for name, count in calls.counted.items():
        if name in place:
            counters[place[name]] = count
    seconds[fplace["META_TIME"]] = calls.meta_seconds
    sizes: Counter[int] = Counter()
    for way, past in (("read", "READ"), ("write", "WRITTEN")):
        requests, verb = segments[way], way.upper()
        if not len(requests):
            continue
        length, begin = requests["length"], requests["offset"]
        counters[place[f"{verb}S"]] = len(requests)
        counters[place[f"BYTES_{past}"]] = int(length.sum())
        counters[place[f"MAX_BYTE_{past}"]] = max(0, int((begin + length).max()) - 1)
        seconds[fplace[f"{verb}_TIME"]] = float((requests["end"] - requests["start"]).sum())
        seconds[fplace[f"{verb}_START_TIMESTAMP"]] = max(1e-9, float(requests["start"].min()))
        seconds[fplace[f"{verb}_END_TIMESTAMP"]] = float(requests["end"].max())
        if level != "posix":
            continue
        ended = (begin + length)[:-1]
        counters[place[f"CONSEC_{verb}S"]] = int((begin[1:] == ended).sum())
        counters[place[f"SEQ_{verb}S"]] = int((begin[1:] >= ended).sum())
        bins = [name for name in place if name.startswith(f"SIZE_{verb}_")]
        for size, count in Counter(length.tolist()).items():
            counters[place[bins[min(bisect_left(SIZE_LIMITS, size), len(bins) - 1)]]] += count
            sizes[size] += count
    if level == "posix":
        for number, (size, count) in enumerate(sizes.most_common(_COMMON), 1):
            counters[place[f"ACCESS{number}_ACCESS"]], counters[place[f"ACCESS{number}_COUNT"]] = size, count
    return counters, seconds
