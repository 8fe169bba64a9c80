"""Runs migrations over the connection that the store has opened and locked."""

from alembic import context

from stripewise.store.schema import VERSION_TABLE, metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=context.config.attributes["schema"],
    # Both databases can undo the creation of a table, so an interrupted upgrade leaves the store as it was.
    transactional_ddl=True,
)
context.run_migrations()
