"""Public sweeps of striping and MPI-IO hints on Lustre from several nodes, read from a checkout; none of them is kept.

The repository names no licence, so nothing is learned from them for what ships: they only judge it. Bayesian
optimisation chose most of the configurations, and most ran once. S3D-IO and BT-IO write through PnetCDF, collectively.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.model.table import Column, ObjectiveColumn, Schema, Table, make_table

REPOSITORY = "divyanshsinghvi/parallel-IO-autotuning"
FOLDER = "final/code"
LEAST_ROWS = 18
KIB, MIB = 1 << 10, 1 << 20
_SWITCH = ["automatic", "disable", "enable"]
_DEFAULT = {
    "stripe_count": 1,
    "stripe_size": MIB,
    "romio_cb_write": "automatic",
    "romio_ds_write": "automatic",
    "cb_buffer_size": 16 * MIB,
}
"""Of Lustre and ROMIO: what the site's own are is not said."""
_PER_NODE = {2: 8, 4: 4, 8: 8, 16: 4}
"""Processes per node of BT-IO by nodes, as the repository's report says."""


@dataclass(frozen=True)
class Sweep:
    """A workload with its runs.

    Attributes
    ----------
    name : str
    facts : dict
        What is known of the workload.
    table : Table
        Of writes.
    """

    name: str
    facts: dict[str, Any]
    table: Table


def sweeps(checkouts: Path) -> list[Sweep]:
    """Read every workload with at least :data:`LEAST_ROWS` runs, sorted by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, row in [*_rows(checkouts, "S3DIOstats.txt", 4, 9), *_rows(checkouts, "BTIOstats.txt", 4, 7)]:
        if row["stripe_count"] > 0 and row["stripe_size"] > 0:  # 0 leaves the site's default, which is not known
            found.setdefault(name, []).append(row)
    defaults = {**_defaults(checkouts, "default.txt", 10), **_defaults(checkouts, "bt_default.txt", 8)}
    made = []
    for name, rows in sorted(found.items()):
        if len(rows) >= LEAST_ROWS:
            start = [_DEFAULT | {"bandwidth": defaults[name]}] if name in defaults else []
            made.append(Sweep(name, facts_of(name), _table(name, start + rows)))
    return made


def _rows(checkouts: Path, file: str, bandwidth: int, first: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs of a file: program, workload, what was measured, and from ``first`` on the settings."""
    for line in _text(checkouts, file).splitlines():
        words = line.split()
        if len(words) != first + 8:
            continue
        program = words[0].partition("-")[0]
        values = words[first + 1 :]
        yield (
            f"{program} {words[1]}",
            {
                "bandwidth": float(words[bandwidth + 1]),
                "stripe_size": int(values[0]),
                "stripe_count": int(values[1]),
                "romio_ds_write": values[3],
                "romio_cb_write": values[5],
                "cb_buffer_size": int(values[6]),
            },
        )


def _defaults(checkouts: Path, file: str, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in _text(checkouts, file).splitlines():
        words = line.split()
        if len(words) == count:
            found.setdefault(f"{words[0].partition('-')[0]} {words[1]}", float(words[5]))
    return found


def facts_of(name: str) -> dict[str, Any]:
    """What is known of a workload by its name: grid and processes of S3D-IO, grid and nodes of BT-IO."""
    program, numbers = name.split()
    size = [int(number) for number in numbers.split("-")]
    cells = size[0] * size[1] * size[2]
    common = {"operation": "write", "collective": True, "layout": "strided", "file_system": "lustre"}
    if program == "S3D":
        processes = size[3] * size[4] * size[5]
        nodes, piece, file_size = max(1, processes // 8), size[0] // size[3] * 8, cells * 16 * 8
    else:
        nodes = size[3]
        processes = nodes * _PER_NODE[nodes]
        piece, file_size = size[0] // round(processes**0.5) * 5 * 8, cells * 5 * 8
    return common | {
        "nodes": nodes,
        "processes": processes,
        "processes_per_node": processes // nodes,
        "file_size": file_size,
        "transfer_size": file_size // processes,
        "piece_size": piece,
    }


def _table(name: str, rows: list[dict[str, Any]]) -> Table:
    seen: dict[tuple[Any, ...], int] = {}
    numbered = []
    for row in rows:
        key = tuple(row[column] for column in _DEFAULT)
        numbered.append(row | {"repeat": seen.setdefault(key, 0)})
        seen[key] += 1

    def column(name: str, role: str, unit: str = "") -> Column:
        if name.startswith("romio"):
            return Column(name=name, kind="categorical", role=role, values=_SWITCH, default="automatic")
        values = sorted({row[name] for row in rows} | {_DEFAULT[name]})
        return Column(
            name=name, kind="ordinal", role=role, unit=unit, scale="log2", values=values, default=_DEFAULT[name]
        )

    schema = Schema(
        name=f"lustre_sweep {name}",
        source=f"github.com/{REPOSITORY}",
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        parameter=[
            column("stripe_count", "stripe_count"),
            column("stripe_size", "stripe_size", "B"),
            column("romio_cb_write", "collective_buffering"),
            column("romio_ds_write", "data_sieving"),
            column("cb_buffer_size", "collective_buffer_size", "B"),
        ],
    )
    return make_table(schema, numbered, name)


def _text(checkouts: Path, file: str) -> str:
    folder = checkouts / REPOSITORY.replace("/", "+")
    folder = folder / "repo" if (folder / "repo").is_dir() else folder
    path = f"{FOLDER}/{file}"
    if (folder / path).is_file():
        return (folder / path).read_text("utf-8")
    return subprocess.run(
        ["git", "-C", folder, "show", f"HEAD:{path}"], check=True, capture_output=True, text=True
    ).stdout
