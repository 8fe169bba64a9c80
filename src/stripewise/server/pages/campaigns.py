"""Campaigns: where they stand, and what their measurements say."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stripewise.errors import StripewiseError, UserError
from stripewise.model.table import Table, read_table
from stripewise.report.summary import summary_context, summary_figures
from stripewise.server import campaigns
from stripewise.server.pages.drawings import as_json
from stripewise.server.pages.view import PageRoute, render
from stripewise.server.places import table_path
from stripewise.server.problems import status_of
from stripewise.server.service import Here, Service, User
from stripewise.summaries import Report, summarise

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST = 100
Id = Annotated[str, InPath(min_length=1, max_length=64)]


def presets() -> list[str]:
    """List the campaigns that come with Stripewise."""
    folder = resources.files("stripewise.spec") / "campaigns"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def preset(name: str) -> str:
    """Read one of them.

    Raises
    ------
    UserError
        If there is none of this name.
    """
    if name not in presets():
        raise UserError(f"there is no preset '{name}'", f"choose from {', '.join(presets())}")
    return (resources.files("stripewise.spec") / "campaigns" / f"{name}.toml").read_text("utf-8")


def overview(service: Service, text: str) -> dict[str, Any]:
    """Collect what the page of all campaigns shows."""
    shown = [campaigns.show(service, item.id) for item in service.items.page("campaign", _MOST)]
    return {
        "campaigns": [{**one, "state": _word(one["state"])} for one in shown],
        "busy": any(one["state"] in ("queued", "running") for one in shown),
        "presets": presets(),
        "text": text,
    }


def _word(state: str) -> str:
    return "finished" if state == "done" else state


def measured(service: Service, identifier: str) -> tuple[Table, list[Report]] | None:
    """Read a campaign's table with its summaries; None until it has ended."""
    try:
        path = table_path(service.settings.data, f"campaign:{identifier}")
    except UserError:
        return None
    return _summarised(path, path.with_suffix(".csv").stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _summarised(path: Path, changed: int) -> tuple[Table, list[Report]]:
    table = read_table(path)
    return table, summarise(table)


def campaign_page(service: Service, identifier: str) -> dict[str, Any]:
    """Collect what the page of one campaign shows."""
    shown = campaigns.show(service, identifier)
    found = measured(service, shown["id"])
    return {
        "operations": [],
        **(summary_context(*found) if found else {}),
        "campaign": {**shown, "state": _word(shown["state"])},
        "open": shown["state"] in ("queued", "running"),
        "simulated": str(shown["runner"]).startswith("sim:"),
        "rows": len(found[0]) if found else 0,
    }


@router.get("/campaigns")
def show_campaigns(request: Request, service: Here, start: Annotated[str, Query(max_length=64)] = "") -> HTMLResponse:
    """Show all campaigns."""
    text = preset(start) if start else ""
    if text and "[files]" not in text:
        text += f'\n[files]\nfolder = "{service.settings.data}"  # on the file system to measure\n'
    return render(request, "campaigns.html", title="Campaigns", **overview(service, text), error=None)


@router.post("/campaigns")
def create(
    request: Request, service: Here, user: User, text: Annotated[str, Form(max_length=200_000)] = ""
) -> Response:
    """Keep a campaign and let a worker run it."""
    try:
        made = campaigns.create(service, text, user)
    except StripewiseError as error:
        return render(
            request, "campaigns.html", status_of(error), title="Campaigns", **overview(service, text), error=error
        )
    request.state.subject = made["id"]
    return RedirectResponse(f"/campaigns/{made['id']}", 303)


@router.get("/campaigns/{id}")
def show_campaign(request: Request, service: Here, id: Id) -> HTMLResponse:
    """Show a campaign."""
    shown = campaign_page(service, id)
    return render(request, "campaign.html", title=shown["campaign"]["name"], **shown)


@router.get("/campaigns/{id}/figures.json")
def figures(service: Here, id: Id) -> Response:
    """Give the figures of a campaign's summaries."""
    found = measured(service, service.items.get("campaign", id).id)
    return as_json(summary_figures(*found) if found else {})


@router.post("/campaigns/{id}/start")
def start_campaign(service: Here, user: User, id: Id) -> RedirectResponse:
    """Go on with a campaign."""
    return RedirectResponse(f"/campaigns/{campaigns.start(service, id, user)['id']}", 303)


@router.post("/campaigns/{id}/stop")
def stop_campaign(service: Here, id: Id) -> RedirectResponse:
    """Stop a campaign."""
    return RedirectResponse(f"/campaigns/{campaigns.stop(service, id)['id']}", 303)
