"""``stripewise site profile``, also as a job array of shards, and ``site evaluate``."""

from __future__ import annotations

import getpass
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.campaign_progress import cost_lines, list_changes
from stripewise.desk.cli.options import (
    DesignSeedOption,
    JsonOption,
    KeptOption,
    RetryOption,
    RunnerOption,
    ServerOption,
    YesOption,
    check_place,
)
from stripewise.desk.cli.output import (
    ask,
    console,
    duration,
    escape,
    grid,
    notes,
    number,
    print_json,
    prose,
    remark,
    say,
)
from stripewise.desk.cli.standard_input import refuse_input
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.desk import Measuring
from stripewise.desk.measuring import has_ended, usual_journal
from stripewise.engine.campaign.array import Array, submit
from stripewise.engine.campaign.book import collect
from stripewise.engine.campaign.checks import check_limits, cost_of
from stripewise.engine.campaign.outcome import check_out, summary
from stripewise.engine.campaign.plan import CampaignPlan, PlannedPoint, parse_shard
from stripewise.engine.campaign.running import write
from stripewise.engine.consent import check_cost
from stripewise.errors import UserError
from stripewise.interpreter import python
from stripewise.models.cases import LEAST_REPEATS
from stripewise.observe.objectives import parse_objective
from stripewise.output import markup
from stripewise.output.html import save_text
from stripewise.output.model_pages import evaluation_page
from stripewise.ownership import make_own_folder, written_whole
from stripewise.requests.campaign import Campaign, campaign_text, load_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.policy import load_policy
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import arrays_of
from stripewise.sizes import count_of


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
    changed = list_changes(folder, runner, repeats, seed)
    asked = load_campaign(campaign, changed)
    if asked.program == "command" and asked.launches:
        refuse_input("a campaign")
    part = parse_shard(shard) if shard is not None else None
    # Looked at before the first run: days of them are not to end in a name that is taken.
    out = check_out(out or Path(f"{asked.name}-table"))
    for mode, given in (("--array", array is not None), ("--merge", bool(merge))):
        if given and server is not None:
            raise UserError(
                f"{mode} works on this machine alone, and --server asks a service",
                "leave --server out, and unset STRIPEWISE_SERVER where that is set",
            )
    if merge:
        _merge(asked, merge, out, json_output)
        return
    points = Points(asked)
    measuring = Measuring(campaign, changed, points, out, part, journal, retry)
    if array is not None:
        if shard is not None:
            raise UserError("--array makes all shards, and --shard one", "give one of them")
        wanted = _Array(array, at_once, tuple(directive or ()))
        _submit_array(measuring, out, wanted, yes=yes, dry_run=dry_run, json_output=json_output)
        return
    desk = desk_of(None, server, json_output=json_output, yes=yes)
    if dry_run:
        _print_foreseen(points, *desk.foresee(measuring), json_output)
        return
    _deliver(desk.measure(measuring), json_output)


@dataclass(frozen=True)
class _Array:
    """How a campaign's shards become a job array: how many, how many at a time, with which options of sbatch."""

    shards: int
    at_once: int
    directives: tuple[str, ...]


def _submit_array(asked: Measuring, out: Path, wanted: _Array, *, yes: bool, dry_run: bool, json_output: bool) -> None:
    """Write the script of a job array, and submit it once its cost is agreed to."""
    points, where = asked.points, asked.journal or usual_journal(asked.points.campaign)
    cost = cost_of(points.campaign, CampaignPlan(points).known({}).runs)
    check_limits(points.campaign, cost)
    campaign, policy = points.campaign, load_policy()
    if campaign.runner != "local" or not campaign.files.folder:
        raise UserError(
            "a job array measures a real file system with runner = 'local' in each job",
            "name its folder with --folder, and a launcher as 'srun -N {nodes} -n {processes}' in the campaign",
        )
    if campaign.design.kind == "sequential":
        raise UserError("a sequential design cannot be cut into shards", "each choice needs all results before")
    # Beside the journal: its folder holds nothing else.
    beside = where.absolute().with_name(f"{where.name}-array")
    queue = JobQueue(campaign.batch, beside, os.environ)
    number, why = arrays_of(queue.scheduler).allowed(queue.call, getpass.getuser(), min(wanted.shards, cost.runs))
    if why:
        remark(f"note: {why}")
    most = policy.limits.jobs or wanted.at_once
    array = Array(
        name=campaign.name,
        command=(
            *python("-m", "stripewise", "site", "profile", *_list_words(asked)),
            *("--journal", str(where.absolute()), "--out", str(out.absolute())),
        ),
        shards=number,
        at_once=min(wanted.at_once, most),
        nodes=max(point.workload.nodes or 1 for point in points.all),
        processes_per_node=max(point.workload.processes_per_node or 1 for point in points.all),
        logs=beside,
        directives=wanted.directives,
    )
    text = array.script(queue.scheduler)
    # All nodes of a job are charged for, also while a run uses some of them only.
    worst = {"node_hours": array.nodes * cost.runs * campaign.timeout / 3600, "bytes": float(cost.moved)}
    document = {
        "campaign": campaign.name,
        "shards": number,
        "at_once": array.at_once,
        "nodes": array.nodes,
        "runs": cost.runs,
        "worst_node_hours": worst["node_hours"],
        "bytes": cost.moved,
        "script": str(beside / "array.sbatch"),
        "job": None,
    }
    notes.print(
        f"array     {count_of(number, 'shard')}, {array.at_once} at a time, {count_of(array.nodes, 'node')} each"
    )
    if dry_run:
        if json_output:
            print_json({**document, "text": text})
        else:
            sys.stdout.write(text)
        return
    check_cost(worst, policy, None, lambda question: yes or ask(question, json_output))
    make_own_folder(array.logs, "the folder of the array", "choose another --journal")
    path = beside / "array.sbatch"
    with written_whole(path) as whole:
        whole.write_text(text, "utf-8")
    document["job"] = submit(path, queue.scheduler, queue.call)
    if json_output:
        print_json(document)
        return
    say(f"submitted as job {document['job']}: {path}")
    again = f"{queue.scheduler.programs[0]} {path}"
    say(f"the last shard to end writes {out}; what is left after a failure: {again}")


