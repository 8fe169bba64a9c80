"""Public tables that nobody here tuned to, read from checkouts of their repositories; nothing of them is kept here.

Half of them are held back: no choice in the models was made by looking at them. ``TABLES`` says which, with the
repository and the file of each.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table

MOST = 600
"""Rows that are drawn of a larger table: what is asked is what models make of few."""


@dataclass(frozen=True)
class Public:
    """A table of a public repository.

    Attributes
    ----------
    name : str
    repository : str
        ``owner/name``; its checkout (or git directory) is the folder ``owner+name``.
    paths : tuple of str
        Files with the same columns, within the repository.
    objective : str
    direction : str
    held_back : bool
    columns : tuple of str
        Where the file has no head.
    contexts, categories, left_out : tuple of str
        Columns that describe the workload, that have no order, and that are not used.
    roles : tuple of (str, str)
    whole : bool
        All rows: for tables of workloads.
    """

    name: str
    repository: str
    paths: tuple[str, ...]
    objective: str
    direction: str
    held_back: bool
    columns: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    roles: tuple[tuple[str, str], ...] = ()
    whole: bool = False

    def table(self, checkouts: Path) -> Table:
        """Read it."""
        rows = [row for path in self.paths for row in self._rows(_text(checkouts, self.repository, path))]
        rows = [row for row in rows if float(row[self.objective]) > 0]
        if len(rows) > MOST and not self.whole:
            keep = np.sort(np.random.default_rng(0).choice(len(rows), MOST, replace=False))
            rows = [rows[int(place)] for place in keep]
        names = [n for n in rows[0] if n != self.objective and len({row[n] for row in rows}) > 1]
        schema = Schema(
            name=self.name,
            source=f"github.com/{self.repository}",
            objective=ObjectiveColumn(column=self.objective, direction=self.direction),
            parameter=[self._column(n, rows) for n in names if n not in self.contexts],
            context=[self._column(n, rows) for n in names if n in self.contexts],
        )
        return make_table(schema, [row | {"repeat": 0} for row in rows], self.name)

    def _rows(self, text: str) -> Iterator[dict[str, Any]]:
        if self.columns:
            # Sizes such as 100-100-200 are columns of their own.
            parts = (re.split(r"\s+|(?<=\d)-(?=\d)", line.strip()) for line in text.splitlines())
            found = (dict(zip(self.columns, part, strict=True)) for part in parts)
        else:
            first = text.splitlines()[0]
            mark = next(mark for mark in ";, " if mark in first)
            found = (
                {(n or "").rstrip("+-").replace(".", "_").strip(): v for n, v in row.items()}
                for row in csv.DictReader(io.StringIO(text), delimiter=mark)
            )
        for row in found:
            yield {n: v if n in self.categories else float(v) for n, v in row.items() if n and n not in self.left_out}

    def _column(self, name: str, rows: list[dict[str, Any]]) -> Column:
        values = sorted({row[name] for row in rows})
        if name in self.categories:
            return Column(name=name, kind="categorical", values=values)
        least = min((v for v in values if v > 0), default=1.0)
        numbers = name.startswith("axis_")  # places on an axis, not what lies there
        wide = not numbers and values[0] >= 0 and len(values) > 2 and values[-1] >= 8 * least
        role = dict(self.roles).get(name, "other")
        return Column(name=name, kind="ordinal", values=values, scale="log2" if wide else "linear", role=role)


def _text(checkouts: Path, repository: str, path: str) -> str:
    folder = checkouts / repository.replace("/", "+")
    folder = folder / "repo" if (folder / "repo").is_dir() else folder
    if (folder / path).is_file():
        return (folder / path).read_text("utf-8")
    return subprocess.run(
        ["git", "-C", folder, "show", f"HEAD:{path}"], check=True, capture_output=True, text=True
    ).stdout


_MOOT, _ED, _FORGE = "timm/moot", "huttered40/app_ed", "jeanbez/forge-evaluation"
_LUSTRE = "divyanshsinghvi/parallel-IO-autotuning"
_CURATED = "curated_datasets/stampede2"
_FORWARDING: dict[str, Any] = {
    "repository": _FORGE,
    "objective": "bandwidth",
    "direction": "maximize",
    "contexts": ("clients", "processes", "layout", "spatiality", "request"),
    "left_out": ("odirect", "stonewall", "total", "operation", "time", "transfered"),
    "roles": (("clients", "nodes"), ("processes", "processes"), ("request", "transfer_size")),
    "whole": True,
}


def _moot(name: str, path: str, objective: str, direction: str, held_back: bool, **more: Any) -> Public:
    return Public(name, _MOOT, (f"optimize/{path}.csv",), objective, direction, held_back, **more)


def _levels(name: str, path: str, axes: int, held_back: bool) -> Public:
    columns = (*(f"axis_{place}" for place in range(axes)), "seconds")
    return Public(name, _ED, (f"{_CURATED}/{path}.csv",), "seconds", "minimize", held_back, columns)


_HINTS = ("romio_ds_read", "romio_ds_write", "romio_cb_read", "romio_cb_write")
_SIZES = ("nx", "ny", "nz")
_S3D = ("px", "py", "pz", "restart")


def _campaign(name: str, path: str, sizes: tuple[str, ...], times: tuple[str, ...], held_back: bool) -> Public:
    """Take runs of a program on Lustre, nearly all of other settings; bandwidths of writing and of reading."""
    objective = name.rsplit("_", 1)[1]
    measured = ("write", "written", "write_seconds", "read", "bytes_read", "read_seconds", *times)
    columns = ("program", *sizes, *measured, "stripe_size", "stripe_count", *_HINTS, "cb_buffer_size")
    return Public(
        name, _LUSTRE, (f"final/code/{path}.txt",), objective, "maximize", held_back, columns,
        contexts=sizes, categories=("program", *_HINTS), left_out=tuple(m for m in measured if m != objective),
        roles=(
            ("stripe_size", "stripe_size"), ("stripe_count", "stripe_count"),
            ("cb_buffer_size", "collective_buffer_size"),
        ),
    )  # fmt: skip


_KRIPKE_PARTS = ("k1", "k2", "k3", "k4", "k5", "k7", "SweepSolver", "k9")
TABLES = (
    # Development.
    Public(
        "forwarding_marenostrum",
        paths=("run/output/marenostrum-4/results/results.csv",),
        held_back=False,
        **_FORWARDING,
    ),
    Public(
        "kripke",
        _ED,
        (f"{_CURATED}/kripke/6x2x3x6x4x4x4x5x3x3x5x2.csv",),
        "Solver",
        "minimize",
        held_back=False,
        categories=("layout", "solver"),
        left_out=_KRIPKE_PARTS,
    ),
    _levels("exafmm", "exafmm/7x10x10x5x5", 5, held_back=False),
    _levels("mpi_allreduce", "allreduce/16x6x7", 3, held_back=False),
    _moot("llvm_flags", "systems/LLVM", "PERF", "minimize", held_back=False),
    _moot("hsqldb", "systems/HSQLDB", "Performance", "minimize", held_back=False),
    _moot("storm_wordcount", "config/SS-A", "Throughput", "maximize", held_back=False, left_out=("Latency",)),
    _moot("storm_rollingsort", "config/SS-K", "Throughput", "maximize", held_back=False, left_out=("Latency",)),
    _campaign("s3d_write", "S3DIOstats", (*_SIZES, *_S3D), ("open_seconds", "close_seconds"), held_back=False),
    _campaign("s3d_read", "S3DIOstats", (*_SIZES, *_S3D), ("open_seconds", "close_seconds"), held_back=False),
    _campaign("bt_write", "BTIOstats", (*_SIZES, "ranks_per_axis"), (), held_back=False),
    # Held back.
    _campaign("bt_read", "BTIOstats", (*_SIZES, "ranks_per_axis"), (), held_back=True),
    Public(
        "forwarding_gpfs",
        paths=("run/output/marenostrum-4-gpfs/results/results.csv", "run/output/marenostrum-4/results/results.csv"),
        held_back=True,
        **_FORWARDING,
    ),
    _levels("snap", "snap/4x8x8x4x5x2x3", 7, held_back=True),
    _levels("slate_qr", "slate-qr/32x32x4x4x16x8x6", 7, held_back=True),
    _levels("mpi_bcast", "bcast/16x6x7", 3, held_back=True),
    _moot("bdb_c", "systems/BDBC", "PERF", "minimize", held_back=True),
    _moot("storm", "systems/storm", "Throughput", "maximize", held_back=True),
    _moot("storm_intervals", "config/SS-I", "Throughput", "maximize", held_back=True, left_out=("Latency",)),
    _moot("storm_few", "config/SS-G", "Throughput", "maximize", held_back=True, left_out=("Latency",)),
)
