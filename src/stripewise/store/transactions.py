"""Transactions of a database store: one at a time where they write, tried again where a server was away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa

from stripewise.store.faults import disconnected, explained

T = TypeVar("T")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class Transactions:
    """Runs functions in transactions.

    Parameters
    ----------
    engine : Engine
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
        with explained(self._where), self._turn:
            while True:
                try:
                    with engine.begin() as connection:
                        return work(connection, again)
                except sa.exc.DBAPIError as error:
                    if not disconnected(error) or time.monotonic() + pause > deadline:
                        raise
                time.sleep(pause)
                pause, again = min(2 * pause, _LONGEST_PAUSE), True
