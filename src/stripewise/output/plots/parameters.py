"""What was tried: parameters and their importance, trials and values. Repeats are drawn apart or taken together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from stripewise.output.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    axis_title,
    counting_axis,
    curve,
    escape_text,
    is_wide,
    lines,
    make_figure,
    marks,
    medians,
    number,
    value_axis,
)
from stripewise.sizes import count_of
from stripewise.trial import Trial

WORST_TO_BEST = ((0.0, "#c2702a"), (0.5, "#85888d"), (1.0, BLUE))
"""Colours along which the objective improves."""


_MOST_LINES = 200
_MOST_LABELS = 9


@dataclass(frozen=True)
class Axis:
    """An axis of the parallel coordinates.

    Attributes
    ----------
    labels : sequence of str
        All values from bottom to top, as written on the axis.
    """

    name: str
    labels: Sequence[str]


@dataclass(frozen=True)
class Line:
    """A configuration in the parallel coordinates.

    Attributes
    ----------
    levels : sequence of int
        Index of the value on each axis.
    best : bool
        Whether to stress it.
    """

    levels: Sequence[int]
    value: float
    label: str
    best: bool = False


def parallel_coordinates(
    axes: Sequence[Axis], tried: Sequence[Line], *, quantity: str, unit: str, maximize: bool, even: bool = False
) -> go.Figure:
    """Draw each configuration as a line over the parameters, coloured by the objective.

    It is made of plain lines rather than of Plotly's own trace, which needs WebGL: remote desktops often have none.

    Parameters
    ----------
    tried : sequence of Line
        At most 200 of them are drawn.
    quantity, unit : str
        The objective.
    even : bool
        Draw an even sample of them by value, from the worst to the best, instead of the best ones.
    """
    sign = 1 if maximize else -1
    ranked = sorted(tried, key=lambda line: sign * line.value)
    chosen, which = ranked[-_MOST_LINES:], "the best "
    if even and len(ranked) > _MOST_LINES:
        last = len(ranked) - 1
        chosen, which = [ranked[round(place * last / (_MOST_LINES - 1))] for place in range(_MOST_LINES)], ""
    more = f", {which}{len(chosen)} of {len(tried)}" if len(chosen) < len(tried) else ""
    figure = make_figure(f"What was tried{more}", 440)
    values = [line.value for line in chosen]
    logarithmic = is_wide(values)
    scaled = [math.log10(value) if logarithmic else value for value in values]
    low, high = (min(scaled), max(scaled)) if scaled else (0.0, 1.0)
    for index, (line, place) in enumerate(zip(chosen, scaled, strict=True)):
        goodness = 0.5 if high == low else (place - low) / (high - low)
        goodness = goodness if maximize else 1 - goodness
        # Lines that share levels are spread a little, so that their number shows.
        shift = ((index * 0.618034) % 1 - 0.5) * 0.03
        figure.add_scatter(
            x=list(range(len(axes))),
            y=[_place_level(level, axis) + shift for level, axis in zip(line.levels, axes, strict=True)],
            mode="lines+markers" if line.best else "lines",
            line={"color": _blend(goodness), "width": 4 if line.best else 1.6, "shape": "spline", "smoothing": 0.4},
            marker={"size": 9, "color": _blend(goodness)},
            opacity=1 if line.best else 0.35 + 0.5 * goodness,
            # For brushing: a page shows or fades a line by its levels.
            meta={"levels": list(line.levels), "opacity": 1 if line.best else 0.35 + 0.5 * goodness},
            text=[f"<b>{number(line.value, escape_text(unit))}</b><br>{lines(line.label)}"] * len(axes),
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    # All at once: Plotly checks those before again with each one that is added.
    notes: list[dict[str, Any]] = []
    for position, axis in enumerate(axes):
        note = {"x": position, "showarrow": False, "xanchor": "left", "font": {"size": 11}}
        title = f"<b>{escape_text(axis.name)}</b>"
        notes.append({**note, "y": 1.06, "text": title, "yanchor": "bottom", "xshift": -8})
        figure.add_vline(x=position, line={"color": GREY, "width": 1}, layer="below")
        step = math.ceil(len(axis.labels) / _MOST_LABELS)
        for level in range(0, len(axis.labels), step):
            text = escape_text(axis.labels[level])
            notes.append({**note, "y": _place_level(level, axis), "text": text, "xshift": 6})
    figure.update_layout(annotations=notes)
    if values:
        _colour_bar(figure, (low, high), maximize, logarithmic, axis_title(quantity, unit))
    figure.update_xaxes(visible=False, range=[-0.05, len(axes) - 0.4])
    figure.update_yaxes(visible=False, range=[-0.06, 1.06])
    # What a page with less room than this has to scroll.
    named = [{"name": axis.name, "labels": list(axis.labels)} for axis in axes]
    figure.update_layout(meta={"least_width": 150 * len(axes) + 110, "axes": named})
    return figure


def contour(
    axes: Sequence[Axis], grid: Sequence[Sequence[float | None]], *, quantity: str, unit: str, maximize: bool
) -> go.Figure:
    """Draw the best that was measured at each pair of values of two parameters.

    Parameters
    ----------
    axes : sequence of two Axis
        To the right and upwards.
    grid : sequence of sequences of float or None
        A row for each value of the second; None where the pair was not tried.
    quantity, unit : str
        The objective.
    """
    across, up = axes
    figure = make_figure("Two parameters together", 180 + 34 * len(up.labels))
    words = [["" if value is None else number(value) for value in row] for row in grid]
    logarithmic = is_wide([value for row in grid for value in row if value is not None])
    stops = WORST_TO_BEST if maximize else [(1 - place, colour) for place, colour in WORST_TO_BEST[::-1]]
    figure.add_heatmap(
        z=[[math.log10(value) if logarithmic and value else value for value in row] for row in grid],
        showscale=not logarithmic, text=words, texttemplate="%{text}", xgap=2, ygap=2, hoverongaps=False,
        colorscale=[list(stop) for stop in stops],
        textfont={"color": "#ffffff", "size": 11},
        hovertemplate=f"{escape_text(across.name)} %{{x}}, {escape_text(up.name)} %{{y}}: "
        f"%{{text}} {escape_text(unit)}<extra></extra>",
        x=[escape_text(label) for label in across.labels], y=[escape_text(label) for label in up.labels],
        colorbar={"title": {"text": axis_title(quantity, unit), "side": "right"}, "thickness": 12, "outlinewidth": 0},
    )  # fmt: skip
    figure.update_xaxes(title_text=escape_text(across.name), type="category", showgrid=False)
    figure.update_yaxes(title_text=escape_text(up.name), type="category", showgrid=False)
    return figure


def _place_level(level: int, axis: Axis) -> float:
    return 0.5 if len(axis.labels) < 2 else level / (len(axis.labels) - 1)


def _blend(goodness: float) -> str:
    """Colour between worst (0) and best (1)."""
    (at, start), (to, end) = WORST_TO_BEST[:2] if goodness < 0.5 else WORST_TO_BEST[1:]
    share = (goodness - at) / (to - at)
    channels = [
        round(int(start[i : i + 2], 16) * (1 - share) + int(end[i : i + 2], 16) * share) for i in (1, 3, 5)
    ]  # fmt: skip
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _colour_bar(figure: go.Figure, span: tuple[float, float], maximize: bool, logarithmic: bool, title: str) -> None:
    scale = [list(stop) for stop in WORST_TO_BEST]
    if not maximize:
        scale = [[1 - place, colour] for place, colour in reversed(WORST_TO_BEST)]
    low, high = span
    ticks = [low + (high - low) * step / 4 for step in range(5)] if high > low else [low]
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        showlegend=False,
        hoverinfo="skip",
        marker={
            "color": [low],
            "cmin": low,
            "cmax": high if high > low else low + 1,
            "colorscale": scale,
            "colorbar": {
                "title": {"text": title, "side": "right"},
                "thickness": 12,
                "outlinewidth": 0,
                "tickvals": ticks,
                "ticktext": [number(10**tick if logarithmic else tick) for tick in ticks],
            },
        },
    )


def importance(shares: Mapping[str, float], *, single: Collection[str] = (), note: str = "") -> go.Figure:
    """Draw each parameter's share of the variation that the parameters explain.

    Parameters
    ----------
    shares : mapping
        Parameter name to its share.
    single : collection of str
        Those that were measured with one value only, of whose influence nothing is known.
    note : str
        What to say beneath the title.
    """
    names = sorted(shares, key=lambda name: shares[name])
    figure = make_figure(
        "Which parameters matter" + (f"<br><sup>{escape_text(note)}</sup>" if note else ""), 140 + 30 * len(names)
    )
    figure.add_bar(
        x=[shares[name] for name in names],
        y=[escape_text(name) for name in names],
        orientation="h",
        marker={"color": BLUE},
        text=[
            f"{shares[name]:.0%}"
            if shares[name] > 0
            else "only one value measured"
            if name in single
            else "no measurable influence"
            for name in names
        ],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    top = max([*shares.values(), 0.1])
    figure.update_xaxes(
        title_text="share of explained variation",
        tickformat=".0%",
        range=[0, 1.5 * top],
        tickvals=[step / 5 for step in range(6)],
    )
    return figure


_ROLES = {
    "candidate": ("trial, median of its runs", BLUE, "circle"),
    "default": ("default", ORANGE, "diamond"),
    "reference": ("without the component", PURPLE, "square"),
}
_TRIED_MOST_LABELS = 24


@dataclass(frozen=True)
class LevelPoint:
    """A value of the objective at a level of a parameter.

    Attributes
    ----------
    level : int
        Index into the axis' labels.
    best : bool
        Whether to stress it.
    """

    level: int
    value: float
    label: str = ""
    best: bool = False


def trials(
    found: Sequence[Trial],
    describe: Callable[[Trial], str],
    *,
    quantity: str,
    unit: str,
    maximize: bool,
    default: float | None = None,
    reference: float | None = None,
) -> go.Figure:
    """Draw each trial that has values as the median of its runs, with the range of the runs.

    Parameters
    ----------
    describe : callable
        Gives the words for what a trial changes.
    quantity, unit : str
        The objective.
    maximize : bool
        Whether larger is better.
    default, reference : float or None
        Horizontal lines.
    """
    figure = make_figure(f"Each trial ({'higher' if maximize else 'lower'} is better)", 420)
    points = [(trial, trial.values, float(trial.value or 0.0)) for trial in found if trial.values]
    for role, (name, colour, symbol) in _ROLES.items():
        own = [point for point in points if point[0].role == role]
        if not own:
            continue
        spread = {
            "array": [max(values) - median for _, values, median in own],
            "arrayminus": [median - min(values) for _, values, median in own],
            "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": colour,
        }  # fmt: skip
        told = [
            (
                trial.number,
                median,
                f"<b>trial {trial.number}</b>: {number(median, escape_text(unit))}, {count_of(len(values), 'run')}"
                f"<br>{lines(describe(trial))}",
            )
            for trial, values, median in own
        ]
        marks(figure, told, name, colour, symbol, error_y=spread)
    last = max((trial.number for trial, _, _ in points), default=0)
    medians(figure, last, unit, default, reference)
    counting_axis(figure, "trial", last)
    value_axis(figure, quantity, unit, [value for _, values, _ in points for value in values])
    return figure


def by_level(
    axis: Axis, points: Sequence[LevelPoint], *, quantity: str, unit: str, default: float | None = None
) -> go.Figure:
    """Draw the objective over the values of one parameter, whatever the others were.

    Parameters
    ----------
    axis : Axis
        The parameter with all its values; those that were never tried are left out where there are many.
    quantity, unit : str
        The objective.
    default : float or None
        Horizontal line.
    """
    figure = make_figure(escape_text(axis.name), 300)
    tried = sorted({p.level for p in points})
    shown = tried if len(axis.labels) > _TRIED_MOST_LABELS else list(range(len(axis.labels)))
    place = {level: index for index, level in enumerate(shown)}
    seen: dict[int, int] = {}
    xs = []
    for p in points:
        # Values at one level are spread a little, so that their number shows.
        seen[p.level] = seen.get(p.level, -1) + 1
        xs.append(place[p.level] + ((seen[p.level] * 0.618034) % 1 - 0.5) * 0.35)
    for best, name, colour, symbol, size in (
        (False, "tried", BLUE, "circle-open", 8),
        (True, "best", PURPLE, "star", 14),
    ):
        own = [(x, p) for x, p in zip(xs, points, strict=True) if p.best is best]
        if own:
            told = [(x, p.value, f"<b>{number(p.value, escape_text(unit))}</b><br>{lines(p.label)}") for x, p in own]
            marks(figure, told, name, colour, symbol, size)
    middles = [(place[level], statistics.median(p.value for p in points if p.level == level)) for level in tried]
    curve(figure, middles, "median of a value", colour=GREY, dash="dot", width=1.5)
    if default is not None and shown:
        curve(figure, [(-0.5, default), (len(shown) - 0.5, default)], "default", colour=ORANGE, dash="dash")
    figure.update_xaxes(
        title_text=escape_text(axis.name),
        tickvals=list(range(len(shown))),
        ticktext=[escape_text(axis.labels[level]) for level in shown],
        range=[-0.5, max(len(shown), 1) - 0.5],
    )
    value_axis(figure, quantity, unit, [p.value for p in points])
    return figure
