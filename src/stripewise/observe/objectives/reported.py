"""Objectives that the runtime's report tells: time in I/O, bandwidths from open to close, and rates of data calls."""

from __future__ import annotations

from typing import ClassVar, Literal

from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.activity import Activity
from stripewise.observe.objectives.base import Conditions, ObjectiveKind, Phases
from stripewise.observe.plain_report import over_all

_MIB = 2**20


class Reported(ObjectiveKind):
    """Base of objectives that need the runtime's report."""

    reported = True

    def activity(self, outcome: Outcome) -> Activity:
        """Give what a run did, by its report.

        Raises
        ------
        RunFailed
            If there is none, or ranks are missing in it.
        """
        if outcome.activity is None:
            raise RunFailed(
                f"no report, so {self.title} is unknown: the program made no MPI_Finalize (without MPI: it used no "
                "regular file), or the runtime did not load",
                "use --objective elapsed or regex:PATTERN, or ask stripewise doctor",
            )
        job = outcome.activity.job
        if job.ranks_seen is not None:
            raise RunFailed(f"only {job.ranks_seen} of {job.ranks} ranks reported")
        return outcome.activity

    @staticmethod
    def unseen(what: str, activity: Activity) -> RunFailed:
        """Give the error of a run without the calls that the objective measures."""
        if activity.job.interface:
            fix = "does the program use regular files in a way that is counted? else take --objective elapsed"
            return RunFailed(f"no {what} was seen", fix)
        fix = "does the program use MPI-IO? else take --objective elapsed or regex:PATTERN"
        return RunFailed(f"no {what} through MPI-IO was seen", fix)


class IoTime(Reported):
    """Time in I/O calls."""

    name = "io_time"
    about = "time in I/O (s, smaller is better)"
    direction = "minimize"
    unit = "s"
    timed = "inside all I/O calls, of the slowest rank"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        return self.activity(outcome).io_seconds

    def simulated(self, phases: Phases) -> float:
        """See :meth:`ObjectiveKind.simulated`."""
        return sum(seconds for _, seconds in phases.values())


class Bandwidth(Reported):
    """Bytes of both directions over the time from the first open to the last close of the files.

    Where reads and writes share an open, over the time in the calls of a direction and their part of the others.
    """

    name = "bandwidth"
    about = "both directions (MiB/s)"
    direction = "maximize"
    unit = "MiB/s"
    timed = "from the first open to the last close of the slowest rank"
    leaves_room = "a program's own figure may leave out open, sync and close"
    directions: ClassVar[tuple[Literal["read", "write"], ...]] = ("write", "read")

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        activity = self.activity(outcome)
        rates = {**activity.rates, **activity.phase_rates}
        rate = over_all([(activity.directions[way].bytes, rates.get(way)) for way in self.directions])
        if rate is None:
            raise self.unseen(" or ".join(self.directions), activity)
        return rate

    def explain(self, activity: Activity) -> str:
        """Say how a direction is timed whose opens serve the other one, too."""
        ways = [way for way in self.directions if way in activity.mixed]
        if not ways:
            return ""
        both = "the program reads and writes in one open"
        if all(way in activity.phase_rates for way in ways):
            calls = " and ".join(ways)
            return (
                f"{both}: {self.title} counts the time in {calls} calls, with their part of open, sync and close. "
                "--objective io_time counts all I/O time"
            )
        return f"{both}: {self.title} divides by the time of both. --objective io_time counts all I/O time"

    def simulated(self, phases: Phases) -> float | None:
        """See :meth:`ObjectiveKind.simulated`."""
        own = [phases[way] for way in self.directions if way in phases]
        return sum(moved for moved, _ in own) / _MIB / sum(seconds for _, seconds in own) if own else None

    def of_operation(self, operation: str) -> str:
        """See :meth:`ObjectiveKind.of_operation`."""
        return f"{operation}_bandwidth"


class WriteBandwidth(Bandwidth):
    """Bandwidth of writes."""

    name = "write_bandwidth"
    about = "bytes written over the time from first open to last close (MiB/s)"
    directions: ClassVar[tuple[Literal["read", "write"], ...]] = ("write",)
    operation = "write"

    def of_operation(self, operation: str) -> str:
        """See :meth:`ObjectiveKind.of_operation`."""
        return self.name


class ReadBandwidth(WriteBandwidth):
    """Bandwidth of reads."""

    name = "read_bandwidth"
    about = "bytes read over the time from first open to last close (MiB/s)"
    directions = ("read",)
    operation = "read"


class WriteRate(Reported):
    """Bytes written over the time that the slowest rank spent in write calls: no open, close, sync or pause counts."""

    name = "write_rate"
    about = "bytes written over the time in write calls alone (MiB/s)"
    direction = "maximize"
    unit = "MiB/s"
    timed = "in data calls alone, of the slowest rank"
    leaves_room = "a program's own figure may count open, sync and close as well"
    operation: ClassVar[Literal["read", "write"]] = "write"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        activity = self.activity(outcome)
        moved, seconds = activity.directions[self.operation].bytes, activity.directions[self.operation].seconds
        if not moved:
            raise self.unseen(self.operation, activity)
        behind = {name for file in activity.files for name in file.calls if name.startswith(f"i{self.operation}")}
        if behind:
            raise RunFailed(
                f"the program uses nonblocking calls ({', '.join(sorted(behind))}), whose time is not known",
                f"use --objective {self.operation}_bandwidth",
            )
        if not seconds:
            raise RunFailed(f"the report does not tell the time in {self.operation} calls", "build the runtime again")
        return moved / _MIB / seconds

    def simulated(self, phases: Phases) -> float | None:
        """See :meth:`ObjectiveKind.simulated`."""
        moved, seconds = phases.get(self.operation, (0.0, 0.0))
        return moved / _MIB / seconds if seconds else None

    def of_operation(self, operation: str) -> str:
        """See :meth:`ObjectiveKind.of_operation`."""
        return f"{operation}_rate"


class ReadRate(WriteRate):
    """As :class:`WriteRate`, of reads."""

    name = "read_rate"
    about = "bytes read over the time in read calls alone (MiB/s)"
    operation = "read"


class MetadataRate(Reported):
    """Calls that move no data over the time that a rank spent in them, on average over ranks."""

    name = "metadata_rate"
    about = "opens, closes, syncs and calls on paths over the time in them (calls/s)"
    direction = "maximize"
    unit = "calls/s"
    timed = "in calls that move no data"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        activity = self.activity(outcome)
        calls, seconds = activity.totals.other_calls, activity.totals.other_seconds
        if not calls or not seconds:
            raise self.unseen("call without data", activity)
        return calls * activity.job.ranks / seconds


class PhaseBandwidth(ObjectiveKind):
    """Bytes over time of one phase of a launch; the runner knows it, since each phase is a run."""

    name = "phase_bandwidth"
    about = "of each phase within one launch (MiB/s)"
    direction = "maximize"
    unit = "MiB/s"
    text = "OPERATION"
    optional = True
    example = "write"
    timed = "inside the calls on a file from its open to its close, of the slowest rank"

    def __init__(self, given: str = "") -> None:
        if given not in ("", "read", "write"):
            raise UserError(
                f"objective '{self.name}:{given}' is unknown", f"write {self.name}:read or {self.name}:write"
            )
        super().__init__(given)

    def check(self, conditions: Conditions) -> None:
        """See :meth:`ObjectiveKind.check`."""
        if conditions.runner != "within":
            raise UserError(f"objective {self.title} is measured within one launch", "add --within")

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        if self.title not in outcome.metrics:
            raise RunFailed("the phase has no value")
        return outcome.metrics[self.title]
