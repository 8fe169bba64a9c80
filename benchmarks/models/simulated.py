"""The `mpi-io-ann` campaign on the simulated site `kay`, as tables: single noisy runs, and medians of many. Simulated.

The grid is that of the bundled campaign; a call moves at most a rank's share of the file.
"""

from __future__ import annotations

import itertools

import numpy as np

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import LAYOUTS, RunBatch
from stripewise.lab.engine import add_noise, simulate
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table
from stripewise.requests.campaign import load_campaign
from stripewise.runners.simulated.runner import open_site
from stripewise.sizes import parse_size

OPERATIONS = ("read", "write")
CAMPAIGN = "mpi-io-ann"


def _values(name: str) -> list[float]:
    campaign = load_campaign(CAMPAIGN)
    for factor in (*campaign.workload, *campaign.tunable):
        if factor.name == name:
            return [float(parse_size(v)) if isinstance(v, str) else float(v) for v in factor.values]
    raise KeyError(name)


def schema(site: str) -> Schema:
    """Contexts: operation, nodes, processes a node, file size; parameters: striping, chunk, collective or not."""

    def ordinal(name: str, unit: str = "", default: float | None = None) -> Column:
        values = [int(v) for v in _values(name)]
        return Column(name=name, kind="ordinal", role=name, unit=unit, scale="log2", values=values, default=default)

    return Schema(
        name=f"{CAMPAIGN}_{site}",
        description=f"SIMULATED: campaign {CAMPAIGN} on site {site}",
        source="benchmarks/models/simulated.py",
        license="CC0-1.0",
        complete=True,
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        context=[
            Column(name="operation", kind="categorical", role="operation", values=list(OPERATIONS)),
            ordinal("nodes"),
            ordinal("processes_per_node"),
            ordinal("file_size", "B"),
        ],
        parameter=[
            ordinal("stripe_count", default=1),
            ordinal("stripe_size", "B", default=1 << 20),
            ordinal("transfer_size", "B"),
            Column(name="collective", kind="categorical", role="collective", values=[False, True]),
        ],
    )


def tables(site: str = "kay", repeats: int = 15, seed: int = 0, piece: int | None = None) -> tuple[Table, Table]:
    """Give the campaign with ``repeats`` runs of each configuration, and its noise-free truth.

    Parameters
    ----------
    site : str
        As a runner's name has it, without ``sim:``.
    repeats, seed : int
    piece : int, optional
        Bytes of a piece in collective calls, in which the processes then take turns. Without it, collective calls are
        contiguous like all others.
    """
    form = schema(site.partition("@")[0])
    axes = [len(column.values) for column in form.columns]
    levels = np.array(list(itertools.product(*map(range, axes))), dtype=np.int64)
    where, _ = open_site(site)
    runs, truth = np.empty((repeats, len(levels))), np.empty(len(levels))
    for place, operation in enumerate(OPERATIONS):
        rows = np.flatnonzero(levels[:, 0] == place)
        value = {
            column.name: np.asarray(column.values)[levels[rows, index]] for index, column in enumerate(form.columns)
        }
        share = value["file_size"] / (value["nodes"] * value["processes_per_node"])
        transfer = np.minimum(value["transfer_size"], share)
        collective = value["collective"].astype(bool)
        strided = collective & (piece is not None)
        batch = RunBatch.make(
            Workload(operation=operation, layout="segmented", api="mpiio"),
            operation,
            columns={
                "nodes": value["nodes"].astype(float),
                "processes_per_node": value["processes_per_node"].astype(float),
                "file_size": value["file_size"].astype(float),
                "transfer_size": transfer,
                "piece_size": np.where(strided, np.minimum(transfer, piece or np.inf), transfer),
                "layout": np.where(strided, LAYOUTS.index("strided"), LAYOUTS.index("segmented")),
                "stripe_count": value["stripe_count"].astype(float),
                "stripe_size": value["stripe_size"].astype(float),
                "collective": collective,
            },
        )
        outcome = simulate(where, batch)
        truth[rows] = outcome.bandwidth
        for repeat in range(repeats):
            numbers = rows * repeats + repeat
            runs[repeat, rows] = add_noise(where, batch, outcome, numbers, seed).bandwidth
    contexts = len(form.context)
    measured = Table(
        form,
        np.tile(levels[:, contexts:], (repeats, 1)),
        np.tile(levels[:, :contexts], (repeats, 1)),
        np.repeat(np.arange(repeats), len(levels)),
        runs.reshape(-1),
    )
    zero = np.zeros(len(levels), dtype=np.int64)
    return measured, Table(form, levels[:, contexts:], levels[:, :contexts], zero, truth)
