"""Models and tables of the service: uploaded, or made by its workers."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.model.registry import load_model, make_model
from stripewise.model.table import read_table
from stripewise.server.places import folder_of, table_path
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.server.uploads import checked_name, new_identifier
from stripewise.store.service.jobs import Job
from stripewise.store.service.keeping import Item
from stripewise.store.service.tokens import Token


def shown(item: Item) -> dict[str, Any]:
    """Give an item as REST has it."""
    return {"id": item.id, "name": item.name, "owner": item.owner, "created": item.created, **item.document}


def keep_table(service: Service, name: str, csv: str, toml: str, user: Token) -> dict[str, Any]:
    """Keep an uploaded table after reading it.

    Raises
    ------
    UserError
        If it is none.
    """
    place = folder_of(service.settings.data, "table", checked_name(name, "table"))
    part = place.with_name(f".{place.name}-{new_identifier()}")
    part.mkdir(mode=0o700, parents=True)
    try:
        (part / "table.csv").write_text(csv, "utf-8", newline="")
        (part / "table.toml").write_text(toml, "utf-8", newline="")
        try:
            table = read_table(part / "table")
        except UserError as error:
            # The place where it was read means nothing to who sent it.
            raise UserError(error.what.replace(str(part) + "/", ""), error.mend) from error
        if place.exists():
            raise Refused(409, f"there is a table '{name}' already", "choose another name, or delete it")
        part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    objective = table.objective
    document = {
        "rows": len(table),
        "columns": [column.name for column in table.schema.columns],
        "objective": {"name": objective.name, "direction": objective.direction, "unit": objective.unit},
    }
    return shown(service.items.put("table", name, name, user.name, document))


def keep_model(service: Service, name: str, upload: Path, user: Token) -> dict[str, Any]:
    """Keep an uploaded model after reading it.

    Raises
    ------
    UserError
        If it is none.
    """
    try:
        place = folder_of(service.settings.data, "model", checked_name(name, "model"))
        try:
            model = load_model(upload)
        except UserError as error:
            raise UserError(error.what.replace(str(upload), "the upload"), error.mend) from error
        _refuse_second(service, name)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        upload.rename(place / "model")
    finally:
        with contextlib.suppress(OSError):
            upload.unlink()
    return shown(service.items.put("model", name, name, user.name, {"kind": model.name, "table": "", "rows": None}))


def model_path(service: Service, name: str) -> Path:
    """Give the file of a model.

    Raises
    ------
    UserError
        If there is none.
    """
    service.items.get("model", name)
    return folder_of(service.settings.data, "model", name) / "model"


def delete(service: Service, kind: str, name: str) -> dict[str, Any]:
    """Delete a model or a table.

    Raises
    ------
    UserError
        If there is none.
    """
    item = service.items.get(kind, name)
    service.items.delete(kind, name)
    shutil.rmtree(folder_of(service.settings.data, kind, name), ignore_errors=True)
    return shown(item)


def train(service: Service, name: str, request: Mapping[str, Any], user: Token, *, replace: bool = False) -> Job:
    """Ask a worker to learn a model; ``replace``: in place of the user's own of this name, once it is learned.

    Raises
    ------
    UserError
        If the table or the kind of model does not exist, or an option is wrong.
    """
    checked_name(name, "model")
    _refuse_second(service, name, user.name if replace else None)
    make_model(request["model"], request["options"])
    table_path(service.settings.data, request["table"])
    return service.jobs.submit("training", name, user.name, {"name": name, **request})


def validate(service: Service, request: Mapping[str, Any], user: Token) -> Job:
    """Ask a worker to judge a kind of model on a table; raises as :func:`train`."""
    make_model(request["model"], request["options"])
    table_path(service.settings.data, request["table"])
    return service.jobs.submit("validation", new_identifier(), user.name, request)


def _refuse_second(service: Service, name: str, but_of: str | None = None) -> None:
    try:
        if service.items.get("model", name).owner == but_of:
            return
    except UserError:
        return
    raise Refused(409, f"there is a model '{name}' already", "choose another name, or delete it")
