"""By what each parameter column of a table is set: a stack's hint or layout, the launcher, or the program's author.

Tables name their columns freely; the stacks know the carriers. A column is a stack's parameter if it has its name (with
or without ``romio_``), or a role that one parameter of the file system's stack has alone. A column of a user's own
stack or campaign says itself which carrier sets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from stripewise.carriers import LAYOUT, Carrier
from stripewise.filesystems import USUAL, of_file
from stripewise.model.table import Column, Schema
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import OPERATIONS, Parameter, Safety, When
from stripewise.spec.sizes import parse_size
from stripewise.spec.space import Derived
from stripewise.spec.stack import every_stack, load_stack

_ROLES = {"aggregators": "cb_nodes", "collective_buffer_size": "cb_buffer_size"}
_PROGRAM = ("transfer_size", "collective", "layout", "piece_size", "api", "file_per_process", "file_size")
_LAUNCH = ("nodes", "processes", "processes_per_node")
_PLACES = ("directory",)


class SetBy(StrEnum):
    """How a column's value reaches a program.

    ``setting``: by a hint, a layout or a variable, which a plan holds. ``place``: by the directory that the file is
    written to. ``launch``: by the number of processes. ``program``: only its author can change it. ``other``: nobody
    said.
    """

    SETTING = "setting"
    PLACE = "place"
    LAUNCH = "launch"
    PROGRAM = "program"
    OTHER = "other"


@dataclass(frozen=True)
class TunableColumn:
    """A parameter column with what sets it.

    Attributes
    ----------
    column : Column
    place : int
        Among all columns, contexts first.
    set_by : SetBy
    parameter : Parameter or None
        The stack's, for a setting.
    constraints : tuple of Expression
        Of the stack, that name the parameter.
    """

    column: Column
    place: int
    set_by: SetBy
    parameter: Parameter | None = None
    constraints: tuple[Expression, ...] = ()

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def at_creation(self) -> bool:
        """Whether it is fixed once the file exists."""
        return self.parameter is not None and self.parameter.when is When.CREATE

    def can_change(self, operation: str | None) -> bool:
        """Whether it can be set for an operation: a file that is only read keeps its layout."""
        if self.parameter is None:
            return True
        if operation == "read" and self.at_creation:
            return False
        return operation not in ("read", "write") or operation in self.parameter.operations


@cache
def known_parameters() -> dict[str, tuple[str, Parameter]]:
    """All stacks' parameters by name, each with the name of its stack."""
    return {p.name: (stack.name, p) for stack in every_stack() for p in stack.parameters}


def _parameter(column: Column, file_system: str | None) -> tuple[str, Parameter] | None:
    if column.carrier is not None:
        return "", _own(column, column.carrier, column.key or column.name, "")
    known = known_parameters()
    system = of_file(file_system)
    stripes = column.role in ("stripe_count", "stripe_size")
    if not (stripes and system.keys and system is not USUAL):
        for name in (column.name, f"romio_{column.name}", _ROLES.get(column.role, "")):
            if name in known:
                return known[name]
    stack = system.name if system.keys else USUAL.name
    if stripes:
        return stack, next(p for p in load_stack(stack).parameters if p.role == column.role)
    if column.role == "pool" or column.name == "pool":
        return stack, _own(column, LAYOUT, "pool", stack)
    return None


def _own(column: Column, carrier: Carrier, key: str, layer: str) -> Parameter:
    """A parameter whose values no stack lists: pools, which are the site's, and tunables of the table's own."""
    created = carrier.acts == ("create",)
    return replace(
        column.parameter(),
        carrier=carrier,
        key=key,
        layer=layer,
        when=When.CREATE if created else When.OPEN,
        operations=tuple(column.operations or (("write",) if created else OPERATIONS)),
        safety=Safety.LAYOUT if created else Safety.PURE,
        evidence="layout" if carrier.of_file_system else "none",
    )


def tunable_columns(schema: Schema, file_system: str | None = None) -> tuple[TunableColumn, ...]:
    """Say of every parameter column what sets it.

    Parameters
    ----------
    schema : Schema
    file_system : str, optional
        Whose layout stripes are; that of Lustre if it is unknown or has none.
    """
    found = []
    for place, column in enumerate(schema.parameter, start=len(schema.context)):
        if column.role in _PROGRAM:
            found.append(TunableColumn(column, place, SetBy.PROGRAM))
        elif column.role in _LAUNCH:
            found.append(TunableColumn(column, place, SetBy.LAUNCH))
        elif column.role in _PLACES:
            found.append(TunableColumn(column, place, SetBy.PLACE))
        elif (match := _parameter(column, file_system)) is not None:
            stack, parameter = match
            every = load_stack(stack).constraints if stack else ()
            rules = tuple(c for c in every if parameter.name in c.names)
            found.append(TunableColumn(column, place, SetBy.SETTING, parameter, rules))
        else:
            found.append(TunableColumn(column, place, SetBy.OTHER))
    return tuple(found)


def derived_settings(used: Sequence[TunableColumn]) -> tuple[Derived, ...]:
    """Settings that follow from some tunables, as ``cb_config_list`` from ``cb_nodes``."""
    names = {tunable.parameter.name for tunable in used if tunable.parameter is not None}
    return tuple(entry for stack in every_stack() for entry in stack.derived if entry.value.names & names)


def bytes_of(column: Column) -> float:
    """What turns the unit of a column into bytes; 1 for anything but a size."""
    if not column.role.endswith("_size") or column.unit in ("", "B"):
        return 1.0
    return float(parse_size(f"1 {column.unit}"))
