"""From a store's address to the store, whose database is brought to the newest schema.

Is a folder on this machine's own storage? SQLite's locks and shared memory work nowhere else.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stripewise.catalogue.filesystems import network_label
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.errors import StoreError, UserError, import_optional, pip_install
from stripewise.ownership import check_own, everyone_can_write
from stripewise.store.base import MEMORY, Store
from stripewise.store.journal import JournalStore
from stripewise.store.journal_files import make_folder, prepare_folder, sync_folder
from stripewise.store.schema import HEAD, VERSION_TABLE, metadata
from stripewise.store.sql import SqlStore
from stripewise.store.transactions import BUSY_SECONDS, explain_errors, sqlite_engine

Statfs = Callable[[Path], int]
"""Gives the type of the file system that a folder lies on, as statfs(2) says it."""

_FUSE = 0x65735546
# What FUSE carries is only told by the mount: these stay on the machine, or on the host of a virtual one.
_LOCAL_FUSE = ("fuseblk", "virtiofs", "fuse.fuse-overlayfs", "fuse.ntfs", "fuse.ext", "fuse.gocryptfs", "fuse.encfs")


class _Statfs(ctypes.Structure):
    # Only the first field is read; the rest is room for every architecture's layout.
    _fields_ = (("f_type", ctypes.c_long), ("rest", ctypes.c_char * 512))


def statfs_type(folder: Path) -> int:
    """Ask the kernel for the type of a file system.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be reached.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = _Statfs()
    if libc.statfs(os.fsencode(folder), ctypes.byref(buffer)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
    return int(buffer.f_type) & 0xFFFFFFFF


def network_name(folder: Path, statfs: Statfs = statfs_type) -> str:
    """Give the name of the network file system that a folder is on, or an empty text if its storage is local.

    A folder that does not exist yet is judged by its nearest parent that does.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    kind = statfs(folder)
    if kind == _FUSE:
        mount = mount_type(folder) or "fuse"
        return "" if mount.startswith(_LOCAL_FUSE) else f"FUSE ({mount.removeprefix('fuse.')})"
    return network_label(kind)


def check_local(path: Path, statfs: Statfs = statfs_type) -> None:
    """Refuse to keep a SQLite database on a network file system.

    Raises
    ------
    StoreError
        With the file system's name and what to use instead.
    """
    try:
        # The file itself may be a link to elsewhere.
        name = network_name(path.resolve().parent, statfs)
    except OSError as error:
        raise StoreError(f"store {path} cannot be reached: {error.strerror}", "check the path") from error
    if name:
        raise StoreError(
            f"store {path} lies on {name}, where SQLite's locks do not hold and two hosts could destroy it",
            f"use --store journal:{path.parent / 'journal'} (or set STRIPEWISE_STORE to that), a local folder "
            "(XDG_DATA_HOME), or a PostgreSQL server",
        )


_MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x53575250
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 30
_KINDS = "use sqlite:///FILE.db, postgresql://USER@HOST/DATABASE or journal:FOLDER"


def upgrade(engine: sa.Engine, where: str, schema: str | None = None) -> None:
    """Create the tables in an empty database, and upgrade older ones.

    Parameters
    ----------
    engine : Engine
        Whose transactions are writing ones from their beginning.
    where : str
        The store's address as it may be shown.
    schema : str, optional
        Of a database that has several: where the tables are, or will be.

    Raises
    ------
    StoreError
        If the database belongs to another program, or a newer version of this one has written it.
    """
    with engine.connect() as connection:
        if _version(connection, where, schema) == HEAD:
            return
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Of several that open an old database at once, one upgrades it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        version = _version(connection, where, schema)
        if version is None and connection.dialect.name == "sqlite":
            _create(connection)
        elif version != HEAD:
            _migrate(connection, version, where, schema)
        # Others may have got rights on what was made, by what the database gives them.
        _version(connection, where, schema)


def _version(connection: sa.Connection, where: str, schema: str | None = None) -> str | None:
    """Give the schema's version, None for a database without our tables."""
    if schema is None:
        tables = set(sa.inspect(connection).get_table_names())
    else:
        # Only what one look has found and trusts is read: others may make the rest at any time.
        tables = _trusted_tables(connection, schema, where)
    if VERSION_TABLE not in tables:
        # A file is ours alone; on a server, others may have tables beside ours.
        foreign = tables if connection.dialect.name == "sqlite" else tables & set(metadata.tables)
        if foreign:
            raise StoreError(
                f"store {where} is a database of another program: it has a table '{min(foreign)}'",
                "choose another file or database with --store",
            )
        return None
    row = connection.execute(sa.select(sa.table(VERSION_TABLE, sa.column("version_num"), schema=schema))).first()
    if row is None:
        raise StoreError(f"store {where} does not say its version", "restore a copy")
    missing = metadata.tables.keys() - tables
    if row[0] == HEAD and missing:
        raise StoreError(f"store {where} has lost its table '{min(missing)}'", "restore a copy")
    return str(row[0])


def _create(connection: sa.Connection) -> None:
    """Make at once what the migrations make one by one: most stores are new, and Alembic takes long to load."""
    for statement in _statements():
        connection.exec_driver_sql(statement)
    connection.execute(sa.text(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES (:head)"), {"head": HEAD})


@functools.cache
def _statements() -> tuple[str, ...]:
    """Give what creates the tables in SQLite; making the statements takes longer than carrying them out."""
    made: list[str] = []
    dialect = sa.create_engine("sqlite://").dialect
    engine = sa.create_mock_engine("sqlite://", lambda one, *_: made.append(str(one.compile(dialect=dialect))))
    metadata.create_all(engine, checkfirst=False)
    _version_table(None).create(engine, checkfirst=False)
    return tuple(made)


def _version_table(schema: str | None) -> sa.Table:
    key = sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc")
    column = sa.Column("version_num", sa.String(32), nullable=False)
    return sa.Table(VERSION_TABLE, sa.MetaData(), column, key, schema=schema)


def _migrate(connection: sa.Connection, version: str | None, where: str, schema: str | None) -> None:
    # Alembic takes longer to load than an upgraded store takes to open.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, schema=schema)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise StoreError(
            f"store {where} was written by a newer Stripewise (its schema is {version}, this one knows {HEAD})",
            f"update it {pip_install()}",
        )
    if version is None:
        # Alembic would use one that another user has just made.
        _version_table(schema).create(connection, checkfirst=False)
    command.upgrade(config, "head")


def create_file(path: Path) -> None:
    """Make the file of a database, and its folder, for its owner alone.

    Raises
    ------
    StoreError
        If it cannot be made or written.
    """
    with explain_errors(str(path)):
        make_folder(path.parent)
        new = not path.exists()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        if new:
            sync_folder(path.parent)


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
    if "@" in (url.host or ""):
        # What stands before it is the rest of a password, which messages would show.
        raise UserError("the address of the PostgreSQL store has more than one @", "write %40 for each @ in a password")
    if url.get_backend_name() != "postgresql":
        raise UserError(f"a store of kind '{url.get_backend_name()}' is unknown", "use sqlite, postgresql or journal")
    try:
        with import_optional("postgresql"):
            engine = sa.create_engine(
                url.set(drivername="postgresql+psycopg"),
                pool_pre_ping=True,
                # Looking for its type would call operators of other users, before anything is known of the database.
                use_native_hstore=False,
                # Rows are locked where it matters; what a server may have as its default fails beside other writers.
                isolation_level="READ COMMITTED",
                connect_args={
                    "connect_timeout": _CONNECT_SECONDS,
                    "application_name": "stripewise",
                    # The server, the database or PGCLIENTENCODING may name one that does not have every character.
                    "client_encoding": "utf8",
                    # A network that silently loses everything would hold a command for a quarter of an hour.
                    "tcp_user_timeout": 1000 * _SILENT_SECONDS,
                    "keepalives_idle": _SILENT_SECONDS // 2,
                    "keepalives_interval": _SILENT_SECONDS // 6,
                    "keepalives_count": 3,
                },
            )
    except (sa.exc.ArgumentError, TypeError, ValueError):
        raise UserError(
            "the address of the PostgreSQL store has an option that is unknown",
            "write postgresql://USER@HOST:PORT/DATABASE",
        ) from None

    @sa.event.listens_for(engine, "connect", insert=True)
    def _search_nothing(connection: Any, _: Any) -> None:
        # SQLAlchemy asks the first connection for the schema, by a function that others may have made as well.
        connection.execute("SET search_path = pg_catalog")
        connection.commit()

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _: Any) -> None:
        connection.execute("RESET search_path")
        # The server waits for ever, and any role of the database may hold the lock of those who upgrade it.
        connection.execute(f"SET lock_timeout = {round(1000 * BUSY_SECONDS)}")
        # A role, a database or PGOPTIONS may ask for fewer digits, and every time would be read back rounded.
        connection.execute("SET extra_float_digits = 3")
        connection.commit()

    return engine


def hide_password(url: sa.URL) -> str:
    """Write an address without its password, wherever it stands."""
    query = {name: "***" if "pass" in name.lower() else value for name, value in url.query.items()}
    return url.set(drivername=url.get_backend_name(), query=query).render_as_string(hide_password=True)


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
        path = default_path()
        if path.exists():
            # What it holds is run when it is resumed; a store that others may write is one that somebody names.
            check_own(path, "the store")
        return _open_sqlite(path, statfs)
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
    _check_folder(path)
    url = f"sqlite:///{path}"
    if _only_readable(path):
        engine = sqlite_engine(path, reading=True)
        with explain_errors(url), engine.connect() as connection:
            if _version(connection, url) != HEAD:
                raise StoreError(
                    f"store {url} is of another version of Stripewise, and cannot be upgraded: it is read-only",
                    "make the file and its folder writable",
                )
        return SqlStore(engine, url)
    create_file(path)
    engine = sqlite_engine(path)
    with explain_errors(url):
        upgrade(engine.execution_options(writing=True), url)
    return SqlStore(engine, url)


def _check_folder(path: Path) -> None:
    """Refuse a folder in which every user can make files: SQLite takes a log beside a database for its own.

    Raises
    ------
    StoreError
        With where to put the store.
    """
    for folder in (path.parent, path.resolve().parent):
        if folder.is_dir() and everyone_can_write(folder):
            raise StoreError(
                f"everyone can write in {folder}, and so replace what store {path} holds",
                f"keep it in a folder of your own, and name that with --store, as {folder}/USER/{path.name}",
            )


def _only_readable(path: Path) -> bool:
    """Whether a file can be read, but it or its folder not written."""
    return os.access(path, os.R_OK) and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK))


