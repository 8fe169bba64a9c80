"""Tables of the simulated cluster, for the search race: what an I/O site looks like to a search, known without error.

    python benchmarks/search/simulated.py FOLDER

writes one table a site: collective writes of strided pieces under Lustre's and ROMIO's settings, in four contexts, each
configuration run several times with the site's noise. Nothing here is measured.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import Access, RunBatch
from stripewise.lab.engine import add_noise, simulate
from stripewise.lab.site import load_site
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, write_table

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SITES = ("kay", "edison")
REPEATS = 8
CONTEXTS = [
    Column(name="nodes", kind="ordinal", role="nodes", scale="log2", values=[2, 8]),
    Column(name="piece_size", kind="ordinal", role="piece_size", unit="B", scale="log2", values=[16 * KIB, MIB]),
]
_COLLECTIVE, _APART = "romio_cb_write != 'disable'", "romio_cb_write == 'disable'"
PARAMETERS = [
    Column(name="stripe_count", kind="ordinal", role="stripe_count", scale="log2", values=[1, 2, 4, 8, 16], default=1),
    Column(
        name="stripe_size",
        kind="ordinal",
        role="stripe_size",
        unit="B",
        scale="log2",
        values=[MIB, 4 * MIB, 16 * MIB, 64 * MIB],
        default=MIB,
    ),
    Column(
        name="romio_cb_write",
        kind="categorical",
        role="collective_buffering",
        values=["automatic", "disable", "enable"],
        default="automatic",
    ),
    Column(
        name="cb_nodes",
        kind="ordinal",
        role="aggregators",
        scale="log2",
        values=[1, 2, 4, 8, 16],
        default=2,
        active_if=_COLLECTIVE,
    ),
    Column(
        name="romio_ds_write",
        kind="categorical",
        role="data_sieving",
        values=["automatic", "disable"],
        default="automatic",
        active_if=_APART,
    ),
    Column(
        name="ind_wr_buffer_size",
        kind="ordinal",
        role="sieving_buffer_size",
        unit="B",
        scale="log2",
        values=[64 * KIB, 512 * KIB, 4 * MIB],
        default=512 * KIB,
        active_if=_APART,
    ),
]


def table(name: str) -> Table:
    """Simulate every configuration in every context, with noise."""
    site = load_site(name)
    levels = np.array(list(itertools.product(*(range(len(column.values)) for column in PARAMETERS))))
    settings: dict[str, Any] = {
        column.name: np.array([column.values[level] for level in levels[:, index]], dtype=object)
        for index, column in enumerate(PARAMETERS)
    }
    contexts, values = [], []
    for number, place in enumerate(itertools.product(*(range(len(column.values)) for column in CONTEXTS))):
        words = {column.name: column.values[index] for column, index in zip(CONTEXTS, place, strict=True)}
        workload = Workload.model_validate(
            words
            | {
                "operation": "write",
                "processes_per_node": 8,
                "layout": "strided",
                "collective": True,
                "file_size": 8 * GIB,
                "transfer_size": 4 * MIB,
                "api": "mpiio",
            }
        )
        batch = RunBatch.make(workload, "write", settings, Access())
        plain = simulate(site, batch)
        for repeat in range(REPEATS):
            runs = (number * REPEATS + repeat) * len(levels) + np.arange(len(levels))
            values.append(add_noise(site, batch, plain, runs, seed=0).bandwidth)
            contexts.append(np.tile(place, (len(levels), 1)))
    count = len(values)
    schema = Schema(
        name=f"simulated_{name}",
        description=f"simulated, not measured: collective writes of strided pieces on site {name}, with its noise",
        source="computed by benchmarks/search/simulated.py",
        license="CC0-1.0",
        complete=True,
        objective=ObjectiveColumn(column="bandwidth", direction="maximize", unit="MiB/s"),
        parameter=PARAMETERS,
        context=CONTEXTS,
    )
    return Table(
        schema,
        np.tile(levels, (count, 1)),
        np.concatenate(contexts),
        np.repeat(np.tile(np.arange(REPEATS), count // REPEATS), len(levels)),
        np.concatenate(values),
    )


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in SITES:
        write_table(table(name), folder / f"simulated_{name}")


if __name__ == "__main__":
    main()
