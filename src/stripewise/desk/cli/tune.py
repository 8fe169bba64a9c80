"""``stripewise tune`` and ``stripewise resume``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.catalogue.stack import stack_names
from stripewise.desk.cli.help import shown_as
from stripewise.desk.cli.options import (
    IdArgument,
    JsonOption,
    ReportOption,
    RunnerOption,
    ServerOption,
    StoreOption,
    YesOption,
    check_place,
)
from stripewise.desk.cli.output import prose
from stripewise.desk.cli.result import deliver, print_dry_run
from stripewise.desk.cli.standard_input import refuse_pipes, remark_on_input, with_input
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.cli.tune_options import Mode, TuneCommand, check_options, given_options, mode_of, used_later
from stripewise.desk.desk import SMALL_BUDGET, Desk, SmallCase
from stripewise.documents import read_document
from stripewise.engine.definition import NO_COMMAND, with_options
from stripewise.engine.try_first import proposals
from stripewise.errors import UserError
from stripewise.observe.objectives import usages
from stripewise.requests.experiment import Budget, Confirmation, Experiment, parse_experiment
from stripewise.result import Result
from stripewise.search.base import sampler_names

PHASES = 400
"""Phases that ``--within`` may use where no budget is given."""
CANDIDATES_AT_A_LIMIT = 3
"""How many may be tested where a limit is given and a file does not say it: what looks best may break it next time."""
CANDIDATES = 2
"""How many it may test where a file does not say it: where one proves no gain, the program goes on all the same."""


def _starting(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Complete a value in the shell: the names that begin as it does."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


@shown_as(TuneCommand)
def tune(
    context: typer.Context,
    file: Annotated[str | None, typer.Argument(help="An experiment file (TOML).", metavar="EXPERIMENT.toml")] = None,
    budget: Annotated[int | None, typer.Option(help="Most launches, with the proof. Default: 40.", min=1)] = None,
    time: Annotated[float | None, typer.Option(help="Seconds in total. Default: no limit.", metavar="SECONDS")] = None,
    node_hours: Annotated[float | None, typer.Option(help="Node-hours in total. Default: no limit.")] = None,
    spend_all: Annotated[
        bool, typer.Option("--spend-all", help="Use launches that hardly gain anything, too.")
    ] = False,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="What proposes configurations. Default: auto.",
            autocompletion=_starting(sampler_names),
        ),
    ] = None,
    sampler_option: Annotated[
        list[str] | None, typer.Option(help="An option of the sampler, NAME=VALUE; repeatable.", metavar="NAME=VALUE")
    ] = None,
    stack: Annotated[
        list[str] | None,
        typer.Option(
            help="Stack by name or .toml file; repeatable. Default: those of its MPI library and file system.",
            autocompletion=_starting(stack_names),
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter of your own, the current value first; repeatable. NAME=... replaces {NAME} in the "
            "command, env:NAME=... sets a variable, file:FILE:ENTRY=... an entry of a file. Write a comma within a "
            "value as \\,.",
            metavar="NAME=VALUE,VALUE,...",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help=f"What to measure, by default the first: {', '.join(usages())}.", autocompletion=_starting(usages)
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option(help="Of several programs of the command, the one to measure.", metavar="NAME"),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="minimize or maximize, for regex:PATTERN.")] = None,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(
            help="A limit of each run: 'busy_share >= 90'; repeatable.",
            metavar="LIMIT",
        ),
    ] = None,
    runner: RunnerOption = None,
    model: Annotated[
        str | None,
        typer.Option(help="Performance model to start from, written by train.", metavar="FILE"),
    ] = None,
    warm_start: Annotated[
        list[str] | None,
        typer.Option(
            help="Start from a finished experiment, or auto for the most similar; repeatable.",
            metavar="ID|auto",
        ),
    ] = None,
    diagnosis: Annotated[
        Path | None,
        typer.Option("--from", help="Try first what a diagnosis proposes (diagnose --json).", metavar="DIAGNOSIS.json"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice. Default: 0.")] = None,
    name: Annotated[str | None, typer.Option(help="A name for the experiment. Default: the program's.")] = None,
    setup: Annotated[list[str] | None, typer.Option(help="A shell line to run first; repeatable.")] = None,
    delete: Annotated[list[str] | None, typer.Option(help="A file to delete before each run; repeatable.")] = None,
    pairs: Annotated[int | None, typer.Option(help="Most pairs of runs that prove the gain.", min=0)] = None,
    minimum_effect: Annotated[float | None, typer.Option(help="Smallest speed-up worth claiming. Default: 1.")] = None,
    confirm: Annotated[
        str | None,
        typer.Option(help="Only prove the best of a finished experiment again.", metavar="ID"),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as hung.")] = None,
    scratch: Annotated[str | None, typer.Option(help="Folder for the runs' output.")] = None,
    override: Annotated[bool | None, typer.Option(help="Win over the program's own hints.")] = None,
    ceiling: Annotated[
        Path | None,
        typer.Option(help="What this storage gives: a calibration, or a table.", metavar="FILE"),
    ] = None,
    no_ceiling: Annotated[bool, typer.Option("--no-ceiling", help="Measure no ceiling of this storage.")] = False,
    within: Annotated[
        bool,
        typer.Option("--within", help="Try settings inside one launch: each phase (open to close of a file) is a run."),
    ] = False,
    max_loss: Annotated[
        float | None,
        typer.Option(help="The most I/O time that trying may lose, in percent. Default: 5.", metavar="PERCENT"),
    ] = None,
    families: Annotated[
        str | None,
        typer.Option(
            help="Tune the costliest file family (the default), the sum of all by one search, or each "
            "by a search of its own.",
            metavar="costliest|sum|each",
        ),
    ] = None,
    settle: Annotated[
        bool | None,
        typer.Option("--settle", help="Each phase pays for its own write-back (sync before close)."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(help="Search on replays of this record; prove on the program.", metavar="RECORD"),
    ] = None,
    replay_folder: Annotated[
        Path | None,
        typer.Option(help="Folder for the files of replays. Default: one beside the program's.", metavar="FOLDER"),
    ] = None,
    small: Annotated[
        str | None,
        typer.Option(help="Search this smaller case of the program first.", metavar="COMMAND"),
    ] = None,
    small_budget: Annotated[
        int | None,
        typer.Option(help=f"Launches of the smaller case. Default: {SMALL_BUDGET}.", min=4),
    ] = None,
    yes: YesOption = False,
    store: StoreOption = None,
    server: ServerOption = None,
    report: ReportOption = None,
    dry_run_only: Annotated[
        bool, typer.Option("--dry-run", help="Show the space and the cost; start nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Find better settings for a program, prove the gain, apply them.

    The program follows two dashes: stripewise tune -- mpiexec -n 4 ./my_app
    """
    given = given_options(context)
    desk = desk_of(store, server, json_output=json_output, yes=yes)
    modes = Mode.DRY if dry_run_only else Mode(0)
    manner = _Manner(dry_run_only, report, json_output)
    check_place("--report", report)
    if confirm is not None:
        check_options(given, modes | Mode.CONFIRM)
        wanted = {
            "pairs": pairs,
            "budget": {"runs": budget, "seconds": time, "node_hours": node_hours},
            "minimum_effect": minimum_effect,
            "name": name,
            "seed": seed,
            "timeout": timeout,
            "scratch": None if scratch is None else str(Path(scratch).absolute()),
        }
        later = used_later(given, modes | Mode.CONFIRM)
        _confirm(desk, confirm, wanted, replace(manner, later=later))
        return
    experiment = _read(file) if file is not None else Experiment()
    if within:
        if runner not in (None, "within"):
            raise UserError(f"--within and --runner {runner} exclude each other", "leave one of them out")
        runner = "within"
    if no_ceiling and ceiling is not None:
        raise UserError("--ceiling and --no-ceiling exclude each other", "leave one of them out")
    candidates: int | None = None
    modes |= mode_of(runner or experiment.runner)
    modes |= Mode.REPLAYS if replay is not None or experiment.replay is not None else Mode(0)
    modes |= Mode.SMALL if small is not None else Mode(0)
    check_options(given, modes)
    if Mode.WITHIN in modes and within:
        # Phases are many and cheap; what a launch is measured by says nothing of them.
        fresh = Budget() == experiment.budget
        budget = budget if budget is not None or not fresh else PHASES
        candidates = CANDIDATES if Confirmation() == experiment.confirmation else None
        if not stack and not experiment.stacks and _is_python(context.obj["command"] or experiment.command):
            stack = ["torch"]
        rate = "sample_rate" if "torch" in (stack or experiment.stacks) else "phase_bandwidth"
        objective = objective or (rate if experiment.objective.name == "elapsed" else None)
    if (subject_to or experiment.objective.subject_to) and Confirmation() == experiment.confirmation:
        candidates = CANDIDATES_AT_A_LIMIT
    if not (runner or experiment.runner).startswith(NO_COMMAND):
        refuse_pipes(context.obj["command"] or experiment.command)
        experiment = with_input(experiment)
    options: dict[str, Any] = {
        "budget": {"runs": budget, "seconds": time, "node_hours": node_hours, "spend_all": spend_all or None},
        "sampler": sampler,
        "sampler_option": sampler_option or [],
        "parameter": parameter or [],
        "stacks": stack,
        "objective": {"name": objective, "direction": direction, "program": program, "subject_to": subject_to},
        "runner": runner,
        "model": model,
        "warm_start": warm_start,
        "try_first": None if diagnosis is None else proposals(diagnosis),
        "seed": seed,
        "name": name,
        "setup": setup,
        "hooks": {"delete": delete},
        "within": {
            "max_loss": None if max_loss is None else max_loss / 100,
            "families": families,
            "settle": settle,
        },
        "replay": _replay(replay, replay_folder),
        "confirmation": {"pairs": pairs, "minimum_effect": minimum_effect, "candidates": candidates},
        "timeout": timeout,
        "scratch": scratch,
        "override": override,
        "ceiling": False if no_ceiling else None if ceiling is None else str(ceiling),
    }
    experiment = _with_options(experiment, context.obj["command"], file, options)
    manner = replace(manner, later=used_later(given, modes))
    case = None if small is None else SmallCase(small, small_budget or SMALL_BUDGET)
    _carry_out(desk, experiment, str(Path.cwd()), manner, case)


