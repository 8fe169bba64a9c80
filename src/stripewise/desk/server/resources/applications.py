"""Applications: the experiments of each over time, the best so far, and whether it still holds."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from stripewise.desk.server.documents import Document
from stripewise.desk.server.html import as_json, render
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources.experiment_page import check_record
from stripewise.desk.server.service import Here, Service, User, tell_unreadable
from stripewise.errors import NotFound
from stripewise.output.applications import Application, Attempt, attempt_of, figures, group_attempts, history
from stripewise.store.base import read_or_skip
from stripewise.store.schema import experiments
from stripewise.store.service import database_of

resource = Resource("/applications", "experiments")

MOST = 1000
"""Experiments that are grouped, the newest first: reading one takes milliseconds."""

By = Annotated[Literal["program", "tag"], Query(description="what groups experiments")]
ApplicationName = Annotated[str, Query(min_length=1, max_length=300)]


class Applications(Document):
    """Applications, that with the newest experiment first."""

    total: int
    experiments: int
    items: list[dict[str, Any]]


@resource.get("", model=Applications)
def list_applications(service: Here, by: By = "program") -> dict[str, Any]:
    """Return the applications with their best so far; of the thousand newest experiments."""
    groups, total = find_applications(service, by)
    return {"total": len(groups), "experiments": total, "items": [group.as_json() for group in groups]}


def find_applications(service: Service, by: str = "program") -> tuple[list[Application], int]:
    """Group the newest experiments, and count all."""
    query = sa.select(experiments.c.id, experiments.c.updated, experiments.c.state, experiments.c.ended)
    query = query.order_by(experiments.c.created.desc(), experiments.c.id).limit(MOST)
    found = []
    for row in database_of(service.store).all(query):
        one = service.attempts.known(tuple(row)) or _read_attempt(service, tuple(row))
        if one is not None:
            found.append(one)
    return group_attempts(found, by_tag=by == "tag"), service.store.count()


def _read_attempt(service: Service, key: tuple[Any, ...]) -> Attempt | None:
    """Read one experiment; None where it cannot be read, or was deleted in the meantime."""
    with contextlib.suppress(NotFound):
        record = read_or_skip(partial(service.store.record, key[0]), tell_unreadable)
        if record is not None:
            trials = service.store.trials(record.id, facts=False) if record.result is not None else ()
            one = attempt_of(record, trials)
            service.attempts.keep(key, one)
            return one
    return None


def _find(service: Service, name: str, simulated: bool, by: str) -> Application:
    groups, _ = find_applications(service, by)
    found = next((group for group in groups if (group.name, group.simulated) == (name, simulated)), None)
    if found is None:
        raise NotFound(f"there is no experiment of '{name[:64]}'", "see the list of applications")
    return found


# -- pages ---------------------------------------------------------------------------------------------------------


@resource.page("")
def applications_page(request: Request, service: Here, by: By = "program") -> HTMLResponse:
    """Show all applications."""
    groups, total = find_applications(service, by)
    return render(
        request,
        "applications.html",
        title="Applications",
        groups=groups,
        by=by,
        left_out=max(0, total - MOST),
        finished=any(group.searches for group in groups),
    )


@resource.page("/figures.json")
def applications_figures(service: Here, by: By = "program") -> Response:
    """Give the figures of all applications."""
    return as_json(figures(find_applications(service, by)[0]))


@resource.page("/one")
def application_page(
    request: Request,
    service: Here,
    user: User,
    name: ApplicationName,
    simulated: bool = False,
    by: By = "program",
    check: bool = False,
) -> HTMLResponse:
    """Show one application; ``check``: say whether its best still holds here."""
    if check and not user.operator:
        raise Refused(403, f"the token '{user.name}' may not look at programs here", "use an operator's token")
    group = _find(service, name, simulated, by)
    best = group.best
    return render(
        request,
        "application.html",
        title=group.name,
        group=group,
        by=by,
        checked=check_record(service.store.record(best.id), service) if check and best else None,
    )


@resource.page("/one/figures.json")
def application_figures(service: Here, name: ApplicationName, simulated: bool = False, by: By = "program") -> Response:
    """Give the figure of one application."""
    group = _find(service, name, simulated, by)
    return as_json({"history": history(group)} if any(one.gain is not None for one in group.attempts) else {})
