"""What one launch of real programs gains and loses under ``tune --within``: checkpoints in memory."""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.plan import Plan

HERE = Path(__file__).resolve().parent
MEMORY = Path("/dev/shm")
FIXTURES = HERE.parents[1] / "tests" / "fixtures" / "programs"
HDF5 = Path("/usr/lib/x86_64-linux-gnu/hdf5/mpich")
BIN = Path(sys.prefix) / "bin"
# Ranks that wait for one another sleep: with more ranks than cores all else would measure the scheduler.
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
# Where there are enough cores, ranks are bound to them: a rank that wakes up on a core where another one spins is moved
# away only after tens of milliseconds.
BOUND = ("-bind-to", "core")
SIEVING = [["hint romio_ds_write disable"], ["hint ind_wr_buffer_size 65536"], ["hint ind_wr_buffer_size 4194304"]]
COLLECTIVE = [
    ["hint romio_cb_write disable"],
    ["hint romio_cb_write disable", "hint romio_ds_write disable"],
    ["hint romio_cb_write enable"],
    ["hint romio_ds_write disable"],
    ["hint cb_nodes 2", "hint cb_config_list *:2"],
    ["hint cb_buffer_size 1048576"],
]
OBJECTS = [
    ["hdf5 libver latest"],
    ["hdf5 meta_block_size 1048576"],
    ["hdf5 coll_metadata_write true"],
]
GAINED, LOST = 0.95, 1.05
HDF5_APART = 16
"""Of the rows of a dataset in hdf5_phases.c, one in so many is written."""


@dataclass(frozen=True)
class Program:
    """A program that writes checkpoints: what it is called with, and which static settings are swept."""

    name: str
    source: str
    arguments: tuple[str, ...]
    sweep: list[list[str]]
    hdf5: bool = False
    written: str = ""
    """Options of ``h5dump`` that choose what the program wrote; HDF5 leaves the rest undefined. ``{ranks}`` and
    ``{apart}`` are filled in."""
    pieces: tuple[int, int] | None = None
    """Bytes of a rank's piece, and how many times as many follow the pieces of all ranks that nobody writes."""

    def words(self, prefix: Path, phases: int) -> list[str]:
        """Its arguments."""
        return [str(prefix), str(phases), *self.arguments]


PROGRAMS = (
    Program("independent", "checkpoints.c", ("100", "4096", "31", "0"), SIEVING, pieces=(4096, 31)),
    Program("collective", "phases.c", ("2048", "1024"), COLLECTIVE),
    Program("ghosts", str(HERE / "ghosts.c"), ("1024", "4096"), COLLECTIVE),
    Program(
        "hdf5",
        "hdf5_phases.c",
        ("rows", "128", "4096"),
        [*COLLECTIVE, *OBJECTS],
        hdf5=True,
        written="-d /rows -s 0,0 -S {apart},1 -c 128,4096 -k {ranks},1",
    ),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--programs", default=",".join(program.name for program in PROGRAMS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--phases", type=int, default=200)
    parser.add_argument("--think", type=int, default=60, metavar="MILLISECONDS", help="between two phases")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--folder", default=str(MEMORY), help="where the checkpoints are written")
    parser.add_argument("--also", action="append", default=[], metavar="LINES", help="swept too; separated by ;")
    parser.add_argument("--seed", type=int, default=1)


