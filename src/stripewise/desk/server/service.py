"""How a service is set up, and what every request works with: the store and what is kept beside it."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from stripewise.desk.server.hub import Hub
from stripewise.errors import StoreError
from stripewise.store.base import Record, Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import Jobs
from stripewise.store.service.keeping import Answers, Audit, Items, Messages
from stripewise.store.service.tokens import LoginSession, Token, Tokens

T = TypeVar("T")
MIB = 1 << 20
BASE_PATH = r"^(/[A-Za-z0-9._~%-]+)*$"
"""What a path that stands before all addresses may look like."""
_TICKET_SECONDS = 600.0
_READINGS = 16
_LINES = 2000

log = logging.getLogger("stripewise.desk.server")


def tell_unreadable(error: StoreError) -> None:
    """Log why a list leaves an experiment out."""
    log.warning("%s", error)


def version(record: Record) -> tuple[Hashable, ...]:
    """Give what differs as soon as anything that pages show of an experiment differs."""
    return (record.id, record.updated, record.state, record.trials, record.runs, record.ended)


@dataclass
class _Entry(Generic[T]):
    turn: threading.Lock = field(default_factory=threading.Lock)
    made: list[T] = field(default_factory=list)


class Remembered(Generic[T]):
    """The latest of what was made, by key.

    Parameters
    ----------
    most : int
        Kept at a time; those that were not asked for the longest go first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()

    def known(self, key: Hashable) -> T | None:
        """Give what belongs to a key if it is made already."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or not entry.made:
                return None
            self._entries.move_to_end(key)
            return entry.made[0]

    def keep(self, key: Hashable, made: T) -> None:
        """Keep what was made for a key, unless there is something already."""
        self.get(key, lambda: made)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Give what belongs to a key; what is being made for one is waited for by the others."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)
        with entry.turn:
            if not entry.made:
                entry.made.append(make())
            return entry.made[0]


class Tickets:
    """Texts that log in once each, within ten minutes; only this process knows them."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Token, float]] = {}

    def add(self, token: Token) -> str:
        """Make a text that begins a session of a token."""
        text = secrets.token_urlsafe(32)
        self._open[text] = (token, time.monotonic() + _TICKET_SECONDS)
        return text

    def use(self, text: str) -> Token | None:
        """Give the token of a text that has not been used, and forget the text."""
        token, until = self._open.pop(text, (None, 0.0))
        return token if time.monotonic() < until else None


class Settings(BaseModel):
    """All that can be set.

    Everything has a default that is safe for one user on a login node.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str | None = Field(default=None, description="address of the store; the default store if null")
    data: Path = Field(description="folder for uploads, models and campaigns")
    roots: tuple[Path, ...] = Field(
        default=(),
        description="folders in which programs may be started and files named; the data folder is always one",
    )
    allow: tuple[str, ...] | None = Field(
        default=None, description="the only commands that may be started, as patterns; any command if null"
    )
    body_bytes: Annotated[int, Field(ge=1024)] = Field(default=MIB, description="largest body of a request")
    upload_bytes: Annotated[int, Field(ge=1024)] = Field(default=256 * MIB, description="largest uploaded file")
    body_seconds: Annotated[float, Field(gt=0)] = Field(
        default=20.0, description="longest that a body may take, and an upload for each 10 MiB"
    )
    requests_a_second: Annotated[float, Field(gt=0)] = Field(default=50.0, description="of one token or session")
    burst: Annotated[int, Field(ge=1)] = Field(default=200, description="requests at once, beyond that rate")
    failures_a_minute: Annotated[int, Field(ge=1)] = Field(
        default=30, description="requests with a wrong token or none, from one address, before it has to wait"
    )
    listeners: Annotated[int, Field(ge=1)] = Field(default=500, description="open event streams")
    streams: Annotated[int, Field(ge=1)] = Field(default=20, description="open event streams of one token")
    poll_seconds: Annotated[float, Field(gt=0)] = Field(default=0.3, description="how often the store is looked at")
    secure_cookies: bool = Field(default=False, description="behind TLS: cookies are sent over it only")
    proxies: tuple[str, ...] = Field(
        default=(), description="addresses and networks of the proxies whose X-Forwarded-For is believed, or socket"
    )
    base_path: Annotated[str, Field(pattern=BASE_PATH)] = Field(
        default="", description="path under which a proxy shows the service, as in /node/n1/8437"
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="names under which the service is reached, besides localhost; for TCP"
    )

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders in which paths of requests must lie, without links."""
        return tuple(folder.resolve() for folder in (*self.roots, self.data))


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
    tickets : Tickets
        Addresses that log in once.
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
    tickets: Tickets = field(default_factory=Tickets)
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
            Hub(opened, database, messages, settings.poll_seconds, settings.listeners, settings.streams),
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
Session = Annotated[LoginSession | None, Depends(get_session)]
