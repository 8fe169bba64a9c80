"""Bodies of requests: how large they may be, and how slowly they may come."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

_CLOSE = {"Connection": "close"}
_BYTES_A_TIME = 10 << 20
"""What may come in the time that a small body has."""


def limited(headers: Headers, receive: Receive, most: int, seconds: float) -> Receive:
    """Receive a body within bounds.

    Parameters
    ----------
    headers : Headers
    receive : Receive
        Gives the request's messages.
    most : int
        Bytes.
    seconds : float
        In which the first 10 MiB come, and so on.

    Returns
    -------
    Receive
        Gives the same messages, and raises HTTPException with 413 or 408 where a bound is passed.

    Raises
    ------
    HTTPException
        With 413, if the request says that its body is larger.
    """
    try:
        length = int(headers.get("content-length", "0"))
    except ValueError:
        length = -1
    if length > most or length < 0:
        raise _too_large(most)
    seen, done, deadline = 0, False, None

    async def bounded() -> Message:
        nonlocal seen, done, deadline
        if done:
            return await receive()
        now = asyncio.get_running_loop().time()
        deadline = deadline or now + seconds
        allowed = deadline + seen / _BYTES_A_TIME * seconds
        try:
            message = await asyncio.wait_for(receive(), max(0.01, allowed - now))
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly: send it again", _CLOSE) from None
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            done = not message.get("more_body", False)
            if seen > most:
                raise _too_large(most)
        else:
            done = True
        return message

    return bounded


async def whole(receive: Receive) -> tuple[bytes, Receive]:
    """Read a body to its end.

    Parameters
    ----------
    receive : Receive
        Gives the request's messages, within bounds.

    Returns
    -------
    bytes
        The body, as far as the client sent it.
    Receive
        Gives the body once more, and then what follows.
    """
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return body, again


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {most:,} bytes: send less", _CLOSE)
