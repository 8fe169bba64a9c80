"""What a prescription at MPI_File_open costs a job: the decision on rank 0, its broadcast, and the open, apart.

    python -m benchmarks.runtime.decision --library libstripewise.so --kernel stripewise-kernel --mpiexec mpiexec

Each repeat is a new job of the benchmark program that creates one file, under mode observe and under mode predict, in
random order; the figures are those of the runtime's report. A job's first decision loads the artifact as well, and its
code and data come from the page cache: that is what a program sees. How long a decision takes without all that, and
loading alone, is measured by benchmarks/prescribe/speed.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.prescribe.speed import every_setting, table

from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.registry import make_model


def job(options: argparse.Namespace, folder: Path, model: Path | None) -> dict[str, Any]:
    """One run; its file as the report tells of it."""
    report, file = folder / "report.json", folder / "data"
    file.unlink(missing_ok=True)
    environment = {"LD_PRELOAD": options.library, "STRIPEWISE_REPORT": str(report), "STRIPEWISE_MODE": "observe"}
    if model is not None:
        environment |= {"STRIPEWISE_MODE": "predict", "STRIPEWISE_MODEL": str(model)}
    words = [f"{key}={value}" for key, value in environment.items()]
    command = [*shlex.split(options.mpiexec), "-n", str(options.ranks), "env", *words, options.kernel]
    command += [
        *shlex.split("--api mpiio --write --collective --transfer 64k --block 64k"),
        "--file",
        str(file),
    ]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
    done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    (seen,) = json.loads(report.read_text())["files"]
    return dict(seen)


def microseconds(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": 1e6 * middle, "low": 1e6 * low, "high": 1e6 * high}


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--kernel", required=True, help="stripewise-kernel, built with the same MPI")
    parser.add_argument("--mpiexec", default="mpiexec", help="with its options")
    parser.add_argument("--models", default="boosting,auto")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--thin", type=int, default=4, help="train on every N-th of 15,360 rows")
    options = parser.parse_args()
    made = table(options.thin, 0)
    shuffle = random.Random(0)
    found: dict[str, Any] = {"ranks": options.ranks, "repeats": options.repeats, "simulated": "the model's table"}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models: dict[str, Path | None] = {"observe": None}
        for name in options.models.split(","):
            models[name] = path = folder / f"{name}.swm"
            save_artifact(every_setting(to_artifact(make_model(name).fit(made, 0))), path)
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in models}
        for repeat in range(options.repeats + 1):
            for name in shuffle.sample(list(models), len(models)):
                seen = job(options, folder, models[name])
                if repeat:  # the first turn warms up
                    runs[name].append(seen)
    for name, seen_in in runs.items():
        found[name] = {"open_us": microseconds([seen["operations"]["open"]["time_max"] for seen in seen_in])}
        if name != "observe":
            choices = [seen["decision"] for seen in seen_in]
            found[name] |= {
                "combinations": choices[0]["combinations"],
                "load_and_decide_us": microseconds([choice["seconds"] for choice in choices]),
                "broadcast_us": microseconds([choice["broadcast_seconds"] for choice in choices]),
            }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
