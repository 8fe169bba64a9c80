"""What a portfolio is learned from: measured tables, recorded sweeps of real programs, and simulated sites."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.model.landscape import Landscape, landscapes
from stripewise.model.table import read_table
from stripewise.search.portfolio.features import encode, number_of, settings_by_role
from stripewise.simulate.access import Access
from stripewise.simulate.batch import RunBatch
from stripewise.simulate.engine import simulate
from stripewise.spec.site import load_site
from stripewise.spec.space import Space
from stripewise.spec.workload import Workload

BENCHMARKS = Path(__file__).resolve().parent.parent
TABLES = BENCHMARKS / "data" / "tables"
RECORDS = BENCHMARKS / "real_programs" / "results"
sys.path.insert(0, str(BENCHMARKS / "real_programs"))
sys.path.insert(0, str(BENCHMARKS / "search"))

from sweep import Record  # noqa: E402

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ROMIO = {"layout": "strided", "nodes": 1, "transfer_size": 512 * KIB}
_WRITE_1K = {"operation": "write", "collective": True, "piece_size": KIB, "processes": 4}
MEASURED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "romio_workloads": ("memory", "MPICH", ROMIO | {"file_system": "tmpfs"}),
    "romio_write_collective_1k": ("memory", "MPICH", ROMIO | _WRITE_1K | {"file_system": "tmpfs"}),
    "romio_ext4_write_collective_1k": ("ext4", "MPICH", ROMIO | _WRITE_1K | {"file_system": "ext4"}),
    "romio_ext4_read_collective_512": (
        "ext4",
        "MPICH",
        ROMIO | {"operation": "read", "collective": True, "piece_size": 512, "processes": 4, "file_system": "ext4"},
    ),
    "ior_write_lustre_hints": (
        "Lustre",
        "unknown",
        {"layout": "segmented", "nodes": 64, "operation": "write", "collective": False, "file_system": "lustre"},
    ),
    "ior_stripe_count_by_file_size": (
        "Lustre",
        "unknown",
        {"layout": "segmented", "collective": False, "file_system": "lustre"},
    ),
    "s3d_write_lustre_hints": (
        "Lustre",
        "ROMIO",
        {"layout": "strided", "nodes": 8, "processes": 64, "operation": "write", "collective": True}
        | {"file_system": "lustre"},
    ),
}
"""Measured tables by name: system, MPI library, and what their columns do not say of the workload."""
SYSTEMS = {"tmpfs": "memory", "ext4": "ext4", "fuse.cephfs": "CephFS"}
SITES = ("archer2-hdd", "archer2-nvme", "cori-haswell", "dkrz-porting", "edison", "hazelhen-like", "kay", "vulcan-like")
SETTINGS = 150
"""Configurations simulated for each workload of a site."""
STRIPES = {"stripe_count", "stripe_size"}


@dataclass(frozen=True, eq=False)
class Source:
    """One workload of one system.

    Attributes
    ----------
    system, library, table : str
        ``library`` is ``simulated`` for simulated sites.
    nodes : int
    x : ndarray, shape (n, f)
        Features of its configurations.
    y : ndarray, shape (n,)
        Logarithm of their performance about its mean.
    """

    system: str
    library: str
    table: str
    nodes: int
    x: np.ndarray
    y: np.ndarray

    @property
    def simulated(self) -> bool:
        return self.library == "simulated"


@dataclass(frozen=True, eq=False)
class Target:
    """A measured workload to be judged on: its space, the true value of each point, what is known of the workload."""

    system: str
    library: str
    table: str
    context: str
    facts: dict[str, Any]
    space: Space
    points: np.ndarray
    truth: np.ndarray
    """Larger is better."""
    landscape: Landscape | None = None
    record: Record | None = None

    @property
    def default(self) -> int:
        return int(self.space.index(self.space.levels([self.space.default]))[0])  # type: ignore[attr-defined]

    def source(self) -> Source:
        operation = "read" if self.facts["operation"] == "read" else "write"
        x = encode(self.facts, operation, settings_by_role(self.space, self.points, operation), len(self.points))
        y = np.log(self.truth)
        return Source(self.system, self.library, self.table, int(self.facts.get("nodes") or 1), x, y - y.mean())


def facts_of(landscape: Landscape) -> dict[str, Any]:
    """What is known of the workload of a context."""
    facts = dict(MEASURED[landscape.table.name][2])
    for column in landscape.table.schema.context:
        value = landscape.context[column.name]
        facts[column.role] = value * GIB if column.unit == "GiB" else value
    if "transfer_size" not in facts and facts["collective"]:
        facts["transfer_size"] = facts["file_size"] // facts["processes"]  # written by one call
    return facts


def settable(landscape: Landscape) -> bool:
    """Whether any parameter can be set: a file that is read lies as it was written."""
    roles = {parameter.role for parameter in landscape.space.parameters}
    return facts_of(landscape)["operation"] == "write" or not roles <= STRIPES


def tables() -> list[tuple[Target, Source]]:
    """Every context of the measured tables in which something can be set."""
    found = []
    for name, (system, library, _) in MEASURED.items():
        table = read_table(TABLES / f"{name}.toml")
        for one in landscapes(table):
            if not settable(one):
                continue
            known = facts_of(one)
            context = " ".join(f"{name}={value}" for name, value in one.context.items())
            target = Target(system, library, name, context, known, one.space, one.space.points, one.truth, one)
            found.append((target, target.source()))
    return found


def records() -> list[tuple[Target, Source]]:
    """The recorded sweeps of real programs, except those under planted load."""
    found = []
    for path in sorted(RECORDS.glob("*.json")):
        record = Record.read(path)
        about = record.about
        if about["load"] not in ("quiet", "shared"):
            continue
        facts = dict(about["workload"])
        facts["processes"] = facts["nodes"] * facts["processes_per_node"]
        truth = record.truth if record.objective.maximize else 1.0 / record.truth
        works = truth > 0
        library = "OMPIO" if about["io"] == "ompio" else about["mpi"].rsplit(" ", 1)[0]
        system = SYSTEMS[about["folder"]]
        name, points = f"record {path.stem}", record.space.points[works]
        target = Target(system, library, name, "", facts, record.space, points, truth[works], record=record)
        found.append((target, target.source()))
    return found


def runs_at_random(
    name: str, nodes: Sequence[int], rng: np.random.Generator
) -> Iterator[tuple[Workload, dict[str, Any], np.ndarray]]:
    """Workloads and settings at random on one simulated site, with their bandwidths, shape ``(SETTINGS,)``."""
    site = load_site(name)
    for operation, collective, layout, count in itertools.product(
        ("write", "read"), (True, False), ("strided", "segmented"), nodes
    ):
        ppn = int(rng.choice([2, 4, 16]))
        transfer = int(rng.choice([256 * KIB, MIB, 16 * MIB]))
        piece = int(rng.choice([KIB, 16 * KIB, 256 * KIB])) if layout == "strided" else transfer
        workload = Workload(
            operation=operation,
            collective=collective,
            layout=layout,
            nodes=count,
            processes_per_node=ppn,
            transfer_size=transfer,
            piece_size=piece,
            file_size=transfer * count * ppn * int(rng.choice([2, 32])),
            api="mpiio",
        )
        settings = _settings(operation, rng)
        batch = RunBatch.make(workload, operation, settings, Access())
        yield workload, settings, np.broadcast_to(simulate(site, batch).bandwidth, (SETTINGS,))


def simulated(name: str, rng: np.random.Generator) -> list[Source]:
    """Workloads and configurations at random on one simulated site."""
    found = []
    for workload, settings, bandwidth in runs_at_random(name, (1, 2, 4, 8, 16), rng):
        facts = workload.model_dump() | {"processes": workload.processes, "file_system": "lustre"}
        y = np.log(bandwidth)
        x = encode(facts, str(workload.operation), by_role(settings), SETTINGS)
        found.append(Source(name, "simulated", name, int(facts["nodes"]), x, y - y.mean()))
    return found


_ROLES = {
    "romio_cb": "collective_buffering",
    "romio_ds": "data_sieving",
    "cb_nodes": "aggregators",
    "cb_buffer_size": "collective_buffer_size",
    "ind_wr": "sieving_buffer_size",
    "ind_rd": "sieving_buffer_size",
    "stripe_count": "stripe_count",
    "stripe_size": "stripe_size",
}


def _settings(operation: str, rng: np.random.Generator) -> dict[str, Any]:
    switch = ["automatic", "disable", "enable"]
    drawn = {
        f"romio_cb_{operation}": rng.choice(switch, SETTINGS),
        f"romio_ds_{operation}": rng.choice(switch, SETTINGS),
        "cb_nodes": rng.choice([1, 2, 4, 8, 16], SETTINGS),
        "cb_buffer_size": rng.choice([64 * KIB, MIB, 4 * MIB, 16 * MIB], SETTINGS),
        f"ind_{'wr' if operation == 'write' else 'rd'}_buffer_size": rng.choice(
            [64 * KIB, 512 * KIB, 4 * MIB], SETTINGS
        ),
    }
    if operation == "write":
        drawn["stripe_count"] = rng.choice([1, 2, 4, 8, 16, 32], SETTINGS)
        drawn["stripe_size"] = rng.choice([MIB, 4 * MIB, 16 * MIB, 64 * MIB], SETTINGS)
    return {name: values.astype(object) for name, values in drawn.items()}


def by_role(settings: dict[str, Any]) -> dict[str, np.ndarray]:
    """Numbers of settings by role, from settings by the names that the simulator knows."""
    return {
        next(role for start, role in _ROLES.items() if name.startswith(start)): np.array(list(map(number_of, values)))
        for name, values in settings.items()
    }


def everything(seed: int = 0) -> list[Source]:
    """All that can be learned from."""
    rng = np.random.default_rng(seed)
    sites = [source for name in SITES for source in simulated(name, rng)]
    return [source for _, source in (*tables(), *records())] + sites
