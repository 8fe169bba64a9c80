"""Bandwidth from the log that libdarshan left, for programs that are observed by Darshan anyway."""

from __future__ import annotations

from pathlib import Path

from stripewise.errors import RunFailed
from stripewise.launch import Outcome
from stripewise.observe.objectives.base import ObjectiveKind, Phases

_MIB = 2**20


class DarshanBandwidth(ObjectiveKind):
    """All bytes over the I/O time (read, write and metadata) of the slowest rank, as Darshan estimates performance.

    The bytes are those of the MPI-IO module or, without it, of POSIX and STDIO.
    """

    name = "darshan_bandwidth"
    about = "as Darshan estimates it (MiB/s)"
    direction = "maximize"
    unit = "MiB/s"
    timed = "from the first open to the last close of the slowest rank"

    def environment(self, folder: Path) -> dict[str, str]:
        """See :meth:`ObjectiveKind.environment`."""
        return {"DARSHAN_LOGFILE": str(folder / "run.darshan")}

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        named = outcome.facts.darshan_log
        return log_bandwidth(Path(named) if named else find_log(outcome.folder))

    def simulated(self, phases: Phases) -> float:
        """See :meth:`ObjectiveKind.simulated`."""
        return sum(moved for moved, _ in phases.values()) / _MIB / sum(seconds for _, seconds in phases.values())


def find_log(folder: Path | None) -> Path:
    """Find the one log below the run's folder.

    Raises
    ------
    RunFailed
        None, or more than one.
    """
    if folder is None:
        raise RunFailed("the run left no folder with a Darshan log", "use another objective with this runner")
    logs = sorted(path for path in folder.rglob("*") if path.suffix == ".darshan" and path.is_file())
    if not logs:
        raise RunFailed(
            f"no Darshan log in {folder}",
            "preload libdarshan and let it write there: DARSHAN_LOGPATH or DARSHAN_LOGFILE",
        )
    if len(logs) > 1:
        raise RunFailed(
            f"{len(logs)} Darshan logs in {folder}, for instance {logs[0].name}",
            "let the command start one MPI program only",
        )
    return logs[0]


def log_bandwidth(log: Path) -> float:
    """Bandwidth of one log in MiB/s, as :attr:`stripewise.observe.activity.Activity.bandwidth` gives it.

    Raises
    ------
    RunFailed
        If the log cannot be read, is incomplete, or holds no I/O.
    """
    from stripewise.observe.darshan_logs import UnreadableLogError, read_log  # noqa: PLC0415  few objectives need it

    try:
        found = read_log(log).bandwidth
    except UnreadableLogError as error:
        raise RunFailed(error.what, error.fix) from error
    if not found:
        raise RunFailed(f"the Darshan log {log} holds no I/O", "does the program do I/O through MPI-IO or POSIX?")
    return found