def _is_python(command: Sequence[str]) -> bool:
    """Whether a command starts Python itself, and no launcher: what opens files again and again is then its loaders."""
    return bool(command) and re.fullmatch(r"python[0-9.]*", Path(command[0]).name) is not None


@dataclass(frozen=True)
class _Manner:
    """How an experiment is begun and its end shown, whatever it is."""

    dry: bool
    """Show what it would do, and start nothing."""
    report: Path | None
    json_output: bool
    later: str = ""
    """What a dry run says of options that only the run itself uses."""


def _replay(record: Path | None, folder: Path | None) -> dict[str, str] | None:
    """What the options say of the table of the experiment's file."""
    return {name: str(path) for name, path in (("record", record), ("folder", folder)) if path is not None} or None


def _confirm(desk: Desk, finished: str, wanted: Mapping[str, Any], manner: _Manner) -> None:
    """Make and run the experiment that compares a result's best with its default."""
    from stripewise.engine.reconfirmation import confirm_again  # noqa: PLC0415  loads what carries a search out

    with desk.experiments() as opened:
        record = opened.record(finished)
    remark_on_input(record.id)
    experiment = confirm_again(record, **wanted)
    if not manner.dry:
        desk.check_trust(record)
    _carry_out(desk, experiment, record.facts.folder or None, manner)


