"""From a planned run to the very words, variables and files of its launch; nothing is started or written here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from stripewise.catalogue.carriers import ARGUMENT, Program, with_files
from stripewise.catalogue.plan import spell
from stripewise.errors import UserError
from stripewise.launch import Launch
from stripewise.observe.objectives import kind_of
from stripewise.requests.experiment import Experiment
from stripewise.requests.overrides import parameters_of
from stripewise.requests.policy import load_policy
from stripewise.runners.inject.injection import Guidance, Injection, inject
from stripewise.runners.local.scratch import Scratch
from stripewise.runners.program.command import CommandLine, obeyed, substitute


@dataclass(frozen=True)
class Assembled:
    """A launch, ready to be written to its folder and started.

    Attributes
    ----------
    words : tuple of str
        The whole command.
    injection : Injection
    """

    words: tuple[str, ...]
    injection: Injection


def arguments_of(experiment: Experiment) -> dict[str, str]:
    """Give the parameters that are passed as arguments, and the placeholder that stands for each.

    Raises
    ------
    UserError
        If a stack cannot be loaded or a parameter is wrong.
    """
    found = parameters_of(experiment).items()
    return {name: parameter.setting for name, parameter in found if parameter.carrier is ARGUMENT}


def defaults_of(experiment: Experiment) -> dict[str, str]:
    """Give what placeholders stand for in a run that no configuration belongs to yet (the warm-up)."""
    found: dict[str, str] = {}
    for name, parameter in parameters_of(experiment).items():
        if parameter.carrier is ARGUMENT:
            found[name] = found[parameter.setting] = spell(parameter.default)
    return found


def words_of(
    experiment: Experiment, launch: Launch | None, values: Mapping[str, str], place: Scratch | None = None
) -> list[str]:
    """Give the command of a launch with its placeholders replaced.

    Parameters
    ----------
    experiment : Experiment
    launch : Launch or None
        None for the command as such, before any run is planned.
    values : mapping
        See :func:`defaults_of`.
    place : Scratch or None
        The run's folder.

    Raises
    ------
    UserError
        If a value would divide the command, or become an option of the launcher.
    """
    own = experiment.command
    if launch is not None and launch.command:
        own = shlex.split(substitute(launch.command, {"command": shlex.join(own)}))
    known = values_of(launch, values, place)
    words = [substitute(word, known) for word in own]
    for word, written in zip(words, own, strict=True):
        # To a launcher a colon is where the next program begins.
        if word != written and obeyed(word):
            what = "a colon" if word == ":" else f"'{word}', an option of the launcher"
            raise UserError(f"'{written}' in the command becomes {what}", "give the parameter another value")
    return words


def values_of(launch: Launch | None, values: Mapping[str, str], place: Scratch | None) -> dict[str, str]:
    """Give what each placeholder stands for in a launch."""
    known = dict(values)
    if launch is not None:
        known |= {name: spell(value) for name, value in launch.configuration.items()}
        # A key of the carrier may differ from the parameter's name, and derived settings have no parameter at all.
        known |= {setting.key: setting.value for setting in launch.plan.of(ARGUMENT)}
    known["run"] = str(launch.number) if launch else "0"
    known["run_folder"] = str(place.path) if place else "."
    return known


def exports_of(experiment: Experiment, launch: Launch, values: Mapping[str, str], place: Scratch) -> dict[str, str]:
    """Give the experiment's variables for a run; they win over what its setup lines set."""
    exports = {name: substitute(value, values) for name, value in experiment.env.items()}
    exports = {**kind_of(experiment.objective.name).environment(place.path), **exports}
    return {name: value for name, value in exports.items() if name not in launch.unset}


def assemble(
    launch: Launch,
    line: CommandLine,
    program: Program,
    library: Path | None,
    place: Scratch,
    cwd: Path,
    observer: Path | None = None,
) -> Assembled:
    """Bring a launch's plan into its command.

    Parameters
    ----------
    launch : Launch
    line : CommandLine
        The command with its placeholders replaced.
    program : Program
    library : Path or None
        The runtime.
    place : Scratch
    cwd : Path
        Where the command starts.
    observer : Path or None
        As in :func:`~stripewise.runners.inject.injection.inject`; replays get none.
    """
    guidance = Guidance.under(load_policy(program.environment))
    observer = None if launch.replays else observer
    injection = inject(launch.plan, program, library, place.path, guidance, observer)
    if "STRIPEWISE_REPORT" in injection.environment:
        # A script may launch several MPI programs: the run is all of them.
        injection = replace(injection, environment={**injection.environment, "STRIPEWISE_REPORTS": "each"})
    words = line.words(injection.environment, launch.unset)
    return Assembled(with_files(words, cwd, injection.stand_in), injection)
