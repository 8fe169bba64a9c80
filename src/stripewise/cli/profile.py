"""``stripewise profile``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.cli.options import JsonOption, YesOption
from stripewise.cli.output import console, duration, notes, number, print_json
from stripewise.cli.profile_array import submit_array
from stripewise.cli.tune import _owner, _terminated_as_interrupted
from stripewise.errors import UserError
from stripewise.profiling.book import Book, collect
from stripewise.profiling.checks import Cost, check_limits, check_room, cost_of
from stripewise.profiling.estimate import Remaining
from stripewise.profiling.outcome import check_out, save, summary, table_of
from stripewise.profiling.plan import Plan, Progressed
from stripewise.profiling.schedule import Planned, Shard, of_shard, parse_shard
from stripewise.profiling.session import Paused, Session
from stripewise.runner.benchmark import Bench
from stripewise.spec.campaign import Campaign, campaign_text, load_campaign
from stripewise.spec.campaign_points import Points
from stripewise.spec.objective import Objective
from stripewise.spec.sizes import format_size
from stripewise.spec.trial import Run, State
from stripewise.tuning.folders import state_folder

_SECONDS_BETWEEN_LINES = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile")(profile)


def profile(
    campaign: Annotated[
        str,
        typer.Argument(
            help="A campaign file (TOML), or mpi-io-ann, io-search, sctuner, quick.", metavar="CAMPAIGN.toml"
        ),
    ],
    folder: Annotated[
        str | None,
        typer.Option(help="Where the benchmark's file lies: on the file system to be measured.", metavar="PATH"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The table to write (NAME.csv and NAME.toml); by default CAMPAIGN-table.", metavar="TABLE"),
    ] = None,
    runner: Annotated[str | None, typer.Option(help="local, sim:NAME-or-FILE, or replay:TABLE.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each combination.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Of the design and the order of runs.", min=0)] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Make only the i-th of n parts; the last to end, or --merge, writes the table.", metavar="i/n"
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="Folder in which results are kept; the same command goes on from it.", metavar="FOLDER"),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Start nothing: write the table from this journal; repeatable.", metavar="FOLDER"),
    ] = None,
    array: Annotated[
        int | None, typer.Option(help="Submit n shards as a Slurm job array; the last to end writes the table.", min=1)
    ] = None,
    at_once: Annotated[
        int, typer.Option(help="Shards of the array at a time; more than one disturb each other.", min=1)
    ] = 1,
    directive: Annotated[
        list[str] | None,
        typer.Option(help="An option for sbatch, as --time=2:00:00, for --array; repeatable.", metavar="OPTION"),
    ] = None,
    yes: YesOption = False,
    retry: Annotated[bool, typer.Option("--retry", help="Make runs that failed once more.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the design and its cost; start nothing.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the campaign's file, to be copied and changed.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Measure a site: run a campaign of benchmarks and write its table.

    Interrupted, it goes on where it was when the same command is given again.
    """
    if show:
        sys.stdout.write(campaign_text(campaign)[0])
        return
    given = {
        "files.folder": folder and str(Path(folder).absolute()),
        "runner": runner,
        "repeats": repeats,
        "seed": seed,
    }
    asked = load_campaign(campaign, [(key, value) for key, value in given.items() if value is not None])
    part = parse_shard(shard) if shard is not None else (1, 1)
    # Looked at before the first run: days of them are not to end in a name that is taken.
    out = check_out(out or Path(f"{asked.name}-table"))
    if merge:
        _merge(asked, merge, out, json_output)
        return
    points = Points(asked)
    where = journal or state_folder() / "campaigns" / f"{asked.name}-{asked.digest}"
    if array is not None:
        if shard is not None:
            raise UserError("--array makes all shards, and --shard one", "give one of them")
        words = _words(campaign, {"--folder": given["files.folder"], "--repeats": repeats, "--seed": seed})
        submit_array(
            points,
            _whole_cost(points),
            [*words, *(["--retry"] if retry else [])],
            where=where,
            out=out,
            shards=array,
            at_once=at_once,
            directives=directive or [],
            yes=yes,
            dry_run=dry_run,
            json_output=json_output,
        )
        return
    if dry_run:
        _dry_run(points, part, where, json_output)
        return
    # Simulated and replayed runs cost nothing to repeat: they are kept in memory, unless their shards are to be merged.
    kept = where if asked.runner == "local" or shard is not None or journal is not None else None
    environment = dict(os.environ)
    bench = Bench(_of_shard(asked, part), points, where / "runs", environment)
    book = Book(asked, part, kept, _owner())
    display = _Display(kept is not None)
    session = Session(points, bench, book, part, where / "runs", display, retry=retry)
    try:
        with _terminated_as_interrupted():
            progress = session.run()
    except KeyboardInterrupt:
        lost = "nothing is lost: the same command goes on" if kept is not None else "simulated runs are made again"
        notes.print(f"stopped; {lost}")
        raise typer.Exit(130) from None
    except Paused as paused:
        notes.print(escape(str(paused)))
        raise typer.Exit(0) from None
    finally:
        display.close()
        book.close()
    results, seen = dict(book.runs), {part[0]}
    if kept is not None and part[1] > 1:
        found = collect([kept])
        results, seen = dict(found.runs), set(found.seen)
    whole = len(seen) == part[1] and Plan(points).known(results)
    table = None
    if whole and whole.complete and all(_ended(results, run) for run in whole.runs):
        table = _write(points, whole, results, bench.objective(points.all[0]), bench.kind, out)
    document = summary(
        asked,
        of_shard(progress.runs, part),
        results,
        kind=bench.kind,
        complete=progress.complete,
        table=table,
        shard=part,
        left_out=points.left_out,
    )
    _deliver(document, json_output)


