"""``stripewise evaluate``."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table as Grid

from stripewise.cli.options import JsonOption
from stripewise.cli.output import console, notes, number, print_json
from stripewise.cli.profile import _Display
from stripewise.cli.tune import _owner, _terminated_as_interrupted
from stripewise.errors import UserError
from stripewise.evaluation.cases import LEAST_REPEATS, CasePoints, cases_campaign, make_cases
from stripewise.evaluation.prescribed import evaluation, judge, pairs
from stripewise.model.registry import load_model
from stripewise.profiling.book import Book
from stripewise.profiling.designs import first_batch
from stripewise.profiling.plan import Plan, value_of
from stripewise.profiling.session import Paused, Session
from stripewise.report.evaluated import evaluation_page
from stripewise.report.html import write_whole
from stripewise.runner.benchmark import Bench
from stripewise.spec.campaign import load_campaign
from stripewise.spec.campaign_points import Points
from stripewise.spec.configuration import Configuration
from stripewise.spec.trial import State
from stripewise.tuning.folders import state_folder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate")(evaluate)


def evaluate(
    campaign: Annotated[
        str, typer.Argument(help="A campaign whose points are the default test cases.", metavar="CAMPAIGN.toml")
    ],
    model: Annotated[str, typer.Option(help="A model that train has written.", metavar="FILE")],
    folder: Annotated[str | None, typer.Option(help="Where the benchmark's file lies.", metavar="PATH")] = None,
    runner: Annotated[str | None, typer.Option(help="local, sim:NAME-or-FILE, or replay:TABLE.")] = None,
    repeats: Annotated[int | None, typer.Option(help=f"Runs of each point, {LEAST_REPEATS} or more.", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="Of the design and the order of runs.", min=0)] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="Folder in which results are kept; the same command goes on from it.", metavar="FOLDER"),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page.", metavar="FILE.html")] = None,
    eager: Annotated[
        bool, typer.Option("--eager", help="Take the best prediction even where its gain is within its uncertainty.")
    ] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Make runs that failed once more.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Compare default test cases with their prescribed settings, measured, beside an oracle.

    Interrupted, it goes on where it was when the same command is given again.
    """
    if html is not None and not html.absolute().parent.is_dir():
        raise UserError(f"--html: the folder {html.absolute().parent} does not exist", "create it first")
    given = {
        "files.folder": folder and str(Path(folder).absolute()),
        "runner": runner,
        "repeats": repeats,
        "seed": seed,
    }
    asked = load_campaign(campaign, [(key, value) for key, value in given.items() if value is not None])
    loaded = load_model(model)
    digest = hashlib.sha256(Path(model).read_bytes()).hexdigest()
    own = cases_campaign(asked, loaded, f"{'e' if eager else 'c'}{digest}")
    begun = time.perf_counter()
    cases = make_cases(Points(own), first_batch(Points(asked)), loaded, eager=eager)
    decided = time.perf_counter() - begun
    points = CasePoints(own, cases)
    changed = sum(case.changed for case in cases)
    notes.print(
        f"cases     {len(cases):,}, {changed:,} of them with other settings prescribed; {len(points.all):,} points"
    )
    where = journal or state_folder() / "campaigns" / f"{own.name}-{own.digest}"
    kept = where if own.runner == "local" or journal is not None else None
    bench = Bench(own, points, where / "runs", dict(os.environ))
    book = Book(own, (1, 1), kept, _owner())
    display = _Display(kept is not None)
    try:
        with _terminated_as_interrupted():
            Session(points, bench, book, (1, 1), where / "runs", display, retry=retry).run()
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
    values, failed = _values(Plan(points).known(book.runs).runs, book.runs)
    objective = bench.objective(points.all[0])
    judged = judge(cases, values, objective, own)
    document = {
        "campaign": asked.name,
        "model": {"name": loaded.name, "table": loaded.domain.schema.name, "rows": loaded.domain.rows},
        "simulated": bench.simulated,
        "kind": bench.kind,
        "eager": eager,
        "objective": {"name": asked.objective, "direction": objective.direction, "unit": objective.unit},
        "repeats": own.repeats,
        "cases": len(cases),
        "points": len(points.all),
        "failed": failed,
        "left_out": len(cases) - len(judged),
        "decision_seconds": decided,
        "operations": evaluation(judged, objective, own),
        "pairs": pairs(judged),
    }
    if html is not None:
        write_whole(html, evaluation_page(document))
    if json_output:
        print_json(document)
        return
    _print(document)
    if html is not None:
        console.print(escape(f"page      {html}"))


def _values(planned: Any, results: Mapping[int, Any]) -> tuple[dict[tuple[str, Configuration], list[float]], int]:
    """Values of each point in the order of its repeats, and how many runs failed."""
    found: dict[tuple[str, Configuration], list[float]] = {}
    failed = 0
    for run in sorted(planned, key=lambda entry: (entry.trial, entry.repeat)):
        result = value_of(results, run.number)
        if result is None or result.state is not State.FINISHED or result.value is None:
            failed += 1
            continue
        found.setdefault((run.point.operation, run.point.values), []).append(float(result.value))
    return found, failed


def _print(document: Mapping[str, Any]) -> None:
    unit = document["objective"]["unit"]
    if document["simulated"]:
        console.print("simulated: figures are computed, not measured")
    for operation, found in document["operations"].items():
        console.print(
            escape(
                f"{operation}: {found['improved']:,} of {found['cases']:,} cases improved "
                f"({found['improved_percent']:.1f}%), "
                f"{found['not_improved']:,} not, {found['unchanged']:,} unchanged; overall "
                f"{found['overall_gain_percent']:+.1f}%, an oracle {found['oracle_gain_percent']:+.1f}%"
            )
        )
        grid = Grid(box=None, pad_edge=False)
        for heading in ("", "default", "prescribed", "oracle"):
            grid.add_column(heading, justify="left" if not heading else "right")
        for name in found["default"]:
            row = (
                number(found[which][name], unit if name != "variance" else "")
                for which in ("default", "tuned", "oracle")
            )
            grid.add_row(name.replace("_", " "), *(escape(cell) for cell in row))
        console.print(grid)
        for entry in found["common"][:5]:
            settings = " ".join(f"{name}={value}" for name, value in entry["settings"].items())
            console.print(
                escape(
                    f"prescribed {entry['selected']:,} times, improved {entry['improved']:,} "
                    f"({entry['improved_percent']:.1f}%): {settings}"
                )
            )
    if document["failed"]:
        console.print(f"{document['failed']:,} runs failed; {document['left_out']:,} cases have no result")
