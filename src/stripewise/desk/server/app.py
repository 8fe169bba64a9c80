"""The application, the socket or address on which it listens, and the workers that it keeps alive."""

from __future__ import annotations

import contextlib
import functools
import gzip
import ipaddress
import json
import logging
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response

from stripewise import __version__
from stripewise.desk.server import child as bounded
from stripewise.desk.server.guard import Answers, Guard, Turns, add_version
from stripewise.desk.server.html import error_page, load_templates
from stripewise.desk.server.metrics import Metrics
from stripewise.desk.server.problems import PROBLEM, add_handlers
from stripewise.desk.server.resources import RESOURCES, experiment_page
from stripewise.desk.server.service import EACH, Proxies, Service, Settings, limited
from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import python
from stripewise.ownership import make_folder
from stripewise.store.base import Store

_LONGEST_SOCKET = 107
_BACKLOG = 4096
_AT_A_TIME = 64
"""Connections that are taken before others are answered."""
_SLOWEST_RESTART = 30.0
_SILENT_SECONDS = 120.0
_CONNECTIONS = 2 * EACH
_HEADER_SECONDS = 20.0


def create_app(settings: Settings, store: Store | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    store : Store, optional
        An open store in place of the one that the settings name.

    Raises
    ------
    UserError, StoreError
        If the store cannot be used.
    """
    service = Service.open(settings, store)
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.hub.close()

    app = FastAPI(
        title="Stripewise",
        version=__version__,
        description="Tunes the parallel I/O of MPI programs. Programs run as the user of the service.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        # Validators of definitions may raise errors of ours, which have an envelope of their own.
        redirect_slashes=False,
        # The names of our functions are unique, and say what an operation does.
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.service = service
    app.state.metrics = metrics
    app.state.routes = [route for one in RESOURCES for part in (one.api, one.pages) for route in part.routes]
    add_handlers(app, error_page)
    for resource in RESOURCES:
        app.include_router(resource.api)
        app.include_router(resource.pages)
    app.add_middleware(Answers)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=6)
    app.add_middleware(Turns, most=settings.burst)
    app.add_middleware(Guard, service=service, metrics=metrics)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    _describe(app)
    return app


def _load_pages(service: Service) -> None:
    """Load what the first page needs before somebody waits for it: templates, and what draws an experiment's runs."""
    load_templates()
    # Whoever asks for the page of an experiment that cannot be read is told why.
    with contextlib.suppress(StripewiseError):
        for record in service.store.records(state="finished", limit=1, descending=True):
            experiment_page.figures(service, record.id)


def _describe(app: FastAPI) -> None:
    """Give the description of the API, which is written and compressed once: whoever has no token may ask for it."""

    @functools.cache
    def written(packed: bool) -> bytes:
        text = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
        return gzip.compress(text) if packed else text

    async def describe(request: Request) -> Response:
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if packed else {})}
        return Response(written(packed), media_type="application/json", headers=headers)

    app.add_route("/openapi.json", describe, include_in_schema=False)


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schema["components"].setdefault("securitySchemes", {})["bearer"] = {
            "type": "http",
            "scheme": "bearer",
            "description": "a token that stripewise service token create has made",
        }
        schema["security"] = [{"bearer": []}]
        schema["paths"].get("/api/health", {}).get("get", {})["security"] = []
        # Every error has our envelope; FastAPI's own is never sent.
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        for item in schema["paths"].values():
            for operation in item.values():
                for status, answer in operation["responses"].items():
                    if status >= "4" and "content" in answer:
                        # Errors are JSON, also where what was asked for is not.
                        answer["content"] = {PROBLEM: next(iter(answer["content"].values()))}
        schema["paths"] = {add_version(path): item for path, item in schema["paths"].items()}
        app.openapi_schema = schema
    return app.openapi_schema


log = logging.getLogger("stripewise.desk.server")


