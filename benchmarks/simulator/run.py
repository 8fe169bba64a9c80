"""Hold the simulated cluster against what was measured, and write the validation page.

    python benchmarks/simulator/run.py                  # all: some minutes of one core
    python benchmarks/simulator/run.py --stages speed   # times again, keeps the rest
    python benchmarks/simulator/run.py --stages ''      # only the page, from the results

It ends with 1 if a statement does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import frontier
import leave_out
import mechanisms
import noise_check
import speed
from leave_out import Prediction
from mechanisms import Check
from page import write_page

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "benchmarks" / "notes" / "simulator.md"


def _predicted(made: list[Prediction]) -> list[dict[str, Any]]:
    return [
        {**asdict(p.cell), "predicted": p.predicted, "ratio": p.ratio, "bound": p.bound, "hit": p.hit} for p in made
    ]


def tables() -> dict[str, Any]:
    """Predictions of tables A and B, each system, and each machine, left out in turn."""
    found: dict[str, Any] = {"shipped": _predicted(leave_out.predictions(leave_out.shipped()))}
    for name, by_machine in (("system", False), ("machine", True)):
        made, constants = leave_out.leave_one_out(by_machine)
        hits = sum(p.hit for p in made)
        found[name] = {
            "cells": _predicted(made),
            "constants": constants,
            "hits": hits,
            "share": hits / len(made),
            "orders": leave_out.orders(made),
        }
    return found


def checks() -> tuple[list[Check], dict[str, Any]]:
    """All statements, with the tables behind them."""
    rows, inside = noise_check.percentiles()
    defaults, within = mechanisms.static_defaults()
    single: list[Callable[[], Check]] = [
        mechanisms.snapping,
        mechanisms.dead_knobs,
        mechanisms.widest_is_best,
        mechanisms.sieving_flips,
        noise_check.skewed,
        noise_check.drift,
        noise_check.independent_solver,
        noise_check.bound_of_unequal_flows,
        mechanisms.against_max_min,
    ]
    found = [inside, within, *(check() for check in single), *mechanisms.invariances()]
    plateaus = [asdict(plateau) for plateau in frontier.plateaus()]
    return found, {"percentiles": rows, "static_defaults": defaults, "frontier": plateaus}


def timings(repeats: int) -> dict[str, Any]:
    """How fast it is, and on what."""
    peak, seconds = speed.memory()
    return {
        "timings": [asdict(timing) for timing in speed.timings(repeats)],
        "memory": {"configurations": 1_000_000, "peak_mib": peak, "seconds": seconds},
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()},
    }


def failures(document: dict[str, Any]) -> list[str]:
    """Statements that do not hold."""
    found = [check["name"] for check in document["checks"] if not check["holds"]]
    share = document["tables"]["system"]["share"]
    return found if share >= 0.7 else [*found, f"only {share:.0%} of the cells are within a factor of 1.5"]


def main() -> int:
    """Run, write, and say what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", default="tables,checks,speed", help="which to run again; empty: only the page")
    parser.add_argument("--results", type=Path, default=HERE / "results.json", help="kept after each stage")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--repeats", type=int, default=15, help="of each timing")
    options = parser.parse_args()
    document: dict[str, Any] = {"simulated": True}
    if options.results.exists():
        document = json.loads(options.results.read_text("utf-8"))
    for stage in filter(None, options.stages.split(",")):
        print(f"{stage} ...", file=sys.stderr, flush=True)
        if stage == "tables":
            document["tables"] = tables()
        elif stage == "checks":
            found, behind = checks()
            document["checks"] = [{"name": c.name, "holds": bool(c.holds), "figure": c.figure} for c in found]
            document |= behind
        else:
            document["speed"] = timings(options.repeats)
        options.results.write_text(json.dumps(document, indent=1, default=float) + "\n", "utf-8")
    document = json.loads(options.results.read_text("utf-8"))
    options.page.write_text(write_page(document), "utf-8")
    failed = failures(document)
    for name in failed:
        print(f"does not hold: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
