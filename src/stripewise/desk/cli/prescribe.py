"""``stripewise prescribe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli import remote
from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import (
    BOTH,
    STACK_THERE,
    JsonOption,
    ServerOption,
    TableStackOption,
    check_stacks,
    pairs,
)
from stripewise.desk.cli.output import console, grid, number, print_json, prose, say, write_text
from stripewise.desk.client import Client
from stripewise.documents import read_document
from stripewise.errors import UserError, choose
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.base import PerformanceModel
from stripewise.models.prescribe.policies import by_policy, policy_names
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.prescription import Neighbour, Prescription, carried_by, choose_place, prescription_of
from stripewise.models.prescribe.request import PrescriptionRequest, parse_request
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import read_table, table_files
from stripewise.observe.sources import observe
from stripewise.output.export import TARGETS, export
from stripewise.sizes import format_size


def register(app: Commands) -> None:
    """Add the command."""
    app.command("prescribe")(prescribe)


def prescribe(
    model: Annotated[
        str | None, typer.Argument(help="A model written by train; without one, a policy answers.", metavar="MODEL")
    ] = None,
    workload: Annotated[Path | None, typer.Option(help="A TOML file with a [workload] table.", metavar="FILE")] = None,
    observed: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A Darshan log, trace, report, record, journal or IOR output: what a run did.",
            metavar="FILE",
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="The measurements that the model learned from, for its reasons.", metavar="TABLE")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help=f"Without a model: {', '.join(policy_names())}.", metavar="NAME")
    ] = None,
    osts: Annotated[int | None, typer.Option(help="OSTs of the file system, for policies.", min=1)] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of MODEL: a folder or pool:NAME, and its model or table; repeat it, the current one first.",
            metavar="FOLDER=MODEL",
        ),
    ] = None,
    place_by: Annotated[
        str | None,
        typer.Option(
            help="How the program is told its folder: env:VARIABLE, or argument:NAME for {NAME} in its command.",
            metavar="CARRIER:NAME",
        ),
    ] = None,
    stack: TableStackOption = None,
    to: Annotated[
        str | None, typer.Option(help=f"Print the settings as one of {', '.join(TARGETS)}.", metavar="TARGET")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the text of --to, or the plan, there.", metavar="FILE")
    ] = None,
    artifact: Annotated[
        Path | None, typer.Option(help="Write the model as the runtime reads it, and stop.", metavar="FILE")
    ] = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Choose settings without a run, from a model, from other systems or by a rule of thumb."""
    if to is not None and to not in TARGETS:
        raise UserError(f"no export is called '{to}'", choose(to, TARGETS))
    if artifact is not None:
        _write_artifact(model, artifact, stack, json_output)
        return
    if place and any(given is not None for given in (model, policy, table)):
        raise UserError("--place names the models itself", "leave MODEL, --policy and --table out")
    if place_by is not None and not place:
        raise UserError("--place-by needs places", "give --place FOLDER=MODEL for each")
    if workload is None and observed is None:
        raise UserError("the workload is missing", "give --workload FILE, or --from a Darshan log or runtime report")
    if model is not None and policy is not None:
        raise UserError("both a model and a policy are given", "leave one of them out")
    service = remote.server_of(None, server)
    if service is not None and stack:
        raise UserError(BOTH, STACK_THERE)
    client = None if service is None else remote.connect(service)
    if place:
        models = _places(place, place_by)
        if client is not None:
            there = {name: {"model": remote.learned_there(client, given)} for name, given in models.items()}
            found_at = _prescribed_there(client, there, workload, observed)
        else:
            found_at = {name: _learned(given, stack, workload, observed) for name, given in models.items()}
        _deliver_place(found_at, place_by, to, output, json_output)
        return
    if client is not None:
        asked: dict[str, Any] = {"policy": policy, "osts": osts}
        asked["model"] = None if model is None else remote.model_there(client, model)
        asked["table"] = None if table is None else remote.table_there(client, table)
        deliver(_prescribed_there(client, {"": asked}, workload, observed)[""], to, output, json_output)
        return
    loaded = None if model is None else _model(model, stack)
    request = _request(workload, observed, loaded)
    if loaded is None:
        found = by_policy(
            policy or policy_names()[0], request.workload, osts, request.current, existing=request.existing
        )
    else:
        found = Prescriber(loaded, None if table is None else read_table(table)).prescribe(request)
    deliver(found, to, output, json_output)


