"""``stripewise site summarize``, and ``site table import`` and ``observe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from stripewise.desk.cli.options import JsonOption, TableArgument, check_place, pairs
from stripewise.desk.cli.output import console, notes, number, overwritten, print_json, print_rows, prose, remark, say
from stripewise.engine.campaign.importing import read_sources, table_from, with_names
from stripewise.engine.campaign.observing import with_profiles
from stripewise.engine.campaign.outcome import save
from stripewise.errors import UserError
from stripewise.models.table import Table, make_table, read_rows, read_schema, read_table
from stripewise.output.markup import capitalised, factors
from stripewise.output.summaries import NUMBERS, SummaryReport, summarise, write_values
from stripewise.sizes import count_of

_LISTED = 20
"""Files that are named one by one, of those that could not be read."""


def _root() -> None:
    """Measured tables."""


def import_table(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Outputs of benchmarks, Darshan logs, traces, reports, journals, folders of them, or CSV.",
            metavar="FILE",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The table to write (NAME.csv and NAME.toml).", metavar="TABLE")],
    schema: Annotated[
        Path | None,
        typer.Option(help="What the columns of CSV files mean, as a table's TOML file.", metavar="FILE.toml"),
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="A column that can be tuned, in addition to layout and hints; repeatable.")
    ] = None,
    from_name: Annotated[
        str | None,
        typer.Option(help="Columns from the files' paths: a regular expression with named groups.", metavar="REGEX"),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", help="A column with the same value for all; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that read Darshan logs.", min=1)] = None,
    json_output: JsonOption = False,
) -> None:
    """Make a table of measurements that exist: IOR, Darshan, reports, or any CSV with a schema."""
    kinds, said, unreadable = {"CSV": len(files)}, list[str](), list[str]()
    if schema is not None:
        rows = [row for file in files for row in read_rows(file)]
        table = make_table(read_schema(schema), rows, ", ".join(map(str, files[:3])))
    else:
        table, kinds, said, unreadable = _observe_files(files, out, parameter or [], from_name, given or [], workers)
    path = save(table, out)
    if json_output:
        print_json(
            {
                "table": str(path),
                "rows": len(table),
                "files": kinds,
                "parameters": [column.name for column in table.schema.parameter],
                "context": [column.name for column in table.schema.context],
                "notes": said,
                "unreadable": unreadable,
            }
        )
        return
    for line in said:
        remark(f"note: {line}")
    for line in unreadable[:_LISTED]:
        remark(f"note: not imported: {line}")
    if len(unreadable) > _LISTED:
        remark(f"note: not imported: {len(unreadable) - _LISTED:,} more, which --json lists")
    shown = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    say(f"{count_of(len(table), 'row')} from {count_of(sum(kinds.values()), 'file')} ({shown}): {path}")
    prose(f"tunable   {', '.join(column.name for column in table.schema.parameter)}")
    prose(f"workload  {', '.join(column.name for column in table.schema.context)}")


def observe_table(
    table: Annotated[str, typer.Argument(help="Measurements of several programs.", metavar="TABLE")],
    column: Annotated[str, typer.Option(help="The column that names the programs.", metavar="NAME")],
    profiles: Annotated[
        Path,
        typer.Option(
            "--from",
            help="A folder with a Darshan log or a report of each program: NAME.darshan or NAME.json.",
            metavar="FOLDER",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The table to write (NAME.csv and NAME.toml).", metavar="TABLE")],
    json_output: JsonOption = False,
) -> None:
    """Put what a profile shows of each program in place of its name, so that a model answers for other programs."""
    made, missing = with_profiles(read_table(table), column, profiles)
    path = save(made, out)
    columns = [entry.name for entry in made.schema.context]
    if json_output:
        print_json({"table": str(path), "rows": len(made), "context": columns, "missing": missing})
        return
    prose(f"Profiles stand for the names in {column}: a model of this table answers for other programs.", "bold")
    if missing:
        remark(f"note: not all profiles show {', '.join(missing)}: left out")
    say(f"{count_of(len(made), 'row')}: {path}")
    prose(f"workload  {', '.join(columns)}")


def _observe_files(
    files: list[Path], out: Path, parameters: list[str], from_name: str | None, given: list[str], workers: int | None
) -> tuple[Table, dict[str, int], list[str], list[str]]:
    def progress(done: int) -> None:
        if notes.is_terminal and done % 50 == 0:
            overwritten(f"{count_of(done, 'file')} read")

    constants = pairs("--set", given, "stripe_count=4")
    if wrong := [name for name in constants if not name.isidentifier()]:
        raise UserError(f"--set: '{wrong[0]}' cannot be a column's name", "write stripe_count=4 for instance")
    found = read_sources(files, workers=workers, on_file=progress)
    rows = with_names(found.rows, from_name, constants)
    listed = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    table, said = table_from(rows, out.with_suffix("").name, f"Imported from {listed}.", parameters)
    return table, dict(found.kinds), [*found.notes, *said], found.unreadable


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
    for report in reports:
        prose(capitalised(f"{report.verdict(units)}."), "bold")
    prose(f"{data.name}: {count_of(len(data), 'run')}. {data.schema.description}".rstrip())
    for report in reports:
        _print(report, data.schema.objective.unit, units, top)


def _document(data: Table, reports: Sequence[SummaryReport]) -> dict[str, Any]:
    objective = data.schema.objective
    return {
        "table": data.name,
        "rows": len(data),
        "objective": {"name": objective.column, "direction": objective.direction, "unit": objective.unit},
        "operations": {report.operation: _make_document(report) for report in reports},
    }


def _make_document(report: SummaryReport) -> dict[str, Any]:
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
        "effects": [asdict(row) for row in report.effects],
        "defaults": [{**asdict(row), "configuration": dict(row.configuration)} for row in report.defaults],
    }


def _print(report: SummaryReport, unit: str, units: Mapping[str, str], top: int) -> None:
    console.print(f"\n[bold]{report.operation}[/]: {count_of(len(report.summaries), 'configuration')}")
    if report.clusters is not None:
        rows = [
            (f"cluster {place}", (f"{size:,}", *map(number, centre)))
            for place, (size, centre) in enumerate(
                zip(report.clusters.sizes, report.clusters.centres, strict=True), start=1
            )
        ]
        print_rows("", ("configurations", "minimum", "q1", "median", "q3", "maximum"), rows)
        prose(f"typical five numbers of each cluster, {unit}; silhouette "
              f"{report.clusters.silhouettes[report.clusters.count]:.2f}", "dim")  # fmt: skip
    if report.consistent:
        rows = [
            (write_values(row.configuration, units), (f"{row.contexts} of {row.of}", f"{row.typical:.1%}",
             f"{row.low:.1%}", f"{row.worst:.1%}", f"{row.spread:.1%}"))
            for row in report.consistent[:top]
        ]  # fmt: skip
        print_rows("good under load", ("workloads", "median", "worse quartile", "its worst", "spread"), rows)
        prose("shares of each workload's best median; spread: interquartile range over median", "dim")
    if report.effects:
        rows = [
            (
                write_values({effect.parameter: effect.value}, units),
                (
                    f"{effect.median:.2f} ({factors(effect.median_interval.low, effect.median_interval.high)})",
                    f"{effect.low:.2f} ({factors(effect.low_interval.low, effect.low_interval.high)})",
                    f"{effect.configurations:,}",
                ),
            )
            for effect in report.effects
        ]
        print_rows("times the worst", ("median", "worse quartile", "configurations"), rows)
        prose(
            "each value against its parameter's worst one, with 95% intervals, other things equal; parameters whose "
            "values cannot be told apart are left out",
            "dim",
        )
    if all(entry.of == 1 for entry in report.defaults) and len(report.defaults) < 2:
        # The verdict says it.
        return
    declared = any(entry.declared is not None for entry in report.defaults)
    rows = [
        (
            f"{write_values(entry.workload, units) or 'all'}: {write_values(entry.configuration, units)}",
            (f"{entry.contexts} of {entry.of}", *entry.shares(), *([entry.today or "-"] if declared else ())),
        )
        for entry in report.defaults[: top + 1]
    ]  # fmt: skip
    heads = ("workloads", "mean", "harmonic", "worst", *(["today's"] if declared else ()))
    print_rows("workloads: best default", heads, rows)
    prose("shares of each workload's best; the setting is picked by odd repeats, scored by even ones", "dim")
    if len(report.defaults) > top + 1:
        more = count_of(len(report.defaults) - top - 1, "more class")
        prose(f"and {more}: --top, --json or --report show all")