def _words(campaign: str, options: Mapping[str, object]) -> list[str]:
    """Write the campaign and the options that change it, for a job that starts in the same folder."""
    named = str(Path(campaign).absolute()) if campaign.endswith(".toml") else campaign
    return [named, *(word for name, value in options.items() if value is not None for word in (name, str(value)))]


def _whole_cost(points: Points) -> Cost:
    cost = cost_of(points.campaign, Plan(points).known({}).runs)
    check_limits(points.campaign, cost)
    return cost


def _of_shard(campaign: Campaign, part: Shard) -> Campaign:
    """Give each shard a file of its own: several may be at work in the same folder."""
    if part[1] == 1:
        return campaign
    name = f"{campaign.files.name}.{part[0]}"
    return campaign.model_copy(update={"files": campaign.files.model_copy(update={"name": name})})


def _ended(results: Mapping[int, Run], run: Planned) -> bool:
    found = results.get(run.number)
    return found is not None and found.state.ended


def _merge(asked: Campaign, folders: list[Path], out: Path, json_output: bool) -> None:
    found = collect(folders)
    for note in found.notes:
        notes.print(escape(f"note: {note}"))
    if found.campaign.name != asked.name:
        raise UserError(f"the journals are of campaign '{found.campaign.name}', not of '{asked.name}'", "name that one")
    points = Points(found.campaign)
    progress = Plan(points).known(found.runs)
    left = sum(not _ended(found.runs, run) for run in progress.runs)
    if left:
        missing = sorted(set(range(1, found.shards + 1)) - set(found.seen))
        about = (
            f"shards {', '.join(map(str, missing))} of {found.shards} are missing"
            if missing
            else "shards have not ended"
        )
        notes.print(f"note: {left:,} of {len(progress.runs):,} runs have no result ({about}); the table has the others")
    kind = "simulated" if found.campaign.runner.startswith("sim:") else "measured"
    objective = _objective(found.campaign)
    table = _write(points, progress, found.runs, objective, kind, out)
    document = summary(
        found.campaign,
        progress.runs,
        found.runs,
        kind=kind,
        complete=progress.complete,
        table=table,
        shard=(1, 1),
        left_out=points.left_out,
    )
    _deliver(document, json_output)


def _objective(campaign: Campaign) -> Objective:
    if campaign.objective == "bandwidth":
        return Objective("bandwidth", "maximize", "MiB/s")
    return Objective.parse(campaign.objective, campaign.direction, campaign.unit)


def _write(
    points: Points, progress: Progressed, results: Mapping[int, Run], objective: Objective, kind: str, out: Path
) -> Path:
    campaign = points.campaign
    about = {
        "simulated": f"Simulated on {campaign.runner}: computed, not measured.",
        "replayed": f"Replayed from {campaign.runner.partition(':')[2]}.",
    }.get(kind, f"Measured with {campaign.program}.")
    whole = campaign.design.kind == "grid"
    table = table_of(points, progress.runs, results, objective, about, whole)
    return save(table, out)


