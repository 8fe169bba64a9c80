"""The processes of a run: finding them all, and ending them all.

A run is started as the leader of a session of its own. Its processes are those of that session or process group, all
whose environment carries the run's marker (launchers like to start sessions of their own), and the descendants of
any of them. A process number alone proves nothing, since numbers are used again: an identity adds the start time
and the boot.

Nothing tells a process that it is stopped or killed, so others do what it then cannot do. Run as a program, this file
is the guard of a runner, which ends the runs of a Stripewise that was killed; with two process numbers it follows the
command that attends a program. So it uses nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MARKER = "STRIPEWISE_RUN_ID"
_PROC = Path("/proc")
_GONE = "ZX"
_SWEEP_SECONDS = 10.0
_SEGMENTS = ("/dev/shm/mpich_shar_tmp", "/dev/shm/mpich_shm_", "/dev/shm/sm_segment.", "/dev/shm/vader_segment.")
"""How the names of the memory begin that the ranks of MPICH and Open MPI share; killed ranks leave it behind."""


def boot_id() -> str:
    """Give the identifier of this boot of the machine, or an empty text where the kernel keeps it."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def host_name() -> str:
    """Give this machine's name."""
    return os.uname().nodename


@dataclass(frozen=True)
class Status:
    """A line of the process table.

    Attributes
    ----------
    pid, parent, group, session : int
    state : str
        The kernel's letter.
    start : int
        Clock ticks since the boot.
    """

    pid: int
    parent: int
    group: int
    session: int
    state: str
    start: int

    @property
    def alive(self) -> bool:
        """Whether it is neither a zombie nor dead."""
        return self.state not in _GONE


def status(pid: int) -> Status | None:
    """Look a process up; None if there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command's name may hold spaces and parentheses: fields are counted from the last parenthesis.
    fields = text[text.rfind(")") + 2 :].split()
    try:
        return Status(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0], int(fields[19]))
    except (IndexError, ValueError):
        return None


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start: int
    boot: str
    host: str

    @classmethod
    def of(cls, pid: int) -> Identity:
        """Identify a live process."""
        found = status(pid)
        return cls(pid, found.start if found else 0, boot_id(), host_name())

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Identity:
        """Take an identity from JSON.

        Raises
        ------
        ValueError
            If a part is missing or of the wrong type.
        """
        try:
            return cls(int(data["pid"]), int(data["start"]), str(data["boot"]), str(data["host"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"no process identity: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Give the identity as JSON."""
        return asdict(self)

    @property
    def here(self) -> bool:
        """Whether it was a process of this host."""
        return self.host == host_name()

    @property
    def alive(self) -> bool:
        """Whether it still runs (zombies do not); only meaningful where :attr:`here`."""
        if self.boot != boot_id():
            return False
        found = status(self.pid)
        return found is not None and found.start == self.start and found.alive


def _table() -> list[Status]:
    found = (status(int(entry)) for entry in os.listdir(_PROC) if entry.isdigit())  # noqa: PTH208  faster on big hosts
    return [line for line in found if line is not None and line.alive]


def _carries_marker(pid: int, marker: bytes) -> bool:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return marker in environment.split(b"\0")


def _marker(run_id: str) -> bytes:
    return f"{MARKER}={run_id}".encode()


def members(run_id: str, session: int | None = None) -> list[Status]:
    """Find the live processes of a run, whatever their parent.

    Parameters
    ----------
    run_id : str
        The value of the marker in their environment.
    session : int, optional
        The session that the run was started as, only where it is known to be still that session.
    """
    marker = _marker(run_id)
    table = _table()
    own = _find_lineage(table)
    found = {
        line.pid: line
        for line in table
        if (session is not None and session in (line.session, line.group)) or _carries_marker(line.pid, marker)
    }
    grown = True
    while grown:
        children = {line.pid: line for line in table if line.parent in found and line.pid not in found}
        found.update(children)
        grown = bool(children)
    return [line for pid, line in sorted(found.items()) if pid not in own]


def _find_lineage(table: Iterable[Status]) -> set[int]:
    """Give this process and its ancestors: a tuner inside a run must never end itself."""
    parents = {line.pid: line.parent for line in table}
    pid = os.getpid()
    lineage = {1}
    while pid and pid not in lineage:
        lineage.add(pid)
        pid = parents.get(pid, 0)
    return lineage


