"""What HTTP asks of every answer, whatever resource gives it: HEAD, ETag and 304."""

from __future__ import annotations

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Answers:
    """Answers HEAD as GET without the body, and 304 where the client already has the document.

    Parameters
    ----------
    app : ASGIApp
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and complete its answer."""
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        known = [tag.strip().removeprefix("W/") for tag in Headers(scope=scope).get("if-none-match", "").split(",")]
        head = scope["method"] == "HEAD"
        start: Message = {}
        body = b""

        async def sending(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                headers = MutableHeaders(scope=start)
                if not head and ("content-length" not in headers or start["status"] != 200 or "etag" in headers):
                    # A stream goes out as it comes.
                    await send(start)
                    start = {}
                return
            if not start:
                await send(message)
                return
            body += message.get("body", b"")
            # A stream has no end, and HEAD asks for none of it.
            if message.get("more_body", False) and not (head and "content-length" not in Headers(raw=start["headers"])):
                return
            await self._complete(start, body, known, send, head=head)
            start = {}

        await self._app({**scope, "method": "GET"}, receive, sending)

    async def _complete(self, start: Message, body: bytes, known: list[str], send: Send, *, head: bool) -> None:
        headers = MutableHeaders(scope=start)
        if start["status"] == 200 and "content-length" in headers:
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            # Weak, because the same document may go out compressed.
            headers["ETag"] = f"W/{tag}"
            if tag in known:
                start["status"] = 304
                del headers["content-length"]
                body = b""
        await send(start)
        await send({"type": "http.response.body", "body": b"" if head else body})
