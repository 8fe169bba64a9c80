"""Limits on connections before a request is known, and whose they are where a proxy stands before the service.

Strangers may neither hold connections open nor take all of them.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from stripewise.errors import UserError

SOCKET = "socket"
"""The peer of every connection to a UNIX socket."""
EACH = 500
"""Connections that one peer may have open, and requests that it may have under way through a proxy."""

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
    proxies : Proxies
    """
    open_of: Counter[str] = Counter()
    held: defaultdict[str, dict[Limited, None]] = defaultdict(dict)

    class Limited(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None
        _peer = ""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
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