def unix_socket(path: Path) -> socket.socket:
    """Open a socket that its owner alone can connect to; one that a dead service left is replaced.

    Raises
    ------
    UserError
        If the path is taken or cannot be used.
    """
    if len(os.fsencode(path)) > _LONGEST_SOCKET:
        raise UserError(f"the socket's path {path} is longer than {_LONGEST_SOCKET} bytes", "choose a shorter --socket")
    try:
        make_folder(path.parent)
        _remove_socket(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            made.bind(str(path))
            # Those who come before the service is ready wait for it.
            made.listen(_BACKLOG)
        finally:
            os.umask(before)
    except OSError as error:
        raise UserError(f"cannot listen on {path}: {error.strerror}", "choose another --socket") from error
    return made


def _remove_socket(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UserError(f"{path} exists and is not a socket", "choose another --socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise UserError(f"a service is listening on {path} already", "use it, or choose another --socket")


class _Listener(socket.socket):
    """Takes connections, and drops those that are closed already, before anything is made for them.

    Others do not wait for whoever opens and closes them without end.
    """

    _left = _AT_A_TIME

    def accept(self) -> tuple[socket.socket, Any]:
        while self._left:
            self._left -= 1
            try:
                made, address = super().accept()
            except BlockingIOError:
                break
            if not _is_closed(made):
                return made, address
            made.close()
        self._left = _AT_A_TIME
        raise BlockingIOError  # the loop comes back after all that waits now


def _is_closed(made: socket.socket) -> bool:
    """Whether the other side has closed a connection, or its half, without a byte."""
    try:
        return not made.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def tcp_socket(host: str, port: int, *, force: bool) -> socket.socket:
    """Open a port, on this host's own addresses only unless forced.

    Raises
    ------
    UserError
        If the address is open to others, or cannot be used.
    """
    if not _loopback(host) and not force:
        raise UserError(
            f"--host {host} can be reached from other machines, and programs would be started for whoever has a token",
            "use 127.0.0.1 with an SSH tunnel, or a proxy with TLS; --force listens anyway",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = _Listener(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise UserError(f"cannot listen on {host} port {port}: {error.strerror or error}", "choose another") from error
    return made


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Workers:
    """Keeps workers running as processes of their own; one that dies or gives no sign of life is replaced.

    Parameters
    ----------
    store : str or None
        Given to them in the environment, where other users do not see it.
    silent_seconds : float
        How long a worker may give no sign. One that waits for a file system that does not answer cannot be ended, so
        another one takes its place beside it.
    """

    def __init__(self, count: int, store: str | None, data: Path, silent_seconds: float = _SILENT_SECONDS) -> None:
        self._silent = silent_seconds
        self._environment = {**os.environ, **({"STRIPEWISE_STORE": store} if store else {})}
        self._command = python("-m", "stripewise", "service", "worker", "--until-closed", "--data", str(data))
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._keep, daemon=True) for _ in range(count)]

    def _keep(self) -> None:
        pause = 0.5
        while not self._ending.is_set():
            begun = time.monotonic()
            # However this process ends, the stream closes with it, and the worker ends too.
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    process = subprocess.Popen(self._command, env=self._environment, stdin=theirs.fileno())
                how = self._watch(process, ours)
                if self._ending.is_set():
                    process.terminate()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(self._silent)
                    process.kill()
                    return
            # One that dies at once is not started a hundred times a second.
            pause = 0.5 if time.monotonic() - begun > 10 else min(2 * pause, _SLOWEST_RESTART)
            log.warning("a worker %s and is replaced in %.1f s", how, pause)
            self._ending.wait(pause)

    def _watch(self, process: subprocess.Popen[bytes], signs: socket.socket) -> str:
        """Wait until a worker has to be replaced and say why, or until this service ends."""
        signs.setblocking(False)
        heard = time.monotonic()
        while not self._ending.wait(0.2):
            if process.poll() is not None:
                return f"ended with code {process.returncode}"
            with contextlib.suppress(OSError):
                if signs.recv(4096):
                    heard = time.monotonic()
            if time.monotonic() - heard > self._silent:
                process.kill()
                return f"gave no sign of life for {self._silent:g} s"
        return ""

    def __enter__(self) -> Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()


def serve(
    settings: Settings,
    listener: socket.socket,
    workers: int,
    path: Path | None,
    opened: Callable[[Service], None] = lambda service: None,
) -> None:
    """Serve until a signal says to end.

    Parameters
    ----------
    listener : socket
        Bound and listening.
    workers : int
        How many to start beside the service.
    path : Path or None
        Of the UNIX socket, removed in the end.
    opened : callable
        Told the service before it answers; connections that come until then wait.
    """
    app = create_app(settings)
    opened(app.state.service)
    bounded.warm_up()
    threading.Thread(target=_load_pages, args=(app.state.service,), daemon=True).start()
    config = uvicorn.Config(
        app,
        access_log=False,
        server_header=False,
        log_level="warning",
        backlog=_BACKLOG,
        timeout_keep_alive=20,
        timeout_graceful_shutdown=3,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=32768,
        http=limited(_HEADER_SECONDS, EACH, Proxies(settings.proxies)),
        ws="none",
        # The guard decides whose word about a client's address counts.
        proxy_headers=False,
    )
    server = uvicorn.Server(config)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with (
            Workers(workers, settings.store, settings.data),
            _remove_at_end(path),
            contextlib.suppress(KeyboardInterrupt),
        ):
            server.run(sockets=[listener])
    finally:
        app.state.service.store.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End in good order: uvicorn sends itself the signal again once it has ended, and workers are to end as well."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def _remove_at_end(path: Path | None) -> Iterator[None]:
    try:
        yield
    finally:
        if path is not None:
            path.unlink(missing_ok=True)
