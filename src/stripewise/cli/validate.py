"""``stripewise validate``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from stripewise.cli.options import JsonOption
from stripewise.cli.output import console, notes, number, print_json
from stripewise.cli.train import ModelOption, ModelOptionsOption, SeedOption, model_options
from stripewise.errors import UserError
from stripewise.evaluation.prescribing import Prescribing
from stripewise.evaluation.validation import Validation, cross_validate, inverse_validate, leave_out
from stripewise.model.table import Table, read_table

_FOLDS = 5
_DEEPEST = 30
_STATICS = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate")(validate)


def validate(
    table: Annotated[str, typer.Argument(help="Measured table (NAME.csv with NAME.toml).", metavar="TABLE")],
    model: ModelOption = "auto",
    model_option: ModelOptionsOption = None,
    folds: Annotated[
        int | None,
        typer.Option(help="Hold out each of K random parts (default 5); with --leave-out: K groups.", metavar="K"),
    ] = None,
    inverse: Annotated[int | None, typer.Option(help="Learn from one of K random parts only.", metavar="K")] = None,
    leave: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            help="Hold out what shares a value of these columns; 'contexts' leaves one workload out.",
            metavar="COLUMN,...",
        ),
    ] = None,
    depths: Annotated[
        str | None, typer.Option(help="Judge prescribing trees of these depths too, as in 1-10.", metavar="A-B")
    ] = None,
    seed: SeedOption = 0,
    json_output: JsonOption = False,
) -> None:
    """Say how well a model predicts, and prescribes for, what it has not seen."""
    if inverse is not None and (folds is not None or leave is not None):
        raise UserError("--inverse excludes --folds and --leave-out", "choose one")
    wanted = _depths(depths)
    if wanted and leave is None:
        raise UserError("--depths needs whole workloads to be held out", "add --leave-out contexts")
    options = model_options(model_option)
    measured = read_table(table)

    def progress(done: int, of: int) -> None:
        if notes.is_terminal:
            notes.print(f"{done} of {of} models", end="\r")

    if leave is not None:
        columns = [name.strip() for name in leave.split(",") if name.strip()]
        found = leave_out(measured, model, columns, options, folds=folds, depths=wanted, seed=seed, progress=progress)
    elif inverse is not None:
        found = inverse_validate(measured, model, options, folds=inverse, seed=seed, progress=progress)
    else:
        found = cross_validate(
            measured, model, options, folds=_FOLDS if folds is None else folds, seed=seed, progress=progress
        )
    if json_output:
        print_json(found.as_json())
        return
    _print(measured, found)


def _depths(text: str | None) -> list[int]:
    if text is None:
        return []
    low, dash, high = text.partition("-")
    try:
        first, last = int(low), int(high) if dash else int(low)
    except ValueError as error:
        raise UserError(f"--depths {text} is no range", "write one as in 1-10") from error
    if not 1 <= first <= last <= _DEEPEST:
        raise UserError(f"--depths {text} is no range within 1 to {_DEEPEST}", "write one as in 1-10")
    return list(range(first, last + 1))


def _print(table: Table, found: Validation) -> None:
    unit = table.objective.unit
    m = found.metrics
    console.print(
        f"{escape(found.model)} on {escape(table.name)}: {found.rows} rows, {found.folds} folds, "
        f"held out: {escape(found.how)}"
    )
    grid = Grid(box=None, pad_edge=False, show_header=False)
    grid.add_column()
    grid.add_column(justify="right")
    oracle = "" if found.oracle_accuracy is None else f"   (noise-free oracle {found.oracle_accuracy:.2f}%)"
    grid.add_row("prediction accuracy", f"{m.prediction_accuracy:.2f}%{oracle}")
    explained = "" if found.oracle_r2_log is None else f"   (noise-free oracle {found.oracle_r2_log:.4f})"
    grid.add_row("R2 of the logarithm", f"{'-' if m.r2_log is None else format(m.r2_log, '.4f')}{explained}")
    grid.add_row("mean absolute error", number(m.mae, unit))
    grid.add_row("class error", f"{m.class_error:.3f}")
    console.print(grid)
    for point in found.curve:
        console.print(
            f"  {point['training_rows']} rows to learn from: accuracy {point['prediction_accuracy']:.2f}%, "
            f"mean absolute error {number(point['mae'], unit)}, class error {point['class_error']:.3f}"
        )
    if found.prescription is not None:
        _print_prescription(found.model, found.prescription, unit)
    for reason in found.skipped:
        console.print(f"not scored: {escape(reason)}")


def _print_prescription(model: str, judged: Prescribing, unit: str) -> None:
    grid = Grid(box=None, pad_edge=False)
    headings = ("choice for held-out workloads", "arithmetic", "harmonic", "worst", "best for", "worst for", "loss")
    for heading in headings:
        grid.add_column(heading, justify="left" if heading == headings[0] else "right")
    q = judged.quality
    grid.add_row(escape(model), *(f"{v:.1f}%" for v in (q.arithmetic, q.harmonic, q.worst)), "", "", "")
    for depth, quality in judged.by_depth.items():
        row = (quality.arithmetic, quality.harmonic, quality.worst)
        grid.add_row(f"tree of depth {depth}", *(f"{v:.1f}%" for v in row), "", "", "")
    shown = judged.static[:_STATICS]
    shown += [static for static in judged.static[_STATICS:] if static.default]
    for place, static in enumerate(shown):
        words = " ".join(f"{name}={value}" for name, value in static.configuration.items())
        kind = "best static" if place == 0 else "static"
        label = f"{'default' if static.default else kind}: {words}"
        q = static.quality
        grid.add_row(
            escape(label), *(f"{v:.1f}%" for v in (q.arithmetic, q.harmonic, q.worst)),
            str(static.best), str(static.last), number(static.loss, unit),
        )  # fmt: skip
    console.print(grid)
    console.print(f"achieved over best, {judged.quality.workloads} workloads, measured configurations only")
