"""Measured tables as the simulated cluster reads them: what each row ran, and the bandwidth it reached."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError, choose
from stripewise.lab.access import APIS, LAYOUTS
from stripewise.lab.batch import RunBatch
from stripewise.lab.fit import Measured
from stripewise.models.table import Column, Table

Floats = NDArray[np.float64]

_UNITS = {
    **{f"{prefix}B/s": 1000.0**power for power, prefix in enumerate(("", "k", "M", "G", "T"))},
    **{f"{prefix}iB/s": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}
_COLUMNS = ("nodes", "processes_per_node", "file_size", "transfer_size", "piece_size", "file_per_process")
"""Roles, or names, of columns that the batch has too."""
_SETTINGS = {
    "stripe_count": "stripe_count",
    "stripe_size": "stripe_size",
    "aggregators": "cb_nodes",
    "collective_buffer_size": "cb_buffer_size",
}
"""Role to the setting of that meaning."""
_PER_DIRECTION = {
    "collective_buffering": {"read": "romio_cb_read", "write": "romio_cb_write"},
    "data_sieving": {"read": "romio_ds_read", "write": "romio_ds_write"},
    "sieving_buffer_size": {"read": "ind_rd_buffer_size", "write": "ind_wr_buffer_size"},
}
_NEEDED = ("nodes", "processes_per_node", "file_size")


def measured(table: Table, workload: Workload) -> Measured:
    """Read a table.

    Columns are understood by their role, else by their name; others are ignored, as the simulated cluster has nothing
    that they could act on.

    Parameters
    ----------
    table : Table
    workload : Workload
        What the table does not say.

    Raises
    ------
    UserError
        If the objective is neither a bandwidth nor a time, or what ran is not known.
    """
    levels = np.concatenate([table.context_levels, table.levels], axis=1)
    distinct, inverse = np.unique(levels, axis=0, return_inverse=True)
    order = inverse.ravel()
    middle = np.array([np.median(table.values[order == row]) for row in range(len(distinct))])
    columns = {_meaning(column): _values(column, distinct[:, i]) for i, column in enumerate(table.schema.columns)}
    missing = [name for name in _NEEDED if name not in columns and getattr(workload, name) is None]
    if missing:
        raise UserError(
            f"table {table.name} does not say {', '.join(missing)} of its runs",
            "give a workload file with --workload, or add contexts with these roles to the table's TOML file",
        )
    batches = _batches(columns, workload, len(distinct), table.name)
    moved = np.empty(len(distinct))
    for rows, batch in batches:
        moved[rows] = np.broadcast_to(batch.bytes, (len(rows),))
    return Measured(table.name, batches, np.log(_bandwidth(table, middle, moved)))


def _meaning(column: Column) -> str:
    return column.name if column.role == "other" else column.role


def _values(column: Column, levels: NDArray[np.int64]) -> NDArray[Any]:
    return np.array(column.values, dtype=object)[levels]


def _batches(
    columns: dict[str, NDArray[Any]], workload: Workload, count: int, name: str
) -> tuple[tuple[NDArray[np.int64], RunBatch], ...]:
    ways = columns.get("operation", np.full(count, workload.operation or "", dtype=object))
    unknown = sorted({str(way) for way in ways} - {"read", "write"})
    if unknown:
        raise UserError(
            f"table {name}: operation {unknown[0] or 'unknown'} is neither read nor write",
            'say it in a column with role "operation", or in --workload',
        )
    found = []
    for way in ("write", "read"):
        rows = np.flatnonzero(ways == way)
        if len(rows):
            found.append((rows, _batch({key: values[rows] for key, values in columns.items()}, workload, way)))
    return tuple(found)


def _batch(columns: dict[str, NDArray[Any]], workload: Workload, way: str) -> RunBatch:
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for meaning, values in columns.items():
        if meaning in _COLUMNS:
            fields[meaning] = values.astype(float)
        elif meaning == "layout":
            fields["layout"] = _codes(values, LAYOUTS, meaning)
        elif meaning == "api":
            fields["api"] = _codes(values, APIS, meaning)
        elif meaning == "collective":
            fields["collective"] = values.astype(bool)
        else:
            setting = _SETTINGS.get(meaning) or _PER_DIRECTION.get(meaning, {}).get(way) or meaning
            settings[setting] = values
    if "transfer_size" in fields and "piece_size" not in fields and workload.piece_size is None:
        fields["piece_size"] = fields["transfer_size"]
    return RunBatch.make(workload, way, settings, columns=fields)


def _codes(values: NDArray[Any], words: tuple[str, ...], meaning: str) -> NDArray[np.int8]:
    unknown = sorted({str(value) for value in values} - set(words))
    if unknown:
        raise UserError(f"{meaning} does not know '{unknown[0]}'", choose(unknown[0], words))
    return np.array([words.index(str(value)) for value in values], dtype=np.int8)


def _bandwidth(table: Table, values: Floats, moved: Floats) -> Floats:
    objective = table.objective
    if objective.maximize and objective.unit in _UNITS:
        found = values * _UNITS[objective.unit]
    elif not objective.maximize and objective.unit in _TIMES:
        found = moved / (values * _TIMES[objective.unit])
    else:
        raise UserError(
            f"table {table.name}: {objective.name} in '{objective.unit}' is neither a bandwidth nor a time",
            "a site can be fitted to MiB/s, MB/s, GiB/s ... (maximize), or s, ms ... (minimize)",
        )
    if not (found > 0).all():
        raise UserError(f"table {table.name}: a bandwidth is not above zero", "leave failed runs out")
    return found
