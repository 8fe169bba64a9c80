"""Slurm through PSI/J, with what PSI/J's executor leaves out: why a job ended, and whether anything of it is left.

PSI/J 0.9.11 takes exactly three words of a line of squeue, so a reason of two words, a state or a reason that it does
not know fails every job; and it has no way to look a job up by its name, or after squeue has forgotten it.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.errors import TransientError
from stripewise.runner.batch.scheduled import UNKNOWN, Phase, Standing, Ticket
from stripewise.runner.batch.scheduler import Scheduler
from stripewise.spec.batch import Batch

_FIELDS = "%i|%T|%r|%j"
_LIVE = {
    "PENDING": Phase.QUEUED,
    "CONFIGURING": Phase.QUEUED,
    "REQUEUED": Phase.QUEUED,
    "REQUEUE_FED": Phase.QUEUED,
    "REQUEUE_HOLD": Phase.QUEUED,
    "SPECIAL_EXIT": Phase.QUEUED,
    "RESV_DEL_HOLD": Phase.QUEUED,
    "RUNNING": Phase.ACTIVE,
    "COMPLETING": Phase.ACTIVE,
    "RESIZING": Phase.ACTIVE,
    "SIGNALING": Phase.ACTIVE,
    "STAGE_OUT": Phase.ACTIVE,
    "STOPPED": Phase.ACTIVE,
    "SUSPENDED": Phase.ACTIVE,
}
_OVER = {
    "COMPLETED": ("", False),
    "FAILED": ("its job failed", False),
    "TIMEOUT": ("its job reached the walltime", False),
    "DEADLINE": ("its job reached its deadline", False),
    "OUT_OF_MEMORY": ("its job ran out of memory", False),
    "CANCELLED": ("its job was cancelled in the scheduler", False),
    "NODE_FAIL": ("a node of its job failed", True),
    "BOOT_FAIL": ("a node of its job did not start", True),
    "PREEMPTED": ("its job was preempted", True),
    "REVOKED": ("its job was revoked", True),
}
_FORGOTTEN = re.compile(r"Invalid job id", re.IGNORECASE)
_NO_ACCOUNTING_SECONDS = 300.0
_STATUS = ("squeue", "scontrol")
_AWAY_SECONDS = 5.0
"""These commands wait for a controller that restarts, and then end well; otherwise they take a fraction of it."""
_AWAY = re.compile(r"contact|connect|communication|timed out|did not answer", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """A line of squeue.

    Attributes
    ----------
    identifier, state, reason, name : str
    """

    identifier: str
    state: str
    reason: str
    name: str


def parse_queue(text: str) -> list[Line]:
    """Read what squeue prints in our format; lines of another form (a message of the site's) are passed over."""
    lines = []
    for line in text.splitlines():
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and re.fullmatch(r"\d+(_\S+)?(\+\d+)?", fields[0]):
            lines.append(Line(fields[0], fields[1], fields[2], fields[3]))
    return lines


def standing_of(state: str, reason: str = "") -> Standing:
    """Say what a state of Slurm's means for a run; a state that no version had so far is not over."""
    word = state.split(maxsplit=1)[0].split("+", maxsplit=1)[0].upper() if state.split() else ""
    if word in _LIVE:
        return Standing(_LIVE[word])
    if word in _OVER:
        why, lost = _OVER[word]
        told = f" ({reason})" if why and reason not in ("", "None", "NonZeroExitCode") else ""
        return Standing(Phase.OVER, why + told, lost)
    return Standing(Phase.ACTIVE)


class SlurmScheduler(Scheduler):
    """Slurm through PSI/J."""

    def __init__(self, batch: Batch, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(batch, folder, environment)
        self._without_accounting = 0.0
        self._asking: list[tuple[float, float]] = []
        self._absences: list[tuple[float, float]] = []

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Call a program of Slurm's, and remember when the controller did not answer."""
        if words[0] not in _STATUS:
            return super().call(words)
        asked = time.time(), time.monotonic()
        with self._lock:
            self._asking.append(asked)
        done = super().call(words)
        took = time.monotonic() - asked[1]
        with self._lock:
            self._asking.remove(asked)
            if took > _AWAY_SECONDS or (done.returncode and _AWAY.search(done.stderr)):
                self._absences.append((asked[0], asked[0] + took))
        return done

    def away(self, since: float, until: float) -> bool:
        """Whether the controller was seen not to answer between two times: srun waits for it, or fails."""
        now = time.monotonic()
        with self._lock:
            waiting = [(at, at + now - mark) for at, mark in self._asking if now - mark > _AWAY_SECONDS]
            return any(began <= until and ended >= since for began, ended in (*self._absences, *waiting))

    def mended(self, base: type[Any]) -> type[Any]:
        """Read squeue so that nothing in a line of it can fail other jobs; see :meth:`Scheduler.mended`."""
        watchful = super().mended(base)

        class Slurm(watchful):  # type: ignore[misc, valid-type]
            def get_status_command(self, native_ids: object) -> list[str]:
                # All of the user's: asked for by number, one that is forgotten would fail the whole command.
                return ["squeue", "--me", "--noheader", "--states=all", f"--format={_FIELDS}"]

            def parse_status_output(self, exit_code: int, out: str) -> dict[str, Any]:
                if exit_code:
                    raise RuntimeError(out)
                return {line.identifier: _status(standing_of(line.state, line.reason)) for line in parse_queue(out)}

        Slurm._NAME_ = "slurm"
        return Slurm

    def standing(self, ticket: Ticket) -> Standing:
        """Say where a job stands; what PSI/J takes for completed may only be forgotten."""
        found = super().standing(ticket)
        return self._looked_up(ticket.identifier) if found.phase is Phase.OVER else found

    def gone(self, ticket: Ticket) -> bool | None:
        """Whether nothing of a job runs or will run any more."""
        try:
            found = self._looked_up(ticket.identifier)
        except TransientError:
            return None
        return found.phase is Phase.OVER

    def cancel(self, ticket: Ticket) -> None:
        """Ask for the end of a job, whether PSI/J still follows it or not."""
        done = self.call(["scancel", "--quiet", ticket.identifier])
        if done.returncode and not _FORGOTTEN.search(done.stderr):
            raise TransientError(f"cannot cancel job {ticket.identifier}: {done.stderr.strip() or 'scancel failed'}")

    def named(self, name: str) -> list[str]:
        """Give the jobs of a name that are not over.

        Raises
        ------
        TransientError
            If Slurm does not answer.
        """
        done = self.call(["squeue", "--me", "--noheader", "--states=all", f"--name={name}", f"--format={_FIELDS}"])
        if done.returncode:
            raise TransientError(f"squeue failed: {done.stderr.strip()}", "Slurm may be restarting")
        lines = parse_queue(done.stdout)
        return [line.identifier for line in lines if standing_of(line.state).phase is not Phase.OVER]

    def _looked_up(self, identifier: str) -> Standing:
        """Ask for one job: the controller first, then the accounting, if there is one.

        Raises
        ------
        TransientError
            If Slurm does not answer.
        """
        done = self.call(["scontrol", "--oneliner", "show", "job", identifier])
        if done.returncode == 0:
            state = re.search(r"\bJobState=(\S+)", done.stdout)
            reason = re.search(r"\bReason=(\S+)", done.stdout)
            return standing_of(state[1] if state else "", reason[1] if reason else "")
        if not _FORGOTTEN.search(done.stderr + done.stdout):
            raise TransientError(f"scontrol failed: {done.stderr.strip()}", "Slurm may be restarting")
        return self._accounted(identifier) or UNKNOWN

    def _accounted(self, identifier: str) -> Standing | None:
        """What the accounting says of a job that the controller has forgotten; None without accounting."""
        if time.monotonic() < self._without_accounting:
            return None
        done = self.call(["sacct", "--allocations", "--noheader", "--parsable2", "--format=State", "-j", identifier])
        state = next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")
        if done.returncode:
            # Many sites keep none, or not for all: the run's own records must do.
            self._without_accounting = time.monotonic() + _NO_ACCOUNTING_SECONDS
            return None
        return standing_of(state) if state else None


def _status(standing: Standing) -> Any:
    import psij  # noqa: PLC0415

    if standing.phase is Phase.QUEUED:
        return psij.JobStatus(psij.JobState.QUEUED)
    if standing.phase is Phase.ACTIVE:
        return psij.JobStatus(psij.JobState.ACTIVE)
    state = psij.JobState.FAILED if standing.why else psij.JobState.COMPLETED
    return psij.JobStatus(state, message=standing.why or None)
