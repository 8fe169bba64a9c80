"""``stripewise train``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table as Grid

from stripewise.cli.options import JsonOption
from stripewise.cli.output import console, duration, print_json
from stripewise.errors import UserError
from stripewise.model.base import PerformanceModel
from stripewise.model.registry import make_model
from stripewise.model.speed import SpeedClassifier
from stripewise.model.table import read_table

ModelOption = Annotated[str, typer.Option("--model", help="auto, linear, tree, forest, boosting, ann or another.")]
ModelOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--model-option", help="An option of the model, NAME=VALUE; repeatable.", metavar="NAME=VALUE"),
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train")(train)


def train(
    table: Annotated[str, typer.Argument(help="Measured table (NAME.csv with NAME.toml).", metavar="TABLE")],
    out: Annotated[Path, typer.Option(help="File for the model.", metavar="FILE")],
    model: ModelOption = "auto",
    model_option: ModelOptionsOption = None,
    seed: SeedOption = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Print what matters, and the model's rules.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Learn a performance model from a table."""
    options = model_options(model_option)
    if not out.absolute().parent.is_dir():
        raise UserError(f"there is no folder {out.absolute().parent} for the model", "make it first")
    measured = read_table(table)
    start = time.perf_counter()
    fitted = make_model(model, options).fit(measured, seed)
    seconds = time.perf_counter() - start
    fitted.save(out)
    speeds = SpeedClassifier.fit(measured, seed=seed) if explain else None
    if json_output:
        print_json(_document(fitted, len(measured), seconds, out, speeds))
        return
    what = f"{model} learned {len(measured)} rows of {measured.name} in {duration(seconds)}: {out}"
    console.print(escape(what))
    if speeds is not None:
        _print_explanation(fitted, speeds)


def model_options(given: list[str] | None) -> Mapping[str, str]:
    """Read ``NAME=VALUE`` pairs.

    Raises
    ------
    UserError
        If one has no equals sign.
    """
    found = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--model-option {text} has no '='", "write NAME=VALUE, as in trees=500")
        found[name.strip()] = value.strip()
    return found


def _document(
    model: PerformanceModel, rows: int, seconds: float, out: Path, speeds: SpeedClassifier | None
) -> dict[str, Any]:
    explanation = model.explain()
    objective = model.domain.objective
    return {
        "model": model.name,
        "file": str(out),
        "rows": rows,
        "seconds": seconds,
        "objective": {"name": objective.name, "direction": objective.direction, "unit": objective.unit},
        "noise": model.noise,
        "features": model.encoder.names,
        "importance": explanation.importance,
        "rules": list(explanation.rules),
        "speed_rules": [] if speeds is None else speeds.rules(),
    }


def _print_explanation(model: PerformanceModel, speeds: SpeedClassifier) -> None:
    explanation = model.explain()
    grid = Grid(box=None, pad_edge=False, show_header=False)
    grid.add_column()
    grid.add_column(justify="right")
    for name, share in explanation.importance.items():
        grid.add_row(escape(name), f"{share:.0%}")
    console.print("what matters:")
    console.print(grid)
    for title, rules in (("the model:", explanation.rules), ("slow, average, fast:", speeds.rules())):
        if rules:
            console.print(title)
        for rule in rules:
            console.print(f"  {escape(rule)}")
