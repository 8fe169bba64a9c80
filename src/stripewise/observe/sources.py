"""Sources of activities: logs, traces, reports, records, journals and outputs, told apart by content; folders of them.

Whatever reads what a program did asks here, so that every command takes the same files.
Each kind declares itself in its module. Those of Stripewise's own files are declared here: their readers are loaded
when one is met.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.formats import JOURNAL_HEADER, RECORD_HEADER, REPORT_FORMAT
from stripewise.interpreter import run_bounded
from stripewise.observe import elbencho, fio, h5bench, io500, ior, mdtest
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import SUFFIXES, LogResult, UnreadableLogError, is_log, read_logs
from stripewise.observe.source import Measured, Source, read_text
from stripewise.observe.traces import form_of, traces_within
from stripewise.observe.workload import Observed, describe_workload


def _read_report(path: Path) -> list[Activity]:
    from stripewise.observe import from_report, report  # noqa: PLC0415  only what a file needs is loaded

    return [from_report.activity_of(report.read_report(read_text(path), str(path)), str(path))]


def _read_record(path: Path) -> list[Activity]:
    from stripewise.observe import from_record, record_reading  # noqa: PLC0415  as above

    return [from_record.activity_of(record_reading.read_record(path).need_mpi_io(str(path)), str(path))]


def _read_journal(path: Path) -> list[Activity]:
    from stripewise.observe import journal  # noqa: PLC0415  as above

    return journal.activities_of(journal.read_journal(read_text(path), str(path)), str(path))


def _measure_journal(path: Path) -> Measured:
    from stripewise.observe import journal, measurements  # noqa: PLC0415  as above

    return Measured(measurements.rows_of_journal(journal.read_journal(read_text(path), str(path))), "journal")


REPORT = Source(
    "report",
    "a report of the runtime",
    "reports",
    lambda beginning: beginning.lstrip().startswith("{") and REPORT_FORMAT in beginning[:4096],
    _read_report,
)
RECORD = Source("record", "a record", "records", lambda beginning: beginning.startswith(RECORD_HEADER), _read_record)
JOURNAL = Source(
    "journal",
    "a journal",
    "journals",
    lambda beginning: beginning.startswith(f"{JOURNAL_HEADER}\n"),
    _read_journal,
    _measure_journal,
)
SOURCES: tuple[Source, ...] = (
    REPORT,
    RECORD,
    JOURNAL,
    ior.SOURCE,
    mdtest.SOURCE,
    *io500.SOURCES,
    fio.SOURCE,
    elbencho.SOURCE,
    h5bench.SOURCE,
    ior.RANKS,
    mdtest.RANKS,
    fio.TEXT,
    elbencho.TEXT,
    elbencho.LIVE,
    h5bench.LOG,
    h5bench.IOTEST,
)
"""In the order in which they are asked."""
NAMES = ", ".join(["Darshan logs", "traces", *(source.plural for source in SOURCES if source.plural)])
_BINARY = {
    b"SQLite format 3\0": "an SQLite database",
    b"\x89HDF\r\n": "an HDF5 file",
    b"CDF": "a NetCDF file",
    b"PK\x03\x04": "a ZIP archive",
    b"\x7fELF": "a program",
}
"""Files that people name by mistake, by their first bytes."""
_TEXT_LIMIT = 64 << 20
_START = 4096
_BEGINNING = 4 << 20
"""Bytes of a text in which its kind must show: launchers and libraries may print much before it."""


def source_of(path: Path) -> Source | None:
    """Give the source that a file is; None for logs, traces and everything else."""
    if is_log(path) or not path.is_file():
        return None
    beginning = _beginning(path)
    return next((source for source in SOURCES if source.holds(beginning)), None)


def is_read(source: Source) -> bool:
    """Whether activities can be made of a source."""
    return source.read is not None


def is_measured(source: Source) -> bool:
    """Whether a table can be made of a source."""
    return source.measured is not None or source.read is not None


def measure(path: Path) -> Measured:
    """Give what a file measured, of all benchmarks whose output it holds: a job may start several.

    Raises
    ------
    StripewiseError
        If nothing can be read of any of them.
    """
    beginning = _beginning(path)
    found = [source for source in SOURCES if source.measured is not None and source.holds(beginning)]
    parts: list[Measured] = []
    errors: list[StripewiseError] = []
    for source in found:
        if source.measured is None or (source.lists and len(found) > 1):
            continue
        try:
            parts.append(run_bounded(partial(source.measured, path), path))
        except StripewiseError as error:
            errors.append(error)
    if not parts:
        raise errors[0] if errors else UserError(f"{path}: a file without measurements", f"name {NAMES}")
    rows = [row for part in parts for row in part.rows]
    notes = [note for part in parts for note in part.notes] + [str(error) for error in errors]
    return Measured(rows, " and ".join(dict.fromkeys(part.form for part in parts)), notes)


def find(
    paths: Iterable[Path],
    wanted: Callable[[Source], bool] = is_read,
    on_file: Callable[[], None] = lambda: None,
) -> Iterator[Path]:
    """Give the files named, and the sources below the folders named, in order of their names.

    Parameters
    ----------
    paths : iterable of Path
    wanted : callable, optional
        Which sources of a folder are given.
    on_file : callable, optional
        Called before each file of a folder is looked at.

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
            around = form_of(Path(folder))
            for name in sorted(names):
                on_file()
                child = Path(folder) / name
                form = form_of(child)
                # A file of the form of its folder is a part of the trace that the folder is.
                alone = _is_wanted(child, wanted) if form is None else form is not around
                if name.endswith(SUFFIXES) or alone:
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


