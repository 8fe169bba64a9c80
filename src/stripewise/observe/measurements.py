"""Rows of tables from what was observed of programs: of the activity of a job, and of the phases of a journal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from stripewise.catalogue.configuration import plain_number
from stripewise.catalogue.filesystems import of_role
from stripewise.catalogue.stack import load_stack
from stripewise.errors import UserError
from stripewise.observe.activity import Activity, Calls
from stripewise.observe.journal import JournalPhase
from stripewise.observe.source import Row
from stripewise.observe.workload import Observed, describe_workload

_MIB = 2**20


@cache
def known_hints() -> Mapping[str, str]:
    """Role of each hint that a stack has; others say nothing that could be set."""
    return {p.setting: p.role for name in ("romio", "ompio") for p in load_stack(name).parameters}


def rows_of_activity(activity: Activity) -> list[Row]:
    """Give a row for each direction of a job.

    Raises
    ------
    UserError
        If no time of reads or writes is known.
    """
    seen = describe_workload(activity)
    rows = [_make_row(seen, way, rate) for way, rate in (activity.rates or _rates(activity)).items()]
    if not rows:
        raise UserError(f"{activity.source} shows no time in reads or writes", "was the program's I/O observed?")
    return rows


def _rates(activity: Activity) -> dict[Literal["read", "write"], float]:
    """Darshan's estimate by the slowest rank; where both directions occur, its time is shared out by theirs."""
    totals = activity.totals
    total = next((level for level in (totals.mpiio, totals.posix) if level.bytes), totals.stdio)
    spent = total.read.seconds + total.write.seconds
    ways: tuple[tuple[Literal["read", "write"], Calls], ...] = (("write", total.write), ("read", total.read))
    return {
        way: calls.bytes / _MIB / (activity.io_seconds * calls.seconds / spent)
        for way, calls in ways
        if calls.bytes > 0.001 * total.bytes and calls.seconds > 0 and activity.io_seconds > 0 and activity.timed
    }


def _make_row(seen: Observed, operation: str, bandwidth: float) -> Row:
    words = seen.workload.model_dump(exclude_none=True)
    for name in ("operation", "processes_per_node", "driver", "files"):
        words.pop(name, None)
    hints = {key: _hint_value(value) for key, value in seen.hints.items() if key in known_hints()}
    return {
        **words,
        "processes": seen.processes,
        **hints,
        **seen.layout,
        "operation": operation,
        "bandwidth": bandwidth,
    }


_NUMBERS = ("nodes", "file_size", "transfer_size", "piece_size")
_TRUTHS = ("collective", "file_per_process")


@cache
def _defaults() -> dict[str, int | str | float | bool]:
    """What acts where a hint is not set, as far as it is one value."""
    return {p.setting: p.default for name in ("romio", "ompio") for p in load_stack(name).parameters}


def rows_of_journal(phases: Sequence[JournalPhase]) -> list[Row]:
    """Give one row a phase; a hint that any phase set has a value in all."""
    hints = {key for phase in phases for key in phase.settings if " " not in key}
    rows = []
    for phase in phases:
        row: Row = {
            name: _hint_value(text) if name in _NUMBERS else text not in ("0", "false") if name in _TRUTHS else text
            for name, text in phase.workload.items()
            if name not in ("operation", "processes", "processes_per_node", "driver")
        }
        # Words that were declared stay; what the phase itself showed is surer.
        row |= {"nodes": phase.nodes, "processes": phase.ranks, "collective": phase.collective}
        row["layout"] = "strided" if phase.strided else row.get("layout", "segmented")
        for key in sorted(hints):
            row[key] = _hint_value(phase.settings[key]) if key in phase.settings else _defaults().get(key, "default")
        for role in ("stripe_count", "stripe_size"):
            if (value := of_role(phase.layout, role)) is not None:
                row[role] = _hint_value(value)
        rows.append({**row, "operation": phase.operation, "bandwidth": phase.bandwidth})
    return rows


def _hint_value(text: str) -> int | float | str:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return plain_number(value) if math.isfinite(value) else text
