"""Tells listeners what workers here and elsewhere, and the command line, change in the store.

One look at the store serves all listeners. Times of commits may be out of order by the length of a transaction, so each
look goes back a little further than the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool

from stripewise.errors import StripewiseError
from stripewise.store.base import Store
from stripewise.store.codec import load
from stripewise.store.schema import experiments, runs, seen_state, trials
from stripewise.store.service.keeping import MOST_MESSAGES, Messages
from stripewise.store.service.tokens import Tokens
from stripewise.store.sql import SqlStore
from stripewise.store.transactions import Transactions

_BACK_SECONDS = 10.0
_ENDED = ("finished", "failed", "pruned")
_WAITING = 1000
_QUIET_SECONDS = 15.0
_BEHIND = 100

log = logging.getLogger("stripewise.desk.server")


@dataclass(frozen=True)
class Change:
    """A message to listeners.

    Attributes
    ----------
    event : str
        ``experiment``, ``run``, ``message``, ``deleted`` or ``lost`` (the listener was too slow: it must read anew).
    number : int
        Of a message, to go on after; 0 for others.
    """

    event: str
    experiment: str
    data: dict[str, Any]
    number: int = 0

    def text(self) -> str:
        """Write it as a server-sent event."""
        first = f"id: {self.number}\n" if self.number else ""
        return f"{first}event: {self.event}\ndata: {json.dumps(self.data)}\n\n"


@dataclass(eq=False)
class _Listener:
    experiment: str | None
    token: str
    session: str
    queue: asyncio.Queue[Change] = field(default_factory=lambda: asyncio.Queue(_WAITING))
    lost: bool = False
    ended: bool = False

    def end(self) -> None:
        """Let the stream end at once: the token or the session is over."""
        self.ended = True
        with contextlib.suppress(asyncio.QueueFull):
            self.queue.put_nowait(Change("", "", {}))

    def put(self, change: Change) -> None:
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            self.lost = True


class Hub:
    """Looks at the store and tells listeners.

    Parameters
    ----------
    database : Transactions
        That of the store.
    seconds : float
        Between two looks.
    most : int
        Listeners at a time.
    each : int
        Most of one token.
    """

    def __init__(
        self, store: Store, database: Transactions, messages: Messages, seconds: float, most: int, each: int = 20
    ) -> None:
        assert isinstance(store, SqlStore)
        self._store = store
        self._database = database
        self._messages = messages
        self._seconds = seconds
        self._tokens = Tokens(database)
        self._most = most
        self._each = each
        self._listeners: set[_Listener] = set()
        self._task: asyncio.Task[None] | None = None
        self._known: dict[str, tuple[Any, ...]] = {}
        self._runs: dict[str, dict[int, tuple[str, int]]] = {}
        self._heard_up_to: int | None = None
        self._heard: set[tuple[int, float]] = set()
        self._first = True
        # Looks and the beginnings of listeners come from threads of a pool.
        self._turn = threading.Lock()
        self._beginnings = asyncio.Lock()

    @property
    def listeners(self) -> int:
        """How many listen now."""
        return len(self._listeners)

    async def listen(
        self, experiment: str | None, after: int | None = None, token: str = "", session: str = ""
    ) -> AsyncIterator[str]:
        """Give events as text, from now on, for as long as the reader stays.

        Parameters
        ----------
        experiment : str or None
            Of one experiment, with its runs and messages; or of all, without these.
        after : int, optional
            Messages after this number come first.
        token : str, optional
            Identifier of the reader's; the events end when it is revoked or has expired.
        session : str, optional
            Identifier of the session that a browser has for it; the events end with it, too.
        """
        if self.full(token):
            # Others came in between.
            return
        listener = _Listener(experiment, token, session)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._first = True
            self._task = asyncio.create_task(self._work())
        try:
            said = 0
            if experiment is not None:
                # One after the other: those who begin together must not take all threads to wait for one another.
                async with self._beginnings:
                    changes = await run_in_threadpool(self._beginning, experiment, after)
                for change in changes:
                    said = max(said, change.number)
                    yield change.text()
            else:
                yield ": listening\n\n"
            while not listener.lost:
                try:
                    change = await asyncio.wait_for(listener.queue.get(), _QUIET_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if listener.ended:
                    return
                if not 0 < change.number <= said:
                    yield change.text()
            yield Change("lost", experiment or "", {}).text()
        finally:
            self._listeners.discard(listener)

    def full(self, token: str) -> bool:
        """Whether no more listeners are taken, at all or of one token."""
        return len(self._listeners) >= self._most or (bool(token) and self.count(token) >= self._each)

    def count(self, token: str) -> int:
        """How many listeners a token has."""
        return sum(listener.token == token for listener in self._listeners)

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    # -- looking -------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while self._listeners:
            try:
                for listener in await run_in_threadpool(self._over):
                    listener.end()
                changes = await run_in_threadpool(self._look)
            except StripewiseError as error:
                # The store is away: the listeners wait for it, as all others do.
                log.warning("events: %s", error)
                changes = []
            for change in changes:
                for listener in self._listeners:
                    if listener.experiment == change.experiment or (
                        listener.experiment is None and change.event in ("experiment", "deleted")
                    ):
                        listener.put(change)
            await asyncio.sleep(self._seconds)

    def _beginning(self, experiment: str, after: int | None) -> list[Change]:
        with self._turn:
            # From here on listeners hear of every change: a reader of the experiment after this misses none.
            if experiment not in self._runs:
                self._runs[experiment] = {}
                self._look_at_runs(experiment)
            self._begin_to_hear()
            rows = self._database.read(lambda connection: self._states(connection, experiments.c.id == experiment))
            for row in rows:
                self._known.setdefault(row.id, _key_row(row))
            found = [_describe_change(row) for row in rows]
            if after is not None:
                found += [_read_message(message) for message in self._messages.after(after, experiment)]
            return found

    def _states(self, connection: sa.Connection, where: sa.ColumnElement[bool]) -> list[sa.Row[Any]]:
        live = self._store.live(connection)
        columns = [experiments.c[name] for name in ("id", "name", "updated", "trials", "runs", "ended", "owner")]
        return list(connection.execute(sa.select(*columns, seen_state(live).label("state")).where(where)))

    def _over(self) -> list[_Listener]:
        """Listeners whose token was revoked, or whose token or session has ended since they came."""
        allowed = {listener: {listener.token, listener.session} - {""} for listener in list(self._listeners)}
        named = set().union(*allowed.values())
        valid = self._tokens.valid(named) if named else set()
        return [listener for listener, names in allowed.items() if not names <= valid]

    def _look(self) -> list[Change]:
        with self._turn:
            return self._changes({one.experiment for one in list(self._listeners) if one.experiment is not None})

    def _changes(self, wanted: set[str]) -> list[Change]:
        first, self._first = self._first, False
        changes: list[Change] = []
        rows = self._database.read(self._recent)
        touched = set()
        for row in rows:
            seen = _key_row(row)
            before = self._known.get(row.id)
            self._known[row.id] = seen
            if before == seen:
                continue
            touched.add(row.id)
            if not first or before is not None:
                changes.append(_describe_change(row))
        gone = set(self._runs) - wanted
        for identifier in gone:
            del self._runs[identifier]
        for identifier in wanted:
            if identifier not in self._runs:
                self._runs[identifier] = {}
                self._look_at_runs(identifier)
            elif identifier in touched:
                changes += self._look_at_runs(identifier)
        changes += self._new_messages()
        # Experiments that have not changed for long are forgotten.
        if len(self._known) > 5000:
            self._known = {row.id: self._known[row.id] for row in rows}
        return changes

    def _recent(self, connection: sa.Connection) -> list[sa.Row[Any]]:
        since = self._database.now(connection) - _BACK_SECONDS
        # What claims to run is looked at each time: its owner may have died, which writes nothing.
        return self._states(connection, sa.or_(experiments.c.updated >= since, experiments.c.state == "running"))

    def _look_at_runs(self, identifier: str) -> list[Change]:
        known = self._runs[identifier]
        open_ones = [number for number, (state, _) in known.items() if state not in _ENDED]
        newest = max(known, default=-1)
        columns = [column for column in runs.c if column.name not in ("experiment", "token", "facts")]
        query = (
            sa.select(*columns, trials.c.role, trials.c.configuration)
            .join(trials, sa.and_(trials.c.experiment == runs.c.experiment, trials.c.number == runs.c.trial))
            .where(runs.c.experiment == identifier)
            .where(sa.or_(runs.c.number > newest, runs.c.number.in_(open_ones)))
            .order_by(runs.c.number)
        )
        changes = []
        for row in self._database.all(query):
            if known.get(row.number, ("", 0))[0] != row.state:
                known[row.number] = (row.state, row.trial)
                try:
                    configuration = load(row.configuration, f"trial {row.trial}")
                except StripewiseError as error:
                    # Its page says so; the changes of all others are still told.
                    log.warning("events of %s: %s", identifier, error)
                    continue
                changes.append(Change("run", identifier, {**row._mapping, "configuration": configuration}))
        return changes

    def _begin_to_hear(self) -> None:
        if self._heard_up_to is None:
            self._heard_up_to = max(0, self._messages.last() - _BEHIND)
            self._heard = {(one.number, one.time) for one in self._messages.after(self._heard_up_to)}

    def _new_messages(self) -> list[Change]:
        """Find what was said since. Numbers are given before commits, so a lower one may come after a higher one.

        SQLite gives the numbers of messages again that went with their experiment.
        """
        self._begin_to_hear()
        assert self._heard_up_to is not None
        self._heard_up_to = min(self._heard_up_to, self._messages.last())
        found = self._messages.after(self._heard_up_to)
        fresh = [message for message in found if (message.number, message.time) not in self._heard]
        self._heard.update((message.number, message.time) for message in fresh)
        if found:
            past = max(message.time for message in found) - _BACK_SECONDS
            many = len(found) >= MOST_MESSAGES
            settled = [message.number for message in found if many or message.time < past]
            self._heard_up_to = max(settled, default=self._heard_up_to)
            self._heard = {(number, when) for number, when in self._heard if number > self._heard_up_to}
        return [_read_message(message) for message in fresh]

    def tell_deleted(self, identifier: str) -> None:
        """Tell listeners at once that an experiment is gone; to be called from the loop."""
        self._known.pop(identifier, None)
        for listener in self._listeners:
            if listener.experiment in (None, identifier):
                listener.put(Change("deleted", identifier, {"id": identifier}))


def _key_row(row: sa.Row[Any]) -> tuple[Any, ...]:
    return (row.state, row.updated, row.runs, row.ended)


def _describe_change(row: sa.Row[Any]) -> Change:
    return Change("experiment", row.id, dict(row._mapping))


def _read_message(message: Any) -> Change:
    data = {"number": message.number, "kind": message.kind, "time": message.time, "data": message.data}
    return Change("message", message.experiment, data, message.number)
