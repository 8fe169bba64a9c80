"""Diagnoses of uploaded logs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from stripewise.server import diagnosing
from stripewise.server.api.experiments import Limit, Offset
from stripewise.server.api.knowledge import ItemPage, Name
from stripewise.server.problems import responses
from stripewise.server.reading import finite
from stripewise.server.service import Here, User
from stripewise.server.uploads import BODY, received

router = APIRouter(prefix="/api")

FileName = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+$", examples=["job.darshan"])]


class Predicting(BaseModel):
    """A model to be asked about a job."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"model": "site-2026"}]})
    model: str = Field(min_length=1, max_length=64)


@router.get("/diagnoses", response_model=ItemPage, responses=responses(), tags=["diagnoses"])
def list_diagnoses(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Give a page of diagnoses, without their findings."""
    found = service.items.page("diagnosis", limit, offset)
    names = ("id", "name", "owner", "created")
    items = [{name: getattr(item, name) for name in names} | {"worst": item.document["worst"]} for item in found]
    return {"total": service.items.count("diagnosis"), "items": items}


@router.post(
    "/diagnoses",
    status_code=201,
    response_model=dict[str, Any],
    responses=responses(415),
    tags=["diagnoses"],
    openapi_extra=BODY,
)
async def upload_log(request: Request, service: Here, user: User, name: FileName) -> dict[str, Any]:
    """Say why I/O was slow, from a Darshan log, a report of the runtime, or IOR's output."""
    upload = await received(request, service.settings.data / "uploads")
    return await run_in_threadpool(diagnosing.keep, service, upload, name, user)


@router.get("/diagnoses/{id}", response_model=dict[str, Any], responses=responses(404), tags=["diagnoses"])
def show_diagnosis(service: Here, id: Name) -> dict[str, Any]:
    """Give a diagnosis."""
    return diagnosing.show(service, id)


@router.get("/diagnoses/{id}/activity", response_model=dict[str, Any], responses=responses(404), tags=["diagnoses"])
def show_activity(service: Here, id: Name) -> dict[str, Any]:
    """Give all that was read of a log, from which its diagnosis follows."""
    return finite(diagnosing.activity(service, id).model_dump(mode="json"))


@router.post("/diagnoses/{id}/prediction", response_model=dict[str, Any], responses=responses(404), tags=["diagnoses"])
def predict(service: Here, id: Name, asked: Predicting) -> dict[str, Any]:
    """Say what a model expects of a job: as it is, with the settings that it prescribes, and at best."""
    return finite(diagnosing.prediction(service, id, asked.model))


@router.delete("/diagnoses/{id}", status_code=204, responses=responses(404), tags=["diagnoses"])
def delete_diagnosis(service: Here, id: Name) -> None:
    """Delete a diagnosis with its log."""
    diagnosing.delete(service, id)
