"""What was tried: parameters and their importance, trials and values, and the places where runs were.

Repeats are drawn apart or taken together. Storage targets and nodes are coloured by what the runs on them reached.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.output.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    axis_title,
    blank,
    counting_axis,
    curve,
    lines,
    marks,
    medians,
    number,
    plain,
    value_axis,
    wide,
)
from stripewise.output.plots.style import lines as breaks

WORST_TO_BEST = ((0.0, "#c2702a"), (0.5, "#85888d"), (1.0, BLUE))
"""Colours along which the objective improves."""


_MOST_LINES = 200
_MOST_LABELS = 9


@dataclass(frozen=True)
class Axis:
    """An axis of the parallel coordinates.

    Attributes
    ----------
    name : str
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
    value : float
    label : str
    best : bool
        Whether to stress it.
    """

    levels: Sequence[int]
    value: float
    label: str
    best: bool = False


def parallel_coordinates(
    axes: Sequence[Axis], lines: Sequence[Line], *, quantity: str, unit: str, maximize: bool, even: bool = False
) -> go.Figure:
    """Draw each configuration as a line over the parameters, coloured by the objective.

    It is made of plain lines rather than of Plotly's own trace, which needs WebGL: remote desktops often have none.

    Parameters
    ----------
    axes : sequence of Axis
    lines : sequence of Line
        At most 200 of them are drawn.
    quantity, unit : str
        The objective.
    maximize : bool
    even : bool
        Draw an even sample of them by value, from the worst to the best, instead of the best ones.
    """
    sign = 1 if maximize else -1
    ranked = sorted(lines, key=lambda line: sign * line.value)
    chosen, which = ranked[-_MOST_LINES:], "the best "
    if even and len(ranked) > _MOST_LINES:
        last = len(ranked) - 1
        chosen, which = [ranked[round(place * last / (_MOST_LINES - 1))] for place in range(_MOST_LINES)], ""
    more = f", {which}{len(chosen)} of {len(lines)}" if len(chosen) < len(lines) else ""
    figure = blank(f"What was tried{more}", 440)
    values = [line.value for line in chosen]
    logarithmic = wide(values)
    scaled = [math.log10(value) if logarithmic else value for value in values]
    low, high = (min(scaled), max(scaled)) if scaled else (0.0, 1.0)
    for index, (line, place) in enumerate(zip(chosen, scaled, strict=True)):
        goodness = 0.5 if high == low else (place - low) / (high - low)
        goodness = goodness if maximize else 1 - goodness
        # Lines that share levels are spread a little, so that their number shows.
        shift = ((index * 0.618034) % 1 - 0.5) * 0.03
        figure.add_scatter(
            x=list(range(len(axes))),
            y=[_height(level, axis) + shift for level, axis in zip(line.levels, axes, strict=True)],
            mode="lines+markers" if line.best else "lines",
            line={"color": _blend(goodness), "width": 4 if line.best else 1.6, "shape": "spline", "smoothing": 0.4},
            marker={"size": 9, "color": _blend(goodness)},
            opacity=1 if line.best else 0.35 + 0.5 * goodness,
            # For brushing: a page shows or fades a line by its levels.
            meta={"levels": list(line.levels), "opacity": 1 if line.best else 0.35 + 0.5 * goodness},
            text=[f"<b>{number(line.value, plain(unit))}</b><br>{breaks(line.label)}"] * len(axes),
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    for position, axis in enumerate(axes):
        figure.add_annotation(
            x=position, y=1.06, text=f"<b>{plain(axis.name)}</b>", showarrow=False, xanchor="left", yanchor="bottom",
            xshift=-8, font={"size": 11},
        )  # fmt: skip
        figure.add_vline(x=position, line={"color": GREY, "width": 1}, layer="below")
        step = math.ceil(len(axis.labels) / _MOST_LABELS)
        for level in range(0, len(axis.labels), step):
            figure.add_annotation(
                x=position, y=_height(level, axis), text=plain(axis.labels[level]), showarrow=False,
                xanchor="left", xshift=6, font={"size": 11},
            )  # fmt: skip
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
    maximize : bool
    """
    across, up = axes
    figure = blank("Two parameters together", 180 + 34 * len(up.labels))
    words = [["" if value is None else number(value) for value in row] for row in grid]
    logarithmic = wide([value for row in grid for value in row if value is not None])
    stops = WORST_TO_BEST if maximize else [(1 - place, colour) for place, colour in WORST_TO_BEST[::-1]]
    figure.add_heatmap(
        z=[[math.log10(value) if logarithmic and value else value for value in row] for row in grid],
        showscale=not logarithmic, text=words, texttemplate="%{text}", xgap=2, ygap=2, hoverongaps=False,
        colorscale=[list(stop) for stop in stops],
        textfont={"color": "#ffffff", "size": 11},
        hovertemplate=f"{plain(across.name)} %{{x}}, {plain(up.name)} %{{y}}: %{{text}} {plain(unit)}<extra></extra>",
        x=[plain(label) for label in across.labels], y=[plain(label) for label in up.labels],
        colorbar={"title": {"text": axis_title(quantity, unit), "side": "right"}, "thickness": 12, "outlinewidth": 0},
    )  # fmt: skip
    figure.update_xaxes(title_text=plain(across.name), type="category", showgrid=False)
    figure.update_yaxes(title_text=plain(up.name), type="category", showgrid=False)
    return figure


