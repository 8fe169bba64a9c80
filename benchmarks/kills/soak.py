"""Experiments whose tuners, workers and programs get kill -9 at random moments, and what must hold all the same."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.integration.forked import started

from benchmarks.kills.storages import Storage
from stripewise.errors import StripewiseError
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import Jobs
from stripewise.trial import Run, State

RUNS = 10
WORKERS = 2
LEASE = 10
VICTIMS = ("tuner", "program", "both")
_PATIENCE = 900.0
"""Seconds without progress after which something hangs: the machine may be busy, and this is run with low priority."""
_TRIES = 8

PROGRAM = """
exec 9>"$1/lock"
flock -n 9 || echo "$STRIPEWISE_RUN" >> "$1/overlaps"
echo "$STRIPEWISE_RUN $$" >> "$1/started"
sleep "$3" 9>&-
echo "value: $(( 100 + $2 ))"
"""
"""Says what it was given, which tells its result from that of any other configuration; two at a time are noticed."""


class PromiseError(AssertionError):
    """A promise of the store was broken."""


@dataclass
class Figures:
    """What the kills have done.

    Attributes
    ----------
    kills : Counter
        By victim.
    experiments, results, failed : int
        ``failed`` of the results are those of programs that were killed.
    launches, repeated, reported : int
        Launches that the programs have seen, those of them beyond a run's first, and how many of these users are told.
    refused : Counter
        What tuners that were not killed ended with, by its text.
    """

    kills: Counter[str] = field(default_factory=Counter)
    experiments: int = 0
    results: int = 0
    failed: int = 0
    launches: int = 0
    repeated: int = 0
    reported: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)


class Soak:
    """Kills over one storage.

    Parameters
    ----------
    storage : Storage
    folder : Path
        For programs, logs and whatever is not in the store.
    seed : int
    """

    def __init__(self, storage: Storage, folder: Path, seed: int) -> None:
        self._storage, self._folder = storage, folder
        self._random = random.Random(seed)
        self._turn = itertools.cycle(storage.clients)
        self._environment = {**os.environ, "STRIPEWISE_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
        self._environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "STRIPEWISE_STORE": storage.address}
        (folder / "program.sh").write_text(PROGRAM, "ascii")
        self.figures = Figures()

    def run(self, kills: int) -> Figures:
        """Run experiments until so many processes have been killed, and each of them to its end."""
        begun = time.monotonic()
        while self.figures.kills.total() < kills:
            work = self._folder / f"experiment-{self.figures.experiments}"
            work.mkdir()
            _OneExperiment(self, work, with_workers=self._storage.workers and self.figures.experiments % 2 == 1).run(
                kills
            )
            self.figures.experiments += 1
        self.figures.seconds = round(time.monotonic() - begun, 1)
        return self.figures


class _OneExperiment:
    """One experiment, from its definition to the check of its results."""

    def __init__(self, soak: Soak, work: Path, *, with_workers: bool) -> None:
        self._soak, self._work, self._with_workers = soak, work, with_workers
        self._storage, self._random, self.figures = soak._storage, soak._random, soak.figures
        self._known: dict[int, tuple[Any, ...]] = {}
        self._kills: Counter[str] = Counter()
        self._processes: list[BaseProcess] = []
        self._definition = Experiment.model_validate(
            {
                "name": work.name,
                "command": ["/bin/sh", str(soak._folder / "program.sh"), str(work), "{x}", "0.15"],
                "objective": {"name": "regex:value: (\\S+)", "direction": "minimize"},
                "parameters": {
                    "x": {"kind": "ordinal", "values": list(range(64)), "default": 63, "carrier": "argument"}
                },
                "sampler": "random",
                "resampling": {"kind": "simple", "repeats": 1},
                "confirmation": {"pairs": 0},
                "budget": {"runs": RUNS},
                "seed": self.figures.experiments,
                "timeout": 60.0,
                **({} if self._storage.scratch is None else {"scratch": str(self._storage.scratch)}),
            }
        )

    def run(self, kills: int) -> None:
        """Carry it through kills."""
        (self._work / "started").touch()
        with open_store(self._storage.seen) as store:
            identifier = store.create(self._definition, {"folder": str(self._work)})
            try:
                self._carry(store, identifier, kills)
            finally:
                for process in self._processes:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid or 0, signal.SIGKILL)
                    process.join()
            self._check(store, identifier)

    def _carry(self, store: Store, identifier: str, kills: int) -> None:
        tries = 0
        while store.record(identifier).state != "finished":
            self._begin(store, identifier)
            if self.figures.kills.total() < kills:
                if self._kill(store, identifier):
                    tries = 0
            elif self._over(store, identifier):
                tries += 1
            if tries > _TRIES:
                raise PromiseError(f"{identifier} does not end: {self._said()}")
            self._look(store, identifier)

    def _begin(self, store: Store, identifier: str) -> None:
        """Start what is missing: workers, or a tuner on the next host."""
        for process in [one for one in self._processes if not one.is_alive()]:
            self._processes.remove(process)
            if process.exitcode is not None and process.exitcode > 0:
                self.figures.refused[self._said()] += 1
        if self._with_workers:
            jobs = Jobs(database_of(store))
            if identifier not in jobs.waiting():
                # Also after three kills in a row without a result, when the service gives a job up.
                jobs.submit("experiment", identifier, "soak")
            command = ["service", "worker", "--lease", str(LEASE), "--data", str(self._work / "data")]
            missing = WORKERS - len(self._processes)
        else:
            command = ["resume", identifier, "--yes", "--json"]
            missing = 1 - len(self._processes)
        for _ in range(missing):
            first, log = next(self._soak._turn), self._work / "log"
            self._processes.append(started(command, self._soak._environment, Path(os.devnull), log, self._work, first))

    # -- kills ---------------------------------------------------------------------------------------------

    def _kill(self, store: Store, identifier: str) -> bool:
        """Wait for a random moment, and kill a random victim; False if there was none any more."""
        victim = self._random.choice(VICTIMS)
        if victim == "tuner" and self._random.random() < 0.3:
            # While it starts, claims, seals what others have left, and ends their processes.
            self._glance(identifier)
            time.sleep(self._random.uniform(0.0, 4.0))
        else:
            before, deadline = len(self._started()), time.monotonic() + _PATIENCE
            while len(self._started()) == before:
                if all(not process.is_alive() for process in self._processes) or (
                    store.record(identifier).state == "finished"
                ):
                    return False
                if self._with_workers and identifier not in Jobs(database_of(store)).waiting():
                    return False
                if time.monotonic() > deadline:
                    raise PromiseError(f"nothing was launched for {_PATIENCE:g} s: {self._said()}")
                time.sleep(0.02)
            self._glance(identifier)
            time.sleep(self._random.uniform(0.0, 0.4))
        killed = False
        if victim != "tuner":
            killed = self._kill_program()
        if victim != "program":
            alive = [process for process in self._processes if process.is_alive()]
            if alive:
                # A worker leads the session of no program: only the one process dies, and its runs stay.
                process = self._random.choice(alive)
                process.kill()
                process.join()
                killed = True
        if killed:
            self._kills[victim] += 1
            self.figures.kills[("worker" if self._with_workers else "tuner") if victim == "tuner" else victim] += 1
        return killed

    def _kill_program(self) -> bool:
        started = self._started()
        if not started:
            return False
        pid = int(started[-1][1])
        try:
            if str(self._work).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
                return False
            os.kill(pid, signal.SIGKILL)
        except OSError:
            return False
        return True

    def _over(self, store: Store, identifier: str) -> bool:
        """Wait until it has ended, or until its tuner has given up."""
        deadline = time.monotonic() + _PATIENCE
        while store.record(identifier).state != "finished" and time.monotonic() < deadline:
            if all(not process.is_alive() for process in self._processes):
                return True
            if self._with_workers and identifier not in Jobs(database_of(store)).waiting():
                return True
            time.sleep(0.1)
        return True

    def _started(self) -> list[list[str]]:
        lines = (self._work / "started").read_text("ascii").splitlines()
        return [words for line in lines if len(words := line.split()) == 2]

    def _said(self) -> str:
        log = self._work / "log"
        lines = log.read_text("utf-8", "replace").strip().splitlines() if log.exists() else []
        return next((line for line in reversed(lines) if line), "nothing")

    # -- what must hold ------------------------------------------------------------------------------------

    def _look(self, store: Store, identifier: str) -> None:
        """Check that what was accepted stays."""
        now = {run.number: _kept(run) for run in _runs(store, identifier) if run.state.ended}
        for number, kept in self._known.items():
            if now.get(number) != kept:
                raise PromiseError(f"the result of run {number} of {identifier} was {kept} and is {now.get(number)}")
        self._known = now

    def _glance(self, identifier: str) -> None:
        """Look through each client, which remembers what it sees: what the tuner still writes is news to the other."""
        for view in self._storage.views:
            try:
                with open_store(view) as opened:
                    opened.trials(identifier)
            except StripewiseError as error:
                # An experiment of which this client has not heard yet.
                if "does not exist" not in error.what:
                    raise PromiseError(f"{view}: {error.what}") from error

    def _check(self, store: Store, identifier: str) -> None:
        self._look(store, identifier)
        record, runs = store.record(identifier), _runs(store, identifier)
        numbers = [run.number for run in runs]
        launched = Counter(number for number, _ in self._started())
        configurations = {trial.number: trial.configuration for trial in store.trials(identifier)}
        _hold(record.result is not None and record.result.cost is not None, "the experiment has a result")
        assert record.result is not None and record.result.cost is not None
        _hold(sorted(numbers) == list(range(len(runs))), f"each run is there once: {numbers}")
        _hold(record.ended == record.runs == len(runs) == record.result.runs <= RUNS, "each run has its result")
        for run in runs:
            good = 100 + int(configurations[run.trial].get("x", 63))
            what = f"run {run.number} has its own result: {run.state} {run.value} {run.reason}"
            _hold(run.state is State.FAILED or (run.state is State.FINISHED and run.value == good), what)
        failed = sum(run.state is State.FAILED for run in runs)
        _hold(failed <= self._kills["program"] + self._kills["both"], f"{failed} runs failed")
        _hold(set(launched) == {str(number) for number in numbers}, f"each run was launched: {launched}")
        overlaps = self._work / "overlaps"
        _hold(not overlaps.exists(), "no program runs twice at a time")
        repeated, reported = launched.total() - len(launched), record.result.cost.repeated
        deaths = self._kills["tuner"] + self._kills["both"]
        # A tuner may die between writing a launch down and making it.
        _hold(repeated <= reported <= deaths, f"{repeated} launches repeated, {reported} reported, {deaths} deaths")
        self.figures.results += len(runs)
        self.figures.failed += failed
        self.figures.launches += launched.total()
        self.figures.repeated += repeated
        self.figures.reported += reported


def _runs(store: Store, identifier: str) -> list[Run]:
    return [run for trial in store.trials(identifier) for run in trial.runs]


def _kept(run: Run) -> tuple[Any, ...]:
    return (run.trial, run.state.value, run.value, run.started, run.reason)


def _hold(condition: bool, what: str) -> None:
    if not condition:
        raise PromiseError(f"it does not hold that {what}")
