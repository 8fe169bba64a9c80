"""Default test cases beside their prescribed settings and an oracle's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from stripewise.plots.style import BLUE, GREEN, GREY, axis_title, blank, wide


def cases(
    default: Sequence[float], tuned: Sequence[float], oracle: Sequence[float], *, quantity: str, unit: str
) -> go.Figure:
    """Draw every case, ordered by its default.

    Parameters
    ----------
    default, tuned, oracle : sequence of float
        A value a case.
    quantity, unit : str
        Of the values.
    """
    order = np.argsort(np.asarray(default), kind="stable")
    figure = blank("Test cases", 420)
    for name, values, colour, symbol in (
        ("oracle", oracle, GREY, "line-ew-open"),
        ("prescribed", tuned, GREEN, "circle"),
        ("default", default, BLUE, "circle-open"),
    ):
        ordered = np.asarray(values, dtype=np.float64)[order]
        figure.add_scatter(
            x=list(range(1, len(ordered) + 1)),
            y=[float(value) for value in ordered],
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 5},
            name=name,
            hovertemplate="case %{x}: %{y:.4g} " + unit + "<extra>" + name + "</extra>",
        )
    figure.update_xaxes(title_text="test cases, by their default")
    every = [float(value) for values in (default, tuned, oracle) for value in values]
    figure.update_yaxes(title_text=axis_title(quantity, unit), type="log" if wide(every) else "linear")
    return figure


def speedups(ratios: Sequence[float], possible: Sequence[float]) -> go.Figure:
    """Draw how many cases reach which speed-up, prescribed and with the oracle's settings.

    Parameters
    ----------
    ratios, possible : sequence of float
        Speed-up of each case over its default.
    """
    figure = blank("Speed-up of the test cases", 360)
    for name, values, colour, dash in (("oracle", possible, GREY, "dash"), ("prescribed", ratios, GREEN, "solid")):
        ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        figure.add_scatter(
            x=[float(value) for value in ordered],
            y=[100.0 * (place + 1) / len(ordered) for place in range(len(ordered))],
            mode="lines",
            line={"color": colour, "dash": dash, "shape": "hv"},
            name=name,
            hovertemplate="%{y:.1f}% of the cases reach %{x:.3g}<extra>" + name + "</extra>",
        )
    figure.add_vline(x=1.0, line={"color": GREY, "width": 1})
    figure.update_xaxes(title_text="speed-up over the default", type="log" if wide([*ratios, *possible]) else "linear")
    figure.update_yaxes(title_text="cases that reach it (%)", range=[0, 102])
    return figure