def _height(level: int, axis: Axis) -> float:
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


def importance(shares: Mapping[str, float], *, note: str = "", zero: str = "no measurable influence") -> go.Figure:
    """Draw each parameter's share of the variation that the parameters explain.

    Parameters
    ----------
    shares : mapping
        Parameter name to its share.
    note : str
        What to say beneath the title.
    zero : str
        What a share of 0 means.
    """
    names = sorted(shares, key=lambda name: shares[name])
    figure = blank("Which parameters matter" + (f"<br><sup>{plain(note)}</sup>" if note else ""), 140 + 30 * len(names))
    figure.add_bar(
        x=[shares[name] for name in names],
        y=[plain(name) for name in names],
        orientation="h",
        marker={"color": BLUE},
        text=[f"{shares[name]:.0%}" if shares[name] > 0 else zero for name in names],
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


_ROW = 32
_MOST_TEXTS = 96


@dataclass(frozen=True)
class Place:
    """A storage target or a node.

    Attributes
    ----------
    name : str
    values : sequence of float
        Of the objective, relative to the median of the same configuration: 1 is as usual, larger is better.
    slow : bool
        Whether runs on it are slower than chance allows.
    """

    name: str
    values: Sequence[float]
    slow: bool = False


def place_map(places: Sequence[Place], *, kind: str) -> go.Figure:
    """Draw one cell a storage target or node, coloured by what the runs that used it reached.

    Parameters
    ----------
    places : sequence of Place
    kind : str
        What they are, as a word: ``OST`` or ``node``.
    """
    width = min(max(len(places), 1), 16)
    rows = -(-len(places) // width) or 1
    figure = blank(f"{kind[:1].upper()}{kind[1:]}s used", 130 + 52 * rows)
    medians = [statistics.median(place.values) for place in places]
    grid: list[list[float | None]] = [[None] * width for _ in range(rows)]
    words: list[list[str]] = [[""] * width for _ in range(rows)]
    hover: list[list[str]] = [[""] * width for _ in range(rows)]
    for index, (place, median) in enumerate(zip(places, medians, strict=True)):
        row, column = divmod(index, width)
        grid[row][column] = median
        if len(places) <= _MOST_TEXTS:
            words[row][column] = f"{plain(place.name)}{'<br>slow' if place.slow else ''}"
        told = "; slower than chance allows" if place.slow else ""
        runs = f"{len(place.values)} run{'' if len(place.values) == 1 else 's'}"
        hover[row][column] = f"<b>{kind} {plain(place.name)}</b><br>{number(median)} of the usual, {runs}{told}"
    figure.add_heatmap(
        z=grid, text=words, texttemplate="%{text}", customdata=hover, hovertemplate="%{customdata}<extra></extra>",
        colorscale=[list(stop) for stop in WORST_TO_BEST], zmin=min([0.8, *medians]), zmax=max([1.2, *medians]),
        xgap=3, ygap=3, hoverongaps=False, textfont={"color": "#ffffff", "size": 11},
        colorbar={"title": {"text": "of the usual", "side": "right"}, "thickness": 12, "outlinewidth": 0},
    )  # fmt: skip
    for index, place in enumerate(places):
        if place.slow:
            row, column = divmod(index, width)
            figure.add_shape(
                type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.48, y1=row + 0.48,
                line={"color": ORANGE, "width": 3},
            )  # fmt: skip
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")
    return figure


def comparison(rows: Mapping[str, tuple[float, float | None, float | None, bool]]) -> go.Figure:
    """Draw the speed-ups of several experiments with their intervals.

    Parameters
    ----------
    rows : mapping
        Name to speed-up, the ends of its interval (None where unknown) and whether it is proven.
    """
    names = list(rows)[::-1]
    figure = blank("Speed-up over each experiment's own default", 120 + _ROW * max(len(names), 2))
    for proven, name, colour, symbol in (
        (True, "proven", WORST_TO_BEST[-1][1], "square"),
        (False, "not proven", ORANGE, "square-open"),
    ):
        own = [(index, key) for index, key in enumerate(names) if rows[key][3] is proven]
        if not own:
            continue
        figure.add_scatter(
            x=[rows[key][0] for _, key in own],
            y=[index for index, _ in own],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11},
            error_x={
                "type": "data", "symmetric": False, "color": colour, "thickness": 2.5, "width": 6,
                "array": [_or(rows[key][2], rows[key][0]) - rows[key][0] for _, key in own],
                "arrayminus": [rows[key][0] - _or(rows[key][1], rows[key][0]) for _, key in own],
            },
            text=[f"<b>{plain(key)}</b>: {number(rows[key][0])} times" for _, key in own],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=1, line={"color": ORANGE, "width": 2, "dash": "dash"})
    figure.update_xaxes(title_text="speed-up (1 = as the default)", rangemode="tozero")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[plain(name) for name in names], range=[-0.5, len(names) - 0.5]
    )
    return figure


