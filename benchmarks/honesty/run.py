"""Does tune claim gains that are not there, and does it claim those that are?

Two kinds of experiments, many seeds each: spaces in which every configuration is equal, and spaces in which one setting
(or, harder to find, one point) is truly 10% better; runs have 10% log-normal noise. Counted: experiments that claim
a gain. Four ways of running them: `function` (a noisy value for each run, in this process), `proof` (the same, but only
the pairs of one candidate, without a search), `replay` (values drawn from the recorded runs of a measured table, each
divided by the median of its configuration and their spread scaled to the noise asked for: the shape of real noise, with
a known truth) and `dummy` (the kernel's dummy backend, launched as a real program, with its own seeded noise).

    python benchmarks/honesty/run.py --experiments 200 --way function
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import stripewise as sw
from stripewise.engine.confirmation import Decision, are_shuffled, assess, looks, shuffle
from stripewise.engine.race import DRIFTS, planted_drift
from stripewise.engine.session import Session
from stripewise.launch import Launch, Outcome
from stripewise.models.landscape import Landscape, list_landscapes
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table, read_table
from stripewise.requests.experiment import Confirmation, Experiment
from stripewise.result import Result
from stripewise.runners.registry import make_runner
from stripewise.runners.replay import ReplayRunner
from stripewise.search.base import sampler_rng
from stripewise.store.opening import open_store
from stripewise.trial import State

TABLE = Path(__file__).parents[1] / "data" / "tables" / "ior_vast_scaling.csv"
VALUES = {"buffer": [1, 2, 4, 8], "mode": ["plain", "merged", "split"], "depth": [1, 2]}
BETTER = {"setting": {"mode": "merged"}, "single": {"buffer": 4, "mode": "merged", "depth": 2}}
STACK = """
name = "honesty"
[[parameter]]
name = "mode"
kind = "categorical"
values = ["plain", "merged", "split"]
carrier = "hint"
[[parameter]]
name = "buffer"
kind = "ordinal"
scale = "log2"
values = [1, 2, 4, 8]
carrier = "hint"
"""


def noisy(
    seed: int, gain: float, better: Mapping[str, Any], noise: float, skewed: bool, slower: Sequence[float]
) -> Callable[[Mapping[str, Any]], float]:
    """A run's time: 10 s, less for the better configuration, times noise and what the machine is slower then."""
    counter = iter(range(10**9))

    def run(configuration: Mapping[str, Any]) -> float:
        number = next(counter)
        rng = sampler_rng(seed, 1_000_000 + number)
        true = 10.0 / (gain if better.items() <= dict(configuration).items() else 1.0) * slower[number]
        disturbed = rng.normal(0, noise)
        if skewed and rng.random() < 0.15:
            disturbed += rng.exponential(0.75)
        return true * math.exp(disturbed)

    return run


