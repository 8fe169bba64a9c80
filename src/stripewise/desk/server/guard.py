"""Stands before everything else: who asks, may they, how often and how much; and what every answer carries.

A request without a valid token is answered before a byte of its body is read.

The cookie of a session, and the token that shows that a form comes from the service's own page.

How often someone may ask.

Bodies of requests: how large they may be, and how slowly they may come. What HTTP asks of every answer: HEAD, ETag and
304.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stripewise.desk.server import child as bounded
from stripewise.desk.server.metrics import Metrics
from stripewise.desk.server.problems import problem
from stripewise.desk.server.service import BASE_PATH, EACH, SOCKET, Proxies, Service, peer_of
from stripewise.errors import StripewiseError
from stripewise.store.service.tokens import LoginSession, Token

_CLOSE = {"Connection": "close"}
_BYTES_A_TIME = 10 << 20
"""What may come in the time that a small body has."""


def limited(headers: Headers, receive: Receive, most: int, seconds: float) -> Receive:
    """Receive a body within bounds.

    Parameters
    ----------
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


async def read_body(receive: Receive) -> tuple[bytes, Receive]:
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


_MOST = 10_000


class Rates:
    """A bucket for each who asks.

    Parameters
    ----------
    rate : float
        Requests a second.
    burst : int
        Requests that may come at once.
    clock : callable
        Seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, who: str) -> bool:
        """Count a request; False if it is one too many."""
        now = self._clock()
        left, then = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[who] = (max(0.0, left - 1.0) if left >= 1.0 else left, now)
        # Those who have not asked for longest have full buckets again.
        while len(self._left) > _MOST:
            self._left.popitem(last=False)
        return left >= 1.0


CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf_token"


def masked_csrf(csrf: str) -> str:
    """Write a session's CSRF token as pages carry it: differently each time.

    Pages are compressed, and hold what their address asks for. Whoever sees how long they become could otherwise find
    the token letter by letter.
    """
    mask = secrets.token_bytes(len(csrf))
    return (mask + bytes(a ^ b for a, b in zip(mask, csrf.encode(), strict=True))).hex()


def is_csrf(given: str, csrf: str) -> bool:
    """Whether a text is the CSRF token of a session, as :func:`masked_csrf` writes it."""
    try:
        both = bytes.fromhex(given)
    except ValueError:
        return False
    mask, rest = both[: len(csrf)], both[len(csrf) :]
    return len(both) == 2 * len(csrf) and hmac.compare_digest(
        bytes(a ^ b for a, b in zip(mask, rest, strict=True)), csrf.encode()
    )


def name_cookie(service: Service, prefix: str) -> str:
    """Give the name of the session's cookie below a prefix of addresses.

    Browsers share cookies between all ports of a host. With TLS and no prefix, ``__Host-`` keeps other hosts and plain
    HTTP from planting one. Else each service has a name of its own: two on one host do not end each other's sessions.
    """
    if service.settings.secure_cookies and not prefix:
        return "__Host-stripewise"
    own = f"{service.settings.data.absolute()}\n{service.store.url}"
    return f"stripewise_{hashlib.sha256(os.fsencode(own)).hexdigest()[:12]}"


def cookie_of(headers: Headers, name: str) -> str:
    """Give the text of the session's cookie, empty if there is none.

    Python's own reader takes seconds for 30 KB of quoted characters, which a person without a token may send.
    """
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((value for key, _, value in pairs if key == name), "")


_PIECE = 1 << 16
"""Bytes of an answer that are handed on at a time."""
_NOTED_A_MINUTE = 30
"""Entries of the audit log for refusals and logins of one token, and for all that a viewer does.