def _open_journal(folder: Path) -> Store:
    prepare_folder(folder)
    return JournalStore(folder)


def _open_postgresql(text: str) -> Store:
    engine = postgresql_engine(text)
    url = hide_password(engine.url)
    with explain_errors(url):
        engine, schema = _bind_schema(engine, url)
        upgrade(engine.execution_options(writing=True), url, schema)
    return SqlStore(engine, url)


def _bind_schema(engine: sa.Engine, url: str) -> tuple[sa.Engine, str]:
    """Choose the schema that holds the store, or will, and give an engine whose statements name it.

    Statements find tables there, and functions, operators and types in PostgreSQL's own schema: whatever others create
    elsewhere, these never call it.
    """
    with engine.connect() as connection:
        # The name is read by itself: an operator that compares it could be another user's.
        path = connection.exec_driver_sql("SELECT pg_catalog.current_schemas(FALSE)").scalar_one()
        connection.exec_driver_sql("SET LOCAL search_path = pg_catalog")
        named = [name for name in path if not name.startswith("pg_")]
        held = [name for name in named if sa.inspect(connection).has_table(VERSION_TABLE, schema=name)]
    if not named:
        raise StoreError(
            f"{url}: the user's search path names no schema that exists and may be used",
            "grant the user all rights on a schema: GRANT ALL ON SCHEMA public TO USER",
        )

    @sa.event.listens_for(engine, "begin")
    def _search_nothing_else(connection: sa.Connection) -> None:
        # A pooler may give each transaction another session, which others have set.
        connection.exec_driver_sql("SET LOCAL search_path = pg_catalog")

    schema = sa.quoted_name([*held, *named][0], quote=True)
    return engine.execution_options(schema_translate_map={None: schema}), schema


