"""``stripewise site evaluate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.desk.cli.campaign_loop import changes
from stripewise.desk.cli.help import Commands
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
from stripewise.desk.cli.output import console, grid, number, print_json, say
from stripewise.desk.cli.remote import desk_of
from stripewise.desk.cli.standard_input import refuse_input
from stripewise.desk.desk import Evaluating
from stripewise.models.cases import LEAST_REPEATS
from stripewise.output.html import save_text
from stripewise.output.model_pages import evaluation_page, format_figure
from stripewise.requests.campaign import load_campaign
from stripewise.requests.campaign_points import Points


def register(app: Commands) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


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
    changed = changes(folder, runner, repeats, seed)
    asked = load_campaign(campaign, changed)
    if asked.program == "command" and asked.launches:
        refuse_input("a campaign")
    desk = desk_of(None, server, json_output=json_output, yes=yes)
    document = desk.evaluate(Evaluating(campaign, changed, Points(asked), model, journal, eager, retry))
    if html is not None:
        save_text(html, evaluation_page(document))
    if json_output:
        print_json(document)
        return
    _print(document)
    if html is not None:
        say(f"page      {html}")


def _print(document: Mapping[str, Any]) -> None:
    unit = document["objective"]["unit"]
    if document["simulated"]:
        console.print("simulated: figures are computed, not measured")
    for operation, found in document["operations"].items():
        say(
            f"{operation}: {found['improved']:,} of {found['cases']:,} cases improved "
            f"({found['improved_percent']:.1f}%), {found['not_improved']:,} not, {found['unchanged']:,} unchanged; "
            f"overall {format_figure(found['overall_gain_percent'], '+.1f')}%, "
            f"an oracle {format_figure(found['oracle_gain_percent'], '+.1f')}%"
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
            settings = " ".join(f"{name}={value}" for name, value in entry["settings"].items())
            say(
                f"prescribed {entry['selected']:,} times, improved {entry['improved']:,} "
                f"({entry['improved_percent']:.1f}%): {settings}"
            )
    if document["failed"]:
        console.print(f"{document['failed']:,} runs failed; {document['left_out']:,} cases have no result")
