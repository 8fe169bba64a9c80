"""Objectives that the runtime's report tells: time in I/O, bandwidths from open to close, and rates of data calls."""

from __future__ import annotations

from typing import ClassVar

from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.objectives.base import Conditions, ObjectiveKind, Phases
from stripewise.observe.report import Report

_MIB = 2**20


class Reported(ObjectiveKind):
    """Base of objectives that need the runtime's report."""

    reported = True

    def report(self, outcome: Outcome) -> Report:
        """Give the report of a run.

        Raises
        ------
        RunFailed
            If there is none, or ranks are missing in it.
        """
        if outcome.report is None:
            raise RunFailed(
                f"no report, so {self.title} is unknown: the program made no MPI_Finalize (without MPI: it used no "
                "regular file), or the runtime did not load",
                "use --objective elapsed or regex:PATTERN, or ask stripewise doctor",
            )
        job = outcome.report.job
        if not job.complete:
            raise RunFailed(f"only {job.ranks_reported} of {job.ranks} ranks reported")
        return outcome.report

    @staticmethod
    def unseen(what: str, report: Report) -> RunFailed:
        """Give the error of a run without the calls that the objective measures."""
        if report.job.interface:
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

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        return self.report(outcome).job.io_time

    def simulated(self, phases: Phases) -> float:
        """See :meth:`ObjectiveKind.simulated`."""
        return sum(seconds for _, seconds in phases.values())


class Bandwidth(Reported):
    """Bytes of both directions over the time from the first open to the last close of the files."""

    name = "bandwidth"
    about = "both directions (MiB/s)"
    direction = "maximize"
    unit = "MiB/s"
    timed = "from the first open to the last close of the slowest rank"
    leaves_room = "a program's own figure may leave out open, sync and close"
    directions: ClassVar[tuple[str, ...]] = ("write", "read")

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        report = self.report(outcome)
        totals = report.totals
        measured = {
            "read": (totals.bytes_read, totals.read_bandwidth),
            "write": (totals.bytes_written, totals.write_bandwidth),
        }
        own = [(amount, rate) for amount, rate in map(measured.__getitem__, self.directions) if amount and rate]
        if not own:
            raise self.unseen(" or ".join(self.directions), report)
        if len(own) == 1:
            return own[0][1]
        return sum(amount for amount, _ in own) / sum(amount / rate for amount, rate in own)

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
    directions = ("write",)
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
    operation = "write"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        report = self.report(outcome)
        totals = report.totals
        moved, seconds = {
            "read": (totals.bytes_read, totals.read_time),
            "write": (totals.bytes_written, totals.write_time),
        }[self.operation]
        if not moved:
            raise self.unseen(self.operation, report)
        behind = {name for file in report.files for name in file.operations if name.startswith(f"i{self.operation}")}
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
        report = self.report(outcome)
        made = [
            *((one.count, one.time_sum) for file in (*report.files, *report.posix_files) for one in file.without_data),
            *((one.count, one.time_sum) for process in report.processes for one in process.metadata.values()),
        ]
        calls, seconds = sum(count for count, _ in made), sum(spent for _, spent in made)
        if not calls or not seconds:
            raise self.unseen("call without data", report)
        return calls * report.job.ranks / seconds


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
