# ruff: noqa: E501  texts of the page
"""What each setting of parallel HDF5 brings for real: every combination on the test bed's CephFS, with repeats in turn."""

from __future__ import annotations

import csv
import itertools
import statistics
from collections.abc import Mapping, Sequence
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
ACTS = 0.05
"""A setting acts where it moves the median by more than this share."""
Choice = tuple[Any, ...]


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
    rounds = study.size(5, 1)
    study.step(
        "bed hdf5 settings",
        lambda: _measured(study, site, rounds),
        "measured",
        workloads=WORKLOADS, settings=SETTINGS, ranks=RANKS, rounds=rounds,
    )  # fmt: skip


def _measured(study: Study, site: Any, rounds: int) -> dict[str, Any]:
    listed = runs()
    file, other = (site.bed.ceph.mount(client) / site.folder.name / "hdf5" for client in (1, 2))
    values = sweep.measured(
        sweep.built(study.work, hdf5=True), list(listed.values()), file, study.work, ranks=RANKS, rounds=rounds, other=other
    )  # fmt: skip
    table = study.work / "hdf5-settings"
    rows = table.with_name("hdf5-settings-rows.csv")
    with rows.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["operation", "datasets", *(key for key, _ in SETTINGS.values()), "repeat", "bandwidth"])
        for (way, name, chosen), own in zip(listed, values, strict=True):
            writer.writerows([way, name, *chosen, repeat, round(value, 4)] for repeat, value in enumerate(own))
    form = write_toml(table.with_name("hdf5-settings-schema.toml"), schema(table.name))
    stripewise("table", "import", rows, "--schema", form, "--out", table)
    told = stripewise("summarize", table)["operations"]
    medians = {key: statistics.median(own) for key, own in zip(listed, values, strict=True)}
    return {
        "runs": sum(map(len, values)),
        "repeats": rounds,
        "clusters": {
            way: {"count": one["clusters"]["count"], "silhouettes": one["clusters"]["silhouettes"]}
            for way, one in told.items()
            if one["clusters"]
        },
        "workloads": [_split(medians, way, name) for way in ("write", "read") for name in WORKLOADS],
        "dependable": {
            way: {"configuration": one["consistent"][0]["configuration"], "low": one["consistent"][0]["low"]}
            for way, one in told.items()
        },
        "acts": {way: _acting(medians, way) for way in ("write", "read")},
    }


def _split(medians: Mapping[Any, float], way: str, name: str) -> dict[str, Any]:
    """Over the default: each setting alone, all of them, and the best combination."""
    own = {chosen: value for (operation, workload, chosen), value in medians.items() if (operation, workload) == (way, name)}  # fmt: skip
    usual = tuple(values[0] for _, values in SETTINGS.values())
    changed = tuple(values[1] for _, values in SETTINGS.values())
    alone = {}
    for place, setting in enumerate(SETTINGS):
        one = tuple(changed[i] if i == place else value for i, value in enumerate(usual))
        alone[setting] = own[one] / own[usual]
    best = max(own, key=own.__getitem__)
    return {
        "operation": way,
        "workload": name,
        "default": own[usual],
        "alone": alone,
        "all": own[changed] / own[usual],
        "best": own[best] / own[usual],
        "best_settings": [setting for setting, value, first in zip(SETTINGS, best, usual, strict=True) if value != first],
    }  # fmt: skip


def _acting(medians: Mapping[Any, float], way: str) -> dict[str, float]:
    """Of each setting: in which share of the combinations of both workloads it moves the median."""
    found = {}
    for place, setting in enumerate(SETTINGS):
        moved: list[bool] = []
        first, second = SETTINGS[setting][1]
        for (operation, name, chosen), value in medians.items():
            if operation == way and chosen[place] == first:
                other = medians[way, name, _with(chosen, place, second)]
                moved.append(abs(other / value - 1) > ACTS)
        found[setting] = sum(moved) / len(moved)
    return found


def _with(chosen: Sequence[Any], place: int, value: Any) -> Choice:
    return (*chosen[:place], value, *chosen[place + 1 :])
