"""What prescriptions of the bundled campaigns bring to random workloads, simulated afterwards.

    python benchmarks/prescribe/campaigns.py --out prescriptions.json

Each campaign runs on a simulated site with ``stripewise site profile``, and ``auto`` learns from its table. Then every
workload, random and mostly unlike what the campaign has, gets one prescription by what it declares. The site runs it
without noise, once with its default settings and once with the prescribed ones. Everything is simulated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from simulated_site import Site

from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main as command
from stripewise.errors import UserError
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.prescription import Prescription
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.table import read_table
from stripewise.requests.experiment import Experiment

SITES = {"quick": "kay", "mpi-io-ann": "kay", "io-search": "edison", "sctuner": "cori-haswell"}
"""The campaigns, and a site that is large enough for each."""
NODES = {"kay": 16, "edison": 64, "cori-haswell": 64}
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LEAST = 0.95
"""Share of the default's speed that no prescription may fall below."""


def draw_workload(rng: np.random.Generator, nodes: int) -> Workload:
    """Draw a workload of any kind: patterns, sizes and scales, whether the campaign has the like or not."""

    def power(low: int, high: int) -> int:
        return int(2 ** rng.integers(int(np.log2(low)), int(np.log2(high)) + 1))

    api = str(rng.choice(["mpiio", "mpiio", "hdf5", "posix"]))
    layout = str(rng.choice(["segmented", "strided", "random"]))
    transfer = power(64 * KIB, 256 * MIB)
    count, each = power(1, nodes), power(1, 16)
    return Workload(
        operation=str(rng.choice(["write", "read"])),  # type: ignore[arg-type]
        nodes=count,
        processes_per_node=each,
        file_size=max(power(64 * MIB, 32 * GIB), transfer * count * each),
        transfer_size=transfer,
        layout=layout,  # type: ignore[arg-type]
        piece_size=transfer if layout == "segmented" else power(KIB, min(MIB, transfer)),
        collective=api != "posix" and bool(rng.integers(2)),
        file_per_process=bool(rng.random() < 0.15),
        api=api,  # type: ignore[arg-type]
    )


def simulate(site: str, workload: Workload, plans: Sequence[Plan], folder: Path) -> list[float]:
    """Give the bandwidth of a workload with each plan, without noise."""
    objective = f"{workload.operation}_bandwidth"
    experiment = Experiment(
        name="truth", runner=f"sim:{site}@noise.enabled=false", stacks=["lustre", "romio"],
        objective={"name": objective}, workload=workload,
    )  # fmt: skip
    runner = Site(experiment, folder)
    found = []
    for plan in plans:
        outcome = runner.run(plan)
        if objective not in outcome.metrics:
            raise UserError(f"{plan.text()} of {workload} failed: {outcome}")
        found.append(float(outcome.metrics[objective]))
    return found


def judge(found: Prescription, default: float, prescribed: float) -> dict[str, Any]:
    """Compare what was said with what came."""
    low, high = found.interval or (1.0, 1.0)
    return {
        "workload": found.workload.model_dump(exclude_none=True),
        "settings": {change.name: change.value for change in found.changes},
        "kept": found.kept,
        "predicted": found.speedup,
        "interval": [low, high],
        "speedup": prescribed / default,
        "default": default,
        "notes": list(found.notes),
    }


def sum_up(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the figures of some workloads: how many are changed, the worst of them, and how often intervals hold."""
    changed = [row for row in rows if row["settings"]]
    held = [row["interval"][0] <= row["speedup"] <= row["interval"][1] for row in changed]
    gains = [row["speedup"] for row in changed]
    return {
        "workloads": len(rows),
        "changed": len(changed),
        "worst": min(gains, default=1.0),
        "below_0_95": sum(gain < LEAST for gain in gains),
        "within_interval": sum(held),
        "within_interval_percent": 100 * statistics.mean(held) if held else None,
        "gain_median": statistics.median(gains) if gains else None,
        "gain_geometric_mean_of_all": statistics.geometric_mean(row["speedup"] for row in rows),
    }


def make_table(campaign: str, folder: Path) -> Path:
    """Run a campaign on its site, unless its table is there already."""
    table = folder / f"{campaign}-table"
    if not table.with_suffix(".csv").exists():
        asked = ["site", "profile", campaign, "--runner", f"sim:{SITES[campaign]}", "--out", str(table), "--yes"]
        if command(asked):
            raise SystemExit(1)
    return table


def prescribe_all(campaign: str, count: int, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Prescribe for random workloads by the model of one campaign, and simulate each."""
    site = SITES[campaign]
    model = make_model("auto").fit(read_table(make_table(campaign, folder)), seed)
    prescriber = Prescriber(model)
    rng = np.random.default_rng((seed, [*SITES].index(campaign)))
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        workload = draw_workload(rng, NODES[site])
        try:
            found = prescriber.prescribe(PrescriptionRequest(workload))
        except UserError as error:
            # Refused: the model cannot say anything, and the default stays.
            found = Prescription("refused", workload, kept=str(error))
        default, prescribed = simulate(site, workload, [Plan(), found.plan], folder)
        rows.append(judge(found, default, prescribed))
    return rows


def main() -> None:
    """Print JSON; --out keeps every workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", default=",".join(SITES))
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", type=Path, help="a folder for the campaigns' tables, which are kept")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.tables or Path(name)
        rows = {}
        for campaign in options.campaigns.split(","):
            rows[campaign] = prescribe_all(campaign, options.workloads, options.seed, folder)
            print(campaign, sum_up(rows[campaign]), file=sys.stderr, flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1), "utf-8")
    every = [row for each in rows.values() for row in each]
    print(json.dumps({"simulated": True, **{c: sum_up(r) for c, r in rows.items()}, "all": sum_up(every)}, indent=1))


if __name__ == "__main__":
    main()
