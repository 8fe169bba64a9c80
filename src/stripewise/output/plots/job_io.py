"""What a job did to its files: over time, by size, by rank and by storage target.

What held back each configuration of a simulated sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, escape_text, make_figure, number, scaled
from stripewise.output.plots.style import lines as breaks

_MIB = 2**20
_MANY_RANKS = 2000
_FEW_RANKS = 10


def timeline(width: float, read: Sequence[int], written: Sequence[int]) -> go.Figure:
    """Draw the bandwidth over the run.

    Parameters
    ----------
    width : float
        Seconds a bin.
    read, written : sequence of int
        Bytes a bin.
    """
    figure = make_figure("I/O over time", 320)
    starts = [i * width for i in range(max(len(read), len(written)))]
    for name, amounts, colour, dash in (("written", written, ORANGE, "solid"), ("read", read, BLUE, "dash")):
        if any(amounts):
            figure.add_scatter(
                x=starts,
                y=[amount / _MIB / width for amount in amounts],
                mode="lines",
                line={"shape": "hv", "color": colour, "dash": dash},
                name=name,
                hovertemplate="%{x:.4g} s: %{y:.4g} MiB/s<extra>" + name + "</extra>",
            )
    figure.update_xaxes(title_text="seconds since the start of the job")
    figure.update_yaxes(title_text="bandwidth (MiB/s)", rangemode="tozero")
    return figure


def request_sizes(names: Sequence[str], counts: Mapping[str, Sequence[int]]) -> go.Figure:
    """Draw how many requests had which size.

    Parameters
    ----------
    names : sequence of str
        Bins.
    counts : mapping
        Kind of request ("writes to the file system") to the counts of its bins.
    """
    figure = make_figure("Sizes of requests", 320)
    marks = ("", "/", "x", ".")
    for i, (kind, amounts) in enumerate(counts.items()):
        figure.add_bar(
            x=list(names),
            y=list(amounts),
            name=escape_text(kind),
            marker={"color": (ORANGE, BLUE, GREEN, GREY)[i % 4], "pattern": {"shape": marks[i % 4]}},
            hovertemplate="%{x}: %{y:,}<extra>" + escape_text(kind) + "</extra>",
        )
    figure.update_xaxes(title_text="bytes per request", type="category")
    figure.update_yaxes(title_text="requests")
    figure.update_yaxes(**scaled([amount for amounts in counts.values() for amount in amounts if amount]))
    return figure


def rank_balance(read: Sequence[int], written: Sequence[int], seconds: Sequence[float] = ()) -> go.Figure:
    """Draw the bytes of each rank, and its seconds where they are known.

    Many ranks are drawn in equal groups, each as its mean.
    """
    figure = make_figure("Bytes of each rank", 340)
    group = -(-max(len(read), len(written)) // _MANY_RANKS) or 1

    def grouped(values: Sequence[float]) -> list[float]:
        parts = [values[i : i + group] for i in range(0, len(values), group)]
        return [sum(part) / len(part) for part in parts]

    ranks = [i * group for i in range(len(grouped(written)))]
    for name, amounts, colour in (("written", written, ORANGE), ("read", read, BLUE)):
        if any(amounts):
            figure.add_bar(
                x=ranks,
                y=[amount / _MIB for amount in grouped(amounts)],
                name=name,
                marker={"color": colour, "pattern": {"shape": "" if name == "written" else "/"}},
                hovertemplate="rank %{x}: %{y:.4g} MiB<extra>" + name + "</extra>",
            )
    figure.update_layout(barmode="stack")
    if any(seconds):
        figure.add_scatter(
            x=ranks,
            y=grouped(seconds),
            yaxis="y2",
            mode="markers",
            name="seconds (right)",
            marker={"color": GREEN, "symbol": "diamond", "size": 10, "line": {"color": "white", "width": 2}},
            hovertemplate="rank %{x}: %{y:.4g} s<extra></extra>",
        )
        figure.update_layout(
            yaxis2={
                **{"overlaying": "y", "side": "right", "title": {"text": "seconds"}, "rangemode": "tozero"},
                "tickformat": ".2~g",
            }
        )
    figure.update_xaxes(title_text="rank" if group == 1 else f"rank (means of {group})")
    if len(ranks) <= _FEW_RANKS:
        figure.update_xaxes(tickvals=ranks)
    figure.update_layout(yaxis_title_text="MiB")
    return figure


def ost_balance(loads: Mapping[int, int], slowness: Mapping[int, float] | None = None) -> go.Figure:
    """Draw the bytes of each storage target, coloured by how slow it was.

    Parameters
    ----------
    loads : mapping
        Target to bytes.
    slowness : mapping, optional
        Target to its time per byte, relative to the median.
    """
    figure = make_figure("Bytes of each storage target", 320)
    targets = sorted(loads)
    slow = slowness or {}
    figure.add_bar(
        x=[str(target) for target in targets],
        y=[loads[target] / _MIB for target in targets],
        marker={"color": [ORANGE if slow.get(target, 1.0) >= 2 else BLUE for target in targets]},
        text=[f"{slow[target]:.1f}x" if slow.get(target, 1.0) >= 2 else "" for target in targets],
        customdata=[number(slow.get(target)) for target in targets],
        hovertemplate="OST %{x}: %{y:.4g} MiB, time per byte %{customdata} of the median<extra></extra>",
    )
    # Bytes are often equal where times are not.
    if slow:
        figure.add_scatter(
            x=[str(target) for target in targets],
            y=[slow.get(target) for target in targets],
            yaxis="y2",
            mode="markers",
            name="time per byte (right)",
            marker={"color": GREEN, "symbol": "diamond", "size": 6},
            hovertemplate="OST %{x}: %{y:.3g} times the median's time per byte<extra></extra>",
        )
        right = {"title": {"text": "time per byte (times the median)"}, "rangemode": "tozero"}
        figure.update_layout(yaxis2={"overlaying": "y", "side": "right", **right}, showlegend=False)
    figure.update_xaxes(title_text="OST (labelled: slow, times the median's time per byte)", type="category")
    figure.update_yaxes(title_text="MiB")
    return figure


def heatmap(width: float, heat: Sequence[Sequence[int]], ranks_a_row: int) -> go.Figure:
    """Draw bytes by rank and time.

    Parameters
    ----------
    width : float
        Seconds a bin.
    heat : sequence of sequences of int
        Bytes; a row for each group of ranks.
    """
    figure = make_figure("Who moved data when", 140 + 6 * max(16, min(len(heat), 64)))
    bins = max((len(row) for row in heat), default=0)
    figure.add_heatmap(
        z=[[amount / _MIB for amount in row] for row in heat],
        x=[(i + 0.5) * width for i in range(bins)],
        y=[i * ranks_a_row for i in range(len(heat))],
        colorscale="Viridis",
        colorbar={"title": {"text": "MiB"}},
        hovertemplate="rank %{y}, %{x:.4g} s: %{z:.4g} MiB<extra></extra>",
    )
    figure.update_xaxes(title_text="seconds since the start of the job")
    figure.update_yaxes(
        title_text="rank" if ranks_a_row == 1 else f"first of {ranks_a_row} ranks", autorange="reversed"
    )
    return figure


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
    figure = make_figure(f"Simulated: what limited each configuration{more}", 440)
    cuts = [layers(run) for run in shown]
    feet = [_find_feet(cut) for cut in cuts]
    texts = [_write_text(run) for run in shown]
    names = [name for name in _LOOK if any(name in cut for cut in cuts)]
    names += sorted({name for cut in cuts for name in cut} - _LOOK.keys())
    for name in names:
        title, colour, pattern = _LOOK.get(name, (name, GREY, "."))
        figure.add_bar(
            x=[run.name for run in shown],
            y=[cut.get(name, 0.0) for cut in cuts],
            base=[foot.get(name, 0.0) for foot in feet],
            name=escape_text(title),
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


def _find_feet(cut: Mapping[str, float]) -> dict[str, float]:
    found, height = {}, 0.0
    for name, seconds in cut.items():
        found[name] = height
        height += seconds
    return found


def _write_text(run: BoundedRun) -> str:
    order = sorted(run.bounds.items(), key=lambda pair: -pair[1])
    rows = [
        f"{escape_text(_LOOK.get(name, (name,))[0])} {number(seconds, 's')}" for name, seconds in order if seconds > 0
    ]
    return "<br>".join(
        [f"<b>{escape_text(run.name)}</b>: {number(run.data + run.metadata, 's')}", breaks(run.label), *rows]
    )
