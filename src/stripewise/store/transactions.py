"""Transactions of a database store: one at a time where they write, tried again where a server was away.

SQLite is set up so that nothing accepted is lost and nothing half done is seen.

What a database says when something is wrong, in words that tell its reader what to do.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa

from stripewise.errors import StoreError, StripewiseError, TransientError

_CHOOSE = "or choose another store with --store"
_RESUME = "then continue with: stripewise resume ID"

_SQLITE: tuple[tuple[str, type[StripewiseError], str, str], ...] = (
    ("SQLITE_FULL", StoreError, "its disk is full", f"make room, {_RESUME}"),
    ("SQLITE_READONLY", StoreError, "it is read-only", f"make the file and its folder writable, {_CHOOSE}"),
    ("SQLITE_CANTOPEN", StoreError, "it cannot be opened", f"check the path and the right to write there, {_CHOOSE}"),
    ("SQLITE_PERM", StoreError, "its use is not permitted", f"check who owns the file, {_CHOOSE}"),
    ("SQLITE_NOTADB", StoreError, "it is not a SQLite database", f"is it the right file? Move it away, {_CHOOSE}"),
    ("SQLITE_CORRUPT", StoreError, "it is damaged", "restore a copy, or save the readable part: sqlite3 FILE .recover"),
    ("SQLITE_BUSY", TransientError, "another process has been writing to it for too long", "try again"),
    ("SQLITE_LOCKED", TransientError, "another thread has been writing to it for too long", "try again"),
    ("SQLITE_IOERR", StoreError, "the disk refuses it", f"check free space, quota and disk, {_RESUME}"),
    (
        "SQLITE_ERROR",
        StoreError,
        "its tables are not as they should be",
        "restore a copy; no other program may change it",
    ),
)

_POOLED = ("a pooler before it gives one session to several clients", "use the server itself, or: pool_mode = session")

_CANCELLED = "57014"

_POSTGRESQL: tuple[tuple[str, type[StripewiseError], str, str], ...] = (
    ("53100", StoreError, "the server's disk is full", f"make room there, {_RESUME}"),
    ("53", TransientError, "the server is out of resources", f"try again later, {_RESUME}"),
    ("25006", StoreError, "it is read-only", f"connect to the primary server, {_CHOOSE}"),
    ("28", StoreError, "the server refuses the user", "check the user's name, and the password in ~/.pgpass"),
    ("3D", StoreError, "the database does not exist", "create it with: createdb NAME"),
    ("42P05", StoreError, *_POOLED),
    ("26", StoreError, *_POOLED),
    ("42501", StoreError, "the user may not do this", "grant the user all rights on the database and its schema"),
    ("42", StoreError, "its tables are not as they should be", "restore a copy; no other program may change it"),
    ("40", TransientError, "two writers stood in each other's way", "try again"),
    ("55P03", TransientError, "another writer holds a lock", "try again"),
    (_CANCELLED, TransientError, "the server ended a statement", f"raise its statement_timeout, {_RESUME}"),
    ("57", TransientError, "the server is shutting down or starting", f"wait until it runs, {_RESUME}"),
    ("08", TransientError, "the connection to the server broke", f"check that it runs, {_RESUME}"),
    ("XX", StoreError, "it is damaged", "ask the server's administrator; restore a copy"),
)

_SYSTEM: tuple[tuple[tuple[int, ...], str, str], ...] = (
    ((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "its disk is full", f"make room, {_RESUME}"),
    ((errno.EROFS,), "it is read-only", f"mount it for writing, {_CHOOSE}"),
    ((errno.EACCES, errno.EPERM), "it may not be read or written", f"check who owns it and its permissions, {_CHOOSE}"),
    ((errno.ENOTDIR, errno.EEXIST), "a file is where a folder should be", f"move it away, {_CHOOSE}"),
    ((errno.EISDIR,), "a folder is where a file should be", f"move it away, {_CHOOSE}"),
    ((errno.EIO, errno.ESTALE), "the disk refuses it", f"check the disk or its server, {_RESUME}"),
)

_UNREACHABLE = (
    ("password authentication failed", "28"),
    ("no password supplied", "28"),
    ('role "', "28"),
    ("does not exist", "3D"),
    ("pg_hba.conf", "28"),
    ("starting up", "57"),
    ("shutting down", "57"),
    ("too many clients", "53"),
)
"""A connection that was never made has no code, only the server's words."""


@contextmanager
def explain_errors(where: str) -> Iterator[None]:
    """Turn whatever a database or a file system raises inside into an error of ours.

    Parameters
    ----------
    where : str
        The store's address as it may be shown.
    """
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        raise explain(error, where) from error
    except OSError as error:
        raise explain_system(error, where) from error


def explain_system(error: OSError, where: str) -> StoreError:
    """Say what an error of the operating system means for a store."""
    said = error.strerror or str(error)
    place = f" at {error.filename}" if error.filename and str(error.filename) not in where else ""
    for numbers, what, fix in _SYSTEM:
        if error.errno in numbers:
            return StoreError(f"store {where}: {what}{place} ({said})", fix)
    return StoreError(f"store {where} cannot be used{place}: {said}", f"check the path, {_CHOOSE}")


