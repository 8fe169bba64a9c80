"""What held back each configuration of a simulated sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, blank, number, plain
from stripewise.output.plots.style import lines as breaks

_LOOK: dict[str, tuple[str, str, str]] = {
    "metadata": ("open and close", GREY, ""),
    "client": ("clients", BLUE, ""),
    "rpc": ("RPC window", BLUE, "/"),
    "oss": ("servers (OSS)", GREEN, ""),
    "ost": ("OSTs", GREEN, "/"),
    "locks": ("extent locks", ORANGE, ""),
    "rounds": ("two-phase rounds", PURPLE, ""),
    "sieving": ("data sieving", PURPLE, "/"),
    "cache": ("caches", ORANGE, "/"),
    "other": ("between the bounds", GREY, "x"),
}
"""Bound to its name, colour and pattern."""
_MOST_BARS = 60
_ROOM = 1.6
"""Height of the figure over a bar that is longer than three quarters of them."""


@dataclass(frozen=True)
class BoundedRun:
    """A simulated run in a figure.

    Attributes
    ----------
    name : str
        Short, for the axis.
    bounds : mapping of str to float
        Seconds that each bound alone would take.
    data, metadata : float
        Seconds of the data phase, and of opening and closing.
    label : str
        What to say about it: its configuration.
    """

    name: str
    bounds: Mapping[str, float]
    data: float
    metadata: float
    label: str = ""


def layers(run: BoundedRun) -> dict[str, float]:
    """Cut a run's time into what each bound adds to the next slower one, in seconds.

    The slowest bound is the one that acts; its layer is what would be saved if it alone were lifted. From the bottom to
    the top, the layers add up to the whole run.
    """
    cut: dict[str, float] = {"metadata": run.metadata}
    below = 0.0
    for name, seconds in sorted(run.bounds.items(), key=lambda pair: pair[1]):
        height = min(seconds, run.data) - below
        if name != "metadata" and height > 0:
            cut[name] = height
            below += height
    if run.data - below > 1e-9 * max(run.data, 1e-12):
        cut["other"] = run.data - below
    return cut


def bounds(runs: Sequence[BoundedRun]) -> go.Figure:
    """Draw one bar per configuration, stacked from the bounds that hold it back.

    Parameters
    ----------
    runs : sequence of BoundedRun
        In the order in which they are to stand; at most 60 are drawn. Bars far longer than most are cut, with their
        seconds written on them.
    """
    shown = runs[:_MOST_BARS]
    more = f", the first {len(shown)} of {len(runs)}" if len(shown) < len(runs) else ""
    figure = blank(f"Simulated: what limited each configuration{more}", 440)
    cuts = [layers(run) for run in shown]
    feet = [_feet(cut) for cut in cuts]
    texts = [_text(run) for run in shown]
    names = [name for name in _LOOK if any(name in cut for cut in cuts)]
    names += sorted({name for cut in cuts for name in cut} - _LOOK.keys())
    for name in names:
        title, colour, pattern = _LOOK.get(name, (name, GREY, "."))
        figure.add_bar(
            x=[run.name for run in shown],
            y=[cut.get(name, 0.0) for cut in cuts],
            base=[foot.get(name, 0.0) for foot in feet],
            name=plain(title),
            marker={"color": colour, "pattern": {"shape": pattern, "solidity": 0.35}, "line": {"width": 0}},
            customdata=texts,
            hovertemplate="%{customdata}<extra></extra>",
        )
    _cut_long_bars(figure, shown)
    # Every bar has an order of its own, with the bound that acts on top: so each layer is given its foot.
    figure.update_layout(barmode="overlay", bargap=0.15)
    figure.update_xaxes(type="category", title_text="configuration, by trial")
    figure.update_yaxes(title_text="simulated seconds", rangemode="tozero")
    return figure


def _cut_long_bars(figure: go.Figure, runs: Sequence[BoundedRun]) -> None:
    """Where a few bars are far longer than most, show most of them well, and write the others' seconds on top."""
    totals = sorted(run.data + run.metadata for run in runs)
    if not totals:
        return
    usual = totals[(3 * (len(totals) - 1)) // 4]
    top = _ROOM * usual
    if totals[-1] <= 2 * top:
        return
    figure.update_yaxes(range=[0.0, top])
    for place, run in enumerate(runs):  # by place: a name as "3" would be taken for one
        total = run.data + run.metadata
        if total > top:
            figure.add_annotation(
                x=place, y=top, text=number(total, "s"), showarrow=False, textangle=-90, xanchor="center",
                yanchor="top", bgcolor="white", font={"size": 11},
            )  # fmt: skip


def _feet(cut: Mapping[str, float]) -> dict[str, float]:
    found, height = {}, 0.0
    for name, seconds in cut.items():
        found[name] = height
        height += seconds
    return found


def _text(run: BoundedRun) -> str:
    order = sorted(run.bounds.items(), key=lambda pair: -pair[1])
    rows = [f"{plain(_LOOK.get(name, (name,))[0])} {number(seconds, 's')}" for name, seconds in order if seconds > 0]
    return "<br>".join([f"<b>{plain(run.name)}</b>: {number(run.data + run.metadata, 's')}", breaks(run.label), *rows])
