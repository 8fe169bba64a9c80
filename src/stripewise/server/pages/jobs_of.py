"""Where a job of a worker stands, in words."""

from __future__ import annotations

from typing import Any

from stripewise.server.service import Service
from stripewise.store.service.jobs import Job

WORDS = {"done": "finished", "created": "created"}


def standing(service: Service, subject: str) -> dict[str, Any]:
    """Say where the work on something stands: ``state``, ``error``, and whether it may still change."""
    job: Job | None = service.jobs.of(subject)
    if job is None:
        return {"state": "created", "error": "", "open": False}
    return {"state": WORDS.get(job.state, job.state), "error": job.error, "open": job.state in ("queued", "running")}
