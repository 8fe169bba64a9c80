"""``stripewise simulate``: runs on a simulated cluster, and what binds them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table as Grid

from stripewise.cli import simulate_fit
from stripewise.cli.options import JsonOption
from stripewise.cli.output import console, number, print_json
from stripewise.simulate.engine import BOUNDS, SimulatedOutcome
from stripewise.simulate.request import SimulationRequest, load_request, readable
from stripewise.spec.site import load_site

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


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="The simulated cluster: run workloads on it, or calibrate it.", no_args_is_help=True)
    group.command("run")(run_simulation)
    simulate_fit.register(group)
    app.add_typer(group, name="simulate")


def run_simulation(
    site: Annotated[str, typer.Argument(help="Site by name or .toml file.", metavar="SITE")],
    workload: Annotated[Path, typer.Argument(help="Workload, access and settings (TOML).", metavar="WORKLOAD.toml")],
    explain: Annotated[bool, typer.Option("--explain", help="Say what bounds each run, and by how much.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Simulate a workload with settings on a cluster, without noise; lists of values make a sweep."""
    place = load_site(site)
    request = load_request(workload)
    outcomes = request.run(place)
    if json_output:
        print_json(_document(place.name, request, outcomes))
        return
    console.print(f"simulated on {escape(place.name)}: computed without noise, not measured")
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


def _words(settings: Mapping[str, Any]) -> str:
    shown = (f"{name}={readable(name, value)}" for name, value in settings.items())
    return " ".join(shown) or "defaults of the site"


def _tell_cached(client: float, server: float) -> None:
    if client + server > 0:
        console.print(
            f"  of this read {client:.0%} is in the clients' memory and {server:.0%} in the servers'; "
            "client_cached and server_cached of the access table change that"
        )


def _best(outcome: SimulatedOutcome) -> Any:
    return np.argsort(-outcome.bandwidth, kind="stable")[:_SHOWN]


def _show(direction: str, request: SimulationRequest, outcome: SimulatedOutcome) -> None:
    grid = Grid(box=None, pad_edge=False)
    for heading in (direction, "bandwidth", "open", "data", "close", "aggregators", "bound by"):
        grid.add_column(heading, justify="left" if heading in (direction, "bound by") else "right")
    rows = request.configurations()
    for index in _best(outcome):
        grid.add_row(
            escape(_words(rows[index])),
            number(float(outcome.bandwidth[index]), "MiB/s"),
            *(
                number(float(seconds[index]), "s", 3)
                for seconds in (outcome.open_seconds, outcome.data_seconds, outcome.close_seconds)
            ),
            f"{outcome.aggregators[index]:.0f}" if outcome.aggregated[index] else "-",
            f"{outcome.binding[index]}, {outcome.margin[index]:.2f} times the next",
        )
    console.print(grid)
    if len(outcome) > _SHOWN:
        console.print(f"  the best {_SHOWN} of {len(outcome):,}; --json has all")


def _explain(request: SimulationRequest, outcome: SimulatedOutcome) -> None:
    rows = request.configurations()
    for index in _best(outcome):
        console.print(f"  {escape(_words(rows[index]))}")
        data = float(outcome.data_seconds[index])
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("    bound", "seconds alone", "of the data phase", "what it is"):
            grid.add_column(heading, justify="right" if "s" in heading[:3] or heading.startswith("of") else "left")
        for name in sorted(BOUNDS, key=lambda name: -outcome.bounds[name][index]):
            seconds = float(outcome.bounds[name][index])
            if seconds > 0:
                grid.add_row(f"    {name}", number(seconds, "s", 3), f"{seconds / data:.0%}", _MEANING[name])
        extra = float(outcome.bounds["metadata"][index])
        grid.add_row("    metadata", number(extra, "s", 3), f"{extra / data:.0%}", _MEANING["metadata"])
        console.print(grid)
