"""Five-number summaries and their clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from stripewise.output.plots.style import BLUE, GREY, PALETTE, axis_title, blank, lines, number, plain, wide

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
    labels : sequence of str
    title, quantity, unit : str
    """
    total = len(numbers)
    keep = np.unique(np.linspace(0, total - 1, min(total, _MOST)).astype(int)) if total else np.array([], dtype=int)
    more = f", {len(keep)} of {total} shown" if len(keep) < total else ""
    figure = blank(f"{plain(title)}{more}", 420)
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
                f"<b>{' / '.join(number(v) for v in numbers[index])} {plain(unit)}</b><br>{lines(labels[index])}"
                for index in own
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(title_text="configurations, by median")
    figure.update_yaxes(title_text=axis_title(quantity, unit))
    if wide([value for row in numbers for value in row]):
        figure.update_yaxes(type="log")
    return figure


def cluster_tree(tree: NDArray[np.float64], count: int) -> go.Figure:
    """Draw the upper part of a hierarchical clustering, and the height at which it was cut."""
    figure = blank("How configurations join", 360)
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
    figure.update_xaxes(tickvals=list(places), ticktext=[plain(text) for text in drawn["ivl"]], title_text=(
        "groups; in parentheses, how many they hold"))  # fmt: skip
    figure.update_yaxes(title_text="distance (Ward)")
    return figure


def silhouettes(scores: Mapping[int, float], chosen: int) -> go.Figure:
    """Draw the mean silhouette by number of clusters."""
    figure = blank("How many clusters", 260)
    counts = sorted(scores)
    figure.add_bar(
        x=counts,
        y=[scores[count] for count in counts],
        marker={"color": [BLUE if count == chosen else GREY for count in counts]},
        text=[f"{scores[count]:.2f}{' (chosen)' if count == chosen else ''}" for count in counts],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{x} clusters: %{y:.3f}<extra></extra>",
    )
    figure.update_xaxes(title_text="clusters", dtick=1)
    figure.update_yaxes(title_text="mean silhouette")
    return figure
