"""Rows of a table from the runtime's journal: each phase is a run of the configuration that it was given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from stripewise.filesystems import of_role
from stripewise.measure.journal import Phase
from stripewise.profiling.importing_table import Row
from stripewise.spec.stack import load_stack

_NUMBERS = ("nodes", "file_size", "transfer_size", "piece_size")
_TRUTHS = ("collective", "file_per_process")


@cache
def _defaults() -> dict[str, int | str | float | bool]:
    """What acts where a hint is not set, as far as it is one value."""
    return {p.setting: p.default for name in ("romio", "ompio") for p in load_stack(name).parameters}


def journal_rows(phases: Sequence[Phase]) -> list[Row]:
    """Give one row a phase; a hint that any phase set has a value in all."""
    hints = {key for phase in phases for key in phase.settings if " " not in key}
    rows = []
    for phase in phases:
        row: Row = {
            name: _number(text) if name in _NUMBERS else text not in ("0", "false") if name in _TRUTHS else text
            for name, text in phase.workload.items()
            if name not in ("operation", "processes", "processes_per_node", "driver")
        }
        # Words that were declared stay; what the phase itself showed is surer.
        row |= {"nodes": phase.nodes, "processes": phase.ranks, "collective": phase.collective}
        row["layout"] = "strided" if phase.strided else row.get("layout", "segmented")
        for key in sorted(hints):
            row[key] = _number(phase.settings[key]) if key in phase.settings else _defaults().get(key, "default")
        for role in ("stripe_count", "stripe_size"):
            if (value := of_role(phase.layout, role)) is not None:
                row[role] = _number(value)
        rows.append({**row, "operation": phase.operation, "bandwidth": phase.bandwidth})
    return rows


def _number(text: str) -> int | float | str:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value == int(value) else value
