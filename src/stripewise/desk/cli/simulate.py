"""``stripewise lab simulate``: runs on a simulated cluster, and what binds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import BaseModel

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.options import JsonOption
from stripewise.desk.cli.output import console, escape, grid, number, print_json, print_rows, write_text
from stripewise.documents import parse_document, read_document
from stripewise.lab.engine import BOUNDS, SimulatedOutcome
from stripewise.lab.fit import BANDWIDTHS, KEYS, Errors, Fit, fit, read_measured, site_toml
from stripewise.lab.request import SimulationRequest, load_request, make_readable
from stripewise.lab.site import load_site
from stripewise.models.table import read_table

_SHOWN = 24
_MEANING = {
    "client": "nodes and processes",
    "rpc": "windows and waits of requests",
    "oss": "servers",
    "ost": "the fullest OST",
    "locks": "extent locks passing between clients",
    "rounds": "two-phase exchange",
    "cache": "memory of clients",
    "metadata": "open and close; adds to the others",
}


def run_simulation(
    site: Annotated[str, typer.Argument(help="Site by name or .toml file.", metavar="SITE")],
    workload: Annotated[
        Path, typer.Argument(help="Workload, access and settings (TOML), or a record.", metavar="WORKLOAD.toml")
    ],
    explain: Annotated[bool, typer.Option("--explain", help="Say what bounds each run, and by how much.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Simulate a workload or a recorded program on a cluster, without noise; lists of values make a sweep."""
    place = load_site(site)
    request = load_request(workload)
    outcomes = request.run(place)
    if json_output:
        print_json(_document(place.name, request, outcomes))
        return
    console.print(f"simulated on {escape(place.name)}: computed without noise, not measured")
    for note in request.notes:
        console.print(f"  {escape(note)}")
    for direction, outcome in outcomes.items():
        _show(direction, request, outcome)
        if explain:
            _explain(request, outcome)
            if direction == "read":
                _tell_cached(*request.cached(place))
            dead = [name for name, idle in request.without_effect(place, direction).items() if idle]
            if dead:
                console.print(f"  no effect on this {direction}: {escape(', '.join(dead))}")


def _document(site: str, request: SimulationRequest, outcomes: Mapping[str, SimulatedOutcome]) -> dict[str, Any]:
    rows = request.configurations()
    return {
        "simulated": True,
        "site": site,
        "notes": list(request.notes),
        "runs": [
            {"direction": direction, "settings": rows[index], **_row(outcome, index)}
            for direction, outcome in outcomes.items()
            for index in range(len(outcome))
        ],
    }


def _row(outcome: SimulatedOutcome, index: int) -> dict[str, Any]:
    return {
        "bandwidth": float(outcome.bandwidth[index]),
        "unit": "MiB/s",
        "seconds": {
            "open": float(outcome.open_seconds[index]),
            "data": float(outcome.data_seconds[index]),
            "close": float(outcome.close_seconds[index]),
        },
        "bound": str(outcome.binding[index]),
        "margin": float(outcome.margin[index]),
        "bounds": {name: float(seconds[index]) for name, seconds in outcome.bounds.items()},
        "aggregators": int(outcome.aggregators[index]),
        "rounds": int(outcome.rounds[index]),
        "stripe_count": int(outcome.stripe_count[index]),
        "stripe_size": int(outcome.stripe_size[index]),
    }


def _format_settings(settings: Mapping[str, Any]) -> str:
    shown = (f"{name}={make_readable(name, value)}" for name, value in settings.items())
    return " ".join(shown) or "defaults of the site"


def _tell_cached(client: float, server: float) -> None:
    if client + server > 0:
        console.print(
            f"  of this read {client:.0%} is in the clients' memory and {server:.0%} in the servers'; "
            "client_cached and server_cached of the access table change that"
        )


def _format_best(outcome: SimulatedOutcome) -> Any:
    return np.argsort(-outcome.bandwidth, kind="stable")[:_SHOWN]


