"""Experiments, trials and runs.

Revision ID: 0001
Revises: none
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "experiments",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False, comment="fencing number of the latest claim"),
        sa.Column("lease", sa.Double, comment="when the claim may be taken over; null if there is none"),
        sa.Column("holder", sa.Text, comment="JSON: the process behind the claim"),
        sa.Column("stop", sa.BigInteger, nullable=False, comment="the claim that was last asked to stop"),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("ended", sa.Integer, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
    )
    op.create_index("ix_experiments_created_id", "experiments", ["created", "id"])
    op.create_index("ix_experiments_updated_id", "experiments", ["updated", "id"])
    op.create_index("ix_experiments_state_created", "experiments", ["state", "created"])
    op.create_index("ix_experiments_name_created", "experiments", ["name", "created"])
    op.create_index("ix_experiments_lease", "experiments", ["lease"])
    op.create_table(
        "trials",
        sa.Column("experiment", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.Column("configuration", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("experiment", "number", name="pk_trials"),
        sa.ForeignKeyConstraint(["experiment"], ["experiments.id"], name="fk_trials_experiments", ondelete="CASCADE"),
    )
    op.create_table(
        "runs",
        sa.Column("experiment", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("elapsed", sa.Double),
        sa.Column("started", sa.Double),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("pair", sa.Integer),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False, comment="the claim that wrote last"),
        sa.Column("facts", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("experiment", "number", name="pk_runs"),
        sa.ForeignKeyConstraint(
            ["experiment", "trial"],
            ["trials.experiment", "trials.number"],
            name="fk_runs_trials",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Refused: older versions must not see a newer store half undone."""
    raise NotImplementedError("stores are only upgraded; restore a copy to go back")
