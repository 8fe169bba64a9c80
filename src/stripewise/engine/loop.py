"""The one loop: plan a run, launch it, wait, keep its result, until nothing is left to do.

A planner says what runs next: a search, the grid of a campaign, the cases of an evaluation, a player of a race. A rig
says how: launches of a program, phases of one launch, replays of a record, answers of a table. A ledger keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from stripewise.engine.ledger import Ledger
from stripewise.launch import Launch, Outcome
from stripewise.trial import Run, State, Trial

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Planned:
    """A run to start now.

    Attributes
    ----------
    trial : Trial
        The trial that the run belongs to, without the run.
    new : bool
        Whether the trial is new as well.
    attempt : int
        How often the run was launched before, by sessions that were interrupted.
    """

    trial: Trial
    run: Run
    new: bool
    attempt: int = 0


@dataclass(frozen=True)
class Wait:
    """Nothing can be planned before a running one has ended."""


@dataclass(frozen=True)
class Finish:
    """Nothing is left to do.

    Attributes
    ----------
    reason : str
        Why, in one sentence.
    """

    reason: str


Plan = Callable[[], Planned | Wait | Finish]
"""Says what runs next, by what the ledger holds at that moment."""


class Rig(Protocol):
    """How planned runs become runs with results."""

    def has_room(self, running: Mapping[int, Launch]) -> bool:
        """Whether one more run may start beside those that run."""

    def make(self, trial: Trial, run: Run, running: Mapping[int, Launch]) -> Launch:
        """Make the launch of a run that is to start beside others."""

    def start(self, launch: Launch) -> None:
        """Begin a run and return at once; see :meth:`stripewise.runners.base.Runner.start`."""

    def poll(self, timeout: float) -> list[Outcome]:
        """Give runs that have ended; see :meth:`stripewise.runners.base.Runner.poll`."""

    def cancel(self, number: int) -> None:
        """End a run without an outcome."""

    def result(self, run: Run, outcome: Outcome) -> Run:
        """Give a run with its value, or with the reason why it has none."""


class Loop:
    """Starts what its planner asks for, as far as the rig has room, and keeps what comes of it.

    Parameters
    ----------
    on_start : callable
        Is told each trial and run just before it starts.
    """

    def __init__(
        self,
        ledger: Ledger,
        rig: Rig,
        on_start: Callable[[Trial, Run], None] = lambda trial, run: None,
    ) -> None:
        self._ledger = ledger
        self._rig = rig
        self._on_start = on_start
        self.running: dict[int, Launch] = {}

    def fill(self, plan: Plan) -> Wait | Finish:
        """Start runs until there is no more room or nothing can be planned; say which."""
        while self._rig.has_room(self.running):
            step = plan()
            if not isinstance(step, Planned):
                return step
            if step.run.number not in self._ledger.runs:
                self._ledger.plan(step.trial, step.run, new=step.new)
            run = self._ledger.begin(step.run, step.attempt)
            launch = self._rig.make(step.trial, run, self.running)
            self.running[run.number] = launch
            self._on_start(step.trial, run)
            self._rig.start(launch)
        return Wait()

    def collect(self) -> Iterator[tuple[Run, Outcome]]:
        """Wait a moment for runs to end; give each once its result is kept."""
        for outcome in self._rig.poll(POLL_SECONDS):
            if self.running.pop(outcome.number, None) is None:
                continue
            run = self._rig.result(self._ledger.runs[outcome.number], outcome)
            self._ledger.accept(run)
            yield run, outcome

    def take_back(self, number: int) -> None:
        """End a run without an outcome."""
        self._rig.cancel(number)
        self.running.pop(number, None)

    def cancel(self) -> None:
        """End all runs without outcomes."""
        for number in list(self.running):
            self.take_back(number)


def next_attempt(run: Run) -> int:
    """The attempt that launching an interrupted run will be; one that was only planned was never launched."""
    return run.facts.attempt + (run.state is not State.PENDING)
