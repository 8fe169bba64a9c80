"""Connections to SQLite and PostgreSQL, set up so that nothing accepted is lost and nothing half done is seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stripewise.errors import StoreError, UserError
from stripewise.store.faults import explained
from stripewise.store.folders import make_folder, sync_folder

BUSY_SECONDS = 30.0
"""How long a writer waits for another."""

_CONNECT_SECONDS = 10


def sqlite_engine(path: Path | None) -> sa.Engine:
    """Prepare a SQLite database, without touching it.

    Parameters
    ----------
    path : Path or None
        None for one in memory.
    """
    if path is None:
        engine = sa.create_engine("sqlite://", poolclass=sa.pool.StaticPool, connect_args={"check_same_thread": False})
    else:
        url = sa.URL.create("sqlite", database=str(path))
        engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        # The driver's own idea of when a transaction begins is too late for a reader that goes on to write.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")
        if path is not None:
            connection.execute("PRAGMA journal_mode = WAL")
            # In WAL mode anything less forgets the last commits when the power fails.
            connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def create_file(path: Path) -> None:
    """Make the file of a database, and its folder, for its owner alone.

    Raises
    ------
    StoreError
        If it cannot be made or written.
    """
    with explained(str(path)):
        make_folder(path.parent)
        new = not path.exists()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if new:
            sync_folder(path.parent)
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise StoreError(
                f"store {path}: its folder is read-only, and SQLite must write beside the file",
                "make the folder writable, or choose another store with --store",
            )


def postgresql_engine(text: str) -> sa.Engine:
    """Prepare a PostgreSQL database, without connecting.

    Raises
    ------
    UserError
        If the address cannot be read or the driver is missing.
    """
    try:
        url = sa.make_url(text.replace("postgres://", "postgresql://", 1))
    except (sa.exc.ArgumentError, ValueError):
        # The parser repeats the address, and with it the password.
        raise UserError(
            "the address of the PostgreSQL store cannot be read", "write postgresql://USER@HOST:PORT/DATABASE"
        ) from None
    if url.get_backend_name() != "postgresql":
        raise UserError(f"a store of kind '{url.get_backend_name()}' is unknown", "use sqlite, postgresql or journal")
    try:
        return sa.create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            connect_args={"connect_timeout": _CONNECT_SECONDS, "application_name": "stripewise"},
        )
    except ModuleNotFoundError as error:
        raise UserError(
            "the PostgreSQL driver psycopg is not installed", "install it: pip install 'stripewise[postgresql]'"
        ) from error
    except (sa.exc.ArgumentError, TypeError, ValueError):
        raise UserError(
            "the address of the PostgreSQL store has an option that is unknown",
            "write postgresql://USER@HOST:PORT/DATABASE",
        ) from None


def shown(url: sa.URL) -> str:
    """Write an address without its password, wherever it stands."""
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(drivername=url.get_backend_name(), query=query).render_as_string(hide_password=True)
