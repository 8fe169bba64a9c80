"""``stripewise tune`` and ``stripewise resume``."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.cli.output import console, duration, interval, notes, number, print_json
from stripewise.cli.progress import Progress
from stripewise.errors import UserError
from stripewise.report.html import write_report
from stripewise.runner.registry import make_runner
from stripewise.spec.configuration import Configuration
from stripewise.spec.experiment import Experiment, parse_experiment
from stripewise.spec.objective import Objective
from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.tuning.definition import with_options
from stripewise.tuning.dryrun import dry_run
from stripewise.tuning.folders import runs_folder
from stripewise.tuning.session import Session

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", envvar="STRIPEWISE_STORE", help="sqlite:///FILE, postgresql://... or journal:FOLDER.", metavar="URL"
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("tune")(tune)
    app.command("resume")(resume)


def tune(
    context: typer.Context,
    file: Annotated[str | None, typer.Argument(help="An experiment file (TOML).", metavar="[EXPERIMENT.toml]")] = None,
    budget: Annotated[int | None, typer.Option(help="Launches in all: warm-up, failures, confirmation.", min=1)] = None,
    time: Annotated[float | None, typer.Option(help="Seconds in all.", metavar="SECONDS")] = None,
    node_hours: Annotated[float | None, typer.Option(help="Node-hours in all.")] = None,
    sampler: Annotated[
        str | None, typer.Option(help="Who proposes configurations: auto, surrogate, genetic, annealing, random, ...")
    ] = None,
    sampler_option: Annotated[
        list[str] | None, typer.Option(help="An option of the sampler, NAME=VALUE; repeatable.", metavar="NAME=VALUE")
    ] = None,
    stack: Annotated[list[str] | None, typer.Option(help="Stack by name or .toml file; repeatable.")] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="elapsed, io_time, write_bandwidth, read_bandwidth, bandwidth, darshan_bandwidth or regex:PATTERN."
        ),
    ] = None,
    direction: Annotated[str | None, typer.Option(help="minimize or maximize, for regex:PATTERN.")] = None,
    runner: Annotated[str | None, typer.Option(help="local, or replay:TABLE for recorded measurements.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Performance model to start from; this version reads none.", metavar="FILE"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of every random choice; the same seed makes the same choices.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="A name to find the experiment by.")] = None,
    setup: Annotated[
        list[str] | None, typer.Option(help="A shell line to run first (module load ...); repeatable.")
    ] = None,
    delete: Annotated[list[str] | None, typer.Option(help="A file to delete before each run; repeatable.")] = None,
    pairs: Annotated[int | None, typer.Option(help="Most pairs of runs in the confirmation.", min=0)] = None,
    minimum_effect: Annotated[float | None, typer.Option(help="Smallest speed-up worth claiming.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as hung.")] = None,
    scratch: Annotated[str | None, typer.Option(help="Folder for the runs' output.")] = None,
    override: Annotated[bool | None, typer.Option(help="Win over the program's own hints.")] = None,
    store: StoreOption = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.", metavar="FILE.html")] = None,
    dry_run_only: Annotated[
        bool, typer.Option("--dry-run", help="Show the space and the cost; start nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Find better settings for a program, prove the gain, and say how to apply them.

    The program follows two dashes: stripewise tune -- mpiexec -n 4 ./my_app
    """
    experiment = _read(file) if file is not None else Experiment()
    experiment = with_options(
        experiment,
        command=context.obj["command"],
        budget={"runs": budget, "seconds": time, "node_hours": node_hours},
        sampler=sampler,
        sampler_option=sampler_option or [],
        stacks=stack,
        objective={"name": objective, "direction": direction},
        runner=runner,
        model=model,
        seed=seed,
        name=name,
        setup=setup,
        hooks={"delete": delete},
        confirmation={"pairs": pairs, "minimum_effect": minimum_effect},
        timeout=timeout,
        scratch=scratch,
        override=override,
    )
    _check_report_path(report)
    if dry_run_only:
        with make_runner(experiment, runs_folder(experiment) / "dry-run") as prober:
            _show_dry_run(dry_run(experiment, prober), json_output)
        return
    opened = open_store(store)
    try:
        identifier = opened.create(experiment)
        _carry_on(opened, identifier, report, json_output)
    finally:
        opened.close()


def resume(
    identifier: Annotated[str, typer.Argument(help="Experiment, or the beginning of its identifier.", metavar="ID")],
    store: StoreOption = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.", metavar="FILE.html")] = None,
    json_output: JsonOption = False,
) -> None:
    """Go on with an interrupted experiment, as if it had never stopped."""
    _check_report_path(report)
    opened = open_store(store)
    try:
        record = opened.record(identifier)
        if record.state == "finished" and record.result is not None:
            _show_result(record.result, json_output)
            return
        _carry_on(opened, record.id, report, json_output)
    finally:
        opened.close()


