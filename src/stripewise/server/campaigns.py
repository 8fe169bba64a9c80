"""Campaigns of the service: kept as their file, made by workers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.profiling.book import collect
from stripewise.server.models import shown
from stripewise.server.places import folder_of
from stripewise.server.policy import check_campaign, confined
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.server.uploads import new_identifier
from stripewise.spec.campaign import parse_campaign
from stripewise.spec.campaign_points import Points
from stripewise.store.service.tokens import Token


def create(service: Service, text: str, user: Token, *, start: bool = True) -> dict[str, Any]:
    """Keep a campaign, and hand it to the workers.

    Raises
    ------
    UserError
        If something in its file is wrong.
    Refused
        If the service does not allow it.
    """
    _check_stacks(service, text)
    campaign = parse_campaign(text, "campaign")
    check_campaign(campaign, service.settings)
    possible = len(Points(campaign).all)
    identifier = new_identifier()
    place = folder_of(service.settings.data, "campaign", identifier)
    place.mkdir(mode=0o700, parents=True)
    (place / "campaign.toml").write_text(text, "utf-8")
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
    for stack in stacks if isinstance(stacks, list) else [stacks]:
        if "/" in str(stack) or str(stack).endswith(".toml"):
            confined(Path(str(stack)), service.settings, "stack")
