"""``stripewise site train`` and ``site validate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import (
    JsonOption,
    ServerOption,
    TableArgument,
    TableStackOption,
    check_place,
    pairs,
)
from stripewise.desk.cli.output import (
    Ticker,
    console,
    duration,
    escape,
    grid,
    number,
    print_json,
    print_rows,
    prose,
    remark,
)
from stripewise.desk.cli.terminal import desk_of
from stripewise.desk.desk import Training, Validating
from stripewise.errors import UserError
from stripewise.models.training import Learned
from stripewise.models.validation import HoldOut
from stripewise.output.markup import guess_units, list_changes, write_leaf
from stripewise.sizes import count_of

ModelOption = Annotated[str, typer.Option("--model", help="auto, linear, tree, forest, boosting, ann or another.")]
ModelOptionsOption = Annotated[
    list[str] | None,
    typer.Option("--model-option", help="An option of the model, NAME=VALUE; repeatable.", metavar="NAME=VALUE"),
]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0)]


def train(
    table: TableArgument,
    out: Annotated[Path, typer.Option(help="File for the model.", metavar="FILE")],
    model: ModelOption = "auto",
    model_option: ModelOptionsOption = None,
    seed: SeedOption = 0,
    explain: Annotated[bool, typer.Option("--explain", help="Print what matters, and the model's rules.")] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Replace the file's model only if the table's new rows make it no worse.")
    ] = False,
    stack: TableStackOption = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Train a performance model on a table."""
    options = pairs("--model-option", model_option, "trees=500")
    check_place("--out", out)
    if update and out.exists() and (model != "auto" or options):
        raise UserError("--update keeps the kind of model and its options", "leave out --model, or --update")
    training = Training(table, model, options, seed, out, stack or (), explain, update)
    name, learned = desk_of(None, server).train(training)
    if json_output:
        print_json(_document(learned, out))
        return
    if learned.update is not None:
        prose(f"{out}: {learned.update}")
    if learned.update is None or learned.update.replaced:
        rows = count_of(learned.rows, "row")
        prose(f"{learned.model.name} learned {rows} of {name} in {duration(learned.seconds)}: {out}")
    prose(f"how good it is: stripewise site validate {table} --model {learned.model.name} --leave-out contexts")
    prose(f"use it: stripewise prescribe {out} --workload FILE.toml, or --from LOG")
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
        "update": None if learned.update is None else vars(learned.update),
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
            prose(f"  {rule}")


_DEEPEST = 30
_STATICS = 8


def validate(
    table: TableArgument,
    model: ModelOption = "auto",
    model_option: ModelOptionsOption = None,
    folds: Annotated[
        int | None,
        typer.Option(help="Hold out each of K random parts (default 5); with --leave-out: K groups.", metavar="K"),
    ] = None,
    inverse: Annotated[int | None, typer.Option(help="Train on one of K random parts only.", metavar="K")] = None,
    leave: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            help="Hold out what shares a value of these columns; 'contexts' leaves one workload out.",
            metavar="COLUMN,...",
        ),
    ] = None,
    depths: Annotated[
        str | None,
        typer.Option(
            help="Also judge trees of these depths that name settings, as in 1-10, and print one.", metavar="A-B"
        ),
    ] = None,
    seed: SeedOption = 0,
    stack: TableStackOption = None,
    html: Annotated[
        Path | None, typer.Option("--report", help="Write a page with figures.", metavar="FILE.html")
    ] = None,
    server: ServerOption = None,
    json_output: JsonOption = False,
) -> None:
    """Say how well a model predicts and prescribes for what it has not seen."""
    check_place("--report", html)
    options = pairs("--model-option", model_option, "trees=500")
    columns = [name.strip() for name in (leave or "").split(",") if name.strip()]
    hold_out = HoldOut(folds, inverse, columns, _parse_depths(depths), seed)
    ticker = Ticker()
    asked = Validating(table, model, options, hold_out, stack or ())
    judged = desk_of(None, server).validate(asked, lambda done, of: ticker.count(done, of, "models"))
    ticker.close()
    if html is not None:
        from stripewise.output.html import save_text  # noqa: PLC0415  pages are slow to load
        from stripewise.output.model_pages import validation_page  # noqa: PLC0415

        told = validation_page(
            judged.found,
            judged.pairs,
            table=judged.table,
            description=judged.description,
            quantity=judged.quantity,
            unit=judged.unit,
        )
        save_text(html, told)
        remark(f"page: {html}")
    if json_output:
        print_json(judged.found)
        return
    _print(judged.found, judged.table, judged.unit)