def _dry_run(points: Points, shard: Shard, where: Path, json_output: bool) -> None:
    campaign = points.campaign
    progress = Plan(points).known({})
    runs = of_shard(progress.runs, shard)
    cost = cost_of(campaign, runs)
    check_limits(campaign, cost)
    if campaign.runner == "local" and campaign.files.folder:
        check_room(campaign, cost, where)
    document = {
        "campaign": campaign.name,
        "digest": campaign.digest,
        "design": campaign.design.kind,
        "possible": {operation: len(points.of(operation)) for operation in campaign.operations},
        "left_out": points.left_out,
        "runs": cost.runs,
        "complete": progress.complete,
        "launches": cost.launches if campaign.runner == "local" else 0,
        "bytes": cost.moved,
        "largest_file": cost.largest,
        "worst_node_hours": cost.node_hours,
        "assumed": campaign.assumptions(),
        "first": [{"operation": run.point.operation, "configuration": dict(run.point.values)} for run in runs[:3]],
    }
    if json_output:
        print_json(document)
        return
    for operation in campaign.operations:
        console.print(f"{operation}: {len(points.of(operation)):,} combinations are possible")
    for line in _cost_lines(campaign, cost, points.left_out, more=not progress.complete):
        console.print(escape(line))
    for run in runs[:3]:
        console.print(escape(f"first     {run.point.operation} {run.point.values.describe()}"))


def _cost_lines(campaign: Campaign, cost: Cost, left_out: int, *, more: bool = False) -> list[str]:
    found = [
        f"design    {campaign.design.kind}, {cost.runs:,} runs{' at first' if more else ''}, {campaign.repeats} repeats"
    ]
    if campaign.runner == "local":
        found.append(
            f"cost      {cost.launches:,} launches, {format_size(cost.moved)} of I/O, files of up to "
            f"{format_size(cost.largest)}; at most {number(cost.node_hours, 'node-hours', 3)}, if every run hung"
        )
    if left_out:
        found.append(f"left out  {left_out:,} combinations that the program cannot carry out (sizes do not divide)")
    assumed = campaign.assumptions()
    if assumed:
        found.append(f"assumed   values that the study does not print, chosen here: of {', '.join(assumed)}")
    return found


def _deliver(document: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(document)
        return
    runs = document["runs"]
    simulated = "simulated " if document["simulated"] else ""
    line = f"{runs['finished']:,} of {runs['planned']:,} {simulated}runs of {document['configurations']:,} combinations"
    if runs["failed"]:
        line += f", {runs['failed']:,} failed"
    console.print(f"{line}; {duration(document['seconds'])} of runs, {number(document['node_hours'], 'node-hours', 3)}")
    for reason in dict.fromkeys(entry["reason"] for entry in document["failures"]):
        count = sum(entry["reason"] == reason for entry in document["failures"])
        console.print(escape(f"failed    {count} times: {reason}"))
    if document["table"] is not None:
        console.print(escape(f"table     {document['table']}"))
        console.print(escape(f"look at it: stripewise summarize {document['table']}"))
    else:
        index, count = document["shard"]
        console.print(f"shard {index} of {count} has ended; others have not: --merge puts their journals together")


class _Display:
    """Says how far a campaign is: a line that is rewritten on a terminal, now and then a line elsewhere."""

    def __init__(self, resumable: bool) -> None:
        self._resumable = resumable
        self._campaign: Campaign | None = None
        self._done = 0
        self._failed = 0
        self._last = -_SECONDS_BETWEEN_LINES

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(**data)

    def close(self) -> None:
        """End the line that was being rewritten."""
        if notes.is_terminal and self._done:
            notes.print()

    def _on_prepared(self, preflight: Any, kind: str) -> None:
        for line in (*preflight.summary, *(f"note: {warning}" for warning in preflight.warnings)):
            notes.print(escape(line))
        if kind == "simulated":
            notes.print("simulated: nothing is launched, figures are computed")

    def _on_cost(self, cost: Cost, campaign: Campaign, left_out: int) -> None:
        for line in _cost_lines(campaign, cost, left_out):
            notes.print(escape(line))

    def _on_warmup(self, operation: str) -> None:
        notes.print(f"warm-up   {operation}")

    def _on_note(self, text: str) -> None:
        notes.print(escape(f"note: {text}"))

    def _on_ended(self, run: Run, planned: Planned, left: int, remaining: Any) -> None:
        self._done += 1
        if run.state is not State.FINISHED:
            self._failed += 1
            notes.print(escape(f"run {run.number} failed: {run.reason}"))
        now = time.monotonic()
        if left and now - self._last < (0.2 if notes.is_terminal else _SECONDS_BETWEEN_LINES):
            return
        self._last = now
        line = f"{self._done:,} runs made, {left:,} left{_time(remaining())}"
        notes.print(escape(line), end="\r" if notes.is_terminal else "\n")


def _time(remaining: Remaining) -> str:
    if remaining.seconds is None:
        return ""
    if remaining.seconds == 0:
        return ""
    return f", {duration(remaining.seconds)} ({duration(remaining.low)} to {duration(remaining.high)})"
