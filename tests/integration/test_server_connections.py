"""Connections that strangers hold: slow, half-open and too many."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import uvicorn
from benchmarks.server.slow import Slow, Users
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from stripewise.desk.server.app import tcp_socket
from stripewise.desk.server.service import Proxies, limited, peer_of
from tests.unit.service import Running, running

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SECONDS = 0.3


async def answer_late(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(2 * SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def answer_much(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000):
        await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})


@contextlib.asynccontextmanager
async def served(
    app: Any, seconds: float = SECONDS, each: int = 3, proxies: tuple[str, ...] = ()
) -> AsyncIterator[int]:
    """Serve an application and give its port."""
    config = uvicorn.Config(app, http=limited(seconds, each, Proxies(proxies)), log_config=None, lifespan="off")
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    made = config.http_protocol_class
    server = await loop.create_server(
        lambda: made(config=config, server_state=state, app_state={}, _loop=loop),  # type: ignore[operator, union-attr]
        "127.0.0.1",
        0,
    )
    yield server.sockets[0].getsockname()[1]
    server.close()


async def _opened(port: int, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    return reader, writer


async def passed_on() -> None:
    async with served(answer_late, proxies=("127.0.0.1",)) as port:
        connections = [await _opened(port, REQUEST) for _ in range(6)]
        for reader, _ in connections:
            assert (await asyncio.wait_for(reader.readuntil(b"ok"), 30.0)).startswith(b"HTTP/1.1 200")


async def attacked() -> None:
    async with served(answer_late) as port:

        async def opened(first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await _opened(port, first)

        first, silent, half = await opened(b""), await opened(b""), await opened(REQUEST[:20])
        await asyncio.sleep(0.05)
        # One more than an address may have takes the place of the one that has waited longest.
        asked = await opened(REQUEST)
        assert await _rest(first, SECONDS / 2) == b""
        for held in (silent, half):
            assert await _rest(held, 2 * SECONDS) == b"", "a request that does not come ends its connection"
        answer = await asyncio.wait_for(asked[0].readuntil(b"ok"), 30.0)
        assert answer.startswith(b"HTTP/1.1 200"), "a slow answer comes"
        assert await _rest(asked, 2 * SECONDS) == b"", "and an idle connection ends after it"


async def sent_in_small_pieces() -> None:
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(answer_late, seconds=60.0) as port:
        reader, _ = await _opened(port, head + b"6\r\nabcdef\r\n" * 50_000)
        await asyncio.wait_for(reader.readuntil(b"ok"), 30.0)


async def taken_from_many_addresses() -> None:
    async with served(answer_late, seconds=60.0) as port:
        strangers = []
        for number in range(2, 12):
            made = await asyncio.open_connection("127.0.0.1", port, local_addr=(f"127.0.0.{number}", 0))
            made[1].write(REQUEST[:20])
            strangers.append(made)
        reader, _ = await _opened(port, REQUEST)
        assert (await asyncio.wait_for(reader.readuntil(b"ok"), 30.0)).startswith(b"HTTP/1.1 200")
        for stranger in strangers[:8]:
            assert await _rest(stranger, 30.0) == b"", "all of loopback is one peer"


async def logged_in_slowly(found: Running) -> None:
    """Bodies of logins that do not come; nobody needs a token to send one."""
    kind = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100"
    begun = b"POST /login HTTP/1.1\r\nHost: localhost\r\n" + kind + b"\r\n\r\ntoken="
    async with served(found.app, seconds=60.0, each=4) as port:
        strangers = [await _opened(port, begun) for _ in range(4)]
        await asyncio.sleep(0.1)
        reader, _ = await _opened(port, b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(12), 30.0)).startswith(b"HTTP/1.1 200")
        assert await _rest(strangers[0], 30.0) == b""
        await found.service.hub.close()


async def unread() -> int:
    """Give how much comes of an endless answer that nobody reads for long."""
    async with served(answer_much) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        writer.write(REQUEST)
        await asyncio.sleep(6 * SECONDS)
        taken = 0
        with contextlib.suppress(ConnectionResetError):
            while data := await asyncio.wait_for(reader.read(1 << 20), 30.0):
                taken += len(data)
        return taken


async def _rest(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], seconds: float) -> bytes:
    try:
        return await asyncio.wait_for(connection[0].read(), seconds + 30)
    except ConnectionResetError:
        return b""


def test_strangers_hold_no_connections() -> None:
    asyncio.run(attacked())


def test_strangers_on_this_machine_take_no_connections_from_others() -> None:
    asyncio.run(taken_from_many_addresses())


def test_small_pieces_of_a_body_are_taken_apart_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    receive = H11Protocol.data_received
    monkeypatch.setattr(
        H11Protocol, "data_received", lambda self, data: (read.append(len(data)), receive(self, data))[1]
    )
    asyncio.run(sent_in_small_pieces())
    assert 1000 < max(read) <= 1 << 14
    assert peer_of("127.9.9.9") == peer_of("::1") == peer_of("::ffff:127.0.0.1") == "loopback"
    assert peer_of("2001:db8::1") == peer_of("2001:db8::ffff:1") != peer_of("2001:db8:0:1::1")
    assert peer_of("203.0.113.1") != peer_of("203.0.113.2") and peer_of("testclient") == "testclient"


def test_slow_logins_take_no_connections_from_others(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        asyncio.run(logged_in_slowly(found))


def test_a_named_proxy_may_open_as_many_connections_as_its_clients_need() -> None:
    asyncio.run(passed_on())


async def crowded(found: Running, experiments: list[str]) -> list[float]:
    """Give how long three users wait beside forty slow connections that nothing ends meanwhile."""
    async with served(found.app, seconds=60.0, each=100) as port:
        slow = asyncio.create_task(Slow(port, [found.secret], experiments[0]).holding(40))
        await asyncio.sleep(1.0)
        waits = await Users(port, [found.secret] * 3, experiments).working(2.0)
        slow.cancel()
        await found.service.hub.close()
        return waits


def test_slow_connections_keep_nobody_waiting(tmp_path: Path) -> None:
    """As ``python -m benchmarks.server.slow`` measures it, with two hundred of them beside twenty users."""
    with running(tmp_path) as found:
        waits = asyncio.run(crowded(found, [found.create() for _ in range(3)]))
    # A second on a machine that does nothing else; a request that had to wait for the slow ones would take a minute.
    assert len(waits) >= 3 and max(waits) < 30.0, waits


def test_a_large_answer_is_handed_on_in_pieces(tmp_path: Path) -> None:
    pieces: list[bytes] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        pieces.append(message.get("body", b""))

    with running(tmp_path) as found:
        headers = [(b"host", b"testserver")]
        path = "/static/plotly.min.js"
        scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b"", "client": None}
        asyncio.run(found.app(scope, receive, send))
    # A server keeps a copy of what a client does not take: 200 strangers who read nothing held 400 MiB.
    assert max(map(len, pieces)) <= 1 << 16 and len(b"".join(pieces)) > 1 << 18


def test_an_answer_that_nobody_reads_ends() -> None:
    assert asyncio.run(unread()) < 50_000_000


def test_connections_that_are_closed_already_are_dropped_before_anything_is_made_for_them() -> None:
    """Hundreds a second kept others waiting for seconds."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(tcp_socket("127.0.0.1", 0, force=False))
        listener.setblocking(False)

        def connect(text: bytes) -> socket.socket:
            made = opened.enter_context(socket.create_connection(listener.getsockname()))
            made.sendall(text)
            return made

        for _ in range(100):
            connect(b"").close()
        asks, waits = connect(b"GET"), connect(b"")
        asks.shutdown(socket.SHUT_WR)
        with pytest.raises(BlockingIOError):
            listener.accept()  # others are answered in between
        found = [listener.accept()[0] for _ in range(2)]
        assert [made.getpeername() for made in found] == [asks.getsockname(), waits.getsockname()]
        with pytest.raises(BlockingIOError):
            listener.accept()
        for made in found:
            made.close()
