"""What a runner is asked to launch, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.facts import RunFacts
from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import Report
from stripewise.sizes import format_seconds
from stripewise.trial import Phase, State


@dataclass(frozen=True)
class Launch:
    """One planned run, ready to start.

    Attributes
    ----------
    experiment : str
        Identifier, for folders and names of jobs.
    number : int
        The run's number within the experiment; it also keys a simulated or dummy run's randomness.
    configuration : Configuration
    plan : Plan
        What to apply; empty for the default and the reference.
    phase : Phase
    reference : bool
        Run without the component (the stack's ``off``).
    timeout : float or None
        Seconds after which the run counts as hung and is failed.
    bound : float or None
        Seconds after which the run is cut: it cannot become interesting any more.
    why_bound : str
        What a run that takes so long is, for people: ``3 times as long as the best``.
    attempt : int
        0, and one more each time the same planned run had to be launched again after a crash.
    command : str or None
        Another command line for this run (a reference may need one), instead of the experiment's.
    unset : tuple of str
        Environment variables to take away.
    before, after : tuple of str
        Shell lines of this run alone, outside its time: after the experiment's own lines before it, and before those
        after it.
    pair : int or None
        The pair of the confirmation that it belongs to: both of a pair run on the same nodes.
    block : int
        Phases that it holds, where runs are phases of one launch.
    program : str
        Of the programs that the command starts, the one that is measured; empty where all of them are.
    replays : bool
        Whether the command replays a record, which holds no calls of the C library: its own are not counted.
    """

    experiment: str
    number: int
    configuration: Configuration
    plan: Plan
    phase: Phase
    reference: bool = False
    timeout: float | None = None
    bound: float | None = None
    why_bound: str = ""
    attempt: int = 0
    command: str | None = None
    unset: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    pair: int | None = None
    block: int = 1
    program: str = ""
    replays: bool = False

    def cut_after(self, seconds: float) -> str:
        """Say in one line that the run was cut after so many seconds, and why."""
        return f"cut after {format_seconds(seconds)}: {self.why_bound or 'it cannot become interesting any more'}"


@dataclass(frozen=True)
class Outcome:
    """What came of a launch.

    Attributes
    ----------
    number : int
        The launch's.
    state : State
        FINISHED (exit code 0), FAILED or PRUNED.
    elapsed : float
        Wall seconds of the program, queue time excluded.
    started : float
        Epoch seconds (simulated seconds where simulated).
    reason : str
        One line where failed or pruned.
    exit_code : int or None
        None if it never started; negative for a signal.
    report : Report or None
        The runtime's report, if one was written: it is kept with the run. Who asks what the program did reads
        :attr:`activity`.
    folder : Path or None
        The run's scratch folder, with ``stdout`` and ``stderr``.
    metrics : mapping
        Values that a runner knows by itself, by objective name (replayed and simulated runs).
    facts : RunFacts
        More to keep with the run; a plain mapping of JSON values is taken, too.
    """

    number: int
    state: State
    elapsed: float
    started: float
    reason: str = ""
    exit_code: int | None = None
    report: Report | None = None
    folder: Path | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: RunFacts = field(default_factory=RunFacts)

    def __post_init__(self) -> None:
        """Read plain facts."""
        if not isinstance(self.facts, RunFacts):
            object.__setattr__(self, "facts", RunFacts(self.facts))

    @cached_property
    def activity(self) -> Activity | None:
        """What the program did, by the runtime's report; None without one."""
        return activity_of(self.report, f"run {self.number}") if self.report is not None else None
