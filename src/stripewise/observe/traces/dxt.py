"""Requests of Darshan's extended trace (DXT) as people keep them outside of logs: CSV, or text of darshan-dxt-parser.

CSV has one row per request, and columns as DXT Explorer or PyDarshan name them, in any order and among others. Times
count from the start of the job, or from 1970.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TextIO

NAME = "dxt"
TITLE = "DXT trace"
SUFFIXES: tuple[str, ...] = ()
INNER: tuple[str, ...] = ()
CUT = "write one row per request, with file, rank, operation, offset, size, start and end; or give the log itself"

_CSV, _TEXTS = (".csv", ".tsv"), (".txt", ".dxt", ".log", ".out")
_BEGINNING = 64 << 10
_SEPARATORS = (",", ";", "\t")
_PRINTED = "# DXT, file_id:"
_MOST_RANKS = 10_000_000
_SINCE_1970 = 1e8
"""Seconds: no job is as long, and all clocks of jobs are past it."""
_LARGEST = 1 << 53
_NAMES = {
    "file": ("file_name", "filename", "file", "path"),
    "id": ("file_id", "id", "record_id"),
    "api": ("api", "module", "mod"),
    "rank": ("rank",),
    "operation": ("operation", "op", "wt/rd"),
    "offset": ("offset",),
    "size": ("size", "length"),
    "start": ("start", "start_time", "start(s)"),
    "end": ("end", "end_time", "end(s)"),
}
_NEEDED = ("rank", "operation", "offset", "size", "start", "end")
_NESTED = ("read_segments", "write_segments")
_WAYS = {"read": "read", "write": "write", "r": "read", "w": "write"}
_POSIX, _OTHERS = "POSIX", ("MPIIO", "MPI-IO")
_UNSEEN = (
    "a DXT trace has data requests alone: opens, seeks, syncs and their time are not judged",
    "a DXT table has no alignment, nodes and layouts: these are not judged",
    "DXT keeps a limited number of requests of each rank: what came later is not in the trace",
)
Row = tuple[str, str, str, str, str, str, str, str]
"""File, API, rank, operation, offset, size, start and end, as they are written."""
Request = tuple[int, str, str, int, int, float, float]
"""Rank, file, ``read`` or ``write``, bytes, offset, start and end in seconds."""


def holds(path: Path) -> bool:
    """Whether a path is a file whose beginning shows such requests."""
    name = path.name.lower()
    if not name.endswith((*_CSV, *_TEXTS)) or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(_BEGINNING).decode("utf-8", "replace")
    except OSError:
        return False
    return (
        f"\n{_PRINTED}" in f"\n{start}" if name.endswith(_TEXTS) else _columns(start) is not None or _is_nested(start)
    )


def parts(path: Path) -> list[Path]:
    """Give the files of a trace: one file is one job."""
    return [path]


def summarise(path: Path) -> dict[str, Any]:
    """Sum up a trace: an activity as JSON.

    Raises
    ------
    LogError
        If it has no requests of the POSIX level.
    """
    from stripewise.observe._darshan_fold import LogError, LogHead  # noqa: PLC0415  loads Darshan's library
    from stripewise.observe.traces.calls import TraceCalls  # noqa: PLC0415  loads Darshan's library

    calls = TraceCalls()
    table = _read_into(path, calls)
    ranks = max(1 + table.highest, int(_told(table.head, "nprocs")))
    if ranks > _MOST_RANKS:
        raise LogError(f"it would be of more than {_MOST_RANKS:,} ranks")
    if table.earliest < _SINCE_1970:
        calls.seen((0.0, _told(table.head, "run time")))
    unseen = [*_UNSEEN, *table.gaps()]
    return calls.activity(
        LogHead(NAME, str(path), unseen, table.head.get("darshan log version", ""), seen=[_POSIX]),
        executable=table.head.get("exe", ""),
        ranks=ranks,
        started=table.earliest >= _SINCE_1970,
    )


def list_requests(path: Path, most: int) -> list[Request]:
    """Give the requests of a trace, at most so many.

    Raises
    ------
    LogError
        If it has no requests of the POSIX level.
    """
    kept = _Kept(most)
    _read_into(path, kept)
    return kept.requests


Who = tuple[int, str, str]
Span = tuple[float, float]


class _Mover(Protocol):
    def moved(self, who: Who, way: str, size: int, offset: int | None, span: Span) -> None:
        """Take a read or a write; ValueError where its numbers cannot be those of a call."""


class _Kept:
    """The first requests of a trace, one by one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.requests: list[Request] = []

    def moved(self, who: Who, way: str, size: int, offset: int | None, span: Span) -> None:
        if len(self.requests) < self._most:
            self.requests.append((who[0], who[1], way, size, offset or 0, *span))


def _read_into(path: Path, calls: _Mover) -> _Table:
    """Read a trace's requests into ``calls``, and give what was seen beside them."""
    from stripewise.observe._darshan_fold import LogError  # noqa: PLC0415  loads Darshan's library

    table = _Table(calls)
    with path.open(encoding="utf-8-sig", errors="backslashreplace", newline="") as lines:
        start = lines.readline(_BEGINNING)
        if _is_nested(start):
            raise LogError("all requests of a record are in one cell, as pandas writes nested frames")
        lines.seek(0)
        try:
            table.add(_printed(lines, table.head) if _columns(start) is None else _listed(lines))
        except csv.Error:
            table.wrong["rows after damage"] += 1
    if table.highest < 0:
        raise LogError("it has requests of MPI-IO alone" if table.others else "none of its rows is a request")
    return table


