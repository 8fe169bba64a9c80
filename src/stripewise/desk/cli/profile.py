"""``stripewise site profile``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli import remote
from stripewise.desk.cli.campaign_loop import Display, carried, changes, check_agreed, cost_lines, for_service
from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import (
    DesignSeedOption,
    JsonOption,
    KeptOption,
    RetryOption,
    RunnerOption,
    ServerOption,
    YesOption,
)
from stripewise.desk.cli.output import console, duration, notes, number, print_json, remark, say
from stripewise.desk.cli.profile_array import submit_array
from stripewise.desk.cli.standard_input import refuse_input
from stripewise.engine.campaign.book import collect
from stripewise.engine.campaign.checks import CampaignCost, check_limits, check_room, cost_of
from stripewise.engine.campaign.outcome import check_out, summary
from stripewise.engine.campaign.plan import CampaignPlan, PlannedPoint, Shard, of_shard, parse_shard
from stripewise.engine.campaign.running import WHOLE, preview, write
from stripewise.engine.folders import state_folder
from stripewise.errors import UserError
from stripewise.observe.objectives import parse_objective
from stripewise.requests.campaign import Campaign, campaign_text, load_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from stripewise.trial import Run


def register(app: Commands) -> None:
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
        typer.Option(help="Folder for the benchmark's file, on the file system to be measured.", metavar="PATH"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The table to write (NAME.csv and NAME.toml); by default CAMPAIGN-table.", metavar="TABLE"),
    ] = None,
    runner: RunnerOption = None,
    repeats: Annotated[int | None, typer.Option(help="Runs of each combination.", min=1)] = None,
    seed: DesignSeedOption = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Make only the i-th of n parts; the last to end, or --merge, writes the table.", metavar="i/n"
        ),
    ] = None,
    journal: KeptOption = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Start nothing: write the table from this journal; repeatable.", metavar="FOLDER"),
    ] = None,
    array: Annotated[
        int | None, typer.Option(help="Submit n shards as a Slurm job array; the last to end writes the table.", min=1)
    ] = None,
    at_once: Annotated[
        int,
        typer.Option(help="Shards of the array at the same time; if more than one, they disturb each other.", min=1),
    ] = 1,
    directive: Annotated[
        list[str] | None,
        typer.Option(help="An option for sbatch, such as --time=2:00:00, for --array; repeatable.", metavar="OPTION"),
    ] = None,
    yes: YesOption = False,
    retry: RetryOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the design and its cost; start nothing.")] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Print the campaign file, so that you can copy and change it.")
    ] = False,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Measure a site: run a campaign of benchmarks and write its table.

    After an interruption, the same command continues where it stopped.
    """
    if show:
        sys.stdout.write(campaign_text(campaign)[0])
        return
    changed = changes(folder, runner, repeats, seed)
    asked = load_campaign(campaign, changed)
    if asked.program == "command" and asked.launches:
        refuse_input("a campaign")
    part = parse_shard(shard) if shard is not None else WHOLE
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
        words = _words(campaign, {"--folder": dict(changed).get("files.folder"), "--repeats": repeats, "--seed": seed})
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
    service = remote.server_of(None, server)
    if dry_run:
        _dry_run(points, part, where, json_output, here=service is None)
        return
    if service is not None:
        given = {"--shard": shard, "--journal": journal}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise UserError(f"{wrong[0]} means nothing to a service", "leave it out, or --server")
        _measured_there(service, campaign, points, changed, out, json_output, retry=retry)
        return
    # Simulated and replayed runs cost nothing to repeat: they are kept in memory, unless their shards are to be merged.
    check_agreed(asked, cost_of(asked, of_shard(preview(points)[1], part)), yes, json_output)
    kept = where if asked.launches or shard is not None or journal is not None else None
    done = carried(points, where, kept, part=part, retry=retry)
    results, seen = done.runs, {part[0]}
    if kept is not None and part[1] > 1:
        found = collect([kept])
        results, seen = dict(found.runs), set(found.seen)
    whole = len(seen) == part[1] and CampaignPlan(points).known(results)
    table = None
    if whole and whole.complete and all(_ended(results, run) for run in whole.runs):
        table = write(points, whole, results, done.bench.objective(points.all[0]), done.bench.kind, out)
    document = summary(
        asked,
        of_shard(done.progress.runs, part),
        results,
        kind=done.bench.kind,
        complete=done.progress.complete,
        table=table,
        shard=part,
        left_out=points.left_out,
    )
    _deliver(document, json_output)


def _measured_there(
    service: str,
    campaign: str,
    points: Points,
    changed: list[tuple[str, Any]],
    out: Path,
    json_output: bool,
    *,
    retry: bool,
) -> None:
    _, runs = preview(points)
    asked = points.campaign
    if asked.runner.startswith("sim:"):
        notes.print("simulated: nothing is launched, figures are computed")
    for line in cost_lines(asked, cost_of(asked, runs), points.left_out):
        remark(line)
    display = Display()
    text, names = campaign_text(campaign)[0], for_service(changed)
    try:
        document = remote.profile(service, text, names, len(runs), out, display.show, retry=retry)
    finally:
        display.close()
    _deliver(document, json_output)


def _words(campaign: str, options: Mapping[str, object]) -> list[str]:
    """Write the campaign and the options that change it, for a job that starts in the same folder."""
    named = str(Path(campaign).absolute()) if campaign.endswith(".toml") else campaign
    return [named, *(word for name, value in options.items() if value is not None for word in (name, str(value)))]


def _whole_cost(points: Points) -> CampaignCost:
    cost = cost_of(points.campaign, CampaignPlan(points).known({}).runs)
    check_limits(points.campaign, cost)
    return cost


def _ended(results: Mapping[int, Run], run: PlannedPoint) -> bool:
    found = results.get(run.number)
    return found is not None and found.state.ended


def _merge(asked: Campaign, folders: list[Path], out: Path, json_output: bool) -> None:
    found = collect(folders)
    for note in found.notes:
        remark(f"note: {note}")
    if found.campaign.name != asked.name:
        raise UserError(f"the journals are of campaign '{found.campaign.name}', not of '{asked.name}'", "name that one")
    points = Points(found.campaign)
    progress = CampaignPlan(points).known(found.runs)
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
    table = write(points, progress, found.runs, objective, kind, out)
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
    return parse_objective(campaign.objective, campaign.direction, campaign.unit)


def _dry_run(points: Points, shard: Shard, where: Path, json_output: bool, *, here: bool) -> None:
    campaign = points.campaign
    document, runs = preview(points, shard)
    cost = cost_of(campaign, runs)
    if campaign.launches and campaign.files.folder and here:
        check_room(campaign, cost, where)
    if json_output:
        print_json(document)
        return
    for operation in campaign.operations:
        console.print(f"{operation}: {len(points.of(operation)):,} combinations are possible")
    for line in cost_lines(campaign, cost, points.left_out, more=not document["complete"]):
        say(line)
    for run in runs[:3]:
        say(f"first     {run.point.operation} {run.point.values.describe()}")


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
        say(f"failed    {count} times: {reason}")
    if document["table"] is not None:
        say(f"table     {document['table']}")
        say(f"look at it: stripewise site summarize {document['table']}")
        say(f"a model of it: stripewise site train {document['table']} --out site.model")
    else:
        index, count = document["shard"]
        console.print(f"shard {index} of {count} has ended; others have not: --merge puts their journals together")
