"""Between the rows of a database and the values of the field."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from stripewise.facts import Facts
from stripewise.store import codec
from stripewise.store.base import Claim, Record
from stripewise.store.holder import Holder
from stripewise.store.schema import experiments
from stripewise.trial import Run, Trial


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
    return Record(
        id=row.id,
        experiment=codec.read_experiment(codec.load(row.definition, what), row.id),
        state=row.state,
        created=row.created,
        updated=row.updated,
        owner=row.owner,
        facts=Facts(codec.load(row.facts, what)),
        result=None if row.result is None else codec.read_result(codec.load(row.result, what), row.id),
        trials=row.trials,
        runs=row.runs,
        ended=row.ended,
        tags=tuple(row.tags.split(",")) if row.tags else (),
        remark=row.remark,
    )


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


def alive(row: Any, now: float) -> bool:
    """Whether a claim still holds."""
    return row.lease is not None and row.lease > now and not proven_dead(row.holder)
