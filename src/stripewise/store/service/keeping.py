"""Messages of sessions, items (models, campaigns, diagnoses), answers to repeated requests, and the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from stripewise.errors import NotFound, StoreError, UserError
from stripewise.store import codec
from stripewise.store.schema import answers, audit, items, messages
from stripewise.store.transactions import Transactions

ANSWER_SECONDS = 24 * 3600.0
"""How long the answer to a request with an idempotency key is kept."""

MOST_MESSAGES = 1000
"""So many are given at a time."""

AUDIT_ROWS = 100_000
"""Older entries of the audit log are dropped above this number."""


@dataclass(frozen=True)
class Message:
    """Something that a session had to say.

    Attributes
    ----------
    number : int
        Larger than that of every earlier message.
    time : float
        Epoch seconds.
    """

    number: int
    experiment: str
    kind: str
    time: float
    data: dict[str, Any]


class Messages:
    """What sessions of workers have to say to those who watch."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    def add(self, experiment: str, kind: str, data: Mapping[str, Any]) -> None:
        """Keep a message."""
        text = codec.dump(dict(data))

        def work(connection: sa.Connection, again: bool) -> None:
            now = self._database.now(connection)
            connection.execute(messages.insert().values(experiment=experiment, time=now, kind=kind, data=text))

        self._database.write(work)

    def after(self, number: int, experiment: str | None = None, limit: int = MOST_MESSAGES) -> list[Message]:
        """Give the messages after a number, of one experiment or of all."""
        query = sa.select(messages).where(messages.c.number > number).order_by(messages.c.number).limit(limit)
        if experiment is not None:
            query = query.where(messages.c.experiment == experiment)
        return [_read_message(row) for row in self._database.all(query)]

    def last(self) -> int:
        """Give the number of the newest message, 0 if there is none."""
        query = sa.select(sa.func.max(messages.c.number))
        return self._database.read(lambda connection: connection.execute(query).scalar()) or 0


def _read_message(row: Any) -> Message:
    """Read a message; a damaged one becomes a note that says so, and hides no others."""
    what = f"message {row.number}"
    try:
        data = codec.load(row.data, what)
        if not isinstance(data, dict):
            raise codec.damaged(what)
    except StoreError as error:
        return Message(row.number, row.experiment, "note", row.time, {"text": error.what})
    return Message(row.number, row.experiment, row.kind, row.time, data)


@dataclass(frozen=True)
class Item:
    """A model, a campaign or a diagnosis.

    Attributes
    ----------
    created : float
        Epoch seconds.
    """

    kind: str
    id: str
    name: str
    owner: str
    created: float
    document: dict[str, Any]


