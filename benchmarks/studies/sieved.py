# ruff: noqa: E501  texts of the page
"""Data sieving where it matters: on the test bed's CephFS, where each request passes through the client's file system."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies import sweep
from benchmarks.studies.holes import BLOCKS, HOLES, schema
from benchmarks.studies.steps import Study, stripewise, write_toml

PIECES = 64
SIEVING = ("enable", "disable")


def runs(blocks: Sequence[int], holes: Sequence[int]) -> dict[tuple[str, int, int, str], sweep.Run]:
    """One process; every block and hole, sieved and not."""
    return {
        (way, block, hole, sieving): sweep.Run(
            way, "mpiio", False, block, hole, PIECES * block, PIECES * block, {f"romio_ds_{way}": sieving}
        )
        for way in ("read", "write")
        for block in blocks
        for hole in holes
        for sieving in SIEVING
    }


def measured(study: Study, file: Path, other: Path, table: Path) -> dict[str, Any]:
    """Measure all, and make a table of it.

    Parameters
    ----------
    file, other : Path
        The file by one client and by another, which makes it: what is read comes from the OSDs.
    """
    blocks, holes = study.size(BLOCKS, BLOCKS[::16]), study.size(HOLES, HOLES[::11])
    listed, rounds = runs(blocks, holes), study.size(3, 1)
    values = sweep.measured(
        sweep.built(study.work), list(listed.values()), file, study.work, ranks=1, rounds=rounds, other=other
    )
    rows = study.work / "sieved-rows.csv"
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["operation", "piece_size", "hole_size", "sieving", "repeat", "bandwidth"])
        for key, own in zip(listed, values, strict=True):
            writer.writerows([*key, repeat, round(value, 6)] for repeat, value in enumerate(own))
    form = schema(table.name, "on CephFS, nothing of the file in the client's cache", blocks, holes)
    stripewise("site", "table", "import", rows, "--schema", write_toml(study.work / "sieved-schema.toml", form), "--out", table)  # fmt: skip
    medians = {key: statistics.median(own) for key, own in zip(listed, values, strict=True)}
    gains = {
        way: [medians[way, block, hole, "enable"] / medians[way, block, hole, "disable"] for block in blocks for hole in holes]
        for way in ("read", "write")
    }  # fmt: skip
    return {
        "runs": sum(map(len, values)),
        "patterns": len(listed) // 2,
        "repeats": rounds,
        "gains": {
            way: {
                "better": sum(ratio > 1 for ratio in own), "of": len(own), "least": min(own), "most": max(own),
                "median": statistics.median(own),
            }
            for way, own in gains.items()
        },
    }  # fmt: skip


def clear(table: Path) -> dict[str, dict[str, int]]:
    """Of each operation: in how many patterns every run with sieving beats every run without it, and the reverse."""
    values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    with table.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            key = (row["operation"], row["piece_size"], row["hole_size"])
            values.setdefault(key, {name: [] for name in SIEVING})[row["sieving"]].append(float(row["bandwidth"]))
    found: dict[str, dict[str, int]] = {}
    for (way, *_), own in values.items():
        told = found.setdefault(way, {"of": 0, **dict.fromkeys(SIEVING, 0)})
        told["of"] += 1
        for name, other in zip(SIEVING, SIEVING[::-1], strict=True):
            told[name] += min(own[name]) > max(own[other])
    return found
