"""Times of single operations: who answered them, and the clusters of those that were repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREY, PALETTE, blank, curve, marks, number, plain
from stripewise.sizes import format_size

_MOST = 3000
_BINS = 60

Points = Sequence[tuple[float, float]]


def times_by_size(operation: str, classes: Mapping[str, Points], models: Mapping[str, Points]) -> go.Figure:
    """Draw the time of each operation over its size, by class, with the calibrated models.

    Parameters
    ----------
    operation : str
        The direction, for the title.
    classes : mapping
        Class to sizes in bytes and seconds. Of more than 3000 operations an even sample is drawn.
    models : mapping
        Condition to the sizes and seconds of its line.
    """
    every = max(1, -(-sum(map(len, classes.values())) // _MOST))
    figure = blank(f"Time of the {operation}s by size", 440)
    # A condition has one colour, whether it is met or only calibrated.
    names = list(dict.fromkeys([*models, *classes]))
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    for name, points in classes.items():
        shown = [
            (size, seconds, f"{plain(name)}: {format_size(int(size))} in {number(seconds * 1e6, 'us')}")
            for size, seconds in points[::every]
        ]
        marks(figure, shown, name, colours[name], size=5, opacity=0.5)
    for name, line in models.items():
        curve(figure, line, f"{name}, calibrated", colour=colours[name], dash="dash", width=1.5)
    figure.update_xaxes(title_text="size (bytes)", type="log")
    figure.update_yaxes(title_text="time (seconds)", type="log")
    return figure


def repeated_times(operation: str, size: int, seconds: Sequence[float], typical: Sequence[float]) -> go.Figure:
    """Draw how often an operation took how long, with its clusters.

    Parameters
    ----------
    operation : str
    size : int
        Bytes.
    seconds : sequence of float
        Of each time it was made.
    typical : sequence of float
        Typical time of each cluster.
    """
    edges = np.geomspace(min(seconds) * 0.98, max(seconds) * 1.02, _BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    figure = blank(f"{len(seconds):,} {operation}s of {format_size(size)}: how long they took", 360)
    outline = [(float(edge), int(count)) for edge, count in zip(edges, [*counts, counts[-1]], strict=True)]
    figure.add_scatter(
        x=[edge for edge, _ in outline], y=[count for _, count in outline], mode="lines", name="operations",
        line={"color": BLUE, "shape": "hv"}, fill="tozeroy", hovertemplate="%{x:.3g} s: %{y}<extra></extra>",
    )  # fmt: skip
    for place, centre in enumerate(typical):
        curve(
            figure, [(centre, 0), (centre, int(counts.max()))], "" if place else "typical time of a cluster",
            colour=GREY, dash="dot",
        )  # fmt: skip
    figure.update_xaxes(title_text="time (seconds)", type="log")
    figure.update_yaxes(title_text="operations", rangemode="tozero")
    return figure