class Bench:
    """One program, compiled and run."""

    def __init__(self, program: Program, options: argparse.Namespace, build: Path, folder: Path) -> None:
        self.program, self.options, self.build, self.folder = program, options, build, folder
        self.sizes: dict[str, int] = {}
        self.binary = build / program.name
        compiler, flags = BIN / "mpicc", []
        self.launcher = [str(BIN / "mpiexec")]
        if program.hdf5:
            compiler, self.launcher = Path("/usr/bin/mpicc.mpich"), ["/usr/bin/mpiexec.mpich"]
            flags = ["-I/usr/include/hdf5/mpich", f"-L{HDF5}", "-Wl,--no-as-needed", "-lhdf5"]
        self.launcher += bound(options.ranks)
        # The program's own barriers, and none of HDF5's, whose time counts.
        sources = ["-DMPI_Barrier=think_first", str(FIXTURES / program.source), str(HERE / "think.c")]
        subprocess.run([str(compiler), "-O2", *sources, *flags, "-o", str(self.binary)], check=True)

    def command(self, where: str, phases: int) -> list[str]:
        """Launch it, with its files in a folder that is empty; in memory, over files of the usual size."""
        target = self.folder / where
        if self.sizes:
            self._fill(target, phases)
        else:
            subprocess.run(["rm", "-rf", str(target)], check=True)
            target.mkdir()
        return [
            *self.launcher,
            "-n",
            str(self.options.ranks),
            str(self.binary),
            *self.program.words(target / "chk", phases),
        ]

    def warm_up(self) -> None:
        """Launch it once and, where it writes to memory, find out what is to be there before each launch.

        The host of a virtual machine takes back memory that nobody uses, and hands it out again page by page: files of
        some GB took ten times as long where they were new.
        """
        self.static([], "default", self.options.phases)
        if self.folder.is_relative_to(MEMORY):
            self.sizes = {path.name: path.stat().st_size for path in sorted((self.folder / "default").iterdir())}

    def _fill(self, target: Path, phases: int) -> None:
        target.mkdir(exist_ok=True)
        for name, size in list(self.sizes.items())[:phases]:
            (target / name).write_bytes(bytes(size))

    def environment(self, think: bool = True) -> dict[str, str]:
        """Variables of a launch."""
        pause = {"THINK_MILLISECONDS": str(self.options.think)} if think else {}
        return {**os.environ, **SLEEPY, **pause}

    def static(self, lines: list[str], where: str, phases: int, think: bool = False) -> float:
        """The seconds of I/O with a plan, with the runtime in place."""
        plan = self.build / "plan"
        plan.write_text("stripewise-plan 1\n" + "".join(f"{line}\n" for line in lines), "utf-8")
        words = [sys.executable, "-m", "stripewise", "run", str(plan), "--", *self.command(where, phases)]
        done = subprocess.run(words, env=self.environment(think), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        return seconds_of(done.stdout)

    def tuned(self, where: str) -> dict[str, Any]:
        """One launch under the tuner: what it took and what was proven."""
        words = [sys.executable, "-m", "stripewise", "tune", "--within", "--json", "--yes"]
        words += ["--scratch", str(self.build / "runs"), "--store", f"sqlite:///{self.build}/store.db"]
        known = set(self.build.glob("runs/**/launch-0"))
        command = self.command(where, self.options.phases)
        done = subprocess.run(
            [*words, "--", *command], env=self.environment(), capture_output=True, text=True, check=False
        )
        (launch,) = set(self.build.glob("runs/**/launch-0")) - known
        found: dict[str, Any] = {"seconds": seconds_of((launch / "stdout").read_text()), "proven": False, "plan": []}
        if done.returncode != 0:
            return {**found, "verdict": done.stderr.strip().splitlines()[-1]}
        result = json.loads(done.stdout)
        plan = Plan.parse(result["plan"], "the plan") if result["confirmed"] else Plan()
        lines = [setting.line() for setting in plan.settings]
        return {**found, "proven": result["confirmed"], "verdict": result["verdict"], "plan": lines}

    def same(self, one: str, other: str) -> bool:
        """Whether two launches left the same files, of HDF5 the same objects and values.

        Of files with gaps, what the program wrote counts: behind the end of a file, data sieving writes into the gaps
        what its buffer held.
        """
        names = sorted(path.name for path in (self.folder / one).iterdir())
        if names != sorted(path.name for path in (self.folder / other).iterdir()):
            return False
        pairs = [(self.folder / one / name, self.folder / other / name) for name in names]
        if self.program.hdf5:
            return all(self._objects(one) == self._objects(other) for one, other in pairs)
        if self.program.pieces:
            return all(np.array_equal(self._written(a), self._written(b)) for a, b in pairs)
        return all(filecmp.cmp(*pair, shallow=False) for pair in pairs)

    def _objects(self, path: Path) -> tuple[str, bytes]:
        """Give the objects of a file of HDF5, and the values that the program wrote."""
        ranks, values = self.options.ranks, self.build / "values"
        chosen = self.program.written.format(ranks=ranks, apart=HDF5_APART * ranks).split()
        listed = subprocess.run(["h5ls", "-r", str(path)], check=True, capture_output=True, text=True).stdout
        words = ["h5dump", *chosen, "-b", "LE", "-o", str(values), str(path)]
        subprocess.run(words, check=True, capture_output=True)
        return listed, values.read_bytes()

    def _written(self, path: Path) -> NDArray[np.uint8]:
        """Give the pieces that the ranks wrote, one row a stretch; the last stretch ends with its pieces."""
        assert self.program.pieces is not None
        size, gap = self.program.pieces
        stretch = size * self.options.ranks * (gap + 1)
        data = np.fromfile(path, np.uint8)
        whole = np.zeros(-(-len(data) // stretch) * stretch, np.uint8)
        whole[: len(data)] = data
        return whole.reshape(-1, stretch)[:, : size * self.options.ranks]


def bound(ranks: int) -> Sequence[str]:
    """Options of MPICH's launcher for so many ranks on this machine."""
    return BOUND if ranks <= (os.cpu_count() or 1) else ()


def seconds_of(printed: str) -> float:
    """What the program says that its I/O took."""
    return sum(map(float, re.findall(r"^(?:phase \d+|I/O took) ([\d.]+)", printed, re.MULTILINE)))


def measure_one(program: Program, options: argparse.Namespace) -> dict[str, Any]:
    """Interleave tuned launches with those of the default, then compare the answers with the sweep."""
    shuffle = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(program, options, Path(build), Path(folder))
        bench.warm_up()
        rounds = []
        for _ in range(options.repeats):
            default = 0.0
            for who in shuffle.sample(["default", "tuned"], 2):
                if who == "default":
                    default = bench.static([], "default", options.phases, think=True)
                else:
                    found = bench.tuned("tuned")
            entry = {**found, "default": default, "same": bench.same("tuned", "default")}
            rounds.append({**entry, "over_default": found["seconds"] / default})
            sys.stderr.write(f"{program.name}: {json.dumps(rounds[-1])}\n")
        swept = [*program.sweep, *([line.strip() for line in lines.split(";")] for lines in options.also)]
        arms: list[list[str]] = [[], *swept]
        for entry in rounds:
            arms += [entry["plan"]] if entry["plan"] not in arms else []
        taken: list[list[float]] = [[] for _ in arms]
        for _ in range(options.repeats):
            for place in shuffle.sample(range(len(arms)), len(arms)):
                taken[place].append(bench.static(arms[place], "swept", options.phases // 5))
    medians = [statistics.median(seconds) for seconds in taken]
    for entry in rounds:
        entry["of_best"] = min(medians) / medians[arms.index(entry["plan"])]
    return {
        "rounds": rounds,
        "proven": sum(entry["proven"] for entry in rounds),
        "over_default": statistics.median(entry["over_default"] for entry in rounds),
        "same_files": all(entry["same"] for entry in rounds),
        "sweep": [{"settings": arm, "seconds": seconds} for arm, seconds in zip(arms, medians, strict=True)],
        "of_best": statistics.median(entry["of_best"] for entry in rounds),
    }


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Measure each program; true where all reach what is wanted."""
    wanted = [program for program in PROGRAMS if program.name in options.programs.split(",")]
    found = {program.name: measure_one(program, options) for program in wanted}
    good = all(
        one["proven"] == options.repeats
        and one["over_default"] <= LOST
        and one["of_best"] >= GAINED
        and one["same_files"]
        for one in found.values()
    )
    asked = {**vars(options), "json": None, "measure": None}
    return {"simulated": False, "options": asked, "programs": found}, good
