"""The overview of all experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from stripewise.server import reading
from stripewise.server.pages.view import PageRoute, render
from stripewise.server.service import Here, Service
from stripewise.store.base import STATES, Sort

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE = 50
_COLUMNS = (("name", "Experiment"), ("state", "State"), ("runs", "Runs"), ("owner", "Owner"), ("updated", "Updated"))


@dataclass(frozen=True)
class Wanted:
    """What part of the list is asked for.

    Attributes
    ----------
    state : str or None
    sort : Sort
    descending : bool
    page : int
        From 1.
    """

    state: str | None = None
    sort: Sort = Sort.CREATED
    descending: bool = True
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Give the address of this list with some of it changed."""
        entries = {
            "state": changes.get("state", self.state),
            "sort": str(changes.get("sort", self.sort)),
            "order": "descending" if changes.get("descending", self.descending) else "ascending",
            "page": changes.get("page", 1),
        }
        plain = {"state": None, "sort": "created", "order": "descending", "page": 1}
        query = urlencode({key: value for key, value in entries.items() if value != plain[key]})
        return f"/?{query}" if query else "/"


def overview(service: Service, wanted: Wanted) -> dict[str, Any]:
    """Collect what the page shows."""
    store = service.store
    counts = {state: store.count(state) for state in STATES}
    total = counts[wanted.state] if wanted.state else sum(counts.values())
    pages = max(1, -(-total // PAGE))
    page = min(wanted.page, pages)
    records = store.records(wanted.state, None, PAGE, (page - 1) * PAGE, sort=wanted.sort, descending=wanted.descending)
    return {
        "lines": [line(entry) for entry in reading.summaries(service, records)],
        "counts": counts,
        "everything": sum(counts.values()),
        "total": total,
        "page": page,
        "pages": pages,
        "wanted": wanted,
        "columns": _COLUMNS,
    }


def line(entry: dict[str, Any]) -> dict[str, Any]:
    """Add to an experiment's line what people want to read: its state in words, its gain, how far it is."""
    queued = bool(entry["queued"])
    share = entry["ended"] / entry["budget"] if entry["budget"] else 0.0
    gain, proven = None, bool(entry["confirmed"])
    if proven:
        gain = entry["speedup"]
    elif entry["default"] and entry["best"] and entry["state"] != "finished":
        ratio = entry["best"] / entry["default"]
        gain = ratio if entry["objective"]["direction"] == "maximize" else 1 / ratio
    return {
        **entry,
        "shown_state": "queued" if queued else entry["state"],
        "share": min(1.0, share),
        "gain": gain,
        "proven": proven,
        "who": entry["submitter"] or entry["owner"].partition("@")[0],
    }


@router.get("/")
def show_overview(
    request: Request,
    service: Here,
    state: Annotated[Literal["created", "running", "finished", "stopped", "failed"] | None, Query()] = None,
    sort: Sort = Sort.CREATED,
    order: Literal["ascending", "descending"] = "descending",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> HTMLResponse:
    """Show all experiments."""
    wanted = Wanted(state, sort, order == "descending", page)
    return render(request, "overview.html", title="Experiments", **overview(service, wanted))