def _show(direction: str, request: SimulationRequest, outcome: SimulatedOutcome) -> None:
    rows = request.configurations()
    shown = []
    for index in _format_best(outcome):
        cells = (
            number(float(outcome.bandwidth[index]), "MiB/s"),
            *(
                number(float(seconds[index]), "s", 3)
                for seconds in (outcome.open_seconds, outcome.data_seconds, outcome.close_seconds)
            ),
            f"{outcome.aggregators[index]:.0f}" if outcome.aggregated[index] else "-",
            str(outcome.binding[index]),
            f"{outcome.margin[index]:.2f}",
        )
        shown.append((_format_settings(rows[index]), cells))
    print_rows(direction, ("bandwidth", "open", "data", "close", "aggregators", "bound by", "times the next"), shown)
    if len(outcome) > _SHOWN:
        console.print(f"  the best {_SHOWN} of {len(outcome):,}; --json has all")


def _explain(request: SimulationRequest, outcome: SimulatedOutcome) -> None:
    rows = request.configurations()
    for index in _format_best(outcome):
        console.print(f"  {escape(_format_settings(rows[index]))}")
        data = float(outcome.data_seconds[index])
        headings = ("    bound", ">seconds alone", ">of the data phase", "what it is")
        table = grid(*headings, padding=(0, 2, 0, 0))
        for name in sorted(BOUNDS, key=lambda name: -outcome.bounds[name][index]):
            seconds = float(outcome.bounds[name][index])
            if seconds > 0:
                table.add_row(f"    {name}", number(seconds, "s", 3), f"{seconds / data:.0%}", _MEANING[name])
        extra = float(outcome.bounds["metadata"][index])
        table.add_row("    metadata", number(extra, "s", 3), f"{extra / data:.0%}", _MEANING["metadata"])
        console.print(table)


_MIB = float(1 << 20)
_POOR = 0.5
"""Share of unseen configurations within a factor of 1.5, below which a site is not recommended."""


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
    seed: Annotated[int, typer.Option(help="Seed of the division into parts.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the calibrated site.", metavar="SITE.toml")] = None,
    json_output: JsonOption = False,
) -> None:
    """Calibrate a simulated site to your own campaign, and say how well it predicts rows that it has not seen."""
    start = load_site(site)
    data = read_measured(read_table(table), _read(workload) if workload is not None else Workload())
    made = fit(data, start, free=tuple(free or BANDWIDTHS), folds=folds, seed=seed)
    if out is not None:
        about = [
            f"Simulated site {start.name}, calibrated to {len(data.values)} configurations of table {data.name}.",
            f"{made.folds}-fold error on rows that the fit had not seen: {_format_errors(made.held_out)}.",
        ]
        write_text(out, site_toml(made.site, about), "choose another file with --out")
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
    _show_fit(made, data.name, out)


def _show_fit(made: Fit, name: str, out: Path | None) -> None:
    console.print(f"simulated site {escape(made.site.name)}, calibrated to table {escape(name)}")
    for key, value in made.values.items():
        shown = number(value / _MIB, "MiB/s") if "bandwidth" in key else number(value)
        console.print(f"  {escape(key)} = {shown}")
    for key in made.unseen:
        console.print(f"  {escape(key)} left as it was: another bound was slower in every row")
    table = grid("error of the simulation", ">configurations", ">typical factor", ">within 1.5", ">r2 (log)")
    for title, errors in (
        ("before", made.before),
        ("on the rows fitted", made.after),
        (f"on held-out rows, {made.folds} folds", made.held_out),
    ):
        r2 = "-" if errors.r2_log is None else f"{errors.r2_log:.2f}"
        table.add_row(title, str(errors.configurations), f"{errors.typical_factor:.2f}", f"{errors.within:.0%}", r2)
    console.print(table)
    shares = ", ".join(f"{escape(bound)} {share:.0%}" for bound, share in made.bounds.items())
    console.print(f"what holds the configurations back on this site: {shares}")
    if made.held_out.within < _POOR:
        first = next(iter(made.bounds))
        keys = " ".join(f"--free {key}" for key in (*made.values, *KEYS[first]))
        console.print("it predicts poorly: plan nothing with it. Does --workload say what ran?")
        console.print(f"if it does, fit what moves {escape(first)} as well: {escape(keys)}")
    elif out is not None:
        console.print(f"use it: stripewise tune --runner sim:{escape(str(out))} EXPERIMENT.toml")


def _format_errors(errors: Errors) -> str:
    return f"typically a factor of {errors.typical_factor:.2f}, {errors.within:.0%} within 1.5"


class _File(BaseModel):
    """A workload file, of which only the workload is read: what ``simulate run`` takes, or an experiment."""

    workload: Workload


def _read(path: Path) -> Workload:
    return parse_document(_File, read_document(path, "workload"), str(path)).workload
