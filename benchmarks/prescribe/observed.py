"""What a prescription from an observed run is worth beside one from a declared workload, on a simulated site.

    python benchmarks/prescribe/observed.py --model auto

A campaign is simulated and a model trained on it. Each held-out workload runs once with its default settings; what the
report of that run shows is the request of one prescription, the declared workload that of the other. Both plans then
run --repeats times, in turns. Everything is simulated.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from pathlib import Path

from simulated_site import Site, trained

from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.observe.sources import observe
from stripewise.requests.experiment import Experiment

CAMPAIGN = """
name = "site"
runner = "sim:{site}"
stacks = ["lustre"]
operations = ["write", "read"]
repeats = 2
[[workload]]
name = "nodes"
values = [2, 4, 16]
[[workload]]
name = "processes_per_node"
values = [1, 4]
[[workload]]
name = "file_size"
values = ["4 GiB", "32 GiB"]
[[tunable]]
name = "stripe_count"
values = [1, 4, 16]
operations = ["write"]
[[tunable]]
name = "stripe_size"
values = ["1 MiB", "16 MiB"]
operations = ["write"]
[[tunable]]
name = "transfer_size"
values = ["16 MiB", "128 MiB"]
[[tunable]]
name = "collective"
values = [false, true]
"""
_GIB = 1 << 30


class Pattern:
    """One workload on the simulated site."""

    def __init__(self, name: str, workload: Workload, folder: Path, seed: int) -> None:
        self._objective = f"{workload.operation}_bandwidth"
        experiment = Experiment(
            name="observed", runner=f"sim:{name}", stacks=["lustre", "romio"], objective={"name": self._objective},
            workload=workload, seed=seed,
        )  # fmt: skip
        self.site = Site(experiment, folder)

    def values(self, plans: list[Plan], repeats: int) -> list[float]:
        """Median bandwidth with each plan; the runs take turns, since the site drifts."""
        found: list[list[float]] = [[] for _ in plans]
        for repeat in range(repeats):
            for place in range(len(plans)):
                turn = (place + repeat) % len(plans)
                found[turn].append(float(self.site.run(plans[turn]).metrics[self._objective]))
        return [statistics.median(values) for values in found]


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--site", default="kay")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prescriber = Prescriber(trained(CAMPAIGN.format(site=options.site), options.model, folder, options.seed))
        rows = []
        for operation, nodes, each, size, call, together in itertools.product(
            ("write", "read"), (2, 8), (2, 4), (8, 16), (32 << 20, 64 << 20), (False, True)
        ):
            workload = Workload(
                operation=operation, nodes=nodes, processes_per_node=each, file_size=size * _GIB, transfer_size=call,
                collective=together, layout="segmented", api="mpiio",
            )  # fmt: skip
            pattern = Pattern(options.site, workload, folder, options.seed + 1000 * (len(rows) + 1))
            report = folder / "report.json"
            report.write_text(pattern.site.run(Plan()).report.model_dump_json(exclude_unset=True), "utf-8")
            seen = observe(report)
            asked = PrescriptionRequest(Workload()).with_observed(seen, prescriber.model.domain)
            found = prescriber.prescribe(asked)
            declared = prescriber.prescribe(PrescriptionRequest(workload, asked.current))
            values = pattern.values([Plan(), declared.plan, found.plan], options.repeats)
            rows.append(
                {
                    "workload": workload.model_dump(exclude_none=True),
                    "same": found.plan.settings == declared.plan.settings,
                    "default": values[0],
                    "declared": values[1],
                    "observed": values[2],
                }
            )
    ratios = [row["observed"] / row["declared"] for row in rows]
    gains = [row["declared"] / row["default"] for row in rows]
    print(
        json.dumps(
            {
                "simulated": True,
                "site": options.site,
                "model": options.model,
                "workloads": len(rows),
                "same_settings": sum(row["same"] for row in rows),
                "observed_over_declared": {
                    "arithmetic_percent": 100 * statistics.mean(ratios),
                    "harmonic_percent": 100 * statistics.harmonic_mean(ratios),
                    "worst_percent": 100 * min(ratios),
                },
                "declared_over_default": statistics.geometric_mean(gains),
                "rows": rows,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