def _list_words(asked: Measuring) -> list[str]:
    """Write the campaign and the options that change it, for a job that starts in the same folder."""
    named = str(Path(asked.campaign).absolute()) if asked.campaign.endswith(".toml") else asked.campaign
    options = (word for key, value in asked.changed for word in (f"--{key.rpartition('.')[2]}", str(value)))
    return [named, *options, *(["--retry"] if asked.retry else [])]


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
    objective = parse_objective(found.campaign.objective, found.campaign.direction, found.campaign.unit)
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


def _print_foreseen(points: Points, document: dict[str, Any], runs: Sequence[PlannedPoint], json_output: bool) -> None:
    if json_output:
        print_json(document)
        return
    campaign = points.campaign
    for operation in campaign.operations:
        console.print(
            f"{operation}: {count_of(len(points.of(operation)), 'combination is', 'combinations are')} possible"
        )
    for line in cost_lines(campaign, cost_of(campaign, runs), points.left_out, more=not document["complete"]):
        prose(line)
    for run in runs[:3]:
        values = run.point.values
        words = markup.list_changes(values, units=markup.guess_units(values))
        prose(f"first     {run.point.operation} {' '.join(words)}")


def _deliver(document: dict[str, Any], json_output: bool) -> None:
    if json_output:
        print_json(document)
        return
    runs = document["runs"]
    simulated = "simulated " if document["simulated"] else ""
    line = (
        f"{runs['finished']:,} of {runs['planned']:,} {simulated}runs of "
        f"{count_of(document['configurations'], 'combination')}"
    )
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


def evaluate(
    campaign: Annotated[
        str, typer.Argument(help="A campaign whose points are the default test cases.", metavar="CAMPAIGN.toml")
    ],
    model: Annotated[str, typer.Option(help="A model written by train.", metavar="FILE")],
    folder: Annotated[str | None, typer.Option(help="Folder for the benchmark's file.", metavar="PATH")] = None,
    runner: RunnerOption = None,
    repeats: Annotated[int | None, typer.Option(help=f"Runs of each point, {LEAST_REPEATS} or more.", min=1)] = None,
    seed: DesignSeedOption = None,
    journal: KeptOption = None,
    html: Annotated[Path | None, typer.Option("--report", help="Write a page.", metavar="FILE.html")] = None,
    eager: Annotated[
        bool, typer.Option("--eager", help="Take the best prediction even if its gain is within its uncertainty.")
    ] = False,
    yes: YesOption = False,
    retry: RetryOption = False,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compare default test cases with their prescribed settings, measured, beside an oracle.

    After an interruption, the same command continues where it stopped.
    """
    check_place("--report", html)
    changed = list_changes(folder, runner, repeats, seed)
    asked = load_campaign(campaign, changed)
    if asked.program == "command" and asked.launches:
        refuse_input("a campaign")
    desk = desk_of(None, server, json_output=json_output, yes=yes)
    document = desk.evaluate(Measuring(campaign, changed, Points(asked), None, None, journal, retry), model, eager)
    if html is not None:
        save_text(html, evaluation_page(document))
    if json_output:
        print_json(document)
        return
    _print_evaluated(document)
    if html is not None:
        say(f"page      {html}")


def _is_known(percent: float | None) -> bool:
    """Whether a gain is known and finite: a default of zero leaves none."""
    return percent is not None and math.isfinite(percent)


def _print_evaluated(document: Mapping[str, Any]) -> None:
    unit = document["objective"]["unit"]
    for operation, found in document["operations"].items():
        overall, oracle = found["overall_gain_percent"], found["oracle_gain_percent"]
        gain = f"the prescribed settings bring {overall:+.1f}%" if _is_known(overall) else "no gain can be stated"
        best = f", the best measured ones {oracle:+.1f}%" if _is_known(oracle) else ""
        prose(f"{operation}: {gain}{best}; {found['improved']:,} of {found['cases']:,} cases improved", "bold")
    if document["simulated"]:
        console.print("simulated: figures are computed, not measured")
    for operation, found in document["operations"].items():
        prose(
            f"{operation}: {found['improved_percent']:.1f}% of the cases improved, "
            f"{count_of(found['not_improved'], 'case')} did not, {found['unchanged']:,} stayed unchanged"
        )
        table = grid("", ">default", ">prescribed", ">oracle")
        for name in found["default"]:
            row = (
                number(found[which][name], unit if name != "variance" else "")
                for which in ("default", "tuned", "oracle")
            )
            table.add_row(name.replace("_", " "), *(escape(cell) for cell in row))
        console.print(table)
        for entry in found["common"][:5]:
            settings = " ".join(markup.list_changes(entry["settings"], units=markup.guess_units(entry["settings"])))
            prose(
                f"prescribed for {count_of(entry['selected'], 'case')}, improved {entry['improved']:,} "
                f"({entry['improved_percent']:.1f}%): {settings}"
            )
    if document["failed"]:
        console.print(
            f"{count_of(document['failed'], 'run')} failed; "
            f"{count_of(document['left_out'], 'case has', 'cases have')} no result"
        )
