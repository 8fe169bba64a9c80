"""``stripewise prescribe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import (
    JsonOption,
    ServerOption,
    TableStackOption,
    pairs,
)
from stripewise.desk.cli.output import console, escape, grid, number, print_json, prose, say, write_text
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.desk import Question
from stripewise.desk.local import model_with
from stripewise.errors import UserError, choose
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.prescribe.policies import policy_names
from stripewise.models.prescribe.prescription import Neighbour, Prescription, carried_by, choose_place
from stripewise.models.prescribe.request import read_request
from stripewise.output.export import TARGETS, export
from stripewise.output.markup import measured_text
from stripewise.sizes import format_size


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
    """Choose settings without a run, from a model or by a rule of thumb."""
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
    desk, stacks = desk_of(None, server), tuple(stack or ())
    if place:
        models = {name: Question(given, learn=True, stacks=stacks) for name, given in _places(place, place_by).items()}
        found = desk.prescribe(models, read_request(workload), observed)
        _deliver_place(found, place_by, to, output, json_output)
        return
    asked = Question(model, table, policy, osts, stacks=stacks)
    deliver(desk.prescribe({"": asked}, read_request(workload), observed)[""], to, output, json_output)


def _places(given: Sequence[str], by: str | None) -> dict[str, str]:
    """Check what names the places, and give the model or table of each."""
    models = pairs("--place", given, "/scratch/me=scratch.model")
    if len(models) < 2:
        raise UserError("one place leaves nothing to choose", "give --place FOLDER=MODEL for each, the current first")
    if by is not None:
        carried_by(by)
    return models


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


def _write_artifact(model: str | None, target: Path, stacks: Sequence[str] | None, json_output: bool) -> None:
    if model is None:
        raise UserError("--artifact needs a model", "name the file that train has written")
    made = to_artifact(model_with(model, stacks or ()))
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
        prose(f"apply it: {first}stripewise run {written} -- COMMAND")


def _format_value(value: object, unit: str) -> str:
    return "-" if value is None else measured_text(value, unit)


def _print(found: Prescription) -> None:
    unit = "" if found.objective is None else found.objective.unit
    simulated = " (learned from simulated runs)" if found.simulated else ""
    say(f"{found.origin}{simulated}")
    if found.kept:
        prose(f"Nothing is changed: {found.kept}.")
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
            now, then = _format_value(change.current, change.unit), _format_value(change.value, change.unit)
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
        f"{name}={_format_value(value, 'B' if name.endswith('_size') else '')}" for name, value in entry.values.items()
    )
    # Without the table there is what the model remembers, which it has smoothed.
    runs = "as the model remembers it" if entry.runs is None else f"{entry.runs} run" + ("s" if entry.runs != 1 else "")
    which = "the prescribed settings" if entry.chosen else "the current settings"
    return f"{number(entry.value, unit)} (near {which}, {runs}, distance {entry.distance:.2f}): {values}"
