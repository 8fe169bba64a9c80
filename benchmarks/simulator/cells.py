"""Measured cells that the simulated cluster is held against, and the workloads behind them.

Table A: single runs of a benchmark suite at NERSC, once a day for a year, medians of the last fifth of the runs in
GiB/s (NERSC/tokio-abcutils, BSD-style licence). 4 MiB transfers and blocks with fsync; a file for each process
(FPP) in one stripe, through POSIX; a single shared file over all OSTs, collective; VPIC-IO writes and BD-CATS-IO
reads independently through HDF5. Reads of shared files fell within the year, collective ones and on Cori BD-CATS-IO:
read-ahead stopped working for them, so both ends of the year are cells, the medians of the first and the last fifth of
the runs. Reads of a file each stayed as they were. Bytes of a run are those that Darshan counted.

Table B: ARCHER2, 16 nodes of 128 processes, 64 GiB written without fsync, 12 OSTs, medians in GiB/s (project notes
on the simulated cluster).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import Access, RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import Site, load_site

MIB, GIB = 1 << 20, 1 << 30

EARLY_CACHED = 0.5
"""Part of an early collective read that the clients' memory holds, on every system: the same aggregators wrote those
stripes a moment before, 4 to 32 GiB a node. A guess that nothing is fitted to. What supports it are counters of the
runs on Haswell: 248 aggregators on 32 nodes spent 1,477 s in reads of 1,024 GiB, 5.4 GiB/s a node where the network
gives 1.65, so at most 84% came from memory; and the whole run took 11.7 s, in which the network brings 60%. On the
other systems the aggregators are slower than either. Files of each process (64 and 128 GiB a node on Cori) and
BD-CATS-IO's (written by other nodes) do not profit.
"""


@dataclass(frozen=True)
class System:
    """A measured system.

    Attributes
    ----------
    name : str
    machine : str
        Systems of one machine are left out together.
    site : str
        The site file that stands for it.
    nodes, processes_per_node : int
    changes : dict
        What differs from the site's file, by table and key.
    """

    name: str
    machine: str
    site: str
    nodes: int
    processes_per_node: int
    changes: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Cell:
    """A measured figure.

    Attributes
    ----------
    system, kind : str
    measured : float
        GiB/s.
    total : float
        GiB moved by a run.
    fitted : bool
        Whether a bandwidth of the site is fitted to it; all others are predictions.
    """

    system: str
    kind: str
    measured: float
    total: float
    fitted: bool = False


SYSTEMS = (
    System("Edison scratch1", "Edison", "edison", 128, 16, {}),
    System("Edison scratch3", "Edison", "edison", 128, 16, {"ost": {"count": 36}, "oss": {"count": 36}}),
    System("Cori Haswell", "Cori Haswell", "cori-haswell", 32, 16, {}),
    System("Cori KNL", "Cori KNL", "cori-knl", 256, 16, {}),
    System("ARCHER2 disks", "ARCHER2", "archer2-hdd", 16, 128, {}),
    System("ARCHER2 flash", "ARCHER2", "archer2-nvme", 16, 128, {}),
)

_KINDS = (
    "FPP write",
    "FPP read",
    "collective write",
    "collective read, early",
    "collective read, late",
    "VPIC-IO write",
    "BD-CATS-IO read, early",
    "BD-CATS-IO read, late",
)
_A = {
    "Edison scratch1": ((38.1, 42.5, 21.4, 17.0, 2.7, 27.0, 19.4, 18.1), (2048, 2048, 512, 512, 512, 2048, 1536, 1536)),
    "Edison scratch3": ((64.6, 65.0, 30.5, 24.6, 4.2, 34.2, 28.7, 27.6), (2048, 2048, 512, 512, 512, 2048, 1536, 1536)),
    "Cori Haswell": ((87.6, 52.9, 61.7, 87.5, 9.3, 4.4, 50.1, 17.0), (4096, 4096, 1024, 1024, 1024, 512, 384, 384)),
    "Cori KNL": (
        (375.0, 196.0, 34.9, 71.6, 9.8, 21.8, 192.7, 97.8),
        (16384, 16384, 1024, 1024, 1024, 4096, 3072, 3072),
    ),
}
CELLS = (
    *(
        Cell(system, kind, value, total, kind.startswith("FPP"))
        for system, (values, totals) in _A.items()
        for kind, value, total in zip(_KINDS, values, totals, strict=True)
    ),
    Cell("ARCHER2 disks", "FPP write, cached", 90.0, 64),
    Cell("ARCHER2 disks", "collective write, cached", 10.0, 64),
    Cell("ARCHER2 disks", "unstriped write, cached", 1.0, 64),
    Cell("ARCHER2 flash", "FPP write, cached", 150.0, 64),
    Cell("ARCHER2 flash", "collective write, cached", 10.0, 64),
)


def base_site(system: System) -> Site:
    """The system's site, as its file and the system say it."""
    site = load_site(system.site)
    tables = {name: getattr(site, name).model_copy(update=values) for name, values in system.changes.items()}
    return site.model_copy(update=tables)


@cache
def _batch(name: str, cell: Cell) -> RunBatch:
    return batch_of(system_of(name), cell)


def batch_of(system: System, cell: Cell) -> RunBatch:
    """What the cell's runs did."""
    kind = cell.kind
    write = "write" in kind
    each = kind.startswith("FPP")
    together = kind.startswith("collective") or kind.startswith("unstriped")
    particles = "IO" in kind
    processes = system.nodes * system.processes_per_node
    # VPIC-IO and BD-CATS-IO: each process has a contiguous 128 MiB of each of the file's variables.
    transfer = 128 * MIB if particles else 4 * MIB
    workload = Workload(
        operation="write" if write else "read",
        nodes=system.nodes,
        processes_per_node=system.processes_per_node,
        file_size=int(cell.total * GIB / (processes if each else 1)),
        transfer_size=transfer,
        piece_size=transfer,
        layout="segmented" if each else "strided",
        collective=together,
        file_per_process=each,
        api="posix" if each else "hdf5" if particles else "mpiio",
    )
    settings: dict[str, Any] = {"stripe_count": 1 if each or kind.startswith("unstriped") else -1}
    if together:
        settings["romio_cb_write" if write else "romio_cb_read"] = "enable"
    cached = EARLY_CACHED if kind == "collective read, early" else None
    access = Access(fsync="cached" not in kind, client_cached=cached)
    return RunBatch.make(workload, str(workload.operation), settings, access)


def predict(site: Site, system: System, cell: Cell) -> tuple[float, str]:
    """GiB/s of a cell on a site, and the bound that acts."""
    ahead = not cell.kind.endswith("late")
    site = site.model_copy(update={"client": site.client.model_copy(update={"read_ahead": ahead})})
    outcome = simulate(site, _batch(system.name, cell))
    return float(outcome.bandwidth[0]) / 1024, str(outcome.binding[0])


def system_of(name: str) -> System:
    """The system of a name."""
    return next(system for system in SYSTEMS if system.name == name)
