"""Sentences for what no hint can set."""

from __future__ import annotations

from stripewise.model.carriers import Knob, Way, bytes_of
from stripewise.spec.configuration import Value
from stripewise.spec.sizes import format_size


def shown(knob: Knob, value: Value | None) -> str:
    """A value as people read it."""
    if value is None:
        return "unknown"
    if knob.column.role.endswith("_size") and isinstance(value, int | float) and knob.column.unit:
        return format_size(float(value) * bytes_of(knob.column))
    return str(value).lower() if isinstance(value, bool) else str(value)


def advice_text(knob: Knob, current: Value | None, value: Value) -> str:
    """Say what to change in the program or in its start."""
    instead = "" if current is None else f" instead of {shown(knob, current)}"
    role = knob.column.role
    if role == "transfer_size":
        return f"let each call of the program move {shown(knob, value)}{instead}: no hint can change that"
    if role == "collective":
        calls = (
            "collective calls (MPI_File_write_all, ...)" if value is True else "independent calls (MPI_File_write_at)"
        )
        return f"use {calls} in the program: no hint turns one kind into the other"
    if role == "processes_per_node":
        return f"start {shown(knob, value)} processes a node{instead}"
    if role == "processes":
        return f"start {shown(knob, value)} processes{instead}"
    if role == "api":
        return f"write through {shown(knob, value)}{instead}"
    if role == "file_per_process":
        return "write one file a process" if value is True else "write one shared file"
    what = "in the program" if knob.way is Way.PROGRAM else "where it is set: nothing here knows how"
    return f"choose {knob.name} = {shown(knob, value)}{instead} {what}"
