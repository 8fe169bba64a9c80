"""A job of a scheduler, from here: what is asked for, what was handed in, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from stripewise.shell import check_job_name, directive_path
from stripewise.spec.batch import Batch


class Phase(StrEnum):
    """Where a job stands, as far as the scheduler has said."""

    QUEUED = "queued"
    ACTIVE = "active"
    OVER = "over"


@dataclass(frozen=True)
class Standing:
    """What the scheduler says of a job.

    Attributes
    ----------
    phase : Phase
    why : str
        Why it is over, in words; empty where it simply ended, or nobody knows.
    lost : bool
        Whether the machine is at fault (a node failed, the job was preempted or is unknown): another try may work.
    """

    phase: Phase
    why: str = ""
    lost: bool = False


UNKNOWN = Standing(Phase.OVER, "the scheduler no longer knows its job, and it left no result", True)
"""A job that a scheduler has forgotten: it may have come through, or never have been."""


@dataclass(frozen=True)
class Request:
    """A job to be submitted.

    Attributes
    ----------
    name : str
        Unique, so that a job can be found by it.
    script : Path
        What bash is to run.
    folder : Path
        Where the job starts.
    seconds : float or None
        Its time limit; None where the directives give one.
    batch : Batch
    directives : tuple of str
        Lines of the user's own script, with their marks.
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
            directive_path(path)


@dataclass
class Ticket:
    """A submitted job."""

    identifier: str
    name: str
    handle: Any = field(default=None, repr=False)
