"""Rows of a table from what other tools left: IOR's output, Darshan logs, the runtime's reports and journals."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from stripewise.catalogue.configuration import plain_number
from stripewise.catalogue.filesystems import of_role
from stripewise.catalogue.stack import load_stack
from stripewise.engine.campaign.importing_table import Row, known_hints
from stripewise.errors import StripewiseError, UserError
from stripewise.formats import JOURNAL_HEADER
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import is_log, read_logs
from stripewise.observe.ior import IorRow, IorRun, is_ior, parse_ior
from stripewise.observe.journal import JournalPhase, is_journal, parse_journal
from stripewise.observe.report import read_report
from stripewise.observe.traces import form_of, traces_within
from stripewise.observe.workload import Observed, of_activity, of_report

_MIB = 2**20
_MOST_TEXT = 256 << 20


@dataclass
class Imported:
    """What was read.

    Attributes
    ----------
    rows : list of dict
        Columns by name; ``bandwidth`` in MiB/s.
    kinds : Counter
        Files by kind.
    unreadable : list of str
        One line a file.
    """

    rows: list[Row] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)


def read_sources(
    paths: Iterable[Path], *, workers: int | None = None, on_file: Callable[[int], None] = lambda done: None
) -> Imported:
    """Read files, and all Darshan logs, reports and IOR outputs below folders.

    Parameters
    ----------
    paths : iterable of Path
    workers : int, optional
        Processes that read Darshan logs.
    on_file : callable
        Is told after each file how many are done.

    Raises
    ------
    UserError
        If a path does not exist, or nothing can be read at all.
    """
    found, done = Imported(), 0
    logs: list[Path] = []
    others: list[tuple[Path, bool]] = []
    for path, named in _files(paths):
        if is_log(path):
            logs.append(path)
        else:
            others.append((path, named))
    for result in sorted(read_logs(logs, workers), key=lambda entry: str(entry.path)) if logs else ():
        done += 1
        on_file(done)
        kind = result.activity.kind if result.activity else ""
        _take(found, result.path, kind, lambda r=result: _of_log(r.activity, r.error))  # type: ignore[misc]
    for path, named in others:
        done += 1
        on_file(done)
        if named or _recognised(path):
            _take(found, path, "", lambda p=path: _text(p, found.kinds))  # type: ignore[misc]
    if not found.rows:
        why = found.unreadable[0] if found.unreadable else "the folders hold no log, trace, report or output of IOR"
        raise UserError(f"nothing could be imported: {why}")
    return found


def _take(found: Imported, path: Path, kind: str, read: Callable[[], list[Row]]) -> None:
    try:
        rows = read()
    except StripewiseError as error:
        found.unreadable.append(str(error) if str(path) in error.what else f"{path}: {error}")
        return
    found.rows += [{**row, "_file": str(path)} for row in rows]
    if kind:
        found.kinds[kind] += 1


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    for path in paths:
        if path.is_dir():
            inner = sorted(path.rglob("*"))
            yield from ((folder, False) for folder in traces_within(path))
            yield from ((child, False) for child in inner if child.is_file() and form_of(child) is None)
        elif path.exists():
            yield path, True
        else:
            raise UserError(f"file {path} does not exist", "check the path")


def _recognised(path: Path) -> bool:
    """Whether a file found in a folder looks like something that can be imported."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError:
        return False
    if head.startswith(JOURNAL_HEADER.encode()):
        return True
    return b'"stripewise-report"' in head or is_ior(path)


def _text(path: Path, kinds: Counter[str]) -> list[Row]:
    try:
        if path.stat().st_size > _MOST_TEXT:
            raise UserError(f"{path} is larger than {_MOST_TEXT >> 20} MiB", "is it the right file?")
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    if '"stripewise-report"' in text[:4096]:
        rows = _report(path, text)
        kinds["report"] += 1
        return rows
    if is_journal(text):
        found = parse_journal(text)
        if not found.phases:
            raise UserError(f"{path} holds no whole record", "was it written by mode online?")
        kinds["journal"] += 1
        return journal_rows(found.phases)
    if path.suffix == ".csv" and not is_ior(path):
        raise UserError(f"{path} is not a CSV of IOR", "say what its columns mean with --schema FILE.toml")
    output = parse_ior(text, str(path))
    kinds[f"IOR {output.form}"] += 1
    return [ior_row(run, row) for run in output.runs for row in run.rows]


