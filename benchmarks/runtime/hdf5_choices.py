"""What models choose for programs of parallel HDF5 that were left out of the campaign, before a run and inside one.

    python -m benchmarks.runtime.hdf5_choices --library libstripewise.so --folder FOLDER --latency 500

The campaign measures small programs (tests/fixtures/programs/hdf5_phases.c): many small datasets with attributes,
and compressed tables that are read row by row, both independently. Each program's sweep is
exhaustive, in one launch: every file (phase) has settings of its own, which the plan names by the file's name, in
random order and --repeats times over. So slow changes of the machine fall on all settings alike.

The programs use Debian's HDF5 for Open MPI, with ROMIO. Ranks that wait yield the processor, so that a busy machine
with few cores is measured as well as can be.

Each program in turn is left out. A model of the others then chooses without a run: `prescribe` in Python, and the mode
`predict` inside the program, which is told the same words. The score of a choice is the time of the sweep's best over
that of the choice. The best is picked on the odd repeats, and both are timed on the even ones, so that luck is not
counted.

Then, for the programs of --rounds-of, 60 phases under `online` take turns with the default and the sweep's best
static setting.

With --latency each read and write of the storage waits so long (slow_storage.c): simulated, as the output says.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table
from stripewise.models.tunables import describe_schema

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "tests" / "fixtures" / "programs" / "hdf5_phases.c"
HDF5 = "/usr/lib/x86_64-linux-gnu/hdf5/openmpi"
LAUNCHER = "mpiexec.openmpi --oversubscribe --mca mpi_yield_when_idle 1 --mca io romio321"
STACKS = ("hdf5",)
RANKS, ROWS = 2, 64
KIB, MIB = 1 << 10, 1 << 20
SWEEPS: dict[str, dict[str, list[Any]]] = {
    "write": {
        "hdf5_coll_metadata_write": [False, True],
        "hdf5_meta_block_size": [2 * KIB, MIB],
        "hdf5_alignment": [1, 64 * KIB],
    },
    "read": {"hdf5_chunk_cache": [MIB, 4 * MIB, 16 * MIB]},
}
DEFAULT = {name: values[0] for sweep in SWEEPS.values() for name, values in sweep.items()}
PARAMETERS = {p.name: p for stack in STACKS for p in load_stack(stack).parameters if p.name in DEFAULT}

Settings = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """One program of the family: datasets, and bytes of a transfer."""

    kind: str
    datasets: int
    bytes: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.datasets}x{self.bytes}"

    @property
    def operation(self) -> str:
        return "read" if self.kind == "tables" else "write"

    @property
    def words(self) -> dict[str, Any]:
        """What its user says of it."""
        held = self.datasets * self.bytes * (ROWS if self.kind == "tables" else RANKS)
        together = self.kind == "small"
        return {
            "operation": self.operation,
            "file_size": held,
            "transfer_size": self.bytes,
            "collective": together,
        }


PROGRAMS = [
    *(Program("tables", n, size) for n, size in itertools.product((2, 4), (4 * KIB, 24 * KIB))),
    *(Program("tables", 2, size) for size in (12 * KIB, 80 * KIB)),
    *(Program("alone", n, size) for n, size in itertools.product((16, 40), (KIB, 16 * KIB))),
]
FRESH = [
    *(Program("tables", 3, size) for size in (8 * KIB, 48 * KIB)),
    *(Program("alone", n, size) for n, size in ((24, 4 * KIB), (32, 32 * KIB), (60, 2 * KIB))),
]
"""Programs that nobody looked at while the models were made: those of all ten choose for them."""


def settings_of(sweep: dict[str, list[Any]]) -> list[Settings]:
    """Every combination, the default first."""
    return [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]


def lines(settings: Settings) -> list[str]:
    """What is not the default, as lines of a plan."""
    found = []
    for name, value in settings.items():
        if value != DEFAULT[name]:
            parameter = PARAMETERS[name]
            found.append(Setting(parameter.carrier, parameter.setting, spell(value), parameter.layer).line())
    return found


class Bench:
    """Launches of the programs, timed by the programs themselves."""

    def __init__(self, options: argparse.Namespace, build: Path, folder: Path) -> None:
        self.options, self.build, self.folder = options, build, folder
        self.program = build / "hdf5_phases"
        flags = ["-O2", "-I/usr/include/hdf5/openmpi", str(SOURCE), "-o", str(self.program), f"-L{HDF5}", "-lhdf5"]
        subprocess.run([options.mpicc, *flags], check=True)
        self.libraries = [str(options.library.resolve())]
        if options.latency:
            delay = build / "slow_storage.so"
            source = str(HERE / "slow_storage.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", str(delay), "-ldl"], check=True)
            self.libraries.append(str(delay))

    def run(self, program: Program, phases: int, **environment: str) -> list[float]:
        """The seconds of each phase."""
        if program.operation == "write":
            for old in self.folder.iterdir():
                old.unlink()
        clean = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
        environment |= {"LD_PRELOAD": ":".join(self.libraries), "STRIPEWISE_REPORT": str(self.build / "report")}
        environment |= {"SLOW_STORAGE_MICROSECONDS": str(self.options.latency)} if self.options.latency else {}
        words = [f"{key}={value}" for key, value in environment.items()]
        command = [*shlex.split(self.options.mpiexec), "-n", str(RANKS), "env", *words, str(self.program)]
        prefix = self.folder / program.name
        command += [str(prefix), str(phases), program.kind, str(program.datasets), str(program.bytes)]
        done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=580, check=False)
        if done.returncode != 0 or "stripewise:" in done.stderr:
            sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return [float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("phase ")]

    def planned(self, program: Program, each: Sequence[Settings]) -> list[float]:
        """The seconds of phases with these settings."""
        text = ["stripewise-plan 1"]
        for number, settings in enumerate(each):
            if found := lines(settings):
                text += [f"file */{program.name}.{number:04d}", *found]
        plan = self.build / "plan"
        plan.write_text("\n".join(text) + "\n", "utf-8")
        return self.run(program, len(each), STRIPEWISE_MODE="apply", STRIPEWISE_PLAN=str(plan))

    def sweep(self, program: Program, shuffle: random.Random) -> list[tuple[Settings, list[float]]]:
        """The seconds of each setting, one number a repeat."""
        settings = settings_of(SWEEPS[program.operation])
        order = [
            place for _ in range(self.options.repeats) for place in shuffle.sample(range(len(settings)), len(settings))
        ]
        # The first phase warms up. A table is one file, so that all phases read the same.
        seconds = self.planned(program, [{}, *(settings[place] for place in order)])[1:]
        found: list[list[float]] = [[] for _ in settings]
        for place, second in zip(order, seconds, strict=True):
            found[place].append(second)
        return list(zip(settings, found, strict=True))

    def inside(self, program: Program, model: Path, mode: str, phases: int) -> list[float]:
        """A run that decides by itself."""
        words = " ".join(f"{name}={spell(value)}" for name, value in program.words.items())
        environment = {"STRIPEWISE_MODE": mode, "STRIPEWISE_MODEL": str(model)}
        if mode == "predict":
            environment["STRIPEWISE_WORKLOAD"] = words
        return self.run(program, phases, **environment)

    def applied(self) -> list[str]:
        """What the last run applied to the file of its last phase, as lines of a plan."""
        files = json.loads((self.build / "report").read_text("utf-8"))["files"]
        last = max(files, key=lambda file: file["path"])
        return sorted(f"{s['layer']} {s['key']} {s['given']}" for s in last["settings"] if s["outcome"] == "applied")


def trained(measured: dict[Program, list[tuple[Settings, list[float]]]], model: Path) -> Any:
    """The model of a campaign, and its artifact."""
    columns = {
        name: sorted({p.words[name] for p in measured})
        for name in ("operation", "file_size", "transfer_size", "collective")
    }
    schema = Schema(
        name="hdf5",
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        context=[
            Column(
                name=name,
                role=name,
                kind="ordinal" if name.endswith("_size") else "categorical",
                unit="B" if name.endswith("_size") else "",
                scale="log2" if name.endswith("_size") else "linear",
                values=values,
            )
            for name, values in columns.items()
        ],
        parameter=[
            Column(
                name=name,
                role=PARAMETERS[name].role,
                kind="ordinal" if PARAMETERS[name].ordered else "categorical",
                unit="B" if PARAMETERS[name].ordered else "",
                scale="log2" if PARAMETERS[name].ordered else "linear",
                values=values,
                default=values[0],
            )
            for sweep in SWEEPS.values()
            for name, values in sweep.items()
        ],
    )
    rows = [
        {
            **program.words,
            **DEFAULT,
            **settings,
            "repeat": repeat,
            "bandwidth": program.words["file_size"] / MIB / second,
        }
        for program, swept in measured.items()
        for settings, seconds in swept
        for repeat, second in enumerate(seconds)
    ]
    fitted = make_model("auto").fit(make_table(describe_schema(schema, STACKS), rows))
    save_artifact(to_artifact(fitted), model)
    return fitted


def measured_before(sweeps: Any, program: Program) -> list[tuple[Settings, list[float]]]:
    """The sweep of a program, from the figures that an earlier run wrote."""
    every, swept = settings_of(SWEEPS[program.operation]), sweeps[program.name]
    if [lines(settings) for settings in every] != [one["settings"] for one in swept]:
        raise SystemExit(f"{program.name}: the sweep of the figures has other settings")
    return [(settings, one["seconds"]) for settings, one in zip(every, swept, strict=True)]


def chosen(lines_of_plan: Sequence[str], program: Program) -> int:
    """The place in the sweep of settings as lines of a plan; -1 if they are none of it."""
    for place, settings in enumerate(settings_of(SWEEPS[program.operation])):
        if sorted(lines(settings)) == sorted(lines_of_plan):
            return place
    return -1


def halves(swept: list[tuple[Settings, list[float]]]) -> tuple[int, list[float]]:
    """The place of the best by the odd repeats, and the median of each setting over the even ones."""
    odd = [statistics.median(seconds[1::2]) for _, seconds in swept]
    return odd.index(min(odd)), [statistics.median(seconds[::2]) for _, seconds in swept]


def left_out(
    bench: Bench, measured: dict[Program, list[tuple[Settings, list[float]]]], program: Program
) -> dict[str, Any]:
    """What a model of the other programs chooses for this one."""
    model = bench.build / f"{program.name}.swm"
    fitted = trained({other: swept for other, swept in measured.items() if other != program}, model)
    workload = Workload.model_validate({**program.words, "nodes": 1, "processes_per_node": RANKS, "api": "hdf5"})
    found = Prescriber(fitted).prescribe(PrescriptionRequest(workload))
    bench.inside(program, model, "predict", 1)
    plans = {"prescribe": sorted(s.line() for s in found.plan.settings), "predict": bench.applied()}
    best, seconds = halves(measured[program])
    scores = {}
    for who, plan in plans.items():
        place = chosen(plan, program)
        scores[who] = seconds[best] / seconds[place] if place >= 0 else None
    return {
        "program": asdict(program),
        "best": lines(measured[program][best][0]),
        **plans,
        "seconds_default": seconds[0],
        "seconds_best": seconds[best],
        "default_over_best": seconds[best] / seconds[0],
        "scores": scores,
    }


def rounds(
    bench: Bench,
    swept: list[tuple[Settings, list[float]]],
    program: Program,
    shuffle: random.Random,
    more: Mapping[str, Callable[[], list[float]]] | None = None,
) -> dict[str, Any]:
    """Runs of 60 phases side by side; the model does not know the program.

    Parameters
    ----------
    bench : Bench
    swept : list
        The program's sweep.
    program : Program
    shuffle : random.Random
    more : mapping, optional
        Further runs that take their turns, by name.
    """
    options = bench.options
    medians = [statistics.median(seconds) for _, seconds in swept]
    best = swept[medians.index(min(medians))][0]
    model = bench.build / f"{program.name}.swm"
    runs: dict[str, Callable[[], list[float]]] = {
        "default": lambda: bench.planned(program, [{}] * options.phases),
        "best": lambda: bench.planned(program, [best] * options.phases),
        "online": lambda: bench.inside(program, model, "online", options.phases),
        **(more or {}),
    }
    done = []
    for _ in range(options.rounds):
        entry: dict[str, Any] = {}
        for who in shuffle.sample(list(runs), len(runs)):
            seconds = runs[who]()
            entry[who] = sum(seconds)
            if who == "online":
                entry["kept"] = bench.applied()
                entry["last_twenty"] = statistics.median(seconds[-20:])
            if who == "best":
                entry["best_phase"] = statistics.median(seconds)
        done.append(entry)
        sys.stderr.write(json.dumps({program.name: entry}) + "\n")
    return {
        "program": asdict(program),
        "best": lines(best),
        "rounds": done,
        "online_over_best": [entry["online"] / entry["best"] for entry in done],
        "kept_over_best": [entry["last_twenty"] / entry["best_phase"] for entry in done],
        "online_over_default": [entry["online"] / entry["default"] for entry in done],
    }


def main() -> None:
    """Measure, and print JSON after each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path, required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--folder", default="/dev/shm", help="where the files are written")
    parser.add_argument("--mpicc", default="mpicc.openmpi")
    parser.add_argument("--mpiexec", default=LAUNCHER, help="with its options")
    parser.add_argument("--repeats", type=int, default=6, help="of the sweeps")
    parser.add_argument("--phases", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--rounds-of", nargs="*", metavar="PROGRAM", default=["alone-16x1024", "tables-2x24576", "tables-2x4096"]
    )
    parser.add_argument("--latency", type=int, default=0, metavar="MICROSECONDS", help="simulated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measured", type=Path, metavar="FILE", help="take the sweeps from the figures of before")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    shuffle = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(options, Path(build), Path(folder))
        before = json.loads(options.measured.read_text("utf-8"))["sweeps"] if options.measured else {}
        measured = {}
        for program in (*PROGRAMS, *FRESH):
            measured[program] = (
                measured_before(before, program) if program.name in before else bench.sweep(program, shuffle)
            )
            best, seconds = halves(measured[program])
            sys.stderr.write(f"{program.name}: default {seconds[0]:.4f} s, best {seconds[best]:.4f} s\n")
        result: dict[str, Any] = {
            "simulated_latency_microseconds": options.latency,
            "load_average": os.getloadavg()[0],
            "repeats": options.repeats,
            "left_out": [left_out(bench, {p: measured[p] for p in PROGRAMS}, program) for program in PROGRAMS],
            "fresh": [left_out(bench, {p: measured[p] for p in (*PROGRAMS, program)}, program) for program in FRESH],
            "online": [],
            "sweeps": {
                program.name: [{"settings": lines(settings), "seconds": seconds} for settings, seconds in swept]
                for program, swept in measured.items()
            },
        }
        write(result, options.json)
        for program in PROGRAMS:
            if program.name in options.rounds_of and options.rounds:
                result["online"].append(rounds(bench, measured[program], program, shuffle))
                write(result, options.json)


def write(result: dict[str, Any], target: Path | None) -> None:
    """Print the figures, or write them to a file, where later ones replace them."""
    text = json.dumps(result, indent=1) + "\n"
    if target:
        target.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