def _places(given: Sequence[str], by: str | None) -> dict[str, str]:
    """Check what names the places, and give the model or table of each."""
    models = pairs("--place", given, "/scratch/me=scratch.model")
    if len(models) < 2:
        raise UserError("one place leaves nothing to choose", "give --place FOLDER=MODEL for each, the current first")
    if by is not None:
        carried_by(by)
    return models


def _learned(given: str, stacks: Sequence[str] | None, workload: Path | None, observed: Path | None) -> Prescription:
    """Ask a model, or one that is made for a table, what it prescribes."""
    table = read_table(given) if all(file.is_file() for file in table_files(given)) else None
    model = _model(given, stacks) if table is None else _with_stacks(make_model("auto").fit(table), given, stacks)
    return Prescriber(model, table).prescribe(_request(workload, observed, model))


def _deliver_place(
    found: Mapping[str, Prescription], by: str | None, to: str | None, output: Path | None, json_output: bool
) -> None:
    """Choose among places, and print them and what is prescribed."""
    chosen, places = choose_place(found, by)
    if not json_output and (to is None or output is not None):
        unit = "" if chosen.objective is None else chosen.objective.unit
        table = grid("place", ">predicted", ">95% interval", ">times as fast", ">95% interval")
        for one in places:
            low, high = one.speedup_interval
            table.add_row(
                escape(one.name),
                number(one.found.predicted, unit),
                f"{number(one.interval[0])} to {number(one.interval[1])}",
                f"{one.speedup:.2f}",
                f"{low:.2f} to {high:.2f}",
            )
        console.print(table)
    deliver(chosen, to, output, json_output, {"places": [one.as_json() for one in places]})


def _prescribed_there(
    client: Client, questions: Mapping[str, dict[str, Any]], workload: Path | None, observed: Path | None
) -> dict[str, Prescription]:
    """Ask a service the same of several models; a log is uploaded once and stays there as a diagnosis."""
    about: dict[str, Any] = {}
    if workload is not None:
        request = _request(workload, None, None)
        about["workload"] = request.workload.model_dump(mode="json", exclude_none=True)
        about |= {"current": dict(request.current), "context": dict(request.context)}
    if observed is not None:
        about["diagnosis"] = client.upload("/diagnoses", observed)["id"]
    return {
        name: prescription_of(client.post("/prescriptions", {**asked, **about})) for name, asked in questions.items()
    }


def _request(workload: Path | None, observed: Path | None, model: PerformanceModel | None) -> PrescriptionRequest:
    request = PrescriptionRequest(Workload())
    if workload is not None:
        request = parse_request(read_document(workload, "workload"), str(workload))
    if observed is not None:
        request = request.with_observed(observe(observed), None if model is None else model.domain)
    return request


def _model(path: str, stacks: Sequence[str] | None) -> PerformanceModel:
    return _with_stacks(load_model(path), path, stacks)


def _with_stacks(model: PerformanceModel, path: str, stacks: Sequence[str] | None) -> PerformanceModel:
    if stacks:
        check_stacks(stacks, model.domain.names[model.domain.contexts :], f"the model {path}")
        model.add_stacks(stacks)
    return model


def _write_artifact(model: str | None, target: Path, stacks: Sequence[str] | None, json_output: bool) -> None:
    if model is None:
        raise UserError("--artifact needs a model", "name the file that train has written")
    made = to_artifact(_model(model, stacks))
    size = save_artifact(made, target)
    if json_output:
        print_json({"artifact": str(target), "bytes": size, "name": made.name})
    else:
        say(f"{made.name}: {target}, {format_size(size)}")


