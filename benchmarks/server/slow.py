"""How long users wait while others hold slow, half-open and unread connections.

::

    python -m benchmarks.server.slow [--slow 200] [--users 20] [--seconds 60]

starts ``stripewise serve`` on a port over a temporary SQLite store, lets the users work without and then with the slow
connections, and prints JSON: whether no user waited longer than a second beside them (``held``, also the exit code and
the last line); requests, median, 99th percentile and longest wait in milliseconds; and how long the threads of the
service had a processor and waited for one, which tells a busy machine from a service that is held up.
All come from one address, as behind a proxy that is not named. A quarter each of the slow connections

- sends the headers of a request byte by byte,
- sends the body of a request with a valid token byte by byte,
- begins a request, or none, and then says nothing more,
- asks for an event stream or a large file and never reads.

What the service closes is opened again at once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import multiprocessing
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.server.run import fill

from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.tokens import Tokens

_BYTE_SECONDS = 1.0
_THINK_SECONDS = (0.3, 1.0)
_WANTED_MS = 1000.0
"""That no user waits longer than."""
_STREAMS = 20
"""That the service lets one token hold."""


class Slow:
    """Connections that one process holds.

    Parameters
    ----------
    port : int
    secrets : list of str
        Tokens of those who read and write slowly.
    experiment : str
    """

    def __init__(self, port: int, secrets: list[str], experiment: str) -> None:
        self._port, self._secrets, self._experiment = port, secrets, experiment

    def hold(self, count: int) -> None:
        """Hold so many connections until this process is ended."""
        asyncio.run(self.holding(count))

    async def holding(self, count: int) -> None:
        """Hold so many connections until cancelled."""
        ways = (self._headers, self._body, self._nothing, self._unread)
        await asyncio.gather(*(self._again(number, ways[number % len(ways)]) for number in range(count)))

    async def _again(self, number: int, way: Callable[..., Any]) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                made = socket.socket()
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self._port))
                reader, writer = await asyncio.open_connection(sock=made, limit=1024)
                try:
                    await way(number, reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.2)

    async def _drip(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        for place in range(len(data)):
            writer.write(data[place : place + 1])
            await writer.drain()
            if writer.transport.is_closing():
                return
            await asyncio.sleep(_BYTE_SECONDS)

    async def _headers(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._drip(_request("GET", "/", "x" * 500), writer)

    async def _body(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secret = self._secrets[number % len(self._secrets)]
        writer.write(_request("POST", "/api/experiments", secret, length=1000))
        await self._drip(b" " * 1000, writer)

    async def _nothing(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET /api/hea" if number % 8 < 4 else b"")
        await reader.read()

    async def _unread(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secret = self._secrets[number % len(self._secrets)]
        stream = f"/api/experiments/{self._experiment}/events"
        writer.write(_request("GET", stream if number % 8 < 4 else "/static/plotly.min.js", secret))
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(3600)


def _request(method: str, path: str, secret: str, length: int | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {secret}"]
    if length is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Users:
    """People who look and begin experiments, each with a token and a connection for each request."""

    def __init__(self, port: int, secrets: list[str], experiments: list[str]) -> None:
        self._port, self._secrets, self._experiments = port, secrets, experiments

    def work(self, seconds: float) -> list[float]:
        """Work for a while and give the wait for each answer in seconds."""
        return asyncio.run(self.working(seconds))

    async def working(self, seconds: float) -> list[float]:
        """Work beside others in a loop of events; see :meth:`work`."""
        end = time.monotonic() + seconds
        waits = await asyncio.gather(
            *(self._user(secret, random.Random(number), end) for number, secret in enumerate(self._secrets))
        )
        return [wait for own in waits for wait in own]

    async def _user(self, secret: str, rng: random.Random, end: float) -> list[float]:
        waits = []
        while time.monotonic() < end:
            await asyncio.sleep(rng.uniform(*_THINK_SECONDS))
            one = rng.choice(self._experiments)
            looks = ("/api/experiments?limit=20", f"/api/experiments/{one}", f"/api/experiments/{one}/runs?limit=50")
            body = b""
            if rng.random() < 0.1:
                definition = {"runner": "sim:kay", "stacks": ["lustre"], "objective": "write_bandwidth", "budget": 4}
                body = json.dumps({"definition": definition, "start": False}).encode()
            path = "/api/experiments" if body else rng.choice((*looks, f"/experiments/{one}"))
            request = _request("POST" if body else "GET", path, secret, len(body) if body else None)
            begun = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1) + body)
            answer = await reader.read()
            while more := await reader.read():
                answer += more
            waits.append(time.perf_counter() - begun)
            writer.close()
            status = answer[:12].decode("ascii", "replace")
            if not status.endswith(("200", "201", "422")):
                raise RuntimeError(f"{path}: {answer[:300]!r}")
        return waits


@contextlib.contextmanager
def held(slow: Slow, count: int) -> Iterator[None]:
    """Let another process hold the connections."""
    process = multiprocessing.get_context("spawn").Process(target=slow.hold, args=(count,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def changing(store: Store, identifier: str) -> Iterator[None]:
    """Change an experiment all the time, so that its streams have something to say."""
    done = threading.Event()

    def change() -> None:
        claim = store.claim(identifier, "benchmark", 3600.0)
        for state in itertools.cycle(("running", "stopped")):
            if done.wait(0.2):
                return
            store.update(identifier, claim=claim, state=state)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def service(folder: Path) -> Iterator[tuple[int, int]]:
    """Start a service on a port and give that, and the number of its process."""
    command = [sys.executable, "-P", "-m", "stripewise", "serve", "--host", "127.0.0.1", "--port", "0"]
    command += ["--workers", "0", "--store", f"sqlite:///{folder}/s.db", "--data", str(folder / "data")]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if line.startswith("listening"))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield int(line.partition(";")[0].rpartition(":")[2]), process.pid
        finally:
            process.terminate()


def measured(slow: int, users: int, seconds: float) -> dict[str, Any]:
    """Let users work without and with slow connections, and give how long they waited."""
    with tempfile.TemporaryDirectory(prefix="sws") as text, contextlib.ExitStack() as stack:
        folder = Path(text)
        store = stack.enter_context(open_store(f"sqlite:///{folder}/s.db"))
        identifiers = fill(store, 20, 100)
        tokens = Tokens(database_of(store))
        working = [tokens.create(f"user {number}", "operator")[1] for number in range(users)]
        slowly = [tokens.create(f"slow {number}", "operator")[1] for number in range(slow // _STREAMS + 1)]
        watched = store.records("stopped", limit=1)[0].id
        port, pid = stack.enter_context(service(folder))
        stack.enter_context(changing(store, watched))
        people = Users(port, working, [one for one in identifiers if one != watched])
        # The first answers load modules and draw figures.
        people.work(3.0)
        alone = _figures(pid, lambda: people.work(seconds))
        with held(Slow(port, slowly, watched), slow):
            time.sleep(5.0 + slow / 100)
            beside = _figures(pid, lambda: people.work(seconds))
    promised = beside["max_ms"] <= _WANTED_MS
    return {"held": promised, "slow": slow, "users": users, "alone": alone, "beside slow connections": beside}


def _processor(pid: int) -> tuple[float, float]:
    """Seconds in which a process had a processor, and in which it waited for one."""
    lines = [path.read_text("ascii").split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(line[0]) for line in lines) / 1e9, sum(int(line[1]) for line in lines) / 1e9


def _figures(pid: int, work: Callable[[], list[float]]) -> dict[str, float]:
    before = _processor(pid)
    waits = sorted(work())
    used, waited = (after - then for after, then in zip(_processor(pid), before, strict=True))
    percentile = waits[min(len(waits) - 1, int(0.99 * len(waits)))]
    return {
        "requests": len(waits),
        "median_ms": round(1e3 * statistics.median(waits), 1),
        "p99_ms": round(1e3 * percentile, 1),
        "max_ms": round(1e3 * waits[-1], 1),
        "over_a_second": sum(wait > 1.0 for wait in waits),
        "server_used_processor_seconds": round(used, 1),
        "server_waited_for_processor_seconds": round(waited, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    found = measured(given.slow, given.users, given.seconds)
    json.dump(found, sys.stdout, indent=2)
    longest = found["beside slow connections"]["max_ms"]
    words = "held: no user waited longer than" if found["held"] else "broken: a user waited longer than"
    sys.stdout.write(f"\n{words} {_WANTED_MS:g} ms beside {given.slow} slow connections (longest {longest:g} ms)\n")
    sys.exit(0 if found["held"] else 1)


if __name__ == "__main__":
    main()
