"""Still pictures of the studies' results, as SVG written by hand: no browser and no further package is needed."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH, HEIGHT = 860, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 60, 50
STYLE = """<style>
text { font-family: system-ui, sans-serif; font-size: 12px; fill: #23282f; }
.over { paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round; }
.title { font-size: 15px; font-weight: 600; }
.axis { stroke: #8a929b; } .grid { stroke: #dde1e6; }
@media (prefers-color-scheme: dark) { text { fill: #dfe3e8; } .over { stroke: #14181d; } .grid { stroke: #333b45; } }
</style>"""
COLOURS = ("#c1602c", "#1f6fb2", "#2b8a4b")


def _frame(title: str, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    shown = f'<text class="title" x="{LEFT}" y="24">{html.escape(title)}</text>'
    return "\n".join([head, f"<title>{html.escape(title)}</title>", STYLE, shown, *body, "</svg>"]) + "\n"


def parallel(title: str, axes: Mapping[str, Sequence[str]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Parallel coordinates: a line a configuration, from orange, the slowest, to blue, the fastest.

    Parameters
    ----------
    axes : mapping
        Labels of each axis' values, the smallest first.
    rows : sequence of mapping
        ``levels`` (places on the axes) and ``value``.
    """
    names = list(axes)
    step = (WIDTH - LEFT - RIGHT) / len(names)
    place = [LEFT + i * step for i in range(len(names) + 1)]
    ranked = sorted(rows, key=lambda row: float(row["value"]))
    slowest, fastest = ranked[0]["value"], ranked[-1]["value"]

    def height(share: float) -> float:
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    body = []
    for number, row in enumerate(ranked):
        share = (row["value"] - slowest) / (fastest - slowest or 1.0)
        heights = [
            height(level / max(1, len(axes[name]) - 1)) for name, level in zip(names, row["levels"], strict=True)
        ]
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in zip(place, [*heights, height(share)], strict=True))
        # By rank: one run that was far slower than all others would leave these no colours.
        rank = number / max(1, len(ranked) - 1)
        red, green, blue = (round(a + rank * (b - a)) for a, b in zip((193, 96, 44), (31, 111, 178), strict=True))
        body.append(
            f'<polyline points="{points}" fill="none" stroke="rgb({red},{green},{blue})" stroke-opacity="0.35"/>'
        )
    labels = [*axes.items(), ("MiB/s", [f"{slowest:,.0f}", f"{fastest:,.0f}"])]
    for x, (name, shown) in zip(place, labels, strict=True):
        body.append(f'<line class="axis" x1="{x:.0f}" x2="{x:.0f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        body.append(f'<text x="{x:.0f}" y="{HEIGHT - 18}" text-anchor="middle">{html.escape(name)}</text>')
        for i, label in enumerate(shown):
            y = height(i / max(1, len(shown) - 1))
            body.append(
                f'<text class="over" x="{x - 5:.0f}" y="{y + 4:.0f}" text-anchor="end">{html.escape(label)}</text>'
            )
    return _frame(title, body)


def curves(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """Progress of searches: the best so far over the best of all, after each run; runs on a logarithmic axis.

    Parameters
    ----------
    lines : mapping
        Shares of each search, from the first run on.
    """
    most = max(len(shares) for shares in lines.values())

    def at(run: int, share: float) -> tuple[float, float]:
        x = LEFT + math.log(run) / math.log(max(most, 2)) * (WIDTH - LEFT - RIGHT)
        return x, HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    body = []
    for percent in range(0, 101, 20):
        _, y = at(1, percent / 100)
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}"/>')
        body.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{percent}%</text>')
    for run in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        if run <= most:
            x, _ = at(run, 0)
            body.append(f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{run}</text>')
    body.append(f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">runs</text>')
    for number, (name, shares) in enumerate(lines.items()):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(run, share) for run, share in enumerate(shares, 1)))
        colour = COLOURS[number % len(COLOURS)]
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = LEFT + 150 * number
        body.append(f'<line x1="{x}" x2="{x + 22}" y1="42" y2="42" stroke="{colour}" stroke-width="3"/>')
        body.append(f'<text x="{x + 28}" y="46">{html.escape(name)}</text>')
    return _frame(title, body)


def bars(title: str, groups: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    """Bars of stages, each group with its own scale from zero; figures at the bars' ends.

    Parameters
    ----------
    groups : mapping
        Names and values of each group's bars, by the group's heading.
    """
    rows = sum(len(bars) + 1 for bars in groups.values())
    step = (HEIGHT - TOP - 10) / max(rows, 1)
    body, y = [], float(TOP)
    for number, (heading, listed) in enumerate(groups.items()):
        body.append(f'<text x="{LEFT}" y="{y + step * 0.7:.0f}" font-weight="600">{html.escape(heading)}</text>')
        y += step
        most = max(value for _, value in listed)
        for name, value in listed:
            length = value / most * (WIDTH - 480)
            shown = f"{value:,.0f}" if most >= 100 else f"{value:.2f}"
            body.append(f'<text x="370" y="{y + step * 0.7:.0f}" text-anchor="end">{html.escape(name)}</text>')
            body.append(
                f'<rect x="380" y="{y + step * 0.15:.1f}" width="{length:.1f}" height="{step * 0.7:.1f}" '
                f'fill="{COLOURS[(number + 1) % len(COLOURS)]}"/>'
            )
            body.append(f'<text x="{386 + length:.0f}" y="{y + step * 0.7:.0f}">{shown}</text>')
            y += step
    return _frame(title, body)


def _up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _scale(most: float) -> list[str]:
    """Grid lines and labels of values from zero."""
    body = []
    for part in range(5):
        y, value = _up(part / 4), most * part / 4
        body.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.0f}" y2="{y:.0f}"/>')
        body.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{value:,.0f}</text>')
    return body


def _key(names: Sequence[str]) -> list[str]:
    body = []
    for number, name in enumerate(names):
        x = LEFT + 150 * number
        body.append(f'<rect x="{x}" y="38" width="14" height="8" fill="{COLOURS[number]}"/>')
        body.append(f'<text x="{x + 20}" y="46">{html.escape(name)}</text>')
    return body


def scatter(title: str, groups: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Pairs of values as points, both axes from zero to the same end; on the line they agree."""
    most = max(value for pairs in groups.values() for pair in pairs for value in pair)
    wide = WIDTH - LEFT - RIGHT
    body = [*_scale(most), *_key(list(groups))]
    body.append(f'<line class="axis" x1="{LEFT}" y1="{_up(0):.0f}" x2="{LEFT + wide}" y2="{_up(1):.0f}"/>')
    for part in range(5):
        x = LEFT + wide * part / 4
        body.append(f'<text x="{x:.0f}" y="{_up(0) + 18:.0f}" text-anchor="middle">{most * part / 4:,.0f}</text>')
    for number, pairs in enumerate(groups.values()):
        body += [
            f'<circle cx="{LEFT + wide * across / most:.1f}" cy="{_up(up / most):.1f}" r="3.5" '
            f'fill="{COLOURS[number]}" fill-opacity="0.7"/>'
            for across, up in pairs
        ]
    return _frame(title, body)


def levels(title: str, lines: Mapping[str, Sequence[float]]) -> str:
    """Values of many cases, one dot each, side by side in the order given."""
    most = max(max(values) for values in lines.values())
    body = [*_scale(most), *_key(list(lines))]
    for number, values in enumerate(lines.values()):
        step = (WIDTH - LEFT - RIGHT) / len(values)
        dots = "".join(f"M{LEFT + step * place:.1f} {_up(value / most):.1f}h1.5" for place, value in enumerate(values))
        body.append(f'<path d="{dots}" stroke="{COLOURS[number]}" stroke-width="1.5" stroke-opacity="0.7"/>')
    return _frame(title, body)


def pairs(title: str, series: Mapping[str, Mapping[str, float]]) -> str:
    """Bars of every class side by side, from a zero line; values may lie below it.

    Parameters
    ----------
    series : mapping
        Values by class, of each series; all have the same classes.
    """
    classes = list(next(iter(series.values())))
    low = min(0.0, *(min(values.values()) for values in series.values()))
    high = max(0.0, *(max(values.values()) for values in series.values()))

    def at(value: float) -> float:
        return _up((value - low) / (high - low))

    body = [
        *_key(list(series)),
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at(0):.1f}" y2="{at(0):.1f}"/>',
    ]
    body += [
        f'<text x="{LEFT - 8}" y="{at(value) + 4:.0f}" text-anchor="end">{value:,.0f}</text>'
        for value in (low, 0.0, high)
    ]
    step = (WIDTH - LEFT - RIGHT) / len(classes)
    wide = step / (len(series) + 1)
    for number, values in enumerate(series.values()):
        for place, name in enumerate(classes):
            x, top = LEFT + step * place + wide * (number + 0.5), min(at(values[name]), at(0))
            tall = abs(at(values[name]) - at(0))
            body.append(
                f'<rect x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" fill="{COLOURS[number]}"/>'
            )
    for place, name in enumerate(classes):
        x = LEFT + step * (place + 0.5)
        body.append(
            f'<text x="{x:.0f}" y="{HEIGHT - 18}" text-anchor="middle" font-size="10">{html.escape(name)}</text>'
        )
    return _frame(title, body)
