"""``stripewise site calibrate``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from stripewise.desk.cli.options import JsonOption, check_place
from stripewise.desk.cli.output import console, grid, notes, number, overwritten, print_json, say
from stripewise.diagnose.causes.models import OVERLAP, Calibration, overlap
from stripewise.diagnose.causes.probe import calibrate
from stripewise.errors import UserError
from stripewise.output.html import save_text
from stripewise.ownership import take_from_others
from stripewise.sizes import format_size, parse_size

_LEAST = 16 << 20


def run_calibrate(
    folder: Annotated[Path, typer.Argument(help="A folder on the storage to be calibrated.", metavar="FOLDER")],
    out: Annotated[Path, typer.Option(help="The calibration to write.", metavar="FILE.json")] = Path(
        "calibration.json"
    ),
    size: Annotated[str, typer.Option(help="Size of the test file.")] = "64 MiB",
    repeats: Annotated[int, typer.Option(help="Operations of each series.", min=6)] = 12,
    seed: Annotated[int, typer.Option(help="Seed of random places.")] = 0,
    json_output: JsonOption = False,
) -> None:
    """Learn how long reads and writes take here from memory, cache and storage, to derive causes from time alone."""
    extent = parse_size(size)
    if extent < _LEAST:
        raise UserError(f"--size {size} is too small", f"give at least {format_size(_LEAST)}")
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder", "name one on the storage to be calibrated")
    check_place("--out", out)

    def progress(done: int, of: int) -> None:
        if notes.is_terminal:
            overwritten(f"{done} of {of} series")

    calibration = calibrate(folder, extent=extent, repeats=repeats, seed=seed, on_series=progress)
    save_text(out, calibration.text())
    take_from_others(out)
    if json_output:
        print_json({"file": str(out), **_document(calibration)})
        return
    console.print(_models(calibration))
    for line in _list_overlaps(calibration):
        say(line)
    say(f"written: {out}; use it: stripewise site causes TIMINGS.csv --calibration {out}")


def _document(calibration: Calibration) -> dict[str, Any]:
    return {
        "notes": dict(calibration.notes),
        "models": {way: {name: vars(model) for name, model in of.items()} for way, of in calibration.models.items()},
    }


def _models(calibration: Calibration) -> Table:
    table = grid("operation", "condition", ">constant", ">per MiB", ">spread", ">sizes", ">operations")
    for way, of in calibration.models.items():
        for name, model in of.items():
            table.add_row(
                way,
                name,
                number(model.constant * 1e6, "us", 3),
                number(model.slope * 2**20 * 1e6, "us", 3),
                f"x{math.exp(model.spread):.2f}",
                f"{format_size(model.smallest)} to {format_size(model.largest)}",
                str(model.count),
            )
    return table


def _list_overlaps(calibration: Calibration) -> list[str]:
    """Say which conditions cannot be told apart at which size."""
    found = []
    for way, of in calibration.models.items():
        names = list(of)
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                sizes = [size for size in (4 << 10, 64 << 10, 1 << 20) if overlap(of[one], of[other], size) > OVERLAP]
                if sizes:
                    shown = ", ".join(format_size(size) for size in sizes)
                    found.append(f"{way}s from {one} and {other} overlap by more than 5% at {shown}: undecided there")
    return found
