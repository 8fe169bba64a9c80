"""Health and metrics, tokens, jobs, and the audit log."""

from __future__ import annotations

import resource
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from stripewise import __version__
from stripewise.server.api.experiments import Limit, Offset
from stripewise.server.documents import Health, JobDocument
from stripewise.server.metrics import Metrics
from stripewise.server.problems import Refused, responses
from stripewise.server.service import Here, User
from stripewise.store.base import STATES
from stripewise.store.service import database_of
from stripewise.store.service.jobs import Job, live_workers

router = APIRouter(prefix="/api")


class TokenDocument(BaseModel):
    """A token; its secret is not kept."""

    id: str = Field(examples=["0f3a9c2b1d4e"])
    name: str = Field(examples=["ada"])
    role: Literal["viewer", "operator"]
    created: float
    expires: float | None
    used: float | None
    revoked: float | None


class TokenList(BaseModel):
    """All tokens."""

    items: list[TokenDocument]


class NewToken(BaseModel):
    """A request for a token."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "ada", "role": "viewer"}]})
    name: str = Field(min_length=1, max_length=100)
    role: Literal["viewer", "operator"] = "viewer"
    days: Annotated[float, Field(gt=0, le=3650)] | None = Field(default=None, description="until it expires")


class MadeToken(TokenDocument):
    """A token just made."""

    secret: str = Field(description="shown this once", examples=["sw_0f3a9c2b1d4e_..."])


class AuditEntry(BaseModel):
    """Something that was changed or refused."""

    number: int
    time: float
    actor: str = Field(examples=["ada"])
    role: str
    address: str
    action: str = Field(examples=["POST /api/experiments"])
    subject: str
    status: int


class AuditPage(BaseModel):
    """A page of the audit log, the newest first."""

    items: list[AuditEntry]


def job_document(job: Job) -> dict[str, Any]:
    """Give a job."""
    names = ("id", "kind", "subject", "state", "submitter", "created", "updated", "owner", "result", "error")
    return {name: getattr(job, name) for name in names}


@router.get("/health", response_model=Health, responses=responses(), tags=["service"])
def health(service: Here) -> dict[str, Any]:
    """Say whether the store can be read; needs no token."""
    service.store.count()
    return {"status": "ok", "version": __version__}


@router.get("/metrics", response_class=PlainTextResponse, responses=responses(), tags=["service"])
def metrics(request: Request, service: Here) -> str:
    """Give counters for Prometheus."""
    counted: Metrics = request.app.state.metrics
    states = {f'state="{state}"': float(service.store.count(state)) for state in STATES}
    jobs = {f'state="{state}"': float(number) for state, number in service.jobs.counts().items()}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return counted.text(
        {
            "stripewise_experiments": ("Experiments by state.", states),
            "stripewise_jobs": ("Jobs of workers by state.", jobs),
            "stripewise_workers_busy": ("Workers that hold a job.", {"": live_workers(database_of(service.store))}),
            "stripewise_listeners": ("Open event streams.", {"": service.hub.listeners}),
            "stripewise_memory_peak_bytes": ("Largest resident memory of this process.", {"": memory}),
        }
    )


@router.get("/me", response_model=TokenDocument, responses=responses(), tags=["service"])
def me(user: User) -> dict[str, Any]:
    """Say whose token it is, and what it may do."""
    return vars(user)


@router.get("/tokens", response_model=TokenList, responses=responses(), tags=["tokens"])
def list_tokens(service: Here) -> dict[str, Any]:
    """Give all tokens; for operators."""
    return {"items": [vars(token) for token in service.tokens.all()]}


@router.post("/tokens", status_code=201, response_model=MadeToken, responses=responses(), tags=["tokens"])
def create_token(service: Here, asked: NewToken) -> dict[str, Any]:
    """Make a token; its secret is in this answer and nowhere else."""
    seconds = None if asked.days is None else asked.days * 86400
    token, secret = service.tokens.create(asked.name, asked.role, seconds)
    return {**vars(token), "secret": secret}


@router.delete("/tokens/{id}", response_model=TokenDocument, responses=responses(404), tags=["tokens"])
def revoke_token(service: Here, id: Annotated[str, Path(min_length=1, max_length=100)]) -> dict[str, Any]:
    """End a token and its sessions."""
    return vars(service.tokens.revoke(id))


@router.get("/jobs/{id}", response_model=JobDocument, responses=responses(404), tags=["jobs"])
def show_job(service: Here, id: Annotated[str, Path(min_length=1, max_length=64)]) -> dict[str, Any]:
    """Give a job: training, validation, evaluation or a campaign."""
    return job_document(service.jobs.get(id))


@router.post(
    "/jobs/{id}/stop", status_code=202, response_model=JobDocument, responses=responses(404, 409), tags=["jobs"]
)
def stop_job(service: Here, id: Annotated[str, Path(min_length=1, max_length=64)]) -> dict[str, Any]:
    """Ask a job to stop."""
    job = service.jobs.get(id)
    if not service.jobs.stop(job.subject):
        raise Refused(409, f"job {job.id} neither runs nor waits", "there is nothing to stop")
    return job_document(service.jobs.get(id))


@router.get("/audit", response_model=AuditPage, responses=responses(), tags=["service"])
def show_audit(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Say who has changed what, and what was refused; for operators."""
    return {"items": [vars(entry) for entry in service.audit.page(limit, offset)]}
