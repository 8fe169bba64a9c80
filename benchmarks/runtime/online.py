"""What mode online costs and brings over 60 checkpoints of a strided write on real ROMIO.

    python -m benchmarks.runtime.online --library libstripewise.so --mpicc .venv/bin/mpicc --mpiexec .venv/bin/mpiexec

The program writes checkpoints collectively, its ranks' pieces interleaved. A small campaign of the same program at half
and at twice the size trains the model that names candidates. Then every static setting of a sweep is measured at the
size itself, in turns: the one with the best median is the best static setting known in advance. Then the program runs
under mode online, again and again, each time with static runs of the default and of the best beside it, in random
order, so that the slow changes of the machine fall on all alike. Reported is, for each round and as a median, the total
time of online over 1.15 times that of the best static plus two default phases (at most 1 is wanted), and over 1.05
times that of the default (at most 1 is wanted where the default is best).

With --latency each read and write waits so long, as if storage were far away: then few large writes are best, and one
for each piece is far behind. The storage is then simulated, and the output says so.
"""

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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stripewise.catalogue.stack import load_stack
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.registry import make_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table

HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parents[1] / "tests" / "fixtures" / "programs" / "phases.c"
SWEEP: dict[str, list[Any]] = {
    "romio_cb_write": ["automatic", "disable"],
    "romio_ds_write": ["automatic", "disable"],
    "cb_nodes": [1, 2, 4],
}
DEFAULT = {name: values[0] for name, values in SWEEP.items()}
# Ranks that wait for one another sleep: with more ranks than cores all else would measure the scheduler.
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}

Settings = dict[str, Any]


def settings_of_sweep() -> Iterator[Settings]:
    """Every distinct static setting: with collective buffering data sieving means nothing, without it aggregators."""
    for values in itertools.product(*SWEEP.values()):
        settings = dict(zip(SWEEP, values, strict=True))
        idle = "cb_nodes" if settings["romio_cb_write"] == "disable" else "romio_ds_write"
        if settings[idle] == DEFAULT[idle]:
            yield settings


def plan_of(settings: Settings) -> str:
    """A plan; of the default it is empty."""
    hints = {name: value for name, value in settings.items() if value != DEFAULT[name]}
    if "cb_nodes" in hints:
        hints["cb_config_list"] = f"*:{hints['cb_nodes']}"
    return "stripewise-plan 1\n" + "".join(f"hint {key} {value}\n" for key, value in hints.items())


class Bench:
    """One program, its runs counted by the seconds of their phases."""

    def __init__(self, options: argparse.Namespace, build: Path, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.program = build / "phases"
        self.model = build / "site.swm"
        subprocess.run([options.mpicc, "-O2", str(PROGRAM), "-o", str(self.program)], check=True)
        self.libraries = [str(options.library)]
        if options.latency:
            delay = build / "slow_storage.so"
            source = str(HERE / "slow_storage.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", str(delay), "-ldl"], check=True)
            self.libraries.append(str(delay))

    def run(self, environment: dict[str, str], phases: int, pieces: int) -> list[float]:
        """The seconds of each phase."""
        options = self.options
        for old in self.folder.glob("chk*"):
            old.unlink()
        clean = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
        environment = {**environment, "LD_PRELOAD": ":".join(self.libraries)}
        if options.latency:
            environment["SLOW_STORAGE_MICROSECONDS"] = str(options.latency)
        words = [f"{key}={value}" for key, value in (SLEEPY | environment).items()]
        command = [*shlex.split(options.mpiexec), "-n", str(options.ranks), "env", *words, str(self.program)]
        command += [str(self.folder / "chk"), str(phases), str(pieces), str(options.bytes)]
        done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=120, check=False)
        if done.returncode != 0 or "stripewise:" in done.stderr:
            sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return [float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("phase ")]

    def static(self, settings: Settings, phases: int, pieces: int) -> list[float]:
        """A run with a plan; with that of the default the runtime is there as well."""
        plan = self.folder / "plan"
        plan.write_text(plan_of(settings), "utf-8")
        return self.run({"STRIPEWISE_MODE": "apply", "STRIPEWISE_PLAN": str(plan)}, phases, pieces)

    def online(self, phases: int, pieces: int) -> list[float]:
        """A run that learns, knowing nothing of earlier ones."""
        return self.run({"STRIPEWISE_MODE": "online", "STRIPEWISE_MODEL": str(self.model)}, phases, pieces)


