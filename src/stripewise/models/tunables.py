"""By what each parameter column of a table is set: a stack's hint or layout, the launcher, or the program's author.

Tables name their columns freely; the stacks know the carriers. A column is a stack's parameter if it has its name (with
or without ``romio_``), or a key that no other parameter has, or a role that one parameter of the file system has alone.
A table holds the user's own stacks; a column of a user's own campaign says itself which carrier sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from stripewise.catalogue.carriers import LAYOUT, Carrier
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems import USUAL, of_file
from stripewise.catalogue.parameter import OPERATIONS, Parameter, Safety, When
from stripewise.catalogue.space import Derived
from stripewise.catalogue.stack import Stack, load_stack, own_stack
from stripewise.catalogue.workload import Workload
from stripewise.models.table import Column, Schema
from stripewise.sizes import parse_size

_ROLES = {"aggregators": "cb_nodes", "collective_buffer_size": "cb_buffer_size"}
_PROGRAM = ("transfer_size", "collective", "layout", "piece_size", "api", "file_per_process", "file_size")
_LAUNCH = ("nodes", "processes", "processes_per_node")
_PLACES = ("directory",)
_BUFFERING = ("romio_cb_write", "romio_cb_read")


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
    place : int
        Among all columns, contexts first.
    parameter : Parameter or None
        The stack's, for a setting.
    stack : Stack or None
        The parameter's, where it has one.
    """

    column: Column
    place: int
    set_by: SetBy
    parameter: Parameter | None = None
    stack: Stack | None = None

    @property
    def constraints(self) -> tuple[Expression, ...]:
        """Rules of the stack that name the parameter."""
        if self.stack is None or self.parameter is None:
            return ()
        return tuple(rule for rule in self.stack.constraints if self.parameter.name in rule.names)

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @property
    def is_switch(self) -> bool:
        """Whether it switches the stack's component on and off."""
        return self.stack is not None and self.parameter is not None and self.parameter == self.stack.switch

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


def known_parameters(schema: Schema) -> dict[str, tuple[Stack, Parameter]]:
    """Parameters that the columns of a table may be, by name, each with its stack."""
    names = {column.name for column in schema.parameter if column.carrier is None}
    stacks = [stack.with_switch(names) for stack in reversed(schema.stacks)]
    return {p.name: (stack, p) for stack in stacks for p in stack.parameters}


def _parameter(
    column: Column, file_system: str | None, known: Mapping[str, tuple[Stack, Parameter]]
) -> tuple[Stack | None, Parameter] | None:
    system = of_file(file_system)
    stack = load_stack(system.name if system.keys else USUAL.name)
    if column.carrier is not None:
        layer = stack.name if column.carrier.of_file_system else ""
        return None, _make_own(column, column.carrier, column.key or column.name, layer)
    stripes = column.role in ("stripe_count", "stripe_size")
    if not (stripes and system.keys and system is not USUAL):
        for name in (column.name, f"romio_{column.name}", _ROLES.get(column.role, "")):
            if name in known:
                return known[name]
    # A file system may have no parameter of this role: the column is then one that nobody says how to set.
    striped = [p for p in stack.parameters if p.role == column.role] if stripes else []
    if striped:
        return stack, striped[0]
    if column.role == "pool" or column.name == "pool":
        return stack, _make_own(column, LAYOUT, "pool", stack.name)
    named = [entry for entry in known.values() if entry[1].setting == column.name]
    return named[0] if len(named) == 1 else None


def _make_own(column: Column, carrier: Carrier, key: str, layer: str) -> Parameter:
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
    file_system : str, optional
        Whose layout stripes are; that of Lustre if it is unknown or has none.
    """
    found = []
    known = known_parameters(schema)
    own = {parameter.name for entry in schema.stack for parameter in entry.parameter}
    for place, column in enumerate(schema.parameter, start=len(schema.context)):
        said = column.carrier is not None or column.name in own
        if column.role in _PROGRAM and not said:
            found.append(TunableColumn(column, place, SetBy.PROGRAM))
        elif column.role in _LAUNCH:
            found.append(TunableColumn(column, place, SetBy.LAUNCH))
        elif column.role in _PLACES:
            found.append(TunableColumn(column, place, SetBy.PLACE))
        elif (match := _parameter(column, file_system, known)) is not None:
            found.append(TunableColumn(column, place, SetBy.SETTING, match[1], match[0]))
        else:
            found.append(TunableColumn(column, place, SetBy.OTHER))
    return tuple(found)


def extend_schema(schema: Schema, stacks: Iterable[str]) -> Schema:
    """Add the user's own stacks to a table: then models know how its parameters are set, and which values are allowed.

    Parameters
    ----------
    stacks : iterable of str
        Names or paths; those of bundled stacks need not be added.

    Raises
    ------
    UserError
        If a stack cannot be read.
    """
    own = {entry.name: entry for entry in (own_stack(name) for name in stacks) if entry is not None}
    kept = [entry for entry in schema.stack if entry.name not in own]
    return schema.model_copy(update={"stack": [*own.values(), *kept]})


def describe_schema(schema: Schema, stacks: Sequence[str]) -> Schema:
    """Add to a table what stacks know of its parameters: the default, when a value means anything, and all rules.

    Layouts get neither: they are always made, and the operation says when.

    Parameters
    ----------
    stacks : sequence of str
        Names or paths of those that columns are named after. What a column says itself stays, but for conditions, which
        stacks know better.

    Raises
    ------
    UserError
        If a stack cannot be read.
    """
    schema = extend_schema(schema, stacks)
    names = {column.name for column in schema.parameter if column.carrier is None}
    loaded = [load_stack(name).with_switch(names) for name in stacks]
    known = {parameter.name: parameter for stack in loaded for parameter in stack.parameters}
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
    return schema.model_copy(update={"parameter": columns, "constraints": _in_words_of(schema, known)})


def _in_words_of(schema: Schema, known: Mapping[str, Parameter]) -> list[str]:
    """Give the constraints with the default of each parameter that the table does not vary in place of its name."""
    words = {column.name for column in schema.columns} | Workload().words().keys()
    still = {name: known[name].default_from or known[name].default for name in known.keys() - words}
    texts = [rule.fixed(still).text if rule.names & still.keys() else rule.text for rule in schema.rules]
    return [text for text in texts if text != "True"]


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


def find_stand_in(tunables: Iterable[TunableColumn]) -> TunableColumn | None:
    """The column "collective or not", where ``romio_cb_*`` can stand in for it, because no column is that hint."""
    every = tuple(tunables)
    if any(tunable.parameter is not None and tunable.parameter.name in _BUFFERING for tunable in every):
        return None
    return next((tunable for tunable in every if tunable.column.role == "collective"), None)


def list_derived_settings(used: Sequence[TunableColumn]) -> tuple[Derived, ...]:
    """Settings that follow from some tunables, as ``cb_config_list`` from ``cb_nodes``."""
    names = {tunable.parameter.name for tunable in used if tunable.parameter is not None}
    stacks = {tunable.stack.name: tunable.stack for tunable in used if tunable.stack is not None}
    return tuple(entry for stack in stacks.values() for entry in stack.derived if entry.value.names & names)


def bytes_of(column: Column) -> float:
    """What turns the unit of a column into bytes; 1 for anything but a size."""
    if not column.role.endswith("_size") or column.unit in ("", "B"):
        return 1.0
    return float(parse_size(f"1 {column.unit}"))
