"""How well a model predicts, and what its prescriptions gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREEN, GREY, ORANGE, axis_title, curve, make_figure, scaled

_MOST = 3000


def predicted_measured(
    measured: Sequence[float], predicted: Sequence[float], *, quantity: str, unit: str, how: str = ""
) -> go.Figure:
    """Draw the prediction of each row over its measurement, with the lines of twice and half.

    Parameters
    ----------
    measured, predicted : sequence of float
        One value per row; rows that could not be predicted (not finite) are left out. Of more than 3000 rows an even
        sample is drawn.
    quantity, unit : str
        The objective.
    how : str
        What was held out, for the title.
    """
    x, y = np.asarray(measured, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    known = np.isfinite(y) & np.isfinite(x)
    x, y = x[known], y[known]
    more = ""
    if len(x) > _MOST:
        keep = np.unique(np.linspace(0, len(x) - 1, _MOST).astype(int))
        more = f", {len(keep):,} of {len(x):,} rows"
        x, y = x[keep], y[keep]
    figure = make_figure(f"Predicted and measured{f', held out: {how}' if how else ''}{more}", 440)
    figure.add_scatter(
        x=x.tolist(), y=y.tolist(), mode="markers", name="row", marker={"color": BLUE, "size": 5, "opacity": 0.5},
        hovertemplate="measured %{x:.4g}<br>predicted %{y:.4g}<extra></extra>",
    )  # fmt: skip
    if len(x):
        ends = [float(min(x.min(), y.min())), float(max(x.max(), y.max()))]
        for factor, name, colour, dash in (
            (1.0, "as measured", ORANGE, "solid"),
            (2.0, "twice", GREY, "dot"),
            (0.5, "half", GREY, "dash"),
        ):
            curve(figure, [(end, factor * end) for end in ends], name, colour=colour, dash=dash, width=1.5)
    scale = scaled([*x.tolist(), *y.tolist()])
    figure.update_xaxes(title_text=f"measured {axis_title(quantity, unit)}", **scale)
    figure.update_yaxes(title_text=f"predicted {axis_title(quantity, unit)}", **scale)
    return figure


def cases(
    default: Sequence[float], tuned: Sequence[float], oracle: Sequence[float], *, quantity: str, unit: str
) -> go.Figure:
    """Draw every case, ordered by its default.

    Parameters
    ----------
    default, tuned, oracle : sequence of float
        One value per case.
    quantity, unit : str
        Of the values.
    """
    order = np.argsort(np.asarray(default), kind="stable")
    figure = make_figure("Test cases", 420)
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
    figure.update_yaxes(title_text=axis_title(quantity, unit), **scaled(every))
    return figure


def speedups(ratios: Sequence[float], possible: Sequence[float]) -> go.Figure:
    """Draw how many cases reach which speed-up, prescribed and with the oracle's settings.

    Parameters
    ----------
    ratios, possible : sequence of float
        Speed-up of each case over its default.
    """
    figure = make_figure("Speed-up of the test cases", 360)
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
    figure.update_xaxes(title_text="speed-up over the default", **scaled([*ratios, *possible]))
    figure.update_yaxes(title_text="cases that reach it (%)", range=[0, 102])
    return figure
