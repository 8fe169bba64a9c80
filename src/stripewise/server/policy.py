"""What requests may name and start: commands from an allow-list, paths within the service's folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from stripewise.errors import UserError
from stripewise.server.problems import Refused
from stripewise.server.settings import Settings
from stripewise.spec.campaign import Campaign
from stripewise.spec.experiment import Experiment
from stripewise.spec.policy import allowed


def check_experiment(experiment: Experiment, folder: Path, settings: Settings) -> None:
    """Refuse what the service does not allow.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where the program starts.
    settings : Settings

    Raises
    ------
    Refused
        With status 403.
    UserError
        If a path is not absolute.
    """
    confined(folder, settings, "folder")
    for stack in experiment.stacks:
        if stack.endswith(".toml") or "/" in stack:
            confined(Path(stack), settings, "stack")
    if experiment.model is not None:
        confined(Path(experiment.model), settings, "model")
    if experiment.scratch is not None:
        confined(Path(experiment.scratch), settings, "scratch")
    kind, _, rest = experiment.runner.partition(":")
    if kind == "replay" or (kind == "sim" and (rest.partition("@")[0].endswith(".toml") or "/" in rest)):
        confined(Path(rest.partition("@")[0]), settings, "runner")
    for pattern in experiment.hooks.delete:
        confined(folder / pattern, settings, "hooks.delete")
    if settings.allow is not None:
        _check_allowed(experiment, settings.allow)


def check_campaign(campaign: Campaign, settings: Settings) -> None:
    """Refuse a campaign that the service does not allow; as :func:`check_experiment`."""
    if campaign.files.folder:
        confined(Path(campaign.files.folder), settings, "files.folder")
    elif campaign.launches:
        raise UserError(
            "the campaign names no folder for its files", "give [files] folder, on the file system to measure"
        )
    if campaign.executable:
        confined(Path(campaign.executable), settings, "executable")
    kind, _, rest = campaign.runner.partition(":")
    if kind == "replay" or (kind == "sim" and (rest.partition("@")[0].endswith(".toml") or "/" in rest)):
        confined(Path(rest.partition("@")[0]), settings, "runner")
    if settings.allow is not None and campaign.launches:
        ways = {
            "command": campaign.command,
            "launcher": campaign.launcher,
            "executable": campaign.executable,
            "setup": campaign.setup,
            "env": campaign.env,
            "tunables of one's own": [one.name for one in campaign.tunable if "apply" in one.model_fields_set],
        }
        for name, given in ways.items():
            if given:
                raise Refused(403, f"'{name}' is not allowed on a service with an allow-list", "leave it out")


def confined(path: Path, settings: Settings, what: str) -> Path:
    """Give a path without links, if it lies in one of the service's folders.

    Raises
    ------
    Refused
        If it does not.
    UserError
        If it is not absolute, or no path at all.
    """
    if "\0" in str(path) or not path.is_absolute():
        raise UserError(f"{what}: '{_shown(str(path))}' is no absolute path", "begin it with /")
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{what}: '{_shown(str(path))}' cannot be followed", "check the path") from error
    if not any(real.is_relative_to(folder) for folder in settings.folders):
        raise Refused(
            403,
            f"{what}: '{_shown(str(path))}' is outside the folders of this service",
            "use a folder that serve --root names",
        )
    return real


def _check_allowed(experiment: Experiment, patterns: Sequence[str]) -> None:
    if experiment.command and not allowed(experiment.command, patterns):
        name = _shown(PurePath(experiment.command[0]).name)
        raise Refused(403, f"the command '{name} ...' is not on this service's allow-list", "see serve --allow")
    own = [name for name, entry in experiment.parameters.items() if entry.model_extra]
    ways = {
        "parameters of one's own": own,
        "stack files": [stack for stack in experiment.stacks if stack.endswith(".toml")],
        "batch.directives": experiment.batch.directives,
        "setup": experiment.setup,
        "hooks.before": experiment.hooks.before,
        "hooks.after": experiment.hooks.after,
        "env": experiment.env,
    }
    for name, given in ways.items():
        # Each of them can start, or preload, anything.
        if given:
            raise Refused(403, f"'{name}' is not allowed on a service with an allow-list", "leave it out")


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]
