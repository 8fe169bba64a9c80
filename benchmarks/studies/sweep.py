"""Many runs of I/O in one launch: lines for ``sweep.c``, and what it measured of them.

A launch of MPI takes longer than most of these runs, so a program that does one run a launch measures hundreds of
configurations in hours; this one in minutes. Each round is a launch of its own, with all runs in a new order.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.studies.interfaces import HDF5
from benchmarks.studies.steps import StudyError

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
"""Ranks that wait for one another sleep: there are more of them than cores."""


@dataclass(frozen=True)
class Run:
    """What every rank does; ``settings`` are hints and what else ``sweep.c`` knows."""

    operation: str
    interface: str
    collective: bool
    piece: int
    hole: int
    total: int
    call: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def line(self, number: int) -> str:
        """As the program reads it."""
        own = (self.operation, self.interface, int(self.collective), self.piece, self.hole, self.total, self.call)
        return " ".join(map(str, (number, *own, *(f"{key}={value}" for key, value in self.settings.items()))))


def built(work: Path, *, hdf5: bool = False) -> Path:
    """Compile it: with the MPI beside this Python, or with Debian's MPICH and its parallel HDF5."""
    program = work / ("sweep-hdf5" if hdf5 else "sweep")
    mpicc = "mpicc.mpich" if hdf5 else str(BIN / "mpicc")
    command = [mpicc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(HERE / "sweep.c")]
    command += ["-DWITH_HDF5", *HDF5] if hdf5 else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(command)}: {done.stderr.strip()}")
    return program


def measured(
    program: Path, runs: Sequence[Run], file: Path, work: Path, *, ranks: int, rounds: int, other: Path | None = None
) -> list[list[float]]:
    """Give the bandwidths of each run in MiB/s, one per round.

    Parameters
    ----------
    program : Path
        See :func:`built`.
    runs : sequence of Run
    file : Path
        What they access; it is removed at the end.
    work : Path
        For the lists of runs.
    ranks, rounds : int
    other : Path, optional
        The same file by another client of its file system, which makes what is to be read.

    Raises
    ------
    StudyError
        Where a run fails, or reads or leaves wrong data.
    """
    mpiexec = "mpiexec.mpich" if program.name.endswith("hdf5") else str(BIN / "mpiexec")
    found: list[list[float]] = [[] for _ in runs]
    for turn in range(rounds):
        order = random.Random(turn).sample(range(len(runs)), len(runs))
        listed = work / "sweep-list"
        listed.write_text("\n".join(runs[number].line(number) for number in order) + "\n", "utf-8")
        command = [mpiexec, "-n", str(ranks), str(program), str(file), str(listed), *([str(other)] if other else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **SLEEPY})
        if done.returncode:
            raise StudyError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        for line in done.stdout.splitlines():
            number, seconds = line.split()
            found[int(number)].append(runs[int(number)].total * ranks / float(seconds) / 2**20)
    return found
