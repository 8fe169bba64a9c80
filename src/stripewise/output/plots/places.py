"""Where runs took place: storage targets and nodes, coloured by what the runs on them reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.output.plots.parameters import WORST_TO_BEST
from stripewise.output.plots.style import ORANGE, blank, counting_axis, number, plain

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
