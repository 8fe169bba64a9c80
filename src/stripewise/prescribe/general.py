"""General knowledge: the one setting that helped in every measured workload of its kind, on systems other than this.

Sweeps on Lustre show that 4 to 16 stripes speed up collective writes of a shared file from 4 nodes or more. All else
keeps its default, because the same sweeps show losses: without collective buffering, of small files, from fewer nodes,
and of independent writes. ``benchmarks/prescribe/general.py`` makes the figures below from the sweeps, and
``docs/benchmarks/prescribe.md`` shows them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stripewise.filesystems import USUAL, of_file
from stripewise.spec.workload import Workload

VERSION = 1
"""Of what is known: another version may answer otherwise."""
STRIPES = 8
LEAST_STRIPES = 4
LEAST_NODES = 4
LEAST_FILE = 100 << 20
_ALL = -1
_LEAST_GAIN = 0.01


@dataclass(frozen=True)
class Evidence:
    """What was measured elsewhere.

    Attributes
    ----------
    workloads, systems : int
    gain : float
        Natural logarithm of the performance over the default's: mean of the systems' means.
    deviation : float
        Standard deviation of that of another workload on another system.
    least, most : float
        Smallest and largest performance over the default's of any workload.
    """

    workloads: int
    systems: int
    gain: float
    deviation: float
    least: float
    most: float

    @property
    def worth(self) -> bool:
        """Whether it is worth setting: the gain less its deviation is at least 1%."""
        return self.gain - self.deviation >= _LEAST_GAIN


EVIDENCE = Evidence(workloads=29, systems=2, gain=0.680, deviation=0.398, least=1.02, most=4.20)
"""Made by ``python benchmarks/prescribe/general.py CHECKOUTS``."""


def why_not(workload: Workload, osts: int | None = None, stripes: int | None = None) -> str:
    """Say why general knowledge leaves a workload at its defaults; empty where it sets stripes.

    Parameters
    ----------
    workload : Workload
    osts : int, optional
        OSTs of the file system.
    stripes : int, optional
        Of the program's file so far; -1 for all OSTs.
    """
    unknown = "unknown (say it under [workload])"
    if not EVIDENCE.worth:
        return "the gain elsewhere is within its uncertainty"
    if workload.operation == "read":
        return "the program reads, and the layout of an existing file stays as it is"
    if workload.operation != "write":
        word = f"the operation is {unknown}" if workload.operation is None else "the program also reads"
        return f"{word}, and only writes gain for sure"
    if workload.file_system is not None and of_file(workload.file_system) is not USUAL:
        return f"of {workload.file_system} nothing is known for sure"
    if workload.file_per_process:
        return "the program writes one file per process, and only shared files gain for sure"
    if not workload.collective:
        word = (
            f"whether calls are collective is {unknown}" if workload.collective is None else "the calls are independent"
        )
        return f"{word}, and stripes also slowed independent writes down elsewhere"
    if workload.nodes is None or workload.nodes < LEAST_NODES:
        word = unknown if workload.nodes is None else str(workload.nodes)
        fewer = f"on fewer than {LEAST_NODES} nodes stripes also slowed programs down elsewhere"
        return f"the number of nodes is {word}, and {fewer}"
    if workload.file_size is None or workload.file_size < LEAST_FILE:
        word = unknown if workload.file_size is None else "less than 100 MiB"
        return f"the size of the file is {word}, and stripes also slowed small files down elsewhere"
    if osts is not None and osts < LEAST_STRIPES:
        return f"the file system has only {osts} OST{'' if osts == 1 else 's'}"
    if stripes is not None and (stripes == _ALL or stripes >= LEAST_STRIPES):
        return f"the file has {'all OSTs' if stripes == _ALL else f'{stripes} stripes'} already"
    return ""
