"""What was planned and what came of it: in memory, and where a store is given written to it before it counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from stripewise.errors import StoreError, UserError
from stripewise.facts import ExperimentKeys, Facts, RunFacts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store.base import Claim, Store
from stripewise.trial import Run, State, Trial

LEASE_SECONDS = 60.0


@dataclass(frozen=True)
class Spent:
    """What an experiment has used so far.

    Attributes
    ----------
    runs : int
        Launches, of every phase and outcome; where all runs are within one launch, its phases.
    seconds : float
        Wall time.
    """

    runs: int
    seconds: float
    node_hours: float


def spent(trials: Sequence[Trial], seconds: float) -> Spent:
    """Count what the runs have used; ``seconds`` is the wall time of all sessions."""
    runs = [run for trial in trials for run in trial.runs]
    return Spent(sum(run.facts.phases_spent for run in runs), seconds, sum(run.facts.node_hours for run in runs))


def check_same(earlier: Mapping[str, str], now: Mapping[str, str], instead: str) -> None:
    """Refuse to pool runs of different programs or MPI libraries; ``instead`` says what else can be done.

    Raises
    ------
    UserError
        If something differs from the earlier runs.
    """
    for name in sorted({*earlier, *now}):
        if earlier.get(name) != now.get(name):
            raise UserError(
                f"{name} was '{earlier.get(name)}' in the earlier runs and is '{now.get(name)}' now",
                f"restore it, or {instead}: runs that differ are never pooled",
            )


class Ledger:
    """Trials and runs in memory: nobody else sees them, and they are gone with the process.

    Attributes
    ----------
    runs : dict of int to Run
        By number.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._trials = {trial.number: trial for trial in trials}
        self.runs = {run.number: run for trial in self._trials.values() for run in trial.runs}

    @property
    def trials(self) -> list[Trial]:
        """All trials with their runs, in the order in which they were planned."""
        return list(self._trials.values())

    def trial(self, number: int) -> Trial | None:
        """Give a trial; None before it is planned."""
        return self._trials.get(number)

    def plan(self, trial: Trial, run: Run, *, new: bool) -> None:
        """Add a run, and its trial if that is new."""
        if new:
            self._trials[trial.number] = trial
        self._put(run)

    def begin(self, run: Run, attempt: int) -> Run:
        """Note that a run is being launched, for the first time or again."""
        facts = RunFacts(attempt=attempt) if attempt else RunFacts()
        running = replace(run, state=State.RUNNING, facts=run.facts.but(facts))
        self._put(running)
        return running

    def accept(self, run: Run) -> None:
        """Keep a run's one result."""
        if self.runs[run.number].state.ended:
            raise StoreError(f"run {run.number} already has a result", "a run has only one")
        self._put(run)

    def set_state(self, state: str, result: Result | None = None) -> None:
        """Say where the work stands, and keep its result if there is one."""

    def keep(self) -> None:
        """Renew the right to write in good time."""

    def stop_requested(self) -> bool:
        """Whether someone asked for a stop."""
        return False

    def release(self) -> None:
        """Give the right to write back, and what was opened for it."""

    def check_fingerprint(self, now: Mapping[str, str], instead: str) -> None:
        """Refuse to go on with another program or MPI; see :func:`check_same`."""

    def _put(self, run: Run) -> None:
        self.runs[run.number] = run
        trial = self._trials[run.trial]
        runs = {known.number: known for known in trial.runs} | {run.number: run}
        self._trials[run.trial] = replace(trial, runs=tuple(runs.values()))


class StoredLedger(Ledger):
    """Trials and runs that are written to a store before they count.

    Parameters
    ----------
    identifier : str
        The experiment's.
    owner : str
        Who holds the claim, for messages to others.
    clock : callable
        Seconds that pass evenly, whatever happens to the time of day.
    """

    def __init__(self, store: Store, identifier: str, owner: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self.identifier = identifier
        self._clock = clock
        self._claim: Claim = store.claim(identifier, owner, LEASE_SECONDS)
        self._renewed = clock()
        self.facts: Facts = store.record(identifier).facts
        super().__init__(store.trials(identifier))

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
        super().plan(trial, run, new=new)

    def begin(self, run: Run, attempt: int) -> Run:
        """Note that a run is being launched, for the first time or again."""
        self._store.begin(self.identifier, self._claim, run.number, RunFacts(attempt=attempt) if attempt else None)
        return super().begin(run, attempt)

    def accept(self, run: Run) -> None:
        """Write a run's one result."""
        self._store.accept(self.identifier, self._claim, run)
        self._put(run)

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

    def check_fingerprint(self, now: Mapping[str, str], instead: str) -> None:
        """Refuse to go on with another program or MPI; see :func:`check_same`."""
        if self.facts.fingerprint is None:
            self.remember(fingerprint=dict(now))
        else:
            check_same(self.facts.fingerprint, now, instead)


class ExperimentLedger(StoredLedger):
    """The trials of an experiment, with what it has used of its budget in all its sessions.

    Parameters
    ----------
    store, identifier, owner, clock
        See :class:`StoredLedger`.
    simulated : callable
        Whether time is that of the runs rather than of the clock; a table says it when the runner has read it.
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
        queued: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(store, identifier, owner, clock)
        self.experiment: Experiment = store.record(identifier).experiment
        self._simulated = simulated
        self._queued = queued
        self._started = clock()
        self._seconds_before = self.facts.seconds

    @property
    def simulated(self) -> bool:
        """Whether time is that of the runs rather than of the clock."""
        return self._simulated()

    def spent(self) -> Spent:
        """What has been used so far, earlier sessions included."""
        if self.simulated:
            seconds = sum(run.elapsed or 0.0 for run in self.runs.values())
        else:
            seconds = self._seconds_before + self._clock() - self._started - self._queued()
        return spent(self.trials, seconds)

    def accept(self, run: Run) -> None:
        """Write a run's one result."""
        super().accept(run)
        used = self.spent()
        self.remember(seconds=used.seconds, runs=used.runs)
