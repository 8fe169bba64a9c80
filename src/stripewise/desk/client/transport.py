"""Where a service is, the token for it, and HTTP over TCP, TLS or a UNIX socket with the standard library alone."""

from __future__ import annotations

import contextlib
import functools
import http.client
import inspect
import io
import json
import os
import socket
import stat
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from stripewise.errors import StripewiseError, TransientError, UserError

_KINDS = "write unix:PATH, http://HOST:PORT or https://HOST[:PORT]"


def _state_folder() -> Path:
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


def default_socket() -> Path:
    """Give the socket that a service listens on when none is named.

    Nodes may share the folder, so each has a socket of its own.
    """
    return _state_folder() / f"server-{os.uname().nodename.partition('.')[0]}.sock"


def token_file() -> Path:
    """Give the file in which a user's token is kept; ``STRIPEWISE_TOKEN_FILE`` names another."""
    named = os.environ.get("STRIPEWISE_TOKEN_FILE")
    return Path(named) if named else _state_folder() / "token"


def find_token() -> str:
    """Give the token from ``STRIPEWISE_TOKEN``, or from the token file.

    Raises
    ------
    UserError
        If there is none, or others can read the file.
    """
    given = os.environ.get("STRIPEWISE_TOKEN", "").strip()
    if given:
        return given
    path = token_file()
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(f"others may read the token in {path}", f"chmod 600 {path}")
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        raise UserError(
            "the token for the service is missing",
            f"put it into {path} (mode 0600), or ask for one: stripewise service token create NAME --save",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the token in {path}: {error}", "check the file") from error


@dataclass(frozen=True)
class Address:
    """A parsed address: of a UNIX socket, or of a host."""

    url: str
    """As it may be shown."""
    socket: Path | None = None
    host: str = "localhost"
    port: int = 80
    tls: bool = False
    prefix: str = ""
    """Path before ``/api``, where a proxy adds one."""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read an address.

        Raises
        ------
        UserError
            If it cannot be read, or holds more than an address.
        """
        if url.startswith("unix:"):
            path = url.removeprefix("unix:").removeprefix("//")
            return cls(f"unix:{path or default_socket()}", Path(path).expanduser() if path else default_socket())
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UserError(f"the service's address cannot be read: {error}", _KINDS) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("the service's address has an unknown scheme", _KINDS)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UserError("the service's address holds more than an address", "tokens belong in the token file")
        tls = parts.scheme == "https"
        if not tls and not _is_local(parts.hostname):
            raise UserError(
                f"http://{parts.hostname} would carry the token over the network in the clear",
                "use https://, or an SSH tunnel to localhost",
            )
        return cls(url.rstrip("/"), None, parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"))


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


_MOST_BYTES = 1 << 30
_MOST_JSON = 64 << 20
"""Bytes of a document: its objects may take twenty times as many."""
_LARGEST_EVENT = 16 << 20
_LARGEST_HEAD = 1 << 20
_BYTES_A_SECOND = 10 << 10
"""An answer that comes more slowly, once its time has passed, is waited for no longer."""
NOT_OURS = "is it Stripewise's?"


class ServiceError(UserError):
    """The service refused a request, with the status of its answer."""

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.status = status


class _InTime(io.RawIOBase):
    """Bytes of an answer: a limit for each of them would let a service hold its client for ever."""

    def __init__(self, raw: io.RawIOBase, made: socket.socket) -> None:
        self._raw, self._socket, self._seconds = raw, made, made.gettimeout() or 0.0
        self._begun, self._seen = time.monotonic(), 0
        self.head = self._stream = False

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        if self.head and self._seen > _LARGEST_HEAD:
            raise http.client.HTTPException("its headers do not end")
        if not self._stream:
            left = self._begun + self._seconds + self._seen / _BYTES_A_SECOND - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(min(left, self._seconds))
        count = self._raw.readinto(room)
        self._seen += count or 0
        return count

    def wait_for_each(self) -> None:
        self._stream = True
        self._socket.settimeout(self._seconds)  # what the head has left of it is not what a part may take

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, made: socket.socket, *given: Any, **named: Any) -> None:
        super().__init__(made, *given, **named)
        self._in_time = _InTime(self.fp.detach(), made)
        self.fp = io.BufferedReader(self._in_time)

    def begin(self) -> None:
        self._in_time.head = True
        super().begin()
        self._in_time.head = False

    def wait_for_each(self) -> None:
        """Wait for each part as long as for the first: events come when there is something to tell."""
        self._in_time.wait_for_each()


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self.timeout)
        made.connect(self._path)
        # The token would go to whoever listens there.
        _, owner, _ = struct.unpack("3i", made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if owner not in (os.getuid(), 0):
            made.close()
            raise UserError(
                f"another user ({owner}) listens on {self._path}", "name the socket of your own service with --server"
            )
        self.sock = made


class Transport:
    """Sends requests, each over a connection of its own; an answer is waited for so many seconds."""

    def __init__(self, address: Address, token: str, timeout: float = 60.0) -> None:
        self._address = address
        self._token = token
        self._timeout = timeout

    def send(self, method: str, path: str, **given: Any) -> tuple[bytes, str]:
        """Send a request and give the answer's body and media type.

        ``given``: ``query`` and ``headers``, mappings; ``document``, to be sent as JSON, or ``body``,
        bytes, or parts of them with a header Content-Length.

        Raises
        ------
        ServiceError
            If the service refuses it.
        TransientError
            If the service cannot be reached.
        UserError
            If the answer is too large.
        """
        with self._opened(method, path, **given) as answer:
            data = answer.read(_MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise UserError(
                    f"the service's answer to {path} is larger than {_MOST_BYTES >> 20} MiB",
                    "ask those who run the service for a copy of the file",
                )
            if answer.status >= 400:
                raise _make_refusal(answer.status, data)
            return data, answer.headers.get_content_type()

    def events(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give server-sent events as they come: name and data.

        Raises
        ------
        ServiceError, TransientError
            As for :meth:`send`; the latter also where the stream breaks off.
        """
        with self._opened("GET", path, query, timeout=60.0) as answer:
            if answer.status >= 400:
                raise _make_refusal(answer.status, answer.read(1 << 20))
            answer.wait_for_each()
            name = ""
            data: list[str] = []
            room = _LARGEST_EVENT
            while raw := answer.readline(room + 1):
                room -= len(raw)
                if room < 0:
                    raise UserError(f"the service sent an event of more than {_LARGEST_EVENT >> 20} MiB", NOT_OURS)
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                if not line:
                    if data:
                        yield name, read_json("\n".join(data))
                    name, data, room = "", [], _LARGEST_EVENT
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
        query: Mapping[str, Any] | None = None,
        document: Any = None,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Iterator[_Answer]:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._address.prefix + quote(path) + (f"?{urlencode(given)}" if given else "")
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "*/*", **(headers or {})}
        if document is not None:
            body = json.dumps(document).encode()
            sent["Content-Type"] = "application/json"
        connection = self._connection(timeout or self._timeout)
        connection.response_class = _Answer
        try:
            connection.connect()
            # A service that refuses a body by its size answers, and closes the connection, before its end.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body, sent)
            yield cast("_Answer", connection.getresponse())
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


