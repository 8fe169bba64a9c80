"""``stripewise lab race``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated

import typer

from stripewise.desk.cli.options import JsonOption
from stripewise.desk.cli.output import Ticker, number, print_json, print_rows
from stripewise.engine.race import DRIFTS, Drift, Episode, contestant, race
from stripewise.errors import UserError, choose
from stripewise.models.table import read_table
from stripewise.output.markup import guess_units, list_changes


def run_race(
    tables: Annotated[list[str], typer.Argument(help="Measured tables (NAME.csv with NAME.toml).", metavar="TABLE")],
    samplers: Annotated[str, typer.Option(help="Samplers, separated by commas.", metavar="A,B")] = "auto,random",
    budget: Annotated[int, typer.Option(help="Runs of each search.", min=1)] = 40,
    seeds: Annotated[int, typer.Option(help="Searches of each sampler on each context.", min=1)] = 20,
    drift: Annotated[
        str | None,
        typer.Option(help="Plant changes of the machine by a factor of two: steps, ramp or bursts.", metavar="KIND"),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Race samplers over measured tables, to see how few runs each of them needs."""
    names = [name.strip() for name in samplers.split(",") if name.strip()]
    if not names:
        raise UserError("no sampler is named", "give some with --samplers, as in auto,genetic,random")
    kinds: dict[str | None, Drift | None] = {None: None, **{kind: kind for kind in DRIFTS}}
    if drift not in kinds:
        raise UserError(f"unknown drift {drift!r}", choose(str(drift), DRIFTS))
    contestants = {name: contestant(name) for name in names}
    read = [read_table(table) for table in tables]
    progress = Ticker()
    episodes = race(
        read,
        contestants,
        budget=budget,
        seeds=seeds,
        drift=kinds[drift],
        progress=lambda done, of: progress.count(done, of, "searches"),
    )
    progress.close()
    if json_output:
        print_json([episode.as_json() for episode in episodes])
        return
    _print_summary(episodes, budget)


def _print_summary(episodes: Sequence[Episode], budget: int) -> None:
    headings = ("sampler", "within 5% after", "never", "final value", "ms to ask")
    found: list[tuple[str, Sequence[str]]] = []
    keys = dict.fromkeys((e.table, tuple(e.context.items()), e.sampler) for e in episodes)
    for table, context, sampler in keys:
        own = [e for e in episodes if (e.table, tuple(e.context.items()), e.sampler) == (table, context, sampler)]
        reached = sorted(e.runs_to_within_5_percent or budget + 1 for e in own)
        median = statistics.median(reached)
        cells = (
            sampler,
            ("1 run" if median == 1 else f"{median:g} runs") if median <= budget else f"over {budget} runs",
            f"{sum(e.runs_to_within_5_percent is None for e in own)} of {len(own)}",
            number(statistics.median(e.trajectory[-1] for e in own if e.trajectory)),
            f"{statistics.median(e.ask_seconds / max(1, len(e.evaluations)) for e in own) * 1e3:.1f}",
        )
        values = dict(context)
        words = list_changes(values, units=guess_units(values))
        found.append((f"{table} {' '.join(words)}".rstrip(), cells))
    print_rows("table and workload", headings, found)
