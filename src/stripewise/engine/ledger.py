"""An experiment's trials and facts in memory, kept the same as in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Unpack

from stripewise.engine.budget import Spent, spent
from stripewise.facts import ExperimentKeys, Facts, RunFacts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store.base import Claim, Store
from stripewise.trial import Run, State, Trial

LEASE_SECONDS = 60.0


class Ledger:
    """What has been planned and what came of it, written to the store before it counts.

    Parameters
    ----------
    store : Store
    identifier : str
        The experiment's.
    owner : str
        Who holds the claim, for messages to others.
    simulated : callable
        Whether time is that of the runs rather than of the clock; a table says it when the runner has read it.
    clock : callable
        Wall time in seconds.
    queued : callable
        Seconds of it in which all runs waited in a scheduler's queue; no budget is charged them.
    """

    def __init__(
        self,
        store: Store,
        identifier: str,
        owner: str,
        *,
        simulated: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
        queued: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._store = store
        self.identifier = identifier
        self._simulated = simulated
        self._clock = clock
        self._queued = queued
        self._claim: Claim = store.claim(identifier, owner, LEASE_SECONDS)
        self._renewed = self._started = clock()
        record = store.record(identifier)
        self.experiment: Experiment = record.experiment
        self.facts: Facts = record.facts
        self.trials: list[Trial] = list(store.trials(identifier))
        self._seconds_before = self.facts.seconds

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def simulated(self) -> bool:
        """Whether time is that of the runs rather than of the clock."""
        return self._simulated()

    def runs(self) -> Iterator[tuple[Trial, Run]]:
        """All runs with their trials."""
        for trial in self.trials:
            for run in trial.runs:
                yield trial, run

    def run(self, number: int) -> Run:
        """The run of a number."""
        return next(run for _, run in self.runs() if run.number == number)

    def spent(self) -> Spent:
        """What has been used so far, earlier sessions included."""
        if self.simulated:
            seconds = sum(run.elapsed or 0.0 for _, run in self.runs())
        else:
            seconds = self._seconds_before + self._clock() - self._started - self._queued()
        return spent(self.trials, seconds)

    # -- writing -------------------------------------------------------------------------------------------

    def remember(self, **facts: Unpack[ExperimentKeys]) -> None:
        """Add facts about the experiment."""
        self.facts = self.facts.with_(**facts)
        self._store.update(self.identifier, facts=self.facts, claim=self._claim)

    def set_state(self, state: str, result: Result | None = None) -> None:
        """Write the experiment's state, and its result if there is one."""
        self._store.update(self.identifier, state=state, result=result, claim=self._claim)

    def plan(self, trial: Trial, run: Run, *, new: bool) -> None:
        """Add a run, and its trial if that is new."""
        self._store.plan(self.identifier, self._claim, trial if new else None, run)
        if new:
            self.trials.append(trial)
        self._put(run)

    def begin(self, run: Run, attempt: int) -> Run:
        """Note that a run is being launched, for the first time or again."""
        facts = RunFacts(attempt=attempt) if attempt else RunFacts()
        self._store.begin(self.identifier, self._claim, run.number, facts)
        running = replace(run, state=State.RUNNING, facts=run.facts.but(facts))
        self._put(running)
        return running

    def accept(self, run: Run) -> None:
        """Write a run's one result."""
        self._store.accept(self.identifier, self._claim, run)
        self._put(run)
        used = self.spent()
        self.remember(seconds=used.seconds, runs=used.runs)

    def _put(self, run: Run) -> None:
        trial = self.trials[run.trial]
        runs = [run if known.number == run.number else known for known in trial.runs]
        if all(known.number != run.number for known in trial.runs):
            runs.append(run)
        self.trials[run.trial] = replace(trial, runs=tuple(runs))

    # -- the claim -----------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Renew the claim in good time."""
        if self._clock() - self._renewed > LEASE_SECONDS / 3:
            self._store.renew(self._claim)
            self._renewed = self._clock()

    def stop_requested(self) -> bool:
        """Whether someone asked for a stop."""
        return self._store.stop_requested(self.identifier)

    def release(self) -> None:
        """Give the claim back."""
        self._store.release(self._claim)
