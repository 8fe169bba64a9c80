"""What the service itself tells: health, metrics, what can be chosen, the jobs of its workers, and the audit log."""

from __future__ import annotations

import functools
import gzip
import resource as limits
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Path, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from stripewise import __version__
from stripewise.catalogue.stack import load_stack, stack_names
from stripewise.desk.server.documents import Health, JobDocument, describe_stack, job_document
from stripewise.desk.server.html import render, static_content
from stripewise.desk.server.metrics import Metrics
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Limit, Offset, Resource
from stripewise.desk.server.service import Here
from stripewise.errors import UserError
from stripewise.lab.site import site_names
from stripewise.models.prescribe.policies import policy_names
from stripewise.models.registry import model_class, model_names
from stripewise.observe.objectives import usages
from stripewise.output.export import TARGETS
from stripewise.requests.campaign import preset_names
from stripewise.runners.registry import RUNNERS
from stripewise.search.base import sampler_class, sampler_names
from stripewise.search.policy.pruning import PruningOptions
from stripewise.search.policy.resampling import ResamplingOptions
from stripewise.search.policy.stopping import StoppingOptions
from stripewise.store.base import STATES
from stripewise.store.service import database_of
from stripewise.store.service.jobs import live_workers


@functools.cache
def components() -> dict[str, Any]:
    """Give all that can be chosen; options are JSON schemas."""
    return {
        "stacks": [{"name": name, **describe_stack(load_stack(name))} for name in stack_names()],
        "samplers": [found for name in sampler_names() if (found := _describe_options(name, sampler_class))],
        "resampling": ResamplingOptions.model_json_schema(),
        "pruning": PruningOptions.model_json_schema(),
        "stopping": StoppingOptions.model_json_schema(),
        "runners": list(RUNNERS),
        "sites": list(site_names()),
        "objectives": usages(),
        "models": [found for name in model_names() if (found := _describe_options(name, model_class))],
        "policies": list(policy_names()),
        "campaigns": list(preset_names()),
        "exports": list(TARGETS),
    }


def _describe_options(name: str, find: Callable[[str], Any]) -> dict[str, Any] | None:
    """Give a name with its options; None for what needs a package that is not installed, or names a family."""
    try:
        return {"name": name, "options": find(name).Options.model_json_schema()}
    except UserError:
        return None


resource = Resource("", "service")
choices = Resource("", "components")
jobs = Resource("/jobs", "jobs")

Id = Annotated[str, Path(min_length=1, max_length=64)]


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


@resource.get("/health", model=Health)
def health(service: Here) -> dict[str, Any]:
    """Say whether the store can be read; needs no token."""
    service.store.count()
    return {"status": "ok", "version": __version__}


@resource.file("/metrics", kind=PlainTextResponse)
def metrics(request: Request, service: Here) -> str:
    """Return counters for Prometheus."""
    counted: Metrics = request.app.state.metrics
    states = {f'state="{state}"': float(service.store.count(state)) for state in STATES}
    jobs = {f'state="{state}"': float(number) for state, number in service.jobs.counts().items()}
    memory = limits.getrusage(limits.RUSAGE_SELF).ru_maxrss * 1024
    return counted.text(
        {
            "stripewise_experiments": ("Experiments by state.", states),
            "stripewise_jobs": ("Jobs of workers by state.", jobs),
            "stripewise_workers_busy": ("Workers that hold a job.", {"": live_workers(database_of(service.store))}),
            "stripewise_listeners": ("Open event streams.", {"": service.hub.listeners}),
            "stripewise_memory_peak_bytes": ("Largest resident memory of this process.", {"": memory}),
        }
    )


@resource.get("/audit", model=AuditPage)
def show_audit(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """List changes and refusals: who, when and what; for operators."""
    return {"items": [vars(entry) for entry in service.audit.page(limit, offset)]}


@resource.page("/docs")
def docs(request: Request) -> HTMLResponse:
    """Show what /openapi.json describes as a page."""
    document = request.app.openapi()
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            tags.setdefault(operation["tags"][0], []).append((method, path, operation))
    return render(request, "docs.html", title="REST", document=document, tags=dict(sorted(tags.items())))


@choices.get("/components")
def list_components() -> dict[str, Any]:
    """List the choices: stacks, samplers with their options, runners, models, policies, exports."""
    return components()


@jobs.get("/{id}", 404, model=JobDocument)
def show_job(service: Here, id: Id) -> dict[str, Any]:
    """Return a job: training, validation, evaluation or a campaign."""
    return job_document(service.jobs.get(id))


@jobs.post("/{id}/stop", 404, 409, status=202, model=JobDocument)
def stop_job(service: Here, id: Id) -> dict[str, Any]:
    """Ask a job to stop."""
    job = service.jobs.get(id)
    if not service.jobs.stop(job.subject):
        raise Refused(409, f"job {job.id} neither runs nor waits", "there is nothing to stop")
    return job_document(service.jobs.get(id))


# -- files of pages ----------------------------------------------------------------------------------------------------

static_files = Resource()

_TYPES = {
    "report.css": "text/css; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "drawing.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "figures.js": "text/javascript; charset=utf-8",
    "brush.js": "text/javascript; charset=utf-8",
    "form.js": "text/javascript; charset=utf-8",
    "plotly.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_YEAR = "public, max-age=31536000, immutable"


@static_files.page("/static/{name}")
def static_file(request: Request, name: str) -> Response:
    """Give a file; compressed where the browser takes that."""
    if name not in _TYPES:
        raise HTTPException(404, "this file does not exist")
    headers = {"Cache-Control": _YEAR if request.url.query.startswith("v=") else "public, max-age=300"}
    accepted = request.headers.get("accept-encoding", "")
    if "br" in accepted and name == "plotly.min.js":
        content = static_content(f"{name}.br")
        headers |= {"Content-Encoding": "br", "Vary": "Accept-Encoding"}
    elif "gzip" in accepted:
        content = _compress_file(name)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    else:
        content = static_content(name)
    return Response(content, media_type=_TYPES[name], headers=headers)


@static_files.page("/favicon.ico")
def icon() -> Response:
    """Give the icon."""
    return Response(
        static_content("icon.svg"), media_type=_TYPES["icon.svg"], headers={"Cache-Control": "max-age=86400"}
    )


@functools.cache
def _compress_file(name: str) -> bytes:
    return gzip.compress(static_content(name), 6, mtime=0)
