"""What was chosen, as lines of a plan and as sentences for what no setting can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, Setting
from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.plan import settings_of, spell
from stripewise.catalogue.space import Space
from stripewise.models.carriers import TunableColumn, bytes_of, derived_settings
from stripewise.sizes import format_size


def lines(
    chosen: Sequence[tuple[TunableColumn, Value]],
    standin: TunableColumn | None,
    operation: str | None,
    words: Mapping[str, Any],
) -> list[Setting]:
    """Hints and layouts, what follows from them, and what stands in for the access pattern.

    Parameters
    ----------
    chosen : sequence of (TunableColumn, value)
        What is changed, and its new value in the column's unit.
    standin : TunableColumn or None
        The column "collective or not", where ``romio_cb_*`` stands in for it.
    operation : str or None
    words : mapping
        Of the workload.
    """
    settings: list[Setting] = []
    for tunable, value in chosen:
        if tunable is standin:
            word = "enable" if value is True or str(value).lower() == "true" else "disable"
            keys = {"read": ("read",), "write": ("write",)}.get(operation or "", ("write", "read"))
            settings += [Setting(HINT, f"romio_cb_{key}", word) for key in keys]
        elif tunable.is_switch and tunable.stack is not None:
            exports = tunable.stack.exports(value is True)
            settings += [Setting(ENVIRONMENT, key, text) for key, text in exports.items()]
        elif tunable.parameter is not None:
            factor = bytes_of(tunable.column)
            carried = int(float(value) * factor) if factor != 1.0 and not isinstance(value, str) else value
            parameter = tunable.parameter
            settings.append(Setting(parameter.carrier, parameter.setting, spell(carried), parameter.layer))
    return [*settings, *_derived(chosen, words)]


def _derived(chosen: Sequence[tuple[TunableColumn, Value]], words: Mapping[str, Any]) -> list[Setting]:
    values = {tunable.parameter.name: value for tunable, value in chosen if tunable.parameter is not None}
    parameters = [tunable.parameter for tunable, _ in chosen if tunable.parameter is not None]
    entries = [
        e for e in derived_settings([tunable for tunable, _ in chosen]) if e.value.names <= values.keys() | set(words)
    ]
    if not entries:
        return []
    bound = tuple(
        replace(
            p,
            values=(*p.values, values[p.name]) if values[p.name] not in p.values else p.values,
            active_if=None,
            same_as_default=None,
            default_from=None,
            maximum_from=None,
            default=_other(p.values, values[p.name]),
        )
        for p in parameters
    )
    space = Space(bound, (), tuple(entries), words)
    names = {entry.name for entry in entries}
    return [s for s in settings_of(space, Configuration(values)) if s.key in names]


def _other(values: Sequence[Value], value: Value) -> Value:
    """Any value but this one: then the setting counts as changed."""
    return next((v for v in values if v != value), value)


def shown(tunable: TunableColumn, value: Value | None) -> str:
    """A value as people read it."""
    if value is None:
        return "unknown"
    if tunable.column.role.endswith("_size") and isinstance(value, int | float) and tunable.column.unit:
        return format_size(float(value) * bytes_of(tunable.column))
    return str(value).lower() if isinstance(value, bool) else str(value)


def advice_text(tunable: TunableColumn, current: Value | None, value: Value) -> str:
    """Say what to change in the program or in its start."""
    instead = "" if current is None else f" instead of {shown(tunable, current)}"
    role = tunable.column.role
    if role == "transfer_size":
        return f"let each call of the program move {shown(tunable, value)}{instead}: no hint can change that"
    if role == "collective":
        calls = (
            "collective calls (MPI_File_write_all, ...)" if value is True else "independent calls (MPI_File_write_at)"
        )
        return f"use {calls} in the program: no hint turns one kind into the other"
    if role == "processes_per_node":
        return f"start {shown(tunable, value)} processes per node{instead}"
    if role == "processes":
        return f"start {shown(tunable, value)} processes{instead}"
    if role == "api":
        return f"write through {shown(tunable, value)}{instead}"
    if role == "file_per_process":
        return "write one file per process" if value is True else "write one shared file"
    return f"choose {tunable.name} = {shown(tunable, value)}{instead} in the program"
