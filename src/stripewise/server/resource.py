"""What every resource is made of: its routes under ``/api`` and as pages, and the types of their parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from stripewise.server.files import folder_of
from stripewise.server.html import PageRoute
from stripewise.server.problems import responses
from stripewise.server.service import Service
from stripewise.store.service.keeping import Item

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

MOST = 200
"""Items that a page lists."""

Name = Annotated[str, Path(min_length=1, max_length=64, examples=["site-2026"])]
Limit = Annotated[int, Query(ge=1, le=500, description="most items of the page")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="items before the page")]


class ItemPage(BaseModel):
    """A page, the newest first."""

    total: int = Field(examples=[1])
    items: list[dict[str, Any]] = Field(examples=[[{"id": "site-2026", "name": "site-2026", "owner": "ada"}]])


class Resource:
    """The routes of one kind of thing; a module makes one, and :data:`stripewise.server.resources.RESOURCES` lists it.

    Parameters
    ----------
    path : str
        What its addresses begin with: ``/campaigns`` has pages at ``/campaigns`` and JSON at ``/api/campaigns``.
    tag : str
        Its heading in the description of the API.
    """

    def __init__(self, path: str = "", tag: str = "") -> None:
        self.api = APIRouter(prefix=f"/api{path}", tags=[tag])
        self.pages = APIRouter(prefix=path, include_in_schema=False, route_class=PageRoute)

    def get(self, path: str, *errors: int, model: Any = dict[str, Any], **more: Any) -> Callable[[Endpoint], Endpoint]:
        """Answer JSON; ``errors`` are the statuses that this route can answer with, besides those of every route."""
        return self._route("GET", path, errors, response_model=model, **more)

    def file(self, path: str, *errors: int, kind: Any, **more: Any) -> Callable[[Endpoint], Endpoint]:
        """Answer with a text or a file; ``kind`` is the class of the answer."""
        return self._route("GET", path, errors, response_class=kind, **more)

    def post(
        self, path: str, *errors: int, status: int = 200, model: Any = dict[str, Any], **more: Any
    ) -> Callable[[Endpoint], Endpoint]:
        """Answer JSON to a request with a body."""
        return self._route("POST", path, errors, response_model=model, status_code=status, **more)

    def delete(self, path: str, *errors: int, model: Any = dict[str, Any]) -> Callable[[Endpoint], Endpoint]:
        """Delete something."""
        return self._route("DELETE", path, errors, response_model=model)

    def action(
        self,
        path: str,
        *errors: int,
        back: str,
        method: str = "POST",
        status: int = 202,
        model: Any = dict[str, Any],
    ) -> Callable[[Endpoint], Endpoint]:
        """Do something to a thing: one function for programs, which get its document, and for buttons of pages.

        Parameters
        ----------
        path : str
        *errors : int
        back : str
            Where a button leads afterwards, with fields of the document in braces.
        method : str
            For programs; a button always sends a form, for ``DELETE`` to the path with ``/delete``.
        status : int
        model : type
        """

        def register(endpoint: Endpoint) -> Endpoint:
            self._route(method, path, errors, response_model=model, status_code=status)(endpoint)
            self.pages.post(path if method == "POST" else f"{path}/delete")(_redirecting(endpoint, back))
            return endpoint

        return register

    def page(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Answer a page."""
        return self.pages.get(path)

    def form(self, path: str) -> Callable[[Endpoint], Endpoint]:
        """Take the form of a page."""
        return self.pages.post(path)

    def _route(self, method: str, path: str, errors: tuple[int, ...], **more: Any) -> Callable[[Endpoint], Endpoint]:
        described = {**more.pop("responses", {}), **responses(*errors)}
        return self.api.api_route(path, methods=[method], responses=described, **more)


def _redirecting(endpoint: Callable[..., Any], back: str) -> Callable[..., Any]:
    """Make the endpoint of a button out of one that gives a document."""
    if inspect.iscoroutinefunction(endpoint):

        @functools.wraps(endpoint)
        async def awaited(**given: Any) -> RedirectResponse:
            return RedirectResponse(back.format_map(await endpoint(**given) or {}), 303)

        return awaited

    @functools.wraps(endpoint)
    def called(**given: Any) -> RedirectResponse:
        return RedirectResponse(back.format_map(endpoint(**given) or {}), 303)

    return called


def shown(item: Item) -> dict[str, Any]:
    """Give an item as REST has it."""
    return {"id": item.id, "name": item.name, "owner": item.owner, "created": item.created, **item.document}


def page_of(service: Service, kind: str, limit: int, offset: int) -> dict[str, Any]:
    """Give a page of items of a kind."""
    found = service.items.page(kind, limit, offset)
    return {"total": service.items.count(kind), "items": [shown(item) for item in found]}


def model_path(service: Service, name: str) -> FilePath:
    """Return the file of a model.

    Raises
    ------
    UserError
        If there is none.
    """
    service.items.get("model", name)
    return folder_of(service.settings.data, "model", name) / "model"


def log_path(service: Service, identifier: str) -> FilePath:
    """Give the file of an uploaded log; raises as :func:`model_path`."""
    item = service.items.get("diagnosis", identifier)
    return folder_of(service.settings.data, "diagnosis", item.id) / str(item.document["file"])