def progress(curves: Mapping[str, Sequence[tuple[int, float]]], lasts: Mapping[str, int]) -> go.Figure:
    """Draw the best of each experiment over its runs, relative to its own default.

    Parameters
    ----------
    curves : mapping
        Name to run numbers and the speed-up of the best known after them.
    lasts : mapping
        Name to the number of its last run.
    """
    figure = blank("Best so far in the search", 380)
    dashes = ("solid", "dash", "dot", "dashdot", "longdash")
    for index, (name, steps) in enumerate(curves.items()):
        if steps:
            ends = [*steps, (max(lasts.get(name, 0), steps[-1][0]), steps[-1][1])]
            figure.add_scatter(
                x=[run for run, _ in ends], y=[value for _, value in ends], mode="lines", name=plain(name),
                line={"shape": "hv", "width": 2.5, "dash": dashes[index % len(dashes)]},
                hovertemplate="run %{x}: %{y:.3g}<extra>" + plain(name) + "</extra>",
            )  # fmt: skip
    figure.add_hline(y=1, line={"color": ORANGE, "width": 2, "dash": "dash"})
    counting_axis(figure, "run", max(lasts.values(), default=0))
    figure.update_yaxes(title_text="best so far (times the default)", rangemode="tozero")
    return figure


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


_ROLES = {
    "candidate": ("trial, median of its runs", BLUE, "circle"),
    "default": ("default", ORANGE, "diamond"),
    "reference": ("without the component", PURPLE, "square"),
}
_TRIED_MOST_LABELS = 24


