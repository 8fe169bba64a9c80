"""Diagnoses of the service: a log is uploaded and read, what was found is kept."""

from __future__ import annotations

import contextlib
import functools
import shutil
from pathlib import Path
from typing import Any

from stripewise.diagnosis.diagnose import diagnose
from stripewise.diagnosis.opening import open_all
from stripewise.diagnosis.prediction import predict
from stripewise.errors import StripewiseError
from stripewise.measure.activity import Activity
from stripewise.server.models import model_path
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
    result = next(iter(open_all([path], 1)))
    if result.activity is None:
        raise StripewiseError(str(result.error))
    return result.activity


def prediction(service: Service, identifier: str, model: str) -> dict[str, Any]:
    """Say what a model of the service expects of a job; raises as :func:`activity`."""
    found = activity(service, identifier)
    return predict(found, log_path(service, identifier), model_path(service, model)).as_json()


def delete(service: Service, identifier: str) -> None:
    """Delete a diagnosis with its log."""
    item = service.items.get("diagnosis", identifier)
    service.items.delete("diagnosis", item.id)
    shutil.rmtree(folder_of(service.settings.data, "diagnosis", item.id), ignore_errors=True)
