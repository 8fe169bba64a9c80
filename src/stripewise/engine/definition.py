"""An experiment file and the options of a command line, made one definition."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import ARGUMENT, Carrier
from stripewise.catalogue.configuration import sizes
from stripewise.catalogue.meaning import check_value
from stripewise.catalogue.stack import load_stack
from stripewise.documents import explain_validation
from stripewise.engine.folders import runs_folder
from stripewise.engine.try_first import settings_of
from stripewise.errors import UserError, choose
from stripewise.observe.objectives import kind_of, objective_of
from stripewise.requests.experiment import LONGEST_NAME, Experiment, Replay
from stripewise.runners.program.command import split_command
from stripewise.runners.registry import make_runner
from stripewise.search.base import make_sampler
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.shell import make_showable

_OWN_SPACE = ("replay:",)
NO_COMMAND = ("replay:", "sim:")
"""Begin the names of runners that launch no program."""
LAUNCHING = ("local", "batch", "steps")
"""Runners that launch the program for each run."""


def _read_model(path: str) -> object:
    """Read a model, of which few experiments have one."""
    from stripewise.models.registry import load_model  # noqa: PLC0415  slow to load

    return load_model(path)


def with_options(
    experiment: Experiment,
    *,
    command: Sequence[str],
    sampler_option: Sequence[str] = (),
    parameter: Sequence[str] = (),
    read_model: Callable[[str], object] = _read_model,
    **given: Any,
) -> Experiment:
    """Put options on top of a file's definition and check the whole before anything is started.

    Parameters
    ----------
    experiment : Experiment
        As read from a file, or the defaults.
    command : sequence of str
        The program; empty to keep the file's.
    sampler_option : sequence of str
        ``NAME=VALUE`` words.
    parameter : sequence of str
        As :func:`parameter_entry` reads them.
    read_model : callable
        Raises where the file of the experiment's model cannot be read.
    **given
        Fields of the experiment, None where not given; a mapping changes single fields of a table.

    Raises
    ------
    UserError
        If anything in it is wrong, with its place.
    """
    fields = experiment.model_dump()
    if given.get("objective", {}).get("name") is not None:
        # Direction and unit of the file belong to the file's objective, all else to the command.
        fields["objective"] = {name: fields["objective"][name] for name in ("program", "subject_to")}
    for name, value in given.items():
        if isinstance(value, Mapping):
            fields[name] = {**(fields[name] or {}), **{k: v for k, v in value.items() if v is not None}}
        elif value is not None:
            fields[name] = value
    if command:
        fields["command"] = list(command)
    elif fields["runner"].startswith("sim:") and fields["command"]:
        # A file written for a real program tries out unchanged: its [workload] is what is simulated.
        fields["command"] = []
    for word in sampler_option:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise UserError(f"--sampler-option '{word}' is not NAME=VALUE")
        fields["sampler_options"] = {**fields["sampler_options"], name: value}
    fields["parameters"] = {**fields["parameters"], **_read_own(parameter)}
    try:
        merged = Experiment.model_validate(fields)
    except ValidationError as error:
        raise explain_validation(error, "experiment") from error
    merged = merged.model_copy(
        update={
            "stacks": [_absolute(stack) for stack in merged.stacks],
            "runner": _absolute_path(merged.runner),
            "scratch": str(Path(merged.scratch).absolute()) if merged.scratch else None,
            "model": str(Path(merged.model).absolute()) if merged.model else None,
            "ceiling": str(Path(merged.ceiling).absolute()) if isinstance(merged.ceiling, str) else merged.ceiling,
            "replay": None if merged.replay is None else _place_replay(merged.replay),
        }
    )
    if not merged.name:
        merged = merged.model_copy(update={"name": _name(merged)})
    check(merged, read_model)
    return merged


def _read_own(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read all parameters of the command line; the same name twice would lose one of them."""
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        name, entry = parameter_entry(word)
        if name in found:
            raise UserError(
                f"--parameter '{word}': there is already a parameter '{name}'",
                "give all its values at once, or define both in an experiment file under names of their own",
            )
        found[name] = entry
    return found


def parameter_entry(word: str) -> tuple[str, dict[str, Any]]:
    """Read a parameter of one's own from the command line: its name, and its entry as in an experiment file.

    Parameters
    ----------
    word : str
        ``NAME=VALUE,VALUE,...``, where ``{NAME}`` stands in the command, or ``CARRIER:KEY=VALUE,...``. The first value
        is the one that acts today. Numbers are ordered; other values are passed on as they are written. A comma after
        a backslash belongs to the value.

    Raises
    ------
    UserError
        If it has another form.
    """
    target, equals, listed = word.partition("=")
    carrier, colon, key = target.partition(":")
    if not colon:
        carrier, key = ARGUMENT.name, target
    values = [_scalar(text.replace(r"\,", ",")) for text in re.split(r"(?<!\\),", listed)]
    if not equals or not key or len(values) < 2 or "" in values:
        raise UserError(
            f"--parameter '{word}' names no values to choose from: it takes two or more, none of them empty",
            "write --parameter NAME=VALUE,VALUE with {NAME} in the command, or --parameter env:NAME=VALUE,VALUE",
        )
    if carrier not in Carrier.known or Carrier.known[carrier].of_file_system:
        ways = [name for name, known in Carrier.known.items() if not known.of_file_system]
        raise UserError(f"--parameter '{word}': '{carrier}' is not a way to set a value", choose(carrier, ways))
    default = values[0]
    if sizes(values):
        values.sort()
    name = re.sub(r"\W", "_", key)
    return f"_{name}" if name[0].isdigit() else name, {
        "carrier": carrier, "key": key, "values": values, "default": default
    }  # fmt: skip


