"""Limits on connections before a request is known: strangers may neither hold them open nor take all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def limited(seconds: float, each: int) -> type[H11Protocol]:
    """Make the protocol of connections.

    Parameters
    ----------
    seconds : float
        How long the line and the headers of a request may take to come, from the beginning of the connection or the
        end of the request before.
    each : int
        Connections that one address may have open; the UNIX socket, which only its owner can reach, has no such limit.
    """
    open_of: Counter[str] = Counter()

    class Limited(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _peer = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._peer = self.client[0] if self.client else ""
            open_of[self._peer] += 1
            if self._peer and open_of[self._peer] > each:
                transport.abort()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            open_of[self._peer] -= 1
            if not open_of[self._peer]:
                del open_of[self._peer]
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Wait for a request, or no longer once one is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_watching()
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self.transport.abort)

        def _stop_watching(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Limited
