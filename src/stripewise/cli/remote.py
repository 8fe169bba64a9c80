"""Commands whose experiments are those of a service: ``--server URL``, or the environment."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise.cli import hints
from stripewise.errors import UserError
from stripewise.store.base import Store
from stripewise.store.opening import open_store

if TYPE_CHECKING:
    from stripewise.cli.progress import Progress
    from stripewise.client.client import Client
    from stripewise.spec.experiment import Experiment


def server_of(store: str | None, server: str | None) -> str | None:
    """Say which service is meant, if any: what stands on the command line wins over the environment.

    Raises
    ------
    UserError
        If both a store and a service stand there.
    """
    if server is None or (hints.given("store") and not hints.given("server")):
        return None
    if hints.given("store"):
        raise UserError("both --store and --server are given", "leave one of them out: a service has its own store")
    return server


def open_experiments(store: str | None, server: str | None) -> Store:
    """Open a store, or the experiments of a service."""
    url = server_of(store, server)
    if url is None:
        return open_store(store)
    from stripewise.client.store import RemoteStore  # noqa: PLC0415  not needed without a service

    return RemoteStore(connect(url))


def connect(url: str) -> Client:
    """Get ready to speak to a service."""
    from stripewise.client.client import Client  # noqa: PLC0415

    return Client(url)


def start(url: str, experiment: Experiment, *, agreed: bool) -> str:
    """Hand an experiment to a service and give its identifier."""
    # A key makes it harmless to send the request again where the answer was lost.
    made = connect(url).create(
        experiment.model_dump(mode="json"), str(Path.cwd()), agreed=agreed, key=secrets.token_hex(16)
    )
    return str(made["id"])


def dry_run(url: str, experiment: Experiment) -> dict[str, Any]:
    """Ask a service what an experiment would do."""
    asked = {"definition": experiment.model_dump(mode="json"), "folder": str(Path.cwd())}
    document: dict[str, Any] = connect(url).post("/experiments/dry-run", asked)
    return document


def resume(url: str, identifier: str, *, agreed: bool) -> int:
    """Ask a service to go on with an experiment; gives the number of its last message."""
    client = connect(url)
    after, page = 0, [{"number": 0}]
    while page:
        page = client.get(f"/experiments/{identifier}/messages", after=after)["items"]
        after = page[-1]["number"] if page else after
    client.resume(identifier, agreed=agreed)
    return after


def follow(url: str, identifier: str, progress: Progress, after: int = 0) -> dict[str, Any]:
    """Show an experiment of a service as it runs, and give its result."""
    from stripewise.client.follow import Follower  # noqa: PLC0415
    from stripewise.tuning.events import Event  # noqa: PLC0415

    return Follower(connect(url), identifier, lambda kind, data: progress(Event(kind, data))).run(after)
