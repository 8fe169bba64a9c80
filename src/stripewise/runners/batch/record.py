"""The records that a job leaves in its run's folder, and the owner of the run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stripewise.runners.batch.script import BEGAN, ENDED, OWNER
from stripewise.runners.local.supervise import Cause, Ended

GIVEN_UP = "given-up"
"""The owner of a run that no job may carry out."""
_LIMIT = 1 << 16


@dataclass(frozen=True)
class Began:
    """A job has started with a run.

    Attributes
    ----------
    job : str
    nodes : int or None
    node_list, host : str
    restart : int
        How often the scheduler has restarted the job.
    time : float
        Epoch seconds of the job's start, by the node's clock.
    """

    job: str
    nodes: int | None
    node_list: str
    host: str
    restart: int
    time: float


@dataclass(frozen=True)
class Through:
    """A job has finished with a run.

    Attributes
    ----------
    cause : str
        ``exit``, ``timeout``, ``bound``, ``setup`` or ``hook``.
    ended : Ended
        Of the program.
    seconds : float
        Of the whole job, with setup lines and hooks.
    cache : str
    message : str
        Why a hook failed.
    """

    cause: str
    ended: Ended
    seconds: float
    cache: str
    message: str


def read_began(folder: Path) -> Began | None:
    """Read the record of the start; None if there is none (yet)."""
    fields = _fields(folder / BEGAN)
    if fields is None:
        return None
    nodes = fields.get("nodes", "").strip()
    return Began(
        job=fields.get("job", ""),
        nodes=int(nodes) if nodes.isdigit() and int(nodes) > 0 else None,
        node_list=fields.get("list", ""),
        host=fields.get("host", ""),
        restart=int(fields["restart"]) if fields.get("restart", "").isdigit() else 0,
        time=_number(fields.get("time", "")),
    )


def read_through(folder: Path) -> Through | None:
    """Read the record of the end; None if there is none (yet)."""
    fields = _fields(folder / ENDED)
    if fields is None:
        return None
    cause, code = fields.get("cause", ""), fields.get("code", "")
    begin, end = _number(fields.get("begin", "")), _number(fields.get("end", ""))
    job_begin, job_end = _number(fields.get("job_begin", "")), _number(fields.get("job_end", ""))
    causes = {"timeout": Cause.TIMEOUT, "bound": Cause.BOUND, "setup": Cause.SETUP}
    number = int(code) if code.isdigit() else None
    return Through(
        cause,
        Ended(causes.get(cause, Cause.EXIT), number, max(0.0, end - begin), begin or job_begin),
        max(0.0, job_end - job_begin),
        fields.get("cache", "unknown"),
        fields.get("message", ""),
    )


def owner(folder: Path) -> str:
    """Give the job that a run belongs to, :data:`GIVEN_UP`, or an empty text."""
    try:
        return str((folder / OWNER).readlink())
    except OSError:
        return ""


def give_up(folder: Path) -> str:
    """Prevent every job that has not started from carrying out a run.

    Returns
    -------
    str
        The job that had started before; empty if none had.
    """
    with contextlib.suppress(FileExistsError):
        (folder / OWNER).symlink_to(GIVEN_UP)
    found = owner(folder)
    return "" if found == GIVEN_UP else found


def clear(folder: Path) -> None:
    """Remove the records of a run, so that another job can carry it out. Call it once no earlier job can be alive."""
    for name in (OWNER, BEGAN, ENDED):
        (folder / name).unlink(missing_ok=True)


def _fields(path: Path) -> Mapping[str, str] | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LIMIT)
    except OSError:
        return None
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
