"""Schedulers by name: those that come with Stripewise, and those that other packages register."""

from __future__ import annotations

import shutil

from stripewise.errors import UserError
from stripewise.plugins import Plugins
from stripewise.runners.schedulers.base import Arrays, Scheduler, Steps

ENTRY_POINTS = "stripewise.runners.schedulers"
_PLUGINS = Plugins(
    "scheduler",
    ENTRY_POINTS,
    Scheduler,
    {
        "slurm": "stripewise.runners.schedulers.slurm:Slurm",
        "pbs": "stripewise.runners.schedulers.pbs:Pbs",
        "pbs_classic": "stripewise.runners.schedulers.pbs:ClassicPbs",
        "lsf": "stripewise.runners.schedulers.lsf:Lsf",
        "flux": "stripewise.runners.schedulers.flux:Flux",
    },
)


def scheduler_names() -> list[str]:
    """List the names that ``[batch] scheduler`` takes."""
    return _PLUGINS.names()


def make_scheduler(name: str) -> Scheduler:
    """Make the scheduler with a name.

    Raises
    ------
    UserError
        If there is none, or it lacks a word or a method that every scheduler has.
    """
    kind: type[Scheduler] = _PLUGINS.load(name)
    needed = sorted({word for word in Scheduler.__annotations__ if not hasattr(kind, word)} | kind.__abstractmethods__)
    if needed:
        what = f"scheduler '{name}' ({kind.__module__}:{kind.__qualname__}) lacks {', '.join(needed)}"
        raise UserError(what, "add them to its class, or uninstall the package that brings it")
    return kind()


def all_schedulers() -> list[Scheduler]:
    """Make every scheduler that is known."""
    return [make_scheduler(name) for name in scheduler_names()]


def steps_of(scheduler: Scheduler) -> Steps:
    """Give what the runner ``steps`` needs of a scheduler.

    Raises
    ------
    UserError
        If the scheduler does not have it.
    """
    if scheduler.steps is None:
        have = " or ".join(other.title for other in all_schedulers() if other.steps)
        raise UserError(f"runner steps does not know {scheduler.title}", f"use {have}, or --runner batch")
    return scheduler.steps


def arrays_of(scheduler: Scheduler) -> Arrays:
    """Give what job arrays need of a scheduler.

    Raises
    ------
    UserError
        If the scheduler does not have it.
    """
    if scheduler.arrays is None:
        have = " or ".join(other.title for other in all_schedulers() if other.arrays)
        raise UserError(f"Stripewise does not know the job arrays of {scheduler.title}", f"use {have}, or --shard i/n")
    return scheduler.arrays


def submission_folders() -> list[str]:
    """List the variables in which schedulers name the folder that a job was submitted from."""
    return [scheduler.inside.folder for scheduler in all_schedulers() if scheduler.inside.folder]


def list_installed(path: str | None) -> list[Scheduler]:
    """List the schedulers whose first command is on a path."""
    return [scheduler for scheduler in all_schedulers() if shutil.which(scheduler.programs[0], path=path)]
