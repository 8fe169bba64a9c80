"""Diagnoses of the service: a log is uploaded and read, what was found is kept."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from stripewise.diagnosis.diagnose import diagnose
from stripewise.diagnosis.opening import open_all
from stripewise.server.places import folder_of
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.server.uploads import new_identifier
from stripewise.store.service.tokens import Token

_SUFFIXES = (".darshan", ".json", ".txt", ".out", ".log")


def keep(service: Service, upload: Path, name: str, user: Token) -> dict[str, Any]:
    """Read an uploaded log, and keep it with what was found.

    Raises
    ------
    Refused
        If it cannot be read.
    """
    identifier = new_identifier()
    place = folder_of(service.settings.data, "diagnosis", identifier)
    place.mkdir(mode=0o700, parents=True)
    suffix = next((one for one in _SUFFIXES if name.lower().endswith(one)), ".darshan")
    path = place / f"log{suffix}"
    try:
        upload.rename(path)
        result = next(iter(open_all([path], 1)))
        if result.activity is None:
            said = str(result.error).replace(str(path), "the upload").partition("; ")
            raise Refused(422, said[0], said[2])
        found = diagnose(result.activity)
        document = {**found.as_json(), "source": name, "plan": found.plan(), "file": path.name}
        service.items.put("diagnosis", identifier, name, user.name, document)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    finally:
        with contextlib.suppress(OSError):
            upload.unlink()
    return show(service, identifier)


def show(service: Service, identifier: str) -> dict[str, Any]:
    """Give a diagnosis."""
    item = service.items.get("diagnosis", identifier)
    head = {"id": item.id, "name": item.name, "owner": item.owner, "created": item.created}
    return {**head, "diagnosis": {key: value for key, value in item.document.items() if key != "file"}}


def log_path(service: Service, identifier: str) -> Path:
    """Give the file of an uploaded log."""
    item = service.items.get("diagnosis", identifier)
    return folder_of(service.settings.data, "diagnosis", item.id) / str(item.document["file"])


def delete(service: Service, identifier: str) -> None:
    """Delete a diagnosis with its log."""
    item = service.items.get("diagnosis", identifier)
    service.items.delete("diagnosis", item.id)
    shutil.rmtree(folder_of(service.settings.data, "diagnosis", item.id), ignore_errors=True)