def deliver(
    found: Prescription,
    to: str | None,
    output: Path | None,
    json_output: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print a prescription, or write it where it is wanted."""
    text = None
    if to is not None or output is not None:
        made = export(
            found.plan,
            to or "plan",
            directory=found.directory,
            changed={change.name: change.value for change in found.changes},
        )
        text = made.text
        if output is not None:
            write_text(output, text)
    if json_output:
        document = {**found.as_json(), **(more or {})}
        if text is not None:
            document["export"] = {"target": to or "plan", "text": text, "undo": made.undo, "cannot": made.cannot}
        print_json(document)
        return
    if to is not None and output is None:
        typer.echo(text, nl=False)
        for line in made.cannot:
            typer.echo(f"cannot be expressed: {line}", err=True)
        return
    _print(found)
    if output is not None:
        say(f"written: {output}")
    if found.plan.settings and to in (None, "plan"):
        written = str(output) if output is not None else "FILE.plan"
        first = "" if output is not None else "the same command with -o FILE.plan, then "
        say(f"apply it: {first}stripewise run {written} -- COMMAND")


def _shown(value: object, unit: str) -> str:
    if value is None:
        return "-"
    if unit == "B" and isinstance(value, int | float) and not isinstance(value, bool):
        return format_size(float(value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # A count is told by the parameter's name.
    return text if unit == "count" else f"{text} {unit}".rstrip()


def _print(found: Prescription) -> None:
    unit = "" if found.objective is None else found.objective.unit
    simulated = " (learned from simulated runs)" if found.simulated else ""
    say(f"{found.origin}{simulated}")
    if found.kept:
        say(f"Nothing is changed: {found.kept}.")
    if found.speedup is not None and not found.kept and found.interval is not None:
        low, high = found.interval
        values = "" if found.policy else f", {number(found.current, unit)} now, {number(found.predicted, unit)} then"
        interval = f"95% interval {low:.2f} to {high:.2f}"
        prose(f"Predicted: {found.speedup:.2f} times as fast ({interval}){values}; not measured.")
        if low < 1:
            proof = "tune" if found.policy else "tune --model"
            prose(f"The interval reaches below 1: it may also be slower. stripewise {proof} proves a gain.")
    if found.changes:
        table = grid("setting", "now", "prescribed", "without it")
        for change in found.changes:
            lost = "" if change.share is None else f"{1 / change.share:.2f} times as fast"
            now, then = _shown(change.current, change.unit), _shown(change.value, change.unit)
            table.add_row(*(escape(word) for word in (change.name, now, then, lost)))
        console.print(table)
    if found.directory:
        say(f"write to {found.directory}")
    for title, lines in (
        ("why", found.reasons),
        ("measured nearby", [_line(entry, unit) for entry in found.neighbours]),
        ("what no setting can do", [_advice(entry) for entry in found.advice]),
        ("note", found.notes),
    ):
        for line in lines:
            prose(f"{title}: {line}")


def _advice(entry: object) -> str:
    speedup, text = getattr(entry, "speedup", 1.0), getattr(entry, "text", "")
    return f"{text} (another {speedup:.2f} times predicted)" if speedup > 1 else str(text)


def _line(entry: Neighbour, unit: str) -> str:
    values = " ".join(
        f"{name}={_shown(value, 'B' if name.endswith('_size') else '')}" for name, value in entry.values.items()
    )
    # Without the table there is what the model remembers, which it has smoothed.
    runs = "as the model remembers it" if entry.runs is None else f"{entry.runs} run" + ("s" if entry.runs != 1 else "")
    which = "the prescribed settings" if entry.chosen else "the current settings"
    return f"{number(entry.value, unit)} (near {which}, {runs}, distance {entry.distance:.2f}): {values}"
