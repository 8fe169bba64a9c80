"""Diagnoses of uploaded logs: a log is read once, and kept with what was found."""

from __future__ import annotations

import functools
import shutil
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field

from stripewise.catalogue.filesystems import type_names
from stripewise.catalogue.workload import Workload
from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.files import folder_of, new_identifier
from stripewise.desk.server.html import answer_attachment, as_json, render
from stripewise.desk.server.problems import Refused, status_of
from stripewise.desk.server.resource import (
    BODY,
    MOST,
    ItemPage,
    Limit,
    Name,
    Offset,
    Resource,
    Upload,
    log_path,
    model_path,
)
from stripewise.desk.server.service import Here, Service, User, tell_unreadable
from stripewise.diagnose.knobs import MPI
from stripewise.diagnose.site import diagnose, slowness
from stripewise.documents import make_finite
from stripewise.errors import StripewiseError
from stripewise.interpreter import reading_seconds
from stripewise.observe import traces
from stripewise.observe.activity import Activity
from stripewise.observe.sources import NAMES
from stripewise.output import diagnosis as page
from stripewise.result import Result
from stripewise.store.base import Record
from stripewise.store.service.keeping import Item

resource = Resource("/diagnoses", "diagnoses")

_SUFFIXES = (".darshan", *traces.SUFFIXES, ".json", ".record", ".journal", ".txt", ".out", ".log")
FileName = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+$", examples=["job.darshan"])]


class Predicting(RequestDocument):
    """A model to be asked about a job."""

    model: str = Field(min_length=1, max_length=64)


