"""Campaigns, kept as their file and made by workers, and evaluations of models by them."""

from __future__ import annotations

import functools
import hashlib
import json
import statistics
from pathlib import Path
from typing import Annotated, Any

from fastapi import Form, Query, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from pydantic import Field

from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import JobDocument, RequestDocument, job_document
from stripewise.desk.server.files import campaign_in, find_stacks, folder_of, new_identifier, table_path
from stripewise.desk.server.html import as_json, render
from stripewise.desk.server.policy import check_campaign, confine_path, files_of
from stripewise.desk.server.problems import Refused, status_of
from stripewise.desk.server.resource import (
    MOST,
    ItemPage,
    Limit,
    Name,
    Offset,
    Once,
    Resource,
    model_path,
    page_of,
    show_item,
)
from stripewise.desk.server.service import Here, Service, User
from stripewise.documents import toml_document
from stripewise.engine.campaign.book import collect
from stripewise.errors import NotFound, StripewiseError, UserError
from stripewise.models.table import Table, read_table
from stripewise.observe.objectives import parse_objective
from stripewise.output.summaries import SummaryReport, summarise
from stripewise.output.summary import summary_context, summary_figures
from stripewise.requests.campaign import Campaign, campaign_text, changed_campaign, parse_campaign, preset_names
from stripewise.store.service.jobs import ServiceJob
from stripewise.store.service.tokens import Token
from stripewise.trial import Run

resource = Resource("/campaigns", "campaigns")
evaluations = Resource("/evaluations", "models")

_MOST = 10_000
_COUNT_SECONDS = 60.0
"""Campaigns that are looked through for the same one."""


class Changes(RequestDocument):
    """Keys of a campaign's file to be put in place of its own."""

    folder: str | None = Field(default=None, max_length=4096, description="[files] folder")
    runner: str | None = Field(default=None, max_length=4096)
    repeats: int | None = Field(default=None, ge=1, le=10_000)
    seed: int | None = Field(default=None, ge=0, lt=2**63)

    @property
    def keys(self) -> dict[str, Any]:
        """What is replaced, as the campaign calls it."""
        given = self.model_dump(exclude_none=True)
        return {"files.folder" if name == "folder" else name: value for name, value in given.items()}


# A text of 900 KB took 2 s of the service's own processor.
_LONGEST = 1 << 18


class NewCampaign(RequestDocument):
    """A campaign to run."""

    toml: str = Field(description="a campaign file", max_length=_LONGEST)
    changes: Changes = Changes()
    start: bool = True
    resume: bool = Field(default=False, description="continue your own campaign of the same content, if there is one")
    retry: bool = Field(default=False, description="with resume: make runs that failed once more")


class NewEvaluation(RequestDocument):
    """A model to judge by what it prescribes for a campaign's points."""

    toml: str = Field(description="a campaign file: its points are the default test cases", max_length=_LONGEST)
    changes: Changes = Changes()
    model: str = Field(min_length=1, max_length=64)
    eager: bool = Field(default=False, description="take the best prediction even within its uncertainty")
    retry: bool = Field(default=False, description="make runs that failed once more")