# -- observed programs ---------------------------------------------------------------------------------------------


def _of_log(activity: Activity | None, error: StripewiseError | None) -> list[Row]:
    if activity is None:
        raise error or UserError("the log cannot be read")
    seen = of_activity(activity)
    total = activity.totals.mpiio if activity.totals.mpiio.bytes else activity.totals.posix
    if not total.bytes:
        total = activity.totals.stdio
    spent = total.read.seconds + total.write.seconds
    rows = []
    for operation, calls in (("write", total.write), ("read", total.read)):
        if calls.bytes <= 0.001 * total.bytes or calls.seconds <= 0 or activity.io_seconds <= 0:
            continue
        # Darshan's estimate by the slowest rank; where both directions occur, its time is shared out by theirs.
        seconds = activity.io_seconds * calls.seconds / spent
        rows.append(_seen(seen, operation, calls.bytes / _MIB / seconds))
    if not rows:
        raise UserError(f"{activity.source} shows no time in reads or writes", "was the program's I/O observed?")
    return rows


def _report(path: Path, text: str) -> list[Row]:
    report = read_report(text, str(path))
    seen, totals = of_report(report), report.totals
    rows = [
        _seen(seen, operation, bandwidth)
        for operation, bandwidth in (("write", totals.write_bandwidth), ("read", totals.read_bandwidth))
        if bandwidth and math.isfinite(bandwidth)
    ]
    if not rows:
        raise UserError(f"{path} shows no reads or writes through MPI-IO", "give the report of a program that does any")
    return rows


def _seen(seen: Observed, operation: str, bandwidth: float) -> Row:
    words = seen.workload.model_dump(exclude_none=True)
    for name in ("operation", "processes_per_node", "driver", "files"):
        words.pop(name, None)
    hints = {key: _hint_value(value) for key, value in seen.hints.items() if key in known_hints()}
    return {
        **words,
        "processes": seen.processes,
        **hints,
        **seen.layout,
        "operation": operation,
        "bandwidth": bandwidth,
    }


def ior_row(run: IorRun, row: IorRow) -> Row:
    """Columns by name of one line of results; None where the output does not tell."""
    return {
        "operation": row.access,
        "nodes": run.nodes,
        "processes": run.tasks,
        "api": run.api,
        "file_size": row.moved,
        "transfer_size": run.transfer,
        "layout": run.layout,
        "collective": run.collective,
        "file_per_process": run.file_per_process,
        "bandwidth": row.bandwidth,
    }


_NUMBERS = ("nodes", "file_size", "transfer_size", "piece_size")
_TRUTHS = ("collective", "file_per_process")


@cache
def _defaults() -> dict[str, int | str | float | bool]:
    """What acts where a hint is not set, as far as it is one value."""
    return {p.setting: p.default for name in ("romio", "ompio") for p in load_stack(name).parameters}


def journal_rows(phases: Sequence[JournalPhase]) -> list[Row]:
    """Give one row a phase; a hint that any phase set has a value in all."""
    hints = {key for phase in phases for key in phase.settings if " " not in key}
    rows = []
    for phase in phases:
        row: Row = {
            name: _hint_value(text) if name in _NUMBERS else text not in ("0", "false") if name in _TRUTHS else text
            for name, text in phase.workload.items()
            if name not in ("operation", "processes", "processes_per_node", "driver")
        }
        # Words that were declared stay; what the phase itself showed is surer.
        row |= {"nodes": phase.nodes, "processes": phase.ranks, "collective": phase.collective}
        row["layout"] = "strided" if phase.strided else row.get("layout", "segmented")
        for key in sorted(hints):
            row[key] = _hint_value(phase.settings[key]) if key in phase.settings else _defaults().get(key, "default")
        for role in ("stripe_count", "stripe_size"):
            if (value := of_role(phase.layout, role)) is not None:
                row[role] = _hint_value(value)
        rows.append({**row, "operation": phase.operation, "bandwidth": phase.bandwidth})
    return rows


def _hint_value(text: str) -> int | float | str:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return plain_number(value) if math.isfinite(value) else text
