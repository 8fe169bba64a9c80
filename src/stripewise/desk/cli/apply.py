"""``stripewise run`` and ``stripewise export``: what was found, put to use."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.catalogue.meaning import check_combination, check_plan
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.help import ProgramCommand, shown_as
from stripewise.desk.cli.options import (
    JsonOption,
    ServerOption,
    StoreOption,
    check_place,
    identifiers_and_files,
    pairs,
)
from stripewise.desk.cli.output import escape, notes, print_json, prose, say, write_text
from stripewise.desk.cli.plain import tell
from stripewise.desk.cli.plan_run import (
    NO_SETTINGS,
    acted,
    beside,
    folder_name,
    folder_or_start,
    launch,
    list_settings,
    name_of_run,
    plan_in,
    prepare_or_start,
    report_in,
    started_as_by_shell,
)
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.desk import Desk
from stripewise.engine.folders import command_digest, folder_alone
from stripewise.errors import StripewiseError, UserError, choose
from stripewise.formats import ARTIFACT_MAGIC, MODES
from stripewise.models.artifact.content import Artifact
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import read_artifact, restrict_artifact, save_artifact
from stripewise.models.base import PerformanceModel
from stripewise.models.registry import load_model
from stripewise.observe.journal import learned_lines
from stripewise.observe.report import read_report_file
from stripewise.output.export import TARGETS, export
from stripewise.ownership import current_folder, make_folder, names_file
from stripewise.requests.policy import load_policy
from stripewise.requests.site import site_allowances
from stripewise.runners.injection import Guidance
from stripewise.runners.launch_choice import (
    LaunchChoice,
    choose_for_launch,
    decided_at_open,
    last_runs,
    with_launch,
)

_SIMULATED = "these settings come from simulated runs, not from measurements: confirm them on the real machine"


@shown_as(ProgramCommand)
def run(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help="A finished experiment, or a plan file; not needed with --mode.",
            metavar="ID|PLAN",
            autocompletion=identifiers_and_files,
        ),
    ] = None,
    store: StoreOption = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help=f"{', '.join(MODES)}: what the runtime does; predict where there is a model.", metavar="MODE"
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="A model of train, or an artifact; for predict and online.", metavar="FILE")
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Where online keeps what it learned, and orders are answered, from job to job.", metavar="FILE"
        ),
    ] = None,
    orders: Annotated[
        Path | None,
        typer.Option(help="A file of orders: each phase (open to close) carries out the next one.", metavar="FILE"),
    ] = None,
    settle: Annotated[
        bool,
        typer.Option("--settle", help="With --orders: synchronise files before they are closed, at the phase's cost."),
    ] = False,
    where: Annotated[
        bool,
        typer.Option("--where", help="With --mode observe: also find the source lines from which data moves."),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="With --mode observe: also write each read and write of the program's own to a trace.",
            metavar="FILE.csv",
        ),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(help="What is known about the files, such as file_size=64GiB; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    restripe_empty: Annotated[
        bool,
        typer.Option(
            "--restripe-empty",
            help="On Lustre: replace an empty file that exists by a new one with the chosen stripes.",
        ),
    ] = False,
    server: ServerOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to settings that another user of the store found.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the output of the program.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON on standard error before the program starts.")
    ] = False,
) -> None:
    """Run a program with the settings found, as in: stripewise run ID -- mpiexec -n 4 ./my_app.

    This command says at the end which settings acted. With --mode predict a model chooses settings at each open of a
    file. With --mode online they are learned while the program runs. What only a launch can carry (variables,
    arguments) a model chooses before it, from the last run of the same command. Output, signals and exit code are the
    program's.
    """
    command: list[str] = context.obj["command"]
    if not command:
        raise UserError(
            "the command names no program", f"write it after two dashes: run {source or 'ID'} -- mpiexec -n 4 ./my_app"
        )
    mode = mode or ("predict" if model is not None else "orders" if orders is not None else "")
    _check_mode(mode, source, model, journal)
    _check_orders(mode, orders, settle)
    check_place("--trace", trace)
    _check_observed(mode, {"--where": where, "--trace": trace is not None})
    plan, simulated = Plan(), False
    if source is not None:
        plan, _, simulated, _ = _plan_of(source, desk_of(store, server, json_output=json_output, yes=yes))
        check_combination(plan, load_policy().rules, source)
    words, decides = pairs("--workload", workload, "file_size=64GiB"), mode in ("predict", "online")
    if words and not decides:
        raise UserError(
            f"--workload is for models, and mode {mode or 'apply'} asks none", "leave it out, or add --model"
        )
    plan = replace(plan, workload=(*plan.workload, *words.items()))
    doubts = check_plan(plan, source or "--workload", decides=decides)
    # A run without an experiment has a folder of its own: several may go on at once. A model looks for those of the
    # command.
    digest = command_digest(command, current_folder())
    (applied, elsewhere), own = folder_or_start(command), source is None or model is not None
    name = name_of_run(mode, digest) if own else folder_name(plan, source or "")
    folder = applied / name if own else context.with_resource(folder_alone(applied / name))
    choice, artifact = LaunchChoice(), None
    if model is not None:
        asked = _Asked(model, folder, digest, command, words)
        choice, plan, artifact, learned = asked.answer(plan)
        simulated = simulated or learned
        mode = mode if artifact is not None else ""
    guidance = Guidance(
        mode,
        artifact,
        None if journal is None else journal.absolute(),
        (*site_allowances(), *(("empty",) if restripe_empty else ())),
        None if orders is None else orders.absolute(),
        settle,
        own_calls=mode == "observe",
        where=where,
        trace=trace is not None,
    )
    ready = prepare_or_start(plan, command, folder, guidance, elsewhere)
    warnings = (
        *([elsewhere] if elsewhere else []),
        *([_SIMULATED] if simulated else []),
        *doubts,
        *choice.remarks,
        *ready.warnings,
    )
    if json_output:
        document: dict[str, Any] = {"mode": mode, "model": None if model is None else str(model), "plan": plan.text()}
        document |= {"report": str(folder / "report.json"), "launch": choice.as_json(), "warnings": warnings}
        # On standard error: standard output is the program's.
        typer.echo(json.dumps(document), err=True)
    elif not quiet:
        settings = "; ".join(list_settings(plan, choice.settings))
        if model is not None or (mode and mode != "apply"):
            about = (f"mode {mode}" if mode else "run") + ("" if model is None else f" with {model}")
            settings = report_in(about, folder) + (f"; {settings}" if settings else "")
        settled = "files are synchronised before they are closed: this changes what the program costs" if settle else ""
        tell(settings or NO_SETTINGS, choice.why, settled, beside(folder, name), *warnings)
    with started_as_by_shell():
        report = folder / "report.json"
        lines = acted(ready, folder, plan, chosen=mode == "predict")
        if mode == "online":
            lines = partial(_list_learned, report)
        raise typer.Exit(launch(ready, report, None if json_output else lines, quiet=quiet, trace=trace))


def _list_learned(report: Path) -> list[str]:
    try:
        return learned_lines(read_report_file(report)) or ["mode online opened no file to learn from"]
    except StripewiseError as error:
        return [f"what mode online learned is not known: {error.what}"]


def _check_mode(mode: str, source: str | None, model: Path | None, journal: Path | None) -> None:
    if mode and mode not in MODES:
        raise UserError(f"mode {mode} does not exist", choose(mode, MODES))
    if mode == "apply" and source is None:
        raise UserError("mode apply needs a plan or an experiment", "name one before the options")
    if not mode and source is None:
        raise UserError("there is nothing to apply", "name an experiment or a plan, or give --model FILE")
    if mode == "predict" and model is None:
        raise UserError("mode predict needs a model", "give --model FILE, as train has written it")
    if mode == "online" and model is None and source is None:
        raise UserError("mode online needs candidates", "give --model FILE, or a plan")
    if model is not None and mode not in ("predict", "online"):
        raise UserError(f"mode {mode} uses no model", "leave --model out, or choose predict or online")
    if journal is not None and mode not in ("online", "orders"):
        raise UserError(
            "only the modes online and orders keep a journal",
            "add --mode online or --orders FILE, or leave --journal out",
        )


def _check_observed(mode: str, asked: Mapping[str, bool]) -> None:
    for option, given in asked.items():
        if given and mode != "observe":
            raise UserError(f"{option} belongs to the mode observe", f"add --mode observe, or leave {option} out")


def _check_orders(mode: str, orders: Path | None, settle: bool) -> None:
    if mode == "orders" and orders is None:
        raise UserError("mode orders needs a file of orders", "give --orders FILE")
    if orders is not None and mode != "orders":
        raise UserError(f"mode {mode} reads no orders", "leave --orders out, or choose mode orders")
    if settle and mode != "orders":
        raise UserError("--settle belongs to orders", "give --orders FILE, or leave --settle out")


@dataclass(frozen=True)
class _Asked:
    """A model that is asked before a launch."""

    model: Path
    folder: Path
    digest: str
    command: Sequence[str]
    words: Mapping[str, str]

    def answer(self, plan: Plan) -> tuple[LaunchChoice, Plan, Path | None, bool]:
        """What is chosen for the launch, the plan with it, the model for the runtime, and whether it was simulated.

        The runtime gets no model where nothing is left for it to choose: the program may have no MPI.
        """
        loaded = self._read()
        if isinstance(loaded, Artifact):
            return LaunchChoice(), plan, self._written(loaded, loaded), loaded.simulated
        reports = last_runs(self.folder.parent, self.digest)
        choice = choose_for_launch(loaded, reports, self.words, self.command)
        taken = {setting.target for setting in plan.settings}
        chosen = (setting for setting in choice.settings if setting.target not in taken)
        plan = replace(plan, settings=(*plan.settings, *chosen))
        if choice.why and not decided_at_open(loaded):
            return choice, plan, None, choice.simulated
        made = with_launch(to_artifact(loaded), plan.settings)
        return choice, plan, self._written(loaded, made), made.simulated

    def _read(self) -> PerformanceModel | Artifact:
        try:
            with self.model.open("rb") as stream:
                ready = stream.read(len(ARTIFACT_MAGIC)) == ARTIFACT_MAGIC
        except OSError as error:
            raise UserError(f"cannot read the model {self.model}: {error.strerror}", "check the path") from error
        return read_artifact(self.model) if ready else load_model(str(self.model))

    def _written(self, loaded: PerformanceModel | Artifact, made: Artifact) -> Path:
        """The file for the runtime, with what the site allows."""
        limited = restrict_artifact(load_policy(), made)
        if limited is loaded:
            return self.model.absolute()
        make_folder(self.folder)
        save_artifact(limited, self.folder / "model.swm")
        return self.folder / "model.swm"


def export_plan(
    source: Annotated[
        str,
        typer.Argument(
            help="A finished experiment, or a plan file.", metavar="ID|PLAN", autocompletion=identifiers_and_files
        ),
    ],
    to: Annotated[str, typer.Option(help=f"One of {', '.join(TARGETS)}.")] = "plan",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the text to this file.", metavar="FILE")
    ] = None,
    directory: Annotated[str, typer.Option(help="For lfs: the directory whose new files get the layout.")] = "",
    program: Annotated[str, typer.Option(help="For sbatch: the program with its arguments.")] = "",
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Write the settings found for another tool, with their undo and what it cannot express."""
    if to not in TARGETS:
        raise UserError(f"no export is called '{to}'", choose(to, TARGETS))
    plan, changed, simulated, cautions = _plan_of(source, desk_of(store, server, yes=True))
    library = os.environ.get("STRIPEWISE_LIBRARY", "")
    made = export(plan, to, library=library, directory=directory, program=program, changed=changed, cautions=cautions)
    if json_output:
        print_json(
            {
                "target": to,
                "simulated": simulated,
                **{name: getattr(made, name) for name in ("text", "undo", "cannot", "use", "wins", "filename")},
            }
        )
        return
    if output is not None:
        write_text(output, made.text)
        notes.print(f"written to {escape(str(output))}")
    else:
        say(made.text, end="")
    if simulated:
        prose(f"note: {_SIMULATED}", on=notes)
    for heading, text in (("use", made.use), ("undo", made.undo), ("who wins", made.wins)):
        # Shell lines stay lines, so that an undo can be copied.
        lines = text.strip().splitlines()
        if output is not None and output.name == str(output) and made.filename:
            # It is written: nothing is left to be saved, and the undo is of this file.
            lines = [line.removeprefix(f"save as {made.filename}, then: ") for line in lines]
            lines = [line.replace(made.filename, output.name) for line in lines]
        if len(lines) > 1:
            notes.print(f"{heading}:\n  " + escape("\n  ".join(lines)))
        elif lines:
            prose(f"{heading}: {lines[0]}", on=notes)
    for missing in made.cannot:
        prose(f"not expressed: {missing}", on=notes)


def _plan_of(source: str, desk: Desk) -> tuple[Plan, dict[str, Any], bool, Sequence[str]]:
    """The plan of a file or of an experiment.

    With the parameters that it changes, whether its runs were simulated, and where it is expected to harm.
    """
    if names_file(source):
        return plan_in(Path(source)), {}, False, ()
    with desk.experiments() as opened:
        record = opened.record(source)
    if record.result is None:
        raise UserError(
            f"experiment {record.id} is {record.state} and has no result yet",
            f"finish it: stripewise resume {record.id}",
        )
    desk.check_trust(record, "its settings, variables and arguments would act on a program of")
    result = record.result
    plan = Plan.parse(result.plan, f"the plan of experiment {record.id}")
    return plan, result.changed(result.best), result.simulated, result.cautions
