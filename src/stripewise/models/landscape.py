"""A context of a table as a landscape to search: its space, what folds together, true values, noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from stripewise.catalogue.configuration import Value, place_of, plain_number
from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.models.table import Column, Table
from stripewise.models.tunables import bytes_of


@dataclass(frozen=True)
class TableSpace(Space):
    """A space in which exactly the measured configurations are feasible.

    Attributes
    ----------
    measured : ndarray of int, shape (m, d)
        Distinct measured configurations, not folded.
    """

    measured: Levels = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64), compare=False, repr=False)
    listed: ClassVar[bool] = True

    @cached_property
    def points(self) -> Levels:
        """Distinct measured configurations, folded, in grid order, shape ``(n, d)``."""
        return np.unique(self.fold(self.measured), axis=0)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        return self.flat(self.points)

    def index(self, levels: Levels) -> NDArray[np.int64]:
        """Find configurations among :attr:`points`, shape ``(n,)``; -1 where not measured."""
        numbers = self.flat(self.fold(levels))
        place = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[place] == numbers, place, -1)

    def feasible(self, levels: Levels) -> NDArray[np.bool_]:
        """See :meth:`Space.feasible`."""
        return self.index(levels) >= 0

    def chunks(self) -> Iterator[Levels]:
        """See :meth:`Space.chunks`."""
        yield self.points

    def enumerate(self, limit: int = 20_000_000) -> Levels:
        """See :meth:`Space.enumerate`."""
        if len(self.points) > limit:
            raise UserError(f"the table has {len(self.points):,} points, more than {limit:,}")
        return self.points

    def count(self, limit: int = 2_000_000) -> tuple[int, bool]:
        """See :meth:`Space.count`."""
        return len(self.points), True

    def sample(self, rng: np.random.Generator, n: int) -> Levels:
        """See :meth:`Space.sample`."""
        return self.fold(self.measured[rng.integers(0, len(self.measured), size=n)])


@dataclass(frozen=True, eq=False)
class Landscape:
    """One context of a table: every measured configuration with all its runs.

    Attributes
    ----------
    table : Table
        The rows of this context only.
    context : mapping
        Value of each context column.
    """

    table: Table
    context: Mapping[str, Value]
    space: TableSpace

    @classmethod
    def of(cls, table: Table, context: Mapping[str, Value] | None = None) -> Landscape:
        """Take a context of a table.

        Raises
        ------
        UserError
            If the table has no such rows.
        """
        chosen = dict(context or {})
        rows = table.take(table.of(chosen))
        if len(rows) == 0:
            raise UserError(f"table {table.name} has no rows with {chosen}", "see its [[context]] entries")
        if len(rows.contexts()) > 1:
            raise UserError(f"{chosen} of table {table.name} is several contexts", "give a value of each [[context]]")
        measured = np.unique(rows.levels, axis=0)
        start = measured[_start(table.schema.parameter, measured)]
        active = table.schema.active
        parameters = tuple(
            replace(column.parameter(), default=column.values[int(position)], active_if=active.get(column.name))
            for column, position in zip(table.schema.parameter, start, strict=True)
        )
        words = {**chosen, **describe_workload(table, chosen).words()}
        return cls(rows, chosen, TableSpace(parameters, context=words, measured=measured))

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """The point of :attr:`space` that each row belongs to, shape ``(rows,)``."""
        return self.space.index(self.table.levels)

    def runs(self, point: int) -> NDArray[np.float64]:
        """All measured values of a point."""
        values: NDArray[np.float64] = self.table.values[self.groups == point]
        return values

    @cached_property
    def truth(self) -> NDArray[np.float64]:
        """True value of each point: the median over all repeats of all configurations that fold to it."""
        return self._medians(np.ones(len(self.table), dtype=bool))

    def _medians(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        result = np.full(len(self.space.points), np.nan)
        groups, values = self.groups[keep], self.table.values[keep]
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        for point, start, end in zip(present, starts, np.append(starts, len(order))[1:], strict=True):
            result[point] = np.median(values[order[start:end]])
        return result

    @cached_property
    def best(self) -> tuple[int, float]:
        """The best point and its value, picked on odd repeats and scored on even ones, so that luck is not crowned.

        Where no point has both, the best true value.
        """
        odd = self.table.repeats % 2 == 1
        picked, scored = self._medians(odd), self._medians(~odd)
        both = ~np.isnan(picked) & ~np.isnan(scored)
        if not both.any():
            picked = scored = self.truth
            both = np.ones(len(picked), dtype=bool)
        cost = np.where(both, -picked if self.table.objective.maximize else picked, np.inf)
        point = int(np.argmin(cost))
        return point, float(scored[point])

    @property
    def optimum(self) -> float:
        """Value of the best point, see :attr:`best`."""
        return self.best[1]

    @cached_property
    def median(self) -> float:
        """Median of the true values over all points."""
        return float(np.median(self.truth))

    def closed(self, value: float) -> float:
        """Share of the gap between the table's median and its optimum that a true value closes, at most 1.

        A value no worse than the optimum closes all of it, even where noise put the optimum behind the median.
        """
        if not self.table.objective.better(self.optimum, value):
            return 1.0
        gap = self.optimum - self.median
        return (value - self.median) / gap if self.table.objective.better(self.optimum, self.median) else 0.0


def list_landscapes(table: Table) -> list[Landscape]:
    """Take every context of a table apart."""
    return [Landscape.of(table, context) for context in table.contexts()]


def _start(columns: list[Column], measured: Levels) -> int:
    """Choose the point that stands for the default: the declared one, or the measured one nearest to it.

    Parameters without a declared default count as if it were their middle value.
    """
    distance = np.zeros(len(measured))
    for index, column in enumerate(columns):
        if column.default is not None:
            distance += 10.0 * (measured[:, index] != place_of(column.default, column.values))
        elif column.kind == "ordinal":
            distance += np.abs(measured[:, index] / max(1, len(column.values) - 1) - 0.5)
    return int(np.argmin(distance))


def describe_workload(table: Table, context: Mapping[str, Value]) -> Workload:
    """Say what a context's columns mean, by their roles; words it does not use stay unknown."""
    words: dict[str, Any] = {}
    for column in table.schema.context:
        if column.role in Workload.model_fields and column.name in context:
            value = context[column.name]
            words[column.role] = value if isinstance(value, str | bool) else plain_number(value * bytes_of(column))
        if column.role == "processes" and column.name in context:
            words["processes"] = context[column.name]
    processes, nodes = words.pop("processes", None), words.get("nodes")
    if processes and nodes and "processes_per_node" not in words and int(processes) % int(nodes) == 0:
        words["processes_per_node"] = int(processes) // int(nodes)
    try:
        return Workload.model_validate(words)
    except ValidationError:
        # Names of patterns are free in tables; a word that is not one of the field's own tells expressions nothing.
        return Workload.model_validate(
            {k: v for k, v in words.items() if isinstance(v, int) and not isinstance(v, bool)}
        )
