"""Several experiments side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from stripewise.desk.server import reading
from stripewise.desk.server.history import read
from stripewise.desk.server.html import as_json, render
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources.experiments import line
from stripewise.desk.server.service import Here, Service, tell_unreadable
from stripewise.errors import UserError
from stripewise.output import compare
from stripewise.output.experiment_view import ExperimentView

resource = Resource("/compare")

MOST = 8
_CHOICES = 100
Ids = Annotated[list[Annotated[str, Query(max_length=64)]] | None, Query()]


def comparison(service: Service, identifiers: list[str]) -> dict[str, Any]:
    """Collect what the page shows.

    Raises
    ------
    UserError
        More than :data:`MOST`, or one that does not exist.
    """
    found = _views(service, identifiers)
    readings = list(found.values())
    chosen = {one.record.id for one in readings}
    others = [
        record
        for record in service.store.records(limit=_CHOICES, descending=True, on_unreadable=tell_unreadable)
        if record.id not in chosen
    ]
    return {
        "lines": [line(entry) for entry in reading.summaries(service, [one.record for one in readings])],
        "views": readings,
        "titles": list(found),
        "parameters": compare.parameters(readings),
        "facts": _facts(readings),
        "notes": compare.differences(readings) if len(readings) > 1 else [],
        "others": others,
        "query": "&".join(f"id={one.record.id}" for one in readings),
    }


def _views(service: Service, identifiers: list[str]) -> dict[str, ExperimentView]:
    wanted = list(dict.fromkeys(identifiers))
    if len(wanted) > MOST:
        raise UserError(f"{len(wanted)} experiments are too many to compare", f"choose up to {MOST}")
    found: dict[str, ExperimentView] = {}
    for identifier in wanted:
        record, _, one = read(service, identifier)
        found[f"{record.experiment.name or 'experiment'} {record.id}"] = one
    return found


def _facts(readings: list[ExperimentView]) -> list[tuple[str, list[str]]]:
    return [
        ("Objective", [f"{one.quantity} ({one.result.objective.direction})" for one in readings]),
        ("Sampler", [one.record.experiment.sampler for one in readings]),
        ("Runner", [one.record.experiment.runner for one in readings]),
        ("MPI", [str(one.result.environment.get("mpi") or "–") for one in readings]),
        ("Ranks", [str(one.result.validity.ranks or "–") for one in readings]),
        ("Nodes", [str(one.result.workload.nodes or "–") for one in readings]),
        ("Verdict", [one.result.verdict or "not finished" for one in readings]),
    ]


@resource.page("")
def show(request: Request, service: Here, id: Ids = None) -> HTMLResponse:
    """Compare experiments."""
    return render(request, "compare.html", title="Compare", **comparison(service, id or []))


@resource.page("/figures.json")
def figures(service: Here, id: Ids = None) -> Response:
    """Give the figures."""
    return as_json(compare.figures(_views(service, id or [])))
