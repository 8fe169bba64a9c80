"""A still picture of the trajectory, as SVG written by hand: no browser and no further package is needed.

It follows the light or dark look of the page that shows it.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from stripewise.errors import UserError
from stripewise.plots import RunPoint
from stripewise.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, number, wide
from stripewise.plots.trajectory import confirmation_start
from stripewise.report.html import write_whole
from stripewise.report.markup import capitalised
from stripewise.report.reading import Reading
from stripewise.spec.trial import Trial
from stripewise.store.base import Record

_WIDTH, _HEIGHT = 880, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 20, 92, 48
_STYLE = """
text { font-family: system-ui, -apple-system, 'Segoe UI', sans-serif; font-size: 13px; fill: #23282f; }
.soft { fill: #555d67; } .title { font-size: 16px; font-weight: 600; } .grid { stroke: #dde1e6; }
@media (prefers-color-scheme: dark) {
  text { fill: #dfe3e8; } .soft { fill: #a4adb7; } .grid { stroke: #333b45; }
}
"""
_KINDS = {
    "warmup": "warm-up",
    "search": "search",
    "default": "default",
    "reference": "without the component",
    "confirmation": "candidate, confirmation",
    "pruned": "stopped early",
    "failed": "failed",
}


def write_trajectory(record: Record, trials: Sequence[Trial], path: Path) -> None:
    """Write the trajectory of a finished experiment as a picture, whole or not at all.

    Raises
    ------
    UserError
        If the experiment has no result.
    StripewiseError
        If the file cannot be written.
    """
    write_whole(path, render_trajectory(record, trials))


def render_trajectory(record: Record, trials: Sequence[Trial]) -> str:
    """Draw the trajectory of a finished experiment.

    Raises
    ------
    UserError
        If the experiment has no result.
    """
    if record.result is None:
        raise UserError(f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}")
    reading = Reading(record, trials)
    points = reading.points()
    default = reading.result["default"].get("value")
    axes = _Axes(points, default)
    last = max((point.run for point in points), default=1)
    steps = reading.incumbent()
    parts = [
        *_confirmation(axes, points, last),
        *_grid(axes, last),
        *_default(axes, default),
        *_incumbent(axes, steps, last),
        *(mark for point in points for mark in [_mark(axes, point, reading.maximize)] if mark),
        *_legend(points),
    ]
    better = "higher" if reading.maximize else "lower"
    unit = f" ({reading.unit})" if reading.unit else ""
    simulated = "Simulated. " if reading.result.get("simulated") else ""
    title = html.escape(simulated + reading.result["verdict"])
    dashed = "" if default is None else f"; dashed: the default's median, {number(default, reading.unit)}"
    measured = capitalised(reading.quantity.replace("_", " "))
    quantity = html.escape(f"{measured}{unit} of each run; {better} is better{dashed}")
    heads = textwrap.wrap(simulated + reading.result["verdict"], 96)
    # A long verdict takes more lines, and the drawing moves down by them.
    shift = 21 * (len(heads) - 1)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + shift}" role="img" '
            'aria-labelledby="title desc">',
            f'<title id="title">{title}</title>',
            f'<desc id="desc">{quantity}, in order: {len(points)} runs.</desc>',
            f"<style>{_STYLE}</style>",
            *(
                f'<text class="title" x="{_LEFT}" y="{24 + 21 * i}">{html.escape(s)}</text>'
                for i, s in enumerate(heads)
            ),
            f'<g transform="translate(0 {shift})">',
            f'<text class="soft" x="{_LEFT}" y="45">{quantity}</text>',
            *parts,
            f'<text class="soft" x="{middle:g}" y="{_HEIGHT - 10}" text-anchor="middle">run</text>',
            "</g>",
            "</svg>\n",
        ]
    )


class _Axes:
    """Places of runs and values in the picture."""

    def __init__(self, points: Sequence[RunPoint], default: float | None) -> None:
        values = [p.value for p in points if p.value is not None] + ([default] if default is not None else [])
        self.logarithmic = wide(values)
        top = max(values, default=1.0)
        low, high = (min(values), top) if self.logarithmic else (min(0.0, min(values, default=0.0)), top)
        self.ticks = _decades(low, high) if self.logarithmic else _rounds(low, high)
        self._low, self._high = self._scale(min(self.ticks[0], low)), self._scale(max(self.ticks[-1], high))
        self._last = max((p.run for p in points), default=1) or 1

    def _scale(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def x(self, run: float) -> float:
        inner = _WIDTH - _LEFT - _RIGHT - 20
        return round(_LEFT + 10 + inner * run / self._last, 1)

    def y(self, value: float) -> float:
        share = (self._scale(value) - self._low) / ((self._high - self._low) or 1)
        return round(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM), 1)


def _rounds(low: float, high: float) -> list[float]:
    """Four to eight round numbers that span an interval."""
    rough = (high - low) / 5 or 1.0
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [round(i * step, 12) for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [factor * 10.0**e for e in exponents for factor in (1, 3)]
    inside = [mark for mark in marks if low * 0.9 <= mark <= high * 1.1]
    return inside if len(inside) > 1 else [low, high]


def _grid(axes: _Axes, last: int) -> list[str]:
    lines = []
    for tick in axes.ticks:
        y = axes.y(tick)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4.5:g}" text-anchor="end">{number(tick)}</text>')
    for run in _rounds(0, last):
        if run <= last and run == int(run):
            lines.append(f'<text x="{axes.x(run)}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{run:.0f}</text>')
    return lines


def _default(axes: _Axes, default: float | None) -> list[str]:
    if default is None:
        return []
    y = axes.y(default)
    return [
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="{ORANGE}" stroke-width="2" '
        'stroke-dasharray="7 5"/>',
    ]


def _incumbent(axes: _Axes, steps: Sequence[tuple[int, float]], last: int) -> list[str]:
    if not steps:
        return []
    path = f"M{axes.x(steps[0][0])} {axes.y(steps[0][1])}"
    path += "".join(f"H{axes.x(run)}V{axes.y(value)}" for run, value in steps[1:])
    return [f'<path d="{path}H{axes.x(last)}" fill="none" stroke="{BLUE}" stroke-width="2"/>']


def _confirmation(axes: _Axes, points: Sequence[RunPoint], last: int) -> list[str]:
    start = confirmation_start(points)
    if start is None:
        return []
    left = axes.x(max(0.0, start))
    height = _HEIGHT - _TOP - _BOTTOM
    width = axes.x(last) + 8 - left
    return [
        f'<rect x="{left}" y="{_TOP}" width="{width:g}" height="{height}" fill="{GREEN}" opacity="0.09"/>',
        f'<text class="soft" x="{left + 6}" y="{_HEIGHT - _BOTTOM - 8}">confirmation</text>',
    ]


def _mark(axes: _Axes, point: RunPoint, maximize: bool) -> str:
    x = axes.x(point.run)
    if point.kind == "failed":
        return _symbol("failed", x, _HEIGHT - _BOTTOM - 8 if maximize else _TOP + 8)
    return "" if point.value is None else _symbol(point.kind, x, axes.y(point.value))


def _symbol(kind: str, x: float, y: float) -> str:
    shapes = {
        "default": f'<path d="M{x} {y - 6:g}l6 6-6 6-6-6z" fill="{ORANGE}"/>',
        "reference": f'<rect x="{x - 5:g}" y="{y - 5:g}" width="10" height="10" fill="{PURPLE}"/>',
        "confirmation": f'<path d="M{x} {y - 6:g}l6 11h-12z" fill="{GREEN}"/>',
        "failed": f'<path d="M{x - 5:g} {y - 5:g}l10 10m0-10l-10 10" stroke="{ORANGE}" stroke-width="3"/>',
        "pruned": f'<path d="M{x - 4:g} {y - 5:g}l9 5-9 5z" fill="none" stroke="{GREY}" stroke-width="1.5"/>',
        "warmup": f'<circle cx="{x}" cy="{y}" r="4.5" fill="none" stroke="{GREY}" stroke-width="1.5"/>',
    }
    return shapes.get(kind, f'<circle cx="{x}" cy="{y}" r="4.5" fill="{BLUE}"/>')


def _legend(points: Sequence[RunPoint]) -> list[str]:
    parts = []
    x = float(_LEFT + 6)
    for kind in [kind for kind in _KINDS if any(point.kind == kind for point in points)]:
        parts.append(_symbol(kind, x, 68))
        parts.append(f'<text x="{x + 12:g}" y="72.5">{_KINDS[kind]}</text>')
        x += 36 + 6.9 * len(_KINDS[kind])
    return parts
