"""Runners by name."""

from __future__ import annotations

from pathlib import Path

from stripewise.errors import UserError
from stripewise.runner.base import Runner
from stripewise.runner.local import LocalRunner
from stripewise.spec.experiment import Experiment

RUNNERS = ("local",)


def make_runner(experiment: Experiment, folder: Path, runtime: str = "auto") -> Runner:
    """Make the runner that an experiment names; nothing is started or looked at yet.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where scratch folders of runs are made.
    runtime : str
        The library to preload: ``auto`` to build or find it, ``none``, or its path.

    Raises
    ------
    UserError
        If there is no such runner.
    """
    if experiment.runner == "local":
        return LocalRunner(experiment, folder, runtime=runtime)
    raise UserError(f"unknown runner '{experiment.runner}'", f"choose from {', '.join(RUNNERS)}")
