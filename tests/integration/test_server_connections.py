"""Connections that strangers hold: slow, half-open and too many."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import uvicorn
from uvicorn.server import ServerState

from stripewise.server.connections import Proxies, limited

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
SECONDS = 0.3


async def answer_late(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.sleep(2 * SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def listening(proxies: Proxies) -> tuple[asyncio.Server, int]:
    config = uvicorn.Config(answer_late, http=limited(SECONDS, 3, proxies), log_config=None, lifespan="off")
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    made = config.http_protocol_class
    server = await loop.create_server(
        lambda: made(config=config, server_state=state, app_state={}, _loop=loop),  # type: ignore[operator, union-attr]
        "127.0.0.1",
        0,
    )
    return server, server.sockets[0].getsockname()[1]


async def attacked() -> None:
    server, port = await listening(Proxies(()))

    async def opened(first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await _opened(port, first)

    silent, half = await opened(b""), await opened(REQUEST[:20])
    asked = await opened(REQUEST)
    await asyncio.sleep(0.05)
    # One more than an address may have is closed at once.
    assert await _rest(await opened(REQUEST), SECONDS / 2) == b""
    for held in (silent, half):
        assert await _rest(held, 2 * SECONDS) == b"", "a request that does not come ends its connection"
    assert (await asyncio.wait_for(asked[0].readuntil(b"ok"), 5.0)).startswith(b"HTTP/1.1 200"), "a slow answer comes"
    assert await _rest(asked, 2 * SECONDS) == b"", "and an idle connection ends after it"
    server.close()


async def passed_on() -> None:
    server, port = await listening(Proxies(("127.0.0.1",)))
    connections = [await _opened(port, REQUEST) for _ in range(6)]
    for reader, _ in connections:
        assert (await asyncio.wait_for(reader.readuntil(b"ok"), 5.0)).startswith(b"HTTP/1.1 200")
    server.close()


async def _opened(port: int, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(first)
    return reader, writer


async def _rest(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], seconds: float) -> bytes:
    try:
        return await asyncio.wait_for(connection[0].read(), seconds + 0.5)
    except ConnectionResetError:
        return b""


def test_strangers_hold_no_connections() -> None:
    asyncio.run(attacked())


def test_a_named_proxy_may_open_as_many_connections_as_its_clients_need() -> None:
    asyncio.run(passed_on())
