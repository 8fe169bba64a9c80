"""Where the runs of an experiment keep their output."""

from __future__ import annotations

import os
from pathlib import Path

from stripewise.spec.experiment import Experiment


def state_folder() -> Path:
    """Folder of what Stripewise keeps, by the XDG convention; ``STRIPEWISE_HOME`` moves it off a home quota."""
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


def runs_folder(experiment: Experiment) -> Path:
    """Folder in which an experiment's own folder is made."""
    if experiment.scratch:
        return Path(experiment.scratch).absolute()
    return state_folder() / "runs"
