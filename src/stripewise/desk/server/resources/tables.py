"""Tables of measurements: uploaded, or made by campaigns; models learn from them."""

from __future__ import annotations

import shutil
from typing import Any

from fastapi import Response
from pydantic import Field

from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.files import checked_name, folder_of, new_identifier, table_path
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import MOST, ItemPage, Limit, Name, Offset, Once, Resource, page_of, show_item
from stripewise.desk.server.service import Here, Service, User
from stripewise.errors import UserError
from stripewise.models.table import LARGEST_ROWS, LARGEST_SCHEMA
from stripewise.store.service.tokens import Token

resource = Resource("/tables", "models")


class NewTable(RequestDocument):
    """A table to keep."""

    name: str = Field(min_length=1, max_length=64)
    # A text with a largest length is checked to be Unicode, which half a pair of "\ud800" is not.
    csv: str = Field(max_length=LARGEST_ROWS)
    toml: str = Field(max_length=LARGEST_SCHEMA)


@resource.get("", model=ItemPage)
def list_tables(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Return a page of tables."""
    return page_of(service, "table", limit, offset)


@resource.post("", 409, status=201)
def create_table(service: Here, user: User, asked: NewTable, once: Once) -> Response:
    """Store a table of measurements."""
    return once("table", asked, lambda: keep(service, asked, user), 201)


@resource.action("/{id}", 404, back="/models", method="DELETE", status=200)
def delete_table(service: Here, id: Name) -> dict[str, Any]:
    """Delete a table."""
    return delete_item(service, "table", id)


def delete_item(service: Service, kind: str, name: str) -> dict[str, Any]:
    """Delete an item with its folder, and give what it was.

    Raises
    ------
    UserError
        If there is none.
    """
    item = service.items.get(kind, name)
    service.items.delete(kind, name)
    shutil.rmtree(folder_of(service.settings.data, kind, name), ignore_errors=True)
    return show_item(item)


def list_choices(service: Service) -> list[dict[str, str]]:
    """List the tables that a model can learn: uploaded ones, and those of campaigns that have ended."""
    found = [{"value": item.id, "words": item.name} for item in service.items.page("table", MOST)]
    for item in service.items.page("campaign", MOST):
        try:
            table_path(service.settings.data, f"campaign:{item.id}")
        except UserError:
            continue
        found.append({"value": f"campaign:{item.id}", "words": f"campaign {item.name} {item.id}"})
    return found


def keep(service: Service, asked: NewTable, user: Token) -> dict[str, Any]:
    """Keep an uploaded table after reading it.

    Raises
    ------
    UserError
        If it is not a table.
    """
    place = folder_of(service.settings.data, "table", checked_name(asked.name, "table"))
    part = place.with_name(f".{place.name}-{new_identifier()}")
    part.mkdir(mode=0o700, parents=True)
    try:
        (part / "table.csv").write_text(asked.csv, "utf-8", newline="")
        (part / "table.toml").write_text(asked.toml, "utf-8", newline="")
        try:
            document = bounded.ask("describe_table", path=str(part / "table"))
        except UserError as error:
            # The sender does not know the folder in which it was read.
            raise UserError(error.what.replace(str(part) + "/", ""), error.fix) from error
        if place.exists():
            raise Refused(409, f"there is a table '{asked.name}' already", "choose another name, or delete it")
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return show_item(service.items.put("table", asked.name, asked.name, user.name, document))
