"""Trials and runs of an experiment, with what the runs have printed, and exports of what was found."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import Header, Path, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from stripewise.catalogue.plan import Plan
from stripewise.desk.server import experiment_documents
from stripewise.desk.server.documents import Log, MessagePage, RunDocument, RunPage, TrialPage
from stripewise.desk.server.experiment_documents import history
from stripewise.desk.server.html import answer_attachment, render
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Limit, Offset, Resource
from stripewise.desk.server.resources.experiments import Id
from stripewise.desk.server.service import Here, Service, Session, User
from stripewise.engine.folders import runs_folder
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.output.bundle import helpdesk_bundle, log_tail
from stripewise.output.export import TARGETS, Export, export
from stripewise.output.html import render_report
from stripewise.output.run_files import write_csv, write_t4
from stripewise.result import Result
from stripewise.store.base import Record
from stripewise.store.service.tokens import LoginSession, Token
from stripewise.trial import Run


def read_log(record: Record, run: dict[str, Any], stream: str, offset: int | None, limit: int) -> dict[str, Any]:
    """Give a piece of a run's output.

    Parameters
    ----------
    run : dict
        The run's document.
    stream : str
        ``stdout`` or ``stderr``.
    offset : int or None
        Bytes before the piece; None for the last ``limit`` bytes.

    Raises
    ------
    Refused
        With status 404, without output.
    """
    gone = Refused(404, f"there is no {stream} of run {run['number']}", "runs without a folder of their own keep none")
    folder = output_folder(record, run)
    if folder is None:
        raise gone
    try:
        handle = os.open(folder / stream, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise gone from None
    with os.fdopen(handle, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise gone
        start = max(0, status.st_size - limit) if offset is None else min(offset, status.st_size)
        opened.seek(start)
        data = opened.read(limit)
    return {"stream": stream, "offset": start, "size": status.st_size, "text": data.decode("utf-8", "replace")}


def output_folder(record: Record, run: Mapping[str, Any]) -> FilePath | None:
    """Give the folder in which a run's output is; of one that runs, where its latest launch writes.

    None if there is none, or if it lies outside the folder of the experiment's runs: a store may be shared, and whoever
    writes to it must not choose what this service reads.
    """
    own = (runs_folder(record.experiment) / record.id).resolve()
    found = [FilePath(run["folder"])] if run["folder"] else []
    try:
        if not found and run["state"] == "running":
            found = [own / str(run["number"]), *own.glob(f"{run['number']}.*")]
            found = sorted((one for one in found if one.is_dir()), key=lambda one: one.stat().st_mtime)[-1:]
        return next((place for one in found if (place := one.resolve()).is_relative_to(own)), None)
    except (OSError, RuntimeError, ValueError):
        return None


resource = Resource("/experiments/{id}", "trials")

Number = Annotated[int, Path(ge=0, le=2**31 - 1, description="number of the run", examples=[3])]
RunState = Literal["pending", "running", "finished", "failed", "pruned"]


class Exported(BaseModel):
    """Settings in the words of another tool."""

    target: str = Field(examples=["shell"])
    simulated: bool
    text: str = Field(examples=["export ROMIO_HINTS=...\n"])
    undo: str
    cannot: list[str] = Field(description="what cannot be expressed")
    use: str
    wins: str = Field(description="who wins each key")
    filename: str


@resource.get("/trials", 404, model=TrialPage)
def list_trials(
    service: Here,
    id: Id,
    facts: Annotated[bool, Query(description="with what was observed in each run")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Return a page of trials with their runs."""
    record = service.store.record(id)
    total, items = experiment_documents.trials_page(service, record.id, limit, offset, facts=facts)
    return {"total": total, "items": items}


@resource.get("/runs", 404, model=RunPage)
def list_runs(
    service: Here, id: Id, state: RunState | None = None, limit: Limit = 50, offset: Offset = 0
) -> dict[str, Any]:
    """Return a page of runs."""
    record = service.store.record(id)
    items = experiment_documents.runs_page(service, record.id, limit, offset, state)
    return {"total": experiment_documents.count_runs(service, record.id, state), "items": items}


@resource.get("/runs/{number}", 404, model=RunDocument)
def show_run(service: Here, id: Id, number: Number) -> dict[str, Any]:
    """Return a run with what was observed."""
    return _run(service, service.store.record(id), number)


