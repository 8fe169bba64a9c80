# ruff: noqa: E501  texts of the page
"""Data sieving for real: one process, blocks with holes, in memory; and causes from time alone."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import ROOT, Study, StudyError, in_memory, stripewise, write_toml

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
PIECES = 256
BLOCKS = [4 << i for i in range(17)]
"""4 bytes to 256 KiB."""
HOLES = [16 << i for i in range(12)]
"""16 bytes to 32 KiB; with the blocks and sieving on and off 408 configurations an operation."""


def built(work: Path) -> Path:
    """Compile the program with the MPI beside this Python."""
    program = work / "holes"
    command = [str(BIN / "mpicc"), "-O2", "-Wall", "-Werror", "-o", str(program), str(HERE / "holes.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(command)}: {done.stderr.strip()}")
    return program


def campaign(program: Path, blocks: Sequence[int], holes: Sequence[int], repeats: int) -> dict[str, Any]:
    """Every block and hole, sieved and not."""
    return {
        "name": "sieving-real",
        "program": "command",
        "launcher": [str(BIN / "mpiexec"), "-n", "1"],
        "command": [str(program), "{file}", "{operation}", "{piece_size}", "{hole_size}", str(PIECES)],
        "stacks": ["romio"],
        "operations": ["read", "write"],
        "objective": "regex:bandwidth: ([0-9.]+) MiB/s",
        "direction": "maximize",
        "unit": "MiB/s",
        "repeats": repeats,
        "workload": [
            {"name": "layout", "values": ["strided"]},
            {"name": "collective", "values": [False]},
            {"name": "piece_size", "values": list(blocks)},
            {"name": "hole_size", "role": "other", "unit": "B", "values": list(holes)},
        ],
        "tunable": [{"name": f"romio_ds_{way}", "values": ["enable", "disable"]} for way in ("read", "write")],
    }


def profiled(study: Study, out: Path, blocks: Sequence[int], holes: Sequence[int], repeats: int) -> dict[str, Any]:
    """Measure, and make one table with the column ``sieving``."""
    plan = write_toml(study.work / "sieving-campaign.toml", campaign(built(study.work), blocks, holes, repeats))
    raw = study.work / "sieving-runs"
    with in_memory(study) as folder:
        told = stripewise(
            "site", "profile", plan, "--folder", folder, "--journal", study.work / "sieving-journal", "--out", raw
        )
    rows = study.work / "sieving-rows.csv"
    with raw.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        listed = list(csv.DictReader(stream))
    objective = next(name for name in listed[0] if name in ("bandwidth", "objective", "value"))
    names = ["operation", "piece_size", "hole_size", "sieving", "repeat", "bandwidth"]
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, names, extrasaction="ignore")
        writer.writeheader()
        for row in listed:
            off = row[f"romio_ds_{row['operation']}"] == "disable"
            writer.writerow({**row, "sieving": "disable" if off else "enable", "bandwidth": row[objective]})
    form = schema(out.name, "in the memory of one machine", blocks, holes)
    stripewise(
        "site", "table", "import", rows, "--schema", write_toml(study.work / "sieving-schema.toml", form), "--out", out
    )
    return {
        "configurations": 2 * len(blocks) * len(holes),
        "runs": told["runs"],
        "text": (
            f"One process reads and writes {PIECES} blocks of {blocks[0]} B to {blocks[-1] // 1024} KiB with holes of {holes[0]} B to {holes[-1] // 1024} KiB through ROMIO of MPICH, files in memory: "
            f"{2 * len(blocks) * len(holes)} configurations per operation with sieving on (the default) and off, {repeats} repeats, {told['runs']['failed']} of {told['runs']['planned']} runs failed. "
            "Layouts do not apply."
        ),
    }


def schema(name: str, where: str, blocks: Sequence[int], holes: Sequence[int]) -> dict[str, Any]:
    """Of a table of measured runs with sieving on and off."""
    return {
        "name": name,
        "description": f"Measured: one process, blocks with holes, {where}",
        "source": "python -m benchmarks.studies ai-for-io",
        "license": "CC0-1.0",
        "complete": True,
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [
            {"name": "operation", "kind": "categorical", "role": "operation", "values": ["read", "write"]},
            {"name": "piece_size", "kind": "ordinal", "role": "piece_size", "unit": "B", "scale": "log2",
             "values": list(blocks)},
            {"name": "hole_size", "kind": "ordinal", "role": "other", "unit": "B", "scale": "log2",
             "values": list(holes)},
        ],
        "parameter": [
            {"name": "sieving", "kind": "categorical", "role": "data_sieving", "values": ["enable", "disable"],
             "default": "enable"},
        ],
    }  # fmt: skip


def residency(folder: Path, kept: Path, count: int) -> dict[str, Any]:
    """Cached reads told from uncached ones by their time, as ``benchmarks/diagnosis/residency.py`` does it.

    The calibration, the times and the page that ``site causes`` makes of them stay in ``kept``.
    """
    kept.mkdir(exist_ok=True)
    program = ROOT / "benchmarks" / "diagnosis" / "residency.py"
    command = [
        sys.executable,
        str(program),
        "--folder",
        str(folder),
        "--count",
        str(count),
        "--seed",
        "1",
        "--keep",
        str(kept),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    calibration, page = kept / "calibration.json", kept / "causes.html"
    told = stripewise("site", "causes", kept / "timings.csv", "--calibration", calibration, "--report", page)
    clusters = Counter((one["operation"], one["size"]) for one in told["factors"])
    return found | {
        "page": {
            **{name: told[name] for name in ("operations", "counts", "seconds", "best_case_seconds")},
            "anomalies": {one["cause"]: one["count"] for one in told["anomalies"]},
            "clusters": list(clusters.values()),
            "rules": told["rules"]["accuracy"],
        }
    }
