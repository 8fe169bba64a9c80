"""What is asked for: a workload, the settings it runs with today, and whatever else the model wants to know.

Points of requests: what is told, what is not, and what acts if nothing is set.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stripewise.catalogue.configuration import Value, plain_number
from stripewise.catalogue.meaning import parse
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import Scalar
from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation, read_document, toml_document
from stripewise.errors import UserError
from stripewise.models.domain import Domain, Floats
from stripewise.models.table import Column
from stripewise.models.tunables import TunableColumn, bytes_of, tunable_columns
from stripewise.observe.workload import Observed
from stripewise.sizes import format_size, parse_size

_ROLES = (
    *("operation", "nodes", "processes", "processes_per_node", "file_size", "transfer_size", "layout", "piece_size"),
    *("collective", "file_per_process", "api", "file_system"),
)


class WorkloadFile(BaseModel):
    """A workload file.

    An experiment file has a ``[workload]`` table too; what else stands in it is passed over.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)
    workload: Workload = Workload()
    current: dict[str, Scalar] = Field(
        default_factory=dict, description="settings the program runs with today, by the model's parameters"
    )
    existing: bool = Field(default=False, description="the files exist: they keep their layout")
    context: dict[str, Scalar] = Field(
        default_factory=dict, description="columns of the model's table that no word of the workload names"
    )


@dataclass(frozen=True)
class PrescriptionRequest:
    """A question to a prescriber.

    Attributes
    ----------
    current : mapping
        Current settings by the names of the model's parameters; what is missing is at its default.
    context : mapping
        Values of columns that no word of the workload names.
    processes : int or None
        Ranks, where they are known and the number of nodes is not.
    existing : bool
        The files exist: they keep their layout.
    traits : mapping
        What a profile showed besides, see :mod:`stripewise.observe.profile_features`.
    mpi : str
        The program's MPI library with its version, as it names itself.
    io : str or None
        Its MPI-IO implementation, ``romio`` or ``ompio``.
    """

    workload: Workload
    current: Mapping[str, Value] = field(default_factory=dict)
    context: Mapping[str, Value] = field(default_factory=dict)
    processes: int | None = None
    existing: bool = False
    traits: Mapping[str, float] = field(default_factory=dict)
    mpi: str = ""
    io: str | None = None

    def with_observed(self, seen: Observed, domain: Domain | None) -> PrescriptionRequest:
        """Add what a run showed: what is declared here stays.

        Parameters
        ----------
        domain : Domain or None
            Of the model, whose columns layout and settings are to become.
        """
        # Without a model, a policy asks for the layout by these names.
        current: dict[str, Value] = dict(seen.layout) if domain is None else {}
        acted = {(setting.carrier, setting.key): setting.value for setting in seen.in_force}
        system = self.workload.file_system or seen.workload.file_system
        for tunable in () if domain is None else tunable_columns(domain.schema, system):
            assert domain is not None
            column, parameter = tunable.column, tunable.parameter
            if column.name in self.current:
                continue
            if column.role in seen.layout:
                current[column.name] = seen.layout[column.role] / bytes_of(column)
            elif parameter is not None and (parameter.carrier, parameter.setting) in acted:
                value = _parse_setting(tunable, parameter, acted[parameter.carrier, parameter.setting], domain)
                current |= {} if value is None else {column.name: value}
        return PrescriptionRequest(
            self.workload.merged(seen.workload),
            {**current, **self.current},
            self.context,
            self.processes or seen.processes,
            self.existing,
            {**self.traits, **seen.traits},
            self.mpi or seen.mpi,
            self.io or seen.io,
        )


def _parse_setting(tunable: TunableColumn, parameter: Parameter, text: str, domain: Domain) -> Value | None:
    """A column's value as its carrier spells it; None for a category that was never measured, or no number."""
    column, value = tunable.column, parse(parameter, text).value
    if value is None:
        return None
    if column.kind == "categorical":
        seen = [column.values[position] for position in domain.seen[tunable.place]]
        return next((one for one in seen if spell(one) == spell(value)), None)
    return None if isinstance(value, str) else value / bytes_of(column)


def parse_request(text: str, origin: str) -> PrescriptionRequest:
    """Read a workload file.

    Raises
    ------
    UserError
        If it is not valid TOML, or says nothing of a workload, or something wrong.
    """
    document = toml_document(text, origin)
    if "workload" not in document:
        raise UserError(f"{origin} has no [workload] table", "write one: operation, nodes, file_size and so on")
    try:
        entry = WorkloadFile.model_validate(document)
    except ValidationError as error:
        raise explain_validation(error, origin) from error
    return PrescriptionRequest(entry.workload, entry.current, entry.context, existing=entry.existing)


def read_request(workload: Path | None) -> PrescriptionRequest:
    """Read a workload file; None for a request that declares nothing.

    Raises
    ------
    UserError
        If it cannot be read; otherwise as :func:`parse_request`.
    """
    if workload is None:
        return PrescriptionRequest(Workload())
    return parse_request(read_document(workload, "workload"), str(workload))


@dataclass(frozen=True)
class Known:
    """What a request says of a model's columns.

    Attributes
    ----------
    values : dict
        By column, in the column's unit.
    unknown : tuple of str
        Columns of which nothing is said; every value that was measured counts alike.
    new : tuple of str
        Columns of ``values`` with a category that was never measured; each measured one stands for it.
    notes : tuple of str
        Sentences for the reader.
    """

    values: dict[str, Value]
    unknown: tuple[str, ...]
    new: tuple[str, ...]
    notes: tuple[str, ...]


def _write(column: Column, value: Value) -> str:
    """Write a value for people: bytes as a size."""
    return format_size(value) if column.unit == "B" and isinstance(value, int) and value > 0 else spell(value)


