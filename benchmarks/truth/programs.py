"""Programs from a file: built for an MPI, traced with settings, and timed with settings in interleaved rounds."""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.errors import RunFailed
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import measure, objective_of
from stripewise.requests.experiment import Experiment
from stripewise.runners.registry import make_runner
from stripewise.trial import Phase, State

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT = 120.0
MPIS = ("mpich", "openmpi")
TRACED = "write,pwrite64,writev,pwritev,pwritev2,read,pread64,readv,preadv,preadv2,fsync,fdatasync,ftruncate,fallocate"
_CALL = re.compile(r"^(\w+)\(\d+<(.*?)>(?:.*, (-?\d+))?\)\s+= (-?\d+)")

Arm = tuple[Setting, ...]
"""Settings that a program runs with: an arm of a comparison."""
Call = tuple[str, str, str, int]
"""A system call: its name, the file, its last argument, and what it gave."""
Trace = tuple[tuple[tuple[tuple[Call, int], ...], ...], tuple[int, ...]]
"""The system calls of each process on the program's files with how often it made each, and its messages."""


@dataclass(frozen=True)
class Mpi:
    """An MPI, as ``programs.toml`` describes it."""

    name: str
    words: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A program on an MPI.

    Attributes
    ----------
    build, before : str
        Shell lines: what makes the program, and what makes the files that it reads.
    stack : str
        What is tuned beside MPI-IO; empty if nothing.
    """

    name: str
    mpi: Mpi
    about: str
    build: str
    before: str
    command: str
    objective: str
    stack: str = ""


def read_programs(path: Path) -> list[Program]:
    """Read the programs of a file, one for each MPI that it is to run on; MPIs of this package's file are known."""
    described = tomllib.loads(path.read_text("utf-8"))
    known = {**tomllib.loads((HERE / "programs.toml").read_text("utf-8"))["mpi"], **described.get("mpi", {})}
    mpis = {name: Mpi(name, table, table.pop("environment", {})) for name, table in known.items()}
    found = []
    for name, table in described["program"].items():
        mine = table.pop("mpis", MPIS)
        found += [Program(name, mpis[mpi], **{"build": "true", "before": "", "about": "", **table}) for mpi in mine]
    return found


class Bench:
    """A program on an MPI, built in a folder of its own.

    Parameters
    ----------
    place : Path
        A new, empty folder; ``files`` another one, for what the program writes.

    Raises
    ------
    RuntimeError
        If the program cannot be built here.
    """

    def __init__(self, program: Program, place: Path, files: Path, budget: int) -> None:
        self.program, self.place, self.files = program, place, files
        self._launched = 0
        self._messages = place / "messages.so"
        words = {"program": str(place / "program"), "folder": str(files), "root": str(ROOT), "python": sys.executable}
        words |= {"venv": sys.prefix, "hdf5": "", "pnetcdf": "", "mpifort": "mpifort"}
        words |= {key: text.format_map(words) for key, text in program.mpi.words.items()}
        self._words = words
        os.environ.update(program.mpi.environment)
        if shutil.which(shlex.split(words["mpiexec"])[0]) is None:
            raise RuntimeError(f"there is no {words['mpiexec']}")
        self._shell(program.build)
        self._shell(f"{{mpicc}} -O2 -shared -fPIC {HERE / 'messages.c'} -o {self._messages} -ldl")
        self._shell(program.before or "true")
        delete = [] if program.before else [f"{files}/data*"]
        self.experiment = Experiment.model_validate(
            {
                "name": f"{program.name}-{program.mpi.name}",
                "command": shlex.split(program.command.format_map(words)),
                "objective": {"name": program.objective},
                **({"stacks": [words["stack"], program.stack]} if program.stack else {}),
                "hooks": {"delete": delete},
                "budget": {"runs": budget},
            }
        )

    def _shell(self, line: str) -> None:
        text = line.format_map(self._words) if "{" in line else line
        done = subprocess.run(["bash", "-c", text], cwd=self.place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{text} ended with {done.returncode}: {done.stderr.strip()[-500:]}")

    def trace_arms(self, arms: Sequence[Arm]) -> dict[Arm, list[Trace]]:
        """Give the calls of two runs of each arm, as strace and a counter of messages of our own see them."""
        seen, counted = self.place / "seen", self.place / "counted"
        words = ["strace", "-ff", "--seccomp-bpf", "-y", "-qq", "-s", "0", "-e", f"trace={TRACED}", "-o", str(seen)]
        command = shlex.join([*words, *self.experiment.command])
        taken: dict[Arm, list[Trace]] = {}
        with patch.dict(os.environ, {"LD_PRELOAD": str(self._messages), "TRUTH_MESSAGES": str(counted)}):
            for arm, outcome in self._launch([arm for arm in arms for _ in range(2)], command):
                if outcome.state is not State.FINISHED:
                    raise RuntimeError(f"{command}: {outcome.reason}")
                processes = [tuple(sorted(calls.items())) for calls in self._read_calls() if calls]
                sent = sorted(map(int, counted.read_text().split())) if counted.exists() else []
                taken.setdefault(arm, []).append((tuple(sorted(processes)), tuple(sent)))
                for old in [*self.place.glob("seen.*"), counted]:
                    old.unlink(missing_ok=True)
        return taken

    def _read_calls(self) -> Iterator[Counter[Call]]:
        for path in self.place.glob("seen.*"):
            found = (_CALL.match(line) for line in path.read_text("utf-8", "replace").splitlines())
            yield Counter(
                (call[1], Path(call[2]).name, call[3] or "", int(call[4]))
                for call in found
                if call and call[2].startswith(f"{self.files}/")
            )

    def time_arms(self, arms: Sequence[Arm], rounds: int, seed: int = 1) -> dict[Arm, list[tuple[float, float]]]:
        """Run each arm once a round, in random order: its values and its seconds of I/O, NaN of a failure."""
        objective, rng = objective_of(self.experiment.objective), np.random.default_rng(seed)
        taken: dict[Arm, list[tuple[float, float]]] = {arm: [] for arm in arms}
        order = [arms[place] for _ in range(rounds) for place in rng.permutation(len(arms))]
        for arm, outcome in self._launch(order):
            try:
                value = measure(objective, outcome) if outcome.state is State.FINISHED else math.nan
            except RunFailed:
                value = math.nan
            seconds = outcome.activity.io_time if outcome.activity is not None else None
            taken[arm].append((value, math.nan if seconds is None else seconds))
        return taken

    def _launch(self, order: Sequence[Arm], command: str | None = None) -> Iterator[tuple[Arm, Outcome]]:
        self._launched += 1
        with make_runner(self.experiment, self.place / f"runs-{self._launched}") as runner:
            runner.prepare()
            for number, arm in enumerate(order):
                plan = Plan(arm, "truth")
                runner.start(
                    Launch(
                        "truth", number, Configuration({}), plan, Phase.CONFIRMATION, timeout=TIMEOUT, command=command
                    )
                )
                outcomes: list[Outcome] = []
                while not outcomes:
                    outcomes = list(runner.poll(TIMEOUT))
                yield arm, outcomes[0]
