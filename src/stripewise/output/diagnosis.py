"""The page of a diagnosis: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import plotly.graph_objects as go

from stripewise.formats import SIZE_NAMES
from stripewise.observe.activity import Activity, FileActivity
from stripewise.output.markup import moment
from stripewise.output.page import page
from stripewise.output.plots import job_io
from stripewise.sizes import format_size


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
        title=PurePath(job["executable"].split(" ")[0] or document["source"]).name,
        subtitle=f"{moment(job['started'])} · {document['source']}",
        brand="Stripewise diagnosis",
        **context(document, activity, drawn, plan),
    )


def context(
    document: Mapping[str, Any], activity: Activity, drawn: Mapping[str, go.Figure], plan: str = ""
) -> dict[str, Any]:
    """Collect what ``diagnosis_sections.html`` shows; ``drawn`` holds the figures to leave places for."""
    return {
        "document": {"prediction": None, **document},
        "activity": activity,
        "plan": plan,
        "files": [_file(file) for file in activity.files[:20]],
        "figures": drawn,
        "captions": _CAPTIONS,
        "headings": {
            **{"summary": "First", "findings": "What is slow, and why", "prediction": "What it could give"},
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
    "timeline": ("Bandwidth over time", "Bytes a bin, over all ranks."),
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
        f"{file.seconds:.3g}",
        f"{file.layout.stripe_count} x {format_size(file.layout.stripe_size)}" if file.layout else "",
    )
