"""Measure real ROMIO over workloads and hints, into one table with contexts.

    python benchmarks/search/measure_romio.py --keep ROUNDS.jsonl --out benchmarks/data/tables/romio_workloads

Every repeat is a round in which each configuration of each workload is run once, in an order of its own. All
configurations with the same number of ranks run within one launch (``romio_sweep.c``), the file opened anew under its
hints each time: a launch would cost ten times the run. The first runs of a launch are discarded.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table, write_table

HERE = Path(__file__).resolve().parent
KIB, MIB = 1 << 10, 1 << 20
WARMUP = 6
CALLS = 2
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
"""MPICH's ranks spin while they wait: with more ranks than cores that shows the scheduler (90 ms a run, not 5)."""

CB = ["automatic", "disable", "enable"]
DS = ["disable", "enable"]
CB_NODES = [1, 2, 4]
CB_BUFFER = [16 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1 * MIB, 16 * MIB]
IND_BUFFER = [16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB]


@dataclass(frozen=True)
class Work:
    """A workload: strided pieces of all ranks in turn, in two calls."""

    operation: str
    collective: bool
    piece: int
    ranks: int
    file: int

    @property
    def context(self) -> dict[str, object]:
        return {
            "operation": self.operation,
            "collective": self.collective,
            "piece_size": self.piece,
            "processes": self.ranks,
            "file_size": self.file,
        }


Job = tuple[Work, dict[str, object]]


def works(file: int) -> list[Work]:
    """Eight collective workloads, and eight independent ones, on which few hints act.

    Collective ones have two ranks or four by turns, so that every operation and every piece is seen with
    both: half of all combinations of operation, piece and ranks.
    """
    pieces = (256, KIB, 4 * KIB, 64 * KIB)
    collective = [
        Work(way, True, piece, 2 if (turn + place) % 2 == 0 else 4, file)
        for turn, way in enumerate(("write", "read"))
        for place, piece in enumerate(pieces)
    ]
    independent = [Work(way, False, p, r, file) for way, p, r in product(("write", "read"), (256, 4 * KIB), (2, 4))]
    return collective + independent


def configurations(work: Work) -> list[dict[str, object]]:
    """One aggregator or all ranks; buffers of what is switched off mean nothing."""
    found = []
    for cb, ds, nodes, buffer, sieve in product(CB, DS, CB_NODES, CB_BUFFER, IND_BUFFER):
        through = work.collective and cb != "disable"
        if not through and (cb, nodes, buffer) != ("disable" if work.collective else "automatic", 1, 16 * MIB):
            continue
        if nodes not in (1, work.ranks) or (ds == "disable" and sieve != 512 * KIB):
            continue
        found.append(
            {
                "collective_buffering": cb,
                "data_sieving": ds,
                "cb_nodes": nodes,
                "cb_buffer_size": buffer,
                "ind_buffer_size": sieve,
            }
        )
    return found


def hints(work: Work, configuration: dict[str, object]) -> str:
    way, short = work.operation, {"write": "wr", "read": "rd"}[work.operation]
    nodes = configuration["cb_nodes"]
    pairs = {
        f"romio_cb_{way}": configuration["collective_buffering"],
        f"romio_ds_{way}": configuration["data_sieving"],
        "cb_nodes": nodes,
        "cb_config_list": f"*:{nodes}",
        "cb_buffer_size": configuration["cb_buffer_size"],
        f"ind_{short}_buffer_size": configuration["ind_buffer_size"],
    }
    return ";".join(f"{key}={value}" for key, value in pairs.items())


def line(number: int, work: Work, configuration: dict[str, object]) -> str:
    share = work.file // work.ranks // CALLS
    words = (number, work.operation, int(work.collective), work.piece, CALLS, share, hints(work, configuration))
    return " ".join(map(str, words))


def launch(options: argparse.Namespace, ranks: int, lines: list[str], program: Path) -> list[tuple[int, float]]:
    """Run the lines within one launch; number and seconds of each."""
    folder = program.parent
    plan = folder / "plan"
    plan.write_text("\n".join(lines) + "\n", "utf-8")
    command = [str(options.bin / "mpiexec"), "-n", str(ranks), str(program), str(plan), str(folder)]
    environment = {**os.environ, **SLEEPY}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed: {done.stderr.strip()}")
    for left in folder.glob("sweep.*"):
        left.unlink()
    return [(int(number), float(seconds)) for number, seconds in map(str.split, done.stdout.splitlines())]


