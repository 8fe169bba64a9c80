"""From a store's address to the store."""

from __future__ import annotations

import os
from pathlib import Path

from stripewise.errors import UserError
from stripewise.store.base import MEMORY, Store
from stripewise.store.engines import create_file, postgresql_engine, shown, sqlite_engine
from stripewise.store.faults import explained
from stripewise.store.journal import JournalStore
from stripewise.store.journal_files import prepare_folder
from stripewise.store.locality import Statfs, check_local, statfs_type
from stripewise.store.sql import SqlStore
from stripewise.store.upgrade import upgrade

_KINDS = "use sqlite:///FILE.db, postgresql://USER@HOST/DATABASE or journal:FOLDER"


def default_path() -> Path:
    """Give the file of the store that is used when none is named, under the XDG data folder."""
    folder = os.environ.get("XDG_DATA_HOME", "")
    # A relative XDG folder is to be ignored, says its specification.
    base = Path(folder) if folder.startswith("/") else Path.home() / ".local" / "share"
    return base / "stripewise" / "stripewise.db"


def open_store(url: str | None = None, *, statfs: Statfs = statfs_type) -> Store:
    """Open a store; it is made if it does not exist, and upgraded if an older version made it.

    Parameters
    ----------
    url : str, optional
        ``sqlite:///FILE``, the path of a ``.db`` file, ``sqlite:///:memory:``, ``postgresql://...`` or
        ``journal:FOLDER``; by default :func:`default_path`.
    statfs : callable
        Tells the type of the file system of a folder.

    Raises
    ------
    UserError
        If the address cannot be read.
    StoreError
        If the store cannot be opened, written or understood, or does not belong where it is.
    """
    if url is None:
        return _open_sqlite(default_path(), statfs)
    if url == MEMORY:
        return _open_memory()
    if url.startswith("sqlite:///"):
        return _open_sqlite(_path(url.removeprefix("sqlite:///"), url), statfs)
    if url.startswith("journal:"):
        return _open_journal(_path(url.removeprefix("journal:"), url))
    if url.startswith(("postgresql:", "postgresql+psycopg:", "postgres:")):
        return _open_postgresql(url)
    if "://" not in url and url.endswith(".db"):
        return _open_sqlite(_path(url, url), statfs)
    # All of it is not repeated: there may be a password in it.
    kind = url.partition("://")[0] if "://" in url else url.partition(":")[0]
    raise UserError(f"the store's address '{kind}...' is of no known kind", _KINDS)


def _path(text: str, url: str) -> Path:
    if not text or "\0" in text:
        raise UserError(f"the store's address '{url}' names no file", _KINDS)
    return Path(text).expanduser().absolute()


def _open_memory() -> Store:
    engine = sqlite_engine(None)
    upgrade(engine.execution_options(writing=True), MEMORY)
    return SqlStore(engine, MEMORY)


def _open_sqlite(path: Path, statfs: Statfs) -> Store:
    check_local(path, statfs)
    create_file(path)
    engine = sqlite_engine(path)
    url = f"sqlite:///{path}"
    with explained(url):
        upgrade(engine.execution_options(writing=True), url)
    return SqlStore(engine, url)


def _open_journal(folder: Path) -> Store:
    prepare_folder(folder)
    return JournalStore(folder)


def _open_postgresql(text: str) -> Store:
    engine = postgresql_engine(text)
    url = shown(engine.url)
    with explained(url):
        upgrade(engine.execution_options(writing=True), url)
    return SqlStore(engine, url)
