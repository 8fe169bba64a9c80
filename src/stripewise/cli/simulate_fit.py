"""``stripewise simulate fit``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table as Grid

from stripewise.cli.options import JsonOption
from stripewise.cli.output import console, number, print_json
from stripewise.errors import UserError
from stripewise.evaluation.calibration import measured
from stripewise.model.table import read_table
from stripewise.simulate.fit import BANDWIDTHS, KEYS, Errors, Fit, fit, site_toml
from stripewise.spec.documents import parse_document, read_document
from stripewise.spec.site import load_site
from stripewise.spec.workload import Workload

_MIB = float(1 << 20)
_POOR = 0.5
"""Share of unseen configurations within a factor of 1.5, below which a site is not recommended."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fit")(fit_site)


def fit_site(
    table: Annotated[str, typer.Argument(help="A campaign's table (NAME.csv with NAME.toml).", metavar="TABLE")],
    site: Annotated[str, typer.Option(help="Site to start from, by name or .toml file.", metavar="NAME")],
    workload: Annotated[
        Path | None,
        typer.Option(help="A file whose workload table says what this one does not.", metavar="FILE.toml"),
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option(help="A key of the site to fit; repeatable. Default: bandwidths of node and OST.", metavar="KEY"),
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts that are predicted from the others in turn.", min=2)] = 5,
    seed: Annotated[int, typer.Option(help="Of the division into parts.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the calibrated site.", metavar="SITE.toml")] = None,
    json_output: JsonOption = False,
) -> None:
    """Calibrate a simulated site to your own campaign, and say how well it predicts rows that it has not seen."""
    start = load_site(site)
    data = measured(read_table(table), _read(workload) if workload is not None else Workload())
    made = fit(data, start, free=tuple(free or BANDWIDTHS), folds=folds, seed=seed)
    if out is not None:
        about = [
            f"Simulated site {start.name}, calibrated to {len(data.values)} configurations of table {data.name}.",
            f"{made.folds}-fold error on rows that the fit had not seen: {_told(made.held_out)}.",
        ]
        try:
            out.write_text(site_toml(made.site, about), "utf-8")
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}", "check the folder") from error
    if json_output:
        print_json(
            {
                "simulated": True,
                "site": start.name,
                "table": data.name,
                "fitted": made.values,
                "unseen": list(made.unseen),
                "before": asdict(made.before),
                "after": asdict(made.after),
                "held_out": asdict(made.held_out),
                "folds": made.folds,
                "bounds": made.bounds,
            }
        )
        return
    _show(made, data.name, out)


def _show(made: Fit, name: str, out: Path | None) -> None:
    console.print(f"simulated site {escape(made.site.name)}, calibrated to table {escape(name)}")
    for key, value in made.values.items():
        shown = number(value / _MIB, "MiB/s") if "bandwidth" in key else number(value)
        console.print(f"  {escape(key)} = {shown}")
    for key in made.unseen:
        console.print(f"  {escape(key)} left as it was: another bound was slower in every row")
    grid = Grid(box=None, pad_edge=False)
    for heading in ("error of the simulation", "configurations", "typical factor", "within 1.5", "r2 (log)"):
        grid.add_column(heading, justify="left" if heading.startswith("error") else "right")
    for title, errors in (
        ("before", made.before),
        ("on the rows fitted", made.after),
        (f"on held-out rows, {made.folds} folds", made.held_out),
    ):
        r2 = "-" if errors.r2_log is None else f"{errors.r2_log:.2f}"
        grid.add_row(title, str(errors.configurations), f"{errors.typical_factor:.2f}", f"{errors.within:.0%}", r2)
    console.print(grid)
    shares = ", ".join(f"{escape(bound)} {share:.0%}" for bound, share in made.bounds.items())
    console.print(f"what holds the configurations back on this site: {shares}")
    if made.held_out.within < _POOR:
        first = next(iter(made.bounds))
        keys = " ".join(f"--free {key}" for key in (*made.values, *KEYS[first]))
        console.print("it predicts poorly: plan nothing with it. Does --workload say what ran?")
        console.print(f"if it does, fit what moves {escape(first)} as well: {escape(keys)}")
    elif out is not None:
        console.print(f"use it: stripewise tune --runner sim:{escape(str(out))} EXPERIMENT.toml")


def _told(errors: Errors) -> str:
    return f"typically a factor of {errors.typical_factor:.2f}, {errors.within:.0%} within 1.5"


class _File(BaseModel):
    """A workload file, of which only the workload is read: what ``simulate run`` takes, or an experiment."""

    workload: Workload


def _read(path: Path) -> Workload:
    return parse_document(_File, read_document(path, "workload"), str(path)).workload
