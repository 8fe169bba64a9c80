# ruff: noqa: E501  texts of the page
"""Data sieving where it matters: on the test bed's CephFS, where each request passes through the client's file system."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies import class_errors, sweep
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
    rows = table.with_name(f"{table.name}-rows.csv")
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["operation", "piece_size", "hole_size", "sieving", "repeat", "bandwidth"])
        for key, own in zip(listed, values, strict=True):
            writer.writerows([*key, repeat, round(value, 6)] for repeat, value in enumerate(own))
    form = schema(table.name, "on CephFS, nothing of the file in the client's cache", blocks, holes)
    stripewise("table", "import", rows, "--schema", write_toml(table.with_name("sieved-schema.toml"), form), "--out", table)  # fmt: skip
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


def bed(study: Study, site: Any) -> None:
    """On the test bed: predict, and judge static choices and trees, as with the simulated runs."""
    from benchmarks.studies import ai_for_io as study_of  # noqa: PLC0415  which calls this module

    table, prediction = study.work / "sieved", study.work / "sieved-medians"
    folder = site.folder.name
    file, other = (site.bed.ceph.mount(client) / folder / "sieved" for client in (1, 2))
    study.step(
        "bed sieving",
        lambda: measured(study, file, other, table),
        "measured",
        (table.with_suffix(".csv"),),
        blocks=study.size(BLOCKS, BLOCKS[::16]), holes=study.size(HOLES, HOLES[::11]), pieces=PIECES,
    )  # fmt: skip
    models, folds = study.size(study_of.MODELS, ("linear", "tree")), study.size(study_of.FOLDS, (2,))
    study.step(
        "bed sieving errors",
        lambda: {
            "baseline": study_of.baseline(study_of.medians(table, prediction)),
            "models": study_of.errors(prediction, models, folds, 0),
        },
        "measured",
        models=models, folds=folds, seed=0,
    )  # fmt: skip
    study.step("bed sieving clear", lambda: clear(table), "measured")
    if not study.quick:
        # One repeat alone has no others.
        study.step("bed sieving scatter", lambda: class_errors.scatter(table), "measured")
    depths, groups = study.size("1-6", "1-2"), study.size(8, 2)
    study.step(
        "bed sieving choices",
        lambda: study_of.judged_choices(table, depths, groups),
        "measured",
        depths=depths, groups=groups,
    )  # fmt: skip
