"""The page of a table's summaries: clusters, dependable settings, site defaults; one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stripewise.catalogue.configuration import place_of
from stripewise.models.table import Table
from stripewise.output.markup import changes, value_text
from stripewise.output.summaries import SummaryReport

if TYPE_CHECKING:
    from stripewise.output.plots import Axis, Line

_ROWS = 30
_MOST_LEVELS = 64
"""Values of a column that an axis can hold; one with more is left out."""


def render_summary(data: Table, reports: Sequence[SummaryReport]) -> str:
    """Write the page as text."""
    from stripewise.output.page import page  # noqa: PLC0415  figures are slow to load

    text = data.schema.description
    return page(
        "summary.html",
        title=data.name,
        subtitle=text,
        headings={report.operation: report.operation.capitalize() for report in reports},
        figures=summary_figures(data, reports),
        simulated="simulated" in text.lower(),
        brand="Stripewise summary",
        **summary_context(data, reports),
    )


def summary_figures(data: Table, reports: Sequence[SummaryReport]) -> dict[str, Any]:
    """Draw the figures of all operations, by name."""
    from stripewise.output.plots import parallel_coordinates  # noqa: PLC0415
    from stripewise.output.plots.summary import cluster_tree, five_number_bands, silhouettes  # noqa: PLC0415

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
        axes, lines = _lines(data, report, units)
        if axes and len(lines) > 1:
            objective = data.schema.objective
            drawn[f"{name}-parallel"] = parallel_coordinates(
                axes, lines, quantity=objective.column, unit=objective.unit, maximize=data.objective.maximize, even=True
            )
        if report.clusters is not None:
            drawn[f"{name}-tree"] = cluster_tree(report.clusters.tree, report.clusters.count)
            drawn[f"{name}-silhouettes"] = silhouettes(report.clusters.silhouettes, report.clusters.count)
    return drawn


def _lines(data: Table, report: SummaryReport, units: Mapping[str, str]) -> tuple[list[Axis], list[Line]]:
    """Axes of what was varied, workload and settings, and a line for each configuration of each workload."""
    from stripewise.output.plots import Axis, Line  # noqa: PLC0415

    full = [{**entry.context, **entry.configuration} for entry in report.summaries]
    order: dict[str, list[Any]] = {}
    for column in data.schema.columns:
        used = {repr(one.get(column.name)) for one in full if column.name in one}
        # What cannot act in a configuration is below all values.
        values = [value for value in (None, *column.values) if repr(value) in used]
        if 1 < len(values) <= _MOST_LEVELS:
            order[column.name] = values
    axes = [
        Axis(name, ["inactive" if value is None else value_text(value, units[name]) for value in values])
        for name, values in order.items()
    ]
    lines = [
        Line([place_of(one[name], values) or 0 for name, values in order.items()], entry.median, _words(one, units))
        for one, entry in zip(full, report.summaries, strict=True)
    ]
    return axes, lines


def summary_context(data: Table, reports: Sequence[SummaryReport]) -> dict[str, Any]:
    """Collect what ``summary_sections.html`` shows."""
    return {
        "unit": data.schema.objective.unit,
        "operations": [
            {
                "name": report.operation,
                # Cheaper to ask than to draw: a page is filled before its figures are.
                "parallel": bool(_lines(data, report, _units(data))[0]) and len(report.summaries) > 1,
                "clusters": _clusters(report),
                "consistent": _consistent(report, _units(data)),
                "effects": _effects(report, _units(data)),
                "defaults": _defaults(report, _units(data)),
            }
            for report in reports
        ],
    }


def _clusters(report: SummaryReport) -> list[tuple[object, ...]]:
    if report.clusters is None:
        return []
    both = zip(report.clusters.sizes, report.clusters.centres, strict=True)
    return [
        (f"cluster {number}", size, *(f"{value:,.4g}" for value in centre))
        for number, (size, centre) in enumerate(both, start=1)
    ]


def _consistent(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            _words(row.configuration, units), f"{row.contexts} of {row.of}", f"{row.typical:.1%}", f"{row.low:.1%}",
            f"{row.worst:.1%}", f"{row.spread:.1%}", f"{row.best_cluster:.0%}",
        )
        for row in report.consistent[:_ROWS]
    ]  # fmt: skip


def _effects(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (_words({row.parameter: row.value}, units), f"×{row.median:.2f}", f"×{row.low:.2f}", row.configurations)
        for row in report.effects
    ]


def _defaults(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            _words(entry.workload, units) or "all workloads", _words(entry.configuration, units),
            f"{entry.contexts} of {entry.of}", f"{entry.arithmetic:.1%}", f"{entry.harmonic:.1%}", f"{entry.worst:.1%}",
            "" if entry.declared is None else f"{entry.declared:.1%}",
        )
        for entry in report.defaults
    ]  # fmt: skip


def _units(data: Table) -> dict[str, str]:
    return {column.name: column.unit for column in data.schema.columns}


def _words(values: Mapping[str, Any], units: Mapping[str, str]) -> str:
    return " ".join(changes({name: value for name, value in values.items() if value is not None}, units=units))
