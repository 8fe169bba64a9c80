"""Components, tables, models and prescriptions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from stripewise.server import models, prescribing
from stripewise.server.api.experiments import Limit, Offset
from stripewise.server.api.state import job_document
from stripewise.server.components import components
from stripewise.server.documents import JobDocument
from stripewise.server.problems import responses
from stripewise.server.repeats import Key, once
from stripewise.server.service import Here, Service, User
from stripewise.server.uploads import BODY, received

router = APIRouter(prefix="/api")

Name = Annotated[str, Path(min_length=1, max_length=64, examples=["site-2026"])]
ModelName = Annotated[str, Query(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class ItemPage(BaseModel):
    """A page, the newest first."""

    total: int = Field(examples=[1])
    items: list[dict[str, Any]] = Field(examples=[[{"id": "site-2026", "name": "site-2026", "owner": "ada"}]])


class NewTable(BaseModel):
    """A table to keep."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "name": "site-2026",
                    "csv": "stripes,bandwidth,repeat\n1,100,0\n2,180,0\n",
                    "toml": 'name = "site"\nrepeat = "repeat"\n[objective]\ncolumn = "bandwidth"\n'
                    'direction = "maximize"\nunit = "MiB/s"\n[[parameter]]\nname = "stripes"\nkind = "ordinal"\n'
                    'role = "stripe_count"\nunit = ""\nscale = "log2"\nvalues = [1, 2]\ndefault = 1\n',
                }
            ]
        },
    )
    name: str = Field(min_length=1, max_length=64)
    csv: str
    toml: str


class Learning(BaseModel):
    """A table and the kind of model that learns it."""

    model_config = ConfigDict(extra="forbid")
    table: str = Field(min_length=1, max_length=128, description="a table's name, or campaign:ID")
    model: str = Field(default="auto", max_length=64)
    options: dict[str, str] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Training(Learning):
    """A model to learn."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "pm", "table": "site-2026", "model": "forest"}]})
    name: str = Field(min_length=1, max_length=64)
    replace: bool = Field(default=False, description="in place of your own model of this name, if there is one")
    explain: bool = Field(default=False, description="the job's result has rules for slow, average and fast too")


class Validation(Learning):
    """A kind of model to judge."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"table": "site-2026", "model": "forest", "folds": 5}]})
    folds: int | None = Field(default=None, ge=2, le=1000)
    inverse: int | None = Field(default=None, ge=2, le=1000)
    leave_out: list[str] = Field(default_factory=list, max_length=100)
    depths: list[Annotated[int, Field(ge=1, le=30)]] = Field(
        default_factory=list, max_length=30, description="of trees that prescribe, with leave_out"
    )


def page_of(service: Service, kind: str, limit: int, offset: int) -> dict[str, Any]:
    """Give a page of items of a kind."""
    found = service.items.page(kind, limit, offset)
    return {"total": service.items.count(kind), "items": [models.shown(item) for item in found]}


@router.get("/components", response_model=dict[str, Any], responses=responses(), tags=["components"])
def list_components() -> dict[str, Any]:
    """Give what can be chosen: stacks, samplers with their options, runners, models, policies, exports."""
    return components()


# -- tables and models ---------------------------------------------------------------------------------------------


@router.get("/tables", response_model=ItemPage, responses=responses(), tags=["models"])
def list_tables(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Give a page of tables."""
    return page_of(service, "table", limit, offset)


@router.post("/tables", status_code=201, response_model=dict[str, Any], responses=responses(409), tags=["models"])
def create_table(service: Here, user: User, asked: NewTable, key: Key = None) -> Response:
    """Keep a table of measurements."""

    def work() -> dict[str, Any]:
        return models.keep_table(service, asked.name, asked.csv, asked.toml, user)

    return once(service, user, key, f"table {asked.model_dump_json()}", work, 201)


@router.delete("/tables/{id}", response_model=dict[str, Any], responses=responses(404), tags=["models"])
def delete_table(service: Here, id: Name) -> dict[str, Any]:
    """Delete a table."""
    return models.delete(service, "table", id)


@router.get("/models", response_model=ItemPage, responses=responses(), tags=["models"])
def list_models(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Give a page of models."""
    return page_of(service, "model", limit, offset)


@router.post(
    "/models",
    status_code=201,
    response_model=dict[str, Any],
    responses=responses(409, 415),
    tags=["models"],
    openapi_extra=BODY,
)
async def upload_model(request: Request, service: Here, user: User, name: ModelName) -> dict[str, Any]:
    """Keep a model that `stripewise train` has written."""
    upload = await received(request, service.settings.data / "uploads")
    return await run_in_threadpool(models.keep_model, service, name, upload, user)


@router.post(
    "/models/train", status_code=202, response_model=JobDocument, responses=responses(404, 409), tags=["models"]
)
def train_model(service: Here, user: User, asked: Training, key: Key = None) -> Response:
    """Let a worker learn a model; the answer is the job to look at."""

    def work() -> dict[str, Any]:
        request = asked.model_dump(exclude={"name", "replace"})
        return job_document(models.train(service, asked.name, request, user, replace=asked.replace))

    return once(service, user, key, f"train {asked.model_dump_json()}", work, 202)


@router.post(
    "/models/validate", status_code=202, response_model=JobDocument, responses=responses(404, 409), tags=["models"]
)
def validate_model(service: Here, user: User, asked: Validation, key: Key = None) -> Response:
    """Let a worker say how well a kind of model predicts what it has not seen."""

    def work() -> dict[str, Any]:
        return job_document(models.validate(service, asked.model_dump(), user))

    return once(service, user, key, f"validate {asked.model_dump_json()}", work, 202)


@router.get("/models/{id}", response_model=dict[str, Any], responses=responses(404), tags=["models"])
def show_model(service: Here, id: Name) -> dict[str, Any]:
    """Give what is known of a model."""
    return models.shown(service.items.get("model", id))


@router.get(
    "/models/{id}/file",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, **responses(404)},
    tags=["models"],
)
def download_model(service: Here, id: Name) -> FileResponse:
    """Give the file of a model."""
    return FileResponse(models.model_path(service, id), media_type="application/octet-stream", filename=f"{id}.model")


@router.delete("/models/{id}", response_model=dict[str, Any], responses=responses(404), tags=["models"])
def delete_model(service: Here, id: Name) -> dict[str, Any]:
    """Delete a model."""
    return models.delete(service, "model", id)


@router.post("/prescriptions", response_model=dict[str, Any], responses=responses(404), tags=["prescriptions"])
def prescribe(service: Here, asked: prescribing.Asked) -> dict[str, Any]:
    """Choose settings for a workload or for what an uploaded log shows; nothing is run or kept."""
    return prescribing.prescribe(service, asked)
