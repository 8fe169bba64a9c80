"""How many runs a model saves: tune with and without --model on a pattern that its campaign did not have.

    python benchmarks/prescribe/tune_from_model.py --seeds 20

A small campaign is simulated, a model trained on it, and an unseen pattern (other piece size, call size, file size and
number of nodes) is tuned with the same budget, with the model and without. Counted are the runs until one has closed
95% of the gap between the median configuration and the best one, known from a sweep without noise. All simulated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from simulated_site import Site, trained

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.session import Session
from stripewise.engine.space import Circumstances, bind_space
from stripewise.requests.experiment import Experiment
from stripewise.runners.registry import make_runner
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.trial import Role

MIB, GIB = 1 << 20, 1 << 30
CAMPAIGN = """
name = "site"
runner = "sim:{site}"
stacks = ["lustre", "romio"]
operations = ["write"]
repeats = 2
[[workload]]
name = "nodes"
values = [2, 8]
[[workload]]
name = "processes_per_node"
values = [4]
[[workload]]
name = "layout"
values = ["strided"]
[[workload]]
name = "collective"
values = [true]
[[workload]]
name = "file_size"
values = ["2 GiB", "16 GiB"]
[[workload]]
name = "piece_size"
values = ["4 KiB", "64 KiB"]
[[workload]]
name = "transfer_size"
values = ["1 MiB", "16 MiB"]
[[tunable]]
name = "stripe_count"
values = [1, 4, 16]
[[tunable]]
name = "stripe_size"
values = ["1 MiB", "16 MiB"]
[[tunable]]
name = "romio_cb_write"
values = ["automatic", "disable"]
[[tunable]]
name = "cb_nodes"
values = [2, 8]
"""
UNSEEN = Workload(
    operation="write", nodes=4, processes_per_node=4, layout="strided", collective=True, file_size=8 * GIB,
    piece_size=16 << 10, transfer_size=4 * MIB, api="mpiio",
)  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "stripe_count": [1, 2, 4, 8, 16],
    "stripe_size": [MIB, 4 * MIB, 16 * MIB, 64 * MIB],
    "cb_nodes": [1, 2, 4, 8, 16],
}
KEPT = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes", "romio_ds_write", "ind_wr_buffer_size")


def experiment(site: str, seed: int, budget: int, model: str | None) -> Experiment:
    """The tuning of the unseen pattern."""
    bound = bind_space(Experiment(command=["./app"], stacks=["lustre", "romio"]), Circumstances(UNSEEN, "romio"))
    parameters: dict[str, Any] = {name: {"values": values} for name, values in VALUES.items()}
    parameters |= {name: {"exclude": True} for name in bound.space.names if name not in KEPT}
    return Experiment.model_validate(
        {
            "name": "unseen",
            "runner": f"sim:{site}",
            "stacks": ["lustre", "romio"],
            "objective": {"name": "write_bandwidth"},
            "workload": UNSEEN,
            "budget": {"runs": budget},
            "warmup": 0,
            "confirmation": {"pairs": 0},
            "parameters": parameters,
            "seed": seed,
            "model": model,
        }
    )


class Truth:
    """Values without noise."""

    def __init__(self, site: str, space: Space, folder: Path) -> None:
        self._site, self._space = Site(experiment(f"{site}@noise.enabled=false", 0, 1, None), folder), space
        self._known: dict[Configuration, float] = {}

    def of(self, configuration: Configuration) -> float:
        """Bandwidth of a configuration."""
        # The default's own trial sets nothing.
        configuration = self._space.canonical({**self._space.default, **configuration})
        if configuration not in self._known:
            outcome = self._site.run(Plan(settings_of(self._space, configuration), "truth"), configuration)
            self._known[configuration] = float(outcome.metrics["write_bandwidth"])
        return self._known[configuration]


def runs_needed(site: str, seed: int, budget: int, model: str | None, truth: Truth, goal: float, folder: Path) -> int:
    """Runs until one is good enough, the default's included; budget + 1 if none is."""
    asked = experiment(site, seed, budget, model)
    store = open_store(MEMORY)
    identifier = store.create(asked)
    Session(store, identifier, make_runner(asked, folder), "benchmark").run()
    runs = sorted((run.number, trial) for trial in store.trials(identifier) for run in trial.runs)
    for count, (_, trial) in enumerate(runs, start=1):
        if trial.role in (Role.CANDIDATE, Role.DEFAULT) and truth.of(trial.configuration) >= goal:
            return count
    return budget + 1


def main() -> None:
    """Print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="auto")
    parser.add_argument("--site", default="kay")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "site.model"
        trained(CAMPAIGN.format(site=options.site), options.model, folder).save(model)
        space = bind_space(experiment(options.site, 0, 1, None), Circumstances(UNSEEN, "romio")).space
        truth = Truth(options.site, space, folder)
        every = [truth.of(space.configuration(row)) for row in space.enumerate()]
        median, best = statistics.median(every), max(every)
        goal = median + 0.95 * (best - median)
        needed: dict[str, list[int]] = {"with_model": [], "without": []}
        for seed in range(options.seeds):
            for key, path in (("with_model", str(model)), ("without", None)):
                runs = runs_needed(options.site, seed, options.budget, path, truth, goal, folder)
                needed[key].append(runs)
    print(
        json.dumps(
            {
                "simulated": True,
                "site": options.site,
                "model": options.model,
                "configurations": len(every),
                "default": truth.of(space.default),
                "median": median,
                "best": best,
                "median_runs": {key: statistics.median(runs) for key, runs in needed.items()},
                "runs": needed,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
