"""Where the killed experiments are kept: SQLite, a journal, PostgreSQL, and a journal on a slow shared file system."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.postgresql import find_programs, private_server

from benchmarks.kills.delayed import bind_alone, unmount

DELAY = 5.0
"""Seconds for which a client of the slow file system believes what it remembers."""
LOST = 0.2
"""Share of its openings that do not ask the server."""


@dataclass(frozen=True)
class Storage:
    """A store as the tuners and the observer reach it.

    Attributes
    ----------
    address : str
        As the tuners name it.
    seen : str
        As the observer names it: past all caches.
    clients : tuple of (callable or None)
        What a tuner does before anything else, one for each host that is simulated; tuners take turns.
    views : tuple of str
        Addresses as each client sees it; looking through them fills its caches.
    workers : bool
        Whether workers of the service can take experiments from it.
    scratch : Path or None
        Where the folders of runs are, if not where they are by default.
    """

    address: str
    seen: str
    clients: tuple[Callable[[], None] | None, ...] = (None,)
    views: tuple[str, ...] = field(default=())
    workers: bool = False
    scratch: Path | None = None


@contextlib.contextmanager
def sqlite(folder: Path, seed: int) -> Iterator[Storage]:
    """Keep them in a file."""
    address = f"sqlite:///{folder}/store.db"
    yield Storage(address, address, workers=True)


@contextlib.contextmanager
def journal(folder: Path, seed: int) -> Iterator[Storage]:
    """Keep them in a folder."""
    address = f"journal:{folder}/journal"
    yield Storage(address, address)


@contextlib.contextmanager
def postgresql(folder: Path, seed: int) -> Iterator[Storage]:
    """Keep them on a private server."""
    programs = find_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL's server is not installed: apt-get install postgresql")
    with private_server(programs) as server:
        server.sql("CREATE DATABASE store")
        yield Storage(server.url("store"), server.url("store"), workers=True)


@contextlib.contextmanager
def nfs(folder: Path, seed: int) -> Iterator[Storage]:
    """Keep them in a folder that two clients share and see late; both name it alike."""
    server, shared = folder / "server", folder / "shared"
    clients = [folder / "client0", folder / "client1"]
    for path in (server, shared, *clients):
        path.mkdir()
    with contextlib.ExitStack() as stack:
        for number, client in enumerate(clients):
            stack.enter_context(mounted(server, client, seed + number))
        yield Storage(
            f"journal:{shared}/journal",
            f"journal:{server}/journal",
            tuple(functools.partial(bind_alone, client, shared) for client in clients),
            tuple(f"journal:{client}/journal" for client in clients),
            scratch=shared / "scratch",
        )


@contextlib.contextmanager
def mounted(server: Path, client: Path, seed: int, delay: float = DELAY, lost: float = LOST) -> Iterator[None]:
    """Mount the slow file system.

    Raises
    ------
    RuntimeError
        If it cannot be mounted.
    """
    options = ["--delay", str(delay), "--lost", str(lost), "--seed", str(seed)]
    command = [sys.executable, "-m", "benchmarks.kills.delayed", str(server), str(client), *options]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 30
            while not os.path.ismount(client):
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    said = process.stderr.read().strip() if process.stderr else ""
                    raise RuntimeError(f"the slow file system cannot be mounted: {said.rpartition(chr(10))[2]}")
                time.sleep(0.05)
            yield
        finally:
            unmount(client)
            process.terminate()


STORAGES: dict[str, Callable[[Path, int], AbstractContextManager[Storage]]] = {
    "sqlite": sqlite,
    "journal": journal,
    "postgresql": postgresql,
    "nfs": nfs,
}