def _carry_out(
    desk: Desk, experiment: Experiment, folder: str | None, manner: _Manner, small: SmallCase | None = None
) -> None:
    """Begin an experiment and show its result, or show what it would do."""
    if not manner.dry:
        _deliver(desk, desk.begin(experiment, folder, small), manner)
        return
    try:
        document = desk.dry_run(experiment, folder, small)
    except UserError:
        if experiment.command and not manner.json_output:
            _print_command(experiment.command)
        raise
    notes = [*document["notes"], *([manner.later] if manner.later else [])]
    print_dry_run({**document, "notes": notes}, manner.json_output)


def _print_command(words: Sequence[str]) -> None:
    """Print what a command says, so that an error of it can be judged."""
    from stripewise.runners.program.started import describe_command  # noqa: PLC0415  reads the tables of launchers
    from stripewise.runners.program.target import understand_here  # noqa: PLC0415

    found = understand_here(words, os.environ, Path.cwd())
    for line in describe_command(found.programs):
        prose(line)
    for remark in found.remarks:
        prose(f"note: {remark}")


def _deliver(desk: Desk, found: tuple[str, Result], manner: _Manner) -> None:
    with desk.experiments() as opened:
        deliver(opened, *found, manner.report, manner.json_output)


def resume(
    identifier: IdArgument,
    yes: YesOption = False,
    store: StoreOption = None,
    server: ServerOption = None,
    report: ReportOption = None,
    json_output: JsonOption = False,
) -> None:
    """Continue an interrupted experiment, as if it had never stopped."""
    check_place("--report", report)
    desk = desk_of(store, server, json_output=json_output, yes=yes)
    remark_on_input(identifier)
    _deliver(desk, desk.carry_on(identifier), _Manner(dry=False, report=report, json_output=json_output))


def _with_options(
    experiment: Experiment, command: Sequence[str], file: str | None, options: Mapping[str, Any]
) -> Experiment:
    """Put options on top of a file's definition; an error that the file makes without them names the file."""
    try:
        return with_options(experiment, command=command, **options)
    except UserError as error:
        if file is None or error.what.startswith(file):
            raise
        try:
            with_options(experiment, command=command)
        except UserError as alone:
            if alone.what == error.what:
                raise UserError(f"{file}: {error.what}", error.fix) from error
        raise


def _read(file: str) -> Experiment:
    text = read_document(Path(file), "experiment", "a command to tune follows two dashes: tune -- ...")
    return parse_experiment(text, file)
