"""Measured tables: the one exchange format for measurements, ``NAME.csv`` with ``NAME.toml`` beside it."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from stripewise.catalogue.carriers import Carrier
from stripewise.catalogue.configuration import Value, identity
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Levels
from stripewise.catalogue.stack import Stack, StackFile, build_stack, every_stack
from stripewise.catalogue.workload import Workload
from stripewise.documents import parse_document, read_document, toml_value
from stripewise.errors import UserError
from stripewise.ownership import written_whole
from stripewise.requests.objective import Objective

_REPEAT = "repeat"
_FILES = "a table is NAME.csv and NAME.toml"
LARGEST_SCHEMA = 16 << 20
LARGEST_ROWS = 64 << 20
"""Bytes of the two files of a table, at most."""
_MOST_NAMES = 1000
"""Of a column that a model learns from: one of 20,000 names took 4.8 GB."""
_COLLECTIVE_ROLES = ("aggregators", "collective_buffer_size")
_COLLECTIVE_NAMES = ("romio_cb_alltoall", "romio_cb_pfr", "romio_cb_fr_type", "romio_min_fdomain_size")


class ObjectiveColumn(BaseModel):
    """The ``[objective]`` table."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    column: str = Field(default="objective", description="its column in the CSV file")
    direction: Literal["minimize", "maximize"] = Field(description="which way is better")
    unit: str = Field(default="", description="for display")


class Column(BaseModel):
    """A ``[[parameter]]`` or ``[[context]]`` table.

    ``active_if`` says when a parameter means anything; where it does not, rows fold together. It is optional, and
    :attr:`Schema.active` knows it for MPI-IO hints. ``operations`` names those for which a parameter can be
    set at all; for others it belongs to the workload, as the layout of a file that is read. ``carrier`` and ``key`` say
    how a column is set that no stack of Stripewise has.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(description="the column")
    kind: Literal["ordinal", "categorical"] = Field(
        description="whether values can be compared by size; models take 1,000 categories"
    )
    role: str = Field(
        default="other", description="its meaning in the field's terms; features and rules use roles, never names"
    )
    unit: str = Field(default="", description="`B`, `count`, ...")
    scale: Literal["linear", "log2"] = Field(
        default="linear",
        description='of ordered values; on a logarithmic axis, 0 means "unset": a setting of its own, next to the '
        "smallest value",
    )
    values: list[bool | int | float | str] = Field(
        min_length=1, description="all values that occur; ascending where ordered"
    )
    default: bool | int | float | str | None = Field(
        default=None, description="the value that acts when nothing is set"
    )
    active_if: str | None = Field(
        default=None,
        description="expression; where it is false, the value is inactive and rows fold together. It names columns "
        "and words of the workload. Campaigns write what their stacks say, with the defaults of "
        "parameters that they do not vary; hints are inactive where `api` is `posix`. For MPI-IO hints "
        "of other tables it is built in",
    )
    carrier: Carrier | None = Field(
        default=None,
        description="how the column is set, as in stack files, where no stack of Stripewise has it; campaigns write "
        "them for tunables of your own",
    )
    key: str | None = Field(
        default=None,
        description="how the column is set, as in stack files, where no stack of Stripewise has it; campaigns write "
        "them for tunables of your own",
    )
    operations: list[Literal["read", "write"]] | None = Field(
        default=None,
        description="`read`, `write`: the operations for which a parameter can be set. For the other operation it "
        "belongs to the workload, such as the layout of a file that is read",
    )

    def parameter(self) -> Parameter:
        """Make a parameter of a space; its first value is the default where none is declared."""
        return Parameter(
            name=self.name,
            kind=Kind(self.kind),
            values=tuple(self.values),
            default=self.values[0] if self.default is None else self.default,
            unit=self.unit,
            scale=Scale(self.scale),
            role=self.role,
            active_if=None if self.active_if is None else Expression.parse(self.active_if),
        )


class Schema(BaseModel):
    """The whole ``NAME.toml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(description="of the table")
    description: str = Field(default="", description="what was measured")
    source: str = Field(default="", description="where, and by whom")
    license: str = Field(default="", description="of the data")
    complete: bool = Field(default=False, description="every combination was measured")
    constraints: list[str] = Field(
        default_factory=list,
        description="expressions over columns, words of the workload and parameters of stacks that hold of every "
        "row. Campaigns write their own. Models and artifacts keep them: what breaks one was never "
        "measured, and is not prescribed",
    )
    objective: ObjectiveColumn = Field(description="the measured quantity")
    parameter: list[Column] = Field(min_length=1, description="columns that are tuned")
    context: list[Column] = Field(default_factory=list, description="columns that cannot be tuned: the workload")
    stack: list[StackFile] = Field(
        default_factory=list,
        description="stack files of your own, as `[[stack]]`: how the parameters are set, and their rules. "
        "Campaigns and `train --stack` add them; models keep them",
    )

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """All stacks that its parameters may be of: the user's own, which the table holds, before the bundled ones."""
        own = (build_stack(entry, f"table {self.name}: stack {entry.name}") for entry in self.stack)
        return (*own, *every_stack())

    @property
    def quantity(self) -> Objective:
        """The measured quantity, its direction and unit."""
        return Objective(self.objective.column, self.objective.direction, self.objective.unit)

    @property
    def rules(self) -> tuple[Expression, ...]:
        """What holds of every row: a combination that breaks one was never measured."""
        return tuple(Expression.parse(text) for text in self.constraints)

    @property
    def columns(self) -> list[Column]:
        """Contexts, then parameters."""
        return [*self.context, *self.parameter]

    @property
    def active(self) -> dict[str, Expression]:
        """When each parameter means anything, by name: as declared, or as it is known of MPI-IO hints."""
        declared = {c.name: Expression.parse(c.active_if) for c in self.parameter if c.active_if is not None}
        return {**self.switched, **declared}

    @property
    def switched(self) -> dict[str, Expression]:
        """When MPI-IO hints mean anything: without collective buffering its aggregators and buffers do not."""
        switches = [c.name for c in self.parameter if c.role == "collective_buffering" and "disable" in c.values]
        if not switches:
            return {}
        known = Expression.parse(" or ".join(f"{name} != 'disable'" for name in switches))
        return {c.name: known for c in self.parameter if c.role in _COLLECTIVE_ROLES or c.name in _COLLECTIVE_NAMES}


