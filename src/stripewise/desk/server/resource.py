"""What every resource is made of: its routes under ``/api`` and as pages, and the types of their parameters.

A request that creates something and may be sent twice does it once, if it has an idempotency key.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from stripewise.desk.server.files import folder_of
from stripewise.desk.server.guard import add_version
from stripewise.desk.server.html import PageRoute
from stripewise.desk.server.problems import Refused, responses
from stripewise.desk.server.service import Here, Service, User
from stripewise.errors import UserError
from stripewise.store.service.keeping import Item

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="a text of your own; a request sent again with the same key does nothing twice, for a day",
        min_length=1,
        max_length=200,
    ),
]
Doing = Callable[[str, BaseModel, Callable[[], Any], int], Response]


def _begin_doing(request: Request, service: Here, user: User, key: Key = None) -> Doing:
    """Give what does a creation, or gives the answer of the same request before.

    It takes the creation's name, the request, the function that makes the answer's document, and the answer's status,
    and raises ``Refused`` with status 409 if the key was used for something else.
    """

    def once(what: str, asked: BaseModel, work: Callable[[], Any], status: int) -> Response:
        if key is None:
            document = work()
            return JSONResponse(document, status, _location(request, document, status))
        name = hashlib.sha256(f"{user.id}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()
        digest = hashlib.sha256(f"{what} {asked.model_dump_json()}".encode("utf-8", "surrogatepass")).hexdigest()
        try:
            before = service.answers.begin(name, digest)
        except UserError as error:
            raise Refused(409, error.what, error.fix) from error
        if before is not None:
            return Response(before[1], before[0], {"Idempotent-Replay": "true"}, "application/json")
        try:
            document = work()
            body = json.dumps(document)
        except BaseException:
            service.answers.drop(name)
            raise
        service.answers.end(name, status, body)
        return Response(body, status, _location(request, document, status), "application/json")

    return once


def _location(request: Request, document: Any, status: int) -> dict[str, str]:
    """Say where what was made is: a thing of the collection, or the job that makes it."""
    collection = "jobs" if status == 202 else request.url.path.split("/")[2]
    return {"Location": add_version(f"/api/{collection}/{document['id']}")}


Once = Annotated[Doing, Depends(_begin_doing)]


BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": "..."}},
    }
}
"""For routes whose body is a file."""


async def _receive_body(request: Request, service: Here) -> AsyncIterator[FilePath]:
    """Write the body of a request to a new file, which is deleted afterwards unless it was moved away.

    Raises
    ------
    Refused
        If the body is of another type, or empty.
    """
    if not request.headers.get("content-type", "").startswith("application/octet-stream"):
        raise Refused(415, "the body is not application/octet-stream", "send the file's bytes as they are")
    folder = service.settings.data / "uploads"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"upload-{secrets.token_hex(8)}"
    size = 0
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            async for chunk in request.stream():
                size += len(chunk)
                await run_in_threadpool(stream.write, chunk)
        if not size:
            raise Refused(422, "the body is empty", "send a file")
        yield path
    finally:
        path.unlink(missing_ok=True)


Upload = Annotated[FilePath, Depends(_receive_body)]


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
    """The routes of one kind of thing, which a module makes.

    :data:`~stripewise.desk.server.resources.RESOURCES` lists it.

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

    def patch(self, path: str, *errors: int, model: Any) -> Callable[[Endpoint], Endpoint]:
        """Change something in part."""
        return self._route("PATCH", path, errors, response_model=model)

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
        back : str
            Where a button leads afterwards, with fields of the document in braces.
        method : str
            For programs; a button always sends a form, for ``DELETE`` to the path with ``/delete``.
        """

        def register(endpoint: Endpoint) -> Endpoint:
            self._route(method, path, errors, response_model=model, status_code=status)(endpoint)
            self.pages.post(path if method == "POST" else f"{path}/delete")(_make_redirecting(endpoint, back))
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


def _make_redirecting(endpoint: Callable[..., Any], back: str) -> Callable[..., Any]:
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


def show_item(item: Item) -> dict[str, Any]:
    """Give an item as REST has it."""
    return {"id": item.id, "name": item.name, "owner": item.owner, "created": item.created, **item.document}


def page_of(service: Service, kind: str, limit: int, offset: int) -> dict[str, Any]:
    """Give a page of items of a kind."""
    found = service.items.page(kind, limit, offset)
    return {"total": service.items.count(kind), "items": [show_item(item) for item in found]}


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
