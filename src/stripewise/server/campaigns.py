"""Campaigns of the service: kept as their file, made by workers."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stripewise.errors import UserError
from stripewise.profiling.book import collect
from stripewise.server.models import shown
from stripewise.server.places import campaign_in, folder_of
from stripewise.server.policy import check_campaign, confined, files_of
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.server.uploads import new_identifier
from stripewise.spec.campaign import Campaign, changed_campaign, parse_campaign
from stripewise.spec.campaign_points import Points
from stripewise.store.service.tokens import Token

_MOST = 10_000
"""Campaigns that are looked through for the same one."""


class Changes(BaseModel):
    """Keys of a campaign's file to be put in place of its own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"runner": "sim:kay", "repeats": 3}]})
    folder: str | None = Field(default=None, max_length=4096, description="[files] folder")
    runner: str | None = Field(default=None, max_length=4096)
    repeats: int | None = Field(default=None, ge=1, le=10_000)
    seed: int | None = Field(default=None, ge=0, lt=2**63)

    @property
    def keys(self) -> dict[str, Any]:
        """What is replaced, as the campaign calls it."""
        given = self.model_dump(exclude_none=True)
        return {"files.folder" if name == "folder" else name: value for name, value in given.items()}


def checked(service: Service, text: str, changes: Changes) -> Campaign:
    """Read a campaign.

    Raises
    ------
    UserError
        If something in its file is wrong.
    Refused
        If the service does not allow it.
    """
    _check_stacks(service, text)
    campaign = changed_campaign(parse_campaign(text, "campaign"), changes.keys.items(), "campaign")
    check_campaign(campaign, service.settings)
    return campaign


def keep(place: Path, text: str, changes: Changes) -> None:
    """Write what :func:`~stripewise.server.places.campaign_in` reads."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "campaign.toml").write_text(text, "utf-8")
    (place / "changes.json").write_text(json.dumps(changes.keys), "utf-8")


def create(
    service: Service, text: str, user: Token, changes: Changes | None = None, *, start: bool = True
) -> dict[str, Any]:
    """Keep a campaign, and hand it to the workers; raises as :func:`checked`."""
    changes = changes or Changes()
    campaign = checked(service, text, changes)
    possible = len(Points(campaign).all)
    identifier = new_identifier()
    keep(folder_of(service.settings.data, "campaign", identifier), text, changes)
    document = {
        "campaign": campaign.name,
        "digest": campaign.digest,
        "runner": campaign.runner,
        "design": campaign.design.kind,
        "combinations": possible,
    }
    service.items.put("campaign", identifier, campaign.name, user.name, document)
    if start:
        service.jobs.submit("campaign", identifier, user.name)
    return show(service, identifier)


def go_on(service: Service, text: str, user: Token, changes: Changes, *, retry: bool = False) -> dict[str, Any]:
    """Go on with the same campaign of the same user where there is one, or begin it; raises as :func:`checked`."""
    digest = checked(service, text, changes).digest
    for item in service.items.page("campaign", _MOST):
        if item.owner == user.name and item.document.get("digest") == digest:
            job = service.jobs.of(item.id)
            if job is None or job.state in ("failed", "stopped") or (job.state == "done" and retry):
                service.jobs.submit("campaign", item.id, user.name, {"retry": retry})
            return show(service, item.id)
    return create(service, text, user, changes)


def show(service: Service, identifier: str) -> dict[str, Any]:
    """Give a campaign with where it stands and, once it has ended, its summary."""
    item = service.items.get("campaign", identifier)
    job = service.jobs.of(identifier)
    ended = 0
    journal = folder_of(service.settings.data, "campaign", identifier) / "journal"
    if journal.exists():
        try:
            ended = sum(run.state.ended for run in collect([journal]).runs.values())
        except UserError:
            # It was made a moment ago, and holds nothing yet.
            ended = 0
    return {
        **shown(item),
        "state": job.state if job else "created",
        "ended": ended,
        "error": job.error if job else "",
        "result": job.result if job else None,
    }


def start(service: Service, identifier: str, user: Token) -> dict[str, Any]:
    """Hand a campaign to the workers, for the first time or to go on."""
    item = service.items.get("campaign", identifier)
    job = service.jobs.of(item.id)
    if job is not None and job.state in ("running", "done"):
        raise Refused(409, f"campaign {item.id} is {job.state}", "there is nothing to start")
    # The rules may have become stricter since it was sent.
    check_campaign(campaign_in(folder_of(service.settings.data, "campaign", item.id)), service.settings)
    service.jobs.submit("campaign", item.id, user.name)
    return show(service, item.id)


def stop(service: Service, identifier: str) -> dict[str, Any]:
    """Ask a campaign to stop; it can be started again and goes on."""
    item = service.items.get("campaign", identifier)
    if not service.jobs.stop(item.id):
        raise Refused(409, f"campaign {item.id} neither runs nor waits", "there is nothing to stop")
    return show(service, item.id)


def _check_stacks(service: Service, text: str) -> None:
    """Confine stack files before reading the campaign reads them."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"the campaign is no TOML: {error}", "mend the line it names") from error
    stacks = document.get("stacks", [])
    for stack in files_of([str(stack) for stack in (stacks if isinstance(stacks, list) else [stacks])]):
        confined(Path(stack), service.settings, "stack")
