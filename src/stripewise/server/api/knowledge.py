"""Components, tables, models, prescriptions, campaigns and diagnoses."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from stripewise.server import campaigns, diagnosing, models, prescribing
from stripewise.server.api.experiments import Limit, Offset
from stripewise.server.api.state import job_document
from stripewise.server.components import components
from stripewise.server.documents import JobDocument
from stripewise.server.places import folder_of
from stripewise.server.problems import Refused, responses
from stripewise.server.repeats import Key, once
from stripewise.server.service import Here, Service, User
from stripewise.server.uploads import BODY, received

router = APIRouter(prefix="/api")

Name = Annotated[str, Path(min_length=1, max_length=64, examples=["site-2026"])]
FileName = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+$", examples=["job.darshan"])]
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


class Training(BaseModel):
    """A model to learn."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "pm", "table": "site-2026", "model": "forest"}]}
    )
    name: str = Field(min_length=1, max_length=64)
    table: str = Field(min_length=1, max_length=128, description="a table's name, or campaign:ID")
    model: str = Field(default="auto", max_length=64)
    options: dict[str, str] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Validation(BaseModel):
    """A kind of model to judge."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"table": "site-2026", "model": "forest", "folds": 5}]}
    )
    table: str = Field(min_length=1, max_length=128)
    model: str = Field(default="auto", max_length=64)
    options: dict[str, str] = Field(default_factory=dict)
    folds: int | None = Field(default=None, ge=2, le=1000)
    inverse: int | None = Field(default=None, ge=2, le=1000)
    leave_out: list[str] = Field(default_factory=list, max_length=100)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class NewCampaign(BaseModel):
    """A campaign to run."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"toml": 'name = "small"\nrunner = "sim:kay"\n...', "start": False}]},
    )
    toml: str = Field(description="a campaign file", max_length=1 << 20)
    start: bool = True


def _page(service: Service, kind: str, limit: int, offset: int) -> dict[str, Any]:
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
    return _page(service, "table", limit, offset)


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
    return _page(service, "model", limit, offset)


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
        return job_document(models.train(service, asked.name, asked.model_dump(exclude={"name"}), user))

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


# -- campaigns -----------------------------------------------------------------------------------------------------


@router.get("/campaigns", response_model=ItemPage, responses=responses(), tags=["campaigns"])
def list_campaigns(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Give a page of campaigns."""
    page = _page(service, "campaign", limit, offset)
    return {**page, "items": [campaigns.show(service, item["id"]) for item in page["items"]]}


@router.post("/campaigns", status_code=201, response_model=dict[str, Any], responses=responses(409), tags=["campaigns"])
def create_campaign(service: Here, user: User, asked: NewCampaign, key: Key = None) -> Response:
    """Keep a campaign and let a worker run it."""

    def work() -> dict[str, Any]:
        return campaigns.create(service, asked.toml, user, start=asked.start)

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


# -- diagnoses -----------------------------------------------------------------------------------------------------


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


@router.delete("/diagnoses/{id}", status_code=204, responses=responses(404), tags=["diagnoses"])
def delete_diagnosis(service: Here, id: Name) -> None:
    """Delete a diagnosis with its log."""
    diagnosing.delete(service, id)
