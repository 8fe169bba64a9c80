"""Does tune find what an exhaustive sweep finds? On real ROMIO and OMPIO, with interleaved re-measurement.

Every distinct configuration of a program under an MPI is run once (the sweep), `stripewise tune` searches the same
space within 40 launches, and then the sweep's ten best, tune's answer and the default are run 15 times each in
interleaved, shuffled rounds. The figure is the median of tune's answer over the best median among the ten.

    python benchmarks/real_romio/run.py --label mpich --programs kernel,c --kernel KERNEL --folder /dev/shm
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.space import Circumstances, bind_space
from stripewise.requests.experiment import Experiment
from stripewise.trial import Role

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real_programs"))

from launching import carry_out, interleaved  # noqa: E402

BEST = 10


@dataclass(frozen=True)
class Case:
    """A program under an MPI."""

    name: str
    command: list[str]
    stacks: list[str]
    file: Path
    workload: dict[str, Any]


def experiment_of(
    case: Case, narrow: dict[str, Any], *, sampler: str, budget: int, pairs: int | None, seed: int
) -> Experiment:
    return Experiment.model_validate(
        {
            "name": case.name,
            "command": case.command,
            "stacks": case.stacks,
            "objective": "write_bandwidth",
            "sampler": sampler,
            "resampling": {"kind": "none"} if sampler == "exhaustive" else {},
            "budget": budget,
            "confirmation": {"pairs": pairs},
            "hooks": {"delete": [str(case.file)]},
            "parameters": narrow,
            "workload": case.workload,
            "seed": seed,
        }
    )


def study(case: Case, narrow: dict[str, Any], folder: Path, repeats: int, seed: int) -> dict[str, Any]:
    store_url = f"sqlite:///{folder}/benchmark.db"
    tuned_experiment = experiment_of(case, narrow, sampler="auto", budget=40, pairs=None, seed=seed)
    tuned, _ = carry_out(tuned_experiment, store_url, folder)
    distinct = tuned.space.distinct
    print(f"{case.name}: tuned with {tuned.runs} launches; now {distinct} to sweep", file=sys.stderr)
    swept, trials = carry_out(
        experiment_of(case, narrow, sampler="exhaustive", budget=distinct + 2, pairs=0, seed=seed), store_url, folder
    )
    print(f"{case.name}: swept; now {(BEST + 2) * repeats} interleaved", file=sys.stderr)
    space = bind_space(tuned_experiment, Circumstances(swept.workload, tuned.environment.get("io"))).space
    ranked = sorted(
        (trial for trial in trials if trial.value is not None and trial.role is Role.CANDIDATE),
        key=lambda trial: -float(trial.value or 0.0),
    )
    arms = {f"sweep {place + 1}": trial.configuration for place, trial in enumerate(ranked[:BEST])}
    found = tuned.best.configuration if tuned.confirmed else dict(space.default)
    arms |= {"tune": Configuration(found), "default": space.default}
    values: dict[str, list[float]] = {name: [] for name in arms}
    for name, _, value in interleaved(tuned_experiment, space, arms, repeats, folder / "interleaved"):
        if value is not None:
            values[name].append(value)
    # tune's answer is often one of the sweep's ten, or the default: one configuration has one median, of all its runs.
    pooled = {
        name: [run for other, runs in values.items() if arms[other] == configuration for run in runs]
        for name, configuration in arms.items()
    }
    medians = {name: statistics.median(runs) for name, runs in pooled.items() if runs}
    interval = tuned.speedup_interval
    best = max(value for name, value in medians.items() if name.startswith("sweep"))
    swept_values = [float(trial.value) for trial in trials if trial.value is not None]
    return {
        "case": case.name,
        "distinct": distinct,
        "swept": len(swept_values),
        "sweep_range": [min(swept_values), max(swept_values)],
        "launches": tuned.runs,
        "seconds": tuned.seconds,
        "confirmed": tuned.confirmed,
        "speedup": tuned.speedup,
        "speedup_ci95": interval and [interval.low, interval.high],
        "found": found,
        "settings": tuned.settings,
        "median_default": medians["default"],
        "median_tune": medians["tune"],
        "median_best_of_sweep": best,
        "share_of_best": medians["tune"] / best,
        "repeats": repeats,
        "values": values,
    }


def build(source: Path, compiler: str, folder: Path) -> str:
    program = folder / f"{source.stem}-{source.suffix[1:]}"
    subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return str(program)


def cases(options: argparse.Namespace, folder: Path) -> list[Case]:
    prefix = [options.mpiexec, *options.mpiexec_options.split(), "-n", str(options.ranks)]
    found = []
    for name in options.programs.split(","):
        file = folder / f"{name}.dat"
        if name == "kernel":
            words = [
                options.kernel,
                "--api",
                "mpiio",
                "--write",
                "--collective",
                "--layout",
                "strided",
                "--piece",
                "1k",
            ]
            words += ["--size", f"{options.mebibytes}m", "--file", str(file)]
        elif name == "c":
            words = [
                build(HERE / "programs" / "checkpoint.c", options.mpicc, folder),
                str(file),
                str(options.mebibytes),
            ]
        else:
            source = HERE / "programs" / "checkpoint.f90"
            words = [build(source, options.mpifort, folder), str(file), str(options.mebibytes)]
        found.append(
            Case(
                f"{options.label}/{name}",
                [*prefix, *words],
                options.stack.split(","),
                file,
                json.loads(options.workload),
            )
        )
    return found


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="mpich", help="name of the MPI in the table")
    parser.add_argument("--stack", default="romio")
    parser.add_argument("--programs", default="kernel,c", help="of kernel, c, fortran")
    parser.add_argument("--mpiexec", default=str(Path(sys.executable).parent / "mpiexec"))
    parser.add_argument("--mpiexec-options", default="", help="as for Open MPI: '--oversubscribe --mca io romio341'")
    parser.add_argument("--mpicc", default=str(Path(sys.executable).parent / "mpicc"))
    parser.add_argument("--mpifort", default="mpifort")
    parser.add_argument("--kernel", help="stripewise-kernel built with this MPI")
    parser.add_argument("--narrow", default="{}", help="[parameters] as JSON, where the sweep would take too long")
    parser.add_argument(
        "--workload", default="{}", help="[workload] as JSON: what a user would declare, so that fewer points differ"
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--mebibytes", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", default="/dev/shm", help="where the files are written")
    parser.add_argument("--out", type=Path, default=HERE / "results.json", help="results are added to this file")
    options = parser.parse_args()
    narrow = json.loads(options.narrow)
    folder = Path(tempfile.mkdtemp(prefix="stripewise-romio-", dir=options.folder))
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    try:
        for case in cases(options, folder):
            row = {
                **study(case, narrow, folder, options.repeats, options.seed),
                "machine": machine(),
                "folder": options.folder,
            }
            results = [old for old in results if old["case"] != row["case"]] + [row]
            options.out.write_text(json.dumps(results, indent=1) + "\n")
            interval = row["speedup_ci95"] or [math.nan, math.nan]
            print(
                f"{row['case']}: {row['launches']} launches, x{row['speedup']:.2f} "
                f"({interval[0]:.2f} to {interval[1]:.2f}), {row['share_of_best']:.1%} of the best of {row['distinct']}"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