def explain(error: BaseException, where: str) -> StripewiseError:
    """Say what a database's error means."""
    original = getattr(error, "orig", None) or error
    said = _first_line(original)
    name = getattr(original, "sqlite_errorname", None)
    if name is not None:
        for beginning, kind, what, fix in _SQLITE:
            if name.startswith(beginning):
                return kind(f"store {where}: {what} ({said})", fix)
    state = _sqlstate(original)
    for beginning, kind, what, fix in _POSTGRESQL:
        if state.startswith(beginning):
            return kind(f"store {where}: {what} ({said})", fix)
    if isinstance(error, sa.exc.TimeoutError):
        return TransientError(f"store {where}: too many threads use it at once", "try again")
    if isinstance(error, sa.exc.OperationalError) and name is None and not isinstance(original, sqlite3.Error):
        return TransientError(
            f"store {where}: the server cannot be reached ({said})", "check its address and that it runs"
        )
    return StoreError(f"store {where} cannot be read or written: {said}", f"check it, {_CHOOSE}")


def is_disconnected(error: BaseException) -> bool:
    """Whether the connection to a server broke or could not be made, so that another try may succeed."""
    if getattr(error, "connection_invalidated", False):
        return True
    if not isinstance(error, sa.exc.OperationalError) or isinstance(error.orig, sqlite3.Error):
        return False
    state = _sqlstate(error.orig)
    return state[:2] in ("", "08", "57") and state != _CANCELLED


def _sqlstate(original: BaseException | None) -> str:
    state = getattr(original, "sqlstate", None)
    if isinstance(state, str):
        return state
    said = str(original)
    return next((code for words, code in _UNREACHABLE if words in said and not isinstance(original, sqlite3.Error)), "")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


T = TypeVar("T")

_UNDONE = ("40001", "40P01")
"""Codes of a transaction that the server undid for the sake of another one, as in a deadlock."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


BUSY_SECONDS = 30.0
"""How long a writer waits for another."""


def sqlite_engine(path: Path | None, *, reading: bool = False) -> sa.Engine:
    """Prepare a SQLite database, without touching it.

    Parameters
    ----------
    path : Path or None
        None for one in memory.
    reading : bool
        For a file that this process may not write, or not write beside.
    """
    if path is not None and reading:
        log = path.with_name(f"{path.name}-wal")
        # Without a log of changes nobody is writing, and SQLite needs no file beside it to agree with writers.
        alone = not log.exists() or log.stat().st_size == 0
        uri = f"file:{quote(str(path))}?mode=ro{'&immutable=1' if alone else ''}"
        engine = sa.create_engine(
            "sqlite://",
            poolclass=sa.pool.QueuePool,
            creator=lambda: sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False),
        )
    elif path is None:
        engine = sa.create_engine("sqlite://", poolclass=sa.pool.StaticPool, connect_args={"check_same_thread": False})
    else:
        url = sa.URL.create("sqlite", database=str(path))
        # As many as a service has threads: none of them waits for a connection.
        pool = {"pool_size": 10, "max_overflow": 40}
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}, **pool)

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        # The driver's own idea of when a transaction begins is too late for a reader that goes on to write.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        if path is not None and not reading:
            connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode anything less forgets the last commits when the power fails.
            connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


class Transactions:
    """Runs functions in transactions.

    Parameters
    ----------
    where : str
        The store's address as it may be shown.
    clock : callable or None
        Epoch seconds; by default the server's clock where there is a server, so that hosts need not agree.
    patience : float
        Seconds for which a lost connection is tried again.
    """

    def __init__(self, engine: sa.Engine, where: str, clock: Callable[[], float] | None, patience: float) -> None:
        self._engine = engine
        self._writing = engine.execution_options(writing=True)
        self._where = where
        self._patience = patience
        self._clock = time.time if clock is None and engine.dialect.name == "sqlite" else clock
        # A database in memory has one connection for all threads.
        alone = isinstance(engine.pool, sa.pool.StaticPool)
        self._turn: contextlib.AbstractContextManager[object] = threading.RLock() if alone else contextlib.nullcontext()
        # SQLite lets those who want to write sleep and look again, up to 100 ms, without an order. Threads of one
        # process wait for one another here instead, and only for other processes there.
        lonely = engine.dialect.name == "sqlite" and not alone
        self._writers: contextlib.AbstractContextManager[object] = threading.RLock() if lonely else self._turn

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run a function that sees one state of the database."""
        return self._patiently(self._engine, lambda connection, again: work(connection))

    def all(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        """Give all rows of a query."""
        return self.read(lambda connection: connection.execute(query).all())

    def first(self, query: sa.Select[Any]) -> sa.Row[Any] | None:
        """Give the first row of a query; None if it has none."""
        return self.read(lambda connection: connection.execute(query).first())

    def execute(self, change: sa.Update | sa.Delete) -> int:
        """Make a change that may be made twice; gives how many rows it met."""
        return self.write(lambda connection, again: connection.execute(change).rowcount)

    def write(self, work: Callable[[sa.Connection, bool], T]) -> T:
        """Run a function whose changes are kept whole or not at all.

        Its second argument says whether an earlier try may have been committed although its answer was lost.
        """
        with self._writers:
            return self._patiently(self._writing, work)

    def now(self, connection: sa.Connection) -> float:
        """Give the time that leases are judged by."""
        if self._clock is not None:
            return self._clock()
        epoch = sa.extract("epoch", sa.func.clock_timestamp())
        return float(connection.execute(sa.select(epoch)).scalar_one())

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _patiently(self, engine: sa.Engine, work: Callable[[sa.Connection, bool], T]) -> T:
        deadline = time.monotonic() + self._patience
        pause, again = _FIRST_PAUSE, False
        with explain_errors(self._where), self._turn:
            while True:
                try:
                    with engine.begin() as connection:
                        return work(connection, again)
                except sa.exc.DBAPIError as error:
                    undone = _sqlstate(error.orig) in _UNDONE
                    if not (undone or is_disconnected(error)) or time.monotonic() + pause > deadline:
                        raise
                    again = again or not undone
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
