"""Tables of a database store, as the newest migration leaves them, and their rows as values of the field.

What the service keeps beside experiments is in the same database, so that one copy of it has all.
"""

from __future__ import annotations

import json
import re
from typing import Any

import sqlalchemy as sa

from stripewise.facts import Facts
from stripewise.store import codec
from stripewise.store.base import Claim, Record
from stripewise.store.holder import Holder
from stripewise.trial import Run, Trial

HEAD = "0003"
"""The newest migration: what this version reads and writes."""

VERSION_TABLE = "stripewise_schema"

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


_UNKEEPABLE = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\(?:\\|u([0-9a-f]{4}))")


def _escape(text: str) -> str:
    """Make any Python text fit for a database: half characters and NUL are refused there."""
    return _UNKEEPABLE.sub(lambda m: "\\\\" if m[0] == "\\" else f"\\u{ord(m[0]):04x}", text)


def _unescape(text: str) -> str:
    """Undo :func:`_escape`."""
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\\", text)


class AnyText(sa.types.TypeDecorator[str]):
    """Text as Python has it, which may hold what databases refuse."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Escape on the way in."""
        return None if value is None else _escape(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Undo it on the way out. SQLite keeps bytes in a column of text, too: whoever reads the row refuses them."""
        return _unescape(value) if isinstance(value, str) else value


experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", AnyText, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("updated", sa.Double, nullable=False),
    sa.Column("owner", AnyText, nullable=False),
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
    sa.Column("gain", sa.Double, nullable=False, server_default="0", comment="of the result, to sort by"),
    sa.Column("tags", AnyText, nullable=False, server_default="", comment="parted by commas"),
    sa.Column("remark", AnyText, nullable=False, server_default=""),
    sa.Index("ix_experiments_created_id", "created", "id"),
    sa.Index("ix_experiments_updated_id", "updated", "id"),
    sa.Index("ix_experiments_state_created", "state", "created"),
    sa.Index("ix_experiments_name_created", "name", "created"),
    sa.Index("ix_experiments_lease", "lease"),
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("experiment", sa.String(32), sa.ForeignKey("experiments.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("tag", AnyText, nullable=False),
    sa.Column("configuration", sa.Text, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("experiment", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("trial", sa.Integer, nullable=False),
    sa.Column("phase", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("value", sa.Double),
    sa.Column("elapsed", sa.Double),
    sa.Column("started", sa.Double),
    sa.Column("reason", AnyText, nullable=False),
    sa.Column("pair", sa.Integer),
    sa.Column("arm", AnyText, nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False, comment="the claim that wrote last"),
    # Last, and largest: a reader that leaves it out does not touch the pages it overflows to.
    sa.Column("facts", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(["experiment", "trial"], ["trials.experiment", "trials.number"], ondelete="CASCADE"),
)


tokens = sa.Table(
    "service_tokens",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("name", AnyText, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of the secret"),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("expires", sa.Double),
    sa.Column("used", sa.Double),
    sa.Column("revoked", sa.Double),
)

sessions = sa.Table(
    "service_sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True, comment="SHA-256 of the cookie"),
    sa.Column("token", sa.String(32), sa.ForeignKey("service_tokens.id", ondelete="CASCADE"), nullable=False),
    sa.Column("csrf", sa.String(64), nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("expires", sa.Double, nullable=False),
)

jobs = sa.Table(
    "service_jobs",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("subject", sa.String(64), nullable=False, comment="the experiment's, campaign's or model's identifier"),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("submitter", AnyText, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("updated", sa.Double, nullable=False),
    sa.Column("due", sa.Double, nullable=False, comment="not to be begun earlier"),
    sa.Column("token", sa.BigInteger, nullable=False, comment="fencing number: larger each time it is taken"),
    sa.Column("stop", sa.BigInteger, nullable=False, comment="the taker that was last asked to stop"),
    sa.Column("progress", sa.Integer, nullable=False, comment="what was done when it was taken last"),
    sa.Column("idle", sa.Integer, nullable=False, comment="how often it was taken in a row without progress"),
    sa.Column("owner", AnyText, nullable=False),
    sa.Column("lease", sa.Double),
    sa.Column("holder", sa.Text),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("error", AnyText, nullable=False),
    sa.UniqueConstraint("id", name="uq_service_jobs_id"),
    sa.Index("ix_service_jobs_state_number", "state", "number"),
    sa.Index("ix_service_jobs_subject_number", "subject", "number"),
)

messages = sa.Table(
    "service_messages",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("experiment", sa.String(32), sa.ForeignKey("experiments.id", ondelete="CASCADE"), nullable=False),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Index("ix_service_messages_experiment_number", "experiment", "number"),
)

answers = sa.Table(
    "service_answers",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True, comment="SHA-256 of who asked and the key given"),
    sa.Column("digest", sa.String(64), nullable=False, comment="SHA-256 of what was asked"),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("status", sa.Integer, nullable=False, comment="0 while the first request is at work"),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("ix_service_answers_created", "created"),
)

audit = sa.Table(
    "service_audit",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Double, nullable=False),
    sa.Column("actor", AnyText, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("address", AnyText, nullable=False),
    sa.Column("action", AnyText, nullable=False),
    sa.Column("subject", AnyText, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Index("ix_service_audit_time", "time"),
)

items = sa.Table(
    "service_items",
    metadata,
    sa.Column("kind", sa.String(16), primary_key=True, comment="model, campaign or diagnosis"),
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", AnyText, nullable=False),
    sa.Column("owner", AnyText, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Index("ix_service_items_kind_created", "kind", "created"),
)


def seen_state(live: sa.ColumnElement[bool]) -> sa.ColumnElement[str]:
    """Give the state as a reader shall see it: nothing runs without a living owner."""
    orphan = sa.and_(experiments.c.state == "running", sa.not_(sa.func.coalesce(live, sa.false())))
    return sa.case((orphan, "stopped"), else_=experiments.c.state)


def record_query(live: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select what :func:`record` needs."""
    unread = ("state", "token", "lease", "holder", "stop", "gain")
    columns = [column for column in experiments.c if column.name not in unread]
    return sa.select(*columns, seen_state(live).label("state"))


def filters(state: str | None, name: str | None, live: sa.ColumnElement[bool]) -> list[sa.ColumnElement[bool]]:
    """Give the conditions of a list."""
    found: list[sa.ColumnElement[bool]] = []
    if state is not None:
        # The stored state narrows the rows down by its index; what is seen then decides.
        stored = ("running", "stopped") if state == "stopped" else (state,)
        found += [experiments.c.state.in_(stored), seen_state(live) == state]
    if name is not None:
        found.append(experiments.c.name == name)
    return found


def record(row: sa.Row[Any]) -> Record:
    """Make a record of a row."""
    what = f"experiment {row.id}"
    with codec.reading(what):
        return Record(
            id=row.id,
            experiment=codec.read_experiment(codec.load(row.definition, what), row.id),
            state=row.state,
            created=row.created,
            updated=row.updated,
            owner=row.owner,
            facts=_facts(row.facts, what),
            result=None if row.result is None else codec.read_result(codec.load(row.result, what), row.id),
            trials=row.trials,
            runs=row.runs,
            ended=row.ended,
            tags=tuple(row.tags.split(",")) if row.tags else (),
            remark=row.remark,
        )


def _facts(text: str, what: str) -> Facts:
    with codec.reading(what):
        return Facts(codec.load(text, what))


def run_values(identifier: str, claim: Claim, run: Run) -> dict[str, Any]:
    """Make a row of a run."""
    data = codec.run_json(run)
    return {**data, "experiment": identifier, "token": claim.token, "facts": codec.dump(data["facts"])}


def trial_values(identifier: str, trial: Trial) -> dict[str, Any]:
    """Make a row of a trial."""
    data = codec.trial_json(trial)
    return {**data, "experiment": identifier, "configuration": codec.dump(data["configuration"])}


def run(row: sa.Row[Any], identifier: str) -> Run:
    """Make a run of a row, which may be without facts."""
    what = f"run {row.number} of experiment {identifier}"
    values = dict(row._mapping)
    values["facts"] = codec.load(values["facts"], what) if "facts" in values else {}
    return codec.read_run(values, what)


def trial(row: sa.Row[Any], runs: tuple[Run, ...], identifier: str) -> Trial:
    """Make a trial of a row."""
    what = f"trial {row.number} of experiment {identifier}"
    values = {**row._mapping, "configuration": codec.load(row.configuration, what)}
    return codec.read_trial(values, runs, what)


def holder(text: str | None) -> Holder | None:
    """Read who holds a claim; None where nothing can be known."""
    try:
        return Holder.read(json.loads(text)) if text else None
    except ValueError:
        return None


def proven_dead(text: str | None) -> bool:
    """Whether the process behind a claim certainly does not run any more."""
    found = holder(text)
    return found is not None and found.proven_dead()


def is_alive(row: Any, now: float) -> bool:
    """Whether a claim still holds."""
    return row.lease is not None and row.lease > now and not proven_dead(row.holder)
