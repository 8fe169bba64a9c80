"""``stripewise list``, ``show``, ``annotate``, ``stop`` and ``delete``."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import IdArgument, JsonOption, ReportOption, ServerOption, StoreOption, identifiers
from stripewise.desk.cli.output import (
    complete_commands,
    console,
    escape,
    grid,
    notes,
    number,
    print_json,
    prose,
    say,
    write_text,
)
from stripewise.desk.cli.plain import make_printable
from stripewise.desk.cli.result import describe_repeats, print_result
from stripewise.desk.cli.terminal import desk_of
from stripewise.errors import StoreError, UserError
from stripewise.output.html import write_report
from stripewise.output.markup import list_changes
from stripewise.result import Result
from stripewise.sizes import format_factor
from stripewise.store.base import Record
from stripewise.trial import Role, State, Trial


def list_experiments(
    state: Annotated[
        str | None, typer.Option(help="Only experiments in this state: running, finished, stopped, ...")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only experiments with this name.")] = None,
    limit: Annotated[int, typer.Option(help="At most this many, newest first.", min=1)] = 50,
    offset: Annotated[int, typer.Option(help="Skip this many of the newest.", min=0)] = 0,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """List experiments."""
    with desk_of(store, server).experiments() as opened:
        records = opened.records(
            state=state, name=name, limit=limit, offset=offset, on_unreadable=lambda error: notes.print(str(error))
        )
    if json_output:
        print_json([_line(record) for record in records])
        return
    if not records:
        console.print("no experiments; start one with: stripewise tune -- mpiexec -n 4 ./my_app")
        return
    lines = [_line(record) for record in records]
    tags = [[*("(simulated)",)[: line["simulated"]], *line["tags"]] for line in lines]
    tagged = ("tags",) if any(tags) else ()
    table = grid("=id", "name", "=state", ">speed-up", ">runs", "=updated", *tagged)
    for line, words in zip(lines, tags, strict=True):
        table.add_row(
            line["id"],
            escape(make_printable(line["name"])),
            line["state"],
            format_factor(line["speedup"]) if line["confirmed"] else "-",
            str(line["runs"]),
            line["updated"].replace("T", " ")[:16],
            *(escape(", ".join(words)) for _ in tagged),
        )
    console.print(table)


def show(
    experiments: Annotated[
        list[str],
        typer.Argument(
            help="The experiment; the first characters of its identifier are enough. Several are shown side by side.",
            metavar="ID",
            autocompletion=identifiers,
        ),
    ],
    runs: Annotated[bool, typer.Option(help="Also show each run.")] = False,
    save_runs: Annotated[
        Path | None,
        typer.Option(
            help="Write the runs to NAME.csv, for HiPlot and spreadsheets, or to NAME.t4.json, as Kernel Tuner writes "
            "them.",
            metavar="FILE",
        ),
    ] = None,
    report: ReportOption = None,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Show the result of an experiment, or of several side by side."""
    with desk_of(store, server).experiments() as opened:
        found = [(record, opened.trials(record.id)) for record in map(opened.record, experiments)]
    if len(found) > 1:
        if runs or report is not None or save_runs is not None:
            raise UserError(
                "--runs, --save-runs and --report are for one experiment", "leave them out, or name one experiment"
            )
        _show_side_by_side(found, json_output)
        return
    record, trials = found[0]
    if save_runs is not None:
        _write_runs(record, trials, save_runs)
    if report is not None:
        if record.result is None:
            raise UserError(
                f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}"
            )
        write_report(record, trials, report, complete_commands)
    if json_output:
        print_json(_document(record, trials))
        return
    _print_head(record, trials)
    if runs:
        print_runs(trials, record.result or Result())
    if record.result is not None:
        print_result(record.result, report, demo=record.experiment.is_demo)


def _write_runs(record: Record, trials: Sequence[Trial], file: Path) -> None:
    from stripewise.output.experiment_view import view_experiment  # noqa: PLC0415  figures are slow to load
    from stripewise.output.run_files import RUN_FILES  # noqa: PLC0415  as above

    write = next((write for ending, write in RUN_FILES.items() if file.name.endswith(ending)), None)
    if write is None:
        raise UserError(f"--save-runs {file}: no such form of runs", f"end the name with {' or '.join(RUN_FILES)}")
    write_text(file, write(view_experiment(record, trials)), "choose another file with --save-runs")


def _document(record: Record, trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        **_line(record),
        "result": record.result.as_json() if record.result else None,
        "trials": [trial.as_json() for trial in trials],
    }


def _show_side_by_side(found: Sequence[tuple[Record, Sequence[Trial]]], json_output: bool) -> None:
    if json_output:
        print_json([_document(record, trials) for record, trials in found])
        return
    from stripewise.output import compare  # noqa: PLC0415  figures are slow to load
    from stripewise.output.experiment_view import view_experiment  # noqa: PLC0415  as above

    views = [view_experiment(record, trials) for record, trials in found]
    table = grid(
        "", *(f"{escape(make_printable(one.record.experiment.name or 'experiment'))} {one.record.id}" for one in views)
    )
    results = [one.result for one in views]
    for heading, values in (
        ("state", [one.record.state for one in views]),
        ("default", [number(one.default.value, one.objective.unit) for one in results]),
        ("best", [number(one.best.value, one.objective.unit) for one in results]),
        ("speed-up", [_gain(compare.gain(one)) for one in views]),
        ("runs", [str(record.ended) for record, _ in found]),
        *compare.parameters(views),
    ):
        table.add_row(escape(heading), *map(escape, values))
    console.print(table)
    for note in compare.differences(views):
        prose(f"compare with care: {note}")


