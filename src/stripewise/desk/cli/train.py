"""``stripewise site train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import (
    JsonOption,
    ServerOption,
    TableArgument,
    TableStackOption,
    check_place,
    pairs,
)
from stripewise.desk.cli.output import console, duration, grid, print_json, say
from stripewise.desk.cli.remote import desk_of
from stripewise.desk.desk import Training
from stripewise.models.training import Learned

ModelOption = Annotated[str, typer.Option("--model", help="auto, linear, tree, forest, boosting, ann or another.")]
ModelOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--model-option", help="An option of the model, NAME=VALUE; repeatable.", metavar="NAME=VALUE"),
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def register(app: Commands) -> None:
    """Add the command."""
    app.command("train")(train)


def train(
    table: TableArgument,
    out: Annotated[Path, typer.Option(help="File for the model.", metavar="FILE")],
    model: ModelOption = "auto",
    model_option: ModelOptionsOption = None,
    seed: SeedOption = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Print what matters, and the model's rules.")] = False,
    stack: TableStackOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Train a performance model on a table."""
    options = pairs("--model-option", model_option, "trees=500")
    check_place("--out", out)
    training = Training(table, model, options, seed, out, stack or (), explain)
    name, learned = desk_of(None, server).train(training)
    if json_output:
        print_json(_document(learned, out))
        return
    what = f"{model} learned {learned.rows} rows of {name} in {duration(learned.seconds)}: {out}"
    say(what)
    say(f"how good it is: stripewise site validate {table} --model {model} --leave-out contexts")
    say(f"use it: stripewise prescribe {out} --workload FILE.toml, or --from LOG")
    if explain:
        _print_explanation(learned)


def _document(learned: Learned, out: Path) -> dict[str, Any]:
    model = learned.model
    explanation = model.explain()
    objective = model.domain.objective
    return {
        "model": model.name,
        "file": str(out),
        "rows": learned.rows,
        "seconds": learned.seconds,
        "objective": objective.as_json(),
        "noise": model.noise,
        "features": model.encoder.names,
        "importance": explanation.importance,
        "rules": list(explanation.rules),
        "speed_rules": learned.speed_rules,
    }


def _print_explanation(learned: Learned) -> None:
    explanation = learned.model.explain()
    shares = grid("", ">")
    for name, share in explanation.importance.items():
        shares.add_row(escape(name), f"{share:.0%}")
    console.print("what matters:")
    console.print(shares)
    for title, rules in (("the model:", explanation.rules), ("slow, average, fast:", learned.speed_rules)):
        if rules:
            console.print(title)
        for rule in rules:
            console.print(f"  {escape(rule)}")
