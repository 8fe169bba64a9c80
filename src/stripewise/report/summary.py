"""The page of a table's summaries: clusters, dependable settings, site defaults; one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.model.table import Table
from stripewise.report.markup import Html, escape, figure, paragraph, section, table, value_text
from stripewise.summaries import Report

_ROWS = 30


def render_summary(data: Table, reports: Sequence[Report]) -> str:
    """Write the page as text."""
    from stripewise.report.page import page  # noqa: PLC0415  figures are slow to load

    drawn = summary_figures(data, reports)
    text = data.schema.description
    return page(
        title=data.name,
        subtitle=text,
        sections={
            report.operation: (report.operation.capitalize(), operation_section(data, report, set(drawn)))
            for report in reports
        },
        figures=drawn,
        simulated="simulated" in text.lower(),
        brand="Stripewise summary",
    )


def summary_figures(data: Table, reports: Sequence[Report]) -> dict[str, Any]:
    """Draw the figures of all operations, by name."""
    from stripewise.plots.summary import cluster_tree, five_number_bands, silhouettes  # noqa: PLC0415

    drawn: dict[str, Any] = {}
    units = _units(data)
    for report in reports:
        name = report.operation
        drawn[f"{name}-bands"] = five_number_bands(
            [entry.numbers for entry in report.summaries],
            [entry.cluster for entry in report.summaries],
            [f"{_words(entry.context, units)}\n{_words(entry.configuration, units)}" for entry in report.summaries],
            title=f"{name}: minimum, quartiles, maximum",
            quantity=data.schema.objective.column,
            unit=data.schema.objective.unit,
        )
        if report.clusters is not None:
            drawn[f"{name}-tree"] = cluster_tree(report.clusters.tree, report.clusters.count)
            drawn[f"{name}-silhouettes"] = silhouettes(report.clusters.silhouettes, report.clusters.count)
    return drawn


def operation_section(data: Table, report: Report, drawn: set[str]) -> Html:
    """Write the section of one operation; ``drawn`` names the figures to leave places for."""
    units, unit = _units(data), data.schema.objective.unit
    name = report.operation
    parts: list[object] = [
        figure(
            f"{name}-bands", f"Five-number summaries of {name}", "Each configuration of each workload, by its median."
        )
    ]
    if report.clusters is not None:
        parts.append(_clusters(report, unit))
        parts += [
            figure(f"{name}-{kind}", about, about)
            for kind, about in (
                ("tree", "Hierarchical clustering"),
                ("silhouettes", "Silhouette by number of clusters"),
            )
            if f"{name}-{kind}" in drawn
        ]
    rows = [
        (
            _words(row.configuration, units), f"{row.contexts} of {row.of}", f"{row.typical:.1%}", f"{row.low:.1%}",
            f"{row.worst:.1%}", f"{row.spread:.1%}", f"{row.best_cluster:.0%}",
        )
        for row in report.consistent[:_ROWS]
    ]  # fmt: skip
    if rows:
        parts.append(
            table(
                "Settings that stay good under load (shares of each workload's best median)",
                ("setting", "workloads", "median", "worse quartile", "its worst", "spread", "in the best cluster"),
                rows,
                range(1, 7),
            )
        )
    effects = [
        (
            _words({row.parameter: row.value}, units), f"×{row.median:.2f}", f"×{row.low:.2f}", row.configurations
        )
        for row in report.effects
    ]  # fmt: skip
    if effects:
        parts.append(
            table(
                "What single values do (factor against the parameter's worst value, all else held)",
                ("value", "median", "worse quartile", "configurations"),
                effects,
                range(1, 4),
            )
        )
    parts.append(_defaults(report, units))
    return section(name, name.capitalize(), *parts)


def _clusters(report: Report, unit: str) -> Html:
    assert report.clusters is not None
    rows = [
        (f"cluster {number}", size, *(f"{value:,.4g}" for value in centre))
        for number, (size, centre) in enumerate(
            zip(report.clusters.sizes, report.clusters.centres, strict=True), start=1
        )
    ]
    headings = ("", "configurations", "minimum", "lower quartile", "median", "upper quartile", "maximum")
    return table(f"Clusters ({escape(unit)})", headings, rows, range(1, 7))


def _defaults(report: Report, units: Mapping[str, str]) -> Html:
    rows = [
        (
            _words(entry.workload, units) or "all workloads", _words(entry.configuration, units),
            f"{entry.contexts} of {entry.of}", f"{entry.arithmetic:.1%}", f"{entry.harmonic:.1%}", f"{entry.worst:.1%}",
            "" if entry.declared is None else f"{entry.declared:.1%}",
        )
        for entry in report.defaults
    ]  # fmt: skip
    if not rows:
        return paragraph("No setting was measured in most of the workloads: a model has to prescribe.")
    headings = ("class of workload", "best one setting", "workloads", "mean", "harmonic", "worst", "today's default")
    return table("Best site defaults (achieved over each workload's best)", headings, rows, range(2, 7))


def _units(data: Table) -> dict[str, str]:
    return {column.name: column.unit for column in data.schema.columns}


def _words(values: Mapping[str, Any], units: Mapping[str, str]) -> str:
    return " ".join(
        f"{name}={value_text(value, units.get(name, ''))}" for name, value in values.items() if value is not None
    )
