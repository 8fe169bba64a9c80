"""From data to HTML: the one template environment, and the frame of pages that are one file."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stripewise.output import markup
from stripewise.output.plots.style import number
from stripewise.sizes import count_of, format_size, format_value


@functools.cache
def environment() -> Environment:
    """Give the environment of all templates: every value is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=PackageLoader("stripewise.output"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "number": number,
        "duration": markup.duration,
        "moment": markup.format_moment,
        "date": markup.date,
        "interval": markup.format_interval,
        "factors": lambda ends: "" if ends is None else markup.factors(ends.low, ends.high),
        "size": format_size,
        "format_value": format_value,
        "measured": markup.measured_text,
        "changes": markup.list_changes,
        "count": count_of,
        "sentence": markup.capitalised,
        "zip": lambda left, right: list(zip(left, right, strict=True)),
        "fingerprint": _fingerprint,
    }
    return made


def render(template: str, **context: Any) -> Markup:
    """Fill a template."""
    return Markup(environment().get_template(template).render(context))


def page(
    template: str,
    *,
    title: str,
    subtitle: str,
    figures: Mapping[str, Any],
    headings: Mapping[str, str],
    simulated: bool = False,
    brand: str = "Stripewise report",
    **context: Any,
) -> str:
    """Write a page that needs no network.

    Parameters
    ----------
    template : str
        One that extends ``page.html``.
    figures : mapping
        Plotly figures by the names under which the template leaves places for them.
    headings : mapping
        Identifiers of sections and the words that link to them, in order; those that the template leaves out get no
        link.
    simulated : bool
        Whether to say so at the top.
    brand : str
        What kind of page it is.
    **context
        What the template needs besides.
    """
    # Plotly takes half a second to import; commands that draw nothing are not to wait for it.
    from stripewise.output.figures import figures_json  # noqa: PLC0415

    frame = {
        "title": title,
        "brand": brand,
        "subtitle": subtitle,
        "headings": headings,
        "simulated": simulated,
        "figures": figures,
        # The package's own style and scripts, and JSON in which no element can end.
        "style": Markup(asset("report.css")),
        "plotly": Markup(asset("plotly.min.js")),
        "script": Markup(asset("drawing.js") + asset("report.js")),
        "drawn": Markup(figures_json(dict(figures))),
    }
    return str(render(template, **frame, **context))


def asset(name: str) -> str:
    """Read a file that pages are made of."""
    return (resources.files("stripewise.output") / "assets" / name).read_text("utf-8")


def _fingerprint(script: str) -> Markup:
    """The hash by which a browser lets exactly this script run, and no other."""
    digest = hashlib.sha256(str(script).encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode()}'")  # base64 holds nothing to escape