@dataclass(frozen=True)
class TrialPoint:
    """A trial in a figure.

    Attributes
    ----------
    trial : int
    values : sequence of float
        Of its finished runs; at least one.
    role : str
        ``candidate``, ``default`` or ``reference``.
    label : str
        Its configuration.
    """

    trial: int
    values: Sequence[float]
    role: str = "candidate"
    label: str = ""

    @property
    def median(self) -> float:
        """Median of its runs."""
        return statistics.median(self.values)


@dataclass(frozen=True)
class LevelPoint:
    """A value of the objective at a level of a parameter.

    Attributes
    ----------
    level : int
        Index into the axis' labels.
    value : float
    label : str
    best : bool
        Whether to stress it.
    """

    level: int
    value: float
    label: str = ""
    best: bool = False


def trials(
    points: Sequence[TrialPoint],
    *,
    quantity: str,
    unit: str,
    maximize: bool,
    default: float | None = None,
    reference: float | None = None,
) -> go.Figure:
    """Draw each trial as the median of its runs, with the range of the runs.

    Parameters
    ----------
    points : sequence of TrialPoint
    quantity, unit : str
        The objective.
    maximize : bool
        Whether larger is better.
    default, reference : float or None
        Horizontal lines.
    """
    figure = blank(f"Each trial ({'higher' if maximize else 'lower'} is better)", 420)
    for role, (name, colour, symbol) in _ROLES.items():
        own = [p for p in points if p.role == role]
        if not own:
            continue
        spread = {
            "array": [max(p.values) - p.median for p in own], "arrayminus": [p.median - min(p.values) for p in own],
            "type": "data", "symmetric": False, "thickness": 1.5, "width": 4, "color": colour,
        }  # fmt: skip
        told = [(p.trial, p.median, _trial_text(p, unit)) for p in own]
        marks(figure, told, name, colour, symbol, error_y=spread)
    last = max((p.trial for p in points), default=0)
    medians(figure, last, unit, default, reference)
    counting_axis(figure, "trial", last)
    value_axis(figure, quantity, unit, [value for p in points for value in p.values])
    return figure


def _trial_text(point: TrialPoint, unit: str) -> str:
    runs = f"{len(point.values)} run{'' if len(point.values) == 1 else 's'}"
    return f"<b>trial {point.trial}</b>: {number(point.median, plain(unit))}, {runs}<br>{lines(point.label)}"


def by_level(
    axis: Axis, points: Sequence[LevelPoint], *, quantity: str, unit: str, default: float | None = None
) -> go.Figure:
    """Draw the objective over the values of one parameter, whatever the others were.

    Parameters
    ----------
    axis : Axis
        The parameter with all its values; those that were never tried are left out where there are many.
    points : sequence of LevelPoint
    quantity, unit : str
        The objective.
    default : float or None
        Horizontal line.
    """
    figure = blank(plain(axis.name), 300)
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
            told = [(x, p.value, f"<b>{number(p.value, plain(unit))}</b><br>{lines(p.label)}") for x, p in own]
            marks(figure, told, name, colour, symbol, size)
    middles = [(place[level], statistics.median(p.value for p in points if p.level == level)) for level in tried]
    curve(figure, middles, "median of a value", colour=GREY, dash="dot", width=1.5)
    if default is not None and shown:
        curve(figure, [(-0.5, default), (len(shown) - 0.5, default)], "default", colour=ORANGE, dash="dash")
    figure.update_xaxes(
        title_text=plain(axis.name),
        tickvals=list(range(len(shown))),
        ticktext=[plain(axis.labels[level]) for level in shown],
        range=[-0.5, max(len(shown), 1) - 0.5],
    )
    value_axis(figure, quantity, unit, [p.value for p in points])
    return figure
