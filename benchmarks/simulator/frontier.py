"""Table C of the notes: collective I/O of many nodes on Frontier, which no constant was fitted to (mpich#7935)."""

from __future__ import annotations

from dataclasses import dataclass

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import load_site

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
NODES = (64, 128, 256)
PIECE = 4 * KIB
"""Rows of a block of a lattice: a few KiB in a row, as the issue says."""


@dataclass(frozen=True)
class Plateau:
    """A figure of Frontier.

    Attributes
    ----------
    name, measured : str
        What ran, and what is published of it.
    simulated : tuple of float
        GB/s on 64, 128 and 256 nodes of 8 processes.
    bound : str
        What acts on 128 nodes.
    """

    name: str
    measured: str
    simulated: tuple[float, ...]
    bound: str


def plateaus() -> list[Plateau]:
    """Simulate what was measured."""
    return [
        _plateau("collective write", "30 from 64 nodes on", "write", collective=True),
        _plateau("collective read", "30 to 33", "read", collective=True),
        _plateau("POSIX read of the same file", "375 on 128 nodes", "read", collective=False),
        _plateau("POSIX read, striped over all OSTs", "-", "read", collective=False, stripe_count=-1),
    ]


def _plateau(name: str, measured: str, way: str, *, collective: bool, stripe_count: int = 0) -> Plateau:
    site, speeds, bound = load_site("frontier-like"), [], ""
    for nodes in NODES:
        workload = Workload(
            operation=way, nodes=nodes, processes_per_node=8, file_size=nodes * 32 * GIB, transfer_size=16 * MIB,
            piece_size=PIECE if collective else 16 * MIB, layout="strided" if collective else "segmented",
            collective=collective, api="mpiio" if collective else "posix",
        )  # fmt: skip
        found = simulate(site, RunBatch.make(workload, way, {"stripe_count": stripe_count}))
        speeds.append(float(found.bandwidth[0]) * MIB / 1e9)
        bound = str(found.binding[0]) if nodes == 128 else bound
    return Plateau(name, measured, tuple(speeds), bound)
