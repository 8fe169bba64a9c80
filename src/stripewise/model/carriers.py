"""By what each parameter column of a table is set: a stack's hint or layout, the launcher, or the program's author.

Tables name their columns freely; the stacks know the carriers. A column is a stack's parameter if it has its name (with
or without ``romio_``), or a role that one parameter of the file system's stack has alone. A column of a user's own
stack or campaign says itself which carrier sets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from stripewise.spec.stack import Stack, every_stack, load_stack
from stripewise.spec.workload import Workload

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


def described(schema: Schema, stacks: Sequence[Stack]) -> Schema:
    """Add to a table's parameters what stacks know of them: the default, and when a value means anything.

    Layouts are left out: they are always made, and the operation says when.

    Parameters
    ----------
    schema : Schema
    stacks : sequence of Stack
        That the columns are named after. What a column says itself stays, but for conditions, which stacks know better.
    """
    known = {parameter.name: parameter for stack in stacks for parameter in stack.parameters}
    columns = []
    for column in schema.parameter:
        parameter = known.get(column.name) if column.carrier is None else None
        if parameter is not None and parameter.carrier.of_file_system:
            parameter = None
        default = column.default
        if default is None and parameter is not None and parameter.default_from is None:
            default = parameter.default if parameter.default in column.values else None
        columns.append(
            column.model_copy(update={"default": default, "active_if": _condition(column, parameter, schema, known)})
        )
    return schema.model_copy(update={"parameter": columns})


def _condition(
    column: Column, parameter: Parameter | None, schema: Schema, known: Mapping[str, Parameter]
) -> str | None:
    """When a column's values mean anything, in the words of the table alone; None for always."""
    names = {other.name for other in schema.columns}
    words = Workload().words().keys()
    rules = [] if column.active_if is None else [Expression.parse(column.active_if)]
    apis = column.carrier.apis if column.carrier is not None else ()
    if parameter is not None:
        apis = parameter.apis
        # What the table does not vary acted at its default, and conditions on it see just that.
        others = {name: known[name].default_from or known[name].default for name in known.keys() - names}
        rule = None if parameter.active_if is None else parameter.active_if.fixed(others)
        rules = [rule] if rule is not None and rule.names <= names | words else rules
    used = {name for rule in rules for name in rule.names}
    api = next((other for other in schema.columns if other.role == "api"), None)
    if apis and api is not None and api.name not in used and any(value not in apis for value in api.values):
        rules.append(Expression.parse(f"{api.name} in {(*apis, 'unknown')!r}"))
    texts = [rule.text for rule in rules if rule.text != "True"]
    return " and ".join(f"({text})" if len(texts) > 1 else text for text in texts) or None


def derived_settings(used: Sequence[TunableColumn]) -> tuple[Derived, ...]:
    """Settings that follow from some tunables, as ``cb_config_list`` from ``cb_nodes``."""
    names = {tunable.parameter.name for tunable in used if tunable.parameter is not None}
    return tuple(entry for stack in every_stack() for entry in stack.derived if entry.value.names & names)


def bytes_of(column: Column) -> float:
    """What turns the unit of a column into bytes; 1 for anything but a size."""
    if not column.role.endswith("_size") or column.unit in ("", "B"):
        return 1.0
    return float(parse_size(f"1 {column.unit}"))
