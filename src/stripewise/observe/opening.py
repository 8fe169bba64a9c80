"""Inputs of a diagnosis: logs, reports, records and outputs, told apart by their content, and folders of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.formats import RECORD_HEADER, REPORT_FORMAT
from stripewise.observe import from_ior, from_record, from_report
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import SUFFIXES, LogResult, UnreadableLogError, read_logs
from stripewise.observe.ior import is_ior, parse_ior
from stripewise.observe.record_reading import read_record
from stripewise.observe.report import read_report
from stripewise.observe.traces import form_of, traces_within
from stripewise.observe.workload import Observed, observed

_TEXT_LIMIT = 64 << 20
_START = 4096
Reader = Callable[[Path], Sequence[Activity]]
"""Makes activities of a file: one a job."""


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """Give the files named, and those below the folders named, in order of their names.

    Raises
    ------
    UserError
        If one does not exist, or a folder holds none.
    """
    for path in paths:
        if not path.exists():
            raise UserError(
                f"{path} does not exist", "name Darshan logs, traces, reports, records, outputs of IOR, or a folder"
            )
        if not path.is_dir():
            yield path
            continue
        whole = list(traces_within(path))
        yield from whole
        found = bool(whole)
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SUFFIXES) or _is_ours(Path(folder) / name):
                    found = True
                    yield Path(folder) / name
        if not found:
            raise UserError(
                f"{path} holds no Darshan logs, traces, reports or records", "name the folder where they are"
            )


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
        One per job, in the order in which they are done. Outputs of IOR may hold several; other files hold one.
    """
    others: list[tuple[Path, Reader]] = []

    def logs() -> Iterator[Path]:
        for path in find(paths):
            if (reader := _reader(path)) is None:
                yield path
            else:
                others.append((path, reader))

    source = logs()
    first = next(source, None)
    if first is not None:
        yield from read_logs(chain([first], source), workers)
    for path, reader in others:
        yield from _open(path, reader)


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
        raise UserError(
            f"{path} holds {1 + len(others)} runs, and one is asked for", "put the output of each run into its own file"
        )
    return first.activity


def observe(path: Path) -> Observed:
    """Describe what the job did that an input holds.

    Raises
    ------
    StripewiseError
        As :func:`open_one`, and if the input shows no I/O.
    """
    return observed(open_one(path))


def _open(path: Path, reader: Reader) -> Iterator[LogResult]:
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise UserError(f"{path} is larger than {_TEXT_LIMIT >> 20} MiB", "is it the right file?")
        yield from [LogResult(path, activity) for activity in reader(path)]
    except OSError as error:
        yield LogResult(path, None, UnreadableLogError(f"cannot read {path}: {error.strerror}", "check the path"))
    except StripewiseError as error:
        named = error.what if str(path) in error.what else f"{path}: {error.what}"
        yield LogResult(path, None, UnreadableLogError(named, error.fix))
    except (ValueError, RecursionError) as error:
        yield LogResult(path, None, UnreadableLogError(f"{path}: {error}", "is it whole?"))


def _report(path: Path) -> list[Activity]:
    return [from_report.activity_of(read_report(_text(path), str(path)), str(path))]


def _record(path: Path) -> list[Activity]:
    return [from_record.activity_of(read_record(path), str(path))]


def _ior(path: Path) -> list[Activity]:
    return from_ior.activities_of(parse_ior(_text(path), str(path)), str(path))


def _text(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_START)
    except OSError:
        return b""


def _is_ours(path: Path) -> bool:
    """Whether a file is a report or a record, by its name and its content."""
    if path.suffix == ".json":
        return REPORT_FORMAT.encode() in _start(path)
    return path.suffix == ".record" and _start(path).startswith(RECORD_HEADER.encode())


def _reader(path: Path) -> Reader | None:
    """The function that reads a file, None for Darshan's own and for traces."""
    if form_of(path):
        return None
    start = _start(path)
    if REPORT_FORMAT.encode() in start and start.lstrip().startswith(b"{"):
        return _report
    if start.startswith(RECORD_HEADER.encode()):
        return _record
    if path.name.endswith(SUFFIXES):
        return None
    # Of other JSON the reader of reports says best what is wrong with it.
    return _ior if is_ior(path) else _report if start.lstrip().startswith(b"{") else None
