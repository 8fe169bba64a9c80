"""How fast prescriptions are: many workloads at once in Python, one decision in the runtime's C.

    python benchmarks/prescribe/speed.py --models boosting,auto,ann

Trains on a simulated campaign of the seven parameters of the neural-network study (every --thin-th combination), then
times 10,000 workloads of 160 combinations with the Python prescriber, and loading the artifact and one decision of 160
combinations with the C evaluator (medians of --repeats).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.workload import Workload
from stripewise.formats import TUNABLE
from stripewise.models.artifact.content import Artifact
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table

ROOT = Path(__file__).resolve().parents[2]
MIB, GIB = 1 << 20, 1 << 30
SOURCES = (
    "input.c",
    "model.c",
    "model_trees.c",
    "model_predict.c",
    "model_choose.c",
)
TUNABLES: dict[str, list[Any]] = {
    "stripe_count": [1, 4, 8, 16],
    "stripe_size": [MIB, 4 * MIB, 64 * MIB, 512 * MIB, 2 * GIB],
    "transfer_size": [256 * MIB, 512 * MIB, GIB, 2 * GIB],
    "collective": [False, True],
}
CONTEXTS: dict[str, list[Any]] = {
    "nodes": [2, 4, 8, 16],
    "processes_per_node": [1, 2, 4, 8],
    "file_size": [n * GIB for n in (1, 2, 4, 8, 16, 32)],
}


def table(thin: int, seed: int) -> Table:
    """A table with the study's shape: a made-up law with noise, for timing only."""

    def column(name: str, values: list[Any]) -> Column:
        kind = "categorical" if isinstance(values[0], bool) else "ordinal"
        unit, scale = ("B" if name.endswith("_size") else ""), ("linear" if kind == "categorical" else "log2")
        return Column(name=name, kind=kind, role=name, unit=unit, scale=scale, values=values)

    schema = Schema(
        name="timing",
        description="simulated: a law made up for timing",
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        context=[column(name, values) for name, values in CONTEXTS.items()],
        parameter=[column(name, values) for name, values in TUNABLES.items()],
    )
    grid = np.stack(np.meshgrid(*(range(len(c.values)) for c in schema.columns), indexing="ij"), axis=-1).reshape(
        -1, len(schema.columns)
    )
    rng = np.random.default_rng(seed)
    rows = []
    for levels in grid[rng.permutation(len(grid))[:: thin or 1]]:
        row: dict[str, Any] = {c.name: c.values[int(v)] for c, v in zip(schema.columns, levels, strict=True)}
        clients = row["nodes"] * min(row["processes_per_node"] * 400, 900)
        stripes = row["stripe_count"] * 350 / (1 + 0.1 * np.log2(row["stripe_size"] / MIB))
        rate = 1 / (1 / clients + 1 / stripes) * (0.8 if row["collective"] else 1.0)
        rows.append({**row, "bandwidth": rate * np.exp(0.1 * rng.normal())})
    return make_table(schema, rows, "timing")


def compile_evaluator(folder: Path) -> ctypes.CDLL:
    """Build the C evaluator with the options of CMakeLists.txt."""
    compiler = shutil.which("cc") or "gcc"
    include = ["-I", str(ROOT / "native" / "include"), "-I", str(ROOT / "native" / "core")]
    objects = []
    for name in SOURCES:
        made = folder / f"{name}.o"
        level = "-O3" if name == "model_predict.c" else "-O2"
        options = ["-std=c11", level, "-ffp-contract=off", "-fPIC", "-c"]
        subprocess.run(
            [compiler, *options, *include, str(ROOT / "native" / "core" / name), "-o", str(made)], check=True
        )
        objects.append(str(made))
    library = folder / "libmodel.so"
    subprocess.run([compiler, "-shared", "-o", str(library), *objects, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.sw_model_read.restype = loaded.sw_model_choose.restype = ctypes.c_bool
    return loaded


def native(library: ctypes.CDLL, artifact: Artifact, path: Path, repeats: int) -> dict[str, Any]:
    """Medians of loading and deciding in C; the first decision is the cold one."""
    error = ctypes.create_string_buffer(256)
    loads, colds, decisions = [], [], []
    # Words of the workload are true: it writes.
    row = np.array([entry.values[entry.default].number if entry.values else 1.0 for entry in artifact.inputs])
    choice = ctypes.create_string_buffer(4096)
    pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    evict = np.zeros(8 << 20)
    for _ in range(repeats):
        model = ctypes.create_string_buffer(4096)
        start = time.perf_counter()
        if not library.sw_model_read(str(path).encode(), model, error, ctypes.c_size_t(256)):
            raise SystemExit(error.value.decode())
        loads.append(time.perf_counter() - start)
        evict += 1.0  # 64 MiB: what was cached is not any more
        start = time.perf_counter()
        library.sw_model_choose(model, pointer, choice, error, ctypes.c_size_t(256))
        colds.append(time.perf_counter() - start)
        start = time.perf_counter()
        library.sw_model_choose(model, pointer, choice, error, ctypes.c_size_t(256))
        decisions.append(time.perf_counter() - start)
        library.sw_model_free(model)
    combinations = ctypes.c_size_t.from_buffer(choice).value
    return {
        "bytes": path.stat().st_size,
        "combinations": combinations,
        "load_us": 1e6 * statistics.median(loads),
        "cold_decision_us": 1e6 * statistics.median(colds),
        "decision_us": 1e6 * statistics.median(decisions),
    }


def python(model: Any, workloads: int, seed: int) -> dict[str, Any]:
    """Time of all decisions together, with workloads that were never measured."""
    rng = np.random.default_rng(seed)
    requests = []
    for _ in range(workloads):
        nodes, each = int(rng.integers(2, 17)), int(rng.integers(1, 9))
        size = int(rng.integers(1, 33) * GIB)
        workload = Workload(operation="write", nodes=nodes, processes_per_node=each, file_size=size)
        current = {name: values[0] for name, values in TUNABLES.items()}
        requests.append(PrescriptionRequest(workload, current))
    start, used = time.perf_counter(), time.process_time()
    Prescriber(model).everything(requests)
    return {
        "workloads": workloads,
        "combinations": 160,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - used,
    }


def every_setting(artifact: Artifact) -> Artifact:
    """The artifact with all 160 combinations free, as for a program that can change its calls."""
    from dataclasses import replace  # noqa: PLC0415

    inputs = tuple(replace(e, free=None) if e.kind == TUNABLE else e for e in artifact.inputs)
    return replace(artifact, inputs=inputs)


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="boosting,auto")
    parser.add_argument("--thin", type=int, default=1, help="keep every N-th of the 15,360 combinations")
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=51)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    made = table(options.thin, options.seed)
    found: dict[str, Any] = {"rows": len(made), "simulated": True}
    with tempfile.TemporaryDirectory() as folder:
        library = compile_evaluator(Path(folder))
        for name in options.models.split(","):
            start = time.perf_counter()
            model = make_model(name).fit(made, options.seed)
            seconds = time.perf_counter() - start
            path = Path(folder) / f"{name}.swm"
            artifact = every_setting(to_artifact(model))
            save_artifact(artifact, path)
            found[name] = {
                "fit_seconds": seconds,
                "python": python(model, options.workloads, options.seed),
                "c": native(library, artifact, path, options.repeats),
            }
            sys.stderr.write(f"{name}: {json.dumps(found[name])}\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
