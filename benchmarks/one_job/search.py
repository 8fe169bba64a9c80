"""Whether a search on replays finds what a search on the program finds, and how much less time it takes."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.one_job.programs import PROGRAMS, SLEEPY, Bench, Program
from benchmarks.real_programs.launching import carry_out
from stripewise.catalogue.plan import Plan
from stripewise.requests.experiment import Budget, Experiment, Hooks, ObjectiveEntry, Replay
from stripewise.trial import Phase, Trial

COMPUTED = 9
"""How many times as long as its I/O the program computes."""
FOUND, SAVED = 1.03, 0.1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be chosen."""
    parser.add_argument("--program", default="collective", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--searches", type=int, default=3, help="each on another seed")
    parser.add_argument("--repeats", type=int, default=9, help="of the answers against each other")
    parser.add_argument("--budget", type=int, default=40, help="launches of a search and its proof")
    parser.add_argument("--phases", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="where the program writes")
    parser.add_argument("--seed", type=int, default=1)


def measure(options: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """Search in both ways in turns, then compare the answers on the program."""
    program = next(program for program in PROGRAMS if program.name == options.program)
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = _Stage(program, options, Path(build), Path(folder))
        rounds = []
        for number in range(options.searches):
            found = {way: bench.search(way, options.seed + number) for way in draw.sample(("program", "replays"), 2)}
            rounds.append({**found, **bench.compare([found["program"]["plan"], found["replays"]["plan"]], draw)})
            sys.stderr.write(json.dumps(rounds[-1]) + "\n")
    figures = {
        "computes": {"milliseconds_per_phase": bench.options.think, "times_its_io": COMPUTED},
        "rounds": rounds,
        "over_the_other_answer": statistics.median(entry["over_the_other_answer"] for entry in rounds),
        "of_its_time": statistics.median(
            entry["replays"]["search_seconds"] / entry["program"]["search_seconds"] for entry in rounds
        ),
    }
    good = figures["over_the_other_answer"] <= FOUND and figures["of_its_time"] <= SAVED
    asked = {**vars(options), "folder": str(options.folder), "json": None, "measure": None}
    return {"simulated": False, "options": asked, **figures}, good


class _Stage(Bench):
    """A program that computes most of the time, its record, and searches for it."""

    def __init__(self, program: Program, options: argparse.Namespace, build: Path, folder: Path) -> None:
        super().__init__(program, argparse.Namespace(**vars(options), think=0), build, folder)
        self.words = self.command("files", options.phases)
        taken = statistics.median(self.static([], "files", options.phases) for _ in range(3))
        self.options.think = max(1, round(COMPUTED * taken / options.phases * 1000))
        self.record = build / "program.record"
        words = [sys.executable, "-m", "stripewise", "lab", "record", "--output", str(self.record), "--", *self.words]
        self._delete()
        subprocess.run(words, env=self.environment(), check=True, stdout=subprocess.DEVNULL)

    def _delete(self) -> None:
        for path in (self.folder / "files").iterdir():
            path.unlink()

    def search(self, way: str, seed: int) -> dict[str, Any]:
        """Tune the program, by launches of its own or by replays."""
        options = self.options
        experiment = Experiment(
            name=f"{way} {seed}",
            command=self.words,
            objective=ObjectiveEntry(name="io_time"),
            budget=Budget(runs=options.budget),
            env={**SLEEPY, "THINK_MILLISECONDS": str(options.think)},
            hooks=Hooks(delete=[f"{self.folder}/files/chk*"]),
            replay=Replay(record=str(self.record)) if way == "replays" else None,
            seed=seed,
        )
        start = time.monotonic()
        result, trials = carry_out(experiment, f"sqlite:///{self.build}/store.db", self.build / "runs")
        whole = time.monotonic() - start
        plan = Plan.parse(result.plan, "the plan") if result.confirmed else Plan()
        searched, proof = _spans(trials)
        return {
            "proven": result.confirmed,
            "verdict": result.verdict,
            "plan": [setting.line() for setting in plan.settings],
            "launches": {"search": searched[0], "proof": proof[0]},
            "search_seconds": searched[1],
            "proof_seconds": proof[1],
            "seconds": whole,
        }

    def compare(self, plans: Sequence[list[str]], draw: random.Random) -> dict[str, Any]:
        """Run the program without its computation: with the default, and with each answer."""
        arms = [[], *plans]
        taken: list[list[float]] = [[] for _ in arms]
        for _ in range(self.options.repeats):
            for place in draw.sample(range(len(arms)), len(arms)):
                taken[place].append(self.static(arms[place], "files", self.options.phases))
        default, program, replays = (statistics.median(seconds) for seconds in taken)
        return {
            "io_seconds": {"default": default, "program": program, "replays": replays},
            "over_the_other_answer": replays / program,
        }


def _spans(trials: Sequence[Trial]) -> tuple[tuple[int, float], tuple[int, float]]:
    """Launches and seconds, the pauses between launches included, of the search and of the proof."""
    runs = sorted((run for trial in trials for run in trial.runs if run.started), key=lambda run: run.started or 0.0)
    parts = (
        [run for run in runs if run.phase is not Phase.CONFIRMATION],
        [run for run in runs if run.phase is Phase.CONFIRMATION],
    )

    def span(part: Sequence[Any]) -> tuple[int, float]:
        if not part:
            return 0, 0.0
        return len(part), part[-1].started + part[-1].elapsed - part[0].started

    return span(parts[0]), span(parts[1])
