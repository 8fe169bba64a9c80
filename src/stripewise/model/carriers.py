"""By what each parameter column of a table is set: a stack's hint or layout, the launcher, or the program's author.

Tables name their columns freely; the stacks know the carriers. A column is a stack's parameter if it has its name (with
or without ``romio_``), or a role that one parameter of the file system's stack has alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from stripewise.carriers import LAYOUT
from stripewise.model.table import Column, Schema
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Parameter, When
from stripewise.spec.sizes import parse_size
from stripewise.spec.space import Derived
from stripewise.spec.stack import load_stack

_STACKS = ("romio", "lustre", "cephfs", "ompio")
_LAYOUTS = {"ceph": "cephfs", "cephfs": "cephfs"}
_ROLES = {"aggregators": "cb_nodes", "collective_buffer_size": "cb_buffer_size"}
_PROGRAM = ("transfer_size", "collective", "layout", "piece_size", "api", "file_per_process", "file_size")
_LAUNCH = ("nodes", "processes", "processes_per_node")
_PLACES = ("directory",)


class Way(StrEnum):
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
class Knob:
    """A parameter column with what sets it.

    Attributes
    ----------
    column : Column
    place : int
        Among all columns, contexts first.
    way : Way
    parameter : Parameter or None
        The stack's, for a setting.
    constraints : tuple of Expression
        Of the stack, that name the parameter.
    """

    column: Column
    place: int
    way: Way
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
    found: dict[str, tuple[str, Parameter]] = {}
    for name in _STACKS:
        for parameter in load_stack(name).parameters:
            found.setdefault(parameter.name, (name, parameter))
    return found


def _parameter(column: Column, file_system: str | None) -> tuple[str, Parameter] | None:
    known = known_parameters()
    own = _LAYOUTS.get(file_system or "")
    if own is not None and column.role in ("stripe_count", "stripe_size"):
        return own, next(p for p in load_stack(own).parameters if p.role == column.role)
    for name in (column.name, f"romio_{column.name}", _ROLES.get(column.role, "")):
        if name in known:
            return known[name]
    stack = _LAYOUTS.get(file_system or "", "lustre")
    alike = [p for p in load_stack(stack).parameters if p.role == column.role and p.role != "other"]
    if column.role in ("stripe_count", "stripe_size") and len(alike) == 1:
        return stack, alike[0]
    if column.role == "pool" or column.name == "pool":
        return stack, _pool(column)
    return None


def _pool(column: Column) -> Parameter:
    """A Lustre pool, of which the stack lists no values: they are the site's."""
    from stripewise.spec.parameter import Kind, Safety, Scope  # noqa: PLC0415  only needed here

    return Parameter(
        name=column.name,
        kind=Kind.CATEGORICAL,
        values=tuple(column.values),
        default=column.values[0] if column.default is None else column.default,
        carrier=LAYOUT,
        key="pool",
        layer="lustre",
        when=When.CREATE,
        scope=Scope.FILE,
        operations=("write",),
        safety=Safety.LAYOUT,
        evidence="layout",
    )


def knobs(schema: Schema, file_system: str | None = None) -> tuple[Knob, ...]:
    """Say of every parameter column what sets it.

    Parameters
    ----------
    schema : Schema
    file_system : str, optional
        Whose layout stripes are: ``ceph`` and ``cephfs`` mean CephFS, anything else Lustre.
    """
    found = []
    for place, column in enumerate(schema.parameter, start=len(schema.context)):
        if column.role in _PROGRAM:
            found.append(Knob(column, place, Way.PROGRAM))
        elif column.role in _LAUNCH:
            found.append(Knob(column, place, Way.LAUNCH))
        elif column.role in _PLACES:
            found.append(Knob(column, place, Way.PLACE))
        elif (match := _parameter(column, file_system)) is not None:
            stack, parameter = match
            rules = tuple(c for c in load_stack(stack).constraints if parameter.name in c.names)
            found.append(Knob(column, place, Way.SETTING, parameter, rules))
        else:
            found.append(Knob(column, place, Way.OTHER))
    return tuple(found)


def derived_settings(used: Sequence[Knob]) -> tuple[Derived, ...]:
    """Settings that follow from some knobs, as ``cb_config_list`` from ``cb_nodes``."""
    names = {knob.parameter.name for knob in used if knob.parameter is not None}
    return tuple(entry for name in _STACKS for entry in load_stack(name).derived if entry.value.names & names)


def bytes_of(column: Column) -> float:
    """What turns the unit of a column into bytes; 1 for what is no size."""
    if not column.role.endswith("_size") or column.unit in ("", "B"):
        return 1.0
    return float(parse_size(f"1 {column.unit}"))