def _send(line: Status, number: int) -> None:
    current = status(line.pid)
    if current is not None and current.start == line.start:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(line.pid, number)


def end(run_id: str, session: int | None = None, grace: float = 0.0) -> list[Status]:
    """End all processes of a run: politely first if there is a grace time, then for certain.

    Parameters
    ----------
    run_id, session
        As in :func:`members`.
    grace : float
        Seconds between SIGTERM, upon which launchers end their ranks, and SIGKILL.

    Returns
    -------
    list of Status
        Processes that could not be ended (they hang in the kernel, or belong to somebody else).
    """
    left = members(run_id, session)
    segments = _segments(left)
    if grace > 0 and left:
        for line in left:
            _send(line, signal.SIGTERM)
        left = wait_until_settled(run_id, session, grace)
    deadline = time.monotonic() + _SWEEP_SECONDS
    while left and time.monotonic() < deadline:
        for line in left:
            _send(line, signal.SIGKILL)
        left = wait_until_settled(run_id, session, 0.5)
    if not left:
        _remove(segments)
    return left


def _segments(lines: Iterable[Status]) -> dict[str, int]:
    """Find the memory that processes share through an MPI library: path to inode."""
    found: dict[str, int] = {}
    for line in lines:
        try:
            maps = (_PROC / str(line.pid) / "maps").read_text(errors="replace")
        except OSError:
            continue
        for entry in maps.splitlines():
            fields = entry.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(_SEGMENTS) and not fields[5].endswith(" (deleted)"):
                found[fields[5]] = int(fields[4])
    return found


def _remove(segments: Mapping[str, int]) -> None:
    """Remove what ended processes left of their shared memory: only what they themselves had mapped."""
    for path, inode in segments.items():
        with contextlib.suppress(OSError):
            if Path(path).stat().st_ino == inode:
                Path(path).unlink()


def wait_until_settled(run_id: str, session: int | None, seconds: float) -> list[Status]:
    """Wait until no process of a run is left, at most some seconds, and give those that are."""
    deadline = time.monotonic() + seconds
    pause = 0.002
    while left := members(run_id, session):
        if time.monotonic() >= deadline:
            return left
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return []


def guard(lines: Iterable[str], grace: float = 1.0) -> None:
    """Keep account of the runs under way, and end them when the account breaks off.

    Parameters
    ----------
    lines : iterable of str
        ``began RUN_ID PID`` and ``over RUN_ID``; they end when their writer is gone.
    grace : float
        See :func:`end`.
    """
    under_way: dict[str, int] = {}
    for line in lines:
        word, run_id, *rest = line.split()
        if word == "began":
            under_way[run_id] = int(rest[0])
        else:
            under_way.pop(run_id, None)
    for run_id, pid in under_way.items():
        leader = status(pid)
        # Only the run's own marker proves that the number still names the leader.
        known = leader is not None and leader.session == pid and _carries_marker(pid, _marker(run_id))
        end(run_id, pid if known else None, grace)


_FOLLOW_SECONDS = 0.1


def follow(attendant: int, program: int) -> None:
    """Stop, continue and kill a program together with the process that attends it, until one of them is gone.

    Parameters
    ----------
    attendant, program : int
        Process numbers; the first is that of this process's parent.
    """
    found = began = status(program)
    together = False
    while found is not None and began is not None and found.start == began.start:
        found = status(program)
        if os.getppid() != attendant:
            if found is not None and found.start == began.start:
                os.kill(program, signal.SIGKILL)
            return
        attending = status(attendant)
        # A traced process is not stopped.
        above, below = (one is not None and one.state == "T" for one in (attending, found))
        if above and not below:
            # The one that has changed since both were stopped goes before.
            os.kill(attendant if together else program, signal.SIGCONT if together else signal.SIGSTOP)
        together = above and below
        time.sleep(_FOLLOW_SECONDS)


if __name__ == "__main__":
    if sys.argv[1:]:
        follow(int(sys.argv[1]), int(sys.argv[2]))
    else:
        guard(sys.stdin)