@resource.get("/runs/{number}/log", 404, model=Log)
def show_log(
    service: Here,
    id: Id,
    number: Number,
    stream: Literal["stdout", "stderr"] = "stdout",
    offset: Annotated[int | None, Query(ge=0, le=2**53, description="from this byte; the end without it")] = None,
    limit: Annotated[int, Query(ge=1, le=1 << 20, description="most bytes")] = 65536,
) -> dict[str, Any]:
    """Return a part of the output of a run, from the host of the service or a shared file system."""
    record = service.store.record(id)
    return read_log(record, _run(service, record, number), stream, offset, limit)


@resource.get("/messages", 404, model=MessagePage)
def list_messages(
    service: Here, id: Id, after: Annotated[int, Query(ge=0, le=2**53, description="only those after it")] = 0
) -> dict[str, Any]:
    """Return messages of the session of an experiment, at most a thousand; continue after the last one."""
    record = service.store.record(id)
    return {"items": [vars(message) for message in service.messages.after(after, record.id)]}


@resource.get("/export", 404, 409, model=Exported)
def export_settings(
    service: Here,
    id: Id,
    to: Annotated[str, Query(description=f"one of {', '.join(TARGETS)}", max_length=40)] = "plan",
    directory: Annotated[str, Query(max_length=4096, description="for lfs")] = "",
    program: Annotated[str, Query(max_length=4096, description="for sbatch")] = "",
) -> dict[str, Any]:
    """Write the settings found for another tool, with their undo and what it cannot express."""
    return write_export(service.store.record(id), to, directory, program)


def write_export(record: Record, to: str, directory: str = "", program: str = "") -> dict[str, Any]:
    """Write the settings of a finished experiment for another tool.

    Raises
    ------
    Refused
        With status 409, without a result.
    UserError
        If the target is unknown.
    """
    if record.result is None:
        raise Refused(409, f"experiment {record.id} is {record.state} and has no result yet", "let it finish first")
    made = made_for(record.result, to, directory, program)
    names = ("text", "undo", "use", "wins", "filename")
    given = {name: getattr(made, name) for name in names}
    return {"target": to, "simulated": record.result.simulated, "cannot": list(made.cannot), **given}


def made_for(result: Result, target: str, directory: str = "", program: str = "") -> Export:
    """Write the settings of a result for another tool."""
    plan = Plan.parse(result.plan, "the result's plan")
    changed = result.changed(result.best)
    return export(plan, target, directory=directory, program=program, changed=changed, cautions=result.cautions)


def _run(service: Service, record: Record, number: int) -> dict[str, Any]:
    found = experiment_documents.one_run(service, record.id, number)
    if found is None:
        raise Refused(404, f"experiment {record.id} has no run {number}", "see its list of runs")
    return found


# -- pages ---------------------------------------------------------------------------------------------------------


@resource.page("/runs/{number}")
def run_page(request: Request, service: Here, id: Id, number: Number) -> HTMLResponse:
    """Show a run with what it printed."""
    record = service.store.record(id)
    row = _run(service, record, number)
    known = history(service, record.id)
    facts = RunFacts({**row["facts"], "folder": str(output_folder(record, row) or "")})
    run = Run(number, row["trial"], row["phase"], row["state"], facts=facts)
    return render(
        request,
        "run.html",
        title=f"Run {number}",
        record=record,
        run=row,
        logs={name: log_tail(run, name) for name in ("stdout", "stderr")},
        facts={key: value for key, value in facts.items() if key not in ("report", "folder", "output")},
        report=facts.report,
        unit=known.found.unit,
        **known.about(row["trial"]),
    )


@resource.page("/runs.json")
def runs_as_json(service: Here, id: Id) -> Response:
    """Give all trials with their runs as a file."""
    trials = [experiment_documents.trial_document(trial) for trial in history(service, id).trials]
    return answer_attachment(json.dumps(trials, indent=1), f"runs-{id}.json", "application/json")


@resource.page("/runs.csv")
def runs_as_csv(service: Here, id: Id) -> Response:
    """Give all runs as a file, a row for each, with every parameter's value."""
    return answer_attachment(write_csv(history(service, id).found), f"runs-{id}.csv", "text/csv; charset=utf-8")


