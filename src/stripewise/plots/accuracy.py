"""How well a model predicts: predicted beside measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from stripewise.plots.style import BLUE, GREY, ORANGE, axis_title, blank, wide

_MOST = 3000


def predicted_measured(
    measured: Sequence[float], predicted: Sequence[float], *, quantity: str, unit: str, how: str = ""
) -> go.Figure:
    """Draw the prediction of each row over its measurement, with the lines of twice and half.

    Parameters
    ----------
    measured, predicted : sequence of float
        A value a row; rows that could not be predicted (not finite) are left out. Of more than 3000 rows an even
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
    figure = blank(f"Predicted and measured{f', held out: {how}' if how else ''}{more}", 440)
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
            figure.add_scatter(
                x=ends, y=[factor * end for end in ends], mode="lines", name=name, hoverinfo="skip",
                line={"color": colour, "width": 1.5, "dash": dash},
            )  # fmt: skip
    logarithmic = wide([*x.tolist(), *y.tolist()])
    figure.update_xaxes(title_text=f"measured {axis_title(quantity, unit)}", type="log" if logarithmic else "linear")
    figure.update_yaxes(title_text=f"predicted {axis_title(quantity, unit)}", type="log" if logarithmic else "linear")
    return figure
