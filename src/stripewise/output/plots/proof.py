"""The proof and its price: confirmation pairs, the default's control chart, the cost.

A control chart of the default over the session asks whether it was the machine. That is an individuals chart
(Shewhart): limits at three standard deviations from the centre, where the deviation is estimated from the mean moving
range, which a slow drift hardly widens. Performance varies by factors, so it is drawn up on logarithms.
"""

from __future__ import annotations

import math
import statistics
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
    clock_of,
    curve,
    escape_text,
    is_wide,
    make_figure,
    marks,
    number,
    scaled,
    template,
    value_axis,
)
from stripewise.result import Interval, LevelChange, PairOfRuns
from stripewise.trial import Run

_PROOF = "The proof compares runs side by side in time, which a slow change does not favour."
LEAST_RUNS = 8
"""With fewer runs the limits would be guesses."""

_MOVING_RANGE = 1.128  # expectation of the range of two standard normal values
_ONE_SIDE = 9
_TREND = 6


@dataclass(frozen=True)
class Control:
    """A control chart.

    Attributes
    ----------
    centre, low, high : float or None
        None where there are too few runs.
    rules : tuple of tuple of str
        For each value, the rules that it breaks, in words.
    """

    centre: float | None
    low: float | None
    high: float | None
    rules: tuple[tuple[str, ...], ...]

    @property
    def broken(self) -> list[int]:
        """Indices of values out of the ordinary."""
        return [index for index, rules in enumerate(self.rules) if rules]


def chart_control(values: Sequence[float]) -> Control:
    """Draw up the chart of values in order of time.

    By chance some rule is broken in 6% of steady log-normal series of 13 values, and in 13% of those of 24.
    """
    if len(values) < LEAST_RUNS:
        return Control(None, None, None, ((),) * len(values))
    positive = min(values) > 0
    scaled = [math.log(value) if positive else value for value in values]
    centre = statistics.fmean(scaled)
    sigma = statistics.fmean(abs(b - a) for a, b in zip(scaled, scaled[1:], strict=False)) / _MOVING_RANGE
    back = math.exp if positive else float
    deviations = [value - centre for value in scaled]
    rules = tuple(_rules(deviations, scaled, index, sigma) for index in range(len(values)))
    return Control(back(centre), back(centre - 3 * sigma), back(centre + 3 * sigma), rules)


def _rules(deviations: Sequence[float], scaled: Sequence[float], index: int, sigma: float) -> tuple[str, ...]:
    broken = []
    here = deviations[index]
    side = 1 if here > 0 else -1
    if abs(here) > 3 * sigma:
        broken.append("beyond the limits")
    lately = deviations[max(0, index - 2) : index + 1]
    if side * here > 2 * sigma and sum(side * d > 2 * sigma for d in lately) >= 2:
        broken.append("two of three near the same limit")
    row = deviations[max(0, index - _ONE_SIDE + 1) : index + 1]
    if len(row) == _ONE_SIDE and all(side * d > 0 for d in row):
        broken.append(f"{_ONE_SIDE} in a row on one side")
    steps = [b - a for a, b in zip(scaled[: index + 1], scaled[1 : index + 1], strict=False)][-(_TREND - 1) :]
    if len(steps) == _TREND - 1 and (all(s > 0 for s in steps) or all(s < 0 for s in steps)):
        broken.append(f"{_TREND} in a row {'rising' if steps[0] > 0 else 'falling'}")
    return tuple(broken)


