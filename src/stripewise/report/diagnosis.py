"""The page of a diagnosis: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import plotly.graph_objects as go

from stripewise.measure.activity import SIZE_NAMES, Activity
from stripewise.plots import job_io
from stripewise.report.markup import (
    Html,
    capitalised,
    copyable,
    count,
    duration,
    facts,
    figure,
    fold,
    join,
    listing,
    moment,
    paragraph,
    tag,
)
from stripewise.report.page import page
from stripewise.spec.sizes import format_size

_FIRST = 3


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
        title=PurePath(job["executable"].split(" ")[0] or document["source"]).name,
        subtitle=f"{moment(job['started'])} · {document['source']}",
        sections=sections(document, activity, drawn, plan),
        figures=drawn,
        brand="Stripewise diagnosis",
    )


def sections(
    document: Mapping[str, Any], activity: Activity, drawn: Mapping[str, go.Figure], plan: str = ""
) -> dict[str, tuple[str, object]]:
    """Write the sections by identifier, each with its heading; ``drawn`` holds the figures to leave places for."""
    problems = [f for f in document["findings"] if f["severity"] in ("low", "medium", "high")]
    others = [f for f in document["findings"] if f not in problems]
    found = join([_finding(f) for f in problems] or [paragraph("Nothing found.")])
    return {
        "summary": ("First", _summary(document, activity)),
        "findings": ("What is slow, and why", found),
        "prediction": ("What it could give", _prediction(document)),
        "settings": ("All settings as a plan", _settings(plan)),
        **_figures(drawn),
        "files": ("Files", _files(activity)),
        "also": ("Also seen", join(_finding(f) for f in others)),
        "source": ("What was and was not seen", listing([*document["unseen"], *_partial(document)])),
    }


def figures(activity: Activity, slowness: Mapping[int, float] | None = None) -> dict[str, go.Figure]:
    """Draw what there is to draw, by name."""
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
            total = [0] * len(SIZE_NAMES)
            for file in activity.files:
                own = getattr(file, level)
                if own is not None:
                    sizes = getattr(own, direction).sizes
                    total = [a + b for a, b in zip(total, sizes, strict=True)] if sizes else total
            if any(total):
                found[f"{direction}s {where}"] = total
    return found


def _summary(document: Mapping[str, Any], activity: Activity) -> Html:
    job = document["job"]
    part = document["io_time_of_run"]
    first = [f for f in document["findings"] if f["severity"] in ("low", "medium", "high")][:_FIRST]
    lead = listing(join([tag("strong", f["title"]), ": ", f["says"]]) for f in first)
    pairs = [
        ("Ranks", f"{job['ranks']:,}" + (f" on {count(job['nodes'], 'node')}" if job["nodes"] else "")),
        ("Run time", duration(job["elapsed"])),
        ("Time in I/O", duration(document["io_seconds"]) + (f" ({part:.0%} of the run)" if part is not None else "")),
        ("Moved", format_size(document["bytes"])),
        ("Files", f"{activity.counted.files:,}"),
        ("Source", f"{document['kind']} {document['version']}: {', '.join(document['seen'])}"),
    ]
    return join([lead or paragraph("No problem was found."), facts(pairs)])


def _finding(found: Mapping[str, Any]) -> Html:
    share = found["io_time_share"]
    bound = f" Mending it can make the I/O at most {1 / (1 - share):.2g} times faster." if 0.02 < share < 0.99 else ""
    parts = [
        tag("h3", join([found["title"], tag("span", f" {found['severity']} · {found['code']}", class_="small")])),
        paragraph(capitalised(found["says"]), "."),
        paragraph(found["mechanism"], bound),
        paragraph(tag("strong", "Mend: "), found["mend"]),
    ]
    if found["settings"]:
        parts.append(copyable("\n".join(found["settings"]), f"settings of {found['code']}"))
    if found["files"]:
        parts.append(fold(count(len(found["files"]), "file"), listing(found["files"])))
    if found["ranks"]:
        parts.append(paragraph("Ranks: ", ", ".join(map(str, found["ranks"])), class_="small"))
    return tag("article", join(parts), class_="finding", data_severity=found["severity"])


def _prediction(document: Mapping[str, Any]) -> Html:
    expected = document.get("prediction")
    if not expected:
        return Html("")
    pairs = [(case["what"], case["says"]) for case in expected["expectations"]]
    parts: list[object] = [paragraph(f"Expected by {expected['origin']}."), facts(pairs)]
    if expected["settings"]:
        parts.append(copyable("\n".join(expected["settings"]), "the prescribed settings"))
    return join(parts)


def _settings(plan: str) -> Html:
    if not plan:
        return Html("")
    use = "stripewise run PLAN -- COMMAND applies this plan; leave it out to undo it."
    return join([copyable(plan, "the plan"), paragraph(use, class_="small")])


_CAPTIONS = {
    "timeline": ("Bandwidth over time", "Bytes a bin, over all ranks."),
    "sizes": ("Sizes of requests", "Requests as the program made them and as they reached the file system."),
    "ranks": ("Balance of the ranks", "Bytes, and seconds where the source tells them."),
    "osts": ("Balance of the storage targets", "Bytes by the layouts of the files; slow ones are labelled."),
    "heat": ("Ranks over time", "Bytes moved by each group of ranks in each bin of time."),
}


def _figures(drawn: Mapping[str, go.Figure]) -> dict[str, tuple[str, object]]:
    return {name: (_CAPTIONS[name][0], figure(name, *_CAPTIONS[name])) for name in drawn}


def _files(activity: Activity) -> Html:
    from stripewise.report.markup import table  # noqa: PLC0415  a name that would hide the figures' otherwise

    rows = [
        (
            file.path,
            f"{file.ranks:,}",
            format_size(file.lower.read.bytes),
            format_size(file.lower.write.bytes),
            f"{file.seconds:.3g}",
            f"{file.layout.stripe_count} x {format_size(file.layout.stripe_size)}" if file.layout else "",
        )
        for file in activity.files[:20]
    ]
    headings = ("file", "ranks", "read", "written", "seconds over ranks", "stripes")
    return table("Files with most time", headings, rows, (1, 2, 3, 4))


def _partial(document: Mapping[str, Any]) -> list[str]:
    return [f"module {name} ran out of memory while recording: its figures are too low" for name in document["partial"]]
