"""How a service is set up, and what every request works with: the store and what is kept beside it.

Limits on connections before a request is known, and whose they are where a proxy stands before the service.

Strangers may neither hold connections open nor take all of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field
from uvicorn.protocols.http.h11_impl import H11Protocol

from stripewise.desk.desk import Unattended
from stripewise.desk.local import LocalDesk
from stripewise.desk.server.hub import Hub
from stripewise.errors import StoreError, UserError
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
    store : Store
        Experiments with their trials and runs.
    tokens, jobs, messages, items, answers, audit
        What is kept beside them.
    hub : Hub
        Tells listeners what changes.
    tickets : Tickets
        Addresses that log in once.
    readings, figures, extremes, attempts : Remembered
        Histories as pages show them, their figures, and what lists say of them, kept until they change.
    desk : LocalDesk
        What a request asks that is answered at once.
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
    attempts: Remembered[Any] = field(default_factory=lambda: Remembered(_LINES))
    desk: LocalDesk = field(default_factory=lambda: LocalDesk(None, Unattended()))

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


SOCKET = "socket"
"""The peer of every connection to a UNIX socket."""
EACH = 500
"""Connections that one peer may have open, and requests that it may have under way through a proxy."""

_READ_BYTES = 1 << 14
_LOOPBACKS = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


class Proxies:
    """The proxies that are believed when they say whose request they pass on.

    Parameters
    ----------
    named : iterable of str
        Addresses and networks; ``socket`` for all that can connect to the service's UNIX socket.

    Raises
    ------
    UserError
        If one is neither.
    """

    def __init__(self, named: Iterable[str]) -> None:
        named = set(named)
        self._socket = SOCKET in named
        try:
            self._networks = tuple(ipaddress.ip_network(one) for one in named - {SOCKET})
        except ValueError as error:
            raise UserError(
                f"--proxy: {error}", "write an address or a network, as in 10.1.2.3 or 10.1.2.0/28, or socket"
            ) from None

    @property
    def local(self) -> bool:
        """Whether an address is among them that every user of this machine can use."""
        return any(one.version == own.version and one.overlaps(own) for one in self._networks for own in _LOOPBACKS)

    def __contains__(self, address: str) -> bool:
        if address == SOCKET:
            return self._socket
        try:
            found = _address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def client(self, peer: str, forwarded: Sequence[str]) -> str:
        """Give the address of who asks.

        Parameters
        ----------
        peer : str
            Whose connection it is.
        forwarded : sequence of str
            The request's headers ``X-Forwarded-For``. Each proxy appends the address that it was asked from, so what
            stands before the last address that is no proxy was written by the client, and does not count.
        """
        hops = [hop.strip() for header in forwarded for hop in header.split(",")]
        while hops and peer in self:
            try:
                peer = str(_address(hops.pop()))
            except ValueError:
                break
        return peer


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text)
    return (isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped) or found


def peer_of(address: str) -> str:
    """Give whose limits hold for an address.

    Everybody on this machine can ask from any address of its loopback, and whoever has one address of IPv6 has 2**64.
    """
    try:
        found = _address(address)
    except ValueError:
        return address
    if found.is_loopback:
        return "loopback"
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


def limited(seconds: float, each: int, proxies: Proxies) -> type[H11Protocol]:
    """Make the protocol of connections.

    Parameters
    ----------
    seconds : float
        How long the line and the headers of a request may take to come, from the beginning of the connection or the
        end of the request before. After three times as long in which a client takes next to nothing of an answer or
        of an event stream, the connection ends as well.
    each : int
        Connections that one peer may have open; the UNIX socket, which only its owner can reach, has no such limit,
        nor has a proxy. One more takes the place of the one that has waited longest for its client: for a request, for
        the next part of a body, or for the client to read.
    """
    open_of: Counter[str] = Counter()
    held: defaultdict[str, dict[Limited, None]] = defaultdict(dict)

    class Limited(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None
        _peer = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # All chunks of what is read at once are taken apart before anybody else is answered.
            transport.max_size = _READ_BYTES
            peer = self.client[0] if self.client else ""
            self._peer = "" if peer in proxies else peer_of(peer)
            open_of[self._peer] += 1
            self._watch()
            if self._peer and open_of[self._peer] > each:
                longest = next(iter(held[self._peer]))
                del held[self._peer][longest]
                longest.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(3 * seconds, self.transport.abort)
            held[self._peer][self] = None

        def resume_writing(self) -> None:
            super().resume_writing()
            self._go_on()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            self._go_on()
            open_of[self._peer] -= 1
            if not open_of[self._peer]:
                del open_of[self._peer]
                held.pop(self._peer, None)
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Wait for a request, or no longer once one is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_watching()
                if self.cycle.more_body:
                    # The guard limits the time of a body; strangers may send one to the login.
                    held[self._peer][self] = None
            elif self._late is None and not self.transport.is_closing():
                self._late = self.loop.call_later(seconds, self.transport.abort)
                held[self._peer][self] = None

        def _stop_watching(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None
            self._free()

        def _go_on(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
                self._stalled = None
            self._free()

        def _free(self) -> None:
            """Leave this connection alone when others come, unless it still waits for its client."""
            if self._late is None and self._stalled is None:
                held[self._peer].pop(self, None)

    return Limited