@dataclass(frozen=True, eq=False)
class Table:
    """Measurements of configurations, possibly of several workloads (contexts).

    Attributes
    ----------
    levels : ndarray of int, shape (n, p)
        Index of each parameter's value, as measured (nothing is folded).
    context_levels : ndarray of int, shape (n, c)
        Index of each context's value.
    repeats : ndarray of int, shape (n,)
        Number of the repeat.
    values : ndarray of float, shape (n,)
        The objective, in its unit.
    """

    schema: Schema
    levels: Levels
    context_levels: Levels
    repeats: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def name(self) -> str:
        """The name in the TOML file."""
        return self.schema.name

    @property
    def objective(self) -> Objective:
        """The measured quantity and its direction."""
        return self.schema.quantity

    @property
    def every_level(self) -> Levels:
        """Levels of the contexts, then of the parameters, shape ``(n, c + p)``."""
        return np.concatenate([self.context_levels, self.levels], axis=1)

    def contexts(self) -> list[dict[str, Value]]:
        """List the workloads that occur, in order of first appearance; one empty mapping without contexts."""
        if not self.schema.context:
            return [{}]
        rows, first = np.unique(self.context_levels, axis=0, return_index=True)
        return [self._context(row) for row in rows[np.argsort(first)]]

    def _context(self, row: NDArray[np.int64]) -> dict[str, Value]:
        return {c.name: c.values[int(position)] for c, position in zip(self.schema.context, row, strict=True)}

    def of(self, context: Mapping[str, Value]) -> NDArray[np.bool_]:
        """Say which rows belong to a context (or to all contexts with the values given), shape ``(n,)``."""
        keep = np.ones(len(self), dtype=bool)
        for index, column in enumerate(self.schema.context):
            if column.name in context:
                keep &= self.context_levels[:, index] == _find_position(
                    column, context[column.name], "the context asked for", self._places[index]
                )
        return keep

    @cached_property
    def _places(self) -> list[dict[tuple[object, ...], int]]:
        """Where each context's values stand."""
        return [_positions(column) for column in self.schema.context]

    def check_learnable(self) -> None:
        """Refuse a table of which no model can be made.

        Raises
        ------
        UserError
            If a value is not positive, or a column has very many names: models see each as a column of its own.
        """
        for column in self.schema.columns:
            if column.kind == "categorical" and len(column.values) > _MOST_NAMES:
                what = f"table {self.name}: column {column.name} has {len(column.values):,} names"
                raise UserError(what, f"models learn from at most {_MOST_NAMES:,}: leave the column out, or group them")
        if np.any(self.values <= 0):
            wrong = self.values[self.values <= 0][0]
            what = f"table {self.name}: value {wrong:g} is not positive"
            raise UserError(what, "models predict logarithms: leave failed runs out")

    def digest_rows(self) -> NDArray[np.int64]:
        """Give a number for each row by which it is known again in another table, shape ``(n,)``."""
        columns = self.schema.columns
        found = np.empty(len(self), dtype=np.int64)
        for row, levels in enumerate(self.every_level):
            own = [f"{c.name}={c.values[level]}" for c, level in zip(columns, levels, strict=True)]
            text = "\n".join([*sorted(own), str(self.repeats[row]), repr(float(self.values[row]))])
            found[row] = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
        return found

    def take(self, keep: NDArray[Any]) -> Table:
        """Give the table of some rows (a mask, or indices)."""
        return Table(self.schema, self.levels[keep], self.context_levels[keep], self.repeats[keep], self.values[keep])


