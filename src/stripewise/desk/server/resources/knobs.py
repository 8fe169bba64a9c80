"""Settings in a job script that do nothing."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from fastapi import Form, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from stripewise.catalogue.filesystems import type_names
from stripewise.catalogue.workload import Workload
from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.html import render
from stripewise.desk.server.problems import status_of
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.service import Here, Service, tell_unreadable
from stripewise.diagnose.knobs import MPI
from stripewise.errors import StripewiseError
from stripewise.result import Result
from stripewise.store.base import Record

resource = Resource("/knobs", "knobs")

LIBRARIES = {
    "": "as the script shows",
    "mpich": "MPICH and MVAPICH",
    "openmpi": "Open MPI (OMPIO)",
    "openmpi-romio": "Open MPI with ROMIO",
    "cray": "Cray MPICH",
    "intel": "Intel MPI",
}
_RECENT = 50
_MOST = 200_000


class Script(RequestDocument):
    """A script to be judged, and where it runs."""

    script: str = Field(max_length=_MOST, description="text of a job script, a hints file or a program")
    mpi: str = Field(
        default="", max_length=30, description=f"one of {', '.join(MPI)}; empty for the one that the script uses"
    )
    file_system: str = Field(default="", max_length=30, description=f"one of {', '.join(type_names())}")
    operation: Literal["read", "write", "both", ""] = ""
    experiment: str = Field(default="", max_length=64, description="an experiment with the same program, for evidence")


@resource.post("", 404)
def judge_settings(service: Here, asked: Script) -> dict[str, Any]:
    """Find settings in a job script that do nothing, and say why; nothing of it is kept or run."""
    return _judged(service, asked.script, asked.mpi, asked.file_system, asked.operation, asked.experiment)


def _judged(
    service: Service, script: str, mpi: str, file_system: str, operation: str, experiment: str
) -> dict[str, Any]:
    """Judge a script in a bounded child, by the form and by what an experiment with the same program has shown.

    Raises
    ------
    UserError
        If the experiment does not exist, or the script is refused.
    """
    shown = (service.store.record(experiment).result if experiment else None) or Result()
    found = Workload.model_validate({"operation": operation or None}).merged(shown.workload)
    answer: dict[str, Any] = bounded.ask(
        "judge_settings",
        script=script,
        mpi=mpi,
        file_system=file_system or found.file_system or "",
        workload=found.model_dump(mode="json"),
        effects={effect.name: (effect.status, effect.evidence) for effect in shown.effects},
    )
    return answer


def page(service: Service, **chosen: str) -> dict[str, Any]:
    """Collect what the form shows."""
    records: list[Record] = [
        record
        for record in service.store.records("finished", limit=_RECENT, on_unreadable=tell_unreadable)
        if record.result and record.result.effects
    ]
    return {"libraries": LIBRARIES, "systems": type_names(), "records": records, "chosen": chosen, "mpis": MPI}


@resource.page("")
def show(request: Request, service: Here) -> HTMLResponse:
    """Show the form."""
    chosen = page(service, script="", mpi="", file_system="", operation="", experiment="")
    return render(request, "knobs.html", title="Dead knobs", **chosen, found=None, counts={}, error=None)


@resource.form("")
def judge(
    request: Request,
    service: Here,
    script: Annotated[str, Form(max_length=_MOST)] = "",
    mpi: Annotated[str, Form(max_length=30)] = "",
    file_system: Annotated[str, Form(max_length=30)] = "",
    operation: Annotated[str, Form(max_length=10, pattern="^(read|write|both|)$")] = "",
    experiment: Annotated[str, Form(max_length=64)] = "",
) -> HTMLResponse:
    """Judge a script; nothing of it is kept, and nothing in it is run."""
    found, error = None, None
    try:
        found = _judged(service, script, mpi, file_system, operation, experiment)["settings"]
    except StripewiseError as caught:
        error = caught
    chosen = page(service, script=script, mpi=mpi, file_system=file_system, operation=operation, experiment=experiment)
    counts = Counter(one["verdict"] for one in found or [])
    return render(
        request,
        "knobs.html",
        status_of(error) if error else 200,
        title="Dead knobs",
        **chosen,
        found=found,
        counts=counts,
        error=error,
    )