def explain_control(chart: Control, runs: Sequence[int], span: str, changes: Sequence[LevelChange] = ()) -> str:
    """Answer the question in words.

    Parameters
    ----------
    runs : sequence of int
        The runs' numbers.
    span : str
        The time from the first to the last.
    changes : sequence of LevelChange
        Those of the machine that the search saw, in the runs of all configurations.
    """
    if changes:
        told = " ".join(change.sentence for change in changes)
        return f"Yes, it changed during the search. {told} {_PROOF}"
    if chart.centre is None:
        return (
            f"Cannot be told: the default ran {len(runs)} times, and {LEAST_RUNS} runs are the least for a judgement."
        )
    if not chart.broken:
        return (
            f"Probably not: {len(runs)} runs of the default over {span} stay within their own limits; "
            "nothing suggests that the machine changed."
        )
    told = "; ".join(f"run {runs[index]}: {', '.join(chart.rules[index])}" for index in chart.broken[:4])
    more = f"; and {len(chart.broken) - 4} more" if len(chart.broken) > 4 else ""
    return f"It may have changed: the default itself does not stay within what chance allows ({told}{more}). {_PROOF}"


def confirmation(
    pairs: Sequence[PairOfRuns],
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


def _pair_label(point: PairOfRuns, arm: str, unit: str) -> str:
    order = f" (ran {'first' if point.first == arm else 'second'})" if point.first else ""
    return f"<b>pair {point.pair + 1}</b>, {arm}{order}: {number(getattr(point, arm), escape_text(unit))}"


def _ratios(
    figure: go.Figure,
    pairs: Sequence[PairOfRuns],
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
    logarithmic = is_wide(bounds)
    required = f"; dotted: the required {minimum_effect:g}" if minimum_effect > 1 else ""
    figure.update_xaxes(
        title_text=f"times the default{required}",
        **scaled(bounds),
        range=None if logarithmic else [low_edge - 0.06 * (high_edge - low_edge + 0.1), high_edge * 1.05],
        row=2,
        col=1,
    )
    figure.update_yaxes(visible=False, range=[0, 1], fixedrange=True, row=2, col=1)


def control_chart(
    runs: Sequence[Run], moments: Sequence[float], chart: Control, *, quantity: str, unit: str
) -> go.Figure:
    """Draw the default's runs over the session, with centre and limits, which shows a machine that changed.

    Parameters
    ----------
    runs : sequence of Run
        Of the default, in order of time; each with a value.
    moments : sequence of float
        Seconds from the beginning of the session to each.
    chart : Control
        Of their values.
    quantity, unit : str
        The objective.
    """
    figure = make_figure("The default over the session: was it the machine?", 380)
    clock, step = clock_of(max(moments, default=0.0))
    points = [(when / step, float(run.value or 0.0)) for run, when in zip(runs, moments, strict=True)]
    curve(figure, points, colour=GREY, width=1)
    for broken, name, colour, symbol in (
        (False, "run of the default", ORANGE, "diamond"),
        (True, "out of the ordinary", PURPLE, "x"),
    ):
        own = [
            (
                x,
                y,
                f"<b>{number(y, escape_text(unit))}</b><br>"
                f"{'<br>'.join(map(escape_text, (f'run {run.number}', *rules)))}",
            )
            for (x, y), run, rules in zip(points, runs, chart.rules, strict=True)
            if bool(rules) is broken
        ]
        if own:
            marks(figure, own, name, colour, symbol, 12 if broken else 9)
    if chart.centre is not None and chart.low is not None and chart.high is not None:
        ends = [points[0][0], points[-1][0]]
        for name, dash, heights in (
            (f"centre {number(chart.centre)}", "solid", [chart.centre]),
            (f"limits {number(chart.low)} and {number(chart.high)}", "dash", [chart.low, chart.high]),
        ):
            bars = [end for height in heights for end in ((ends[0], height), (ends[1], height), (None, None))]
            curve(figure, bars, name, colour=BLUE, dash=dash, width=1.5)
    figure.update_xaxes(title_text=f"{clock} since the first run")
    figure.update_yaxes(title_text=axis_title(quantity, unit))
    return figure


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
    figure = make_figure("Where the time went", 150 + 34 * len(names))
    figure.add_bar(
        x=[seconds[name] for name in names],
        y=[escape_text(name) for name in names],
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
