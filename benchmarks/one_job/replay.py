"""How well replays rank configurations, against the programs that were recorded: real programs of several kinds."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any

from scipy.stats import spearmanr

from benchmarks.one_job.programs import SLEEPY, bound
from stripewise.formats import PLAN_HEADER
from stripewise.runners.native.build import REPLAYER_HDF5, RUNTIME, build
from stripewise.runners.native.compiler import ask_compiler

HERE = Path(__file__).resolve().parent
WANTED_RANK, WANTED_TIME, WANTED_SIZE = 0.9, 0.1, 1 << 20
MORE_OF_THE_DEFAULT = 2
_BUFFERS = (8192, 65536, 524288, 4194304, 16777216)
_PIECES = (4096, 16384, 65536, 262144, 1048576)


def _ways(way: str, value: str) -> list[str]:
    return [f"hint romio_{way}_{direction} {value}" for direction in ("read", "write")]


def _collective() -> list[list[str]]:
    """Configurations of MPI-IO: collective buffering, its buffers and aggregators, and sieving in its place."""
    found = [
        [*_ways("cb", mode), f"hint cb_buffer_size {size}", f"hint cb_nodes {nodes}", "hint cb_config_list *:2"]
        for mode, size, nodes in itertools.product(("enable", "automatic"), _BUFFERS, (1, 2))
    ]
    alone = _ways("cb", "disable")
    found += [[*alone, *_ways("ds", "enable"), f"hint ind_wr_buffer_size {size}"] for size in _PIECES]
    found += [[*alone, *_ways("ds", "disable"), f"hint ind_wr_buffer_size {size}"] for size in _PIECES[:4]]
    return [[], *found]


def _datasets() -> list[list[str]]:
    """Configurations of HDF5 and of the MPI-IO beneath it."""
    chunks = [[f"hdf5 chunk_size {size}"] for size in (16384, 65536, 262144, 1048576)]
    aligned = [["hdf5 alignment 65536", "hdf5 alignment_threshold 1"], ["hdf5 alignment 1048576"]]
    beneath = _collective()
    hints = [beneath[place] for place in (1, 2, 3, 5, 7, 9, 21, 23, 25, 26)]
    mixed = [[*chunk, *hint] for chunk, hint in itertools.product(chunks[1:], (hints[0], hints[5], hints[6], hints[9]))]
    return [[], *chunks, *aligned, ["hdf5 coll_metadata_write true"], *hints, *mixed]


@dataclass(frozen=True)
class Code:
    """A program: its words, in which ``{file}`` stands for its file, and what is tried."""

    name: str
    words: str
    configurations: Sequence[Sequence[str]] = field(default_factory=_collective)

    @property
    def needs(self) -> set[str]:
        """The programs that its words name."""
        return {name for _, name, _, _ in Formatter().parse(self.words) if name} - {"file"}


CODES = (
    Code("ior", "{ior} -a MPIIO -c -w -k -t 4k -b 4k -s 4096 --mpiio.useFileView --mpiio.useStridedDatatype -o {file}"),
    Code("hacc", "{hacc} 600000 {file}"),
    Code("tile", "{tile} {file} 24 4096 64"),
    Code("hdf5", "{ior} -a HDF5 -c -w -k -t 256k -b 4m -s 4 -o {file}", _datasets()),
    Code("fortran", "{fortran} {file} 24 2048 1024"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--mpicc", type=Path, default=Path("/usr/bin/mpicc.mpich"), help="of an MPI with HDF5")
    parser.add_argument("--fortran", default="mpif90.mpich", help="the compiler of that MPI")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PATH", help="ior or hacc, for that MPI")
    parser.add_argument("--codes", default=",".join(code.name for code in CODES))
    parser.add_argument("--mpiexec", default="mpiexec.mpich")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the programs write")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9, help="at least 2")
    parser.add_argument("--seed", type=int, default=1)


@dataclass(frozen=True)
class Built:
    """What is made for the MPI of the programs, and where each program is."""

    library: Path
    replayer: Path
    programs: Mapping[str, str]

    @classmethod
    def of(cls, options: argparse.Namespace, folder: Path) -> Built:
        """Build the runtime, the program that replays, and this folder's own programs."""
        environment = dict(os.environ)
        compiler = ask_compiler(options.mpicc, environment)
        own = {"tile": folder / "tile", "fortran": folder / "planes"}
        subprocess.run([str(options.mpicc), "-O2", str(HERE / "tile.c"), "-o", str(own["tile"])], check=True)
        fortran = [options.fortran, "-O2", str(HERE / "planes.f90"), "-o", str(own["fortran"])]
        if "fortran" in options.codes.split(","):
            subprocess.run(fortran, cwd=folder, check=True)
        programs = {name: str(path) for name, path in own.items()}
        programs |= dict(one.split("=", 1) for one in options.program)
        library, replayer = (build(what, compiler, environment).path for what in (RUNTIME, REPLAYER_HDF5))
        return cls(library, replayer, programs)


