"""An experiment's figures by name: what is drawn of a reading, once for its report, its page and notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from stripewise.catalogue.configuration import changed
from stripewise.output import plots
from stripewise.output.reading import Reading


def figure_names(reading: Reading) -> set[str]:
    """Name the figures that there will be, without drawing them."""
    return {name for name, (there, _) in FIGURES.items() if there(reading)}


def figures(reading: Reading) -> dict[str, go.Figure]:
    """Draw every figure for which there are data, by name."""
    return {name: draw(reading) for name, (there, draw) in FIGURES.items() if there(reading)}


def _trajectory(reading: Reading) -> go.Figure:
    result = reading.result
    guides = plots.GuideLines(
        reading.incumbent(),
        result.default.value,
        result.reference.value if result.reference else None,
        [(one.run, one.default) for one in result.level.runs],
    )
    return plots.trajectory(reading.points(), **reading.scale, guides=guides)


def _importance(reading: Reading) -> go.Figure:
    few = "too few runs to tell"
    zero = few if few in reading.result.importance_note else "no measurable influence"
    usual = reading.result.default.configuration
    tried = {name for trial in reading.trials for name in changed(trial.configuration, usual)}
    shares = {name: share for name, share in reading.result.importance.items() if share > 0 or name in tried}
    return plots.importance(shares, zero=zero)


def _confirmation(reading: Reading) -> go.Figure:
    result, proof = reading.result, reading.result.confirmation
    estimate = proof.estimate
    return plots.confirmation(
        reading.pairs(),
        **reading.scale,
        estimate=result.speedup if estimate is None and result.confirmed else estimate,
        interval=proof.interval or result.speedup_interval,
        minimum_effect=proof.minimum_effect,
    )


def _machine(reading: Reading) -> go.Figure:
    runs, moments, chart = reading.machine
    limits = None
    if chart.centre is not None and chart.low is not None and chart.high is not None:
        limits = plots.Limits(chart.centre, chart.low, chart.high)
    points = [
        plots.ChartPoint(when, float(run.value or 0.0), f"run {run.number}", rules)
        for run, when, rules in zip(runs, moments, chart.rules, strict=True)
    ]
    return plots.control_chart(points, limits, quantity=reading.quantity, unit=reading.unit)


FIGURES: dict[str, tuple[Callable[[Reading], bool], Callable[[Reading], go.Figure]]] = {
    "trajectory": (lambda reading: True, _trajectory),
    "parallel": (
        lambda reading: bool(reading.lines()[0]) and len(reading.lines()[1]) > 1,
        lambda reading: plots.parallel_coordinates(*reading.lines(), **reading.scale),
    ),
    "contour": (
        lambda reading: bool(reading.contour()[0]),
        lambda reading: plots.contour(*reading.contour(), **reading.scale),
    ),
    "timeline": (lambda reading: len(reading.times()) > 1, lambda reading: plots.timeline(reading.times())),
    "importance": (lambda reading: bool(reading.result.importance), _importance),
    "confirmation": (lambda reading: bool(reading.pairs()), _confirmation),
    "bounds": (lambda reading: bool(reading.bounded()), lambda reading: plots.bounds(reading.bounded())),
    "machine": (lambda reading: len(reading.machine[0]) > 1, _machine),
    "cost": (lambda reading: bool(reading.spending()[0]), lambda reading: plots.cost(*reading.spending())),
}
"""Name to whether there is such a figure of a reading, and how it is drawn."""


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