def _positions(column: Column) -> dict[tuple[object, ...], int]:
    """Give where each of a column's values stands: going through all of them for each row takes minutes."""
    found: dict[tuple[object, ...], int] = {}
    for index, known in enumerate(column.values):
        found.setdefault(("text", str(known)), index)
        if isinstance(known, bool):
            found.setdefault(("word", str(known).lower()), index)
        if not isinstance(known, str):
            found.setdefault(identity(known), index)
            with contextlib.suppress(OverflowError):
                found.setdefault(("number", float(known)), index)
    return found


def _find_position(column: Column, value: Any, where: str, found: Mapping[tuple[object, ...], int]) -> int:
    text = str(value)
    keys: list[tuple[object, ...]] = [("text", text), ("word", text.lower())]
    if not isinstance(value, str):
        # A column of texts holds numbers as texts, too.
        keys = [identity(value), *(keys[:1] if isinstance(column.values[found.get(keys[0], 0)], str) else [])]
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        keys.append(("number", float(value)))
    place = next((found[key] for key in keys if key in found), None)
    if place is None:
        raise UserError(
            f"{where}: {column.name} = {value!r} is not among the column's values", "list it in the TOML file"
        )
    return place


def make_table(schema: Schema, rows: Sequence[Mapping[str, Any]], origin: str = "table") -> Table:
    """Build and check a table from rows by column name.

    Parameters
    ----------
    rows : sequence of mapping
        One measurement each; ``repeat`` may be left out, or be the same for all runs of a configuration: then they
        count in the order of the rows. Texts are accepted for numbers.
    origin : str
        For messages.

    Raises
    ------
    UserError
        Duplicate column names, a missing column, a value that the schema does not list, an objective that is no
        finite number, or no rows.
    """
    columns = schema.columns
    check_schema(schema, origin)
    if not rows:
        raise UserError(f"{origin} has no rows", "measure something first")
    places = [_positions(column) for column in columns]
    cache: list[dict[Any, int]] = [{} for _ in columns]
    levels = np.empty((len(rows), len(columns)), dtype=np.int64)
    repeats = np.empty(len(rows), dtype=np.int64)
    values = np.empty(len(rows))
    for number, row in enumerate(rows):
        where = f"{origin}: row {number + 1}"
        try:
            for index, column in enumerate(columns):
                value = row[column.name]
                known = cache[index].get(value)
                if known is None:
                    known = cache[index][value] = _find_position(column, value, where, places[index])
                levels[number, index] = known
            values[number] = _number(row[schema.objective.column], schema.objective.column, where)
            repeats[number] = int(_number(row.get(_REPEAT, 0), _REPEAT, where))
        except KeyError as error:
            raise UserError(f"{where} has no column {error}", "compare the TOML file with the CSV header") from error
        except OverflowError as error:
            raise UserError(f"{where}: {_REPEAT} is too large", "number the runs from 0") from error
        except TypeError as error:
            raise UserError(f"{where}: {error}", "give texts, numbers or booleans") from error
    count = len(schema.context)
    return Table(schema, levels[:, count:], levels[:, :count], _told_apart(levels, repeats), values)


def check_schema(schema: Schema, origin: str) -> None:
    """Refuse two columns of one name, values out of order, and a constraint that names what nobody knows.

    Raises
    ------
    UserError
        With what is wrong; ``origin`` says of what.
    """
    names = [*(column.name for column in schema.columns), schema.objective.column, _REPEAT]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise UserError(f"{origin}: two columns are called {twice}", "rename one")
    for column in schema.columns:
        column.parameter()  # the checks of a parameter: order, scale, duplicates, default
    if not schema.constraints:
        return
    known = {column.name for column in schema.columns} | Workload().words().keys()
    known |= {parameter.name for stack in schema.stacks for parameter in stack.parameters}
    for rule in schema.rules:
        for name in sorted(rule.names - known):
            raise UserError(
                f"{origin}: the constraint '{rule.text}' names {name}, which is neither a column nor a word",
                "name columns of the table, words of the workload or parameters of a stack",
            )


def _number(given: Any, name: str, where: str) -> float:
    """Give a finite number."""
    try:
        number = float(given)
    except (TypeError, ValueError) as error:
        what = "is missing" if given in (None, "") else f"is {given!r}, which is not a number"
        raise UserError(f"{where}: {name} {what}", "fix the row, or leave it out") from error
    if not math.isfinite(number):
        raise UserError(f"{where}: {name} is {number}", "leave failed runs out")
    return number


