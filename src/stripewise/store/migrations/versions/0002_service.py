"""What the service keeps beside experiments: tokens, sessions, jobs, messages, keys of repeated requests, an audit log.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the service's tables."""
    op.create_table(
        "service_tokens",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of the secret"),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double),
        sa.Column("used", sa.Double),
        sa.Column("revoked", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_service_tokens"),
    )
    op.create_table(
        "service_sessions",
        sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of the cookie"),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("csrf", sa.String(64), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_service_sessions"),
        sa.ForeignKeyConstraint(
            ["token"], ["service_tokens.id"], name="fk_service_sessions_service_tokens", ondelete="CASCADE"
        ),
    )
    op.create_table(
        "service_jobs",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column(
            "subject", sa.String(64), nullable=False, comment="the experiment's, campaign's or model's identifier"
        ),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("submitter", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Column("due", sa.Double, nullable=False, comment="not to be begun earlier"),
        sa.Column("token", sa.BigInteger, nullable=False, comment="fencing number: larger each time it is taken"),
        sa.Column("stop", sa.BigInteger, nullable=False, comment="the taker that was last asked to stop"),
        sa.Column("progress", sa.Integer, nullable=False, comment="what was done when it was taken last"),
        sa.Column("idle", sa.Integer, nullable=False, comment="how often it was taken in a row without progress"),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("lease", sa.Double),
        sa.Column("holder", sa.Text),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_service_jobs"),
        sa.UniqueConstraint("id", name="uq_service_jobs_id"),
    )
    op.create_index("ix_service_jobs_state_number", "service_jobs", ["state", "number"])
    op.create_index("ix_service_jobs_subject_number", "service_jobs", ["subject", "number"])
    op.create_table(
        "service_messages",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("experiment", sa.String(32), nullable=False),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_service_messages"),
        sa.ForeignKeyConstraint(
            ["experiment"], ["experiments.id"], name="fk_service_messages_experiments", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_service_messages_experiment_number", "service_messages", ["experiment", "number"])
    op.create_table(
        "service_answers",
        sa.Column("key", sa.String(64), nullable=False, comment="SHA-256 of who asked and the key given"),
        sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of what was asked"),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("status", sa.Integer, nullable=False, comment="0 while the first request is at work"),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_service_answers"),
    )
    op.create_index("ix_service_answers_created", "service_answers", ["created"])
    op.create_table(
        "service_audit",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_service_audit"),
    )
    op.create_index("ix_service_audit_time", "service_audit", ["time"])
    op.create_table(
        "service_items",
        sa.Column("kind", sa.String(16), nullable=False, comment="model, campaign or diagnosis"),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("kind", "id", name="pk_service_items"),
    )
    op.create_index("ix_service_items_kind_created", "service_items", ["kind", "created"])


def downgrade() -> None:
    """Refused: older versions must not see a newer store half undone."""
    raise NotImplementedError("stores are only upgraded; restore a copy to go back")
