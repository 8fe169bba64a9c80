"""The pages of a diagnosis and of causes from time alone: HTML files that need nothing else.

Times of single operations show which layer answered them, what that cost, and the clusters of those that were repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import plotly.graph_objects as go

from stripewise.diagnose.code_examples import examples_of
from stripewise.formats import SIZE_NAMES
from stripewise.observe.activity import Activity, FileActivity
from stripewise.output.markup import format_moment
from stripewise.output.page import page
from stripewise.output.plots import job_io
from stripewise.output.plots.style import BLUE, GREY, PALETTE, curve, escape_text, make_figure, marks, number
from stripewise.sizes import format_duration, format_size


def render_diagnosis(
    document: Mapping[str, Any], activity: Activity, plan: str = "", slowness: Mapping[int, float] | None = None
) -> str:
    """Write the page of one job.

    Parameters
    ----------
    document : mapping
        The diagnosis as ``diagnose --json`` prints it.
    activity : Activity
        What was diagnosed, for the figures.
    plan : str, optional
        The settings as a plan.
    slowness : mapping, optional
        Storage target to its time a byte, relative to the median.
    """
    drawn = figures(activity, slowness)
    job = document["job"]
    return page(
        "diagnosis.html",
        title=activity.job.name or PurePath(document["source"]).name,
        subtitle=f"{format_moment(job['started'])} · {document['source']}",
        brand="Stripewise diagnosis",
        **context(document, activity, drawn, plan),
    )


def context(
    document: Mapping[str, Any], activity: Activity, drawn: Mapping[str, go.Figure], plan: str = ""
) -> dict[str, Any]:
    """Collect what ``diagnosis_sections.html`` shows; ``drawn`` holds the figures to leave places for."""
    return {
        "document": {"prediction": None, "ceiling": None, **document},
        "activity": activity,
        "plan": plan,
        "files": [_file(file) for file in activity.files[:20]],
        "figures": drawn,
        "captions": _CAPTIONS,
        "code_of": examples_of,
        "headings": {
            **{"summary": "Summary", "findings": "What is slow, and why", "prediction": "What it could give"},
            "settings": "All settings as a plan",
            **{name: _CAPTIONS[name][0] for name in drawn},
            **{"files": "Files", "also": "Also seen", "source": "What was and was not seen"},
        },
    }


def figures(activity: Activity, slowness: Mapping[int, float] | None = None) -> dict[str, go.Figure]:
    """Draw every figure for which there are data, by name."""
    drawn: dict[str, go.Figure] = {}
    time = activity.timeline
    if time is not None:
        drawn["timeline"] = job_io.timeline(time.width, time.read, time.written)
    sizes = request_sizes(activity)
    if sizes:
        drawn["sizes"] = job_io.request_sizes(SIZE_NAMES, sizes)
    ranks = activity.ranks
    if ranks is not None and ranks.written and activity.job.ranks > 1:
        drawn["ranks"] = job_io.rank_balance(ranks.read, ranks.written, ranks.seconds)
    if len(activity.osts) > 1:
        loads = {target: load.bytes for target, load in activity.osts.items()}
        drawn["osts"] = job_io.ost_balance(loads, slowness)
    if time is not None and len(time.heat) > 1:
        drawn["heat"] = job_io.heatmap(time.width, time.heat, time.ranks_a_row)
    return drawn


def request_sizes(activity: Activity) -> dict[str, list[int]]:
    """Requests by size: those of the program through MPI-IO, and those that reached the file system."""
    found: dict[str, list[int]] = {}
    for level, where in (("posix", "to the file system"), ("mpiio", "through MPI-IO")):
        for direction in ("write", "read"):
            sizes = getattr(getattr(activity.totals, level), direction).sizes
            if any(sizes):
                found[f"{direction}s {where}"] = sizes
    return found


_CAPTIONS = {
    "timeline": ("Bandwidth over time", "Bytes per bin, over all ranks."),
    "sizes": ("Sizes of requests", "Requests as the program made them and as they reached the file system."),
    "ranks": ("Balance of the ranks", "Bytes, and seconds where the source tells them."),
    "osts": ("Balance of the storage targets", "Bytes by the layouts of the files; slow ones are labelled."),
    "heat": ("Ranks over time", "Bytes moved by each group of ranks in each bin of time."),
}


def _file(file: FileActivity) -> tuple[str, ...]:
    return (
        file.path,
        f"{file.ranks:,}",
        format_size(file.lower.read.bytes),
        format_size(file.lower.write.bytes),
        format_duration(file.seconds),
        f"{file.layout.stripe_count} x {format_size(file.layout.stripe_size)}" if file.layout else "",
    )


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
    figure = make_figure(f"Time of the {operation}s by size", 440)
    # A condition has one colour, whether it is met or only calibrated.
    names = list(dict.fromkeys([*models, *classes]))
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(names)}
    for name, points in classes.items():
        shown = [
            (size, seconds, f"{escape_text(name)}: {format_size(int(size))} in {number(seconds * 1e6, 'us')}")
            for size, seconds in points[::every]
        ]
        marks(figure, shown, name, colours[name], size=5, opacity=0.5)
    for name, line in models.items():
        curve(figure, line, f"{name}, calibrated", colour=colours[name], dash="dash", width=1.5)
    figure.update_xaxes(title_text="size (bytes)", type="log", dtick=1)
    figure.update_yaxes(title_text="time (seconds)", type="log", dtick=1)
    return figure


def repeated_times(operation: str, size: int, seconds: Sequence[float], typical: Sequence[float]) -> go.Figure:
    """Draw how often an operation took how long, with its clusters.

    Parameters
    ----------
    size : int
        Bytes.
    seconds : sequence of float
        Of each time it was made.
    typical : sequence of float
        Typical time of each cluster.
    """
    edges = np.geomspace(min(seconds) * 0.98, max(seconds) * 1.02, _BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    figure = make_figure(f"{len(seconds):,} {operation}s of {format_size(size)}: how long they took", 360)
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
    figure.update_xaxes(title_text="time (seconds)", type="log", dtick=1)
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
        As ``stripewise site causes TIMINGS.csv --json`` prints it.
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
        places=_places(document),
        best=_write_best(document),
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


def _places(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Which class answered how many operations, by place in the file; empty where no place is known."""
    return [
        (f"{way}, {place}", name, f"{count:,}", f"{count / sum(own.values()):.1%}")
        for way, of in document["places"].items()
        for place, own in of.items()
        if place != "unknown"
        for name, count in sorted(own.items(), key=lambda item: -item[1])
    ]


def _write_best(document: Mapping[str, Any]) -> list[str]:
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