def _scalar(text: str) -> Any:
    """Read a value: a number, true, false, or a text."""
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        with suppress(ValueError):
            value = number(text)
            if str(value) == text:
                return value
    return text


def check(experiment: Experiment, read_model: Callable[[str], object] = _read_model) -> None:
    """Check all that can be checked without looking at the program.

    Raises
    ------
    UserError
        With what is wrong and how to fix it.
    """
    needs_command = not experiment.runner.startswith(NO_COMMAND)
    if needs_command and not experiment.command:
        raise UserError("the command names no program", "write it after two dashes: tune -- mpiexec -n 4 ./my_app")
    if not needs_command and experiment.command:
        raise UserError(f"runner {experiment.runner} launches no command", "leave out what follows the two dashes")
    if experiment.stacks and experiment.runner.startswith(_OWN_SPACE):
        raise UserError(f"runner {experiment.runner} brings its own parameters", "leave out the stacks")
    if experiment.objective.program and not needs_command:
        raise UserError(f"runner {experiment.runner} starts no program", "leave the objective's program out")
    if experiment.stdin is not None and not needs_command:
        raise UserError(f"runner {experiment.runner} starts no program", "leave stdin out")
    if experiment.stdin is not None and experiment.stdin.text is None:
        # Only `tune` reads the file: it belongs to the user, and a service may run elsewhere as somebody else.
        raise UserError(
            f"stdin names the file {experiment.stdin.file}, which is not read here", "send its text: stdin.text"
        )
    objective_of(experiment.objective)
    if experiment.objective.subject_to and (experiment.runner not in LAUNCHING or experiment.replay is not None):
        what = f"runner {experiment.runner}" if experiment.replay is None else "a search on replays"
        raise UserError(
            f"{what} does not measure what subject_to limits",
            f"leave it out, or use the runner {', '.join(LAUNCHING[:-1])} or {LAUNCHING[-1]} without a record",
        )
    if experiment.replay is not None:
        _check_replay(experiment)
    sampler = make_sampler(experiment.sampler, experiment.sampler_options)
    if experiment.warm_start and not sampler.uses_prior:
        raise UserError(
            f"sampler {experiment.sampler} cannot start from earlier experiments", "use --sampler auto or surrogate"
        )
    for entry in experiment.try_first:
        for setting in settings_of(entry):
            check_value(setting, f"try_first '{entry}'")
    make_resampler(experiment.resampling)
    make_pruner(experiment.pruning)
    make_stopping(experiment.stopping)
    for stack in experiment.stacks:
        load_stack(stack)
    make_runner(experiment, runs_folder(experiment))
    if experiment.model is not None:
        if not sampler.uses_prior:
            raise UserError(
                f"sampler {experiment.sampler} cannot start from a model", "use --sampler auto or surrogate"
            )
        read_model(experiment.model)


def _place_replay(replay: Replay) -> Replay:
    """Make the paths of a record and of the folder for its replays independent of the folder, too."""
    folder = str(Path(replay.folder).absolute()) if replay.folder else ""
    return replay.model_copy(update={"record": str(Path(replay.record).absolute()), "folder": folder})


def _check_replay(experiment: Experiment) -> None:
    """Refuse what cannot be searched on replays of a record."""
    if experiment.runner not in LAUNCHING:
        raise UserError(
            f"runner {experiment.runner} launches no replays", f"use the runner {', '.join(LAUNCHING[:-1])} or steps"
        )
    kind = kind_of(experiment.objective.name)
    if not (kind.reported or kind.wall_time):
        raise UserError(
            f"the objective {experiment.objective.name} cannot be measured on replays",
            "use elapsed, io_time or a bandwidth that the runtime reports",
        )
    assert experiment.replay is not None
    from stripewise.observe.record_reading import read_record  # noqa: PLC0415  few experiments have one

    found = read_record(Path(experiment.replay.record)).need_mpi_io(experiment.replay.record)
    if found.gaps:
        raise UserError(
            f"{experiment.replay.record} is incomplete and cannot be tuned on: {found.gaps[0]}", "record it again"
        )


def _absolute(stack: str) -> str:
    """Make a stack file's path independent of the folder from which the experiment is resumed."""
    return str(Path(stack).absolute()) if stack.endswith(".toml") else stack


def _absolute_path(runner: str) -> str:
    """Make the path of a replayed table or of a site's file independent of the folder, too."""
    kind, _, path = runner.partition(":")
    is_file = kind == "replay" or (kind == "sim" and path.partition("@")[0].endswith(".toml"))
    return f"{kind}:{Path(path).absolute()}" if is_file and path else runner


def _name(experiment: Experiment) -> str:
    """Name an experiment by the program that its command starts, past launchers and wrappers."""
    program = split_command(experiment.command).program if experiment.command else ()
    # Files may be called what no name may be.
    return make_showable(Path(program[0]).name if program else experiment.runner)[:LONGEST_NAME]
