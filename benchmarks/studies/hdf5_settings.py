# ruff: noqa: E501  texts of the page
"""What each setting of parallel HDF5 brings for real: every combination on the test bed's CephFS, with repeats in turn."""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.studies import sweep
from benchmarks.studies.steps import Study, stripewise, write_toml

KIB, MIB = 1 << 10, 1 << 20
RANKS = 2
WORKLOADS = {"few large": (64 * KIB, 8 * MIB, 2 * MIB), "many small": (4 * KIB, 2 * MIB, 32 * KIB)}
"""Bytes of a piece, of a rank, and of a rank in one dataset: four datasets of 4 MiB, and 64 of 64 KiB."""
SETTINGS: dict[str, tuple[str, tuple[Any, Any]]] = {
    "striping": ("stripes", (1, 4)),
    "alignment": ("hdf5_alignment", (1, MIB)),
    "chunking": ("hdf5_chunk", (0, 4)),
    "metadata": ("hdf5_collective_metadata", (0, 1)),
}
"""Name in ``sweep.c`` and the values, the default first. A chunk has four rows of all ranks' pieces."""
_SURE = 2.0
"""Standard errors on each side of an effect: 95%."""
Choice = tuple[Any, ...]
Values = Mapping[tuple[str, str, Choice], Sequence[float]]
"""Bandwidths of each combination by operation and workload, one per round."""


def runs() -> dict[tuple[str, str, Choice], sweep.Run]:
    """Writes and reads of both workloads with every combination."""
    found = {}
    for way, (name, (piece, total, call)) in itertools.product(("write", "read"), WORKLOADS.items()):
        for chosen in itertools.product(*(values for _, values in SETTINGS.values())):
            own = dict(zip((key for key, _ in SETTINGS.values()), chosen, strict=True))
            if own.pop("stripes") > 1:
                own |= {"ceph_stripe_count": 4, "ceph_stripe_unit": MIB}
            found[way, name, chosen] = sweep.Run(way, "hdf5", True, piece, 0, total, call, own)
    return found


def schema(name: str) -> dict[str, Any]:
    """Of the table of all runs."""
    parameters = [
        {"name": key, "kind": "ordinal", "values": list(values), "default": values[0]} for key, values in SETTINGS.values()
    ]  # fmt: skip
    return {
        "name": name,
        "description": "Measured: parallel HDF5 by two ranks on CephFS",
        "source": "python -m benchmarks.studies sctuner",
        "license": "CC0-1.0",
        "complete": True,
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [
            {"name": "operation", "kind": "categorical", "role": "operation", "values": ["write", "read"]},
            {"name": "datasets", "kind": "categorical", "values": list(WORKLOADS)},
        ],
        "parameter": parameters,
    }


def bed(study: Study, site: Any) -> None:
    """Measure on the test bed, and summarise."""
    rounds = study.size(5, 2)
    table = study.kept / "hdf5-settings"
    study.step(
        "bed hdf5 runs",
        lambda: _measured(study, site, table, rounds),
        "measured",
        (table.with_suffix(".csv"),),
        workloads=WORKLOADS, settings=SETTINGS, ranks=RANKS, rounds=rounds,
    )  # fmt: skip
    study.step("bed hdf5 settings", lambda: summary(table), "measured")


def _measured(study: Study, site: Any, table: Path, rounds: int) -> dict[str, Any]:
    listed = runs()
    file, other = (site.bed.ceph.mount(client) / site.folder.name / "hdf5" for client in (1, 2))
    values = sweep.measured(
        sweep.built(study.work, hdf5=True), list(listed.values()), file, study.work, ranks=RANKS, rounds=rounds, other=other
    )  # fmt: skip
    rows = study.work / "hdf5-settings-rows.csv"
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["operation", "datasets", *(key for key, _ in SETTINGS.values()), "repeat", "bandwidth"])
        for (way, name, chosen), own in zip(listed, values, strict=True):
            writer.writerows([way, name, *chosen, repeat, round(value, 4)] for repeat, value in enumerate(own))
    form = write_toml(study.work / "hdf5-settings-schema.toml", schema(table.name))
    stripewise("site", "table", "import", rows, "--schema", form, "--out", table)
    return {"runs": sum(map(len, values)), "repeats": rounds}


def summary(table: Path) -> dict[str, Any]:
    """What each setting brings, clusters, and the dependable setting of each operation."""
    told = stripewise("site", "summarize", table)["operations"]
    values = read(table)
    workloads = [_split(values, way, name) for way in ("write", "read") for name in WORKLOADS]
    dependable = {}
    for way, one in told.items():
        acting = {
            setting
            for own in workloads
            for setting, effect in own["effects"].items()
            if own["operation"] == way and not effect["low"] <= 1 <= effect["high"]
        }
        best = one["consistent"][0]
        dependable[way] = {
            "settings": {name: best["configuration"][key] for name, (key, _) in SETTINGS.items() if name in acting},
            "low": best["low"],
            "random": statistics.mean(other["low"] for other in one["consistent"]),
            "of": len(one["consistent"]),
        }
    return {
        "clusters": {
            way: {"count": one["clusters"]["count"], "silhouettes": one["clusters"]["silhouettes"]}
            for way, one in told.items()
            if one["clusters"]
        },
        "workloads": workloads,
        "dependable": dependable,
    }


def read(table: Path) -> Values:
    """The measured bandwidths of a table."""
    found: dict[tuple[str, str, Choice], list[float]] = defaultdict(list)
    with table.with_suffix(".csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            chosen = tuple(int(row[key]) for key, _ in SETTINGS.values())
            found[row["operation"], row["datasets"], chosen].append(float(row["bandwidth"]))
    return found


def _split(values: Values, way: str, name: str) -> dict[str, Any]:
    """What each setting brings, over all combinations of the others; and the scatter of the runs."""
    own = {chosen: value for (operation, workload, chosen), value in values.items() if (operation, workload) == (way, name)}  # fmt: skip
    usual = tuple(first for _, (first, _) in SETTINGS.values())
    effects = {}
    for place, setting in enumerate(SETTINGS):
        first, second = SETTINGS[setting][1]
        logs = [
            math.log(changed / plain)
            for chosen in own
            if chosen[place] == first
            for changed, plain in zip(own[(*chosen[:place], second, *chosen[place + 1 :])], own[chosen], strict=True)
        ]
        middle, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
        low, high = (math.exp(middle + side * _SURE * error) for side in (-1, 1))
        effects[setting] = {"ratio": math.exp(middle), "low": low, "high": high}
    return {
        "operation": way,
        "workload": name,
        "default": statistics.median(own[usual]),
        "effects": effects,
        "pairs": len(logs),
        "scatter": statistics.median(statistics.stdev(value) / statistics.mean(value) for value in own.values()),
    }
