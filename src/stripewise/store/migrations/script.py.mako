"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say what changes."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Refused: older versions must not see a newer store half undone."""
    raise NotImplementedError("stores are only upgraded; restore a copy to go back")
