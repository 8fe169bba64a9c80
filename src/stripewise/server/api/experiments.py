"""Experiments: create, list, show, stop, resume, delete, clone, try dry."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from stripewise.runner.registry import make_runner
from stripewise.server import reading, starting
from stripewise.server.documents import Detail, Done, ExperimentPage, NewExperiment, Resumption
from stripewise.server.problems import Refused, responses
from stripewise.server.repeats import Key, once
from stripewise.server.service import Here, User
from stripewise.store.base import Sort
from stripewise.tuning.dryrun import dry_run
from stripewise.tuning.folders import runs_folder

router = APIRouter(prefix="/api/experiments", tags=["experiments"])

Id = Annotated[
    str, Path(description="identifier, or the beginning of one", min_length=1, max_length=32, examples=["51e11ec7"])
]
Limit = Annotated[int, Query(ge=1, le=500, description="most items of the page")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="items before the page")]
State = Literal["created", "running", "finished", "stopped", "failed"]


class Clone(BaseModel):
    """What is to differ in a copy."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"changes": {"seed": 1}}]})
    changes: dict[str, Any] = Field(default_factory=dict, description="fields of the definition to replace")
    start: bool = True
    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


@router.get("", response_model=ExperimentPage, responses=responses())
def list_experiments(
    service: Here,
    state: State | None = None,
    name: Annotated[str | None, Query(max_length=500, description="only those of exactly this name")] = None,
    sort: Sort = Sort.CREATED,
    order: Literal["ascending", "descending"] = "descending",
    whole: Annotated[bool, Query(description="with definition, facts and result")] = False,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Give a page of experiments."""
    found = service.store.records(state, name, limit, offset, sort=sort, descending=order == "descending")
    lines = reading.summaries(service, found)
    if whole:
        lines = [reading.whole(line, record) for line, record in zip(lines, found, strict=True)]
    return {"total": service.store.count(state, name), "items": lines}


@router.post("", status_code=201, response_model=Detail, responses=responses(409))
def create_experiment(request: Request, service: Here, user: User, asked: NewExperiment, key: Key = None) -> Response:
    """Keep a new experiment and let a worker start it.

    The program runs as the user of the service, on the worker's host.
    """

    def work() -> dict[str, Any]:
        record = starting.create(service, asked.definition, asked.folder, user, start=asked.start, agreed=asked.agreed)
        request.state.subject = record.id
        return reading.detail(service, record)

    return once(service, user, key, f"create {asked.model_dump_json()}", work, 201)


@router.post("/dry-run", response_model=dict[str, Any], responses=responses())
def try_dry(service: Here, asked: NewExperiment) -> dict[str, Any]:
    """Show the space, the first configurations and the worst-case cost; nothing is started."""
    experiment, folder = starting.prepared(service, asked.definition, asked.folder)
    with make_runner(experiment, runs_folder(experiment) / "dry-run", cwd=folder) as prober:
        return dry_run(experiment, prober)


@router.get("/{id}", response_model=Detail, responses=responses(404))
def show_experiment(service: Here, id: Id) -> dict[str, Any]:
    """Give an experiment with its definition, facts and result."""
    return reading.detail(service, service.store.record(id))


@router.delete("/{id}", response_model=Done, responses=responses(404, 409))
async def delete_experiment(request: Request, service: Here, id: Id) -> dict[str, Any]:
    """Delete an experiment with its trials and runs; the folders of its runs stay."""
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415

    identifier = await run_in_threadpool(starting.delete, service, id)
    request.state.subject = identifier
    service.hub.tell_deleted(identifier)
    return {"id": identifier, "state": "deleted"}


@router.post("/{id}/stop", status_code=202, response_model=Done, responses=responses(404, 409))
def stop_experiment(service: Here, id: Id) -> dict[str, Any]:
    """Ask an experiment to stop; it ends within seconds and can be resumed."""
    record = starting.stop(service, id)
    return {"id": record.id, "state": record.state, "stopping": record.state == "running"}


@router.post("/{id}/resume", status_code=202, response_model=Done, responses=responses(404, 409))
def resume_experiment(
    service: Here, user: User, id: Id, asked: Annotated[Resumption | None, Body()] = None
) -> dict[str, Any]:
    """Let a worker go on with an experiment."""
    record = starting.resume(service, id, user, agreed=asked is not None and asked.agreed)
    return {"id": record.id, "state": record.state, "queued": True}


@router.post("/{id}/clone", status_code=201, response_model=Detail, responses=responses(404, 409))
def clone_experiment(
    service: Here, user: User, id: Id, asked: Annotated[Clone | None, Body()] = None, key: Key = None
) -> Response:
    """Keep a new experiment like this one, with some fields changed."""
    wanted = asked or Clone()

    def work() -> dict[str, Any]:
        record = starting.clone(service, id, wanted.changes, user, start=wanted.start, agreed=wanted.agreed)
        return reading.detail(service, record)

    return once(service, user, key, f"clone {id} {wanted.model_dump_json()}", work, 201)


def known(service: Here, identifier: str) -> str:
    """Give the whole identifier, or answer 404."""
    return service.store.record(identifier).id


def need(found: Any, what: str) -> Any:
    """Give what was found, or answer 404."""
    if found is None:
        raise Refused(404, f"there is no {what}", "see the list")
    return found
