"""Rows of a table from what other tools left: IOR's output, Darshan logs, the runtime's reports and journals.

A table of rows that other tools measured: names from paths, roles, what can be tuned, what is missing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from stripewise.catalogue.configuration import plain_number
from stripewise.catalogue.factor import ROLES, SIZES, WORKLOAD_ROLES
from stripewise.catalogue.filesystems import of_role
from stripewise.catalogue.stack import every_stack, load_stack
from stripewise.errors import StripewiseError, UserError
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table
from stripewise.observe.activity import Activity, Calls
from stripewise.observe.ior import IorRow, IorRun, parse_ior
from stripewise.observe.journal import JournalPhase, read_journal
from stripewise.observe.sources import find, open_all, source_of
from stripewise.observe.workload import Observed, describe_workload
from stripewise.sizes import parse_size

Row = dict[str, Any]

_FEW, _HALF = 0.34, 0.5
TUNABLE_ROLES = tuple(role for role in ROLES if role not in WORKLOAD_ROLES)
"""Roles whose columns are parameters unless others are named."""


@cache
def known_hints() -> Mapping[str, str]:
    """Role of each hint that a stack has; others say nothing that could be set."""
    return {p.setting: p.role for name in ("romio", "ompio") for p in load_stack(name).parameters}


def with_names(rows: Sequence[Row], pattern: str | None, given: Mapping[str, str]) -> list[Row]:
    """Add columns that the files do not hold: from their names, and the same for all.

    Parameters
    ----------
    pattern : str or None
        Regular expression with named groups, searched in each file's path.
    given : mapping
        Column to value.

    Raises
    ------
    UserError
        If the pattern is broken, has no named group, or does not match a file.
    """
    try:
        compiled = re.compile(pattern) if pattern else None
    except re.error as error:
        raise UserError(f"--from-name '{pattern}' is not a regular expression: {error}") from error
    if compiled is not None and not compiled.groupindex:
        raise UserError(f"--from-name '{pattern}' names no column", "write (?P<stripe_count>[0-9]+) for instance")
    found = []
    for row in rows:
        more: Row = {name: _parse_plain(value) for name, value in given.items()}
        if compiled is not None:
            match = compiled.search(row["_file"])
            if match is None:
                raise UserError(
                    f"--from-name does not match {row['_file']}", "leave the file out, or widen the pattern"
                )
            more |= {name: _parse_plain(value) for name, value in match.groupdict().items()}
        found.append({**row, **more})
    return found


def _parse_plain(text: str | None) -> int | float | str | bool | None:
    if text is None:
        return None
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"-?\d+", lowered):
        return int(lowered)
    if re.fullmatch(r"-?\d*\.\d+(e-?\d+)?", lowered):
        return float(lowered)
    if re.fullmatch(r"[\d.]+\s*[kmgtp](i?b)?", lowered):
        return parse_size(text)
    return text.strip()


def table_from(rows: Sequence[Row], name: str, about: str, parameters: Sequence[str]) -> tuple[Table, list[str]]:
    """Make a table of rows that other tools measured.

    Parameters
    ----------
    parameters : sequence of str
        Columns that can be tuned, besides those whose role says so.

    Returns
    -------
    tuple of (Table, list of str)
        With what was left out, one sentence each.

    Raises
    ------
    UserError
        If no column can be tuned, or one named is not there.
    """
    notes: list[str] = []
    rows, names = _keep_complete([{k: v for k, v in row.items() if k != "_file"} for row in rows], parameters, notes)
    unknown = [column for column in parameters if column not in names]
    if unknown:
        raise UserError(f"--parameter {unknown[0]}: this column does not exist", f"there are {', '.join(names)}")
    roles = {column: _role(column) for column in names}
    tuned = [
        column for column in names if column in parameters or roles[column] in TUNABLE_ROLES or column in known_hints()
    ]
    varied = [column for column in names if len({repr(row[column]) for row in rows}) > 1]
    chosen = [column for column in tuned if column in varied or column in parameters] or tuned
    if not chosen:
        raise UserError(
            f"nothing in these {len(rows)} rows can be tuned (columns {', '.join(names)})",
            "name one with --parameter, or add one with --from-name or --set",
        )
    context = [column for column in names if column not in tuned]
    counts: Counter[tuple[str, ...]] = Counter()
    final = []
    for row in rows:
        key = tuple(repr(row[column]) for column in (*context, *chosen))
        final.append({**row, "repeat": counts[key]})
        counts[key] += 1
    schema = Schema(
        name=name,
        description=about,
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        parameter=[_column(column, roles[column], rows) for column in chosen],
        context=[_column(column, roles[column], rows) for column in context],
    )
    return make_table(schema, final, name), notes


def _keep_complete(rows: list[Row], wanted: Sequence[str], notes: list[str]) -> tuple[list[Row], list[str]]:
    """Leave out columns that many rows lack, and rows that lack one of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "bandwidth"))
    for name in list(names):
        missing = sum(row.get(name) is None for row in rows)
        if missing == len(rows):
            names.remove(name)
        elif missing > (_HALF if _role(name) in TUNABLE_ROLES else _FEW) * len(rows) and name not in wanted:
            names.remove(name)
            notes.append(f"column {name} is left out: {missing:,} of {len(rows):,} rows do not have it")
    kept = [row for row in rows if all(row.get(name) is not None for name in names)]
    if len(kept) < len(rows):
        lacking = Counter(next(name for name in names if row.get(name) is None) for row in rows if row not in kept)
        notes.append(f"{len(rows) - len(kept):,} rows are left out, for they lack {', '.join(sorted(lacking))}")
    if not kept:
        raise UserError("no row has all columns", "import files of one kind at a time")
    return kept, names