More are only counted by the metrics, so that they cannot push out the rest.
"""


SAFE = ("GET", "HEAD", "OPTIONS")
PUBLIC = ("/openapi.json", "/api/health", "/login", "/favicon.ico")
PUBLIC_FOLDER = "/static/"
VIEWERS_MAY_POST = ("/api/prescriptions", "/api/knobs", "/logout", "/knobs")
"""What computes and keeps nothing."""
OPERATORS_ONLY = ("/api/audit",)
ADMINS_ONLY = ("/api/tokens", "/settings/tokens")

_FORM_BYTES = 1 << 20
_LOGIN_BYTES = 4096

_SECRET = re.compile(r"sw_[0-9a-f]{12}_[A-Za-z0-9_-]+")

log = logging.getLogger("stripewise.desk.server")


_API, _VERSIONED = "/api/", "/api/v1/"


def add_version(path: str) -> str:
    """Give the address under which an API's path is published; without the version it is the newest one's."""
    return path.replace(_API, _VERSIONED, 1) if path.startswith(_API) else path


class _Answered(Exception):  # noqa: N818  not an error: the answer is known
    def __init__(self, response: Response) -> None:
        self.response = response


def _refusal(status: int, what: str, fix: str, headers: dict[str, str] | None = None) -> _Answered:
    return _Answered(problem(status, what, fix, headers))


class Guard:
    """The outermost layer."""

    def __init__(self, app: ASGIApp, service: Service, metrics: Metrics) -> None:
        self._app = app
        self._service = service
        self._metrics = metrics
        settings = service.settings
        self._rates = Rates(settings.requests_a_second, settings.burst)
        self._failures = Rates(settings.failures_a_minute / 60, settings.failures_a_minute)
        self._noted = Rates(_NOTED_A_MINUTE / 60, _NOTED_A_MINUTE)
        self._proxies = Proxies(settings.proxies)
        self._under_way: Counter[str] = Counter()
        self._hosts = {"localhost", "127.0.0.1", "[::1]", *settings.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        prefix = self._strip_prefix(scope)
        if scope["path"].startswith(_VERSIONED):
            scope["path"] = scope["path"].replace(_VERSIONED, _API, 1)
        begun, status = time.perf_counter(), 500
        nonce = secrets.token_urlsafe(16)
        peer = _peer(scope)
        address = self._proxies.client(peer, Headers(scope=scope).getlist("x-forwarded-for"))
        asker = peer_of(address)
        scope.setdefault("state", {}).update(
            nonce=nonce, address=address, prefix=prefix, cookie=name_cookie(self._service, prefix)
        )
        self._under_way[asker] += 1

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                self._add_headers(scope, headers, nonce)
                if prefix and headers.get("location", "").startswith("/"):
                    headers["Location"] = prefix + headers["location"]
            body = message.get("body", b"")
            last = max(0, len(body) - 1) // _PIECE * _PIECE
            # The server copies what a client has not taken yet, so a slow one is waited for after each piece.
            for start in range(0, last, _PIECE):
                await send({"type": message["type"], "body": body[start : start + _PIECE], "more_body": True})
            await send({**message, "body": body[last:]} if last else message)

        try:
            if peer in self._proxies and self._under_way[asker] > EACH:
                # A connection of a proxy is nobody's: the limit on a client's connections holds for its requests.
                raise _refusal(429, "too many requests at once", "wait for answers", {"Retry-After": "1"})
            receive = await self._admit(scope, receive)
            await self._app(scope, receive, sending)
        except _Answered as answer:
            await answer.response(scope, receive, sending)
        except HTTPException as error:
            await problem(error.status_code, error.detail, headers={"Connection": "close"})(scope, receive, sending)
        except StripewiseError as error:
            # The store is away, and with it all that says who may do what.
            log.warning("%s %s: %s", scope["method"], scope["path"], error)
            await problem(503, error.what, error.fix)(scope, receive, sending)
        finally:
            self._under_way[asker] -= 1
            if not self._under_way[asker]:
                del self._under_way[asker]
            route = getattr(scope.get("route"), "path", "") or "(other)"
            self._metrics.count(scope["method"], route, status, time.perf_counter() - begun)
            await self._note(scope, status)

    def _strip_prefix(self, scope: Scope) -> str:
        """Give the path under which a proxy shows the service, and take it off the request's path if it is there."""
        prefix: str = self._service.settings.base_path
        peer = _peer(scope)
        told = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
        if told and peer in self._proxies and re.fullmatch(BASE_PATH, told):
            prefix = told
        path: str = scope["path"]
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            scope["path"] = path[len(prefix) :] or "/"
        return prefix

    # -- letting through -----------------------------------------------------------------------------------

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        self._check_host(scope, headers)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy that believes the other one sees another request in what follows.
            raise _refusal(400, "the request gives two lengths for its body", "send one of both headers", _CLOSE)
        if len(scope.get("query_string", b"")) > 4096:
            raise _refusal(400, "the address is too long", "use fewer or shorter parameters")
        if "\0" in path:
            # PostgreSQL refuses such text, which would look as if the store were away.
            raise _refusal(404, "the address names nothing", "see /openapi.json")
        if path in PUBLIC or path.startswith(PUBLIC_FOLDER):
            if method not in SAFE:
                self._check_origin(headers)
                if path == "/login":
                    # A valid token gets in, however many others have guessed from the same address.
                    scope["state"]["may_fail"] = lambda: self._failures.allow(peer_of(scope["state"]["address"]))
                    scope["state"]["may_ask"] = self._rates.allow
                else:
                    self._slow_down(scope)
            return self._limited(headers, receive, _LOGIN_BYTES)
        user, session = await self._who(scope, headers)
        scope["state"] |= {"user": user, "session": session}
        bounded.ASKER.set(user.id)
        if not self._rates.allow(user.id):
            raise _refusal(429, "too many requests", "wait a second", {"Retry-After": "1"})
        if session is not None and method not in SAFE:
            receive = await self._check_forgery(scope, headers, receive, session)
        if not user.operator and not self._viewer_may(method, path):
            raise _refusal(403, f"the token '{user.name}' may look, and not change anything", "use an operator's token")
        if not user.admin and _is_below(path, ADMINS_ONLY):
            raise _refusal(403, f"the token '{user.name}' may not make or revoke tokens", "use an admin's token")
        return self._limited(headers, receive, self._most(path))

    def _viewer_may(self, method: str, path: str) -> bool:
        if method in SAFE:
            return not _is_below(path, OPERATORS_ONLY)
        return path in VIEWERS_MAY_POST

    async def _who(self, scope: Scope, headers: Headers) -> tuple[Token, LoginSession | None]:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            token = await run_in_threadpool(self._service.tokens.check, secret.strip())
            if token is not None:
                return token, None
        elif cookie := cookie_of(headers, scope["state"]["cookie"]):
            session = await run_in_threadpool(self._service.tokens.session, cookie)
            if session is not None:
                return session.token, session
        self._slow_down(scope)
        if not scope["path"].startswith("/api") and scope["method"] in SAFE:
            raise _Answered(RedirectResponse(f"/login?next={quote(scope['path'])}", 303))
        raise _refusal(
            401,
            "the request has no valid token",
            "send the header Authorization: Bearer TOKEN; who runs the service makes tokens",
            {"WWW-Authenticate": "Bearer"},
        )

    def _slow_down(self, scope: Scope) -> None:
        """Make those who guess wait."""
        if not self._failures.allow(peer_of(scope["state"]["address"])):
            raise _refusal(429, "too many requests without a valid token", "wait a minute", {"Retry-After": "60"})

    def _check_host(self, scope: Scope, headers: Headers) -> None:
        """Refuse foreign names, which a page of another site could have pointed at this machine."""
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        server = scope.get("server")
        over_socket = server is not None and server[1] is None
        if not over_socket and name.lower() not in self._hosts:
            raise _refusal(
                400, "the service is not reached under this name", "use a name that the service was given, or localhost"
            )

    def _check_origin(self, headers: Headers) -> None:
        """Refuse what a page of another site has sent."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise _refusal(403, "the request comes from another site", "use the service's own pages")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
            raise _refusal(403, "the request comes from another site", "use the service's own pages")

    async def _check_forgery(self, scope: Scope, headers: Headers, receive: Receive, session: LoginSession) -> Receive:
        self._check_origin(headers)
        given = headers.get(CSRF_HEADER, "")
        if not given and headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            body, receive = await read_body(self._limited(headers, receive, _FORM_BYTES))
            given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=1000).get(CSRF_FIELD, [""])[0]
        if not is_csrf(given, session.csrf):
            raise _refusal(403, "the request has no valid CSRF token", "load the page again")
        return receive

    def _most(self, path: str) -> int:
        settings = self._service.settings
        upload = path in ("/api/models", "/api/diagnoses", "/api/tables", "/diagnose", "/models")
        return settings.upload_bytes if upload else settings.body_bytes

    def _limited(self, headers: Headers, receive: Receive, most: int) -> Receive:
        return limited(headers, receive, most, self._service.settings.body_seconds)

    # -- what answers carry --------------------------------------------------------------------------------

    def _add_headers(self, scope: Scope, headers: MutableHeaders, nonce: str) -> None:
        headers["X-Content-Type-Options"] = "nosniff"
        headers["X-Frame-Options"] = "DENY"
        headers["Referrer-Policy"] = "same-origin"
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Permissions-Policy"] = "camera=(), microphone=(), geolocation=()"
        headers["Content-Security-Policy"] = (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'"
        )
        if self._service.settings.secure_cookies:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        if not scope["path"].startswith(PUBLIC_FOLDER):
            headers.setdefault("Cache-Control", "no-store")

    async def _note(self, scope: Scope, status: int) -> None:
        """Log every change and every refusal of a token; of a request only its path.

        What comes without a valid token is counted by the metrics and not listed: strangers could fill the list.
        """
        # A token in an address gives no access, but it must not appear in the log either.
        # A line feed in it must not begin a line of its own.
        path = _SECRET.sub("sw_***", "".join(c if c.isprintable() else "?" for c in scope["path"]))
        log.info("%s %s %d", scope["method"], path, status)
        user: Token | None = scope["state"].get("user")
        if user is None:
            return
        # After the answer, which need not wait for it.
        try:
            await run_in_threadpool(self._service.tokens.note_use, user.id)
        except StripewiseError as error:
            log.warning("%s", error)
        refused = status in (401, 403, 429)
        looks = scope["method"] in SAFE and "subject" not in scope["state"]
        if not refused and (looks or scope["path"] in VIEWERS_MAY_POST[:2]):
            return
        few = refused or not user.operator or scope["path"] in ("/login", "/logout")
        if few and not self._noted.allow(user.id):
            return
        who = (user.name, user.role)
        action, subject = f"{scope['method']} {path}", str(scope["state"].get("subject", ""))
        try:
            await run_in_threadpool(self._service.audit.add, *who, scope["state"]["address"], action, subject, status)
        except StripewiseError as error:
            log.error(
                "the audit log cannot be written: %s: %s %s %d by %s", error, *action.split(" ", 1), status, who[0]
            )


def _peer(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") and scope["client"][0] else SOCKET


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in places)


class Turns:
    """Lets few of a token's requests be looked at together; its others wait, and hold up no other token's.

    Parameters
    ----------
    most : int
        That may wait; further ones are refused.
    """

    _AT_A_TIME = 4

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._waiting: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn, which ends with the beginning of its answer."""
        user: Token | None = scope.get("state", {}).get("user")
        if user is None or scope["method"] not in SAFE:
            await self._app(scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as turn:
            await turn.enter_async_context(self._turn(user.id))

            async def sending(message: Message) -> None:
                # What follows costs little: events as they come, or what a client takes as slowly as it likes.
                await turn.aclose()
                await send(message)

            await self._app(scope, receive, sending)

    @contextlib.asynccontextmanager
    async def _turn(self, token: str) -> AsyncIterator[None]:
        if self._waiting[token] >= self._most:
            raise _refusal(429, "too many requests at once", "wait for answers", {"Retry-After": "1"})
        self._waiting[token] += 1
        try:
            turns = self._turns.setdefault(token, asyncio.Semaphore(self._AT_A_TIME))
            await turns.acquire()
        finally:
            self._waiting[token] -= 1
        try:
            yield
        finally:
            turns.release()


class Answers:
    """Answers HEAD as GET without the body, and 304 where the client already has the document."""

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
