"""Listeners miss nothing: neither what happens while they begin, nor what is committed out of order."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from stripewise.desk.server.hub import Change, Hub
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.keeping import Message, Messages
from stripewise.store.service.tokens import Tokens
from stripewise.testing.stores import run_of, trial_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "s.db")) as opened:
        yield opened


@pytest.fixture
def messages(store: Store) -> Messages:
    return Messages(database_of(store))


@pytest.fixture
def hub(store: Store, messages: Messages) -> Hub:
    return Hub(store, database_of(store), messages, 0.01, 10)


def experiment(store: Store) -> str:
    return store.create(Experiment(name="a", command=["/bin/true"], stacks=["romio"]), {})


async def heard(stream: AsyncIterator[str], until: str) -> list[tuple[str, dict[str, Any]]]:
    """Events of a stream up to the first of a kind."""
    found: list[tuple[str, dict[str, Any]]] = []
    while not found or found[-1][0] != until:
        text = await asyncio.wait_for(anext(stream), 20.0)
        fields = dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_what_happens_between_a_listeners_beginning_and_the_first_look_is_told(
    store: Store, messages: Messages, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = experiment(store)
    may_look = threading.Event()
    look = hub._look

    def late() -> list[Change]:
        assert may_look.wait(20.0)
        return look()

    monkeypatch.setattr(hub, "_look", late)

    async def listen() -> None:
        stream = hub.listen(identifier, after=0)
        assert [(name, data["state"]) for name, data in await heard(stream, "experiment")] == [
            ("experiment", "created")
        ]
        claim = store.claim(identifier, "me")
        store.update(identifier, claim=claim, state="failed")
        store.release(claim)
        messages.add(identifier, "failed", {"what": "x"})
        may_look.set()
        told = await heard(stream, "message")
        assert ("experiment", "failed") in [(name, data.get("state")) for name, data in told]
        assert told[-1][1]["data"] == {"what": "x"}
        await hub.close()

    asyncio.run(listen())


def test_a_message_that_is_committed_after_one_with_a_higher_number_is_told_once(
    hub: Hub, messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Message] = []

    def after(number: int) -> list[Message]:
        return sorted((one for one in seen if one.number > number), key=lambda one: one.number)

    monkeypatch.setattr(messages, "last", lambda: max((one.number for one in seen), default=0))
    monkeypatch.setattr(messages, "after", after)
    assert hub._new_messages() == []
    told = []
    for number, time in ((2, 100.0), (1, 99.9), (4, 130.0), (3, 129.0), (5, 150.0)):
        seen.append(Message(number, "a", "note", time, {}))
        told += [change.number for change in hub._new_messages()]
    assert told == [2, 1, 4, 3, 5]
    assert hub._new_messages() == []


def test_messages_are_told_that_have_the_numbers_of_deleted_ones(store: Store, messages: Messages, hub: Hub) -> None:
    first, second = experiment(store), experiment(store)
    for _ in range(3):
        messages.add(first, "note", {"text": "of the deleted one"})

    async def listen() -> None:
        stream = hub.listen(second)
        await heard(stream, "experiment")
        store.delete(first)
        messages.add(second, "failed", {"what": "x"})
        told = await asyncio.wait_for(heard(stream, "message"), 10.0)
        assert told[-1][1]["data"] == {"what": "x"}
        await hub.close()

    asyncio.run(listen())


def test_a_damaged_trial_hides_no_other_change(store: Store, hub: Hub) -> None:
    identifier = experiment(store)
    claim = store.claim(identifier, "me")
    for number in (0, 1):
        store.plan(identifier, claim, trial_of(number, n=number), run_of(number, number))
    damage = sa.text("UPDATE trials SET configuration = '{' WHERE number = 0")
    database_of(store).write(lambda connection, _: connection.execute(damage))

    async def listen() -> None:
        stream = hub.listen(identifier)
        await heard(stream, "experiment")
        for number, trial in ((2, 0), (3, 1)):
            store.plan(identifier, claim, None, run_of(number, trial))
        told = await asyncio.wait_for(heard(stream, "run"), 10.0)
        assert told[-1][1]["number"] == 3
        await hub.close()

    asyncio.run(listen())


def test_a_revoked_token_hears_nothing_more_and_one_token_holds_few_streams(store: Store, messages: Messages) -> None:
    tokens = Tokens(database_of(store))
    token, _ = tokens.create("eve", "viewer")
    hub = Hub(store, database_of(store), messages, 0.01, 10, each=2)

    async def listen() -> None:
        streams = [hub.listen(None, token=token.id) for _ in range(3)]
        for stream in streams[:2]:
            assert await anext(stream) == ": listening\n\n"
        assert hub.full(token.id) and not hub.full("another")
        assert [text async for text in streams[2]] == []
        tokens.revoke(token.id)
        for stream in streams[:2]:
            assert [text async for text in stream] == []
        assert hub.listeners == 0
        await hub.close()

    asyncio.run(asyncio.wait_for(listen(), 10.0))


def test_the_streams_of_a_browser_end_with_its_session(store: Store, messages: Messages) -> None:
    tokens = Tokens(database_of(store))
    token, _ = tokens.create("eve", "viewer")
    cookie, session = tokens.begin_session(token)
    _, other = tokens.begin_session(token)
    hub = Hub(store, database_of(store), messages, 0.01, 10)

    async def listen() -> None:
        stream, kept = (hub.listen(None, token=token.id, session=one.id) for one in (session, other))
        assert [await anext(stream), await anext(kept)] == [": listening\n\n"] * 2
        tokens.end_session(cookie)
        assert [text async for text in stream] == []
        assert hub.listeners == 1
        await hub.close()

    asyncio.run(asyncio.wait_for(listen(), 10.0))
