"""A job as a scheduler sees it: what is asked for, what its commands print, and where the job stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from subprocess import CompletedProcess

from stripewise.errors import UserError
from stripewise.requests.experiment import Batch
from stripewise.shell import check_job_name

Answer = CompletedProcess[str]
"""What one of the scheduler's commands printed, and its exit code."""
Call = Callable[[Sequence[str]], Answer]
"""Runs one of the scheduler's commands."""


class JobPhase(StrEnum):
    """The state of a job, as far as the runner must know it."""

    QUEUED = "queued"
    ACTIVE = "active"
    OVER = "over"


@dataclass(frozen=True)
class Standing:
    """What the scheduler says about a job.

    Attributes
    ----------
    phase : JobPhase
    why : str
        Why the job is over, in words; empty if it simply ended or nobody knows.
    lost : bool
        Whether the machine is at fault (a node failed, the job was preempted or is unknown), so that another try may
        work.
    interrupted : str
        ``suspended`` while its processes stand still, or were seen to; ``preempted`` if they were asked to end for
        another job. Its time says nothing then, also where it ended well.
    """

    phase: JobPhase
    why: str = ""
    lost: bool = False
    interrupted: str = ""


UNKNOWN = Standing(JobPhase.OVER, "the scheduler no longer knows its job, and it left no result", True)
"""A job that the scheduler has forgotten: it may have finished, or it may never have existed."""


@dataclass(frozen=True)
class Inside:
    """What a job's shell knows about its job: words of bash, to stand between double quotes.

    Attributes
    ----------
    job : str
        The job's identifier.
    nodes : str
        The number of its nodes; may expand to nothing.
    node_list : str
        Their names.
    restarts : str
        How often the scheduler has restarted the job.
    folder : str
        The variable that names the folder from which the job was submitted.
    """

    job: str
    nodes: str = ""
    node_list: str = "$(hostname)"
    restarts: str = "0"
    folder: str = ""


OUTSIDE = Inside("$$")
"""A shell that runs in no job."""


@dataclass(frozen=True)
class JobRequest:
    """A job to submit.

    Attributes
    ----------
    name : str
        Unique, so that the job can be found by it.
    script : Path
        What bash is to run.
    folder : Path
        Where the job starts.
    seconds : float or None
        Its time limit; None if the directives of the user's script set it.
    batch : Batch
    directives : tuple of str
        Lines of the user's own script, with their marks. They say what resources the job needs.

    Raises
    ------
    UserError
        If the name or a path cannot stand in a job script.
    """

    name: str
    script: Path
    folder: Path
    seconds: float | None
    batch: Batch
    directives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_job_name(self.name)
        for path in (self.script, self.folder):
            # A line feed in a quoted word would begin a line that a scheduler may take for a directive.
            if not str(path).isprintable():
                raise UserError(f"the path {str(path)!r} has characters that do not print", "use another folder")


@dataclass(frozen=True)
class Ticket:
    """A submitted job."""

    identifier: str
    name: str


@dataclass(frozen=True)
class Directives:
    """What a job script asks the scheduler for.

    Attributes
    ----------
    lines : tuple of str
        As they are written, with their mark.
    nodes : int or None
    walltime : float or None
        Seconds.
    """

    lines: tuple[str, ...] = ()
    nodes: int | None = None
    walltime: float | None = None


@dataclass(frozen=True)
class Lookup:
    """A command that asks about one job.

    Attributes
    ----------
    words : tuple of str
    read : callable
        Reads the answer; None if the answer says nothing about the job, so that the next lookup is tried. Raises
        :class:`~stripewise.errors.TransientError` if the scheduler did not answer.
    optional : bool
        Whether many sites do not have it (accounting): a failure stops asking for a while.
    """

    words: tuple[str, ...]
    read: Callable[[Answer], Standing | None]
    optional: bool = False
