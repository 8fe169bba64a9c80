"""``stripewise site profile``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.campaign_loop import changes, cost_lines
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
from stripewise.desk.cli.remote import desk_of
from stripewise.desk.cli.standard_input import refuse_input
from stripewise.desk.desk import Measuring
from stripewise.desk.measuring import has_ended, usual_journal
from stripewise.engine.campaign.book import collect
from stripewise.engine.campaign.checks import CampaignCost, check_limits, check_room, cost_of
from stripewise.engine.campaign.outcome import check_out, summary
from stripewise.engine.campaign.plan import CampaignPlan, Shard, parse_shard
from stripewise.engine.campaign.running import WHOLE, preview, write
from stripewise.errors import UserError
from stripewise.observe.objectives import parse_objective
from stripewise.requests.campaign import Campaign, campaign_text, load_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective


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
    part = parse_shard(shard) if shard is not None else None
    # Looked at before the first run: days of them are not to end in a name that is taken.
    out = check_out(out or Path(f"{asked.name}-table"))
    if merge:
        _merge(asked, merge, out, json_output)
        return
    points = Points(asked)
    where = journal or usual_journal(asked)
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
    desk = desk_of(None, server, json_output=json_output, yes=yes)
    if dry_run:
        _dry_run(points, part or WHOLE, where, json_output, here=not desk.shared)
        return
    _deliver(desk.measure(Measuring(campaign, changed, points, out, part, journal, retry)), json_output)


def _words(campaign: str, options: Mapping[str, object]) -> list[str]:
    """Write the campaign and the options that change it, for a job that starts in the same folder."""
    named = str(Path(campaign).absolute()) if campaign.endswith(".toml") else campaign
    return [named, *(word for name, value in options.items() if value is not None for word in (name, str(value)))]


def _whole_cost(points: Points) -> CampaignCost:
    cost = cost_of(points.campaign, CampaignPlan(points).known({}).runs)
    check_limits(points.campaign, cost)
    return cost


def _merge(asked: Campaign, folders: list[Path], out: Path, json_output: bool) -> None:
    found = collect(folders)
    for note in found.notes:
        remark(f"note: {note}")
    if found.campaign.name != asked.name:
        raise UserError(f"the journals are of campaign '{found.campaign.name}', not of '{asked.name}'", "name that one")
    points = Points(found.campaign)
    progress = CampaignPlan(points).known(found.runs)
    left = sum(not has_ended(found.runs, run) for run in progress.runs)
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
        points,
        progress.runs,
        found.runs,
        kind=kind,
        complete=progress.complete,
        table=table,
        shard=(1, 1),
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