class Items:
    """What was uploaded to the service, or made by it."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    def put(self, kind: str, identifier: str, name: str, owner: str, document: Mapping[str, Any]) -> Item:
        """Keep an item, in place of one of the same kind and identifier."""
        text = codec.dump(dict(document))

        def work(connection: sa.Connection, again: bool) -> float:
            now = self._database.now(connection)
            connection.execute(items.delete().where(items.c.kind == kind, items.c.id == identifier))
            values = {"kind": kind, "id": identifier, "name": name, "owner": owner, "created": now}
            connection.execute(items.insert().values(**values, document=text))
            return now

        return Item(kind, identifier, name, owner, self._database.write(work), dict(document))

    def get(self, kind: str, identifier: str) -> Item:
        """Give an item.

        Raises
        ------
        UserError
            If there is none.
        """
        query = sa.select(items).where(items.c.kind == kind, items.c.id == identifier)
        found = self._database.first(query)
        if found is None:
            raise NotFound(f"{kind} '{identifier[:64]}' does not exist", f"see the list of {kind}s")
        return _make_item(found)

    def page(self, kind: str, limit: int = 50, offset: int = 0) -> list[Item]:
        """Give a page of items, the newest first."""
        query = sa.select(items).where(items.c.kind == kind).order_by(items.c.created.desc(), items.c.id)
        return [_make_item(row) for row in self._database.all(query.limit(limit).offset(offset))]

    def count(self, kind: str) -> int:
        """Count the items of a kind."""
        query = sa.select(sa.func.count()).select_from(items).where(items.c.kind == kind)
        return self._database.read(lambda connection: connection.execute(query).scalar_one())

    def delete(self, kind: str, identifier: str) -> bool:
        """Delete an item; False if there was none."""
        return self._database.execute(items.delete().where(items.c.kind == kind, items.c.id == identifier)) > 0


def _make_item(row: sa.Row[Any]) -> Item:
    document = codec.load(row.document, f"{row.kind} {row.id}")
    return Item(row.kind, row.id, row.name, row.owner, row.created, document)


_LONGEST_REQUEST = 600.0
"""Seconds after which a request without an answer ended with its service."""


def _at_work(seconds: float = 0.0) -> UserError:
    if seconds > _LONGEST_REQUEST:
        return UserError(
            "the first request of this idempotency key ended without an answer",
            "look whether it did its work, then use a new key",
        )
    return UserError("the first request of this idempotency key is still at work", "try again in a moment")


class Answers:
    """Answers to requests with an idempotency key, so that a request that is sent again does nothing twice."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    def begin(self, key: str, digest: str) -> tuple[int, str] | None:
        """Reserve a key; gives the status and body of the answer if the same was asked before.

        Raises
        ------
        UserError
            If the key was used for another request, or the first one is still at work or ended without an answer.
        """

        def work(connection: sa.Connection, again: bool) -> tuple[int, str] | None:
            now = self._database.now(connection)
            connection.execute(answers.delete().where(answers.c.created < now - ANSWER_SECONDS))
            row = connection.execute(sa.select(answers).where(answers.c.key == key)).first()
            if row is None:
                values = {"key": key, "digest": digest, "created": now, "status": 0, "body": ""}
                try:
                    with connection.begin_nested():
                        connection.execute(answers.insert().values(**values))
                except sa.exc.IntegrityError:
                    raise _at_work() from None
                return None
            if row.digest != digest:
                raise UserError("the idempotency key was used for another request", "use a new key for each request")
            if row.status == 0:
                if again:
                    return None
                raise _at_work(now - row.created)
            return row.status, row.body

        return self._database.write(work)

    def end(self, key: str, status: int, body: str) -> None:
        """Keep the answer."""
        self._database.execute(answers.update().where(answers.c.key == key).values(status=status, body=body))

    def drop(self, key: str) -> None:
        """Give a key back after a request that did nothing."""
        self._database.execute(answers.delete().where(answers.c.key == key))


@dataclass(frozen=True)
class Entry:
    """An entry of the audit log.

    Attributes
    ----------
    time : float
        Epoch seconds.
    actor, role, address, action, subject : str
        Whose token, its role, where from, what was asked (method and path), and about what.
    status : int
        The answer's.
    """

    number: int
    time: float
    actor: str
    role: str
    address: str
    action: str
    subject: str
    status: int


class Audit:
    """Who has changed what, and who was refused."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    def add(self, actor: str, role: str, address: str, action: str, subject: str, status: int) -> None:
        """Add an entry."""
        values = {"actor": actor, "role": role, "address": address, "action": action[:500], "subject": subject[:200]}

        def work(connection: sa.Connection, again: bool) -> None:
            now = self._database.now(connection)
            connection.execute(audit.insert().values(time=now, status=status, **values))
            newest = connection.execute(sa.select(sa.func.max(audit.c.number))).scalar() or 0
            if newest % 1000 == 0:
                connection.execute(audit.delete().where(audit.c.number <= newest - AUDIT_ROWS))

        self._database.write(work)

    def page(self, limit: int = 50, offset: int = 0) -> list[Entry]:
        """Give a page, the newest first."""
        query = sa.select(audit).order_by(audit.c.number.desc()).limit(limit).offset(offset)
        return [Entry(**row._mapping) for row in self._database.all(query)]
