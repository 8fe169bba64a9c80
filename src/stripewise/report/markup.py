"""HTML from data: every text is escaped here, once."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import markupsafe

from stripewise.spec.result import Interval
from stripewise.spec.sizes import format_size

Html = markupsafe.Markup
escape = markupsafe.escape


def join(parts: Iterable[object]) -> Html:
    """Put pieces one after the other."""
    return Html("".join(escape(part) for part in parts))


def tag(name: str, content: object = "", **attributes: object) -> Html:
    """Write an element; ``_`` in attribute names stands for ``-``, a trailing one is dropped, None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{escape(content)}</{name}>")


def paragraph(*parts: object, class_: str | None = None) -> Html:
    """Write a paragraph."""
    return tag("p", join(parts), class_=class_)


def listing(items: Iterable[object], class_: str | None = None) -> Html:
    """Write a list; nothing for no items."""
    rows = [tag("li", item) for item in items]
    return tag("ul", join(rows), class_=class_) if rows else Html("")


def table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], numeric: Iterable[int] = ()) -> Html:
    """Write a table with a caption; the first cell of a row is its heading.

    Parameters
    ----------
    caption : str
    headings : sequence of str
    rows : iterable of sequences
    numeric : iterable of int
        Columns to be set flush right.
    """
    right = set(numeric)

    def cell(index: int, value: object) -> Html:
        name, scope = ("th", "row") if index == 0 else ("td", None)
        return tag(name, value, scope=scope, class_="number" if index in right else None)

    head = join(
        tag("th", text, scope="col", class_="number" if index in right else None) for index, text in enumerate(headings)
    )
    body = join(tag("tr", join(cell(i, value) for i, value in enumerate(row))) for row in rows)
    whole = tag("table", join([tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", body)]))
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def facts(pairs: Iterable[tuple[str, object]]) -> Html:
    """Write names with their values; empty values are left out."""
    rows = [join([tag("dt", name), tag("dd", value)]) for name, value in pairs if value not in (None, "", [])]
    return tag("dl", join(tag("div", row) for row in rows), class_="facts")


def fold(summary: object, content: object, *, open_: bool = False) -> Html:
    """Write something that opens on demand."""
    return tag("details", join([tag("summary", summary), content]), open="open" if open_ else None)


def figure(name: str, description: str, caption: object) -> Html:
    """Leave the place of a figure, which a script fills."""
    place = tag("div", "", class_="plot", data_figure=name, role="group", aria_label=description)
    return tag("figure", join([tag("div", place, class_="scroll"), tag("figcaption", caption)]))


def copyable(text: str, label: str) -> Html:
    """Write a text with a button that copies it."""
    button = tag("button", "Copy", type="button", class_="copy", aria_label=f"Copy {label}")
    return tag("div", join([button, tag("pre", tag("code", text), tabindex="0", aria_label=label)]), class_="copyable")


def section(identifier: str, title: str, *parts: object) -> Html:
    """Write a section with its heading."""
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", join([heading, *parts]), id=identifier, aria_labelledby=f"{identifier}-title")


# -- values --------------------------------------------------------------------------------------------------


def interval(ends: Interval | None, digits: int = 3) -> str:
    """Write an interval; empty where there is none."""
    if ends is None or not math.isfinite(ends.high):
        return ""
    low, high = ends.low, ends.high
    return f"{low:,.{digits}g} to {high:,.{digits}g}" if abs(high) < 1000 else f"{low:,.0f} to {high:,.0f}"


def duration(seconds: float | None) -> str:
    """Write a time as a person would say it."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def count(amount: int, noun: str, plural: str = "") -> str:
    """Write a number of things."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def moment(epoch: float | None) -> str:
    """Write a time of day in UTC."""
    if not epoch:
        return ""
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def value_text(value: Any, unit: str = "") -> str:
    """Write a parameter's value: bytes as sizes, booleans as true and false."""
    if isinstance(value, bool):
        return str(value).lower()
    if unit == "B" and isinstance(value, int | float):
        return format_size(value)
    return str(value)


def measured_text(value: Any, unit: str) -> str:
    """Write a parameter's value with its unit; a count is told by the parameter's name."""
    text = value_text(value, unit)
    return text if unit in ("B", "count") else f"{text} {unit}".rstrip()


def changes(
    configuration: Mapping[str, Any],
    default: Mapping[str, Any] = MappingProxyType({}),
    units: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Write what a configuration changes, a word a parameter."""
    return [
        f"{name}={value_text(value, units.get(name, ''))}"
        for name, value in configuration.items()
        if name not in default or default[name] != value
    ]


def capitalised(text: str) -> str:
    """Begin a sentence."""
    return text[:1].upper() + text[1:]


def date(text: str | None) -> str:
    """Write a moment given as ISO 8601 for people, in UTC."""
    if not text:
        return ""
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