def _told_apart(levels: NDArray[np.int64], repeats: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers of repeats; where some do not tell the runs of a configuration apart, all count in the rows' order."""
    cell = np.unique(levels, axis=0, return_inverse=True)[1].reshape(-1)
    if len(np.unique(np.stack([cell, repeats]), axis=1).T) == len(levels):
        return repeats
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], cell[order])
    numbered = np.empty_like(repeats)
    numbered[order] = np.arange(len(cell)) - first
    return numbered


def table_files(path: str | Path) -> tuple[Path, Path]:
    """Give the two files of a table that either of them or their common stem names."""
    stem = Path(path)
    if stem.suffix in (".csv", ".toml"):
        stem = stem.with_suffix("")
    return Path(f"{stem}.toml"), Path(f"{stem}.csv")


def read_table(path: str | Path) -> Table:
    """Read a table.

    Parameters
    ----------
    path : str or Path
        Either of its two files, or their common stem.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    toml, data = table_files(path)
    return make_table(read_schema(toml), read_rows(data), str(data))


def read_schema(path: Path) -> Schema:
    """Read what the columns of a table are.

    Raises
    ------
    UserError
        If the file cannot be read, or is not a schema.
    """
    return parse_document(Schema, read_document(path, "table", _FILES, LARGEST_SCHEMA), str(path))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read the rows of CSV with a header.

    Raises
    ------
    UserError
        If the file cannot be read, is larger than any table, has two columns of one name, or a row of more or fewer
        cells than the header.
    """
    # Spreadsheets put a mark before UTF-8, which does not belong to the first column's name.
    text = read_document(path, "table", _FILES, LARGEST_ROWS).removeprefix("\ufeff")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, str]] = []
    try:
        header = next(reader, [])
        if twice := [name for name, count in Counter(filter(None, header)).items() if count > 1]:
            raise UserError(f"{path}: two columns are called '{twice[0]}'", "rename one, or leave it out")
        for cells in filter(None, reader):
            if len(cells) != len(header):
                what = f"{path}: line {reader.line_num} has more or fewer cells than the header"
                raise UserError(what, "fix the row, or quote its commas")
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise UserError(f"cannot read {path}: line {reader.line_num}: {error}", "is it CSV with a header?") from error
    return rows


def write_table(table: Table, path: str | Path) -> None:
    """Write a table's two files, each whole or not at all; reading them gives an equal table.

    Raises
    ------
    UserError
        If they cannot be written.
    """
    toml, data = table_files(path)
    columns = table.schema.columns
    try:
        with (
            written_whole(toml) as described,
            written_whole(data) as part,
            part.open("w", encoding="utf-8", newline="") as stream,
        ):
            described.write_text(_toml(table.schema), "utf-8")
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow([*(column.name for column in columns), _REPEAT, table.schema.objective.column])
            for row, repeat, value in zip(table.every_level, table.repeats, table.values, strict=True):
                cells = [column.values[int(position)] for column, position in zip(columns, row, strict=True)]
                writer.writerow([*cells, int(repeat), repr(float(value))])
    except OSError as error:
        raise UserError(f"cannot write {data}: {error.strerror}", "check the folder") from error


def _toml(schema: Schema) -> str:
    def lines(entry: BaseModel) -> list[str]:
        return [f"{key} = {toml_value(value)}" for key, value in entry.model_dump(exclude_none=True).items()]

    tables = ("objective", "parameter", "context", "stack")
    head = {k: v for k, v in schema.model_dump().items() if k not in tables and v != []}
    text = [f"{key} = {toml_value(value)}" for key, value in head.items()]
    text += ["", "[objective]", *lines(schema.objective)]
    for title, entries in (("parameter", schema.parameter), ("context", schema.context)):
        for entry in entries:
            text += ["", f"[[{title}]]", *lines(entry)]
    for stack in schema.stack:
        text += _tables("stack", stack.model_dump(mode="json", exclude_defaults=True), listed=True)
    return "\n".join(text) + "\n"


def _tables(title: str, document: Mapping[str, Any], *, listed: bool) -> list[str]:
    """Lines of a TOML table with those below it."""
    below = {k: v if isinstance(v, list) else [v] for k, v in document.items() if isinstance(v, dict | list)}
    below = {key: entries for key, entries in below.items() if entries and isinstance(entries[0], dict)}
    lines = ["", f"[[{title}]]" if listed else f"[{title}]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in document.items() if key not in below]
    for key, entries in below.items():
        for entry in entries:
            lines += _tables(f"{title}.{key}", entry, listed=isinstance(document[key], list))
    return lines