def _gain(found: tuple[float, float | None, float | None, bool] | None) -> str:
    if found is None:
        return "-"
    factor, low, high, proven = found
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{factor:.2f}{ends}{'' if proven else ', not proven'}"


def annotate(
    identifier: IdArgument,
    tag: Annotated[list[str] | None, typer.Option(help="Add this tag; may be given again.")] = None,
    untag: Annotated[list[str] | None, typer.Option(help="Remove this tag; may be given again.")] = None,
    remark: Annotated[str | None, typer.Option(help="Replace the remark; '' removes it.")] = None,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Give an experiment tags and a remark, to find it again."""
    with desk_of(store, server).experiments() as opened:
        record = opened.record(identifier)
        unknown = sorted({*(untag or ())} - {*record.tags})
        if unknown:
            raise UserError(
                f"experiment {record.id} has no tag '{unknown[0]}'", f"its tags: {', '.join(record.tags) or 'none'}"
            )
        if tag or untag or remark is not None:
            kept = [one for one in (*record.tags, *(tag or ())) if one not in (untag or ())]
            opened.annotate(record.id, tags=kept if tag or untag else None, remark=remark)
            record = opened.record(record.id)
    if json_output:
        print_json({"id": record.id, "tags": list(record.tags), "remark": record.remark})
    else:
        _print_labels(record)


def _print_labels(record: Record) -> None:
    if record.tags:
        say(f"tags       {', '.join(record.tags)}")
    if record.remark:
        say(f"remark     {make_printable(record.remark)}")


def stop(
    identifier: IdArgument,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Ask a running experiment to stop; it can be resumed."""
    record = desk_of(store, server).stop(identifier)
    if json_output:
        print_json({"id": record.id, "stopping": True})
    else:
        goes_on = complete_commands(f"stripewise resume {record.id} goes on")
        console.print(f"experiment {record.id} will stop within a few seconds; {escape(goes_on)}")


def delete(
    identifier: IdArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StoreOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Delete an experiment with all its runs."""
    with desk_of(store, server).experiments() as opened:
        try:
            record = opened.record(identifier)
            identifier, about = record.id, record.experiment.name
            if record.state == "running":
                raise UserError(
                    f"experiment {identifier} is running", f"stop it first: stripewise experiment stop {identifier}"
                )
        except StoreError as error:
            about = error.what
        if not yes and not _ask_agreement(f"delete experiment {identifier} ({about}) and its runs?"):
            raise typer.Exit(1)
        opened.delete(identifier)
    if json_output:
        print_json({"id": identifier, "deleted": True})
    else:
        console.print(f"experiment {identifier} is deleted")


def _ask_agreement(question: str) -> bool:
    # Standard output is for the result alone, which typer's own question does not leave it to.
    typer.echo(f"{question} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:
        typer.echo(err=True)
        raise UserError("nobody answered, so nothing is deleted", "add --yes")
    return answer.strip().lower() in ("y", "yes")


def _line(record: Record) -> dict[str, Any]:
    result = record.result
    interval = result.speedup_interval if result else None

    def moment(seconds: float) -> str:
        return datetime.datetime.fromtimestamp(seconds).isoformat(timespec="seconds")

    return {
        "id": record.id,
        "name": record.experiment.name,
        "state": record.state,
        "command": record.experiment.command,
        # A replayed table brings an objective of its own.
        "objective": result.objective.name if result else record.experiment.objective.name,
        "simulated": bool(result and result.simulated),
        "speedup": result.speedup if result else None,
        "speedup_ci95": interval.ci95 if interval else None,
        "confirmed": bool(result and result.confirmed),
        "runs": result.runs if result else record.facts.runs,
        "budget": record.experiment.budget.runs,
        "created": moment(record.created),
        "updated": moment(record.updated),
        "owner": record.owner,
        "tags": list(record.tags),
        "remark": record.remark,
    }


def _print_head(record: Record, trials: tuple[Trial, ...]) -> None:
    experiment = record.experiment
    console.print(f"experiment {record.id}  {escape(make_printable(experiment.name))}  {record.state}")
    prose(f"command    {make_printable(' '.join(experiment.command)) or experiment.runner}")
    _print_labels(record)
    ended = [run for trial in trials for run in trial.runs if run.state.ended]
    tried = f"{len(trials)} configuration{'' if len(trials) == 1 else 's'}"
    console.print(f"runs       {len(ended)} of {experiment.budget.runs}, {tried}")
    launches = sum(run.facts.repeats for trial in trials for run in trial.runs)
    if launches and record.result is None:
        console.print(f"repeated   {describe_repeats(launches)}")
    if record.state in ("stopped", "created", "failed"):
        say(complete_commands(f"go on      stripewise resume {record.id}"))


def print_runs(trials: tuple[Trial, ...], result: Result) -> None:
    """Print one line per run: what it was, and where it has no value, why."""
    default, units = result.default.configuration, {one.name: one.unit for one in result.space.parameters}
    table = grid(">run", ">trial", "=phase", ">value", ">elapsed", "configuration")
    rows = sorted(((run, trial) for trial in trials for run in trial.runs), key=lambda pair: pair[0].number)
    for run, trial in rows:
        changed = list_changes(trial.configuration, default, units)
        what = " ".join(changed) or "(defaults)" if trial.role is Role.CANDIDATE else trial.role.value
        what += f" ({run.reason})" if run.reason else ""
        table.add_row(
            *(str(run.number), str(trial.number), run.phase.value),
            # The bound that a run was cut at is not a value of that run.
            number(run.value) if run.state is State.FINISHED else run.state.value,
            *(number(run.elapsed, "s", 3), escape(what)),
        )
    console.print(table)