def _role(name: str) -> str:
    known = {p.name: p.role for stack in every_stack() for p in stack.parameters}
    return name if name in ("operation", *ROLES) else known.get(name, known_hints().get(name, "other"))


def _column(name: str, role: str, rows: Sequence[Row]) -> Column:
    values = {repr(row[name]): row[name] for row in rows}.values()
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numbers:
        ordered = sorted(values, key=float)
        wide = len(ordered) > 1 and float(ordered[0]) > 0 and float(ordered[-1]) / float(ordered[0]) >= 8
        unit = "B" if role in SIZES else ""
        return Column(
            name=name, kind="ordinal", role=role, unit=unit, scale="log2" if wide else "linear", values=ordered
        )
    return Column(name=name, kind="categorical", role=role, values=sorted(values, key=str))


_MIB = 2**20


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
    """Read files, and all sources of activities below folders.

    Parameters
    ----------
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
    own: list[tuple[Path, Callable[[Path, Counter[str]], list[Row]]]] = []
    others: list[Path] = []
    for path in find(paths):
        source = source_of(path)
        if source is not None and source.name in _BY_RUN:
            own.append((path, _BY_RUN[source.name]))
        elif source is None and path.suffix == ".csv":
            own.append((path, _no_csv))
        else:
            others.append(path)
    for result in sorted(open_all(others, workers), key=lambda entry: str(entry.path)) if others else ():
        done += 1
        on_file(done)
        _take(found, result.path, lambda r=result: _of_log(r.activity, r.error, found.kinds))  # type: ignore[misc]
    for path, read in own:
        done += 1
        on_file(done)
        _take(found, path, lambda p=path, r=read: r(p, found.kinds))  # type: ignore[misc]
    if not found.rows:
        raise UserError(f"nothing could be imported: {found.unreadable[0]}")
    return found


def _take(found: Imported, path: Path, read: Callable[[], list[Row]]) -> None:
    try:
        found.rows += [{**row, "_file": str(path)} for row in read()]
    except OSError as error:
        found.unreadable.append(f"cannot read {path}: {error.strerror}; check the path")
    except StripewiseError as error:
        found.unreadable.append(str(error) if str(path) in error.what else f"{path}: {error}")


def _journal(path: Path, kinds: Counter[str]) -> list[Row]:
    rows = journal_rows(read_journal(path.read_text("utf-8", errors="replace"), str(path)))
    kinds["journal"] += 1
    return rows


def _ior(path: Path, kinds: Counter[str]) -> list[Row]:
    output = parse_ior(path.read_text("utf-8", errors="replace"), str(path))
    kinds[f"IOR {output.form}"] += 1
    return [ior_row(run, row) for run in output.runs for row in run.rows]


def _no_csv(path: Path, kinds: Counter[str]) -> list[Row]:
    raise UserError(f"{path} is not a CSV of IOR", "say what its columns mean with --schema FILE.toml")


_BY_RUN = {"ior": _ior, "journal": _journal}
"""Sources that measured several times, or with several settings, in one job: a row each."""


# -- observed programs ---------------------------------------------------------------------------------------------


def _of_log(activity: Activity | None, error: StripewiseError | None, kinds: Counter[str]) -> list[Row]:
    if activity is None:
        raise error or UserError("the log cannot be read")
    seen = describe_workload(activity)
    rows = [_make_row(seen, way, rate) for way, rate in (activity.rates or _rates(activity)).items()]
    if not rows:
        raise UserError(f"{activity.source} shows no time in reads or writes", "was the program's I/O observed?")
    kinds[activity.kind] += 1
    return rows


def _rates(activity: Activity) -> dict[Literal["read", "write"], float]:
    """Darshan's estimate by the slowest rank; where both directions occur, its time is shared out by theirs."""
    totals = activity.totals
    total = next((level for level in (totals.mpiio, totals.posix) if level.bytes), totals.stdio)
    spent = total.read.seconds + total.write.seconds
    ways: tuple[tuple[Literal["read", "write"], Calls], ...] = (("write", total.write), ("read", total.read))
    return {
        way: calls.bytes / _MIB / (activity.io_seconds * calls.seconds / spent)
        for way, calls in ways
        if calls.bytes > 0.001 * total.bytes and calls.seconds > 0 and activity.io_seconds > 0 and activity.timed
    }


def _make_row(seen: Observed, operation: str, bandwidth: float) -> Row:
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