def sweep(bench: Bench, pieces: int, turns: int, shuffle: random.Random) -> list[tuple[Settings, float]]:
    """The median seconds of a phase with each static setting, measured in turns."""
    settings = list(settings_of_sweep())
    found: list[list[float]] = [[] for _ in settings]
    for _ in range(turns):
        for place in shuffle.sample(range(len(settings)), len(settings)):
            # The first phase of a run warms up.
            found[place] += bench.static(settings[place], bench.options.sweep_phases + 1, pieces)[1:]
    return [(entry, statistics.median(seconds)) for entry, seconds in zip(settings, found, strict=True)]


def train(bench: Bench, shuffle: random.Random) -> None:
    """Make the model from sweeps at half and at twice the size."""
    options = bench.options
    stack = {parameter.name: parameter for parameter in load_stack("romio").parameters}
    sizes = [options.pieces // 2, options.pieces * 2]
    rows: list[dict[str, Any]] = []
    for pieces in sizes:
        total = options.ranks * pieces * options.bytes
        for settings, seconds in sweep(bench, pieces, options.turns, shuffle):
            rows.append({"operation": "write", "file_size": total, **settings, "bandwidth": total / 2**20 / seconds})
    schema = Schema(
        name="checkpoints",
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        context=[
            Column(name="operation", kind="categorical", role="operation", values=["write"]),
            Column(
                name="file_size",
                kind="ordinal",
                role="file_size",
                unit="B",
                scale="log2",
                values=[options.ranks * pieces * options.bytes for pieces in sizes],
            ),
        ],
        parameter=[
            Column(
                name=name,
                kind="ordinal" if stack[name].ordered else "categorical",
                role=stack[name].role,
                values=sorted(values) if stack[name].ordered else values,
                default=DEFAULT[name],
            )
            for name, values in SWEEP.items()
        ],
    )
    save_artifact(to_artifact(make_model("auto").fit(make_table(schema, rows))), bench.model)


def rounds(bench: Bench, best: Settings, shuffle: random.Random) -> Iterator[dict[str, float]]:
    """Online and static runs side by side."""
    options = bench.options
    runs = {
        "default": lambda: bench.static(DEFAULT, options.phases, options.pieces),
        "online": lambda: bench.online(options.phases, options.pieces),
    }
    if best != DEFAULT:
        runs["best"] = lambda: bench.static(best, options.phases, options.pieces)
    for _ in range(options.rounds):
        totals = {who: sum(runs[who]()) for who in shuffle.sample(list(runs), len(runs))}
        phase = totals["default"] / options.phases
        yield {
            **totals,
            "over_best_bound": totals["online"] / (1.15 * totals.get("best", totals["default"]) + 2 * phase),
            "over_default_bound": totals["online"] / (1.05 * totals["default"]),
        }


def spread(values: list[float]) -> dict[str, float]:
    """Median and range."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--folder", default="/dev/shm", help="where the checkpoints are written")
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--mpiexec", default="mpiexec", help="with its options")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--pieces", type=int, default=2048, help="of a rank in a checkpoint")
    parser.add_argument("--bytes", type=int, default=1024, help="of a piece")
    parser.add_argument("--phases", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turns", type=int, default=3, help="of the sweeps")
    parser.add_argument("--sweep-phases", type=int, default=5)
    parser.add_argument("--latency", type=int, default=0, metavar="MICROSECONDS", help="simulated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    shuffle = random.Random(options.seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(options, Path(build), Path(folder))
        train(bench, shuffle)
        swept = sweep(bench, options.pieces, options.turns, shuffle)
        best = min(swept, key=lambda entry: entry[1])[0]
        done = []
        for entry in rounds(bench, best, shuffle):
            done.append(entry)
            sys.stderr.write(json.dumps(entry) + "\n")
    result = {
        "simulated_latency_microseconds": options.latency,
        "ranks": options.ranks,
        "phases": options.phases,
        "bytes_a_phase": options.ranks * options.pieces * options.bytes,
        "sweep_seconds_a_phase": [{**settings, "seconds": seconds} for settings, seconds in swept],
        "best_static": best,
        "rounds": done,
        "over_best_bound": spread([entry["over_best_bound"] for entry in done]),
        "over_default_bound": spread([entry["over_default_bound"] for entry in done]),
        "seconds": time.monotonic() - begin,
    }
    text = json.dumps(result, indent=1)
    if options.json:
        options.json.write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