_STRANGERS = """
    WITH ours AS (
        SELECT c.oid, c.relname, c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = :schema AND c.relname = ANY (CAST(:names AS text[]))
    ), writer AS MATERIALIZED (
        SELECT r.oid FROM pg_roles r JOIN ours t ON t.relname = 'experiments'
        WHERE has_table_privilege(r.oid, t.oid, 'UPDATE')
    ), stranger AS MATERIALIZED (
        SELECT r.oid, r.rolname, EXISTS (SELECT FROM writer w WHERE pg_has_role(r.oid, w.oid, 'MEMBER')) AS writes
        FROM pg_roles r, pg_database d WHERE d.datname = current_database() AND r.rolcanlogin AND NOT r.rolsuper
        AND NOT pg_has_role(r.oid, d.datdba, 'MEMBER') AND NOT pg_has_role(r.oid, session_user, 'MEMBER')
    ), might AS MATERIALIZED (
        SELECT relowner AS maker, TRUE AS owns, 'owns the table ' || relname AS what FROM ours
        UNION ALL SELECT nspowner, FALSE, 'owns the schema ' || nspname FROM pg_namespace WHERE nspname = :schema
        UNION ALL SELECT r.oid, FALSE, 'may make triggers of or references to the table ' || t.relname
        FROM ours t, pg_roles r WHERE NOT r.rolsuper AND (
            has_table_privilege(r.oid, t.oid, 'TRIGGER') OR has_any_column_privilege(r.oid, t.oid, 'REFERENCES')
        )
    )
    SELECT ARRAY(SELECT relname FROM ours), (SELECT 'another user (' || s.rolname || ') ' || m.what FROM might m
    JOIN stranger s ON pg_has_role(s.oid, m.maker, 'MEMBER') WHERE m.owns
    UNION ALL SELECT 'another user (' || s.rolname || ') ' || m.what FROM might m
    JOIN stranger s ON pg_has_role(s.oid, m.maker, 'MEMBER') WHERE NOT s.writes
    UNION ALL SELECT 'the table ' || t.relname || ' has a trigger that is not of Stripewise: ' || g.tgname
    FROM ours t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
    UNION ALL SELECT 'the table ' || t.relname || ' has rules or row security, which are not of Stripewise'
    FROM ours t JOIN pg_class c ON c.oid = t.oid WHERE c.relhasrules OR c.relrowsecurity
    UNION ALL SELECT 'a table that is not of Stripewise refers to the table ' || t.relname || ': ' || c.relname
    FROM ours t JOIN pg_constraint k ON k.confrelid = t.oid JOIN pg_class c ON c.oid = k.conrelid
    WHERE c.oid NOT IN (SELECT oid FROM ours)
    UNION ALL SELECT 'a table that is not of Stripewise inherits from the table ' || t.relname || ': ' || c.relname
    FROM ours t JOIN pg_inherits i ON i.inhparent = t.oid JOIN pg_class c ON c.oid = i.inhrelid
    UNION ALL SELECT 'the table ' || t.relname || ' has a type, default, check or index that is not of Stripewise'
    FROM ours t JOIN (
        SELECT refobjid AS part_of, classid, objid FROM pg_depend WHERE refclassid = CAST('pg_class' AS regclass)
        UNION ALL SELECT oid, CAST('pg_class' AS regclass), oid FROM ours
    ) AS part ON part_of = t.oid AND part.classid = ANY (CAST('{pg_class,pg_attrdef,pg_constraint}' AS regclass[]))
    JOIN pg_depend d ON d.classid = part.classid AND d.objid = part.objid
    AND d.refclassid = ANY (CAST('{pg_proc,pg_operator,pg_type}' AS regclass[]))
    LIMIT 1)
"""
"""Who could have their own code called by our statements, and what would call code that is not ours.

Only the tables themselves can: their triggers, rules, types, defaults, checks and indexes, tables that inherit from
them, and the triggers of tables that refer to them, which PostgreSQL before 18 runs with the rights of whoever
deletes. Their owner makes these, also one whose tables others have taken over since, and who has one of two rights;
the schema's owner may put others in their place. What is PostgreSQL's own is not in pg_depend. A role counts as what
it can become. A superuser, the database's owner, and who can become this user or them have its rights anyway; those
who may change experiments can change what is run.
"""


def _trusted_tables(connection: sa.Connection, schema: str, where: str) -> set[str]:
    """Give the names of our tables that exist, in whose changes none but those who write them has a say.

    Raises
    ------
    StoreError
        With who or what has.
    """
    names = [*metadata.tables, VERSION_TABLE]
    tables, found = connection.execute(sa.text(_STRANGERS), {"schema": schema, "names": names}).one()
    if found is not None:
        raise StoreError(
            f"{where}: {found}",
            "let the database's owner own the schema and its tables, and let readers only read; "
            "or use a database of your own",
        )
    return set(tables)
