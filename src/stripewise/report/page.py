"""The frame of every page that is one file: head, policy, banner, figures and scripts, with nothing from a network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

from stripewise.report.markup import Html, escape, join, paragraph, section, tag

SIMULATED = "Simulated: these runs were computed, not measured."


def page(
    *,
    title: str,
    subtitle: object,
    headline: object = "",
    sections: Mapping[str, tuple[str, object]],
    figures: Mapping[str, Any],
    simulated: bool = False,
    brand: str = "Stripewise report",
) -> str:
    """Write a page of the reports' looks that needs no network.

    Parameters
    ----------
    title : str
    subtitle : object
        Escaped, unless it is HTML already.
    headline : object
        Escaped, unless it is HTML already.
    sections : mapping
        Identifier to heading and content, in order. Content that is a section already (its heading says more than the
        link to it) stays as it is; without content there is neither section nor link.
    figures : mapping
        Plotly figures by the names under which the content leaves places for them.
    simulated : bool
        Whether to say so at the top.
    brand : str
        What kind of page it is.
    """
    # Plotly takes half a second to import; commands that draw nothing are not to wait for it.
    from plotly.offline import get_plotlyjs  # noqa: PLC0415

    from stripewise.report.figures import figures_json  # noqa: PLC0415

    shown = {name: entry for name, entry in sections.items() if entry[1]}
    plotly, script = Html(get_plotlyjs()), Html(asset("drawing.js") + asset("report.js"))
    return Template(asset("report.html")).substitute(
        title=escape(title),
        brand=escape(brand),
        subtitle=paragraph(subtitle, class_="subtitle") if subtitle else "",
        style=asset("report.css"),
        policy=f"script-src {_fingerprint(plotly)} {_fingerprint(script)}",
        banner=tag("div", tag("strong", SIMULATED), class_="simulated", role="note") if simulated else "",
        headline=escape(headline),
        nav=navigation({name: heading for name, (heading, _) in shown.items()}),
        sections=join(_section(name, heading, content) for name, (heading, content) in shown.items()),
        figures=figures_json(dict(figures)),
        plotly=plotly,
        script=script,
    )


def _section(name: str, heading: str, content: object) -> Html:
    if isinstance(content, Html) and content.startswith("<section "):
        return content
    return section(name, heading, content)


def navigation(headings: Mapping[str, str]) -> str:
    """Links to sections, by identifier."""
    return " ".join(tag("a", heading, href=f"#{name}") for name, heading in headings.items())


def asset(name: str) -> str:
    """Read a file that pages are made of."""
    return (resources.files("stripewise.report") / "assets" / name).read_text("utf-8")


def _fingerprint(script: str) -> str:
    """The hash by which a browser lets exactly this script run, and no other."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
