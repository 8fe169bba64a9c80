"""What requests may name and start: commands from an allow-list, paths within the service's folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from stripewise.catalogue.carriers import own_files
from stripewise.catalogue.stack import stack_names
from stripewise.desk.server import child as bounded
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.service import Settings
from stripewise.engine.schedule import OnReplays, schedule_of
from stripewise.errors import UserError
from stripewise.lab.site import site_names
from stripewise.models.table import table_files
from stripewise.observe.objectives import kind_of, kinds_of
from stripewise.requests.campaign import Campaign
from stripewise.requests.experiment import Experiment
from stripewise.runners.allow_list import AllowList, reads_commands
from stripewise.runners.program.command import placeholders


def check_experiment(experiment: Experiment, folder: Path, settings: Settings) -> None:
    """Refuse what the service does not allow.

    Parameters
    ----------
    folder : Path
        Where the program starts.

    Raises
    ------
    Refused
        With status 403.
    UserError
        If a path is not absolute, or a model or a table cannot be read in bounded time and memory.
    """
    if isinstance(schedule_of(experiment), OnReplays):
        raise Refused(403, "the service replays no records", "use stripewise tune --replay on the cluster")
    confine_path(folder, settings, "folder")
    for stack in files_of(experiment.stacks):
        confine_path(Path(stack), settings, "stack")
    if experiment.model is not None:
        model = confine_path(Path(experiment.model), settings, "model")
        bounded.ask("describe_model", path=str(model))
    if isinstance(experiment.ceiling, str):
        table = confine_path(Path(experiment.ceiling), settings, "ceiling")
        if table.suffix != ".json":
            bounded.ask("describe_table", path=str(table))
    if experiment.scratch is not None:
        confine_path(Path(experiment.scratch), settings, "scratch")
    _check_runner(experiment.runner, settings)
    for _, file in own_files(experiment.command, folder):
        confine_path(file, settings, "a file of the command")
    for pattern in experiment.hooks.delete:
        if placeholders([pattern]) - {"run"}:
            # A value such as ../../x would lead elsewhere than what is checked here.
            raise Refused(
                403, f"hooks.delete: '{_show_text(pattern)}' has a placeholder", "write the path out, or use {run}"
            )
        confine_path(folder / pattern, settings, "hooks.delete")
    if settings.allow is not None:
        _check_allowed(experiment, folder, settings.allow)


def check_campaign(campaign: Campaign, settings: Settings) -> None:
    """Refuse a campaign that the service does not allow; as :func:`check_experiment`."""
    if campaign.files.folder:
        confine_path(Path(campaign.files.folder), settings, "files.folder")
    elif campaign.launches:
        raise UserError(
            "the campaign names no folder for its files", "give [files] folder, on the file system to measure"
        )
    if campaign.executable:
        confine_path(Path(campaign.executable), settings, "executable")
    _check_runner(campaign.runner, settings)
    if settings.allow is not None and campaign.launches:
        ways = {
            "command": campaign.command,
            "launcher": campaign.launcher,
            "executable": campaign.executable,
            "setup": campaign.setup,
            "env": campaign.env,
            "objective": kind_of(campaign.objective).starts,
            "batch.directives": campaign.batch.directives,
            "stack files": files_of(campaign.stacks),
            "tunables of one's own": [one.name for one in campaign.tunable if "carrier" in one.model_fields_set],
        }
        _refuse_any(ways)


def confine_path(path: Path, settings: Settings, what: str) -> Path:
    """Give a path without links, if it lies in one of the service's folders.

    Raises
    ------
    Refused
        If it does not.
    UserError
        If it is not absolute, or no path at all.
    """
    if "\0" in str(path) or not path.is_absolute():
        raise UserError(f"{what}: '{_show_text(str(path))}' is not an absolute path", "begin it with /")
    try:
        real = path.resolve()
        special = real.exists() and not (real.is_file() or real.is_dir())
    except (OSError, RuntimeError) as error:
        raise UserError(f"{what}: '{_show_text(str(path))}' cannot be followed", "check the path") from error
    if not any(real.is_relative_to(folder) for folder in settings.folders):
        raise Refused(
            403,
            f"{what}: '{_show_text(str(path))}' is outside the folders of this service",
            "use a folder that --root names where the service starts",
        )
    if special:
        # Whoever opens a pipe waits until somebody writes to it.
        raise Refused(403, f"{what}: '{_show_text(str(path))}' is neither a file nor a folder", "use a regular file")
    return real


def refuse_own_stacks(settings: Settings) -> None:
    """Refuse stack files where commands are on an allow-list: each can start, or preload, anything.

    Raises
    ------
    Refused
        With status 403.
    """
    if settings.allow is not None:
        _refuse_any({"stack files": True})


def files_of(stacks: Sequence[str]) -> list[str]:
    """Give those stacks that are files: all but those that come with Stripewise."""
    known = stack_names()
    return [stack for stack in stacks if stack not in known]


def _check_runner(runner: str, settings: Settings) -> None:
    """Confine the table or the site's file that a runner reads."""
    if runner == "within":
        # The program outlives its tuner, and with it the limits of the service.
        raise Refused(403, "trials inside one launch are not for a service", "start them with the job: tune --within")
    kind, _, rest = runner.partition(":")
    name = rest.partition("@")[0]
    if kind == "replay":
        for file in table_files(name):
            confine_path(file, settings, "runner")
        # Read in a child first: what takes too much there is not read here.
        bounded.ask("describe_table", path=name)
    elif kind == "sim" and name and name not in site_names():
        confine_path(Path(name), settings, "runner")


def _check_allowed(experiment: Experiment, folder: Path, patterns: Sequence[str]) -> None:
    if experiment.command and not AllowList(patterns).allows(experiment.command, folder, os.environ):
        name = _show_text(PurePath(experiment.command[0]).name)
        raise Refused(
            403,
            f"the command '{name} ...' is not on this service's allow-list",
            "the option --allow, where the service starts, adds commands",
        )
    own = [name for name, entry in experiment.parameters.items() if entry.model_extra]
    ways = {
        "parameters of one's own": own,
        "stack files": files_of(experiment.stacks),
        "batch.directives": experiment.batch.directives,
        "setup": experiment.setup,
        "hooks.before": experiment.hooks.before,
        "hooks.after": experiment.hooks.after,
        "env": experiment.env,
        "stdin": experiment.stdin is not None and reads_commands(experiment.command, folder, os.environ),
        "objective": any(kind.starts for kind in kinds_of(experiment.objective)),
    }
    _refuse_any(ways)


def _refuse_any(ways: Mapping[str, object]) -> None:
    """Refuse what is given: each of these can start, or preload, anything."""
    for name, given in ways.items():
        if given:
            raise Refused(403, f"'{name}' is not allowed on a service with an allow-list", "leave it out")


def _show_text(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