def schema(options: argparse.Namespace, version: str) -> Schema:
    columns = [
        Column(name="operation", kind="categorical", role="operation", values=["write", "read"]),
        Column(name="collective", kind="categorical", role="collective", values=[True, False]),
        Column(
            name="piece_size",
            kind="ordinal",
            role="piece_size",
            unit="B",
            scale="log2",
            values=[256, KIB, 4 * KIB, 64 * KIB],
        ),
        Column(name="processes", kind="ordinal", role="processes", scale="log2", values=[2, 4]),
        Column(name="file_size", kind="ordinal", role="file_size", unit="B", values=[options.file * MIB]),
    ]
    parameters = [
        Column(name="collective_buffering", kind="categorical", role="collective_buffering", values=CB),
        Column(name="data_sieving", kind="categorical", role="data_sieving", values=DS),
        Column(name="cb_nodes", kind="ordinal", role="aggregators", scale="log2", values=CB_NODES),
        Column(
            name="cb_buffer_size", kind="ordinal", role="collective_buffer_size", unit="B", scale="log2",
            values=CB_BUFFER,
        ),
        Column(
            name="ind_buffer_size", kind="ordinal", role="sieving_buffer_size", unit="B", scale="log2",
            values=IND_BUFFER, active_if="data_sieving != 'disable'",
        ),
    ]  # fmt: skip
    defaults = ["automatic", "enable", 1, 16 * MIB, 512 * KIB]
    return Schema(
        name="romio_workloads",
        description=f"strided MPI-IO through ROMIO's hints, {options.file} MiB in two calls a rank; "
        "collective_buffering and the like stand for romio_cb_write or romio_cb_read; cb_config_list follows cb_nodes; "
        "ranks that wait for one another sleep (MPICH's progress throttle)",
        source=f"measured by benchmarks/search/measure_romio.py: {version}, {os.cpu_count()} cores, one node, "
        f"{options.repeats} interleaved rounds in random order, files in memory; the machine was shared",
        license="CC0-1.0",
        complete=False,
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        context=columns,
        parameter=[p.model_copy(update={"default": d}) for p, d in zip(parameters, defaults, strict=True)],
    )


def wait_for_quiet(busy: float) -> None:
    """Wait until other processes of normal priority use little of the machine; niced ones give way to the runs."""
    while True:
        before, after = processor_ticks(), (time.sleep(0.5), processor_ticks())[1]
        if after[0] - before[0] <= busy * (sum(after) - sum(before)):
            return


def processor_ticks() -> list[int]:
    """Time since boot by kind (Linux): user programs of normal priority, niced ones, the kernel, idle, and others."""
    return [int(word) for word in Path("/proc/stat").read_text("utf-8").split()[1:8]]


def measure_round(
    options: argparse.Namespace, jobs: list[Job], repeat: int, program: Path
) -> Iterator[dict[str, object]]:
    """Run every job once, in an order of this round's own."""
    rng = np.random.default_rng([options.seed, repeat])
    parts = []
    for ranks in (2, 4):
        own = rng.permutation([number for number, (work, _) in enumerate(jobs) if work.ranks == ranks])
        parts += [(ranks, part) for part in np.array_split(own, max(1, len(own) // options.launch))]
    for done, place in enumerate(rng.permutation(len(parts))):
        print(f"round {repeat + 1} of {options.repeats}, launch {done + 1} of {len(parts)}", flush=True)
        ranks, part = parts[place]
        wait_for_quiet(options.busy)
        lines = [line(int(number), *jobs[number]) for number in [*part[-WARMUP:], *part]]
        for number, seconds in launch(options, ranks, lines, program)[-len(part) :]:
            work, configuration = jobs[number]
            value = work.file / MIB / seconds
            yield {**work.context, **configuration, "repeat": repeat, "bandwidth": f"{value:.5g}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--file", type=int, default=1, help="MiB of each file")
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="a memory-backed file system")
    parser.add_argument("--out", type=Path, required=True, help="stem of the table's two files")
    parser.add_argument("--keep", type=Path, required=True, help="finished rounds (JSON lines): goes on where it ended")
    parser.add_argument("--bin", type=Path, default=Path(sys.executable).parent, help="folder of mpicc and mpiexec")
    parser.add_argument("--launch", type=int, default=250, help="about how many runs a launch")
    parser.add_argument("--busy", type=float, default=1.0, help="wait while others use more than this of the machine")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the configurations, to try it out")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    jobs = [(work, c) for work in works(options.file * MIB) for c in configurations(work)]
    jobs = [job for job in jobs if rng.random() < options.sample]
    rows = [json.loads(row) for row in options.keep.read_text("utf-8").splitlines()] if options.keep.exists() else []
    version = subprocess.run([str(options.bin / "mpiexec"), "--version"], capture_output=True, text=True, check=True)
    words = version.stdout.split()
    with tempfile.TemporaryDirectory(prefix="romio-sweep-", dir=options.folder) as folder:
        program = Path(folder) / "romio_sweep"
        subprocess.run([str(options.bin / "mpicc"), "-O2", "-o", str(program), str(HERE / "romio_sweep.c")], check=True)
        for repeat in range(options.repeats):
            if any(row["repeat"] == repeat for row in rows):
                continue
            start = time.monotonic()
            fresh = list(measure_round(options, jobs, repeat, program))
            with options.keep.open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps(row) + "\n" for row in fresh)
            rows += fresh
            print(f"round {repeat + 1} of {options.repeats}: {time.monotonic() - start:.0f} s", flush=True)
    about = f"MPICH {words[words.index('Version:') + 1]} ROMIO on {platform.system()}"
    write_table(make_table(schema(options, about), rows), options.out)


if __name__ == "__main__":
    main()