class Bench:
    """Runs of one program and of its replay, each in a folder of its own on the file system that is measured."""

    def __init__(self, options: argparse.Namespace, code: Code, built: Built, folder: Path) -> None:
        self.options, self.code, self.built, self.folder = options, code, built, folder
        if missing := set(code.needs) - set(built.programs):
            raise SystemExit(f"{code.name} needs --program {missing.pop()}=PATH")
        self.words = shlex.split(code.words.format(file=folder / "data", **built.programs))
        self.record = folder / "program.record"

    def run(self, words: Sequence[str], settings: Sequence[str] = (), **more: str) -> float:
        """Run a command with the runtime, and give its time inside MPI-IO (s)."""
        report, plan = self.folder / "report.json", self.folder / "plan"
        report.unlink(missing_ok=True)
        plan.write_text(f"{PLAN_HEADER}\n" + "".join(f"{line}\n" for line in settings), "utf-8")
        environment = {
            "LD_PRELOAD": str(self.built.library),
            "STRIPEWISE_REPORT": str(report),
            "STRIPEWISE_PLAN": str(plan),
            "STRIPEWISE_MODE": "apply",
            **more,
        }
        self._start(words, environment)
        return float(json.loads(report.read_text("utf-8"))["job"]["io_time"])

    def _start(self, words: Sequence[str], environment: dict[str, str]) -> None:
        start = [self.options.mpiexec, *bound(self.options.ranks), "-n", str(self.options.ranks), "env"]
        start += [f"{name}={value}" for name, value in environment.items()]
        done = subprocess.run(
            [*start, *words], env={**os.environ, **SLEEPY}, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise SystemExit(f"{self.code.name} fails: {done.stderr[-500:] or done.stdout[-500:]}")

    def program(self, settings: Sequence[str], **more: str) -> float:
        """Time the program on a new file."""
        self._clear()
        return self.run(self.words, settings, **more)

    def replay(self, settings: Sequence[str]) -> float:
        """Time the replay; its files are made before and deleted after it."""
        self._clear()
        words = [str(self.built.replayer), str(self.record), "--quiet", "--directory", str(self.folder / "replay")]
        self._start([*words, "--only", "prepare"], {})
        return self.run([*words, "--only", "calls", "--only", "clean"], settings)

    def _clear(self) -> None:
        for path in self.folder.glob("data*"):
            path.unlink()


def _measured(options: argparse.Namespace, code: Code, built: Built, folder: Path) -> dict[str, Any]:
    bench, order = Bench(options, code, built, folder), random.Random(options.seed)
    bench.program((), STRIPEWISE_RECORD=str(bench.record))
    text = bench.record.read_text("utf-8")
    if "\nincomplete " in text:
        raise SystemExit(f"the record of {code.name} is incomplete")
    times: dict[tuple[int, str], list[float]] = {}
    # The default's time counts by itself, the others' only by their ranks.
    places = [*range(len(code.configurations)), *[0] * MORE_OF_THE_DEFAULT]
    for _ in range(options.repeats):
        for place in order.sample(places, len(places)):
            for who in order.sample(("program", "replay"), 2):
                seconds = getattr(bench, who)(code.configurations[place])
                times.setdefault((place, who), []).append(seconds)
    medians = {key: statistics.median(found) for key, found in times.items()}
    program, replay = (
        [medians[place, who] for place in range(len(code.configurations))] for who in ("program", "replay")
    )
    own = [[statistics.median(times[place, "program"][part::2]) for place in range(len(program))] for part in (0, 1)]
    best = min(range(len(replay)), key=replay.__getitem__)
    return {
        "program": code.name,
        "configurations": len(code.configurations),
        "rank_correlation": round(float(spearmanr(program, replay)[0]), 3),
        "program_with_itself": round(float(spearmanr(*own)[0]), 3),
        "default": {"program": program[0], "replay": replay[0], "ratio": round(replay[0] / program[0], 3)},
        "spread": round(max(program) / min(program), 2),
        "best_of_replays": {
            "settings": list(code.configurations[best]),
            "over_the_best": round(program[best] / min(program), 3),
        },
        "record_bytes": len(text),
        "medians": [[round(ours, 6), round(theirs, 6)] for ours, theirs in zip(program, replay, strict=True)],
    }


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Measure programs and their replays, in turns."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        built = Built.of(options, Path(place))
        for code in (code for code in CODES if code.name in options.codes.split(",")):
            with tempfile.TemporaryDirectory(prefix="replay-", dir=options.folder) as folder:
                found.append(_measured(options, code, built, Path(folder)))
            sys.stderr.write(json.dumps(found[-1]) + "\n")
    good = all(
        one["rank_correlation"] >= WANTED_RANK
        and abs(one["default"]["ratio"] - 1) <= WANTED_TIME
        and one["record_bytes"] < WANTED_SIZE
        for one in found
    )
    return {"folder": str(options.folder), "ranks": options.ranks, "repeats": options.repeats, "codes": found}, good
