"""An experiment's figures by name: what is drawn of a view, once for its report, its page and notebooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from stripewise.output.experiment_view import ExperimentView
from stripewise.output.plots import job_io, parameters, proof, style, trajectory


def figure_names(view: ExperimentView) -> set[str]:
    """Name the figures that there will be, without drawing them."""
    return {name for name, (there, _) in FIGURES.items() if there(view)}


def figures(view: ExperimentView) -> dict[str, go.Figure]:
    """Draw every figure for which there are data, by name."""
    return {name: draw(view) for name, (there, draw) in FIGURES.items() if there(view)}


def _trajectory(view: ExperimentView) -> go.Figure:
    result = view.result
    guides = trajectory.GuideLines(
        view.incumbent(),
        result.default.value,
        result.reference.value if result.reference else None,
        [(one.run, one.default) for one in result.level.runs],
    )
    return trajectory.trajectory(view.points(), **view.scale, guides=guides)


def _confirmation(view: ExperimentView) -> go.Figure:
    result, shown = view.result, view.result.confirmation
    estimate = shown.estimate
    return proof.confirmation(
        shown.pairs,
        **view.scale,
        estimate=result.speedup if estimate is None and result.confirmed else estimate,
        interval=shown.interval or result.speedup_interval,
        minimum_effect=shown.minimum_effect,
    )


FIGURES: dict[str, tuple[Callable[[ExperimentView], bool], Callable[[ExperimentView], go.Figure]]] = {
    "trajectory": (lambda view: bool(view.points()), _trajectory),
    "parallel": (
        lambda view: bool(view.lines()[0]) and len(view.lines()[1]) > 1,
        lambda view: parameters.parallel_coordinates(*view.lines(), **view.scale),
    ),
    "contour": (
        lambda view: bool(view.contour()[0]),
        lambda view: parameters.contour(*view.contour(), **view.scale),
    ),
    "timeline": (lambda view: len(view.times()) > 1, lambda view: trajectory.timeline(view.times())),
    "generations": (
        lambda view: len({point.generation for point in view.generations()}) > 1,
        lambda view: trajectory.generations(view.generations(), **view.scale),
    ),
    "confirmation": (lambda view: bool(view.result.confirmation.pairs), _confirmation),
    "bounds": (lambda view: bool(view.bounded()), lambda view: job_io.bounds(view.bounded())),
    "machine": (
        lambda view: len(view.machine[0]) > 1,
        lambda view: proof.control_chart(*view.machine, quantity=view.quantity, unit=view.unit),
    ),
    "cost": (lambda view: bool(view.spending()[0]), lambda view: proof.cost(*view.spending())),
}
"""Name to whether there is such a figure of a view, and how it is drawn."""


def figures_json(drawn: dict[str, go.Figure]) -> str:
    """Write figures and both looks as JSON that can stand inside a script element.

    The titles are left out: on a page the headings and captions say them.
    """
    document: dict[str, Any] = {
        # Colours stand beside the template: Plotly changes what a template has under `meta`.
        "looks": {
            "light": {"template": style.template().to_plotly_json(), "colours": {}},
            "dark": {"template": style.template(dark=True).to_plotly_json(), "colours": style.ON_DARK},
        },
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
