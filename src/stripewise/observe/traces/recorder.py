"""Traces of Recorder, in the text that its own ``recorder2text`` makes of them: one file per rank, one line per call.

The packed form changed between versions 2.3, 2.5 and 3, and Recorder's library reads only its own; the text is the
same: ``START END FUNCTION LEVEL TYPE ( ARGUMENTS )``, in some versions with the thread before the function. File
descriptors are replaced by paths, pointers by ``%p``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stripewise.observe.traces.calls import Span, TraceCalls

NAME = "recorder"
TITLE = "Recorder trace"
SUFFIXES: tuple[str, ...] = ()
INNER: tuple[str, ...] = ("_text", "_parquet")
CUT = "run Recorder's recorder2text on the folder first: what it writes to _text is read"

PACKED = "recorder.mt"
MOST_RANKS = 10_000_000
UNSEEN = (
    "a Recorder trace has no results of calls: bytes are those that the program asked for",
    "a Recorder trace has no alignment, nodes and layouts: these are not judged",
    "calls of MPI-IO and HDF5 in a trace are not judged, only the POSIX calls beneath them",
    "readv, writev, and reads and writes through mapped memory are not counted",
)
_TEXT = "_text"
_POSIX = 0
_MISSING_NAMED = 5
_STREAMS = ("fread", "fwrite", "fopen", "fclose", "fseek", "fseeko", "ftell", "ftello", "fflush")


def holds(path: Path) -> bool:
    """Whether a path is a folder of Recorder, or the texts in one."""
    return path.is_dir() and ((path / PACKED).is_file() or (path.name == _TEXT and bool(parts(path))))


def parts(path: Path) -> list[Path]:
    """Give the texts of all ranks, in order of the ranks."""
    folder = path if path.name == _TEXT else path / _TEXT
    found = [text for text in folder.glob("*.txt") if text.stem.isdecimal()]
    return sorted(found, key=lambda text: int(text.stem))


def summarise(path: Path) -> dict[str, Any]:
    """Sum up a trace: an activity as JSON.

    Raises
    ------
    LogError
        If there are no texts, or these cannot be read.
    """
    from stripewise.observe._darshan_fold import LogError, LogHead  # noqa: PLC0415  loads Darshan's library
    from stripewise.observe.traces.calls import TraceCalls  # noqa: PLC0415  loads Darshan's library

    texts = parts(path)
    if not texts:
        raise LogError("it has no text of its calls")
    ranks = 1 + int(texts[-1].stem)
    if ranks > MOST_RANKS:
        raise LogError(f"{texts[-1].name} would be of more than {MOST_RANKS:,} ranks")
    calls = TraceCalls()
    damaged = []
    for text in texts:
        wrong = 0
        with text.open(encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                try:
                    _call(calls, int(text.stem), line)
                except (ValueError, IndexError, OverflowError):
                    wrong += 1
        if wrong:
            damaged.append(f"{text.name} has {wrong:,} lines that cannot be read: these are not counted")
    if not calls.known:
        raise LogError("no line of its text is a call on a file" if not damaged else damaged[0])
    version = (path.parent if path.name == _TEXT else path) / "VERSION"
    return calls.activity(
        LogHead(
            NAME,
            str(path),
            [*UNSEEN, *_list_missing(texts, ranks), *damaged],
            version.read_text("utf-8", errors="replace").strip()[:40] if version.is_file() else "",
        ),
        ranks=ranks,
    )


def _list_missing(texts: list[Path], ranks: int) -> list[str]:
    """Say which ranks have no text."""
    there = {int(text.stem) for text in texts}
    if len(there) == ranks:
        return []
    names = [f"{rank}.txt" for rank in islice((rank for rank in range(ranks) if rank not in there), _MISSING_NAMED)]
    more = ranks - len(there) - len(names)
    others = f" and {more:,} others" if more else ""
    return [f"texts of {ranks - len(there):,} ranks are missing ({', '.join(names)}{others}): these are not judged"]


def _call(calls: TraceCalls, rank: int, line: str) -> None:
    """Add one line.

    Raises
    ------
    ValueError
        If it is no call.
    """
    head, opened, rest = line.strip().partition(" (")
    words = head.split()
    if not opened or not rest.endswith(")") or len(words) < 5:
        raise ValueError("not a call")
    arguments = rest.removesuffix(")").strip()
    add_call(calls, rank, words[-3], int(words[-1]), (float(words[0]), float(words[1])), arguments)


def add_call(calls: TraceCalls, rank: int, function: str, kind: int, span: Span, arguments: str) -> None:
    """Add one call; ``arguments`` are separated by blanks.

    Raises
    ------
    ValueError
        If the arguments are not those of the function.
    """
    if kind != _POSIX:
        calls.seen(span)
        return
    name = function.removesuffix("64")
    level = "stdio" if name in _STREAMS else "posix"
    for way in ("read", "write"):
        if name == f"f{way}":
            _, size, count, path = arguments.split(" ", 3)
            calls.moved((rank, path, level), way, int(size) * int(count), None, span)
            return
        if name in (way, f"p{way}"):
            path, *_, last = _from_the_end(arguments, 3 + name.startswith("p"))
            offset = int(last) if name.startswith("p") else None
            size = _from_the_end(arguments, 3 + name.startswith("p"))[2]
            calls.moved((rank, path, level), way, int(size), offset, span)
            return
    if "seek" in name:
        path, moved, whence = _from_the_end(arguments, 3)
        calls.sought((rank, path, level), int(whence), int(moved), None, span)
    elif (named := next(_paths(arguments), None)) is not None:
        calls.other((rank, named, level), name.lstrip("_"), span)
    else:
        calls.seen(span)


def _from_the_end(arguments: str, count: int) -> list[str]:
    """Split into so many arguments; the first is a path, which may have spaces."""
    found = arguments.rsplit(" ", count - 1)
    if len(found) != count:
        raise ValueError("arguments are missing")
    return found


def _paths(arguments: str) -> Iterator[str]:
    """Give the first argument that is an absolute path: some calls have a number before it."""
    return (word for word in arguments.split(" ") if word.startswith("/"))
