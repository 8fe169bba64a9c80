"""Study 004 at its printed size: 3,328 configurations of each interface at several scales, a hundred runs of each.

Thirteen sizes of a call, four numbers of nodes, two of processes a node, four of aggregators, and two each of the
buffer, HDF5's alignment and its collective metadata: 3,328, as printed; which values the study has is not. Files have
the layout that a site's staff gives large ones. Chunks of HDF5 datasets are not part of the simulation.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.studies.steps import Study
from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import APIS, Access, RunBatch
from stripewise.lab.engine import add_noise, simulate
from stripewise.lab.site import load_site

SITE = "cori-haswell"
KIB, MIB = 1 << 10, 1 << 20
AXES: dict[str, list[Any]] = {
    "transfer_size": [64 * KIB << i for i in range(13)],
    "nodes": [32, 128, 256, 512],
    "processes_per_node": [8, 32],
    "aggregators": [8, 32, 128, 512],
    "collective_buffer_size": [16 * MIB, 64 * MIB],
    "hdf5_alignment": [1, MIB],
    "hdf5_collective_metadata": [False, True],
}
WORKLOAD = ("transfer_size", "nodes", "processes_per_node")
"""Axes that a program has; the others are settings."""
INTERFACES = ("posix", "mpiio", "hdf5")
EACH = 256 * MIB
"""Bytes of a process."""
STRIPES = {"stripe_count": 72, "stripe_size": MIB}
METADATA = 2000
"""Accesses of an HDF5 file's metadata. Assumed."""
SHOWN = {"aggregators": [8, 128], "collective_buffer_size": [64 * MIB, 16 * MIB]}
"""Of the two settings of which the study shows writes on 32 nodes."""
SHOWN_NODES = 32
DEFAULT: dict[str, Any] = {"stripe_count": 1, "hdf5_alignment": 1, "hdf5_collective_metadata": False}
CHANGES: dict[str, dict[str, Any]] = {
    "striping": STRIPES,
    "alignment": {"hdf5_alignment": MIB},
    "metadata": {"hdf5_collective_metadata": True},
}


def simulated(study: Study) -> None:
    """Simulate, cluster, choose, and split the gain."""
    axes = dict(AXES) if not study.quick else {name: values[-2:] for name, values in AXES.items()}
    repeats = study.size(100, 5)
    study.step(
        "3,328 configurations",
        lambda: campaign(axes, repeats),
        "simulated",
        site=SITE, axes=axes, repeats=repeats, interfaces=INTERFACES, stripes=STRIPES, metadata=METADATA,
    )  # fmt: skip
    study.step(
        "what each setting brings",
        lambda: brings(axes["transfer_size"]),
        "simulated",
        site=SITE, changes=CHANGES, metadata=METADATA,
    )  # fmt: skip
    study.step(
        "the two settings that the study shows",
        lambda: shown(axes["transfer_size"], repeats),
        "simulated",
        site=SITE, settings=SHOWN, nodes=SHOWN_NODES, repeats=repeats,
    )  # fmt: skip


def _batch(operation: str, api: str, columns: dict[str, np.ndarray]) -> RunBatch:
    processes = columns["nodes"] * columns["processes_per_node"]
    given = {name: values.astype(bool if values.dtype == bool else float) for name, values in columns.items()}
    rows = len(processes)
    return RunBatch.make(
        Workload(operation=operation, api=api, layout="strided", collective=api != "posix"),
        operation,
        access=Access(metadata_operations=METADATA if api == "hdf5" else 0),
        columns={
            **{name: np.full(rows, float(value)) for name, value in STRIPES.items()},
            **given,
            "piece_size": given["transfer_size"],
            "file_size": processes.astype(float) * EACH,
            "api": np.full(rows, APIS.index(api)),
        },
    )


