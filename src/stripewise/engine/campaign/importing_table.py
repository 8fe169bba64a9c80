"""A table of rows that other tools measured: names from paths, roles, what can be tuned, what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from stripewise.catalogue.factor import ROLES, SIZES, WORKLOAD_ROLES
from stripewise.catalogue.stack import every_stack, load_stack
from stripewise.errors import UserError
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table
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
    rows : sequence of dict
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
        more: Row = {name: _plain(value) for name, value in given.items()}
        if compiled is not None:
            match = compiled.search(row["_file"])
            if match is None:
                raise UserError(
                    f"--from-name does not match {row['_file']}", "leave the file out, or widen the pattern"
                )
            more |= {name: _plain(value) for name, value in match.groupdict().items()}
        found.append({**row, **more})
    return found


def _plain(text: str | None) -> int | float | str | bool | None:
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
    rows : sequence of dict
    name, about : str
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
    rows, names = _complete([{k: v for k, v in row.items() if k != "_file"} for row in rows], parameters, notes)
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


def _complete(rows: list[Row], wanted: Sequence[str], notes: list[str]) -> tuple[list[Row], list[str]]:
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
