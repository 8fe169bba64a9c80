"""The look of all figures: palette, template, numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import plotly.graph_objects as go

BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#b8609a"
GREY = "#7a7f87"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, GREY)
ON_DARK = {BLUE: "#56b4e9"}
"""Colours of the palette that are too dim on a dark page, and what stands for them there."""

_LOG_RATIO = 20.0
_LONG = 3
"""Decades of an axis beyond which only powers of ten have labels."""
_CLOCKS = (("hours", 3600.0, 7200.0), ("minutes", 60.0, 180.0), ("seconds", 1.0, 0.0))


@cache
def template(dark: bool = False) -> go.layout.Template:
    """Give the look of all figures, on a light or a dark page; a figure takes a copy."""
    ink, faint = ("#dfe3e8", "#333b45") if dark else ("#23282f", "#dde1e6")
    axis = {
        "gridcolor": faint,
        "linecolor": faint,
        "zerolinecolor": faint,
        "ticks": "",
        "automargin": True,
        # Numbers as texts and tables have them: 10,000 in place of 10k.
        "exponentformat": "none",
        "separatethousands": True,
        "title": {"standoff": 8, "font": {"size": 13}},
    }
    return go.layout.Template(
        layout={
            "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": ink},
            "title": {"font": {"size": 15}, "x": 0, "xref": "paper", "xanchor": "left", "y": 0.98, "yanchor": "top"},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "colorway": list(PALETTE),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
            "margin": {"l": 8, "r": 12, "t": 84, "b": 8, "autoexpand": True},
            "hoverlabel": {
                "align": "left",
                "bgcolor": "#20262d" if dark else "#ffffff",
                "font": {"color": ink, "size": 12},
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": ink},
            # Labels stay readable where lines and marks run under them.
            "annotationdefaults": {"bgcolor": "rgba(20,24,29,0.75)" if dark else "rgba(255,255,255,0.75)"},
            "separators": ".,",
        }
    )


def make_figure(title: str, height: int) -> go.Figure:
    """Start a figure."""
    return go.Figure(layout={"template": template(), "title": {"text": title}, "height": height})


def escape_text(text: object) -> str:
    """Escape text for a figure."""
    return html.escape(str(text), quote=False)


def lines(text: str) -> str:
    """Escape text of several lines for a figure."""
    return escape_text(text).replace("\n", "<br>")


def number(value: float | None, unit: str = "") -> str:
    """Write a measured number with four digits and its unit."""
    if value is None or not math.isfinite(value):
        return "–"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return f"{text} {unit}".rstrip()


def axis_title(name: str, unit: str) -> str:
    """Write what an axis shows."""
    shown = name if len(name) <= 40 else f"{name[:39]}…"
    return escape_text(f"{shown.replace('_', ' ')} ({unit})" if unit else shown.replace("_", " "))


def is_wide(values: Sequence[float]) -> bool:
    """Whether values spread so far that only a logarithmic axis shows them all."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > _LOG_RATIO


def scaled(values: Sequence[float]) -> dict[str, Any]:
    """Give the kind of an axis, with labels at 1, 2 and 5 of each decade where it is logarithmic and short."""
    if not is_wide(values):
        return {"type": "linear"}
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= _LONG else (1,)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}


def value_axis(figure: go.Figure, quantity: str, unit: str, values: Sequence[float], **more: Any) -> None:
    """Title a vertical axis of values from zero; it is logarithmic where only that shows them all."""
    figure.update_yaxes(title_text=axis_title(quantity, unit), rangemode="tozero", **more)
    if is_wide(values):
        figure.update_yaxes(**scaled(values), **more)


def clock_of(span: float) -> tuple[str, float]:
    """Give the unit for a span of seconds, and how many seconds it has."""
    return next((name, size) for name, size, least in _CLOCKS if span >= least)


def counting_axis(figure: go.Figure, title: str, last: int) -> None:
    """Title a horizontal axis of numbers from 0 to ``last``: few of them get a tick each, and nothing lies between."""
    figure.update_xaxes(title_text=title, range=[-0.7, last + 0.7], tick0=0, dtick=1 if last < 12 else None)


def marks(
    figure: go.Figure,
    points: Iterable[tuple[float, float | None, str]],
    name: str,
    colour: str,
    symbol: str = "circle",
    size: int = 9,
    **more: Any,
) -> None:
    """Draw points, each at x and y with a text of HTML that is shown when it is pointed at."""
    points = list(points)
    figure.add_scatter(
        x=[x for x, _, _ in points], y=[y for _, y, _ in points], text=[text for _, _, text in points], mode="markers",
        name=name, hovertemplate="%{text}<extra></extra>", marker={"color": colour, "symbol": symbol, "size": size},
        **more,
    )  # fmt: skip


def curve(
    figure: go.Figure,
    points: Iterable[tuple[float | None, float | None]],
    name: str = "",
    *,
    colour: str,
    dash: str = "solid",
    width: float = 2,
    **more: Any,
) -> None:
    """Draw a line through points, which says nothing when it is pointed at; one without a name is in no legend."""
    points = list(points)
    named = {"name": name} if name else {"showlegend": False}
    figure.add_scatter(
        x=[x for x, _ in points], y=[y for _, y in points], mode="lines", hoverinfo="skip",
        line={"color": colour, "dash": dash, "width": width}, **named, **more,
    )  # fmt: skip


def medians(figure: go.Figure, last: float, unit: str, default: float | None, reference: float | None) -> None:
    """Draw the medians of the default, and of the runs without the component, over the whole width."""
    for value, name, colour, dash in (
        (default, "default, median", ORANGE, "dash"),
        (reference, "without the component, median", PURPLE, "dot"),
    ):
        if value is not None:
            title = f"{name}: {number(value, escape_text(unit))}"
            curve(figure, [(-0.7, value), (last + 0.7, value)], title, colour=colour, dash=dash)
