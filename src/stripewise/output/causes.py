"""The page of causes from time alone: which layer answered the operations, and what that cost.

Times of single operations: who answered them, and the clusters of those that were repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import plotly.graph_objects as go

from stripewise.output.page import page
from stripewise.output.plots.style import BLUE, GREY, PALETTE, blank, curve, marks, number, plain
from stripewise.sizes import format_size

_MOST = 3000
_BINS = 60

Points = Sequence[tuple[float, float]]


def times_by_size(operation: str, classes: Mapping[str, Points], models: Mapping[str, Points]) -> go.Figure:
    """Draw the time of each operation over its size, by class, with the calibrated models.

    Parameters
    ----------
    operation : str
        The direction, for the title.
    classes : mapping
        Class to sizes in bytes and seconds. Of more than 3000 operations an even sample is drawn.
    models : mapping
        Condition to the sizes and seconds of its line.
    """
    every = max(1, -(-sum(map(len, classes.values())) // _MOST))
    figure = blank(f"Time of the {operation}s by size", 440)
    # A condition has one colour, whether it is met or only calibrated.
    names = list(dict.fromkeys([*models, *classes]))
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    for name, points in classes.items():
        shown = [
            (size, seconds, f"{plain(name)}: {format_size(int(size))} in {number(seconds * 1e6, 'us')}")
            for size, seconds in points[::every]
        ]
        marks(figure, shown, name, colours[name], size=5, opacity=0.5)
    for name, line in models.items():
        curve(figure, line, f"{name}, calibrated", colour=colours[name], dash="dash", width=1.5)
    figure.update_xaxes(title_text="size (bytes)", type="log")
    figure.update_yaxes(title_text="time (seconds)", type="log")
    return figure


def repeated_times(operation: str, size: int, seconds: Sequence[float], typical: Sequence[float]) -> go.Figure:
    """Draw how often an operation took how long, with its clusters.

    Parameters
    ----------
    operation : str
    size : int
        Bytes.
    seconds : sequence of float
        Of each time it was made.
    typical : sequence of float
        Typical time of each cluster.
    """
    edges = np.geomspace(min(seconds) * 0.98, max(seconds) * 1.02, _BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    figure = blank(f"{len(seconds):,} {operation}s of {format_size(size)}: how long they took", 360)
    outline = [(float(edge), int(count)) for edge, count in zip(edges, [*counts, counts[-1]], strict=True)]
    figure.add_scatter(
        x=[edge for edge, _ in outline], y=[count for _, count in outline], mode="lines", name="operations",
        line={"color": BLUE, "shape": "hv"}, fill="tozeroy", hovertemplate="%{x:.3g} s: %{y}<extra></extra>",
    )  # fmt: skip
    for place, centre in enumerate(typical):
        curve(
            figure, [(centre, 0), (centre, int(counts.max()))], "" if place else "typical time of a cluster",
            colour=GREY, dash="dot",
        )  # fmt: skip
    figure.update_xaxes(title_text="time (seconds)", type="log")
    figure.update_yaxes(title_text="operations", rangemode="tozero")
    return figure


def causes_page(
    document: Mapping[str, Any],
    classes: Mapping[str, Mapping[str, Points]],
    models: Mapping[str, Mapping[str, Points]],
    often: tuple[str, int, Sequence[float]] | None,
) -> str:
    """Write the page.

    Parameters
    ----------
    document : mapping
        As ``stripewise diagnose TIMINGS.csv --json`` prints it.
    classes : mapping
        Direction to class to sizes and seconds of its operations.
    models : mapping
        Direction to condition to the ends of its calibrated line; empty without a calibration.
    often : (str, int, sequence of float), optional
        Direction, size and times of the operation that was repeated most.
    """
    figures = {f"{way}s": times_by_size(way, of, models.get(way, {})) for way, of in classes.items()}
    if often is not None:
        way, size, seconds = often
        own = [
            factor["cluster"]["seconds"]
            for factor in document["factors"]
            if (factor["operation"], factor["size"]) == (way, size)
        ]
        figures["often"] = repeated_times(way, size, seconds, own)
    headings = {"classes": "Who answered", "times": "Time by size", "anomalies": "What took longer than it should"}
    headings |= {"clusters": "Repeated operations", "rules": "What is slow"}
    return page(
        "causes.html",
        title=PurePath(document["source"]).name,
        subtitle=f"{document['operations']:,} operations",
        headings=headings,
        figures=figures,
        brand="Stripewise diagnosis",
        document=document,
        calibrated=bool(models),
        directions=list(classes),
        often="" if often is None else f"{len(often[2]):,} {often[0]}s of {format_size(often[1])}",
        classes=_classes(document),
        best=_best(document),
        anomalies=[
            (one["cause"], one["says"], f"{one['count']:,}", f"{one['ratio']:.1f}", number(one["seconds"], "s"))
            for one in document["anomalies"]
        ],
        clusters=[_cluster(factor) for factor in document["factors"]],
    )


def _classes(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Each class of each direction, the one with most time first."""
    rows: list[tuple[str, ...]] = []
    for way, counts in document["counts"].items():
        total, seconds = sum(counts.values()), document["seconds"][way]
        spent = sum(seconds.values())
        rows += [
            (
                f"{way}, {name}", f"{counts[name]:,}", f"{counts[name] / total:.1%}", number(seconds[name], "s"),
                f"{seconds[name] / spent:.1%}",
            )
            for name in sorted(counts, key=lambda name: -seconds[name])
        ]  # fmt: skip
    return rows


def _best(document: Mapping[str, Any]) -> list[str]:
    return [
        f"All {way}s answered by the page cache would take {number(best, 's')} instead of "
        f"{number(sum(document['seconds'][way].values()), 's')}: nothing that is done on the client can give more."
        for way, best in document["best_case_seconds"].items()
    ]


def _cluster(factor: Mapping[str, Any]) -> tuple[str, ...]:
    own = factor["cluster"]
    return (
        f"{factor['operation']} of {format_size(factor['size'])}",
        number(own["seconds"] * 1e6, "us"),
        f"{own['share']:.0%}",
        factor["condition"] or "not known",
        "" if own["peak"] else "a tail",
    )
