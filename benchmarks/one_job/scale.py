"""What recording and orders add to an open at 10,000 clients, and whether the work of rank 0 grows with ranks.

Measured on real ranks: the instructions that rank 0 executes in the runtime for a phase, the collective MPI calls that
the runtime makes in it, the system calls on orders and answers, and the processor time that a phase takes with and
without the runtime. Simulated: how long an open takes at 10,000 clients, a step of a collective call, and a round trip
to the file system, by the simulated cluster.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.one_job.programs import BIN, HERE, SLEEPY
from stripewise.catalogue.workload import Workload
from stripewise.formats import ORDERS_HEADER
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import load_site, site_names
from stripewise.requests.experiment import Experiment
from stripewise.runners.program_runner import find

CLIENTS = 10_000
MOST_ADDED, MOST_GROWTH = 0.001, 1.1
FEW, MANY = 10, 30
"""Phases of the two runs whose difference is what a phase takes."""
_TIMED = 300
_PAUSE = 300
"""Milliseconds after which the runtime looks for orders at each open, also under strace."""
_CALL = re.compile(
    r"P?MPI_(?:I?(?:bcast|allreduce|reduce|barrier|allgather|gather)|comm_dup|comm_split\w*|comm_create\w*)", re.I
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--ranks", default="1,2,4,8", help="of the runs under Callgrind")
    parser.add_argument("--repeats", type=int, default=9, help="of the runs whose processor time is measured")
    parser.add_argument("--folder", default="/dev/shm", help="where the files are written")


class _Stage:
    """The program, the runtime, and a folder for what they write."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.build, self.folder = build, folder
        self.binary = build / "opens"
        subprocess.run([str(BIN / "mpicc"), "-O2", str(HERE / "opens.c"), "-o", str(self.binary)], check=True)
        experiment = Experiment(command=[str(BIN / "mpiexec"), "-n", "1", str(self.binary), "x", "1"])
        found = find(experiment, os.environ, build, "auto")
        library = found.library_for(found.target)
        assert library is not None, "the runtime can be preloaded into a program of MPICH's"
        self.library = library

    def run(self, ranks: int, phases: int, mode: str, *, tool: str = "", pause: int = 0) -> str:
        """Run the program; ``tool`` is what rank 0 runs under, ``pause`` milliseconds before each open."""
        variables = {}
        if mode:
            (self.build / "orders").write_text(f"{ORDERS_HEADER}\n", "utf-8")
            (self.build / "answers").unlink(missing_ok=True)
            variables = {"LD_PRELOAD": str(self.library), "STRIPEWISE_REPORT": str(self.build / "report.json")}
            variables |= {"STRIPEWISE_MODE": "orders" if "orders" in mode else "observe"}
        if "orders" in mode:
            variables |= {"STRIPEWISE_ORDERS": str(self.build / "orders")}
            variables |= {"STRIPEWISE_JOURNAL": str(self.build / "answers")}
        if "record" in mode:
            variables |= {"STRIPEWISE_RECORD": str(self.build / "record")}
        set_all = "".join(f'export {name}="{value}"\n' for name, value in variables.items())
        program = f'"{self.binary}" "{self.folder}/file" {phases} {pause}'
        script = self.build / "rank.sh"
        script.write_text(
            f'#!/bin/sh\n{set_all}[ "$PMI_RANK" = 0 ] && exec {tool} {program}\nexec {program}\n', "utf-8"
        )
        script.chmod(0o755)
        words = [str(BIN / "mpiexec"), "-n", str(ranks), str(script)]
        done = subprocess.run(words, env={**os.environ, **SLEEPY}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def profile(self, ranks: int, phases: int, mode: str) -> tuple[int, Counter[str]]:
        """Instructions of rank 0's own thread in the runtime, and the collective calls that it makes there."""
        out = self.build / "callgrind"
        tool = f'valgrind -q --tool=callgrind --separate-threads=yes --callgrind-out-file="{out}"'
        self.run(ranks, phases, mode, tool=tool)
        return _read(Path(f"{out}-01").read_text("utf-8", "replace"), self.library.name)

    def system_calls(self, phases: int) -> tuple[Counter[str], Counter[str]]:
        """System calls of rank 0 on the files of orders and answers: of the program's thread, and of the helper."""
        out = self.build / "strace"
        self.run(1, phases, "record orders", tool=f'strace -f -y -qq -o "{out}"', pause=_PAUSE)
        files = [
            line for line in out.read_text("utf-8", "replace").splitlines() if re.search(r"/(orders|answers)\b", line)
        ]
        calls = [found.groups() for line in files if (found := re.search(r"^(\d+) +(\w+)\(", line))]
        program = out.read_text("utf-8", "replace").split(maxsplit=1)[0]
        waits = Counter(call for thread, call in calls if thread == program)
        return waits, Counter(call for thread, call in calls if thread != program)


def _read(text: str, library: str) -> tuple[int, Counter[str]]:
    """Read the own cost of a library, and its calls of MPI's collective functions, from what Callgrind has written."""
    names: dict[tuple[str, str], str] = {}
    cost, calls, inside, caller, callee, skip = 0, Counter[str](), False, "", "", False
    for line in text.splitlines():
        if found := re.match(r"c?(ob|fn)=(\(\d+\))(?: (.+))?$", line):
            kind, key, name = found.groups()
            if name:
                names[kind, key] = name
            if line.startswith("ob="):
                inside = names[kind, key].endswith(f"/{library}")
            elif line.startswith("fn="):
                caller = names[kind, key]
            elif line.startswith("cfn="):
                callee = names[kind, key]
        elif line.startswith("calls="):
            skip = True
            # What the program or ROMIO calls passes through a function of the same name, and is no call of its own.
            if inside and caller.removeprefix("P") != callee.removeprefix("P") and _CALL.fullmatch(callee):
                calls[callee] += int(line[6:].split()[0])
        elif line[:1] in "0123456789+-*" and line:
            if inside and not skip:
                cost += int(line.split()[1])
            skip = False
    return cost, calls


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Measure, simulate, and compare."""
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stage = _Stage(Path(build), Path(folder))
        several = [int(ranks) for ranks in options.ranks.split(",")]
        rows = [_phase(stage, "record orders", ranks) for ranks in several]
        alone = _phase(stage, "record", max(2, several[0]))
        both_runs = zip(*(stage.system_calls(phases) for phases in (FEW, MANY)), strict=True)
        files, beside = ({name: (many[name] - few[name]) / (MANY - FEW) for name in many} for few, many in both_runs)
        seconds: dict[str, list[float]] = {mode: [] for mode in ("", "observe", "record", "orders", "record orders")}
        for _ in range(options.repeats):
            for mode, taken in seconds.items():
                taken.append(float(stage.run(1, _TIMED, mode)))
    typical = {mode: statistics.median(taken) for mode, taken in seconds.items()}
    trips = sum(files.get(name, 0.0) for name in ("openat", "read", "pread64", "write", "pwrite64"))
    both = max(sum(row["collective"].values()) for row in rows)
    added = {
        "record": (typical["record"] - typical[""], sum(alone["collective"].values()), 0.0),
        "record orders": (typical["record orders"] - typical[""], both, trips),
    }
    sites = {name: {mode: _at_scale(name, *parts) for mode, parts in added.items()} for name in site_names()}
    shared = [row["instructions"] for row in rows if row["ranks"] > 1]
    growth = max(shared) / shared[0] if shared else 1.0
    figures = {
        "record orders": rows,
        "record": alone,
        "growth": growth,
        "system_calls": files,
        "system_calls_beside": beside,
        "processor_seconds": {mode or "without the runtime": taken for mode, taken in typical.items()},
        "simulated": {"clients": CLIENTS, "sites": sites},
    }
    shares = [one["added_share"] for site in sites.values() for one in site.values()]
    good = growth <= MOST_GROWTH and max(shares) <= MOST_ADDED
    return {"options": {**vars(options), "json": None, "measure": None}, **figures}, good


def _phase(stage: _Stage, mode: str, ranks: int) -> dict[str, Any]:
    """What rank 0 does in the runtime in a phase."""
    (few, before), (many, after) = (stage.profile(ranks, phases, mode) for phases in (FEW, MANY))
    calls = {name: (after[name] - before[name]) / (MANY - FEW) for name in after if after[name] > before[name]}
    found = {"ranks": ranks, "instructions": round((many - few) / (MANY - FEW)), "collective": calls}
    sys.stderr.write(f"{mode}: {found}\n")
    return found


def _at_scale(name: str, added: float, collective: float, trips: float) -> dict[str, float]:
    """What an open takes by a simulated cluster where 10,000 clients open a file, and what is added to it."""
    site = load_site(name)
    workload = Workload(operation="write", nodes=CLIENTS, processes_per_node=1, file_size=CLIENTS * 2**20)
    outcome = simulate(site, RunBatch.make(workload, "write", {}))
    opening = float(np.asarray(outcome.open_seconds).ravel()[0])
    told = collective * site.network.sync_seconds * math.log2(CLIENTS) / site.client.core_speed
    files = trips * site.network.latency
    whole = added + told + files
    parts = {"processor": added, "collective": told, "files": files}
    return {"open_seconds": opening, **parts, "added_share": whole / opening}