class _Table:
    """The rows of a table, added one by one.

    Attributes
    ----------
    head : dict
        What darshan-dxt-parser prints of the job.
    """

    def __init__(self, calls: _Mover) -> None:
        self._calls = calls
        self.head: dict[str, str] = {}
        self.wrong: Counter[str] = Counter()
        self.others, self.highest = 0, -1
        self.earliest = float("inf")

    def add(self, rows: Iterable[Row]) -> None:
        """Add requests; those that cannot be are counted."""
        for file, api, rank, operation, offset, size, start, end in rows:
            if api.upper().removeprefix("X_").removeprefix("DXT_") in _OTHERS:
                self.others += 1
                continue
            try:
                number = _whole(rank)
                span = (float(start), float(end))
                if not file or number >= _MOST_RANKS or span[1] < span[0] or span[0] < 0 or not _is_posix(api):
                    raise ValueError("not a request")
                way = _WAYS[operation.strip().lower()]
                self._calls.moved((number, file, "posix"), way, _whole(size), _whole(offset), span)
            except (ValueError, KeyError, OverflowError):
                self.wrong["rows that are no requests"] += 1
                continue
            self.highest, self.earliest = max(self.highest, number), min(self.earliest, span[0])

    def gaps(self) -> list[str]:
        """Say what of the table is not in the sums."""
        found = []
        if "nprocs" not in self.head:
            found.append("a DXT table has no number of ranks and no end of the job: the last that move data count")
        if self.others:
            found.append(f"requests of MPI-IO ({self.others:,}) are not judged, only the POSIX calls beneath them")
        return [*found, *(f"{what} ({count:,}) are not counted" for what, count in self.wrong.items())]


def _told(head: dict[str, str], name: str) -> float:
    """Give a number of the job, 0 where it is none."""
    try:
        number = float(head.get(name, 0.0))
    except ValueError:
        return 0.0
    return number if 0 <= number <= _LARGEST else 0.0


def _is_posix(api: str) -> bool:
    return api.upper().removeprefix("X_").removeprefix("DXT_") in ("", _POSIX)


def _whole(text: str) -> int:
    """Read a number of bytes or a rank; pandas writes some as ``4096.0``."""
    number = int(text) if text.isdecimal() else float(text)
    if not 0 <= number <= _LARGEST or number != int(number):
        raise ValueError("not a whole number")
    return int(number)


def _split(line: str) -> tuple[str, list[str]]:
    """Split a header: the separator that gives most columns, and their names."""
    tried = {separator: line.strip().split(separator) for separator in _SEPARATORS}
    best = max(tried, key=lambda separator: len(tried[separator]))
    return best, [name.strip().strip('"').lower() for name in tried[best]]


def _columns(beginning: str) -> list[int] | None:
    """Give the place of each column of :data:`Row`, -1 where one is absent; None where the first line is no header."""
    _, names = _split(beginning.lstrip("\ufeff").partition("\n")[0])
    place = {
        column: next((names.index(name) for name in spellings if name in names), -1)
        for column, spellings in _NAMES.items()
    }
    file = place["file"] if place["file"] >= 0 else place["id"]
    if file < 0 or any(place[column] < 0 for column in _NEEDED):
        return None
    return [file, place["api"], *(place[column] for column in _NEEDED)]


def _is_nested(beginning: str) -> bool:
    _, names = _split(beginning.lstrip("\ufeff").partition("\n")[0])
    return all(name in names for name in _NESTED)


def _listed(lines: TextIO) -> Iterator[Row]:
    """Give the rows of CSV; DXT Explorer repeats the header where it appends."""
    header = lines.readline(_BEGINNING)
    places, (separator, names) = _columns(header), _split(header)
    assert places is not None
    named = any(name in names for name in _NAMES["file"])
    for cells in csv.reader(lines, delimiter=separator):
        if not cells or [cell.strip().lower() for cell in cells] == names:
            continue
        file, *rest = (cells[place].strip() if 0 <= place < len(cells) else "" for place in places)
        yield (file if named or not file else f"(record {file})", *rest)  # type: ignore[misc]  # one of each column


def _printed(lines: TextIO, head: dict[str, str]) -> Iterator[Row]:
    """Give the requests that darshan-dxt-parser prints, and note what it prints of the job."""
    file = ""
    for line in lines:
        if line.startswith(_PRINTED):
            file = line.rstrip("\r\n").partition(", file_name: ")[2] or line[len(_PRINTED) :].strip()
        elif line.startswith("# DXT"):
            continue
        elif line.startswith("#"):
            name, _, value = line[1:].strip().partition(":")
            head.setdefault(name.strip(), value.strip())
        elif len(words := line.split()) >= 8:
            api, rank, operation, _, *numbers = words
            yield (file, api, rank, operation, *numbers[:4])  # type: ignore[misc]  # offset, size, start, end