def campaign(axes: dict[str, list[Any]], repeats: int) -> dict[str, Any]:
    """Five-number summaries of every configuration, their clusters, and the settings that stay good."""
    from stripewise.output.summaries import cluster  # noqa: PLC0415  slow to load

    site = load_site(SITE)
    grid = list(itertools.product(*axes.values()))
    columns = {name: np.array([row[place] for row in grid]) for place, name in enumerate(axes)}
    operations: dict[str, Any] = {}
    for operation in ("read", "write"):
        summaries, chosen = [], {}
        for api in INTERFACES:
            batch = _batch(operation, api, columns)
            outcome = simulate(site, batch)
            numbers = np.arange(len(grid)) * repeats
            runs = np.stack([add_noise(site, batch, outcome, numbers + i, 0).bandwidth for i in range(repeats)])
            summaries.append(np.percentile(runs, [0, 25, 50, 75, 100], axis=0).T)
            chosen[api] = _dependable(runs, axes, columns)
        clusters, labels = cluster(np.concatenate(summaries).tolist())
        assert clusters is not None
        apis = np.repeat(INTERFACES, len(grid))
        operations[operation] = {
            "configurations": len(grid),
            "clusters": clusters.count,
            "silhouettes": {str(count): round(score, 3) for count, score in clusters.silhouettes.items()},
            "sizes": {
                api: [int(np.sum(labels[apis == api] == n + 1)) for n in range(clusters.count)] for api in INTERFACES
            },
            "medians": [round(centre[2]) for centre in clusters.centres],
            "chosen": chosen,
        }
    return {"runs": 2 * len(INTERFACES) * len(grid) * repeats, "repeats": repeats, "operations": operations}


def shown(sizes: list[int], repeats: int) -> list[dict[str, Any]]:
    """Five numbers of writes by MPI-IO with either of the settings that the study shows, over all sizes of a call."""
    site, rows, found = load_site(SITE), len(sizes), []
    for aggregators, buffer in zip(*SHOWN.values(), strict=True):
        settings = {"aggregators": aggregators, "collective_buffer_size": buffer}
        given = {**settings, "nodes": SHOWN_NODES, "processes_per_node": 8, "hdf5_alignment": 1}
        columns = {name: np.full(rows, value) for name, value in given.items()} | {"transfer_size": np.array(sizes)}
        batch = _batch("write", "mpiio", columns)
        outcome = simulate(site, batch)
        runs = np.stack(
            [add_noise(site, batch, outcome, np.arange(rows) * repeats + i, 0).bandwidth for i in range(repeats)]
        )
        found.append({**settings, "summary": [float(value) for value in np.percentile(runs, [0, 25, 50, 75, 100])]})
    return found


def _dependable(runs: np.ndarray, axes: dict[str, list[Any]], columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """The setting with the best lower quartile over all workloads, found on odd runs and judged on even ones."""
    workloads = int(np.prod([len(axes[name]) for name in WORKLOAD]))
    half = [runs[start::2].reshape(len(runs[start::2]), workloads, -1) for start in (0, 1)]
    best = np.median(half[0], axis=0).max(axis=1, keepdims=True)
    shares = [np.percentile(part, 25, axis=0) / best for part in half]
    pick = int(shares[0].mean(axis=0).argmax())
    names = [name for name in axes if name not in WORKLOAD]
    median = np.median(runs, axis=0).reshape(workloads, -1)
    acts = []
    for name in names:
        # A setting acts where another value of it, all else the same, moves the median by more than a hundredth.
        values = columns[name].reshape(workloads, -1)[0]
        others = [n for n in names if n != name]
        same = np.all([columns[n].reshape(workloads, -1)[0] == columns[n][pick] for n in others], axis=0)
        moved = median[:, same].max(axis=1) / median[:, same].min(axis=1)
        if len(np.unique(values)) > 1 and np.median(moved) > 1.05:
            acts.append(name)
    return {
        "setting": {name: columns[name][pick].item() for name in names if name in acts},
        "low": float(shares[1][:, pick].mean()),
        "random": float(shares[1].mean()),
    }


def brings(sizes: list[int]) -> dict[str, Any]:
    """Speed-up of HDF5 at 512 nodes by each setting alone, and by all, over the default of one stripe."""
    site = load_site(SITE)
    found: dict[str, Any] = {}
    for operation in ("read", "write"):

        def value(changes: dict[str, Any], operation: str = operation) -> np.ndarray:
            every = {**DEFAULT, **changes}
            columns = {name: np.full(len(sizes), setting) for name, setting in every.items()}
            columns |= {"transfer_size": np.array(sizes), "nodes": np.full(len(sizes), 512)}
            columns["processes_per_node"] = np.full(len(sizes), 8)
            return np.asarray(simulate(site, _batch(operation, "hdf5", columns)).bandwidth)

        base, striped = value({}), value(STRIPES)
        everything = value({key: v for change in CHANGES.values() for key, v in change.items()})
        rows = {name: value(change) / base for name, change in CHANGES.items()}
        rows |= {
            f"{name}, with striping": value({**STRIPES, **change}) / striped
            for name, change in CHANGES.items()
            if name != "striping"
        }
        rows["all"] = everything / base
        found[operation] = {name: [float(r.min()), float(np.median(r)), float(r.max())] for name, r in rows.items()}
    return found
