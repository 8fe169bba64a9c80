"""Runs, trials and the history that samplers learn from."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.facts import RunFacts
from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import parse_report
from stripewise.requests.objective import Objective
from stripewise.result import Failure

MOST = 1e100
"""No measurement is larger, or smaller than its inverse: ratios and squares of larger numbers overflow."""


class Phase(StrEnum):
    """Why a run was made. Only ``search`` runs teach the sampler; only ``confirmation`` runs prove a gain."""

    WARMUP = "warmup"
    SEARCH = "search"
    CONFIRMATION = "confirmation"


class State(StrEnum):
    """Where a run or trial stands."""

    PENDING = "pending"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    PRUNED = "pruned"

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self in (State.FINISHED, State.FAILED, State.PRUNED)


class Role(StrEnum):
    """What a trial stands for in the comparison."""

    DEFAULT = "default"
    REFERENCE = "reference"
    CEILING = "ceiling"
    """The bundled benchmark in place of the program."""
    CANDIDATE = "candidate"


@dataclass(frozen=True)
class Run:
    """One launch.

    Attributes
    ----------
    number : int
        Order of planning within the experiment, from 0; identifies the run.
    trial : int
        The trial it belongs to.
    phase, state : Phase, State
    value : float or None
        The objective, in its unit; the bound reached where pruned.
    elapsed : float or None
        Wall time of the launch in seconds, without queue time.
    started : float or None
        Epoch seconds.
    reason : str
        Why it failed or was pruned, in one line.
    pair, arm : int or None, str
        Confirmation: the pair's number, and ``default``, ``candidate`` or ``without`` (the candidate with one setting
        taken back).
    facts : RunFacts
        What was observed; a plain mapping of JSON values is taken, too.
    """

    number: int
    trial: int
    phase: Phase
    state: State = State.PENDING
    value: float | None = None
    elapsed: float | None = None
    started: float | None = None
    reason: str = ""
    pair: int | None = None
    arm: str = ""
    facts: RunFacts = field(default_factory=RunFacts, compare=False)

    def __post_init__(self) -> None:
        """Read plain facts."""
        if not isinstance(self.facts, RunFacts):
            object.__setattr__(self, "facts", RunFacts(self.facts))

    @cached_property
    def activity(self) -> Activity | None:
        """What the program did, by the runtime's report among the facts; None without one.

        Raises
        ------
        StripewiseError
            If another version wrote it.
        """
        return activity_of(parse_report(self.facts.report), f"run {self.number}") if self.facts.report else None

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON, without its facts."""
        given = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "facts"}
        return {**given, "phase": self.phase.value, "state": self.state.value}


@dataclass(frozen=True)
class Trial:
    """A configuration with its runs.

    Attributes
    ----------
    number : int
        Order of asking, from 0.
    configuration : Configuration
        Canonical; for the reference, the default configuration.
    role : Role
    runs : tuple of Run
        In order of planning, all phases.
    tag : str
        The sampler's own note (a generation, a temperature); opaque to all others.
    """

    number: int
    configuration: Configuration
    role: Role = Role.CANDIDATE
    runs: tuple[Run, ...] = ()
    tag: str = ""

    @cached_property
    def values(self) -> tuple[float, ...]:
        """Objective values of the finished search runs."""
        return self._of_search(State.FINISHED)

    @cached_property
    def bounds(self) -> tuple[float, ...]:
        """Values at which pruned search runs were stopped: the truth is worse."""
        return self._of_search(State.PRUNED)

    @cached_property
    def broken(self) -> str:
        """The limit of the objective that a run of any phase broke; empty if none did, and for the default.

        What breaks a limit once is no answer, so the trial has no value then. The default stays the default.
        """
        if self.role is Role.DEFAULT:
            return ""
        return next((run.facts.broken for run in self.runs if run.facts.broken), "")

    def _of_search(self, state: State) -> tuple[float, ...]:
        if self.broken:
            return ()
        searched = (run for run in self.runs if run.phase is Phase.SEARCH and run.state is state)
        return tuple(run.value for run in searched if run.value is not None)

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON, with its runs and their folders."""
        return {
            "number": self.number,
            "role": self.role.value,
            "state": self.state.value,
            "configuration": dict(self.configuration),
            "value": self.value,
            "tag": self.tag,
            "runs": [{**run.as_json(), "folder": run.facts.folder} for run in self.runs],
        }

    @property
    def value(self) -> float | None:
        """Median of :attr:`values`, or None."""
        return statistics.median(self.values) if self.values else None

    @property
    def state(self) -> State:
        """Failed if a run broke a limit, finished if any search run finished; else pruned, running, pending, failed."""
        if self.broken:
            return State.FAILED
        states = [run.state for run in self.runs if run.phase is Phase.SEARCH]
        for state in (State.FINISHED, State.PRUNED, State.RUNNING, State.PENDING, State.FAILED):
            if state in states:
                return state
        return State.PENDING


@dataclass(frozen=True)
class History:
    """All trials of an experiment so far, as a sampler sees them.

    Attributes
    ----------
    objective : Objective
    trials : tuple of Trial
        In order of asking; the reference (a program without the component) is left out.
    """

    objective: Objective
    trials: tuple[Trial, ...] = ()

    @cached_property
    def finished(self) -> tuple[Trial, ...]:
        """Trials with at least one value."""
        return tuple(trial for trial in self.trials if trial.values)

    def find(self, configuration: Mapping[str, Any]) -> Trial | None:
        """The trial of a configuration, or None."""
        for trial in self.trials:
            if trial.configuration == configuration:
                return trial
        return None


def failures_of(runs: Iterable[Run]) -> tuple[Failure, ...]:
    """Count the runs that failed by reason, the most frequent first."""
    # What the runs measured of a limit differs from run to run.
    failed = [
        (run.number, f"broke {run.facts.broken}" if run.facts.broken else run.reason)
        for run in runs
        if run.state is State.FAILED
    ]
    first = {reason: number for number, reason in reversed(failed)}
    return tuple(
        Failure(run=first[reason], reason=reason, count=count)
        for reason, count in Counter(reason for _, reason in failed).most_common()
    )