def _parse_depths(text: str | None) -> list[int]:
    if text is None:
        return []
    low, dash, high = text.partition("-")
    try:
        first, last = int(low), int(high) if dash else int(low)
    except ValueError as error:
        raise UserError(f"--depths {text} is not a range", "write one as in 1-10") from error
    if not 1 <= first <= last <= _DEEPEST:
        raise UserError(f"--depths {text} is not a range within 1 to {_DEEPEST}", "write one as in 1-10")
    return list(range(first, last + 1))


def _print(found: Mapping[str, Any], table: str, unit: str) -> None:
    m = found["metrics"]
    prose(f"{found['model']}: {found['verdict']}", "bold")
    held, folds = count_of(found["rows"], "row"), count_of(found["folds"], "fold")
    prose(f"on {table}: {held}, {folds}, held out: {found['held_out']}")
    rows = grid("", ">")
    oracle = "" if m["oracle_accuracy"] is None else f"   (noise-free oracle {m['oracle_accuracy']:.2f}%)"
    rows.add_row("prediction accuracy", f"{m['prediction_accuracy']:.2f}%{oracle}")
    explained = "" if m["oracle_r2_log"] is None else f"   (noise-free oracle {m['oracle_r2_log']:.4f})"
    rows.add_row("R2 of the logarithm", f"{'-' if m['r2_log'] is None else format(m['r2_log'], '.4f')}{explained}")
    rows.add_row("mean absolute error", number(m["mae"], unit))
    rows.add_row("class error", f"{m['class_error']:.3f}")
    console.print(rows)
    for point in found["learning_curve"]:
        console.print(
            f"  {point['training_rows']} rows to learn from: accuracy {point['prediction_accuracy']:.2f}%, "
            f"mean absolute error {number(point['mae'], unit)}, class error {point['class_error']:.3f}"
        )
    if found["prescription"] is not None:
        _print_prescription(found["model"], found["prescription"], unit)
    for reason in found["skipped"]:
        console.print(f"not scored: {escape(reason)}")


def _print_prescription(model: str, judged: Mapping[str, Any], unit: str) -> None:
    headings = ("arithmetic", "harmonic", "worst", "best for", "worst for", "loss")
    others = [(model, judged)]
    if judged["oracle"] is not None:
        others.append(("an oracle of the true values", judged["oracle"]))
    others += [(f"tree of depth {depth}", quality) for depth, quality in judged["by_depth"].items()]
    rows = [(name, [*_quality(quality), "", "", ""]) for name, quality in others]
    shown = judged["static"][:_STATICS]
    shown += [static for static in judged["static"][_STATICS:] if static["default"]]
    for place, static in enumerate(shown):
        words = " ".join(list_changes(static["configuration"], units=guess_units(static["configuration"])))
        kind = "best static" if place == 0 else "static"
        label = f"{'default' if static['default'] else kind}: {words}"
        counts = (str(static["best"]), str(static["worst_of_all"]), number(static["loss"], unit))
        rows.append((label, [*_quality(static), *counts]))
    print_rows("choice for held-out workloads", headings, rows)
    prose(f"shares of the best, over {count_of(judged['workloads'], 'workload')} and measured configurations only")
    if judged["tree"]:
        console.print("a tree of all workloads, as deep as pays:")
    for leaf in judged["tree"]:
        prose(f"  {write_leaf(leaf)}")


def _quality(of: Mapping[str, float]) -> Iterator[str]:
    return (f"{of[name]:.1f}%" for name in ("arithmetic", "harmonic", "worst"))
