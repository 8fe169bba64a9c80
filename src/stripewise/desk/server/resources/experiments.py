"""Experiments: create, list, show, stop, resume, delete, clone, try dry; and the overview of all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import Body, Form, Path, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from stripewise.desk.server import experiment_documents
from stripewise.desk.server.documents import Detail, Done, ExperimentPage, NewExperiment, RequestDocument, Resumption
from stripewise.desk.server.files import find_stacks
from stripewise.desk.server.html import render
from stripewise.desk.server.policy import check_experiment
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Once, Resource
from stripewise.desk.server.service import Here, Service, User, tell_unreadable
from stripewise.engine.confirmation import HOPELESS_PAIRS
from stripewise.engine.definition import with_options
from stripewise.engine.reconfirmation import USUAL_PAIRS, confirm_again
from stripewise.errors import StripewiseError
from stripewise.facts import Facts
from stripewise.requests.experiment import Experiment
from stripewise.store.base import STATES, Record, Sort
from stripewise.store.service.tokens import Token

resource = Resource("/experiments", "experiments")
home = Resource()

Id = Annotated[
    str, Path(description="identifier, or the beginning of one", min_length=1, max_length=32, examples=["51e11ec7"])
]
State = Literal["created", "running", "finished", "stopped", "failed"]
Order = Literal["ascending", "descending"]

_PAGE = 50
_COLUMNS = (("name", "Experiment"), ("state", "State"), ("runs", "Runs"), ("owner", "Owner"), ("updated", "Updated"))


class Labels(RequestDocument):
    """What people say about an experiment; null leaves it as it is."""

    tags: list[Annotated[str, Field(max_length=200)]] | None = Field(default=None, max_length=100, examples=[["night"]])
    remark: str | None = Field(default=None, max_length=10_000, examples=["before the new firmware"])


class Clone(RequestDocument):
    """What is to differ in a copy."""

    changes: dict[str, Any] = Field(default_factory=dict, description="fields of the definition to replace")
    start: bool = True
    agreed: bool = Field(default=False, description="agree to a worst case above the site's limits, as --yes")


class Listing(BaseModel):
    """Which experiments a list has, in which order, and how much of each."""

    state: State | None = None
    name: str | None = Field(default=None, max_length=500, description="only those of exactly this name")
    sort: Sort = Sort.CREATED
    order: Order = "descending"
    whole: bool = Field(default=False, description="with definition, facts and result")
    limit: int = Field(default=50, ge=1, le=500, description="most items of the page")
    offset: int = Field(default=0, ge=0, le=10_000_000, description="items before the page")


@resource.get("", model=ExperimentPage)
def list_experiments(service: Here, asked: Annotated[Listing, Query()]) -> dict[str, Any]:
    """Return a page of experiments."""
    found = service.store.records(
        asked.state,
        asked.name,
        asked.limit,
        asked.offset,
        sort=asked.sort,
        descending=asked.order == "descending",
        on_unreadable=tell_unreadable,
    )
    lines = experiment_documents.summaries(service, found)
    if asked.whole:
        lines = [experiment_documents.complete_line(line, record) for line, record in zip(lines, found, strict=True)]
    return {"total": service.store.count(asked.state, asked.name), "items": lines}


@resource.post("", 409, status=201, model=Detail)
def create_experiment(request: Request, service: Here, user: User, asked: NewExperiment, once: Once) -> Response:
    """Store a new experiment and let a worker start it.

    The program runs as the user of the service, on the worker's host.
    """

    def work() -> dict[str, Any]:
        record = create(service, asked.definition, asked.folder, user, start=asked.start, agreed=asked.agreed)
        request.state.subject = record.id
        return experiment_documents.detail(service, record)

    return once("create", asked, work, 201)


@resource.post("/dry-run")
def try_dry(service: Here, asked: NewExperiment) -> dict[str, Any]:
    """Show the space, the first configurations and the worst-case cost; nothing is started."""
    return preview(service, asked.definition, asked.folder)


@resource.get("/{id}", 404, model=Detail)
def show_experiment(service: Here, id: Id) -> dict[str, Any]:
    """Return an experiment with its definition, facts and result."""
    return experiment_documents.detail(service, service.store.record(id))


@resource.patch("/{id}", 404, model=Detail)
def annotate_experiment(service: Here, user: User, id: Id, asked: Labels) -> dict[str, Any]:
    """Replace the tags or the remark of an experiment."""
    return experiment_documents.detail(service, annotate(service, id, asked.tags, asked.remark))


@resource.action("/{id}", 404, 409, back="/", method="DELETE", status=200, model=Done)
async def delete_experiment(request: Request, service: Here, id: Id) -> dict[str, Any]:
    """Delete an experiment with its trials and runs; the folders of its runs stay."""
    identifier = await run_in_threadpool(delete, service, id)
    request.state.subject = identifier
    service.hub.tell_deleted(identifier)
    return {"id": identifier, "state": "deleted"}


@resource.action("/{id}/stop", 404, 409, back="/experiments/{id}", model=Done)
def stop_experiment(service: Here, id: Id) -> dict[str, Any]:
    """Ask an experiment to stop; it ends within seconds and can be resumed."""
    record = service.store.record(id)
    withdrawn = service.jobs.stop(record.id)
    record = service.store.record(record.id)
    if record.state == "running":
        service.store.request_stop(record.id)
    elif not withdrawn:
        raise Refused(409, f"experiment {record.id} is {record.state}, not running", "there is nothing to stop")
    return {"id": record.id, "state": record.state, "stopping": record.state == "running"}


@resource.post("/{id}/resume", 404, 409, status=202, model=Done)
def resume_experiment(
    service: Here, user: User, id: Id, asked: Annotated[Resumption | None, Body()] = None
) -> dict[str, Any]:
    """Let a worker continue an experiment."""
    record = resume(service, id, user, agreed=asked is not None and asked.agreed)
    return {"id": record.id, "state": record.state, "queued": True}


@resource.post("/{id}/clone", 404, 409, status=201, model=Detail)
def clone_experiment(
    service: Here, user: User, id: Id, once: Once, asked: Annotated[Clone | None, Body()] = None
) -> Response:
    """Store a new experiment like this one, with some fields changed."""
    wanted = asked or Clone()

    def work() -> dict[str, Any]:
        record = service.store.record(id)
        definition = Experiment.model_validate({**record.experiment.model_dump(mode="json"), **wanted.changes})
        made = create(service, definition, record.facts.folder, user, start=wanted.start, agreed=wanted.agreed)
        return experiment_documents.detail(service, made)

    return once(f"clone {id}", wanted, work, 201)


# -- what they do --------------------------------------------------------------------------------------------------


def prepare_experiment(service: Service, definition: Experiment, folder: str | None) -> tuple[Experiment, FilePath]:
    """Check a definition as ``tune`` does, and against the rules of the service.

    Raises
    ------
    UserError
        If something in it is wrong.
    Refused
        If the service does not allow it.
    """
    place = FilePath(folder) if folder else service.settings.data
    definition = definition.model_copy(update={"stacks": find_stacks(service.settings.data, definition.stacks)})
    # Checked first, so that nobody learns which folders exist outside of the service's.
    check_experiment(definition, place, service.settings)
    if folder and not place.is_dir():
        raise Refused(422, "folder: it does not exist", "make it first")
    # Its model has been read in a child by now.
    return with_options(definition, command=definition.command, read_model=lambda path: None), place


def preview(service: Service, definition: Experiment, folder: str | None) -> dict[str, Any]:
    """Make the dry run of a definition; raises as :func:`prepare_experiment`."""
    experiment, place = prepare_experiment(service, definition, folder)
    return service.desk.dry_run(experiment, str(place))


def create(
    service: Service,
    definition: Experiment,
    folder: str | None,
    user: Token,
    *,
    start: bool = True,
    agreed: bool = False,
) -> Record:
    """Keep an experiment, and hand it to the workers; ``agreed``: to a cost above the site's limits as well."""
    experiment, place = prepare_experiment(service, definition, folder)
    identifier = service.store.create(experiment, Facts(folder=str(place), submitter=user.name))
    if start:
        _submit(service, identifier, user, agreed=agreed)
    return service.store.record(identifier)


