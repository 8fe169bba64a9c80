"""What the system tests of runners share: a bed, a program to tune, and what became of an experiment."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.store.opening import open_store
from stripewise.trial import Run, State
from tests.conftest import require
from tests.system.testbed.bed import Bed
from tests.system.testbed.processes import end, of_bed, wait_until
from tests.system.testbed.slurm import Job, installed

BIN = Path(sys.executable).parent
STANDING = Path("/var/tmp/stripewise-testbed")


@contextmanager
def shared_bed() -> Iterator[Bed]:
    """Give the bed that is up already, or bring one up for a while."""
    require(os.geteuid() == 0 and installed(), "the test bed needs root, Slurm and Ceph (make cluster-up says which)")
    if of_bed(STANDING):
        yield Bed(STANDING)
        return
    bed = Bed(Path("/var/tmp/stripewise-testbed-shared"))
    try:
        bed.up()
        yield bed
    finally:
        bed.down()


@contextmanager
def tidied(bed: Bed) -> Iterator[None]:
    """Leave no job that was not there before: of a test that failed, some may still run."""

    def jobs() -> set[str]:
        return {word for word in bed.slurm.ask("squeue", "-h", "-o", "%F").split() if word.isdigit()}

    others = jobs()
    try:
        yield
    finally:
        if left := jobs() - others:
            bed.slurm.ask("scancel", *left)
            wait_until(lambda: jobs() <= others, 30, "no job of the test is left in Slurm's queue")


@dataclass
class Case:
    """One experiment on the bed.

    Attributes
    ----------
    bed : Bed
    folder : Path
        The experiment's own, which the host and so every node sees.
    started : list of subprocess.Popen
        Commands that may still run.
    """

    bed: Bed
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        # Built libraries are shared by all tests; state is not.
        changes = {"XDG_STATE_HOME": str(self.folder / "state"), "PATH": f"{BIN}:{os.environ['PATH']}"}
        return {**self.bed.environment, **changes}

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/store.db"

    def stripewise(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "stripewise", *words, "--store", self.store]

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.stripewise(*words),
            env=self.environment,
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "stderr").open("a"),
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what still runs: it would go on to submit jobs."""
        end(process.pid for process in self.started if process.poll() is None)

    def finish(self, process: subprocess.Popen[str], seconds: float = 400) -> dict[str, object]:
        """Wait for a command that prints JSON."""
        told, _ = process.communicate(timeout=seconds)
        assert process.returncode == 0, (self.folder / "stderr").read_text()[-3000:]
        found = json.loads(told)
        assert isinstance(found, dict)
        return found

    def runs(self) -> list[Run]:
        """All planned runs of the one experiment."""
        if not (self.folder / "store.db").exists():
            return []
        with open_store(self.store) as store:
            records = store.records()
            return [run for record in records for trial in store.trials(record.id) for run in trial.runs]

    def ended(self) -> int:
        return sum(run.state.ended for run in self.runs())

    def until(self, condition: Callable[[], bool], process: subprocess.Popen[str] | Job, seconds: float = 200) -> None:
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, (self.folder / "stderr").read_text()[-3000:]
            assert process.poll() is None, (self.folder / "stderr").read_text()[-3000:]
            time.sleep(0.3)

    def young_node(self, least: int = 1) -> str:
        """A node on which a job has just begun, so that it will not be over before something happens to the node."""
        for line in self.bed.slurm.ask("squeue", "-h", "-t", "RUNNING", "-o", "%N %M").splitlines():
            node, _, age = line.partition(" ")
            minutes, _, seconds = age.strip().rpartition(":")
            if minutes == "0" and least <= int(seconds) <= least + 1:
                return node
        return ""


@contextmanager
def node_down(bed: Bed, node: str) -> Iterator[None]:
    """Take a node from Slurm, as a crash would."""
    bed.slurm.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        yield
    finally:
        bed.slurm.ask("scontrol", "update", f"nodename={node}", "state=resume")


def kernel_program() -> str:
    """Path of the benchmark program, built with the mpich package, whose ranks srun can start."""
    mpicc = shutil.which("mpicc", path=str(BIN))
    require(mpicc, "mpicc of the mpich package")
    told = subprocess.run(
        [sys.executable, "-m", "stripewise", "site", "native", "build", "--mpicc", str(mpicc), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(told.stdout)["kernel"])


def program(
    folder: Path, shared: Path, hanging: int, seconds: float = 1.0, launcher: str = "", untuned: float = 0.0
) -> Path:
    """Write a script that measures the file system, and hangs in one run.

    What ``launcher`` says stands before the benchmark program; without settings it takes ``untuned`` seconds longer.
    """
    kernel = kernel_program()
    pattern = "--api mpiio --write --layout strided --block 1m --transfer 64k --piece 4k --collective"
    line = f"{launcher} {shlex.quote(kernel)} {pattern}"
    path = folder / "program.sh"
    path.write_text(
        "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks=2\n#SBATCH --time=5\n"
        f'[ "$STRIPEWISE_RUN" = {hanging} ] && exec sleep 600\n'
        f"sleep {seconds}\n"
        f'[ -n "$STRIPEWISE_PLAN" ] || sleep {untuned}\n'
        f"{line} --file {shared}/run.$STRIPEWISE_RUN\n"
    )
    path.chmod(0o755)
    return path


def accounted(runs: list[Run], number: int) -> None:
    """Every planned run has exactly one result."""
    assert [run.number for run in sorted(runs, key=lambda run: run.number)] == list(range(number))
    assert all(run.state.ended for run in runs)
    assert all(run.value is not None for run in runs if run.state is State.FINISHED)