def read_json(data: str | bytes) -> Any:
    """Read what a service sent.

    Raises
    ------
    UserError
        If it is not JSON, nested too deeply, or too large.
    """
    if len(data) > _MOST_JSON:
        raise UserError(f"the service sent a document of more than {_MOST_JSON >> 20} MiB", NOT_OURS)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError("the service's answer is not valid JSON", NOT_OURS) from error


_MISREAD = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of reading a document of another form than the expected one."""
_Reader = TypeVar("_Reader")


def reads_answers(made: type[_Reader]) -> type[_Reader]:
    """Let methods of a class end with one line where an answer has another form: services may be of other versions."""
    for name, method in list(vars(made).items()):
        if inspect.isfunction(method) and not name.startswith("__"):
            setattr(made, name, _reading(method))
    return made


def _reading(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def read(*given: Any, **named: Any) -> Any:
        with _one_line():
            return method(*given, **named)

    @functools.wraps(method)
    def read_each(*given: Any, **named: Any) -> Iterator[Any]:
        with _one_line():
            yield from method(*given, **named)

    return read_each if inspect.isgeneratorfunction(method) else read


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except StripewiseError:
        raise
    except _MISREAD as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        raise UserError(
            f"the service's answer cannot be used ({what})", f"{NOT_OURS[:-1]}, and of this version?"
        ) from error


def _make_refusal(status: int, data: bytes) -> StripewiseError:
    try:
        error = json.loads(data)["error"]
        what, fix = str(error["what"]), str(error.get("fix", ""))
    except (ValueError, KeyError, TypeError, RecursionError):
        what, fix = f"the service answered with status {status}", NOT_OURS
    if status in (429, 503):
        return TransientError(what, fix)
    return ServiceError(status, what, fix)
