"""Where the runs of an experiment keep their output."""

from __future__ import annotations

import os
from pathlib import Path

from stripewise.errors import UserError
from stripewise.ownership import check_above, make_folder
from stripewise.spec.experiment import Experiment
from stripewise.spec.facts import Facts
from stripewise.spec.policy import load_policy

_ELSEWHERE = "name another folder with --scratch, or set STRIPEWISE_HOME"


def state_folder() -> Path:
    """Folder of what Stripewise keeps: ``STRIPEWISE_HOME``, the site file's, or by the XDG convention."""
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    sites = load_policy().folder("state", os.environ)
    if sites is not None:
        return sites
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


def working_folder(facts: Facts) -> Path:
    """Folder in which an experiment was begun, and in which its program and its files are found on resuming.

    Raises
    ------
    UserError
        If it is gone.
    """
    folder = Path.cwd() if facts.folder is None else Path(facts.folder)
    if not folder.is_dir():
        raise UserError(
            f"the folder {folder}, in which the experiment was begun, is gone", "restore it, or start a new experiment"
        )
    return folder


def make_runs_folder(experiment: Experiment) -> None:
    """Make the folder of :func:`runs_folder`, before anything is begun that could not keep its output.

    Raises
    ------
    UserError
        If it cannot be made or written, or everyone could exchange it.
    """
    folder = runs_folder(experiment)
    try:
        make_folder(folder)
        # Plans, job scripts and what tells a run's processes lie there.
        check_above(folder.resolve(), "the folder of runs", group=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UserError(f"cannot make {folder} for the runs' output: {error.strerror}", _ELSEWHERE) from error
    if not writable:
        raise UserError(f"cannot write to {folder}, where the runs' output goes", _ELSEWHERE)


def runs_folder(experiment: Experiment) -> Path:
    """Folder in which an experiment's own folder is made."""
    if experiment.scratch:
        return Path(experiment.scratch).absolute()
    return state_folder() / "runs"
