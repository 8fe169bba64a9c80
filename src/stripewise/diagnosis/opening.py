"""Inputs of a diagnosis: logs, reports, records and outputs, told apart by their content, and folders of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from stripewise.diagnosis import from_ior, from_record, from_report
from stripewise.errors import StripewiseError, UserError
from stripewise.measure.activity import Activity
from stripewise.measure.darshan_logs import SUFFIXES, LogResult, UnreadableLogError, read_logs
from stripewise.measure.ior import parse_ior
from stripewise.measure.traces import form_of, traces_within
from stripewise.spec.formats import RECORD_HEADER, REPORT_FORMAT
from stripewise.spec.record_reading import read_record
from stripewise.spec.report import read_report

_TEXT_LIMIT = 64 << 20
_START = 4096
Reader = Callable[[Path], Activity]
"""Makes an activity of a file."""


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
        One per file, in the order in which they are done.
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
        yield _open(path, reader)


def _open(path: Path, reader: Reader) -> LogResult:
    try:
        if path.stat().st_size > _TEXT_LIMIT:
            raise UserError(f"{path} is larger than {_TEXT_LIMIT >> 20} MiB", "is it the right file?")
        return LogResult(path, reader(path))
    except OSError as error:
        return LogResult(path, None, UnreadableLogError(f"cannot read {path}: {error.strerror}", "check the path"))
    except StripewiseError as error:
        named = error.what if str(path) in error.what else f"{path}: {error.what}"
        return LogResult(path, None, UnreadableLogError(named, error.fix))
    except (ValueError, RecursionError) as error:
        return LogResult(path, None, UnreadableLogError(f"{path}: {error}", "is it whole?"))


def _report(path: Path) -> Activity:
    return from_report.activity_of(read_report(_text(path), str(path)), str(path))


def _record(path: Path) -> Activity:
    return from_record.activity_of(read_record(path), str(path))


def _ior(path: Path) -> Activity:
    return from_ior.activity_of(parse_ior(_text(path), str(path)), str(path))


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
    if b"IOR-" in start or b'"Results"' in start or b'"Command line"' in start or start.startswith(b"access,bw"):
        return _ior
    return None
