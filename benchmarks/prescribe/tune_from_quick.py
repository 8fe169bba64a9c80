"""How many runs a model of `profile quick` saves on real MPI-IO that it has not seen; measured runs, replayed.

    stripewise site profile quick --folder /dev/shm/quick --out quick
    python benchmarks/prescribe/tune_from_quick.py quick benchmarks/data/tables/romio_write_collective_1k --seeds 20

The campaign measures 36 combinations in under three minutes. Each TABLE holds real runs of ROMIO under every setting of
its space (another pattern, measured on another day); `auto` searches it with the campaign's model as prior and without,
getting one of the recorded runs for each that it asks for. Counted are the runs until one closes 95% of the gap between
the table's median and its best configuration, both by all recorded runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from stripewise.catalogue.workload import Workload
from stripewise.engine.model_prior import ModelPrior
from stripewise.engine.race import contestant, play
from stripewise.models.landscape import Landscape, describe_workload, list_landscapes
from stripewise.models.registry import make_model
from stripewise.models.table import read_table

_LEAST = 200
"""Points that a landscape must have to be searched at all."""


def request(landscape: Landscape, operation: str) -> Workload:
    """What is known of the pattern: strided and collective, on one node; the rest as the table's context says."""
    known = {"operation": operation, "nodes": 1, "layout": "strided", "collective": True}
    told = describe_workload(landscape.table, landscape.context).model_dump(exclude_none=True)
    return Workload.model_validate(known | told)


def compare(landscape: Landscape, prior: ModelPrior, seeds: int, budget: int) -> dict[str, Any]:
    """Runs that each seed needs with the prior and without; budget + 1 where it is never close."""
    needed: dict[str, list[int]] = {"with_model": [], "without": []}
    for seed in range(seeds):
        for name, mean in (("with_model", lambda _: prior), ("without", None)):
            episode = play(landscape, name, contestant("auto", prior=mean), budget=budget, seed=seed)
            needed[name].append(episode.runs_to_within_5_percent or budget + 1)
    return {
        "table": landscape.table.name,
        "context": dict(landscape.context),
        "configurations": len(landscape.space.points),
        "known": prior.shared(landscape.space),
        "median_runs": {name: statistics.median(runs) for name, runs in needed.items()},
        "runs": needed,
    }


def main() -> None:
    """Print a line of JSON for each landscape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", type=Path, help="table of `profile quick`")
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=60)
    options = parser.parse_args()
    model = make_model(options.model).fit(read_table(options.campaign), 0)
    for path in options.tables:
        table = read_table(path)
        for landscape in list_landscapes(table):
            if len(landscape.space.points) < _LEAST:
                continue
            operation = str(landscape.context.get("operation", "read" if "read" in table.name else "write"))
            found = compare(landscape, ModelPrior(model, request(landscape, operation)), options.seeds, options.budget)
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
