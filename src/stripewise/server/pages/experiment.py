"""The page of one experiment: what it shows, what can be done with it, and its figures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stripewise.errors import StripewiseError, UserError
from stripewise.report import findings
from stripewise.report.bundle import helpdesk_bundle, log_tail
from stripewise.report.export import export
from stripewise.report.reading import Reading
from stripewise.server import reading, starting
from stripewise.server.pages.history import history
from stripewise.server.pages.overview import line
from stripewise.server.pages.view import PageRoute, render
from stripewise.server.policy import check_experiment
from stripewise.server.service import Here, Service, User
from stripewise.spec.facts import RunFacts
from stripewise.spec.plan import Plan
from stripewise.spec.trial import Role, Run, Trial
from stripewise.store.base import Record
from stripewise.tuning.again import changed_since, confirm_again

router = APIRouter(include_in_schema=False, route_class=PageRoute)

RUNS = 50
_MESSAGES = 30
_STATES = ("pending", "running", "finished", "failed", "pruned")
Id = Annotated[str, InPath(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
RunState = Literal["pending", "running", "finished", "failed", "pruned"]


def experiment_page(
    service: Service, identifier: str, page: int = 1, state: str | None = None, check: bool = False
) -> dict[str, Any]:
    """Collect what the page shows.

    Parameters
    ----------
    service : Service
    identifier : str
    page : int
        Of the runs, from 1.
    state : str, optional
        Only runs in this state.
    check : bool
        Whether to look if the result still holds for the program and libraries as they are now.
    """
    known = history(service, identifier)
    record, found = known.record, known.found
    whole = record.result is not None
    runs = runs_part(service, record, known.trials, found, page, state)
    job = service.jobs.of(record.id)
    checked: dict[str, Any] | None = None
    if check:
        checked = _checked(record, service)
    return {
        "record": record,
        "line": line(reading.summaries(service, [record])[0]),
        "error": job.error if job is not None and record.state not in ("finished", "running") else "",
        "reading": found,
        "result": found.result,
        "whole": whole,
        "command": shlex.join(record.experiment.command),
        "headline": findings.headline(found) if whole else None,
        "sections": known.sections,
        "figures": known.figures,
        "levels": [axis.name for axis in found.lines()[0]],
        "targets": known.targets,
        "can_confirm": known.can_confirm,
        "checked": checked,
        "messages": _messages(service, record.id),
        **runs,
    }


def runs_part(
    service: Service, record: Record, trials: Sequence[Trial], found: Reading, page: int, state: str | None
) -> dict[str, Any]:
    """Collect a page of the runs, each with what it changed."""
    total = reading.count_runs(service, record.id, state)
    pages = max(1, -(-total // RUNS))
    page = min(page, pages)
    by_number = {trial.number: trial for trial in trials}
    # The newest first while it runs: that is what people watch.
    rows = reading.runs_page(service, record.id, RUNS, (page - 1) * RUNS, state)
    if record.state == "running" and not state:
        start = max(0, total - page * RUNS)
        rows = reading.runs_page(service, record.id, min(RUNS, total - (page - 1) * RUNS), start, state)[::-1]
    return {
        "runs": [
            {**row, "settings": _told(found, by_number.get(row["trial"])), "role": _role(by_number.get(row["trial"]))}
            for row in rows
        ],
        "runs_total": total,
        "runs_page": page,
        "runs_pages": pages,
        "runs_state": state,
        "run_states": _STATES,
    }


def _told(found: Reading, trial: Trial | None) -> list[str]:
    if trial is None or trial.role is not Role.CANDIDATE:
        return []
    return found.changed(trial)


def _role(trial: Trial | None) -> str:
    return "candidate" if trial is None else trial.role.value


def _checked(record: Record, service: Service) -> dict[str, Any]:
    folder = Path(record.facts.folder or service.settings.data)
    check_experiment(record.experiment, folder, service.settings)
    try:
        return {"differences": changed_since(record), "error": ""}
    except StripewiseError as error:
        return {"differences": [], "error": f"{error.what}; {error.mend}" if error.mend else error.what}


def _messages(service: Service, identifier: str) -> list[dict[str, Any]]:
    """What the session had to say in words, the newest first."""
    said = [message for message in service.messages.after(0, identifier) if message.data.get("text")]
    return [
        {"time": message.time, "kind": message.kind, "text": str(message.data["text"])}
        for message in said[-_MESSAGES:][::-1]
    ]


@router.get("/experiments/{id}")
def show_experiment(
    request: Request,
    service: Here,
    id: Id,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    state: RunState | None = None,
    check: bool = False,
) -> HTMLResponse:
    """Show an experiment."""
    shown = experiment_page(service, id, page, state, check)
    record: Record = shown["record"]
    return render(request, "experiment.html", title=record.experiment.name or record.id, **shown)


@router.get("/experiments/{id}/runs/{number}")
def show_run(request: Request, service: Here, id: Id, number: Annotated[int, InPath(ge=0, le=2**31)]) -> HTMLResponse:
    """Show a run with what it printed."""
    record = service.store.record(id)
    row = reading.one_run(service, record.id, number)
    if row is None:
        raise UserError(f"there is no run {number} of experiment {record.id}", "see the table of its runs")
    known = history(service, record.id)
    trial, found = next((trial for trial in known.trials if trial.number == row["trial"]), None), known.found
    facts = RunFacts(row["facts"])
    run = Run(number, row["trial"], row["phase"], row["state"], facts=facts)
    logs = {name: log_tail(run, name) for name in ("stdout", "stderr")}
    kept = {key: value for key, value in facts.items() if key not in ("report", "folder", "output")}
    return render(
        request,
        "run.html",
        title=f"Run {number}",
        record=record,
        run=row,
        logs=logs,
        facts=kept,
        report=facts.report,
        unit=found.unit,
        settings=_told(found, trial),
        role=_role(trial),
    )


@router.get("/experiments/{id}/bundle.zip")
def bundle(service: Here, user: User, id: Id) -> Response:
    """Give the helpdesk's bundle."""
    record = service.store.record(id)
    content = helpdesk_bundle(record, service.store.trials(record.id))
    name = f"stripewise-{record.id}.zip"
    return Response(
        content, media_type="application/zip", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


@router.get("/experiments/{id}/export/{target}")
def export_file(service: Here, id: Id, target: str, undo: bool = False) -> Response:
    """Give the settings as another tool takes them, or what takes them back."""
    record = service.store.record(id)
    if record.result is None:
        raise UserError(f"experiment {record.id} has no result yet", "wait until it is finished")
    plan = Plan.parse(record.result.plan, "the result's plan")
    made = export(plan, target, changed=record.result.changed(record.result.best))
    name = f"undo-{made.filename or target}" if undo else made.filename or f"stripewise-{target}.txt"
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    return Response(
        made.undo if undo else made.text,
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{plain}"'},
    )


@router.post("/experiments/{id}/stop")
def stop(service: Here, id: Id) -> RedirectResponse:
    """Ask it to stop."""
    return _back(starting.stop(service, id).id)


@router.post("/experiments/{id}/resume")
def resume(service: Here, user: User, id: Id) -> RedirectResponse:
    """Let a worker go on."""
    return _back(starting.resume(service, id, user).id)


@router.post("/experiments/{id}/delete")
async def delete(request: Request, service: Here, id: Id) -> RedirectResponse:
    """Delete it."""
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415

    identifier = await run_in_threadpool(starting.delete, service, id)
    request.state.subject = identifier
    service.hub.tell_deleted(identifier)
    return RedirectResponse("/", 303)


@router.post("/experiments/{id}/confirm")
def confirm(service: Here, user: User, id: Id, pairs: Annotated[int, Form(ge=1, le=40)] = 12) -> RedirectResponse:
    """Confirm its result once more, as an experiment of its own."""
    record = service.store.record(id)
    definition = confirm_again(record, pairs)
    made = starting.create(service, definition, record.facts.folder, user)
    return _back(made.id)


def _back(identifier: str) -> RedirectResponse:
    return RedirectResponse(f"/experiments/{identifier}", 303)
