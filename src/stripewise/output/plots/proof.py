"""The proof and its price: confirmation pairs, the default's control chart, the cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from stripewise.output.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    axis_title,
    blank,
    clock_of,
    curve,
    lines,
    marks,
    number,
    plain,
    template,
    value_axis,
    wide,
)
from stripewise.result import Interval


@dataclass(frozen=True)
class PairPoint:
    """A pair of the confirmation.

    Attributes
    ----------
    pair : int
    default, candidate : float or None
        Values; None where the run failed.
    first : str
        The arm that ran first.
    """

    pair: int
    default: float | None
    candidate: float | None
    first: str = ""

    def speedup(self, maximize: bool) -> float | None:
        """How many times better the candidate was, or None."""
        if not self.default or not self.candidate:
            return None
        return self.candidate / self.default if maximize else self.default / self.candidate


@dataclass(frozen=True)
class ChartPoint:
    """A run of the default in the control chart.

    Attributes
    ----------
    when : float
        Seconds since the session began.
    value : float
    label : str
    rules : tuple of str
        The rules that it breaks, in words.
    """

    when: float
    value: float
    label: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """Centre and limits of a control chart."""

    centre: float
    low: float
    high: float


def confirmation(
    pairs: Sequence[PairPoint],
    *,
    quantity: str,
    unit: str,
    maximize: bool,
    estimate: float | None = None,
    interval: Interval | None = None,
    minimum_effect: float = 1.0,
) -> go.Figure:
    """Draw the pairs of default and candidate, and the speed-up with its interval beneath.

    Parameters
    ----------
    pairs : sequence of PairPoint
    quantity, unit, maximize
        The objective.
    estimate, interval : float, Interval
        Of the speed-up, where known.
    minimum_effect : float
        What the interval's lower bound has to exceed.
    """
    figure = make_subplots(rows=2, row_heights=[0.68, 0.32], vertical_spacing=0.2)
    figure.update_layout(template=template(), height=420, title_text="Default against candidate, pair by pair")
    for arm, colour, symbol in (("default", ORANGE, "diamond"), ("candidate", GREEN, "triangle-up")):
        own = [(p.pair + 1, value, _pair_label(p, arm, unit)) for p in pairs if (value := getattr(p, arm)) is not None]
        marks(figure, own, arm, colour, symbol, 10, row=1, col=1)
    whole = [p for p in pairs if p.default is not None and p.candidate is not None]
    bars = [end for p in whole for end in ((p.pair + 1, p.default), (p.pair + 1, p.candidate), (None, None))]
    curve(figure, bars, colour=GREY, width=1, row=1, col=1)
    for p in pairs:
        if p not in whole:
            figure.add_annotation(
                x=p.pair + 1, y=0.02, yref="y domain", text="failed", textangle=-90, showarrow=False, yanchor="bottom"
            )
    figure.update_xaxes(title_text="pair", dtick=max(1, math.ceil(len(pairs) / 12)), row=1, col=1)
    shown = [value for p in whole for value in (p.default or 0.0, p.candidate or 0.0)]
    value_axis(figure, quantity, unit, shown, row=1, col=1)
    _ratios(figure, pairs, maximize, estimate, interval, minimum_effect)
    return figure


def _pair_label(point: PairPoint, arm: str, unit: str) -> str:
    order = f" (ran {'first' if point.first == arm else 'second'})" if point.first else ""
    return f"<b>pair {point.pair + 1}</b>, {arm}{order}: {number(getattr(point, arm), plain(unit))}"


def _ratios(
    figure: go.Figure,
    pairs: Sequence[PairPoint],
    maximize: bool,
    estimate: float | None,
    interval: Interval | None,
    minimum_effect: float,
) -> None:
    ratios = [(p.pair + 1, ratio) for p in pairs if (ratio := p.speedup(maximize)) is not None]
    told = [(ratio, 0.75, f"pair {pair}: {ratio:.3g} times") for pair, ratio in ratios]
    marks(figure, told, "speed-up of a pair", GREY, "line-ns-open", 14, marker_line_width=2, row=2, col=1)
    if estimate is not None:
        low, high = (interval.low, interval.high) if interval is not None else (estimate, estimate)
        name = f"speed-up with its {interval.percent} interval" if interval is not None else "speed-up"
        spread = {
            "type": "data", "symmetric": False, "array": [high - estimate], "arrayminus": [estimate - low],
            "color": BLUE, "thickness": 3, "width": 8,
        }  # fmt: skip
        point = (estimate, 0.25, f"speed-up {estimate:.3g}, interval {low:.3g} to {high:.3g}")
        marks(figure, [point], name, BLUE, "square", 11, error_x=spread, row=2, col=1)
    figure.add_vline(x=1, line={"color": ORANGE, "width": 2, "dash": "dash"}, row=2, col=1)
    if minimum_effect > 1:
        figure.add_vline(x=minimum_effect, line={"color": GREY, "width": 2, "dash": "dot"}, row=2, col=1)
    bounds = [
        1.0,
        minimum_effect,
        *(ratio for _, ratio in ratios),
        *((interval.low, interval.high) if interval is not None else ()),
    ]
    low_edge, high_edge = min(bounds), max(bounds)
    logarithmic = wide(bounds)
    required = f"; dotted: the required {minimum_effect:g}" if minimum_effect > 1 else ""
    figure.update_xaxes(
        title_text=f"speed-up (1 = as the default{required})",
        type="log" if logarithmic else "linear",
        range=None if logarithmic else [low_edge - 0.06 * (high_edge - low_edge + 0.1), high_edge * 1.05],
        row=2,
        col=1,
    )
    figure.update_yaxes(visible=False, range=[0, 1], fixedrange=True, row=2, col=1)


def control_chart(points: Sequence[ChartPoint], limits: Limits | None, *, quantity: str, unit: str) -> go.Figure:
    """Draw the default's runs over the session, with centre and limits, which shows a machine that changed.

    Parameters
    ----------
    points : sequence of ChartPoint
        In order of time.
    limits : Limits or None
        None where there are too few runs for any.
    quantity, unit : str
        The objective.
    """
    figure = blank("The default over the session: was it the machine?", 380)
    span = max((p.when for p in points), default=0.0)
    clock, step = clock_of(span)
    curve(figure, [(p.when / step, p.value) for p in points], colour=GREY, width=1)
    for broken, name, colour, symbol in (
        (False, "run of the default", ORANGE, "diamond"),
        (True, "out of the ordinary", PURPLE, "x"),
    ):
        own = [p for p in points if bool(p.rules) is broken]
        if own:
            told = [(p.when / step, p.value, f"<b>{number(p.value, plain(unit))}</b><br>{_chart_text(p)}") for p in own]
            marks(figure, told, name, colour, symbol, 12 if broken else 9)
    if limits is not None and points:
        ends = [points[0].when / step, points[-1].when / step]
        for name, dash, heights in (
            (f"centre {number(limits.centre)}", "solid", [limits.centre]),
            (f"limits {number(limits.low)} and {number(limits.high)}", "dash", [limits.low, limits.high]),
        ):
            bars = [end for height in heights for end in ((ends[0], height), (ends[1], height), (None, None))]
            curve(figure, bars, name, colour=BLUE, dash=dash, width=1.5)
    figure.update_xaxes(title_text=f"{clock} since the first run")
    figure.update_yaxes(title_text=axis_title(quantity, unit))
    return figure


def _chart_text(point: ChartPoint) -> str:
    return lines("\n".join((point.label, *point.rules)))


def cost(seconds: Mapping[str, float], launches: Mapping[str, int]) -> go.Figure:
    """Draw where the time went.

    Parameters
    ----------
    seconds : mapping
        Kind of run to the seconds that it took in all, in the order to be shown.
    launches : mapping
        Kind of run to the number of launches; kinds without launches (waiting, starting) are left out.
    """
    names = list(reversed([name for name in seconds if seconds[name] > 0 or launches.get(name)]))
    figure = blank("Where the time went", 150 + 34 * len(names))
    figure.add_bar(
        x=[seconds[name] for name in names],
        y=[plain(name) for name in names],
        orientation="h",
        marker={"color": BLUE},
        text=[number(seconds[name], "s") + _launches(launches.get(name)) for name in names],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    top = max([*seconds.values(), 1e-9])
    figure.update_xaxes(title_text="seconds", range=[0, 1.9 * top])
    return figure


def _launches(count: int | None) -> str:
    # On a line of its own: beside the longest bar a narrow screen has no room for both.
    return f"<br>{count} launch{'' if count == 1 else 'es'}" if count else ""
