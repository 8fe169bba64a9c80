"""The report's figures, from a reading."""

from __future__ import annotations

import json
from typing import Any

import plotly.graph_objects as go

from stripewise import plots
from stripewise.report.reading import Reading


def figures(reading: Reading) -> dict[str, go.Figure]:
    """Draw what there is to draw, by name."""
    result = reading.result
    drawn: dict[str, go.Figure] = {
        "trajectory": plots.trajectory(
            reading.points(),
            **reading.scale,
            incumbent=reading.incumbent(),
            default=result.default.value,
            reference=result.reference.value if result.reference else None,
        )
    }
    axes, lines = reading.lines()
    if axes and len(lines) > 1:
        drawn["parallel"] = plots.parallel_coordinates(axes, lines, **reading.scale)
    if result.importance:
        few = "too few runs to tell"
        zero = few if few in result.importance_note else "no measurable influence"
        drawn["importance"] = plots.importance(result.importance, zero=zero)
    pairs = reading.pairs()
    if pairs:
        proof = result.confirmation
        estimate = proof.estimate
        drawn["confirmation"] = plots.confirmation(
            pairs,
            **reading.scale,
            estimate=result.speedup if estimate is None and result.confirmed else estimate,
            interval=proof.interval or result.speedup_interval,
            minimum_effect=proof.minimum_effect,
        )
    bounded = reading.bounded()
    if bounded:
        drawn["bounds"] = plots.bounds(bounded)
    runs, moments, chart = reading.machine
    if len(runs) > 1:
        limits = None
        if chart.centre is not None and chart.low is not None and chart.high is not None:
            limits = plots.Limits(chart.centre, chart.low, chart.high)
        points = [
            plots.ChartPoint(when, float(run.value or 0.0), f"run {run.number}", rules)
            for run, when, rules in zip(runs, moments, chart.rules, strict=True)
        ]
        drawn["machine"] = plots.control_chart(points, limits, quantity=reading.quantity, unit=reading.unit)
    seconds, launches = reading.spending()
    if seconds:
        drawn["cost"] = plots.cost(seconds, launches)
    return drawn


def figures_json(drawn: dict[str, go.Figure]) -> str:
    """Write figures and both looks as JSON that can stand inside a script element.

    The titles are left out: on a page the headings and captions say them.
    """
    document: dict[str, Any] = {
        "templates": {name: plots.template(dark).to_plotly_json() for name, dark in (("light", False), ("dark", True))},
        "figures": {},
    }
    for name, figure in drawn.items():
        entry = json.loads(figure.to_json())
        entry["layout"].pop("template", None)
        entry["layout"].pop("title", None)
        entry["layout"].setdefault("margin", {"t": 56 if name in ("trajectory", "confirmation", "machine") else 24})
        document["figures"][name] = entry
    # "<" could end the element that holds the text, whatever the text says.
    return json.dumps(document, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