@resource.get("", model=ItemPage)
def list_campaigns(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Return a page of campaigns."""
    page = page_of(service, "campaign", limit, offset)
    return {**page, "items": [show(service, item["id"]) for item in page["items"]]}


@resource.post("", 409, status=201)
def create_campaign(service: Here, user: User, asked: NewCampaign, once: Once) -> Response:
    """Store a campaign and let a worker run it."""

    def work() -> dict[str, Any]:
        if asked.resume:
            return go_on(service, asked.toml, user, asked.changes, retry=asked.retry)
        return create(service, asked.toml, user, asked.changes, start=asked.start)

    return once("campaign", asked, work, 201)


@resource.get("/{id}", 404)
def show_campaign(service: Here, id: Name) -> dict[str, Any]:
    """Return a campaign with its state and its summary."""
    return show(service, id)


@resource.action("/{id}/start", 404, 409, back="/campaigns/{id}")
def start_campaign(service: Here, user: User, id: Name) -> dict[str, Any]:
    """Let a worker start or continue a campaign."""
    item = service.items.get("campaign", id)
    job = service.jobs.of(item.id)
    if job is not None and job.state in ("running", "done"):
        raise Refused(409, f"campaign {item.id} is {job.state}", "there is nothing to start")
    # The rules may have become stricter since it was sent.
    check_campaign(campaign_in(folder_of(service.settings.data, "campaign", item.id)), service.settings)
    service.jobs.submit("campaign", item.id, user.name)
    return show(service, id)


@resource.action("/{id}/stop", 404, 409, back="/campaigns/{id}")
def stop_campaign(service: Here, id: Name) -> dict[str, Any]:
    """Ask a campaign to stop; it can be continued later."""
    item = service.items.get("campaign", id)
    if not service.jobs.stop(item.id):
        raise Refused(409, f"campaign {item.id} neither runs nor waits", "there is nothing to stop")
    return show(service, item.id)


@resource.file("/{id}/table.csv", 404, kind=PlainTextResponse)
def campaign_table(service: Here, id: Name) -> str:
    """Return the measurements of a finished campaign."""
    return _read_text(service, id, ".csv")


@resource.file("/{id}/table.toml", 404, kind=PlainTextResponse)
def campaign_schema(service: Here, id: Name) -> str:
    """Return the meaning of the columns of a campaign's table."""
    return _read_text(service, id, ".toml")


def _read_text(service: Service, identifier: str, ending: str) -> str:
    item = service.items.get("campaign", identifier)
    path = folder_of(service.settings.data, "campaign", item.id) / f"table{ending}"
    if not path.is_file():
        raise Refused(404, f"campaign {item.id} has no table yet", "wait for its end")
    return path.read_text("utf-8")


# -- what is kept --------------------------------------------------------------------------------------------------


def read_campaign(service: Service, text: str, changes: Changes) -> Campaign:
    """Read a campaign.

    Raises
    ------
    UserError
        If something in its file is wrong.
    Refused
        If the service does not allow it.
    """
    _check_stacks(service, text)
    campaign = changed_campaign(parse_campaign(text, "campaign"), changes.keys.items(), "campaign")
    check_campaign(campaign, service.settings)
    return campaign


def keep(place: Path, text: str, changes: Changes) -> None:
    """Write what :func:`~stripewise.desk.server.files.campaign_in` reads."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "campaign.toml").write_text(text, "utf-8")
    (place / "changes.json").write_text(json.dumps(changes.keys), "utf-8")


def create(
    service: Service, text: str, user: Token, changes: Changes | None = None, *, start: bool = True
) -> dict[str, Any]:
    """Keep a campaign, and hand it to the workers; raises as :func:`read_campaign`."""
    changes, text = changes or Changes(), _place_stacks(service, text)
    campaign = read_campaign(service, text, changes)
    possible = bounded.ask("count_points", _COUNT_SECONDS, toml=text, changes=changes.keys)
    identifier = new_identifier()
    keep(folder_of(service.settings.data, "campaign", identifier), text, changes)
    document = {
        "campaign": campaign.name,
        "digest": campaign.digest,
        "runner": campaign.runner,
        "design": campaign.design.kind,
        "combinations": possible,
        "planned": campaign.repeats * min(possible, (campaign.design.size or possible) * len(campaign.operations)),
    }
    service.items.put("campaign", identifier, campaign.name, user.name, document)
    if start:
        service.jobs.submit("campaign", identifier, user.name)
    return show(service, identifier)


def go_on(service: Service, text: str, user: Token, changes: Changes, *, retry: bool = False) -> dict[str, Any]:
    """Go on with the same campaign of the same user, or begin it; raises as :func:`read_campaign`."""
    text = _place_stacks(service, text)
    digest = read_campaign(service, text, changes).digest
    for item in service.items.page("campaign", _MOST):
        if item.owner == user.name and item.document.get("digest") == digest:
            job = service.jobs.of(item.id)
            if job is None or job.state in ("failed", "stopped") or (job.state == "done" and retry):
                service.jobs.submit("campaign", item.id, user.name, {"retry": retry})
            return show(service, item.id)
    return create(service, text, user, changes)


def show(service: Service, identifier: str) -> dict[str, Any]:
    """Give a campaign with where it stands and, once it has ended, its summary."""
    item = service.items.get("campaign", identifier)
    job = service.jobs.of(identifier)
    return {
        **show_item(item),
        "state": job.state if job else "created",
        "ended": len(_list_ended(service, identifier)),
        "error": job.error if job else "",
        "result": job.result if job else None,
    }


def _list_ended(service: Service, identifier: str) -> list[Run]:
    """Give the runs that have ended, in the order of the plan."""
    journal = folder_of(service.settings.data, "campaign", identifier) / "journal"
    if not journal.exists():
        return []
    try:
        found = collect([journal]).runs
    except UserError:
        # It was made a moment ago, and holds nothing yet.
        return []
    return [run for _, run in sorted(found.items())]


def _check_stacks(service: Service, text: str) -> None:
    """Confine stack files before reading the campaign reads them."""
    for stack in files_of(_stacks_in(text)):
        confine_path(Path(stack), service.settings, "stack")


def _stacks_in(text: str) -> list[str]:
    stacks = toml_document(text, "the campaign").get("stacks", [])
    return [str(stack) for stack in (stacks if isinstance(stacks, list) else [stacks])]


def _place_stacks(service: Service, text: str) -> str:
    """Write the paths of uploaded stacks in place of their names.

    Raises
    ------
    UserError
        If there is no stack of a name.
    """
    named = _stacks_in(text)
    found = find_stacks(service.settings.data, named)
    if found == named:
        return text
    import tomlkit  # noqa: PLC0415  slow to load, and few campaigns name such a stack

    document = tomlkit.parse(text)
    document["stacks"] = found
    return tomlkit.dumps(document)


# -- evaluations ---------------------------------------------------------------------------------------------------


@evaluations.post("", 404, 409, status=202, model=JobDocument)
def evaluate_model(service: Here, user: User, asked: NewEvaluation, once: Once) -> Response:
    """Let a worker measure a campaign's test cases with their own and with prescribed settings.

    The same request again goes on where it was.
    """
    return once("evaluate", asked, lambda: job_document(_evaluate(service, asked, user)), 202)


def _evaluate(service: Service, asked: NewEvaluation, user: Token) -> ServiceJob:
    text = _place_stacks(service, asked.toml)
    read_campaign(service, text, asked.changes)
    model_path(service, asked.model)
    same = json.dumps([user.name, text, asked.changes.model_dump(), asked.model, asked.eager])
    subject = hashlib.sha256(same.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    job = service.jobs.of(subject)
    if job is not None and job.state in ("queued", "running"):
        return job
    keep(folder_of(service.settings.data, "evaluation", subject), text, asked.changes)
    request = {"model": asked.model, "eager": asked.eager, "retry": asked.retry}
    return service.jobs.submit("evaluation", subject, user.name, request)


# -- pages ---------------------------------------------------------------------------------------------------------


def preset(name: str) -> str:
    """Read a campaign that comes with Stripewise.

    Raises
    ------
    UserError
        If there is none of this name.
    """
    if name not in preset_names():
        raise NotFound(f"preset '{name}' does not exist", f"choose from {', '.join(preset_names())}")
    return campaign_text(name)[0]


def _overview(service: Service, text: str) -> dict[str, Any]:
    listed = [_tell_campaign(show(service, item.id)) for item in service.items.page("campaign", MOST)]
    busy = any(one["state"] in ("queued", "running") for one in listed)
    return {"title": "Campaigns", "campaigns": listed, "busy": busy, "presets": preset_names(), "text": text}


def _tell_campaign(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "state": "finished" if document["state"] == "done" else document["state"]}


def _read_measured(service: Service, identifier: str) -> tuple[Table, list[SummaryReport]] | None:
    """Read a campaign's table with its summaries; None until it has ended."""
    try:
        path = table_path(service.settings.data, f"campaign:{identifier}")
    except UserError:
        return None
    return _summarise_table(path, path.with_suffix(".csv").stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _summarise_table(path: Path, changed: int) -> tuple[Table, list[SummaryReport]]:
    table = read_table(path)
    return table, summarise(table)


@resource.page("")
def campaigns_page(request: Request, service: Here, start: Annotated[str, Query(max_length=64)] = "") -> HTMLResponse:
    """Show all campaigns."""
    text = preset(start) if start else ""
    if text and "[files]" not in text:
        text += f'\n[files]\nfolder = "{service.settings.data}"  # on the file system to measure\n'
    return render(request, "campaigns.html", **_overview(service, text), error=None)


@resource.form("")
def create_from_page(
    request: Request, service: Here, user: User, text: Annotated[str, Form(max_length=200_000)] = ""
) -> Response:
    """Store a campaign and let a worker run it."""
    try:
        made = create(service, text, user)
    except StripewiseError as error:
        return render(request, "campaigns.html", status_of(error), **_overview(service, text), error=error)
    request.state.subject = made["id"]
    return RedirectResponse(f"/campaigns/{made['id']}", 303)


@resource.page("/{id}")
def campaign_page(request: Request, service: Here, id: Name) -> HTMLResponse:
    """Show a campaign."""
    campaign = _tell_campaign(show(service, id))
    found = _read_measured(service, campaign["id"])
    open_ = campaign["state"] in ("queued", "running")
    took = [run.elapsed for run in _list_ended(service, campaign["id"]) if run.elapsed] if open_ else []
    left = campaign.get("planned", 0) - campaign["ended"]
    return render(
        request,
        "campaign.html",
        title=campaign["name"],
        campaign=campaign,
        open=open_,
        left=left * statistics.median(took) if took and left > 0 else None,
        simulated=str(campaign["runner"]).startswith("sim:"),
        rows=len(found[0]) if found else 0,
        **(summary_context(*found) if found else {"operations": []}),
    )


@resource.page("/{id}/figures.json")
def campaign_figures(service: Here, id: Name) -> Response:
    """Give the figures of a campaign's summaries."""
    item = service.items.get("campaign", id)
    found = _read_measured(service, item.id)
    return as_json(summary_figures(*found) if found else _points(service, item.id))


def _points(service: Service, identifier: str) -> dict[str, Any]:
    """Draw what a campaign that has not ended has measured."""
    from stripewise.output.plots.trajectory import RunPoint, trajectory  # noqa: PLC0415  figures are slow to load

    ended = _list_ended(service, identifier)
    if not ended:
        return {}
    objective = parse_objective(campaign_in(folder_of(service.settings.data, "campaign", identifier)).objective)
    points = [RunPoint(run.number, run.value, "failed" if run.value is None else "search", run.reason) for run in ended]
    maximize = objective.direction == "maximize"
    return {"points": trajectory(points, quantity=objective.name, unit=objective.unit, maximize=maximize)}
