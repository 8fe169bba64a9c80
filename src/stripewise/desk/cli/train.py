"""``stripewise site train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.desk.cli import remote
from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import (
    BOTH,
    STACK_THERE,
    JsonOption,
    ServerOption,
    TableArgument,
    TableStackOption,
    check_place,
    pairs,
    table_with,
)
from stripewise.desk.cli.output import console, duration, grid, print_json, say
from stripewise.errors import UserError
from stripewise.models.registry import load_model
from stripewise.models.training import Learned, learn

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
    service = remote.server_of(None, server)
    if service is not None and stack:
        raise UserError(BOTH, STACK_THERE)
    if service is None:
        measured = table_with(table, stack)
        name, learned = measured.name, learn(measured, model, options, seed, out, explain=explain)
    else:
        name, learned = _learned_there(service, table, model, options, seed, out, explain=explain)
    if json_output:
        print_json(_document(learned, out))
        return
    what = f"{model} learned {learned.rows} rows of {name} in {duration(learned.seconds)}: {out}"
    say(what)
    say(f"how good it is: stripewise site validate {table} --model {model} --leave-out contexts")
    say(f"use it: stripewise prescribe {out} --workload FILE.toml, or --from LOG")
    if explain:
        _print_explanation(learned)


def _learned_there(
    service: str, table: str, model: str, options: Mapping[str, str], seed: int, out: Path, *, explain: bool
) -> tuple[str, Learned]:
    """Let a service learn: the model stays there under the name of its file, and is written here."""
    client = remote.connect(service)
    asked = {"options": dict(options), "seed": seed, "replace": True, "explain": explain}
    made = remote.wait(client, client.train(out.stem, remote.table_there(client, table), model, **asked))
    remote.fetch(client, f"/models/{made['model']}/file", out)
    return made["name"], Learned(load_model(out), made["rows"], made["seconds"], made["speed_rules"])


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
