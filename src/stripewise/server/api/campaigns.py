"""Campaigns, and evaluations of models by them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from stripewise.server import campaigns, evaluating
from stripewise.server.api.experiments import Limit, Offset
from stripewise.server.api.knowledge import ItemPage, Name, page_of
from stripewise.server.api.state import job_document
from stripewise.server.campaigns import Changes
from stripewise.server.documents import JobDocument
from stripewise.server.places import folder_of
from stripewise.server.problems import Refused, responses
from stripewise.server.repeats import Key, once
from stripewise.server.service import Here, Service, User

router = APIRouter(prefix="/api")


class NewCampaign(BaseModel):
    """A campaign to run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"toml": 'name = "small"\nrunner = "sim:kay"\n...', "start": False}]},
    )
    toml: str = Field(description="a campaign file", max_length=1 << 20)
    changes: Changes = Changes()
    start: bool = True
    resume: bool = Field(default=False, description="go on with your own campaign of the same content, if there is one")
    retry: bool = Field(default=False, description="with resume: make runs that failed once more")


class NewEvaluation(BaseModel):
    """A model to judge by what it prescribes for a campaign's points."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"toml": 'name = "small"\nrunner = "sim:kay"\n...', "model": "site-2026"}]},
    )
    toml: str = Field(description="a campaign file: its points are the default test cases", max_length=1 << 20)
    changes: Changes = Changes()
    model: str = Field(min_length=1, max_length=64)
    eager: bool = Field(default=False, description="take the best prediction even within its uncertainty")
    retry: bool = Field(default=False, description="make runs that failed once more")


@router.get("/campaigns", response_model=ItemPage, responses=responses(), tags=["campaigns"])
def list_campaigns(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Give a page of campaigns."""
    page = page_of(service, "campaign", limit, offset)
    return {**page, "items": [campaigns.show(service, item["id"]) for item in page["items"]]}


@router.post("/campaigns", status_code=201, response_model=dict[str, Any], responses=responses(409), tags=["campaigns"])
def create_campaign(service: Here, user: User, asked: NewCampaign, key: Key = None) -> Response:
    """Keep a campaign and let a worker run it."""

    def work() -> dict[str, Any]:
        if asked.resume:
            return campaigns.go_on(service, asked.toml, user, asked.changes, retry=asked.retry)
        return campaigns.create(service, asked.toml, user, asked.changes, start=asked.start)

    return once(service, user, key, f"campaign {asked.model_dump_json()}", work, 201)


@router.get("/campaigns/{id}", response_model=dict[str, Any], responses=responses(404), tags=["campaigns"])
def show_campaign(service: Here, id: Name) -> dict[str, Any]:
    """Give a campaign with where it stands and its summary."""
    return campaigns.show(service, id)


@router.post(
    "/campaigns/{id}/start",
    status_code=202,
    response_model=dict[str, Any],
    responses=responses(404, 409),
    tags=["campaigns"],
)
def start_campaign(service: Here, user: User, id: Name) -> dict[str, Any]:
    """Let a worker begin a campaign, or go on with it."""
    return campaigns.start(service, id, user)


@router.post(
    "/campaigns/{id}/stop",
    status_code=202,
    response_model=dict[str, Any],
    responses=responses(404, 409),
    tags=["campaigns"],
)
def stop_campaign(service: Here, id: Name) -> dict[str, Any]:
    """Ask a campaign to stop; it can go on later."""
    return campaigns.stop(service, id)


@router.get("/campaigns/{id}/table.csv", response_class=PlainTextResponse, responses=responses(404), tags=["campaigns"])
def campaign_table(service: Here, id: Name) -> str:
    """Give the measurements of a campaign that has ended."""
    return _text(service, id, ".csv")


@router.get(
    "/campaigns/{id}/table.toml", response_class=PlainTextResponse, responses=responses(404), tags=["campaigns"]
)
def campaign_schema(service: Here, id: Name) -> str:
    """Give what the columns of a campaign's table mean."""
    return _text(service, id, ".toml")


def _text(service: Service, identifier: str, ending: str) -> str:
    item = service.items.get("campaign", identifier)
    path = folder_of(service.settings.data, "campaign", item.id) / f"table{ending}"
    if not path.is_file():
        raise Refused(404, f"there is no table of campaign {item.id} yet", "wait for its end")
    return path.read_text("utf-8")


# -- evaluations ---------------------------------------------------------------------------------------------------


@router.post(
    "/evaluations", status_code=202, response_model=JobDocument, responses=responses(404, 409), tags=["models"]
)
def evaluate_model(service: Here, user: User, asked: NewEvaluation, key: Key = None) -> Response:
    """Let a worker measure a campaign's test cases and what a model prescribes for them.

    The same request again goes on where it was.
    """

    def work() -> dict[str, Any]:
        made = evaluating.start(
            service, asked.toml, asked.changes, asked.model, user, eager=asked.eager, retry=asked.retry
        )
        return job_document(made)

    return once(service, user, key, f"evaluate {asked.model_dump_json()}", work, 202)
