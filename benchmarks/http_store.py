"""A store with a latency that is read by HTTP: each request waits, and the bytes of all go through one pipe.

As with an object store, any number of requests may be under way, and each may ask for a range of a file.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    latency: float
    rate: float
    lock = threading.Lock()
    free = 0.0

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        path = self.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start = int(found[1]) if found else 0
        end = min(int(found[2] or size - 1), size - 1) if found else size - 1
        if start > end:
            self.send_error(416)
            return
        count = end + 1 - start
        with self.lock:
            _Handler.free = max(time.monotonic() + self.latency, self.free) + (count / self.rate if body else 0)
            until = self.free
        time.sleep(max(0.0, until - time.monotonic()))
        self.send_response(206 if found else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(count))
        if found:
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        self.end_headers()
        if body:
            with path.open("rb") as file, suppress(ConnectionError):  # the reader has gone on
                file.seek(start)
                self.wfile.write(file.read(count))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def http_store(folder: Path, port: int, latency: float, rate: float) -> Iterator[None]:
    """Serve the files of a folder on this host.

    Parameters
    ----------
    folder : Path
    port : int
        Where it listens.
    latency : float
        Seconds of each request.
    rate : float
        Bytes a second, of all readers together.
    """
    command = [sys.executable, __file__, str(folder), str(port), str(latency), str(rate)]
    server = Popen(command, stdout=PIPE)
    try:
        assert server.stdout is not None
        if server.stdout.readline() != b"ready\n":
            raise OSError(f"no store could be served on port {port}")
        yield
    finally:
        server.terminate()
        server.wait()


def _main(folder: str, port: str, latency: str, rate: str) -> None:
    _Handler.folder, _Handler.latency, _Handler.rate = Path(folder), float(latency), float(rate)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), _Handler)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _main(*sys.argv[1:])