def _submit(service: Service, identifier: str, user: Token, *, agreed: bool) -> None:
    """Hand an experiment to the workers, with the folders that requests are confined to now."""
    folders = [str(folder) for folder in service.settings.folders]
    service.jobs.submit("experiment", identifier, user.name, {"agreed": agreed, "folders": folders})


def resume(service: Service, identifier: str, user: Token, *, agreed: bool = False) -> Record:
    """Hand an experiment that was stopped, has failed or was never begun to the workers.

    Raises
    ------
    Refused
        If it is finished, or at work.
    """
    record = service.store.record(identifier)
    if record.state == "finished":
        raise Refused(409, f"experiment {record.id} is finished", "clone it to run it again")
    # A stop that was just asked for may still be at work: the job waits until the experiment is let go.
    if record.state == "running" and not service.store.stop_requested(record.id):
        raise Refused(409, f"experiment {record.id} is running", "there is nothing to resume")
    check_experiment(record.experiment, FilePath(record.facts.folder or service.settings.data), service.settings)
    _submit(service, record.id, user, agreed=agreed)
    return service.store.record(record.id)


def delete(service: Service, identifier: str) -> str:
    """Delete an experiment that does not run.

    Raises
    ------
    Refused
        If it runs.
    """
    record = service.store.record(identifier)
    if record.state == "running":
        raise Refused(409, f"experiment {record.id} is running", "stop it first")
    service.jobs.stop(record.id)
    service.store.delete(record.id)
    service.jobs.forget(record.id)
    return record.id


def annotate(service: Service, identifier: str, tags: list[str] | None, remark: str | None) -> Record:
    """Replace what people say about an experiment."""
    identifier = service.store.record(identifier).id
    service.store.annotate(identifier, tags=tags, remark=remark)
    return service.store.record(identifier)


# -- pages ---------------------------------------------------------------------------------------------------------


