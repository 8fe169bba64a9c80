"""Runners by name. Each is imported when it is used, because the simulated cluster takes time to import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stripewise.errors import UserError, choose
from stripewise.requests.experiment import Experiment
from stripewise.requests.policy import load_policy
from stripewise.runners.base import Runner

RUNNERS = ("local", "batch", "steps", "within", "replay:TABLE", "sim:NAME-or-FILE")
"""Names of runners, as ``--runner`` takes them."""


def make_runner(
    experiment: Experiment,
    folder: Path,
    runtime: str = "auto",
    cwd: Path | None = None,
    deletes_in: Sequence[Path] | None = None,
) -> Runner:
    """Make the runner that an experiment names; nothing is started or looked at yet.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where scratch folders of runs are made.
    runtime : str
        The library to preload: ``auto`` to build or find it, ``none``, or its path.
    cwd : Path, optional
        Where the program runs; by default, where Stripewise does.
    deletes_in : sequence of Path, optional
        The only folders in which ``hooks.delete`` deletes files; by default all.

    Raises
    ------
    UserError
        If the runner is unknown.
    """
    kind, _, rest = experiment.runner.partition(":")
    if kind == "replay":
        if not rest:
            raise UserError("runner 'replay' names no table", "write --runner replay:PATH")
        from stripewise.runners.replay import ReplayRunner  # noqa: PLC0415

        return ReplayRunner(rest, experiment.seed)
    if kind == "sim":
        from stripewise.lab.site import site_names  # noqa: PLC0415
        from stripewise.runners.simulated.runner import SimulatedRunner  # noqa: PLC0415

        if not rest:
            raise UserError("runner 'sim' names no site", f"write --runner sim:NAME, one of {', '.join(site_names())}")
        return SimulatedRunner(rest, experiment)
    if kind == "function":
        raise UserError(
            "the experiment calls a Python function, which no command can",
            "go on from Python: stripewise.tune(..., store=URL, resume=ID)",
        )
    from stripewise.runners.program_runner import Surroundings  # noqa: PLC0415

    around = Surroundings(runtime, cwd, deletes_in=deletes_in)
    if experiment.runner == "local":
        from stripewise.runners.local.runner import LocalRunner  # noqa: PLC0415

        return LocalRunner(experiment, folder, around)
    if experiment.runner == "batch":
        from stripewise.runners.batch.runner import BatchRunner  # noqa: PLC0415

        return BatchRunner(_with_jobs(experiment, experiment.batch.jobs or 1), folder, around)
    if experiment.runner == "steps":
        from stripewise.runners.batch.steps import StepsRunner  # noqa: PLC0415

        return StepsRunner(_with_jobs(experiment, experiment.batch.jobs), folder, around)
    if experiment.runner == "within":
        from stripewise.runners.within.runner import WithinRunner  # noqa: PLC0415

        return WithinRunner(experiment, folder, around)
    raise UserError(f"unknown runner '{experiment.runner}'", choose(experiment.runner, RUNNERS))


def _with_jobs(experiment: Experiment, wanted: int | None) -> Experiment:
    """Give the experiment with as many jobs at a time as are wanted, or as the site allows."""
    allowed = [most for most in (wanted, load_policy().limits.jobs) if most]
    batch = experiment.batch.model_copy(update={"jobs": min(allowed, default=None)})
    return experiment.model_copy(update={"batch": batch})
