"""Does ``tune --within`` claim gains that are not there, and does it claim those that are? On simulated programs."""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.one_job.stream import Law, StreamRunner
from stripewise.catalogue.carriers import HINT, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.tune import CANDIDATES, PHASES
from stripewise.engine.confirmation import Decision, assess, looks
from stripewise.engine.schedule import LONGEST_BLOCK, schedule_of
from stripewise.engine.session import Session
from stripewise.errors import Stopped
from stripewise.launch import Launch
from stripewise.requests.experiment import Budget, Confirmation, Experiment, ObjectiveEntry
from stripewise.store.opening import open_store
from stripewise.trial import Phase

GAIN, CARRIED = 1.1, 0.2
MOST_FALSE, FEWEST_TRUE = 0.05, 0.8
SEARCHED = 40
"""Phases that are left to the search where only the proof is carried out."""
PLANS = {"default": Plan(), "candidate": Plan((Setting(HINT, "mode", "merged"),))}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--experiments", type=int, default=200, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--phases", type=int, default=150, help="of the program, which ends a longer experiment")
    parser.add_argument("--noise", type=float, default=0.1, help="standard deviation of the log of a phase's time")
    parser.add_argument("--drift", type=float, default=0.0, help="log of how much slower the machine is at the end")
    parser.add_argument("--spread", type=float, default=0.0, help="standard deviation of the log of a phase's bytes")
    parser.add_argument("--gain", type=float, default=GAIN, help="how many times as fast the right setting is")
    parser.add_argument("--slow", type=float, default=1.0, help="how many times as long a wrong setting takes")
    parser.add_argument("--disturbed", type=float, default=0.0, help="chance of a phase to take 3 to 15 times as long")
    parser.add_argument(
        "--proof",
        action="store_true",
        help=f"no search: the pairs of one candidate, in all phases but {SEARCHED}; a hundred times as fast",
    )


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Carry out all experiments; true where few claim what is not there, and enough what is."""
    common = {name: getattr(options, name) for name in ("noise", "drift", "spread", "slow", "disturbed")}
    laws = {
        "nothing to gain": [Law(**common), Law(carried=CARRIED, **common)],
        f"a true gain of {options.gain - 1:.0%}": [Law(gain=options.gain, **common)],
    }
    carry_out = proof if options.proof else experiment
    rows = {}
    for name, kinds in laws.items():
        found = []
        for place in range(options.experiments):
            law = kinds[place % len(kinds)]
            found.append({"carried": law.carried, **carry_out(options.first + place, law, options.phases)})
            sys.stderr.write(f"\r{name}: {sum(one['claimed'] for one in found)} of {len(found)} ")
            sys.stderr.flush()
        sys.stderr.write("\n")
        rows[name] = {
            "experiments": len(found),
            "claims": sum(one["claimed"] for one in found),
            "claims_with_carry_over": sum(one["claimed"] for one in found if one["carried"]),
            "undecided": sum(not one["decided"] for one in found),
            "median_phases": statistics.median(one["phases"] for one in found),
            "median_lost": statistics.median(one["lost"] for one in found),
            "most_lost": max(one["lost"] for one in found),
        }
    false, true = (row["claims"] / row["experiments"] for row in rows.values())
    asked = {**vars(options), "json": None, "measure": None, "carried": CARRIED}
    return {"simulated": True, "options": asked, "rows": rows}, false <= MOST_FALSE and true >= FEWEST_TRUE


def experiment(seed: int, law: Law, phases: int) -> dict[str, Any]:
    """Let the product tune one program that has so many phases."""
    wanted = _definition(seed)
    runner = StreamRunner(wanted, Path("/nonexistent"), law, length=phases)
    claimed, decided = False, True
    with open_store("sqlite:///:memory:") as store:
        try:
            claimed = Session(store, store.create(wanted), runner, "benchmark").run().confirmed
        except Stopped:
            decided = False
    return {"claimed": claimed, "decided": decided, "phases": len(runner.phases), "lost": runner.lost}


def proof(seed: int, law: Law, phases: int) -> dict[str, Any]:
    """Let the product's runner measure pairs in random order, and the product's rules judge them."""
    definition = _definition(seed)
    runner = StreamRunner(definition, Path("/nonexistent"), law, length=phases - SEARCHED)
    most = int((min(phases, PHASES) - SEARCHED) / schedule_of(definition).cost_of_pair(LONGEST_BLOCK))
    arms: dict[str, list[float]] = {"default": [], "candidate": []}
    decision = Decision.CONTINUE
    for coin in np.random.default_rng((seed, 7)).random(most):
        for arm in arms if coin < 0.5 else reversed(arms):
            runner.start(
                Launch(
                    "proof",
                    sum(map(len, arms.values())),
                    Configuration({}),
                    PLANS[arm],
                    Phase.CONFIRMATION,
                    block=LONGEST_BLOCK,
                )
            )
            while not (ended := runner.poll(1.0)) and not runner.shared.over:
                pass
            arms[arm] += [outcome.metrics["phase_bandwidth"] for outcome in ended]
        if runner.shared.over:
            break
        if len(arms["default"]) in looks(most):
            decision = assess(*arms.values(), maximize=True, most_pairs=most).decision
            if decision is not Decision.CONTINUE:
                break
    decided = decision is not Decision.CONTINUE
    return {
        "claimed": decision is Decision.PROVEN,
        "decided": decided,
        "phases": SEARCHED + len(runner.phases),
        "lost": runner.lost,
    }


def _definition(seed: int) -> Experiment:
    return Experiment(
        command=["simulated"],
        runner="within",
        objective=ObjectiveEntry(name="phase_bandwidth"),
        budget=Budget(runs=PHASES),
        confirmation=Confirmation(candidates=CANDIDATES),
        seed=seed,
    )
