"""What was tried, trial by trial and value by value: repeats apart or taken together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.output.plots.parameters import Axis
from stripewise.output.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PURPLE,
    blank,
    counting_axis,
    curve,
    lines,
    marks,
    medians,
    number,
    plain,
    value_axis,
)

_ROLES = {
    "candidate": ("trial, median of its runs", BLUE, "circle"),
    "default": ("default", ORANGE, "diamond"),
    "reference": ("without the component", PURPLE, "square"),
}
_MOST_LABELS = 24


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
        told = [(p.trial, p.median, _told(p, unit)) for p in own]
        marks(figure, told, name, colour, symbol, error_y=spread)
    last = max((p.trial for p in points), default=0)
    medians(figure, last, unit, default, reference)
    counting_axis(figure, "trial", last)
    value_axis(figure, quantity, unit, [value for p in points for value in p.values])
    return figure


def _told(point: TrialPoint, unit: str) -> str:
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
    shown = tried if len(axis.labels) > _MOST_LABELS else list(range(len(axis.labels)))
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