def _read(file: str) -> Experiment:
    path = Path(file)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise UserError(
            f"cannot read the experiment file {file}: {error.strerror}",
            "a command to tune follows two dashes: tune -- ...",
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(f"experiment file {file} is not UTF-8 text", "is it the right file?") from error
    return parse_experiment(text, file)


def _check_report_path(report: Path | None) -> None:
    if report is not None and not report.absolute().parent.is_dir():
        raise UserError(f"--report: the folder {report.absolute().parent} does not exist", "create it first")


def _carry_on(store: Store, identifier: str, report: Path | None, json_output: bool) -> None:
    record = store.record(identifier)
    folder = runs_folder(record.experiment) / identifier
    runner = make_runner(record.experiment, folder)
    objective = (
        record.experiment.objective.build()
        if "replay" not in record.experiment.runner
        else Objective("", "maximize", "")
    )
    with Progress(notes if json_output or not console.is_terminal else console, objective) as progress:
        session = Session(
            store, identifier, runner, f"{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}", progress
        )
        try:
            result = session.run()
        except KeyboardInterrupt:
            progress.__exit__()
            notes.print(f"stopped; nothing is lost: stripewise resume {identifier} goes on")
            raise typer.Exit(130) from None
    if report is not None:
        write_report(store.record(identifier), store.trials(identifier), report)
    _show_result(result, json_output, report)


def _show_result(result: dict[str, Any], json_output: bool, report: Path | None = None) -> None:
    if json_output:
        print_json(result)
    else:
        print_result(result, report)


def _show_dry_run(document: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(document)
        return
    space = document["space"]
    about = "" if space["exact"] else "about "
    console.print(f"space: {about}{space['distinct']:,} distinct configurations (grid of {space['grid']:,})")
    for parameter in space["parameters"]:
        values = ", ".join(str(value) for value in parameter["values"])
        console.print(f"  {parameter['name']}: {escape(values)} (default {parameter['default']})")
    for name, reason in document["left_out"].items():
        console.print(f"  left out: {name} ({escape(reason)})")
    console.print("first configurations:")
    defaults = {parameter["name"]: parameter["default"] for parameter in space["parameters"]}
    for configuration in document["first"]:
        console.print(f"  {escape(Configuration(configuration).describe(defaults))}")
    worst = document["worst_case"]
    hours = "unknown" if worst["node_hours"] is None else number(worst["node_hours"])
    console.print(f"worst case: {worst['runs']} launches, time {duration(worst['seconds'])}, node-hours {hours}")
    for note in document["notes"]:
        console.print(f"note: {escape(note)}")


def print_result(result: dict[str, Any], report: Path | None = None) -> None:
    """Print a result for people."""
    unit = result["objective"]["unit"]
    simulated = " (simulated)" if result["simulated"] else ""
    console.print()
    console.print(f"[bold]{escape(result['verdict'])}[/]{simulated}")
    console.print()
    if result["reference"] is not None:
        console.print(f"  reference  {_measured(result['reference'], unit)}  (without the component)")
    console.print(f"  default    {_measured(result['default'], unit)}")
    console.print(f"  best       {_measured(result['best'], unit)}{'' if result['confirmed'] else '  (the default)'}")
    if result["confirmed"]:
        console.print(f"  speed-up   {result['speedup']:.2f}  (95% interval {interval(result['speedup_ci95'])})")
    console.print()
    for effect in result["effects"]:
        console.print(
            f"  {escape(effect['name'])}={escape(str(effect['requested']))}: {effect['status']}"
            + (f" - {escape(effect['evidence'])}" if effect["evidence"] else "")
        )
    important = [f"{name} {share:.0%}" for name, share in result["importance"].items() if share >= 0.05]
    if important:
        console.print(f"  what mattered: {', '.join(important)}")
    if result["importance_note"]:
        console.print(f"  {escape(result['importance_note'])}")
    if result["ineffective"]:
        console.print(f"  no effect here: {', '.join(result['ineffective'])}")
    for failure in result["failures"][:3]:
        console.print(f"  {failure['count']} failed: {escape(failure['reason'])}")
    if result["cheapest"] is not None:
        words = " ".join(f"{key}={value}" for key, value in result["cheapest"]["configuration"].items())
        console.print(f"  cheaper and within 5% of the best: {escape(words)}")
    if not result["confirmed"] and result["confirmation"]["more_budget"]:
        console.print(f"  {escape(result['confirmation']['more_budget'])}")
    for missed in result["confirmation"]["not_kept"]:
        console.print(f"  [dim]not kept: {escape(missed)}[/]")
    identifier = result["experiment"]
    console.print()
    if result["confirmed"] and result["best"]["is"] == "reference":
        console.print("apply it:   leave the component out; the program without it is the best found")
    elif result["confirmed"]:
        console.print(f"apply it:   stripewise run {identifier} -- COMMAND")
        console.print(f"export it:  stripewise export {identifier} --to hints|shell|sbatch|openmpi|...")
    console.print(f"look again: stripewise show {identifier}" + (f"; report: {escape(str(report))}" if report else ""))


def _measured(summary: dict[str, Any], unit: str) -> str:
    spread = f"  ({interval(summary['ci95'], 4)})" if summary["ci95"] else ""
    return f"{number(summary['value'], unit)}{spread}  {summary['runs']} runs"
