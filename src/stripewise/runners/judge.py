"""From what happened to a run to its outcome: did it finish, and if not, why."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.catalogue.carriers import RUNTIME
from stripewise.errors import StripewiseError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import ObjectiveKind
from stripewise.observe.report import Report
from stripewise.runners.injection import Injection
from stripewise.runners.local.scratch import Scratch
from stripewise.runners.local.supervision import Cause, Ended, last_line, tail
from stripewise.runners.setup_lines import failed_line
from stripewise.sizes import format_seconds
from stripewise.trial import State

_FULL = 1 << 20
_MAKE_ROOM = "make room, then continue with: stripewise resume ID"
_HEAD = 1 << 16
_UNLOADED = re.compile(r"^ERROR: ld\.so: object '(.+?)' from \S+ cannot be preloaded \((.+?)\): ignored", re.M)


@dataclass(frozen=True)
class Evidence:
    """All that is known of a run when it is over.

    Attributes
    ----------
    launch, place, ended
        The run, its folder and how its command ended.
    report : Report or None
    missing : str
        Why the report is missing.
    injection : Injection
        How its settings travelled.
    objectives : tuple of ObjectiveKind
        The objective, and what it is subject to.
    after : str
        Why an after hook failed.
    notes : tuple of str
    metrics : mapping
        What was measured while the program ran, by objective.
    facts : RunFacts
        More to keep with the run.
    """

    launch: Launch
    place: Scratch
    ended: Ended
    report: Report | None
    missing: str
    injection: Injection
    objectives: tuple[ObjectiveKind, ...]
    after: str = ""
    notes: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: RunFacts = field(default_factory=RunFacts)


def judge(evidence: Evidence) -> Outcome:
    """Decide on the outcome of a run.

    Raises
    ------
    StripewiseError
        If a full disk has kept away what would decide: that says nothing about the settings.
    """
    ended = evidence.ended
    if ended.lost and not ended.exit_code and not all(one.wall_time or one.reported for one in evidence.objectives):
        # What is left of the output may hold another number than the last one, or none.
        what = f"run {evidence.launch.number}: its output is not whole: {ended.lost}"
        raise StripewiseError(what, _MAKE_ROOM)
    state, reason = _verdict(evidence)
    report, facts = evidence.report, evidence.facts
    reporting = "STRIPEWISE_REPORT" in evidence.injection.environment
    if state is State.FAILED and not ended.exit_code and reporting and report is None:
        refuse_full(evidence.launch, evidence.place.path, evidence.missing)
    facts = facts.with_(nodes=(facts.nodes or 1) if report is None else report.job.nodes)
    if evidence.notes:
        facts = facts.with_(notes=list(evidence.notes))
    counted = "STRIPEWISE_PROCESSES" in evidence.injection.environment and evidence.launch.program
    if report is None and (reporting or counted):
        facts = facts.with_(no_report=evidence.missing)
    if evidence.injection.carried:
        facts = facts.with_(carried=[entry.as_json() for entry in evidence.injection.carried])
    return Outcome(
        number=evidence.launch.number,
        state=state,
        elapsed=ended.elapsed,
        started=ended.started,
        reason=reason,
        exit_code=ended.exit_code,
        report=evidence.report,
        folder=evidence.place.path,
        metrics=evidence.metrics,
        facts=facts,
    )


def _verdict(evidence: Evidence) -> tuple[State, str]:
    ended, launch, place = evidence.ended, evidence.launch, evidence.place
    if ended.cause is Cause.BOUND:
        return State.PRUNED, launch.cut_after(ended.elapsed)
    if ended.cause is Cause.TIMEOUT:
        return State.FAILED, f"still running at its time limit of {format_seconds(launch.timeout or 0)}, and ended"
    if ended.cause is Cause.NOT_STARTED:
        return State.FAILED, f"cannot start the command: {ended.error}"
    if ended.cause is Cause.SETUP:
        return State.FAILED, _setup_reason(evidence)
    if ended.exit_code:
        return State.FAILED, exit_reason(ended.exit_code, place.stdout, place.stderr) + _find_full(place.path)
    if evidence.after:
        return State.FAILED, evidence.after
    if unloaded := find_unloaded(place.stderr):
        return State.FAILED, unloaded
    return _of_report(evidence)


def find_unloaded(stderr: Path) -> str:
    """Say which preloaded library the dynamic linker could not load; empty if it complains of none.

    The linker goes on without it, and the program runs as if nothing had been asked. A library for processors of
    another kind is left out: a wrapper of 32 bits cannot load what the program loads.
    """
    try:
        with stderr.open("rb") as errors:
            head = errors.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return ""
    for found in _UNLOADED.finditer(head):
        if not found[2].startswith("wrong ELF class"):
            whole = "" if found[1].startswith("/") else ", by its whole path"
            return f"{found[1]} was not preloaded: ld.so says '{found[2]}'; name one that exists{whole}"
    return ""


def _setup_reason(evidence: Evidence) -> str:
    errors = tail(evidence.place.stderr)
    number = failed_line(errors)
    said = last_line("\n".join(line for line in errors.splitlines() if not failed_line(line)))
    said = f": {said}" if said else ""
    code = evidence.ended.exit_code
    if number:
        return f"setup line {number} ended with exit code {code}{said}"
    if code is not None and code < 0 and -code in (signal.SIGTERM, signal.SIGKILL):
        return f"the setup lines did not end in time{said}"
    return f"the setup lines left the shell with exit code {code}{said}"


def _of_report(evidence: Evidence) -> tuple[State, str]:
    """Check that a run with exit code 0 did what was asked of it."""
    expected = "STRIPEWISE_REPORT" in evidence.injection.environment
    if not expected:
        return State.FINISHED, ""
    if evidence.report is None:
        by_runtime = [entry.setting.key for entry in evidence.injection.carried if entry.by == RUNTIME]
        if needing := next((one for one in evidence.objectives if one.reported), None):
            why = f"objective {needing.title} needs one"
        elif by_runtime:
            why = f"nothing shows that {by_runtime[0]} was applied"
        else:
            return State.FINISHED, ""
        hint = "does the program call MPI_Init and MPI_Finalize?" if evidence.missing.endswith("none") else ""
        return State.FAILED, f"no report: {evidence.missing}, and {why}{f'; {hint}' if hint else ''}"
    error = evidence.report.runtime.plan_error
    if error:
        return State.FAILED, f"the runtime could not read the plan: {error}"
    return State.FINISHED, ""


def _find_full(folder: Path) -> str:
    """Say if a file system is full, because programs seldom do."""
    return next((f" (the file system of {path} is full)" for path in (folder, Path.cwd()) if _is_full(path)), "")


def refuse_full(launch: Launch, folder: Path, lacking: str) -> None:
    """Do not let a full disk count as a failure of the settings.

    Raises
    ------
    StripewiseError
        If next to nothing can be written below the folder, with what is lacking for that.
    """
    if _is_full(folder):
        what = f"run {launch.number}: {lacking}; the file system of {folder} is full"
        raise StripewiseError(what, _MAKE_ROOM)


def _is_full(folder: Path) -> bool:
    """Whether next to nothing can be written below a folder."""
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _FULL


_SHELL_SIGNAL = 128
_SAID_SIGNAL = re.compile(r"\bsignal:?\s+(\d{1,2})\b", re.IGNORECASE)
_MEANING = {
    "SIGKILL": "out of memory, or ended by somebody",
    "SIGXCPU": "the limit of CPU time",
    "SIGXFSZ": "the limit of file size",
    "SIGBUS": "often a full memory-backed file system",
}


_LOCKS = "the file system grants no locks: use one that does (Lustre: mount option flock)"
_SAID = {
    # ROMIO prints the number in hexadecimal digits: 25 is ENOLCK, 26 is ENOSYS.
    re.compile(r"No locks available|\bENOLCK\b|\block\b.{0,80}errno ?=? ?37\b", re.IGNORECASE): f"ENOLCK: {_LOCKS}",
    re.compile(r"File locking failed in .{0,200}errno 25\b"): f"ENOLCK: {_LOCKS}",
    re.compile(r"File locking failed in .{0,200}errno 26\b|(?<!b)lock.{0,80}Function not implemented", re.IGNORECASE): (
        f"ENOSYS: {_LOCKS}"
    ),
    re.compile(r"(?<!b)lock.{0,80}errno ?= ?524\b", re.IGNORECASE): f"ENOTSUPP: {_LOCKS}",
    re.compile(r"quota exceeded|\bEDQUOT\b|\bMPI_ERR_QUOTA\b|errno ?=? ?122\b", re.IGNORECASE): (
        "EDQUOT: a quota is used up: delete files, or ask for a larger one"
    ),
}
"""What programs print where locks or space are refused, and what it means."""


def refusal_in(*texts: str) -> str:
    """Name the refusal of the file system that a program printed, in parentheses; empty where there is none."""
    found = (meaning for said, meaning in _SAID.items() if any(said.search(text) for text in texts))
    meaning = next(found, "")
    return f" ({meaning})" if meaning else ""


def signal_name(number: int) -> str:
    """Give a signal's name, as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exit_reason(exit_code: int, stdout: Path, stderr: Path) -> str:
    """Explain an exit code other than 0.

    Parameters
    ----------
    exit_code : int
        Negative for the signal that ended the command itself.
    stdout, stderr : Path
        What it printed: launchers say there which signal ended a rank.
    """
    errors, prints = tail(stderr), tail(stdout)
    said = last_line(errors) or last_line(prints)
    if exit_code < 0:
        what = _killed(-exit_code)
    else:
        number = _signal_of_rank(exit_code, errors, prints)
        what = f"exit code {exit_code}" + (f" ({_killed(number)})" if number else "")
    return (f"{what}: {said}" if said else what) + refusal_in(errors, prints)


def _killed(number: int) -> str:
    name = signal_name(number)
    meaning = f", {_MEANING[name]}" if name in _MEANING else ""
    return f"ended by {name}{meaning}"


def _signal_of_rank(exit_code: int, *texts: str) -> int:
    """Find the signal that a launcher names; it must agree with the exit code if that names one, too."""
    numbers = [int(match) for text in texts for match in _SAID_SIGNAL.findall(text)]
    for number in reversed(numbers):
        if exit_code in (number, _SHELL_SIGNAL + number):
            return number
    if _SHELL_SIGNAL < exit_code <= _SHELL_SIGNAL + 64:
        return exit_code - _SHELL_SIGNAL
    return 0
