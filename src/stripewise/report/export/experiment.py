"""Values for an experiment file."""

from __future__ import annotations

import json

from stripewise.report.export.request import Export, Request, text


def toml(request: Request) -> Export:
    """Tables that narrow the next experiment to the values found and the defaults."""
    lines: list[str] = []
    cannot: list[str] = []
    if request.plan.settings and not request.changed:
        cannot.append("the plan's settings: an experiment names parameters, and this plan does not say which they were")
    for name, value in request.changed.items():
        if isinstance(value, bool):
            cannot.append(f"{name}={str(value).lower()}: a boolean parameter always has both values")
            continue
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
        lines += [f"[parameters.{name}]", f"values = [{shown}]", ""]
    if lines:
        lines.insert(0, "# narrows the next experiment to these values and the defaults")
    return Export(
        text(lines).rstrip("\n") + "\n" if lines else "",
        "remove these tables from the experiment file\n",
        cannot,
        "add it to an experiment file; the default of each parameter stays in the space, as the baseline",
        "an experiment file wins over the stack files that it names.",
        "parameters.toml",
    )
