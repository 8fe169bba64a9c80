"""What every request works with: the store and what is kept beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from stripewise.server.hub import Hub
from stripewise.server.remembered import Remembered
from stripewise.server.settings import Settings
from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import Jobs
from stripewise.store.service.keeping import Answers, Audit, Items, Messages
from stripewise.store.service.tokens import LoginSession, Token, Tokens

_READINGS = 16
_LINES = 2000


@dataclass(frozen=True)
class Service:
    """The parts of a service.

    Attributes
    ----------
    settings : Settings
    store : Store
        Experiments with their trials and runs.
    tokens, jobs, messages, items, answers, audit
        What is kept beside them.
    hub : Hub
        Tells listeners what changes.
    readings, figures, extremes : Remembered
        Histories as pages show them, their figures, and what lists say of them, kept until they change.
    """

    settings: Settings
    store: Store
    tokens: Tokens
    jobs: Jobs
    messages: Messages
    items: Items
    answers: Answers
    audit: Audit
    hub: Hub
    readings: Remembered[Any] = field(default_factory=lambda: Remembered(_READINGS))
    figures: Remembered[str] = field(default_factory=lambda: Remembered(_READINGS))
    extremes: Remembered[dict[str, Any]] = field(default_factory=lambda: Remembered(_LINES))

    @classmethod
    def open(cls, settings: Settings, store: Store | None = None) -> Service:
        """Open the store and all that is beside it.

        Raises
        ------
        UserError
            If the store is a journal.
        StoreError
            If it cannot be opened.
        """
        opened = store or open_store(settings.store)
        database = database_of(opened)
        messages = Messages(database)
        return cls(
            settings,
            opened,
            Tokens(database),
            Jobs(database),
            messages,
            Items(database),
            Answers(database),
            Audit(database),
            Hub(opened, database, messages, settings.poll_seconds, settings.listeners),
        )


def get_service(request: Request) -> Service:
    """Give the service of a request."""
    service: Service = request.app.state.service
    return service


def get_user(request: Request) -> Token:
    """Give who asks; the guard has let nobody else through."""
    user: Token = request.state.user
    return user


def get_session(request: Request) -> LoginSession | None:
    """Give the session of a browser; None where a bearer token was sent."""
    session: LoginSession | None = getattr(request.state, "session", None)
    return session


Here = Annotated[Service, Depends(get_service)]
User = Annotated[Token, Depends(get_user)]
