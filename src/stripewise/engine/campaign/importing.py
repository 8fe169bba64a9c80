"""Rows of a table from what other tools left: outputs of benchmarks, Darshan logs, the runtime's reports and journals.

A table of rows that other tools measured: names from paths, roles, what can be tuned, what is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stripewise.catalogue.factor import ROLES, SIZES, WORKLOAD_ROLES
from stripewise.catalogue.stack import every_stack
from stripewise.errors import StripewiseError, UserError
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table
from stripewise.observe.darshan_logs import LogResult
from stripewise.observe.measurements import known_hints, rows_of_activity
from stripewise.observe.source import Measured, Row
from stripewise.observe.sources import find, is_measured, measure, open_all, source_of
from stripewise.sizes import parse_size

_FEW, _HALF = 0.34, 0.5
_QUANTITIES = {"bandwidth": "MiB/s", "rate": "1/s"}
"""What rows measure, with its unit."""
TUNABLE_ROLES = tuple(role for role in ROLES if role not in WORKLOAD_ROLES)
"""Roles whose columns are parameters unless others are named."""


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
    if re.fullmatch(r"-?\d{1,18}", lowered):
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
    quantity, rows = _choose_quantity([{k: v for k, v in row.items() if k != "_file"} for row in rows], notes)
    rows, names = _keep_complete(rows, quantity, parameters, notes)
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
        objective=ObjectiveColumn(column=quantity, direction="maximize", unit=_QUANTITIES[quantity]),
        parameter=[_column(column, roles[column], rows) for column in chosen],
        context=[_column(column, roles[column], rows) for column in context],
    )
    return make_table(schema, final, name), notes


def _choose_quantity(rows: list[Row], notes: list[str]) -> tuple[str, list[Row]]:
    """Choose what is measured, for a table has one objective: bandwidth, unless all rows are rates."""
    quantity = next(name for name in _QUANTITIES if name == "rate" or any(row.get(name) is not None for row in rows))
    kept = [row for row in rows if row.get(quantity) is not None]
    if others := len(rows) - len(kept):
        have = "row has" if others == 1 else "rows have"
        notes.append(
            f"{others:,} {have} no {quantity}, and a table has one objective: import their files by themselves"
        )
    return quantity, kept


def _keep_complete(
    rows: list[Row], quantity: str, wanted: Sequence[str], notes: list[str]
) -> tuple[list[Row], list[str]]:
    """Leave out columns that many rows lack, and rows that lack one of the others."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != quantity))
    scarce: dict[int, list[str]] = {}
    for name in list(names):
        missing = sum(row.get(name) is None for row in rows)
        if missing == len(rows):
            names.remove(name)
        elif missing > (_HALF if _role(name) in TUNABLE_ROLES else _FEW) * len(rows) and name not in wanted:
            names.remove(name)
            scarce.setdefault(missing, []).append(name)
    for missing, lacking in scarce.items():
        which = f"column {lacking[0]} is" if len(lacking) == 1 else f"columns {', '.join(lacking)} are"
        notes.append(f"{which} left out: {missing:,} of {len(rows):,} rows have no value there")
    lacking_first = [next((name for name in names if row.get(name) is None), None) for row in rows]
    kept = [row for row, lack in zip(rows, lacking_first, strict=True) if lack is None]
    if len(kept) < len(rows):
        lacked = sorted({lack for lack in lacking_first if lack is not None})
        notes.append(f"{len(rows) - len(kept):,} rows are left out, for they lack {', '.join(lacked)}")
    if not kept:
        raise UserError("no row has all columns", "import files of one kind at a time")
    return kept, names


def _role(name: str) -> str:
    known = {p.name: p.role for stack in every_stack() for p in stack.parameters}
    return name if name in ("operation", *ROLES) else known.get(name, known_hints().get(name, "other"))


def _column(name: str, role: str, rows: Sequence[Row]) -> Column:
    values = {repr(row[name]): row[name] for row in rows}.values()
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) and value < 2**63 for value in values)
    if numbers:
        ordered = sorted(values, key=float)
        wide = len(ordered) > 1 and float(ordered[0]) > 0 and float(ordered[-1]) / float(ordered[0]) >= 8
        unit = "B" if role in SIZES else ""
        return Column(
            name=name, kind="ordinal", role=role, unit=unit, scale="log2" if wide else "linear", values=ordered
        )
    return Column(name=name, kind="categorical", role=role, values=sorted(values, key=str))


@dataclass
class Imported:
    """What was read.

    Attributes
    ----------
    rows : list of dict
        Columns by name; ``bandwidth`` in MiB/s, or ``rate`` in operations per second.
    kinds : Counter
        Files by kind.
    unreadable : list of str
        One line a file.
    notes : list of str
        What was left out of files that could be read, one sentence each.
    """

    rows: list[Row] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, path: Path, read: Callable[[], Measured]) -> None:
        """Add what a file measured; one that cannot be read is listed."""
        try:
            found = read()
        except OSError as error:
            self.unreadable.append(f"cannot read {path}: {error.strerror}; check the path")
        except StripewiseError as error:
            self.unreadable.append(str(error) if str(path) in error.what else f"{path}: {error}")
        except (ValueError, RecursionError) as error:
            # As of a number with more digits than Python reads; the other files are still good.
            self.unreadable.append(f"{path}: {error}")
        else:
            self.rows += [{**row, "_file": str(path)} for row in found.rows]
            self.kinds[found.form] += 1
            self.notes += [f"{path}: {note}" for note in found.notes]


def read_sources(
    paths: Iterable[Path], *, workers: int | None = None, on_file: Callable[[int], None] = lambda done: None
) -> Imported:
    """Read files, and all sources of measurements below folders.

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
    own: list[tuple[Path, Callable[[Path], Measured]]] = []
    others: list[Path] = []
    for path in find(paths, is_measured):
        source = source_of(path)
        if source is not None and source.measured is not None:
            own.append((path, measure))
        elif source is None and path.suffix == ".csv":
            own.append((path, _refuse_csv))
        else:
            others.append(path)
    for result in sorted(open_all(others, workers), key=lambda entry: str(entry.path)) if others else ():
        done += 1
        on_file(done)
        found.take(result.path, partial(_measure_activity, result))
    for path, read in own:
        done += 1
        on_file(done)
        found.take(path, partial(read, path))
    if not found.rows:
        raise UserError(f"nothing could be imported: {(found.unreadable or found.notes)[0]}")
    return found


def _measure_activity(result: LogResult) -> Measured:
    if result.activity is None:
        raise result.error or UserError("the log cannot be read")
    return Measured(rows_of_activity(result.activity), result.activity.kind)


def _refuse_csv(path: Path) -> Measured:
    raise UserError(f"{path}: CSV with columns of its own", "say what its columns mean with --schema FILE.toml")
