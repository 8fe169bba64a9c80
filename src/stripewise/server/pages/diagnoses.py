"""Diagnoses of uploaded logs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stripewise.diagnosis.diagnose import diagnose
from stripewise.diagnosis.site import slowness
from stripewise.measure.activity import Activity
from stripewise.report import diagnosis as page
from stripewise.server import diagnosing
from stripewise.server.pages.drawings import as_json
from stripewise.server.pages.view import PageRoute, render
from stripewise.server.service import Here, Service

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST = 100
Id = Annotated[str, InPath(min_length=1, max_length=64)]


def drawn(service: Service, identifier: str) -> tuple[dict[str, Any], Activity, dict[str, Any]]:
    """Give a diagnosis' document, what was diagnosed, and its figures."""
    shown = diagnosing.show(service, identifier)
    activity = diagnosing.activity(service, shown["id"])
    return shown, activity, dict(page.figures(activity, slowness(diagnose(activity))))


@router.get("/diagnoses")
def show_diagnoses(request: Request, service: Here) -> HTMLResponse:
    """Show all diagnoses, and the form for another."""
    found = [
        {
            "id": item.id,
            "name": item.name,
            "owner": item.owner,
            "created": item.created,
            "worst": item.document["worst"],
        }
        for item in service.items.page("diagnosis", _MOST)
    ]
    most = service.settings.upload_bytes
    return render(request, "diagnoses.html", title="Diagnose", found=found, most=most)


@router.get("/diagnoses/{id}")
def show_diagnosis(request: Request, service: Here, id: Id) -> HTMLResponse:
    """Show a diagnosis."""
    shown, activity, figures = drawn(service, id)
    plan = str(shown["diagnosis"].get("plan", ""))
    found = page.context(shown["diagnosis"], activity, figures, plan)
    return render(request, "diagnosis_page.html", title=shown["name"], shown=shown, **found)


@router.get("/diagnoses/{id}/figures.json")
def diagnosis_figures(service: Here, id: Id) -> Response:
    """Give the figures."""
    return as_json(drawn(service, id)[2])


@router.get("/diagnoses/{id}/plan")
def plan(service: Here, id: Id) -> Response:
    """Give the settings that mend it as a plan."""
    text = str(diagnosing.show(service, id)["diagnosis"].get("plan", ""))
    headers = {"Content-Disposition": 'attachment; filename="diagnosis.plan"'}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.post("/diagnoses/{id}/delete")
def delete(service: Here, id: Id) -> RedirectResponse:
    """Delete a diagnosis with its log."""
    diagnosing.delete(service, id)
    return RedirectResponse("/diagnoses", 303)
