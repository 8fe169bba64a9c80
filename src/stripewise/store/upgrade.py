"""Brings a database to the newest schema when it is opened."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from stripewise.errors import StoreError
from stripewise.store import service_schema as service_schema  # noqa: PLC0414  adds its tables to the metadata
from stripewise.store.schema import HEAD, VERSION_TABLE, metadata

_MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x53575250


def upgrade(engine: sa.Engine, where: str) -> None:
    """Create the tables in an empty database, and upgrade older ones.

    Parameters
    ----------
    engine : Engine
        Whose transactions are writing ones from their beginning.
    where : str
        The store's address as it may be shown.

    Raises
    ------
    StoreError
        If the database belongs to another program, or a newer version of this one has written it.
    """
    with engine.connect() as connection:
        if _version(connection, where) == HEAD:
            return
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # Of several that open an old database at once, one upgrades it.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        version = _version(connection, where)
        if version != HEAD:
            _migrate(connection, version, where)


def _version(connection: sa.Connection, where: str) -> str | None:
    """Give the schema's version, None for a database without our tables."""
    tables = set(sa.inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        # A file is ours alone; on a server, others may have tables beside ours.
        foreign = tables if connection.dialect.name == "sqlite" else tables & set(metadata.tables)
        if foreign:
            raise StoreError(
                f"store {where} is a database of another program: it has a table '{min(foreign)}'",
                "choose another file or database with --store",
            )
        return None
    row = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).first()
    if row is None:
        raise StoreError(f"store {where} does not say its version", "restore a copy")
    return str(row[0])


def _migrate(connection: sa.Connection, version: str | None, where: str) -> None:
    # Alembic takes longer to load than an upgraded store takes to open.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if version is not None and version not in known:
        raise StoreError(
            f"store {where} was written by a newer Stripewise (its schema is {version}, this one knows {HEAD})",
            "update Stripewise: pip install --upgrade stripewise",
        )
    command.upgrade(config, "head")
