"""Traces of Recorder, in the Parquet that its own ``recorder2parquet`` makes of them: one row per call.

Each process of the converter writes ``PROCESS_PIECE.parquet`` with the calls of several ranks. Arguments are the texts
of ``recorder2text``; times have 24 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise.errors import UserError, import_optional
from stripewise.observe.traces import recorder

if TYPE_CHECKING:
    from stripewise.observe.traces.calls import TraceCalls

NAME = recorder.NAME
TITLE = "Recorder trace in Parquet"
SUFFIXES: tuple[str, ...] = ()
INNER = recorder.INNER
CUT = "Recorder's recorder2text writes the same calls as texts, which need no other package"

_FOLDER, _SUFFIX = "_parquet", ".parquet"
_PIECE = re.compile(r"(\d+)_(\d+)\.parquet")
_MAGIC = b"PAR1"
_FOOTER = 8
_SCHEMA = 4096
_SIGNS = (b"func_id", b"tstart", b"args_1")
_ARGUMENTS = tuple(f"args_{number}" for number in range(1, 11))
_COLUMNS = ("rank", "func_id", "cat", "tstart", "tend", "arg_count", *_ARGUMENTS)
_ROWS = 8192
_ROUNDED = "Recorder's Parquet has times of 24 bits: after 100 seconds they are exact to 8 microseconds"


def holds(path: Path) -> bool:
    """Whether a path is such a file, a folder with some, or a folder of Recorder that has no texts."""
    if not path.is_dir():
        return path.name.endswith(_SUFFIX) and _is_of_recorder(path)
    if (path / recorder.PACKED).is_file() and recorder.parts(path):
        return False
    pieces = parts(path)
    return bool(pieces) and _is_of_recorder(pieces[0])


def parts(path: Path) -> list[Path]:
    """Give the files of a trace, in the order in which they were written."""
    if not path.is_dir():
        return [path]
    folder = path / _FOLDER if (path / recorder.PACKED).is_file() else path
    found = {piece: _PIECE.fullmatch(piece.name) for piece in folder.glob(f"*{_SUFFIX}")}
    numbered = [(int(named[1]), int(named[2]), piece) for piece, named in found.items() if named]
    return [piece for _, _, piece in sorted(numbered)]


def summarise(path: Path) -> dict[str, Any]:
    """Sum up a trace: an activity as JSON.

    Raises
    ------
    LogError
        If it cannot be read, or pyarrow is missing.
    """
    from stripewise.observe._darshan_fold import LogError, LogHead  # noqa: PLC0415  loads Darshan's library
    from stripewise.observe.traces.calls import TraceCalls  # noqa: PLC0415  loads Darshan's library

    try:
        with import_optional("parquet"):
            import pyarrow.parquet  # noqa: F401, PLC0415  an optional package
    except UserError as error:
        raise LogError(f"{error.what}: {error.fix}") from error
    calls = TraceCalls()
    seen: set[int] = set()
    damaged = [gap for piece in parts(path) for gap in _add(calls, piece, seen)]
    if not calls.known:
        raise LogError("none of its calls names a file" if not damaged else damaged[0])
    ranks = 1 + max(seen)
    return calls.activity(
        LogHead(NAME, str(path), [*recorder.UNSEEN, _ROUNDED, *_list_missing(seen), *damaged]), ranks=ranks
    )


def _is_of_recorder(path: Path) -> bool:
    """Whether the schema at the end of a Parquet file names Recorder's columns."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _FOOTER))
            end = file.read(_FOOTER)
            length = int.from_bytes(end[:4], "little")
            if end[4:] != _MAGIC or length + _FOOTER > size:
                return False
            file.seek(size - _FOOTER - length)
            schema = file.read(min(length, _SCHEMA))
    except OSError:
        return False
    return all(sign in schema for sign in _SIGNS)


def _add(calls: TraceCalls, piece: Path, seen: set[int]) -> Iterator[str]:
    """Add the calls of one file; give what of it is not counted."""
    wrong = 0
    try:
        for row in _rows(piece):
            try:
                rank, function, kind, start, end, count, *arguments = row
                if not 0 <= rank < recorder.MOST_RANKS:
                    raise ValueError("no run has so many ranks")
                span = (float(start), float(end))
                recorder.add_call(calls, rank, function, int(kind), span, " ".join(arguments[:count]))
                seen.add(rank)
            except (ValueError, IndexError, TypeError, OverflowError, AttributeError):
                wrong += 1
    except (OSError, ValueError, KeyError, NotImplementedError):  # of these are pyarrow's own
        yield f"{piece.name} is damaged, or lacks columns of Recorder: what follows is not counted"
    if wrong:
        yield f"{piece.name} has {wrong:,} rows that cannot be read: these are not counted"


def _rows(piece: Path) -> Iterator[tuple[Any, ...]]:
    """Give the rows of a file, with the columns that are read, of which few are in memory at a time."""
    from pyarrow import parquet  # noqa: PLC0415  an optional package

    with parquet.ParquetFile(piece) as file:
        for batch in file.iter_batches(_ROWS, columns=list(_COLUMNS), use_threads=False):
            yield from zip(*(batch.column(name).to_pylist() for name in _COLUMNS), strict=True)


def _list_missing(seen: set[int]) -> list[str]:
    """Say how many ranks have no calls; the last ones may be missing without a sign."""
    missing = 1 + max(seen) - len(seen)
    return [f"{missing:,} of {1 + max(seen):,} ranks have no calls: these are not judged"] if missing else []
