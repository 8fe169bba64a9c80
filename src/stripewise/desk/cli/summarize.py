"""``stripewise site summarize``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from stripewise.desk.cli.help import Commands
from stripewise.desk.cli.options import JsonOption, TableArgument, check_place
from stripewise.desk.cli.output import console, grid, number, print_json, remark, say
from stripewise.models.table import Table, read_table
from stripewise.output.summaries import NUMBERS, SummaryReport, summarise
from stripewise.sizes import format_size


def register(app: Commands) -> None:
    """Add the command."""
    app.command("summarize")(summarize)


def summarize(
    table: TableArgument,
    top: Annotated[int, typer.Option(help="Most rows of each list.", min=1)] = 8,
    html: Annotated[
        Path | None, typer.Option("--report", help="Write a page with figures.", metavar="FILE.html")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Say what a site's measurements show: clusters, settings that stay good under load, the best defaults."""
    check_place("--report", html)
    data = read_table(table)
    reports = summarise(data)
    if html is not None:
        from stripewise.output.html import save_text  # noqa: PLC0415  pages are slow to load
        from stripewise.output.summary import render_summary  # noqa: PLC0415

        save_text(html, render_summary(data, reports))
        remark(f"page: {html}")
    if json_output:
        print_json(_document(data, reports))
        return
    units = {column.name: column.unit for column in data.schema.columns}
    say(f"{data.name}: {len(data):,} {'run' if len(data) == 1 else 'runs'}. {data.schema.description}".rstrip())
    for report in reports:
        _print(report, data.schema.objective.unit, units, top)


def _document(data: Table, reports: Sequence[SummaryReport]) -> dict[str, Any]:
    objective = data.schema.objective
    return {
        "table": data.name,
        "rows": len(data),
        "objective": {"name": objective.column, "direction": objective.direction, "unit": objective.unit},
        "operations": {report.operation: _one(report) for report in reports},
    }


def _one(report: SummaryReport) -> dict[str, Any]:
    clusters = report.clusters
    return {
        "summaries": [entry.as_json() for entry in report.summaries],
        "clusters": None
        if clusters is None
        else {
            "count": clusters.count,
            "silhouettes": {str(count): score for count, score in clusters.silhouettes.items()},
            "sizes": list(clusters.sizes),
            "centres": [dict(zip(NUMBERS, centre, strict=True)) for centre in clusters.centres],
        },
        "consistent": [{**vars(row), "configuration": dict(row.configuration)} for row in report.consistent],
        "effects": [vars(row) for row in report.effects],
        "defaults": [
            {**vars(row), "workload": dict(row.workload), "configuration": dict(row.configuration)}
            for row in report.defaults
        ],
    }


def _print(report: SummaryReport, unit: str, units: Mapping[str, str], top: int) -> None:
    console.print(f"\n[bold]{report.operation}[/]: {len(report.summaries):,} configurations")
    if report.clusters is not None:
        table = grid("", ">configurations", ">minimum", ">q1", ">median", ">q3", ">maximum")
        for place, (size, centre) in enumerate(
            zip(report.clusters.sizes, report.clusters.centres, strict=True), start=1
        ):
            table.add_row(f"cluster {place}", f"{size:,}", *(number(value) for value in centre))
        console.print(table)
        console.print(f"typical five numbers of each cluster, {unit}; silhouette "
                      f"{report.clusters.silhouettes[report.clusters.count]:.2f}")  # fmt: skip
    table = grid("good under load", ">workloads", ">median", ">worse quartile", ">its worst", ">spread")
    for row in report.consistent[:top]:
        table.add_row(
            escape(_words(row.configuration, units)), f"{row.contexts} of {row.of}", f"{row.typical:.1%}",
            f"{row.low:.1%}", f"{row.worst:.1%}", f"{row.spread:.1%}",
        )  # fmt: skip
    if report.consistent:
        console.print(table)
        console.print("[dim]shares of each workload's best median; spread: interquartile range over median[/]")
    table = grid("value", ">median", ">worse quartile", ">configurations")
    for effect in report.effects:
        about = _words({effect.parameter: effect.value}, units)
        table.add_row(escape(about), f"x{effect.median:.2f}", f"x{effect.low:.2f}", f"{effect.configurations:,}")
    if report.effects:
        console.print(table)
        console.print("[dim]factors against each parameter's worst value, workloads and other parameters held[/]")
    if not report.defaults:
        console.print(
            "no setting was measured in most of the workloads: let a model prescribe, stripewise site train TABLE"
        )
        return
    table = grid("class of workload", "best default", ">workloads", ">mean", ">harmonic", ">worst", ">today's")
    for entry in report.defaults[: top + 1]:
        table.add_row(
            escape(_words(entry.workload, units) or "all"), escape(_words(entry.configuration, units)),
            f"{entry.contexts} of {entry.of}", f"{entry.arithmetic:.1%}", f"{entry.harmonic:.1%}", f"{entry.worst:.1%}",
            "" if entry.declared is None else f"{entry.declared:.1%}",
        )  # fmt: skip
    console.print(table)
    console.print(
        "[dim]achieved over each workload's best; the setting is picked by odd repeats, scored by even ones[/]"
    )
    if len(report.defaults) > top + 1:
        console.print(f"and {len(report.defaults) - top - 1} more classes: --top, --json or --report show them")


def _words(values: Mapping[str, Any], units: Mapping[str, str]) -> str:
    def text(name: str, value: Any) -> str:
        if units.get(name) == "B" and isinstance(value, int) and not isinstance(value, bool):
            return format_size(value).replace(" ", "")
        return str(value).lower() if isinstance(value, bool) else str(value)

    return " ".join(f"{name}={text(name, value)}" for name, value in values.items() if value is not None)
