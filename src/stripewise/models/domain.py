"""What a model was trained on: its columns with their roles, what folds together, and the ranges it has seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value, place_of
from stripewise.catalogue.expression import Expression
from stripewise.errors import UserError
from stripewise.models.table import Column, Schema, Table, check_schema
from stripewise.requests.objective import Objective
from stripewise.sizes import format_size

Floats = NDArray[np.float64]
Frame = Mapping[str, Sequence[Value] | NDArray[Any]]
"""Columns by name, all equally long; columns that a model does not know are passed over."""

NEW = -1.0
"""The number of a category that training never showed."""


@dataclass(frozen=True)
class Apart:
    """With one value of a parameter, only some of another column were measured.

    Attributes
    ----------
    place : int
        Of the parameter.
    number : float
        The value, as points have it.
    other : int
        Place of the other column.
    allowed : tuple of float
        Of a category all values, of an ordered column the lowest and the highest; infinite where the training ends.
    """

    place: int
    number: float
    other: int
    allowed: tuple[float, ...]


@dataclass(frozen=True)
class Measured:
    """What the training rows show of combinations; see :mod:`stripewise.models.measured`.

    Attributes
    ----------
    overruled : tuple of str
        Conditions of the stacks' knowledge that did no harm in the training.
    """

    apart: tuple[Apart, ...] = ()
    overruled: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give everything as JSON's types; :meth:`from_json` reads it."""
        # JSON has no infinite numbers.
        rows = [
            [a.place, a.number, a.other, [number if math.isfinite(number) else None for number in a.allowed]]
            for a in self.apart
        ]
        return {"apart": rows, "overruled": list(self.overruled)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Measured:
        """Read what :meth:`as_json` gave."""
        ends = (-math.inf, math.inf)
        rows = (
            Apart(
                *(int(place), float(number), int(other)),
                tuple(ends[i] if each is None else float(each) for i, each in enumerate(allowed)),
            )
            for place, number, other, allowed in document["apart"]
        )
        return cls(tuple(rows), tuple(str(text) for text in document["overruled"]))


@dataclass(frozen=True)
class Domain:
    """The inputs of a model.

    A *point* is one row of numbers, the contexts first and then the parameters, in the schema's order: the value of an
    ordered column in its own unit, the place in ``values`` of a category, -1 of one that training never showed
    (another program, another file system).

    Attributes
    ----------
    schema : Schema
        Of the training table.
    low, high : tuple of float
        Smallest and largest number of each column in training.
    seen : tuple of tuple of int
        Places in ``values`` that occur in training, of each column.
    rows : int
        Measurements trained on.
    measured : Measured or None
        What they show of combinations; None where a model of an earlier version does not say it.
    """

    schema: Schema
    low: tuple[float, ...]
    high: tuple[float, ...]
    seen: tuple[tuple[int, ...], ...]
    rows: int
    measured: Measured | None = None

    @classmethod
    def of(cls, table: Table) -> Domain:
        """Take the domain of a table.

        Raises
        ------
        UserError
            If a column has the name of another, or an ordered column holds a value that is not a number.
        """
        schema = table.schema
        levels = table.every_level
        points = points_of(schema, levels)
        seen = tuple(tuple(int(position) for position in np.unique(column)) for column in levels.T)
        return cls(schema, tuple(points.min(axis=0)), tuple(points.max(axis=0)), seen, len(table))

    @property
    def objective(self) -> Objective:
        """The quantity predicted, its direction and unit."""
        return self.schema.quantity

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Contexts, then parameters."""
        return tuple(self.schema.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def contexts(self) -> int:
        """Number of context columns: they come first."""
        return len(self.schema.context)

    @cached_property
    def operation(self) -> int | None:
        """Place of the context that says read or write, or None."""
        contexts = enumerate(self.schema.context)
        return next((place for place, c in contexts if c.role == "operation" and c.kind == "categorical"), None)

    def points(self, frame: Frame) -> Floats:
        """Turn columns by name into points, shape ``(n, c)``.

        Raises
        ------
        UserError
            A missing column, columns of different lengths, a number that is not finite, or a category that training
            never showed where none can be predicted (:meth:`admits_new`).
        """
        missing = [name for name in self.names if name not in frame]
        if missing:
            what = "a context" if self.names.index(missing[0]) < self.contexts else "a parameter"
            raise UserError(
                f"the model needs the column {missing[0]} ({what} of table {self.schema.name})",
                f"give it a value; all columns: {', '.join(self.names)}",
            )
        columns = [self._column(index, frame[column.name]) for index, column in enumerate(self.columns)]
        lengths = {column.name: len(c) for column, c in zip(self.columns, columns, strict=True)}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise UserError(f"the columns differ in length: {shown}", "give every column one value per row")
        return np.stack(columns, axis=1) if columns else np.empty((0, 0))

    def cross(self, workloads: Frame, configurations: Frame) -> Floats:
        """Give the points of every workload with every configuration, shape ``(workloads * configurations, c)``.

        Configurations vary fastest. Only the columns on their own side are read from either frame.

        Raises
        ------
        UserError
            As :meth:`points`.
        """
        split = self.contexts
        first = [self._column(i, self._require_column(workloads, i)) for i in range(split)]
        second = [self._column(i, self._require_column(configurations, i)) for i in range(split, len(self.columns))]
        n = len(first[0]) if first else 1
        m = len(second[0])
        return np.stack([*(np.repeat(c, m) for c in first), *(np.tile(c, n) for c in second)], axis=1)

    def _require_column(self, frame: Frame, index: int) -> Sequence[Value] | NDArray[Any]:
        name = self.names[index]
        if name not in frame:
            raise UserError(f"the model needs the column {name}", f"all columns: {', '.join(self.names)}")
        return frame[name]

    def _column(self, index: int, given: Sequence[Value] | NDArray[Any]) -> Floats:
        column = self.columns[index]
        if column.kind == "ordinal":
            return self._numbers(column, given)
        lookup = {_key(column.values[place]): float(place) for place in self.seen[index]}
        values = given.tolist() if isinstance(given, np.ndarray) else list(given)
        codes = np.array([lookup.get(_key(value), NEW) for value in values], dtype=np.float64)
        if np.any(codes == NEW):
            self._refuse_unless_admitted(index, values[int(np.argmax(codes == NEW))])
        return codes

    def _refuse_unless_admitted(self, index: int, value: Any) -> None:
        if not self.admits_new(index):
            column = self.columns[index]
            known = ", ".join(str(column.values[place]) for place in self.seen[index])
            raise UserError(
                f"{column.name} = {value!r} was never measured: the model cannot guess it", f"it knows {known}"
            )

    def admits_new(self, index: int) -> bool:
        """Whether a category of the workload that was never measured can be predicted from those that were.

        That takes at least two, whose difference is the doubt. Reads say nothing of writes, and there is no third
        truth value.
        """
        column = self.columns[index]
        if column.kind != "categorical" or index >= self.contexts or index == self.operation:
            return False
        return len(self.seen[index]) > 1 and not all(isinstance(value, bool) for value in column.values)

    def is_new(self, points: Floats) -> NDArray[np.bool_]:
        """Which points have a category that was never measured, shape ``(n,)``."""
        places = [index for index, column in enumerate(self.columns) if column.kind == "categorical"]
        result: NDArray[np.bool_] = np.any(points[:, places] == NEW, axis=1)
        return result

    @staticmethod
    def _numbers(column: Column, given: Sequence[Value] | NDArray[Any]) -> Floats:
        try:
            numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise UserError(f"{column.name} has a value that is not a number", "it is an ordered column") from error
        if numbers.ndim != 1:
            raise UserError(f"{column.name} is not a list of values", "give one value per row")
        if not np.all(np.isfinite(numbers)):
            raise UserError(f"{column.name} has a value that is not finite", "leave such rows out")
        return numbers

    def table_points(self, table: Table) -> Floats:
        """Give the points of a table with the same columns (its values may be others), shape ``(n, c)``.

        Raises
        ------
        UserError
            As :meth:`points`.
        """
        if table.schema is self.schema:
            points = points_of(self.schema, table.every_level)
            for index, column in enumerate(self.columns):
                if column.kind == "categorical":
                    new = ~np.isin(points[:, index], self.seen[index])
                    if new.any():
                        self._refuse_unless_admitted(index, column.values[int(points[np.argmax(new), index])])
                    points[new, index] = NEW
            return points
        return self.points(table_frame(table))

    @cached_property
    def folds(self) -> tuple[tuple[int, float, Expression], ...]:
        """Where a value means nothing: column, the number it folds to, and the condition under which it is active.

        A condition that names words of the workload cannot be told from columns; what is known of hints holds then.
        """
        found = []
        for name, declared in self.schema.active.items():
            told = (rule for rule in (declared, self.schema.switched.get(name)) if rule is not None)
            condition = next((rule for rule in told if rule.names <= set(self.names)), None)
            if condition is None:
                continue
            index = self.names.index(name)
            column = self.columns[index]
            default = column.values[self.seen[index][0]] if column.default is None else column.default
            number = float(place_of(default, column.values) or 0) if column.kind == "categorical" else float(default)
            found.append((index, number, condition))
        return tuple(found)

    def folded(self, points: Floats) -> Floats:
        """Give points in which values that mean nothing are replaced by one and the same, shape ``(n, c)``."""
        if not self.folds or len(points) == 0:
            return points
        result = points.copy()
        values: dict[str, Any] = {}
        for _, _, condition in self.folds:
            for name in condition.names - values.keys():
                values[name] = self.values(self.names.index(name), points[:, self.names.index(name)])
        for index, number, condition in self.folds:
            active = np.broadcast_to(np.asarray(condition(values), dtype=bool), len(points))
            result[:, index] = np.where(active, points[:, index], number)
        return result

    def values(self, index: int, numbers: Floats) -> NDArray[Any]:
        """Translate a column's numbers back to its values: categories by name, None if new; numbers as they are."""
        column = self.columns[index]
        if column.kind == "ordinal":
            return numbers
        if np.any(numbers == NEW):
            return np.array([*column.values, None], dtype=object)[numbers.astype(np.int64)]
        return np.asarray(column.values)[numbers.astype(np.int64)]

    def outside(self, frame: Frame) -> list[str]:
        """Say in which columns rows leave what the training showed, one sentence each."""
        return self.outside_points(self.points(frame))

    def outside_points(self, points: Floats) -> list[str]:
        """As :meth:`outside`, of points."""
        found = []
        for index, column in enumerate(self.columns):
            if column.kind == "categorical" and np.any(points[:, index] == NEW):
                known = ", ".join(str(column.values[place]) for place in self.seen[index])
                found.append(f"{column.name} is none of those that were measured: {known}")
            if column.kind != "ordinal" or len(points) == 0:
                continue
            low, high = float(points[:, index].min()), float(points[:, index].max())
            for number, beyond in ((low, low < self.low[index]), (high, high > self.high[index])):
                if beyond:
                    given, least, most = (_write(n, column.unit) for n in (number, self.low[index], self.high[index]))
                    trained = f"range {least} to {most}" if least != most else f"data, which has {least} alone"
                    found.append(f"{column.name} = {given} lies outside the training {trained}")
                    break
        return found

    def as_json(self) -> dict[str, Any]:
        """Give everything as JSON's types; :meth:`from_json` reads it."""
        return {
            "schema": self.schema.model_dump(exclude_none=True),
            "low": list(self.low),
            "high": list(self.high),
            "seen": [list(places) for places in self.seen],
            "rows": self.rows,
            **({} if self.measured is None else {"measured": self.measured.as_json()}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Domain:
        """Read what :meth:`as_json` gave.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the parts do not fit one another; UserError and pydantic's ValidationError if the schema is none.
        """
        domain = cls(
            Schema.model_validate(document["schema"]),
            tuple(float(v) for v in document["low"]),
            tuple(float(v) for v in document["high"]),
            tuple(tuple(int(v) for v in places) for places in document["seen"]),
            int(document["rows"]),
            None if document.get("measured") is None else Measured.from_json(document["measured"]),
        )
        check_schema(domain.schema, "its table")
        columns, apart = domain.columns, () if domain.measured is None else domain.measured.apart
        if (
            not len(columns) == len(domain.low) == len(domain.high)
            or not np.isfinite([*domain.low, *domain.high]).all()
        ):
            raise ValueError("each column needs a range")
        for column, places in zip(columns, domain.seen, strict=True):
            if not places or not set(places) <= set(range(len(column.values))):
                raise ValueError(f"{column.name} has not the values that were measured")
        for one in apart:
            if not 0 <= one.other < one.place < len(columns):
                raise ValueError("values were measured apart in columns that it does not have")
            if columns[one.other].kind == "ordinal" and len(one.allowed) != len(("low", "high")):
                raise ValueError("a range has no two ends")
        return domain


def _key(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _write(number: float, unit: str) -> str:
    return format_size(number) if unit == "B" else f"{number:g} {unit}".rstrip()


def points_of(schema: Schema, levels: NDArray[np.int64]) -> Floats:
    """Turn levels (contexts, then parameters) into points, shape ``(n, c)``.

    Raises
    ------
    UserError
        If an ordered column holds a value that is not a number.
    """
    columns = []
    for column, position in zip(schema.columns, levels.T, strict=True):
        if column.kind == "categorical":
            columns.append(position.astype(np.float64))
            continue
        if any(isinstance(value, str) for value in column.values):
            raise UserError(f"table {schema.name}: {column.name} is ordinal but has a value that is not a number")
        columns.append(np.asarray(column.values, dtype=np.float64)[position])
    return np.stack(columns, axis=1)


def table_frame(table: Table) -> dict[str, list[Value]]:
    """Give a table's contexts and parameters as columns by name."""
    return {
        column.name: [column.values[int(position)] for position in levels]
        for column, levels in zip(table.schema.columns, table.every_level.T, strict=True)
    }
