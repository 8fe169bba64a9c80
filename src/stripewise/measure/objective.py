"""The number that an experiment improves, taken from what a run left behind."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable
from pathlib import Path

from stripewise.errors import RunFailed
from stripewise.measure.darshan import darshan_bandwidth, log_bandwidth
from stripewise.spec.launch import Outcome
from stripewise.spec.objective import Objective
from stripewise.spec.report import Report
from stripewise.spec.trial import State

_MIB = 2**20
_MOST_OUTPUT = 64 * _MIB


def measure(objective: Objective, outcome: Outcome) -> float:
    """Give the objective's value of a finished run.

    Values that the runner knows by itself (replayed and simulated runs) win over anything else.

    Raises
    ------
    RunFailed
        If the run did not finish or the number cannot be had, with the reason and what to do.
    """
    if outcome.state is not State.FINISHED:
        raise RunFailed(outcome.reason or f"the run {outcome.state.value}")
    if objective.name in outcome.metrics:
        value = float(outcome.metrics[objective.name])
    elif objective.name == "elapsed":
        value = outcome.elapsed
    elif objective.name.startswith("regex:"):
        value = _last_match(objective.name.removeprefix("regex:"), outcome.folder)
    elif objective.name == "darshan_bandwidth":
        log = outcome.facts.get("darshan_log")
        value = log_bandwidth(Path(log)) if log else darshan_bandwidth(outcome.folder)
    else:
        value = _FROM_REPORT[objective.name](_report(objective, outcome))
    if not math.isfinite(value):
        raise RunFailed(f"the objective {objective.name} is {value}, which is no measurement")
    if value <= 0:
        raise RunFailed(f"the objective {objective.name} is {value:g}, but must be above zero")
    return value


def _report(objective: Objective, outcome: Outcome) -> Report:
    if outcome.report is None:
        raise RunFailed(
            f"no report, so {objective.name} is unknown: the program made no MPI_Finalize, or the runtime did not load",
            "use --objective elapsed or regex:PATTERN, or ask stripewise doctor",
        )
    report = outcome.report
    if not report.job.complete:
        raise RunFailed(f"only {report.job.ranks_reported} of {report.job.ranks} ranks reported")
    return report


def _bandwidth(report: Report, *directions: str) -> float:
    """Bytes over the time from the first open to the last close of the files, in MiB/s."""
    moved, seconds = 0, 0.0
    for direction in directions:
        amount = report.totals.bytes_read if direction == "read" else report.totals.bytes_written
        bandwidth = report.totals.read_bandwidth if direction == "read" else report.totals.write_bandwidth
        if amount and bandwidth:
            moved += amount
            seconds += amount / _MIB / bandwidth
    if not moved:
        raise RunFailed(
            f"no {' or '.join(directions)} through MPI-IO was seen",
            "does the program use MPI-IO? else take --objective elapsed or regex:PATTERN",
        )
    return moved / _MIB / seconds


_FROM_REPORT: dict[str, Callable[[Report], float]] = {
    "io_time": lambda report: report.job.io_time,
    "write_bandwidth": lambda report: _bandwidth(report, "write"),
    "read_bandwidth": lambda report: _bandwidth(report, "read"),
    "bandwidth": lambda report: _bandwidth(report, "write", "read"),
}


def _last_match(pattern: str, folder: Path | None) -> float:
    """The first group of the last match in standard output."""
    if folder is None:
        raise RunFailed("the run left no output to search", "use another objective with this runner")
    path = folder / "stdout"
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _MOST_OUTPUT))
            text = stream.read().decode("utf-8", "replace")
    except OSError as error:
        raise RunFailed(f"the run's output {path} cannot be read: {error.strerror}") from error
    matches = collections.deque(re.finditer(pattern, text, re.MULTILINE), maxlen=1)
    if not matches:
        raise RunFailed(f"the output has nothing that matches '{pattern}'", "check the pattern against the output")
    word = matches[0].group(1)
    try:
        return float(word)
    except (TypeError, ValueError):
        raise RunFailed(f"'{word}' in the output matches '{pattern}' but is no number") from None
