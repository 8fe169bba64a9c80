"""Components: the stacks that come with Stripewise, and stack files of one's own that are uploaded and used by name."""

from __future__ import annotations

import shutil
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse
from pydantic import Field

from stripewise.catalogue.stack import stack_names
from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.files import STACK_FILE, checked_name, folder_of, new_identifier
from stripewise.desk.server.html import render
from stripewise.desk.server.policy import refuse_own_stacks
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import MOST, ItemPage, Limit, Name, Offset, Once, Resource, page_of, show_item
from stripewise.desk.server.resources import status, tables
from stripewise.desk.server.service import Here, Service, User, tell_unreadable
from stripewise.errors import UserError
from stripewise.store.service.tokens import Token

resource = Resource("/stacks", "components")

_LONGEST = 1 << 18
_UNDER_WAY = ("created", "running", "stopped")


class NewStack(RequestDocument):
    """A stack file to keep."""

    name: str = Field(min_length=1, max_length=64, description="what experiments call it", examples=["cache"])
    toml: str = Field(max_length=_LONGEST, description="the text of the stack file")


@resource.get("", model=ItemPage)
def list_stacks(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Return a page of uploaded stacks; /api/components lists those that come with Stripewise."""
    return page_of(service, "stack", limit, offset)


@resource.post("", 403, 409, status=201)
def create_stack(service: Here, user: User, asked: NewStack, once: Once) -> Response:
    """Store a stack file, which experiments and campaigns then use by its name.

    Refused on a service with an allow-list: a stack can set any variable, and so start anything.
    """
    return once("stack", asked, lambda: keep(service, asked, user), 201)


@resource.get("/{id}", 404)
def show_stack(service: Here, id: Name) -> dict[str, Any]:
    """Return what is known about an uploaded stack."""
    return show_item(service.items.get("stack", id))


@resource.file("/{id}/file", 404, kind=PlainTextResponse)
def download_stack(service: Here, id: Name) -> str:
    """Return the text of an uploaded stack."""
    service.items.get("stack", id)
    return (folder_of(service.settings.data, "stack", id) / STACK_FILE).read_text("utf-8")


@resource.action("/{id}", 404, 409, back="/stacks", method="DELETE", status=200)
def delete_stack(service: Here, id: Name) -> dict[str, Any]:
    """Delete an uploaded stack that no open experiment uses."""
    path = str(folder_of(service.settings.data, "stack", service.items.get("stack", id).id) / STACK_FILE)
    for state in _UNDER_WAY:
        for record in service.store.records(state, on_unreadable=tell_unreadable):
            if path in record.experiment.stacks:
                raise Refused(
                    409, f"experiment {record.id} is {state} and uses the stack '{id}'", "finish or delete it first"
                )
    return tables.delete_item(service, "stack", id)


def keep(service: Service, asked: NewStack, user: Token) -> dict[str, Any]:
    """Keep an uploaded stack after reading it.

    Raises
    ------
    UserError
        If it is not a stack file.
    Refused
        If the service has an allow-list, or a stack of this name.
    """
    refuse_own_stacks(service.settings)
    place = folder_of(service.settings.data, "stack", checked_name(asked.name, "stack"))
    if asked.name in stack_names():
        raise Refused(409, f"the stack '{asked.name}' comes with Stripewise", "choose another name")
    part = place.with_name(f".{place.name}-{new_identifier()}")
    part.mkdir(mode=0o700, parents=True)
    try:
        (part / STACK_FILE).write_text(asked.toml, "utf-8", newline="")
        try:
            document = bounded.ask("read_stack", path=str(part / STACK_FILE))
        except UserError as error:
            # The sender does not know the folder in which it was read.
            raise UserError(error.what.replace(f"{part / STACK_FILE}", "the stack file"), error.fix) from error
        if place.exists():
            raise Refused(409, f"there is a stack '{asked.name}' already", "choose another name, or delete it")
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return show_item(service.items.put("stack", asked.name, asked.name, user.name, document))


# -- pages ---------------------------------------------------------------------------------------------------------


@resource.page("")
def stacks_page(request: Request, service: Here) -> HTMLResponse:
    """Show all stacks."""
    return render(
        request,
        "stacks.html",
        title="Components",
        own=[show_item(item) for item in service.items.page("stack", MOST)],
        bundled=status.components()["stacks"],
        refused=service.settings.allow is not None,
        longest=_LONGEST,
    )