@resource.page("/runs.t4.json")
def runs_as_t4(service: Here, id: Id) -> Response:
    """Give all configurations as auto-tuners exchange them (T4)."""
    return answer_attachment(write_t4(history(service, id).found), f"runs-{id}.t4.json", "application/json")


@resource.page("/report.html")
def report_file(service: Here, id: Id) -> Response:
    """Give the report as one file."""
    record = service.store.record(id)
    trials = service.store.trials(record.id)
    return answer_attachment(render_report(record, trials), f"stripewise-{record.id}.html", "text/html; charset=utf-8")


@resource.page("/notebook.ipynb")
def notebook(service: Here, id: Id) -> Response:
    """Give a notebook with the runs and the figures."""
    from stripewise.output.figures import figures  # noqa: PLC0415  half a second to load, once

    known = history(service, id)
    title = f"# {known.record.experiment.name or known.record.id}\n\n{known.found.result.verdict}"
    trials = json.dumps([experiment_documents.trial_document(trial) for trial in known.trials])
    codes = [f"import json\n\ntrials = json.loads({json.dumps(trials)})\ntrials[:3]"]
    codes += [
        f"import plotly.io\n\nplotly.io.from_json({json.dumps(figure.to_json())})  # {name}"
        for name, figure in figures(known.found).items()
    ]
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": title}]
    cells += [
        {"cell_type": "code", "id": f"cell-{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": code}
        for n, code in enumerate(codes)
    ]
    document = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return answer_attachment(json.dumps(document), f"stripewise-{known.record.id}.ipynb", "application/x-ipynb+json")


def _confine_run(record: Record, run: Run) -> Run:
    """Give a run without a folder that is not its own."""
    place = output_folder(record, {"number": run.number, "state": run.state, "folder": run.facts.folder})
    return replace(run, facts=RunFacts({**run.facts, "folder": str(place or "")}))


@resource.page("/bundle.zip")
def bundle(service: Here, user: User, id: Id) -> Response:
    """Give the helpdesk's bundle."""
    record = service.store.record(id)
    trials = service.store.trials(record.id)
    kept = [replace(trial, runs=tuple(_confine_run(record, run) for run in trial.runs)) for trial in trials]
    content = helpdesk_bundle(record, kept)
    return answer_attachment(content, f"stripewise-{record.id}.zip", "application/zip")


@resource.page("/export/{target}")
def export_file(service: Here, id: Id, target: str, undo: bool = False) -> Response:
    """Give the settings as another tool takes them, or what takes them back."""
    record = service.store.record(id)
    if record.result is None:
        raise UserError(f"experiment {record.id} has no result yet", "wait until it is finished")
    made = made_for(record.result, target)
    name = f"undo-{made.filename or target}" if undo else made.filename or f"stripewise-{target}.txt"
    return answer_attachment(
        made.undo if undo else made.text, "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    )


# -- live events -------------------------------------------------------------------------------------------------------

live = Resource("", "events")

_LAST = 2**53
"""No message has a larger number."""
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "events: experiment, run, message, deleted, lost; the data are JSON",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'event: experiment\ndata: {"id": "51e11ec7", "state": "running", "ended": 3}\n\n',
            }
        },
    }
}


@live.file("/events", kind=StreamingResponse, responses=_STREAM)
async def all_events(service: Here, user: User, session: Session) -> StreamingResponse:
    """Stream a message for every experiment that changes, from now on."""
    return _stream(service, user, session, None, None)


@live.file("/experiments/{id}/events", 404, kind=StreamingResponse, responses=_STREAM)
async def experiment_events(
    service: Here,
    user: User,
    session: Session,
    id: Id,
    after: Annotated[int | None, Query(ge=0, le=_LAST, description="messages after this number come first")] = None,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=30)] = None,
) -> StreamingResponse:
    """Stream the events of one experiment: its state, its runs, and the messages of its session.

    It begins with the state as it is; runs come as they change. Read the trials once the first event is there.
    """
    record = await run_in_threadpool(service.store.record, id)
    if last is not None and last.isascii() and last.isdigit():
        after = min(int(last), _LAST)
    return _stream(service, user, session, record.id, after)


def _stream(
    service: Service, user: Token, session: LoginSession | None, experiment: str | None, after: int | None
) -> StreamingResponse:
    if service.hub.full(user.id):
        raise Refused(503, "as many event streams are open as the service or this token may have", "close some")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = service.hub.listen(experiment, after, user.id, session.id if session else "")
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
