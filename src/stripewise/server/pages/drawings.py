"""Figures as JSON, fetched beside the pages so that text never waits for a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stripewise.report.reading import Reading
from stripewise.server.pages.experiment import Id
from stripewise.server.pages.history import read
from stripewise.server.pages.view import PageRoute
from stripewise.server.remembered import version
from stripewise.server.service import Here
from stripewise.spec.trial import Role, Trial

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST_PARAMETERS = 40


@router.get("/experiments/{id}/figures.json")
def figures(request: Request, service: Here, id: Id, part: Literal["runs", "facts"] = "runs") -> Response:
    """Give the figures that need the runs alone, or those that need what was observed in each run."""
    record = service.store.record(id)

    def draw() -> str:
        _, trials, found = read(service, record.id, facts=part == "facts")
        return text_of(of_facts(found) if part == "facts" else of_runs(found, trials))

    return Response(service.figures.get((part, *version(record)), draw), media_type="application/json")


def as_json(drawn: dict[str, Any]) -> Response:
    """Answer with figures in both looks."""
    return Response(text_of(drawn), media_type="application/json")


def text_of(drawn: dict[str, Any]) -> str:
    """Write figures in both looks."""
    from stripewise.report.figures import figures_json  # noqa: PLC0415  half a second to load, once

    return figures_json(drawn)


def of_runs(found: Reading, trials: Sequence[Trial]) -> dict[str, Any]:
    """Draw what the report draws, and trials and values raw and aggregated."""
    from stripewise.plots.parameters import Axis  # noqa: PLC0415
    from stripewise.plots.tried import LevelPoint, TrialPoint, by_level  # noqa: PLC0415
    from stripewise.plots.tried import trials as trials_figure  # noqa: PLC0415
    from stripewise.report.figures import figures as report_figures  # noqa: PLC0415

    drawn = dict(report_figures(found))
    default = found.result.default.value
    points = [
        TrialPoint(trial.number, trial.values, trial.role.value, found.describe(trial))
        for trial in trials
        if trial.values
    ]
    drawn["trials"] = trials_figure(
        points,
        **found.scale,
        default=default,
        reference=found.result.reference.value if found.result.reference else None,
    )
    best = (found.result.candidate or found.result.best).trial
    axes, _ = found.lines()
    own = [trial for trial in trials if trial.values and trial.role is not Role.REFERENCE]
    for index, axis in enumerate(axes[:_MOST_PARAMETERS]):
        levels = {trial.number: found_level(found, trial, axis) for trial in own}
        known = [trial for trial in own if levels[trial.number] is not None]
        for name, each in (("runs", True), ("trials", False)):
            marks = [
                LevelPoint(levels[trial.number] or 0, value, found.describe(trial), trial.number == best)
                for trial in known
                for value in (trial.values if each else [float(trial.value or 0.0)])
            ]
            drawn[f"level-{index}-{name}"] = by_level(
                Axis(axis.name, axis.labels),
                marks,
                quantity=found.quantity,
                unit=found.unit,
                default=default,
            )
    return drawn


def found_level(found: Reading, trial: Trial, axis: Any) -> int | None:
    """Find the place of a trial's value on an axis; None if it has none."""
    from stripewise.report.markup import value_text  # noqa: PLC0415

    value = {**found.default, **trial.configuration}.get(axis.name)
    text = value_text(value, found.units.get(axis.name, ""))
    return list(axis.labels).index(text) if text in axis.labels else None


def of_facts(found: Reading) -> dict[str, Any]:
    """Draw what held simulated runs back, and the storage targets and nodes that runs used."""
    from stripewise import plots  # noqa: PLC0415
    from stripewise.plots.places import place_map  # noqa: PLC0415
    from stripewise.report.placement import placement  # noqa: PLC0415

    drawn: dict[str, Any] = {}
    bounded = found.bounded()
    if bounded:
        drawn["bounds"] = plots.bounds(bounded)
    where = placement(found)
    if where.osts:
        drawn["osts"] = place_map(where.osts, kind="OST")
    if where.nodes:
        drawn["nodes"] = place_map(where.nodes, kind="node")
    return drawn