def _is_wanted(path: Path, wanted: Callable[[Source], bool]) -> bool:
    if not path.is_file():
        return False
    source = source_of(path)
    return source is not None and wanted(source) and not source.repeats(path)


def _reader(path: Path) -> Source | None:
    """The source that reads a file, None for Darshan's own and for traces."""
    source = source_of(path)
    if source is None and not is_log(path) and path.is_file() and (what := _describe_unknown(path)):
        return Source("unknown", what, "", lambda beginning: False, instead=f"name {NAMES}")
    return source


def _describe_unknown(path: Path) -> str:
    """Say what a file is that no source holds; empty of what may be a log."""
    start = _start(path)
    if not start:
        return "an empty file" if os.access(path, os.R_OK) else ""
    known = next((what for begin, what in _BINARY.items() if start.startswith(begin)), "")
    if known or b"\0" in start:
        return known
    return "JSON of a kind that is not known" if start.lstrip().startswith(b"{") else "text of a kind that is not known"


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
    read = source.read
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise UserError(f"{path} is larger than {_TEXT_LIMIT >> 20} MiB", "is it the right file?")
        if read is None:
            raise UserError(f"{path}: {source.title}", source.instead)
        found = run_bounded(lambda: list(read(path)), path)
        yield from [LogResult(path, activity) for activity in found]
    except OSError as error:
        yield LogResult(path, None, UnreadableLogError(f"cannot read {path}: {error.strerror}", "check the path"))
    except StripewiseError as error:
        named = error.what if str(path) in error.what else f"{path}: {error.what}"
        yield LogResult(path, None, UnreadableLogError(named, error.fix))
    except (ValueError, RecursionError) as error:
        yield LogResult(path, None, UnreadableLogError(f"{path}: {error}", "is it whole?"))


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_START)
    except OSError:
        return b""


def _beginning(path: Path) -> str:
    """Enough of a text to tell its kind; the first bytes alone of what is none."""
    start = _start(path)
    if not start or b"\0" in start:
        return start.decode("utf-8", "replace")
    with path.open("rb") as file:
        return file.read(_BEGINNING).decode("utf-8", "replace")