@resource.get("", model=ItemPage)
def list_diagnoses(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Return a page of diagnoses, without their findings."""
    found = service.items.page("diagnosis", limit, offset)
    return {"total": service.items.count("diagnosis"), "items": [_line(item) for item in found]}


@resource.post("", 415, status=201, openapi_extra=BODY)
def upload_log(service: Here, user: User, name: FileName, upload: Upload) -> dict[str, Any]:
    """Say why I/O was slow, from a Darshan log, a trace of DFTracer, a report, a journal or a benchmark's output."""
    identifier = new_identifier()
    place = folder_of(service.settings.data, "diagnosis", identifier)
    place.mkdir(mode=0o700, parents=True)
    # Without one of these, the content alone decides.
    suffix = next((one for one in _SUFFIXES if name.lower().endswith(one)), ".log")
    path = place / f"log{suffix}"
    try:
        upload.rename(path)
        try:
            found = _read(path)
        except StripewiseError as error:
            if suffix != name.lower()[-len(suffix) :]:
                what = f"{name} is none of these: {NAMES}"
                raise Refused(422, what, "upload one of these, or the whole of it if it was cut off") from error
            raise Refused(422, error.what.replace(str(path), "the upload"), error.fix) from error
        document = {**found, "source": name, "file": path.name}
        del document["activity"]
        service.items.put("diagnosis", identifier, name, user.name, document)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return show_diagnosis(service, identifier)


@resource.get("/{id}", 404)
def show_diagnosis(service: Here, id: Name) -> dict[str, Any]:
    """Return a diagnosis."""
    item = service.items.get("diagnosis", id)
    head = {"id": item.id, "name": item.name, "owner": item.owner, "created": item.created}
    # Version 0.1.0 stored the fix of a finding as `mend`.
    findings = [
        {"fix" if key == "mend" else key: value for key, value in one.items()} for one in item.document["findings"]
    ]
    diagnosis = {key: value for key, value in item.document.items() if key != "file"}
    return {**head, "diagnosis": {**diagnosis, "findings": findings}}


@resource.get("/{id}/activity", 404)
def show_activity(service: Here, id: Name) -> dict[str, Any]:
    """Return everything that was read from a log, on which its diagnosis is based."""
    return make_finite(activity(service, id).model_dump(mode="json"))


@resource.post("/{id}/prediction", 404)
def predict(service: Here, id: Name, asked: Predicting) -> dict[str, Any]:
    """Predict a job with a model: with its own settings, with prescribed settings, and in the best case."""
    path = log_path(service, id)
    model = model_path(service, asked.model)
    return make_finite(bounded.ask("predict_job", _seconds(path), log=str(path), model=str(model)))


@resource.action("/{id}", 404, back="/diagnoses", method="DELETE", status=204, model=None)
def delete_diagnosis(service: Here, id: Name) -> None:
    """Delete a diagnosis with its log."""
    item = service.items.get("diagnosis", id)
    service.items.delete("diagnosis", item.id)
    shutil.rmtree(folder_of(service.settings.data, "diagnosis", item.id), ignore_errors=True)


def activity(service: Service, identifier: str) -> Activity:
    """Give the activity that an uploaded log shows.

    Raises
    ------
    Refused
        If it can no longer be read.
    """
    path = log_path(service, identifier)
    try:
        return _activity(path)
    except StripewiseError as error:
        said = error.what.replace(str(path), "the log")
        raise Refused(422, said, "delete the diagnosis and upload the log again") from error


@functools.lru_cache(maxsize=16)
def _activity(path: Path) -> Activity:
    """Read a log; those that were uploaded never change."""
    return Activity.model_validate(_read(path)["activity"])


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = bounded.ask("read_log", _seconds(path), path=str(path))
    return found


def _seconds(path: Path) -> float:
    """How long a log may take: its own reader ends earlier."""
    return reading_seconds(path.stat().st_size) + bounded.SECONDS


def _line(item: Item) -> dict[str, Any]:
    names = ("id", "name", "owner", "created")
    return {name: getattr(item, name) for name in names} | {"worst": item.document["worst"]}


# -- pages ---------------------------------------------------------------------------------------------------------


def _draw_diagnosis(service: Service, identifier: str) -> tuple[dict[str, Any], Activity, dict[str, Any]]:
    """Return a diagnosis, what was diagnosed, and its figures."""
    shown = show_diagnosis(service, identifier)
    found = activity(service, shown["id"])
    return shown, found, dict(page.figures(found, slowness(diagnose(found))))


@resource.page("")
def diagnoses_page(request: Request, service: Here) -> HTMLResponse:
    """Show all diagnoses, and the form for another."""
    found = [{**_line(item), "job": item.document.get("job", {})} for item in service.items.page("diagnosis", MOST)]
    return render(request, "diagnoses.html", title="Diagnose", found=found, most=service.settings.upload_bytes)


@resource.page("/{id}")
def diagnosis_page(request: Request, service: Here, id: Name) -> HTMLResponse:
    """Show a diagnosis."""
    shown, found, figures = _draw_diagnosis(service, id)
    context = page.context(shown["diagnosis"], found, figures, str(shown["diagnosis"].get("plan", "")))
    return render(request, "diagnosis_shown.html", title=shown["name"], shown=shown, **context)


@resource.page("/{id}/figures.json")
def diagnosis_figures(service: Here, id: Name) -> Response:
    """Give the figures."""
    return as_json(_draw_diagnosis(service, id)[2])


@resource.page("/{id}/plan")
def plan(service: Here, id: Name) -> Response:
    """Give the settings that fix it as a plan."""
    return answer_attachment(str(show_diagnosis(service, id)["diagnosis"].get("plan", "")), "diagnosis.plan")


# -- settings in a job script that do nothing --------------------------------------------------------------------------

scripts = Resource("/knobs", "knobs")

LIBRARIES = {
    "": "as the script shows",
    "mpich": "MPICH and MVAPICH",
    "openmpi": "Open MPI (OMPIO)",
    "openmpi-romio": "Open MPI with ROMIO",
    "cray": "Cray MPICH",
    "intel": "Intel MPI",
}
_RECENT = 50
_LONGEST_SCRIPT = 200_000


class Script(RequestDocument):
    """A script to be judged, and where it runs."""

    script: str = Field(max_length=_LONGEST_SCRIPT, description="text of a job script, a hints file or a program")
    mpi: str = Field(
        default="", max_length=30, description=f"one of {', '.join(MPI)}; empty for the one that the script uses"
    )
    file_system: str = Field(default="", max_length=30, description=f"one of {', '.join(type_names())}")
    operation: Literal["read", "write", "both", ""] = ""
    experiment: str = Field(default="", max_length=64, description="an experiment with the same program, for evidence")


@scripts.post("", 404)
def judge_settings(service: Here, asked: Script) -> dict[str, Any]:
    """Find settings in a job script that do nothing, and say why; nothing of it is kept or run."""
    return _judge_bounded(service, asked.script, asked.mpi, asked.file_system, asked.operation, asked.experiment)


def _judge_bounded(
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


def _script_form(service: Service, **chosen: str) -> dict[str, Any]:
    """Collect what the form shows."""
    records: list[Record] = [
        record
        for record in service.store.records("finished", limit=_RECENT, on_unreadable=tell_unreadable)
        if record.result and record.result.effects
    ]
    return {"libraries": LIBRARIES, "systems": type_names(), "records": records, "chosen": chosen, "mpis": MPI}


@scripts.page("")
def script_page(request: Request, service: Here) -> HTMLResponse:
    """Show the form."""
    chosen = _script_form(service, script="", mpi="", file_system="", operation="", experiment="")
    return render(request, "knobs.html", title="Dead knobs", **chosen, found=None, remarks=[], counts={}, error=None)


@scripts.form("")
def judge(
    request: Request,
    service: Here,
    script: Annotated[str, Form(max_length=_LONGEST_SCRIPT)] = "",
    mpi: Annotated[str, Form(max_length=30)] = "",
    file_system: Annotated[str, Form(max_length=30)] = "",
    operation: Annotated[str, Form(max_length=10, pattern="^(read|write|both|)$")] = "",
    experiment: Annotated[str, Form(max_length=64)] = "",
) -> HTMLResponse:
    """Judge a script; nothing of it is kept, and nothing in it is run."""
    found, remarks, error = None, [], None
    try:
        answer = _judge_bounded(service, script, mpi, file_system, operation, experiment)
        found, remarks = answer["settings"], answer["remarks"]
    except StripewiseError as caught:
        error = caught
    chosen = _script_form(
        service, script=script, mpi=mpi, file_system=file_system, operation=operation, experiment=experiment
    )
    counts = Counter(one["verdict"] for one in found or [])
    return render(
        request,
        "knobs.html",
        status_of(error) if error else 200,
        title="Dead knobs",
        **chosen,
        found=found,
        remarks=remarks,
        counts=counts,
        error=error,
    )
