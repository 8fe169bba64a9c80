"""Values as people read them: intervals, times, sizes, settings."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from stripewise.catalogue.configuration import find_changes
from stripewise.result import Interval
from stripewise.sizes import count_of, format_size, format_value


def format_interval(ends: Interval | None, digits: int = 3) -> str:
    """Write an interval; empty where there is none."""
    if ends is None or not math.isfinite(ends.high):
        return ""
    low, high = ends.low, ends.high
    return f"{low:,.{digits}g} to {high:,.{digits}g}" if abs(high) < 1000 else f"{low:,.0f} to {high:,.0f}"


def factors(low: float, high: float) -> str:
    """Write the interval of a speed-up, rounded as the verdict rounds it."""
    return f"{low:,.2f} to {high:,.2f}" if math.isfinite(high) else ""


def duration(seconds: float | None) -> str:
    """Write a time as a person would say it."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_moment(epoch: float | None) -> str:
    """Write a time of day in UTC."""
    if not epoch:
        return ""
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def workload_text(name: str, value: Any) -> str:
    """Write what a workload says of a program: all of its sizes are bytes."""
    return format_size(value) if name.endswith("_size") and isinstance(value, int | float) else format_value(value)


def measured_text(value: Any, unit: str) -> str:
    """Write a parameter's value with its unit; the parameter's name says what it counts."""
    text = format_value(value, unit)
    return text if unit in ("B", "count") else f"{text} {unit}".rstrip()


def list_changes(
    configuration: Mapping[str, Any],
    default: Mapping[str, Any] = MappingProxyType({}),
    units: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Write what a configuration changes, a word a parameter: sizes as ``256K``."""
    return [write_setting(name, value, units) for name, value in find_changes(configuration, default).items()]


def guess_units(names: Iterable[str]) -> dict[str, str]:
    """Give the unit of settings whose names say that they are sizes, where a document has no schema."""
    return {name: "B" for name in names if name.endswith("_size")}


def write_setting(name: str, value: Any, units: Mapping[str, str]) -> str:
    """Write a parameter with its value as one word."""
    return f"{name}={format_value(value, units.get(name, ''))}"


def write_leaf(leaf: Mapping[str, Any]) -> str:
    """Write a leaf of a prescribing tree as a sentence, with the workloads that it was learnt from."""
    condition = f"if {leaf['when']}: " if leaf["when"] else "always: "
    settings = " ".join(list_changes(leaf["configuration"], units=guess_units(leaf["configuration"])))
    share = f"{leaf['achieved']:.1f}% of the best"
    return f"{condition}{settings} ({count_of(leaf['workloads'], 'workload')}, best for {leaf['best']}; {share})"


def capitalised(text: str) -> str:
    """Give a text with a capital first letter, unless it begins with a name, such as ``cb_nodes`` or ``x=1``."""
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    return text if set(first) & set("_=/") else text[:1].upper() + text[1:]


def date(text: str | None) -> str:
    """Write a moment given as ISO 8601 for people, in UTC."""
    if not text:
        return ""
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
