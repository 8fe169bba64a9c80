"""Evaluations of the service: a campaign's test cases against what a model prescribes for them, made by workers."""

from __future__ import annotations

import hashlib
import json

from stripewise.server.campaigns import Changes, checked, keep
from stripewise.server.models import model_path
from stripewise.server.places import folder_of
from stripewise.server.service import Service
from stripewise.store.service.jobs import Job
from stripewise.store.service.tokens import Token


def start(
    service: Service, text: str, changes: Changes, model: str, user: Token, *, eager: bool = False, retry: bool = False
) -> Job:
    """Ask a worker for an evaluation, or to go on with the same one of the same user.

    Raises
    ------
    UserError
        If something in the campaign is wrong, or there is no such model.
    Refused
        If the service does not allow it.
    """
    checked(service, text, changes)
    model_path(service, model)
    asked = json.dumps([user.name, text, changes.model_dump(), model, eager])
    subject = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    job = service.jobs.of(subject)
    if job is not None and job.state in ("queued", "running"):
        return job
    keep(folder_of(service.settings.data, "evaluation", subject), text, changes)
    return service.jobs.submit("evaluation", subject, user.name, {"model": model, "eager": eager, "retry": retry})
