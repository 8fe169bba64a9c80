"""Kill -9 of the tuner, the program or both at random moments of ``tune --within``: what must hold all the same."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.one_job.programs import PROGRAMS, Bench
from stripewise.facts import Facts
from stripewise.observe.journal import parse_journal
from stripewise.observe.orders import read_orders
from stripewise.requests.experiment import Budget, Experiment, ObjectiveEntry, ParameterOverride, Within
from stripewise.runners.local.processes import Identity
from stripewise.store.base import Store
from stripewise.store.opening import open_store

PHASES, RUNS = 400, 40
LATEST = 3.0
"""Seconds after an order at which the tuner or the program is killed at the latest."""
_PATIENCE = 60.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--think", type=int, default=20, metavar="MILLISECONDS", help="between two phases")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--folder", default="/dev/shm", help="where the checkpoints are written")
    parser.add_argument("--seed", type=int, default=1)


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Kill, resume, and check after each kill and at the end of each experiment."""
    draw = random.Random(options.seed)
    figures: Counter[str] = Counter()
    broken: list[str] = []
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(PROGRAMS[0], options, Path(build), Path(folder))
        with open_store(f"sqlite:///{build}/store.db") as store:
            while figures["kills"] < options.kills and not broken:
                broken += _one(store, bench, draw, options, figures)
    asked = {**vars(options), "json": None, "measure": None}
    return {"simulated": False, "options": asked, "figures": dict(figures), "broken": broken}, not broken


def _one(
    store: Store, bench: Bench, draw: random.Random, options: argparse.Namespace, figures: Counter[str]
) -> list[str]:
    """Carry one experiment to its end, or to the last kill and then to its end."""
    experiment = Experiment(
        command=bench.command("killed", PHASES),
        runner="within",
        objective=ObjectiveEntry(name="phase_bandwidth"),
        budget=Budget(runs=RUNS),
        stacks=["romio"],
        parameters={"ind_wr_buffer_size": ParameterOverride(exclude=True)},
        within=Within(max_loss=1.0),
        scratch=str(bench.build / "runs"),
        seed=options.seed,
    )
    identifier = store.create(experiment, Facts(folder=str(bench.build)))
    folder, accepted = bench.build / "runs" / identifier, {}
    words = [sys.executable, "-m", "stripewise", "resume", identifier, "--yes", "--store", store.url]
    while store.record(identifier).state != "finished":
        tuner = subprocess.Popen(
            words, env=bench.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while tuner.poll() is None and figures["kills"] < options.kills:
            known, deadline = _ordered(folder), time.monotonic() + _PATIENCE
            while tuner.poll() is None and _ordered(folder) == known and time.monotonic() < deadline:
                time.sleep(0.02)
            with contextlib.suppress(subprocess.TimeoutExpired):
                tuner.wait(draw.uniform(0, LATEST))
            victim = draw.choice(["tuner", "program", "both"])
            hit = victim != "tuner" and _kill_program(folder)
            if victim != "program" and tuner.poll() is None:
                tuner.kill()
                tuner.wait()
                hit = True
            if hit:
                figures["kills"] += 1
                figures[victim] += 1
                sys.stderr.write(f"\r{figures['kills']} kills")
                sys.stderr.flush()
        tuner.wait()
        now = {
            run.number: (run.state, run.value, run.started)
            for trial in store.trials(identifier)
            for run in trial.runs
            if run.state.ended
        }
        lost = [number for number, kept in accepted.items() if now.get(number) != kept]
        if lost:
            return [f"{identifier}: results {lost} were lost or changed"]
        accepted = now
    _kill_program(folder)
    figures["experiments"] += 1
    figures["results"] += len(accepted)
    return _check(identifier, folder, list(accepted.values()), figures)


def _check(identifier: str, folder: Path, results: list[Any], figures: Counter[str]) -> list[str]:
    """Of a finished experiment: orders that were carried out twice, answers of none, phases that count twice."""
    broken = []
    for launch in folder.glob("launch-*"):
        # A launch that was killed early has no answers yet.
        answered, ordered = (_text(launch / name) for name in ("answers", "orders"))
        answers = [one.order for one in parse_journal(answered).phases if one.order]
        last = max((order.number for order in read_orders(ordered)), default=0)
        figures["launches"] += 1
        figures["answers"] += len(answers)
        if len(answers) != len(set(answers)) or sorted(answers) != list(range(1, len(answers) + 1)):
            broken.append(f"{identifier}, {launch.name}: answers {answers}")
        if max(answers, default=0) > last:
            broken.append(f"{identifier}, {launch.name}: order {max(answers)} was answered, but {last} is the last")
    starts = [started for *_, started in results]
    if len(starts) != len(set(starts)):
        broken.append(f"{identifier}: a phase counts as two runs")
    return broken


def _text(path: Path) -> str:
    """The text of a file that may not be there."""
    return path.read_text("utf-8") if path.exists() else ""


def _ordered(folder: Path) -> int:
    """Bytes of all orders: they grow once the tuner is at work."""
    return sum(orders.stat().st_size for orders in folder.glob("launch-*/orders"))


def _kill_program(folder: Path) -> bool:
    """Kill the program of the launch that still runs, if there is one, with what it has started."""
    hit = False
    for job in folder.glob("launch-*/job.json"):
        with contextlib.suppress(OSError, ValueError):
            identity = Identity.read(json.loads(job.read_text("utf-8")))
            if identity.here and identity.alive:
                os.killpg(identity.pid, signal.SIGKILL)
                hit = True
    time.sleep(0.05)
    return hit
