"""What a job did to its files: over time, by size, by rank and by storage target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREEN, GREY, ORANGE, blank, number, plain, wide

_MIB = 2**20
_MANY_RANKS = 2000


def timeline(width: float, read: Sequence[int], written: Sequence[int]) -> go.Figure:
    """Draw the bandwidth over the run.

    Parameters
    ----------
    width : float
        Seconds a bin.
    read, written : sequence of int
        Bytes a bin.
    """
    figure = blank("I/O over time", 320)
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
    figure = blank("Sizes of requests", 320)
    marks = ("", "/", "x", ".")
    for i, (kind, amounts) in enumerate(counts.items()):
        figure.add_bar(
            x=list(names),
            y=list(amounts),
            name=plain(kind),
            marker={"color": (ORANGE, BLUE, GREEN, GREY)[i % 4], "pattern": {"shape": marks[i % 4]}},
            hovertemplate="%{x}: %{y:,}<extra>" + plain(kind) + "</extra>",
        )
    figure.update_xaxes(title_text="bytes per request", type="category")
    figure.update_yaxes(title_text="requests")
    if wide([amount for amounts in counts.values() for amount in amounts if amount]):
        figure.update_yaxes(type="log")
    return figure


def rank_balance(read: Sequence[int], written: Sequence[int], seconds: Sequence[float] = ()) -> go.Figure:
    """Draw the bytes of each rank, and its seconds where they are known.

    Many ranks are drawn in equal groups, each as its mean.
    """
    figure = blank("Bytes of each rank", 340)
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
            marker={"color": GREEN, "symbol": "diamond", "size": 6},
            hovertemplate="rank %{x}: %{y:.4g} s<extra></extra>",
        )
        figure.update_layout(
            yaxis2={"overlaying": "y", "side": "right", "title": {"text": "seconds"}, "rangemode": "tozero"}
        )
    figure.update_xaxes(title_text="rank" if group == 1 else f"rank (means of {group})")
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
    figure = blank("Bytes of each storage target", 320)
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
    ranks_a_row : int
    """
    figure = blank("Who moved data when", 140 + 6 * max(16, min(len(heat), 64)))
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
