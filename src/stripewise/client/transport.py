"""HTTP over TCP, TLS or a UNIX socket, with nothing but the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from stripewise.client.address import Address
from stripewise.errors import StripewiseError, TransientError, UserError

_MOST_BYTES = 1 << 30


class ServiceError(UserError):
    """The service refused a request.

    Attributes
    ----------
    status : int
        Of the answer.
    """

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.status = status


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self.timeout)
        made.connect(self._path)
        self.sock = made


class Transport:
    """Sends requests, each over a connection of its own.

    Parameters
    ----------
    address : Address
    token : str
    timeout : float
        Seconds to wait for an answer.
    """

    def __init__(self, address: Address, token: str, timeout: float = 60.0) -> None:
        self._address = address
        self._token = token
        self._timeout = timeout

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bytes, str]:
        """Send a request and give the answer's body and media type.

        Raises
        ------
        ServiceError
            If the service refuses it.
        TransientError
            If the service cannot be reached.
        """
        with self._opened(method, path, query, document, body, headers, self._timeout) as answer:
            data = answer.read(_MOST_BYTES)
            if answer.status >= 400:
                raise _refused(answer.status, data)
            return data, answer.headers.get_content_type()

    def events(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give server-sent events as they come: name and data.

        Raises
        ------
        ServiceError, TransientError
            As for :meth:`send`; the latter also where the stream breaks off.
        """
        with self._opened("GET", path, query, None, None, None, 60.0) as answer:
            if answer.status >= 400:
                raise _refused(answer.status, answer.read(1 << 20))
            name = ""
            data: list[str] = []
            for raw in answer:
                line = raw.decode("utf-8").rstrip("\r\n")
                if not line:
                    if data:
                        yield name, json.loads("\n".join(data))
                    name, data = "", []
                elif line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].lstrip())
        raise TransientError(f"the service at {self._address.url} has ended the stream of events", "try again")

    @contextlib.contextmanager
    def _opened(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        document: Any,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: float,
    ) -> Iterator[http.client.HTTPResponse]:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._address.prefix + quote(path) + (f"?{urlencode(given)}" if given else "")
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "*/*", **(headers or {})}
        if document is not None:
            body = json.dumps(document).encode()
            sent["Content-Type"] = "application/json"
        connection = self._connection(timeout)
        try:
            connection.request(method, target, body, sent)
            yield connection.getresponse()
        except StripewiseError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(
                f"the service at {self._address.url} cannot be reached: {error or type(error).__name__}",
                "is it running? stripewise serve starts one",
            ) from error
        finally:
            connection.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        address = self._address
        if address.socket is not None:
            return _OverSocket(str(address.socket), timeout)
        kind = http.client.HTTPSConnection if address.tls else http.client.HTTPConnection
        return kind(address.host, address.port, timeout=timeout)


def _refused(status: int, data: bytes) -> StripewiseError:
    try:
        error = json.loads(data)["error"]
        what, fix = str(error["what"]), str(error.get("fix", ""))
    except (ValueError, KeyError, TypeError):
        what, fix = f"the service answered with status {status}", "is it Stripewise's?"
    if status in (429, 503):
        return TransientError(what, fix)
    return ServiceError(status, what, fix)