def by_proof(seed: int, gain: float, options: argparse.Namespace) -> dict[str, Any]:
    """The proof alone, as the last runs of the budget: pairs of a default and a candidate, which is the better one."""
    most = min(options.pairs, options.budget // 2)
    searched = options.budget - 2 * most
    slower = [1.0] * options.budget
    if options.drift:
        slower = planted_drift(options.drift, options.budget, seed).tolist()
    better = BETTER[options.kind]
    function = noisy(seed, gain, better, options.noise, options.skewed, slower[searched:])
    rng, arms = sampler_rng(seed, 0), {"default": [0.0] * most, "candidate": [0.0] * most}
    # All runs before the first look in random order, or every pair by itself.
    order = shuffle(rng, options.first_look) if are_shuffled(options.first_look, Confirmation()) else []
    for pair in range(len(order) // 2, most):
        order += [(pair + later, arm) for later, arm in shuffle(rng, 1)]
    for made, (pair, arm) in enumerate(order, 1):
        arms[arm][pair] = function(better if arm == "candidate" else {})
        number = made // 2
        if made % 2 == 0 and number in looks(most, options.first_look):
            pairs = {name: values[:number] for name, values in arms.items()}
            found = assess(*pairs.values(), maximize=False, most_pairs=most, first=options.first_look)
            if found.decision is not Decision.CONTINUE:
                break
    assert found.speedup is not None
    proven = found.decision is Decision.PROVEN
    return {"confirmed": proven, "speedup": found.speedup.estimate, "runs": 2 * found.speedup.pairs}


def by_function(seed: int, gain: float, options: argparse.Namespace) -> dict[str, Any]:
    slower = [1.0] * options.budget
    function = noisy(seed, gain, BETTER[options.kind], options.noise, options.skewed, slower)
    found = sw.tune(function, VALUES, budget=options.budget, seed=seed, pairs=options.pairs)
    return {"confirmed": found.confirmed, "speedup": found.speedup, "runs": found.result["runs"]}


def by_dummy(seed: int, gain: float, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stripewise-honesty-") as folder:
        stack = Path(folder, "honesty.toml")
        stack.write_text(STACK)
        command = [options.kernel, "--api", "dummy", "--write", "--dummy-virtual", "--dummy-bandwidth", "1000"]
        command += ["--dummy-noise", str(options.noise), "--seed", f"{1000 + seed}{{run}}", "--size", "1m"]
        if gain != 1:
            command += ["--dummy-effect", f"mode=merged:{gain}"]
        experiment = Experiment.model_validate(
            {
                "command": command,
                "stacks": [str(stack)],
                "objective": {"name": "regex:write bandwidth: (\\S+)", "direction": "maximize"},
                "budget": options.budget,
                "confirmation": {"pairs": options.pairs},
                "seed": seed,
            }
        )
        store = open_store(f"sqlite:///{folder}/store.db")
        identifier = store.create(experiment)
        runner = make_runner(experiment, Path(folder, "runs"))
        return outline(Session(store, identifier, runner, "benchmark").run())


@lru_cache
def recorded_landscape(table: Path, gain: float, kind: str, noise: float) -> Landscape:
    """Every configuration with the same recorded noise; the better ones are faster by the gain, and by nothing else."""
    residuals = []
    for land in list_landscapes(read_table(table)):
        for point in range(len(land.space.points)):
            runs = land.runs(point)
            residuals.extend(np.log(runs / np.median(runs)))
    # A throughput's bad luck is below the median; a time's is above it.
    disturbed = -np.array(residuals) * noise / np.std(residuals)
    schema = Schema(
        name="honesty",
        objective=ObjectiveColumn(column="elapsed", direction="minimize", unit="s"),
        parameter=[
            Column(name=name, kind="ordinal" if isinstance(values[0], int) else "categorical", values=values)
            for name, values in VALUES.items()
        ],
    )
    rows = []
    for values in product(*VALUES.values()):
        configuration = dict(zip(VALUES, values, strict=True))
        true = 10.0 / (gain if BETTER[kind].items() <= configuration.items() else 1.0)
        for repeat, drawn in enumerate(disturbed):
            rows.append({**configuration, "repeat": repeat, "elapsed": true * math.exp(drawn)})
    return list_landscapes(make_table(schema, rows))[0]


class ChangingMachine(ReplayRunner):
    """Replays runs on a machine that becomes slower and faster, by a clock on which only the runs take time."""

    def __init__(self, table: Landscape, seed: int, slower: Sequence[float]) -> None:
        super().__init__(table, seed)
        self._slower = slower
        self._clock = 0.0

    def answer(self, launch: Launch) -> Outcome:
        """Draw a recorded run, slowed down as the machine is at this run; it is cut at its bound, as real runs are."""
        drawn = super().answer(replace(launch, bound=None, timeout=None))
        slower = self._slower[min(launch.number, len(self._slower) - 1)]
        seconds, started = drawn.elapsed * slower, self._clock
        if launch.bound is not None and seconds > launch.bound:
            self._clock += launch.bound
            reason = launch.cut_after(launch.bound)
            return Outcome(launch.number, State.PRUNED, launch.bound, started, reason, facts=drawn.facts)
        self._clock += seconds
        metrics = {name: value * slower for name, value in drawn.metrics.items()}
        return replace(drawn, elapsed=seconds, started=started, metrics=metrics)


def by_replay(seed: int, gain: float, options: argparse.Namespace) -> dict[str, Any]:
    land = recorded_landscape(options.table, gain, options.kind, options.noise)
    with tempfile.TemporaryDirectory(prefix="stripewise-honesty-") as folder:
        experiment = Experiment.model_validate(
            {
                "runner": f"replay:{options.table}",
                "budget": options.budget,
                "confirmation": {"pairs": options.pairs},
                "seed": seed,
            }
        )
        store = open_store(f"sqlite:///{folder}/store.db")
        identifier = store.create(experiment)
        slower = planted_drift(options.drift, options.budget, seed).tolist() if options.drift else []
        runner = ChangingMachine(land, 1000 + seed, slower) if slower else ReplayRunner(land, 1000 + seed)
        return outline(Session(store, identifier, runner, "benchmark").run())


def outline(result: Result) -> dict[str, Any]:
    return {"confirmed": result.confirmed, "speedup": result.speedup, "runs": result.runs}


def one(arguments: tuple[str, int, float, argparse.Namespace]) -> dict[str, Any]:
    way, seed, gain, options = arguments
    return {"function": by_function, "proof": by_proof, "replay": by_replay, "dummy": by_dummy}[way](
        seed, gain, options
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--way", choices=["function", "proof", "replay", "dummy"], default="function")
    parser.add_argument(
        "--kind", choices=list(BETTER), default="setting", help="one value of one setting is better, or one point of 24"
    )
    parser.add_argument("--gain", type=float, default=1.10)
    parser.add_argument("--noise", type=float, default=0.10, help="standard deviation of the log of a run")
    parser.add_argument("--skewed", action="store_true", help="stragglers as on production file systems")
    parser.add_argument("--drift", choices=DRIFTS, help="of `proof` and `replay`: plant changes of the machine")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--first-look", type=int, default=7, help="of `proof`: pairs at the first look, 4 to 8")
    parser.add_argument("--kernel", default="stripewise-kernel", help="for the dummy way")
    parser.add_argument("--table", type=Path, default=TABLE, help="whose noise is replayed")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.drift and options.way not in ("proof", "replay"):
        parser.error("--drift needs --way proof or replay: the others take the time of this machine")
    rows = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for name, gain in (("nothing to gain", 1.0), (f"a true gain of {options.gain - 1:.0%}", options.gain)):
            tasks = [
                (options.way, seed, gain, options) for seed in range(options.first, options.first + options.experiments)
            ]
            results = list(pool.map(one, tasks, chunksize=4))
            claims = sum(result["confirmed"] for result in results)
            runs = float(np.median([result["runs"] for result in results]))
            rows[name] = {"experiments": len(results), "claims": claims, "median_runs": runs}
            print(f"{name}: {claims} of {len(results)} experiments claim a gain, {runs:g} launches in the median")
    if options.out:
        asked = {**vars(options), "out": None, "table": options.table.name}
        options.out.write_text(json.dumps({"options": asked, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