def _list(column: Column, values: Sequence[Value]) -> str:
    return ", ".join(_write(column, value) for value in values)


def known_values(domain: Domain, request: PrescriptionRequest) -> Known:
    """Find the value of every column that a request tells.

    Raises
    ------
    UserError
        A name that the model does not know, or a category that was never measured and cannot be predicted
        (:meth:`Domain.admits_new`).
    """
    columns = {column.name: column for column in domain.columns}
    for given, what in ((request.current, "[current]"), (request.context, "[context]")):
        for name in given:
            if name not in columns:
                raise UserError(f"{what} names {name}, which the model does not know", f"it knows {', '.join(columns)}")
    values: dict[str, Value] = {}
    unknown: list[str] = []
    new: list[str] = []
    notes: list[str] = []
    for place, column in enumerate(domain.columns):
        value = _value(column, request)
        if value is None and place >= domain.contexts:
            continue
        seen = [column.values[position] for position in domain.seen[place]]
        if value is None and len(seen) == 1:
            values[column.name] = seen[0]
            notes.append(f"{column.name} is unknown; all measurements have {_write(column, seen[0])}")
        elif value is None:
            unknown.append(column.name)
            notes.append(f"{column.name} is unknown: the mean over {_list(column, seen)} counts")
        elif (known := _check_value(column, value, seen)) is not None:
            values[column.name] = known
        elif domain.admits_new(place):
            values[column.name] = value
            new.append(column.name)
            what = f"{column.name} = {_write(column, value)}"
            notes.append(f"{what} was never measured: the mean over {_list(column, seen)} counts")
        else:
            raise UserError(
                f"{column.name} = {value!r} was never measured: the model cannot guess it",
                f"it knows {_list(column, seen)}",
            )
    return Known(values, tuple(unknown), tuple(new), tuple(notes))


def _value(column: Column, request: PrescriptionRequest) -> Value | None:
    for given in (request.context, request.current):
        if column.name in given:
            value = given[column.name]
            if isinstance(value, str) and column.role.endswith("_size"):
                return parse_size(value) / bytes_of(column)
            return value
    if column.role not in _ROLES:
        trait = request.traits.get(column.role)
        return None if trait is None else trait / bytes_of(column)
    word: Any = (
        request.workload.processes or request.processes
        if column.role == "processes"
        else getattr(request.workload, column.role)
    )
    if column.role == "operation" and word == "both":
        return None
    if column.role.endswith("_size") and word is not None:
        return float(word) / bytes_of(column)
    found: Value | None = word
    return found


def _check_value(column: Column, value: Value, seen: list[Any]) -> Value | None:
    """A value as the column has it, None for a category that was never measured; texts spell numbers and truths."""
    if column.kind == "ordinal":
        if isinstance(value, str | bool) or not math.isfinite(value):
            raise UserError(f"{column.name} = {value!r} is not a number", "it is an ordered column of the model")
        return plain_number(value)
    for known in seen:
        same_kind = isinstance(known, bool) == isinstance(value, bool)
        if (known == value and same_kind) or str(known).lower() == str(value).lower():
            kept: Value = known
            return kept
    return None


_MOST_GROUPS = 64


def all_rows(domain: Domain, known: Sequence[Known], every: Sequence[TunableColumn]) -> Floats:
    """Points of requests that leave nothing open, one row each."""
    defaults = {tunable.name: default_of(domain, tunable) for tunable in every}
    if any(one.unknown for one in known):
        what = next(one.unknown[0] for one in known if one.unknown)
        raise UserError(f"a workload leaves {what} open", "give every context a value")
    filled = [{**defaults, **one.values} for one in known]
    return domain.points({name: [one[name] for one in filled] for name in domain.names})


def rows_of(domain: Domain, known: Known, every: Sequence[TunableColumn], processes: int | None = None) -> Floats:
    """Points of a request: one row for each combination of what is unknown, parameters at their current value.

    Raises
    ------
    UserError
        If that are too many.
    """
    spread: list[list[Value]] = []
    for place, column in enumerate(domain.columns):
        if column.name in known.values and column.name not in known.new:
            spread.append([known.values[column.name]])
        elif column.name in (*known.unknown, *known.new):
            spread.append([column.values[position] for position in domain.seen[place]])
        else:
            spread.append([default_of(domain, next(k for k in every if k.place == place))])
    if np.prod([len(values) for values in spread], dtype=np.float64) > _MOST_GROUPS:
        raise UserError(
            f"too much is unknown of the workload: {', '.join((*known.unknown, *known.new))}",
            "say more under [workload] or [context]",
        )
    rows = _with_ranks(domain, list(itertools.product(*spread)), processes)
    return domain.points({name: [row[i] for row in rows] for i, name in enumerate(domain.names)})


def _with_ranks(domain: Domain, rows: list[Any], processes: int | None) -> list[Any]:
    """Keep the rows whose nodes and processes per node make the ranks that were seen, if any do."""
    roles = [column.role for column in domain.columns]
    if processes is None or "nodes" not in roles or "processes_per_node" not in roles:
        return rows
    nodes, each = roles.index("nodes"), roles.index("processes_per_node")
    return [row for row in rows if row[nodes] * row[each] == processes] or rows


def default_of(domain: Domain, tunable: TunableColumn) -> Value:
    """The value that acts if nothing is set: declared in the table, else the stack's, else the first measured."""
    column = tunable.column
    seen = [column.values[position] for position in domain.seen[tunable.place]]
    if column.default is not None and column.default in seen:
        return column.default
    if tunable.parameter is not None and tunable.parameter.default in seen:
        return tunable.parameter.default
    first: Value = seen[0]
    return first
