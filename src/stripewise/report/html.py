"""The report: one HTML file that needs nothing else, neither a network nor a server."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from stripewise.errors import StripewiseError, UserError
from stripewise.spec.trial import Trial
from stripewise.store.base import Record


def write_report(record: Record, trials: Sequence[Trial], path: Path) -> None:
    """Write the report of a finished experiment, whole or not at all.

    Parameters
    ----------
    record : Record
        With its result.
    trials : sequence of Trial
    path : Path
        Replaced if it exists.

    Raises
    ------
    UserError
        If the experiment has no result.
    StripewiseError
        If the file cannot be written.
    """
    write_whole(path, render_report(record, trials))


def render_report(record: Record, trials: Sequence[Trial]) -> str:
    """Write the report as text.

    Raises
    ------
    UserError
        If the experiment has no result.
    """
    if record.result is None:
        raise UserError(f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}")
    # Plotly takes half a second to import; commands that draw nothing are not to wait for it.
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    from stripewise.report import details, findings  # noqa: PLC0415
    from stripewise.report.figures import figures, figures_json  # noqa: PLC0415
    from stripewise.report.markup import Html, date, escape, join, paragraph, tag  # noqa: PLC0415
    from stripewise.report.reading import Reading  # noqa: PLC0415

    reading = Reading(record, trials)
    drawn = figures(reading)
    names = set(drawn)
    sections = [
        findings.settings(reading),
        findings.confirmation(reading, names),
        findings.effects(reading),
        details.apply(reading),
        findings.trajectory(reading),
        findings.parameters(reading, names),
        details.machine(reading, names),
        details.validity(reading),
        details.cost(reading, names),
        details.runs(reading),
        details.provenance(reading),
    ]
    title = record.experiment.name or f"Experiment {record.id}"
    banner = Html("")
    if record.result.get("simulated"):
        banner = tag(
            "div", tag("strong", "Simulated: these runs were computed, not measured."), class_="simulated", role="note"
        )
    plotly, script = Html(get_plotlyjs()), Html(_asset("report.js"))
    return Template(_asset("report.html")).substitute(
        title=escape(title),
        subtitle=paragraph(
            date(record.result.get("validity", {}).get("date")), f" · experiment {record.id}", class_="subtitle"
        ),
        style=_asset("report.css"),
        policy=f"script-src {_fingerprint(plotly)} {_fingerprint(script)}",
        banner=banner,
        headline=findings.headline(reading),
        nav=navigation(_SECTIONS),
        sections=join(sections),
        figures=figures_json(drawn),
        plotly=plotly,
        script=script,
    )


_SECTIONS = {
    "settings": "Settings",
    "proof": "Proof",
    "effects": "Effects",
    "apply": "Apply",
    "trajectory": "Search",
    "parameters": "Parameters",
    "machine": "Machine",
    "validity": "Validity",
    "cost": "Cost",
    "runs": "Runs",
    "provenance": "Provenance",
}


def page(
    *,
    title: str,
    subtitle: str,
    headline: object,
    sections: Mapping[str, tuple[str, object]],
    figures: Mapping[str, Any],
    simulated: bool = False,
) -> str:
    """Write a page of the reports' looks that needs no network.

    Parameters
    ----------
    title, subtitle : str
    headline : object
        Escaped, unless it is HTML already.
    sections : mapping
        Identifier to heading and content, in order.
    figures : mapping
        Plotly figures by the names under which the content leaves places for them.
    simulated : bool
        Whether to say so at the top.
    """
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    from stripewise.report.figures import figures_json  # noqa: PLC0415
    from stripewise.report.markup import Html, escape, join, paragraph, section, tag  # noqa: PLC0415

    banner = Html("")
    if simulated:
        banner = tag(
            "div", tag("strong", "Simulated: these runs were computed, not measured."), class_="simulated", role="note"
        )
    plotly, script = Html(get_plotlyjs()), Html(_asset("report.js"))
    return Template(_asset("report.html")).substitute(
        title=escape(title),
        subtitle=paragraph(subtitle, class_="subtitle"),
        style=_asset("report.css"),
        policy=f"script-src {_fingerprint(plotly)} {_fingerprint(script)}",
        banner=banner,
        headline=escape(headline),
        nav=navigation({name: heading for name, (heading, _) in sections.items()}),
        sections=join(section(name, heading, content) for name, (heading, content) in sections.items()),
        figures=figures_json(dict(figures)),
        plotly=plotly,
        script=script,
    )


def navigation(headings: Mapping[str, str]) -> str:
    """Links to sections, by identifier."""
    from stripewise.report.markup import tag  # noqa: PLC0415

    return " ".join(tag("a", heading, href=f"#{name}") for name, heading in headings.items())


def write_whole(path: Path, text: str) -> None:
    """Replace a file by a text, so that no reader ever sees a part of it.

    Raises
    ------
    StripewiseError
        If it cannot be written; what was there before then still is.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StripewiseError(
            f"cannot write {path}: {error.strerror}", "check the folder and the space left"
        ) from error


def _asset(name: str) -> str:
    return (resources.files("stripewise.report") / "assets" / name).read_text("utf-8")


def _fingerprint(script: str) -> str:
    """The hash by which a browser lets exactly this script run, and no other."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
