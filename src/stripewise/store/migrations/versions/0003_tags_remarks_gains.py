"""Tags and remarks of experiments, and their gains as numbers to sort by.

Revision ID: 0003
Revises: 0002
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, and read the gains from the results."""
    schema = op.get_context().version_table_schema
    for column in (
        sa.Column("gain", sa.Double, nullable=False, server_default="0", comment="of the result, to sort by"),
        sa.Column("tags", sa.Text, nullable=False, server_default="", comment="parted by commas"),
        sa.Column("remark", sa.Text, nullable=False, server_default=""),
    ):
        op.add_column("experiments", column, schema=schema)
    connection = op.get_bind()
    table = sa.table("experiments", sa.column("id"), sa.column("result"), sa.column("gain"), schema=schema)
    found = connection.execute(sa.select(table.c.id, table.c.result).where(table.c.result.is_not(None))).all()
    for identifier, text in found:
        try:
            result = json.loads(text)
            gain = float(result["speedup"]) if result["confirmed"] else 1.0
        except (ValueError, KeyError, TypeError):
            # What cannot be read is left as it is: only its place in a list depends on it.
            continue
        connection.execute(table.update().where(table.c.id == identifier).values(gain=gain))


def downgrade() -> None:
    """Refused: older versions must not see a newer store half undone."""
    raise NotImplementedError("stores are only upgraded; restore a copy to go back")
