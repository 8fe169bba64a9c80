"""The page of a table's summaries: clusters, dependable settings, site defaults; one file that needs nothing else.

Five-number summaries and their clusters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stripewise.catalogue.configuration import place_of
from stripewise.models.table import Table
from stripewise.output.markup import capitalised, factors
from stripewise.output.summaries import SummaryReport, write_values
from stripewise.sizes import format_value

if TYPE_CHECKING:
    from stripewise.output.plots.parameters import Axis, Line


import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from stripewise.output.plots.style import (
    BLUE,
    GREY,
    PALETTE,
    axis_title,
    escape_text,
    lines,
    make_figure,
    number,
    scaled,
)

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
    from stripewise.output.plots.parameters import parallel_coordinates  # noqa: PLC0415

    drawn: dict[str, Any] = {}
    units = _units(data)
    for report in reports:
        name = report.operation
        drawn[f"{name}-bands"] = five_number_bands(
            [entry.numbers for entry in report.summaries],
            [entry.cluster for entry in report.summaries],
            [
                f"{write_values(entry.context, units)}\n{write_values(entry.configuration, units)}"
                for entry in report.summaries
            ],
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
    from stripewise.output.plots.parameters import Axis, Line  # noqa: PLC0415

    full = [{**entry.context, **entry.configuration} for entry in report.summaries]
    order: dict[str, list[Any]] = {}
    for column in data.schema.columns:
        used = {repr(one.get(column.name)) for one in full if column.name in one}
        # What cannot act in a configuration is below all values.
        values = [value for value in (None, *column.values) if repr(value) in used]
        if 1 < len(values) <= _MOST_LEVELS:
            order[column.name] = values
    axes = [
        Axis(name, ["inactive" if value is None else format_value(value, units[name]) for value in values])
        for name, values in order.items()
    ]
    lines = [
        Line(
            [place_of(one[name], values) or 0 for name, values in order.items()],
            entry.median,
            write_values(one, units),
        )
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
                "verdict": capitalised(f"{report.verdict(_units(data))}."),
                # Cheaper to ask than to draw: a page is filled before its figures are.
                "parallel": bool(_lines(data, report, _units(data))[0]) and len(report.summaries) > 1,
                "clusters": _clusters(report),
                "consistent": _list_consistent(report, _units(data)),
                "compared": report.compared,
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


def _list_consistent(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            write_values(row.configuration, units), f"{row.contexts} of {row.of}", f"{row.typical:.1%}",
            f"{row.low:.1%}", f"{row.worst:.1%}", f"{row.spread:.1%}", f"{row.best_cluster:.0%}",
        )
        for row in report.consistent[:_ROWS]
    ]  # fmt: skip


def _effects(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            write_values({row.parameter: row.value}, units),
            f"{row.median:.2f} ({factors(row.median_interval.low, row.median_interval.high)})",
            f"{row.low:.2f} ({factors(row.low_interval.low, row.low_interval.high)})",
            row.configurations,
        )
        for row in report.effects
    ]


def _defaults(report: SummaryReport, units: Mapping[str, str]) -> list[tuple[object, ...]]:
    return [
        (
            write_values(entry.workload, units) or "all workloads", write_values(entry.configuration, units),
            f"{entry.contexts} of {entry.of}", *entry.shares(), entry.today,
        )
        for entry in report.defaults
    ]  # fmt: skip


def _units(data: Table) -> dict[str, str]:
    return {column.name: column.unit for column in data.schema.columns}


_MOST = 400
_LEAVES = 30


def five_number_bands(
    numbers: Sequence[Sequence[float]],
    clusters: Sequence[int],
    labels: Sequence[str],
    *,
    title: str,
    quantity: str,
    unit: str,
) -> go.Figure:
    """Draw each configuration as a line from minimum to maximum, a bar between its quartiles, and its median.

    Parameters
    ----------
    numbers : sequence of five floats
        In the order in which they are drawn.
    clusters : sequence of int
        From 1; colour and legend.
    """
    total = len(numbers)
    keep = np.unique(np.linspace(0, total - 1, min(total, _MOST)).astype(int)) if total else np.array([], dtype=int)
    more = f", {len(keep)} of {total} shown" if len(keep) < total else ""
    figure = make_figure(f"{escape_text(title)}{more}", 420)
    for cluster in sorted(set(clusters)):
        own = [int(index) for index in keep if clusters[int(index)] == cluster]
        if not own:
            continue
        colour = PALETTE[(cluster - 1) % len(PALETTE)]
        for low, high, width in ((0, 4, 1), (1, 3, 4)):
            x: list[float | None] = []
            y: list[float | None] = []
            for index in own:
                x += [index + 1, index + 1, None]
                y += [numbers[index][low], numbers[index][high], None]
            figure.add_scatter(
                x=x, y=y, mode="lines", line={"color": colour, "width": width}, opacity=0.6, hoverinfo="skip",
                showlegend=False, legendgroup=str(cluster),
            )  # fmt: skip
        figure.add_scatter(
            x=[index + 1 for index in own],
            y=[numbers[index][2] for index in own],
            mode="markers",
            marker={"color": colour, "size": 5, "symbol": cluster - 1},
            name=f"cluster {cluster}",
            legendgroup=str(cluster),
            text=[
                f"<b>{' / '.join(number(v) for v in numbers[index])} {escape_text(unit)}</b><br>{lines(labels[index])}"
                for index in own
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(title_text="configurations, by median")
    figure.update_yaxes(title_text=axis_title(quantity, unit), **scaled([value for row in numbers for value in row]))
    return figure


def cluster_tree(tree: NDArray[np.float64], count: int) -> go.Figure:
    """Draw the upper part of a hierarchical clustering, and the height at which it was cut."""
    figure = make_figure("How configurations join", 360)
    from scipy.cluster.hierarchy import dendrogram  # noqa: PLC0415  slow to load

    drawn = dendrogram(tree, p=_LEAVES, truncate_mode="lastp", no_plot=True)
    for xs, ys in zip(drawn["icoord"], drawn["dcoord"], strict=True):
        figure.add_scatter(
            x=xs, y=ys, mode="lines", line={"color": GREY, "width": 1.4}, hoverinfo="skip", showlegend=False
        )
    heights = np.sort(tree[:, 2])
    if 1 < count <= len(heights):
        cut = float(heights[-count] + heights[-count + 1]) / 2
        figure.add_hline(y=cut, line={"color": BLUE, "dash": "dash"}, annotation_text=f"{count} clusters")
    places = range(5, 10 * len(drawn["ivl"]) + 5, 10)
    figure.update_xaxes(tickvals=list(places), ticktext=[escape_text(text) for text in drawn["ivl"]], title_text=(
        "groups; in parentheses, how many they hold"))  # fmt: skip
    figure.update_yaxes(title_text="distance (Ward)")
    return figure


def silhouettes(scores: Mapping[int, float], chosen: int) -> go.Figure:
    """Draw the mean silhouette by number of clusters."""
    figure = make_figure("How many clusters", 260)
    counts = sorted(scores)
    figure.add_bar(
        x=counts,
        y=[scores[count] for count in counts],
        marker={"color": [BLUE if count == chosen else GREY for count in counts]},
        text=[f"{scores[count]:.2f}" for count in counts],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{x} clusters: %{y:.3f}<extra></extra>",
    )
    figure.update_xaxes(title_text="clusters (blue: chosen)", dtick=1)
    figure.update_yaxes(title_text="mean silhouette")
    return figure