@resource.form("/{id}/resume")
def resume_from_page(service: Here, user: User, id: Id) -> RedirectResponse:
    """Let a worker go on."""
    return RedirectResponse(f"/experiments/{resume(service, id, user).id}", 303)


@resource.form("/{id}/labels")
def annotate_from_page(
    service: Here,
    user: User,
    id: Id,
    tags: Annotated[str, Form(max_length=2000)] = "",
    remark: Annotated[str, Form(max_length=10_000)] = "",
) -> RedirectResponse:
    """Replace the tags, which commas part, and the remark."""
    return RedirectResponse(f"/experiments/{annotate(service, id, tags.split(','), remark).id}", 303)


@resource.form("/{id}/confirm")
def confirm(
    service: Here, user: User, id: Id, pairs: Annotated[int, Form(ge=1, le=HOPELESS_PAIRS)] = USUAL_PAIRS
) -> RedirectResponse:
    """Confirm its result once more, as an experiment of its own."""
    record = service.store.record(id)
    made = create(service, confirm_again(record, pairs), record.facts.folder, user)
    return RedirectResponse(f"/experiments/{made.id}", 303)


@dataclass(frozen=True)
class Wanted:
    """What part of the list is asked for.

    Attributes
    ----------
    page : int
        From 1.
    text : str
        Only those that have it in their name, owner, definition, tags or remark.
    """

    state: str | None = None
    sort: Sort = Sort.CREATED
    descending: bool = True
    page: int = 1
    text: str = ""

    def address(self, **changes: Any) -> str:
        """Give the address of this list with some of it changed."""
        entries = {
            "state": changes.get("state", self.state),
            "sort": str(changes.get("sort", self.sort)),
            "order": "descending" if changes.get("descending", self.descending) else "ascending",
            "page": changes.get("page", 1),
            "text": self.text,
        }
        plain = {"state": None, "sort": "created", "order": "descending", "page": 1, "text": ""}
        query = urlencode({key: value for key, value in entries.items() if value != plain[key]})
        return f"/?{query}" if query else "/"


def line(entry: dict[str, Any]) -> dict[str, Any]:
    """Add to an experiment's line what people want to read: its state in words, its gain, how far it is."""
    queued = bool(entry["queued"])
    share = entry["ended"] / entry["budget"] if entry["budget"] else 0.0
    gain, proven = None, bool(entry["confirmed"])
    if proven:
        gain = entry["speedup"]
    elif entry["default"] and entry["best"] and entry["state"] != "finished":
        ratio = entry["best"] / entry["default"]
        gain = ratio if entry["objective"]["direction"] == "maximize" else 1 / ratio
    return {
        **entry,
        "shown_state": "queued" if queued else entry["state"],
        "share": min(1.0, share),
        "gain": gain,
        "proven": proven,
        "who": entry["submitter"] or entry["owner"].partition("@")[0],
    }


@home.form("/experiments/chosen")
async def act_on_chosen(
    request: Request,
    service: Here,
    action: Annotated[Literal["compare", "stop", "delete"], Form()],
    id: Annotated[list[Annotated[str, Field(max_length=32)]], Form(max_length=_PAGE)] = [],  # noqa: B006  FastAPI copies it
) -> RedirectResponse:
    """Do the same to all experiments that were ticked in the list."""
    if action == "compare":
        return RedirectResponse(f"/compare?{urlencode([('id', one) for one in id])}", 303)
    refused: list[str] = []
    for one in id:
        try:
            if action == "stop":
                await run_in_threadpool(stop_experiment, service, one)
            else:
                service.hub.tell_deleted(await run_in_threadpool(delete, service, one))
        except StripewiseError as error:
            refused.append(error.what)
    request.state.subject = " ".join(id)
    if refused:
        raise Refused(409, f"{len(refused)} of {len(id)} were left as they are: {'; '.join(refused)}")
    return RedirectResponse("/", 303)


@home.page("/")
def overview(
    request: Request,
    service: Here,
    state: State | None = None,
    sort: Sort = Sort.CREATED,
    order: Order = "descending",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    text: Annotated[str, Query(max_length=200)] = "",
) -> HTMLResponse:
    """Show all experiments, or those in which a text occurs."""
    counts = {name: service.store.count(name) for name in STATES}
    text = text.strip()
    if text:
        sort, order = Sort.CREATED, "descending"
        total, records = experiment_documents.find_experiments(service, text, state, _PAGE, (page - 1) * _PAGE)
    else:
        total = counts[state] if state else sum(counts.values())
    pages = max(1, -(-total // _PAGE))
    wanted = Wanted(state, sort, order == "descending", min(page, pages), text)
    if not text:
        offset = (wanted.page - 1) * _PAGE
        records = service.store.records(
            state, None, _PAGE, offset, sort=sort, descending=wanted.descending, on_unreadable=tell_unreadable
        )
    return render(
        request,
        "overview.html",
        title="Experiments",
        lines=[line(entry) for entry in experiment_documents.summaries(service, records)],
        counts=counts,
        everything=sum(counts.values()),
        total=total,
        page=wanted.page,
        pages=pages,
        wanted=wanted,
        columns=_COLUMNS,
    )
