"""Sources of activities: logs, traces, reports, records, journals and outputs, told apart by content; folders of them.

Whatever reads what a program did asks here, so that every command takes the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.formats import JOURNAL_HEADER, RECORD_HEADER, REPORT_FORMAT
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import SUFFIXES, LogResult, UnreadableLogError, is_log, read_logs
from stripewise.observe.traces import form_of, traces_within
from stripewise.observe.workload import Observed, describe_workload

NAMES = "Darshan logs, traces, reports, records, journals, outputs of IOR"
_TEXT_LIMIT = 64 << 20
_START = 4096


@dataclass(frozen=True)
class Source:
    """A kind of files that this process reads; logs and traces have child processes.

    Attributes
    ----------
    name : str
        The ``kind`` of activities made of it.
    holds : callable
        Whether a file is one, by its path and its first bytes.
    read : callable
        Makes activities of a file: one a job.
    """

    name: str
    holds: Callable[[Path, bytes], bool]
    read: Callable[[Path], Sequence[Activity]]


def _read_report(path: Path) -> list[Activity]:
    from stripewise.observe import from_report, report  # noqa: PLC0415  only what a file needs is loaded

    return [from_report.activity_of(report.read_report(_read_text(path), str(path)), str(path))]


def _read_record(path: Path) -> list[Activity]:
    from stripewise.observe import from_record, record_reading  # noqa: PLC0415  as above

    return [from_record.activity_of(record_reading.read_record(path), str(path))]


def _read_journal(path: Path) -> list[Activity]:
    from stripewise.observe import journal  # noqa: PLC0415  as above

    return journal.activities_of(journal.read_journal(_read_text(path), str(path)), str(path))


def _is_ior(path: Path, start: bytes) -> bool:
    if b"\0" in start:
        return False
    from stripewise.observe import ior  # noqa: PLC0415  as above

    return ior.is_ior(path)


def _read_ior(path: Path) -> list[Activity]:
    from stripewise.observe import ior  # noqa: PLC0415  as above

    return ior.activities_of(ior.parse_ior(_read_text(path), str(path)), str(path))


SOURCES = (
    Source(
        "report",
        lambda path, start: REPORT_FORMAT.encode() in start and start.lstrip().startswith(b"{"),
        _read_report,
    ),
    Source("record", lambda path, start: start.startswith(RECORD_HEADER.encode()), _read_record),
    Source("journal", lambda path, start: start.startswith(f"{JOURNAL_HEADER}\n".encode()), _read_journal),
    Source("ior", _is_ior, _read_ior),
)
"""In the order in which they are asked."""


def source_of(path: Path) -> Source | None:
    """Give the source that a file is; None for logs, traces and everything else."""
    if is_log(path):
        return None
    start = _start(path)
    return next((source for source in SOURCES if source.holds(path, start)), None)


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Give the files named, and the sources below the folders named, in order of their names.

    Raises
    ------
    UserError
        If one does not exist, or a folder holds none.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist", f"name {NAMES}, or a folder")
        if not path.is_dir():
            yield path
            continue
        whole = list(traces_within(path))
        yield from whole
        found = bool(whole)
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                child = Path(folder) / name
                if name.endswith(SUFFIXES) or (form_of(child) is None and child.is_file() and source_of(child)):
                    found = True
                    yield child
        if not found:
            raise UserError(f"{path} holds no {NAMES}", "name the folder where they are")


def open_all(paths: Iterable[Path], workers: int | None = None) -> Iterator[LogResult]:
    """Read all inputs, logs in child processes.

    Parameters
    ----------
    paths : iterable of Path
        Files or folders.
    workers : int, optional
        Child processes.

    Yields
    ------
    LogResult
        One per job, in the order in which they are done. Outputs of IOR and journals may hold several.
    """
    others: list[tuple[Path, Source]] = []

    def logs() -> Iterator[Path]:
        for path in find(paths):
            if (source := _reader(path)) is None:
                yield path
            else:
                others.append((path, source))

    left = logs()
    first = next(left, None)
    if first is not None:
        yield from read_logs(chain([first], left), workers)
    for path, source in others:
        yield from _open(path, source)


def _reader(path: Path) -> Source | None:
    """The source that reads a file, None for Darshan's own and for traces."""
    source = source_of(path)
    if source is None and not is_log(path) and _start(path).lstrip().startswith(b"{"):
        return SOURCES[0]  # of other JSON the reader of reports says best what is wrong with it
    return source


def open_one(path: Path) -> Activity:
    """Read an input that holds one job.

    Raises
    ------
    StripewiseError
        If it cannot be read, or holds several.
    """
    first, *others = open_all([path], 1)
    if first.activity is None:
        raise first.error or StripewiseError(f"{path} cannot be read")
    if others:
        raise UserError(f"{path} holds {1 + len(others)} runs, and one is asked for", "give a file that holds one")
    return first.activity


def observe(path: Path) -> Observed:
    """Describe what the job did that an input holds.

    Raises
    ------
    StripewiseError
        As :func:`open_one`, and if the input shows no I/O.
    """
    return describe_workload(open_one(path))


def _open(path: Path, source: Source) -> Iterator[LogResult]:
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise UserError(f"{path} is larger than {_TEXT_LIMIT >> 20} MiB", "is it the right file?")
        yield from [LogResult(path, activity) for activity in source.read(path)]
    except OSError as error:
        yield LogResult(path, None, UnreadableLogError(f"cannot read {path}: {error.strerror}", "check the path"))
    except StripewiseError as error:
        named = error.what if str(path) in error.what else f"{path}: {error.what}"
        yield LogResult(path, None, UnreadableLogError(named, error.fix))
    except (ValueError, RecursionError) as error:
        yield LogResult(path, None, UnreadableLogError(f"{path}: {error}", "is it whole?"))


def _read_text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_START)
    except OSError:
        return b""
