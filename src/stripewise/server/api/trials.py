"""Trials and runs of an experiment, with what the runs have printed, and exports of what was found."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from stripewise.report.export import TARGETS, export
from stripewise.server import reading
from stripewise.server.api.experiments import Id, Limit, Offset
from stripewise.server.documents import Log, MessagePage, RunDocument, RunPage, TrialPage
from stripewise.server.output import read_log
from stripewise.server.problems import Refused, responses
from stripewise.server.service import Here, Service
from stripewise.spec.plan import Plan
from stripewise.store.base import Record

router = APIRouter(prefix="/api/experiments/{id}", tags=["trials"])

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


@router.get("/trials", response_model=TrialPage, responses=responses(404))
def list_trials(
    service: Here,
    id: Id,
    facts: Annotated[bool, Query(description="with what was observed in each run")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Give a page of trials with their runs."""
    record = service.store.record(id)
    total, items = reading.trials_page(service, record.id, limit, offset, facts=facts)
    return {"total": total, "items": items}


@router.get("/runs", response_model=RunPage, responses=responses(404))
def list_runs(
    service: Here, id: Id, state: RunState | None = None, limit: Limit = 50, offset: Offset = 0
) -> dict[str, Any]:
    """Give a page of runs."""
    record = service.store.record(id)
    items = reading.runs_page(service, record.id, limit, offset, state)
    return {"total": reading.count_runs(service, record.id, state), "items": items}


@router.get("/runs/{number}", response_model=RunDocument, responses=responses(404))
def show_run(service: Here, id: Id, number: Number) -> dict[str, Any]:
    """Give a run with what was observed."""
    return _run(service, service.store.record(id), number)


@router.get("/runs/{number}/log", response_model=Log, responses=responses(404))
def show_log(
    service: Here,
    id: Id,
    number: Number,
    stream: Literal["stdout", "stderr"] = "stdout",
    offset: Annotated[int | None, Query(ge=0, le=2**53, description="from this byte; the end without it")] = None,
    limit: Annotated[int, Query(ge=1, le=1 << 20, description="most bytes")] = 65536,
) -> dict[str, Any]:
    """Give a piece of what a run has printed, on the host of the service or a file system that it shares."""
    record = service.store.record(id)
    return read_log(record, _run(service, record, number), stream, offset, limit)


@router.get("/messages", response_model=MessagePage, responses=responses(404))
def list_messages(
    service: Here, id: Id, after: Annotated[int, Query(ge=0, le=2**53, description="only those after it")] = 0
) -> dict[str, Any]:
    """Give what the session of an experiment had to say; at most a thousand, to go on after the last."""
    record = service.store.record(id)
    return {"items": [vars(message) for message in service.messages.after(after, record.id)]}


@router.get("/export", response_model=Exported, responses=responses(404, 409))
def export_settings(
    service: Here,
    id: Id,
    to: Annotated[str, Query(description=f"one of {', '.join(TARGETS)}", max_length=40)] = "plan",
    directory: Annotated[str, Query(max_length=4096, description="for lfs")] = "",
    program: Annotated[str, Query(max_length=4096, description="for sbatch")] = "",
) -> dict[str, Any]:
    """Write the settings found for another tool, with their undo and what it cannot express."""
    return exported(service.store.record(id), to, directory, program)


def exported(record: Record, to: str, directory: str = "", program: str = "") -> dict[str, Any]:
    """Write the settings of a finished experiment for another tool.

    Raises
    ------
    Refused
        With status 409, where there is no result.
    UserError
        If the target is unknown.
    """
    if record.result is None:
        raise Refused(409, f"experiment {record.id} is {record.state} and has no result yet", "let it finish first")
    changed = record.result.changed(record.result.best)
    plan = Plan.parse(record.result.plan, f"the plan of experiment {record.id}")
    made = export(plan, to, directory=directory, program=program, changed=changed)
    names = ("text", "undo", "use", "wins", "filename")
    given = {name: getattr(made, name) for name in names}
    return {"target": to, "simulated": record.result.simulated, "cannot": list(made.cannot), **given}


def _run(service: Service, record: Record, number: int) -> dict[str, Any]:
    found = reading.one_run(service, record.id, number)
    if found is None:
        raise Refused(404, f"there is no run {number} of experiment {record.id}", "see its list of runs")
    return found
