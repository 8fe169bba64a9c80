"""A store in a database: SQLite on one host, PostgreSQL for many."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from stripewise.errors import StoreError
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store import base as rules
from stripewise.store import codec
from stripewise.store import schema as rows
from stripewise.store.base import Claim, OnUnreadable, Record, Sort, Store, read_or_skip
from stripewise.store.holder import Holder
from stripewise.store.schema import experiments, runs, trials
from stripewise.store.transactions import Transactions
from stripewise.trial import Run, State, Trial

_RUN_COLUMNS = [column for column in runs.c if column.name not in ("experiment", "token", "facts")]

# Each run needs several of these. To make such a statement takes longer than to execute it, hence each is made once.
_EXPERIMENT = experiments.c.id == sa.bindparam("of_experiment")
_RUN = sa.and_(runs.c.experiment == sa.bindparam("of_experiment"), runs.c.number == sa.bindparam("of_number"))
_TRIAL = sa.and_(trials.c.experiment == sa.bindparam("of_experiment"), trials.c.number == sa.bindparam("of_number"))
_READ_STOP = sa.select(experiments.c.stop, experiments.c.token).where(_EXPERIMENT)
_LOCK: sa.Select[Any] = (
    sa.select(experiments.c.owner, experiments.c.token, experiments.c.lease, experiments.c.holder)
    .where(_EXPERIMENT)
    .with_for_update()
)
_READ_RUN: sa.Select[Any] = sa.select(runs.c.number, runs.c.trial, runs.c.state, runs.c.token).where(_RUN)
_READ_FACTS = sa.select(runs.c.facts).where(_RUN)
_READ_TRIAL = sa.select(trials.c.number).where(_TRIAL)
_ADD_RUN, _ADD_TRIAL = runs.insert(), trials.insert()
_CHANGE_RUN = runs.update().where(_RUN)
_CHANGE = experiments.update().where(_EXPERIMENT)
_COUNT_PLANNED = _CHANGE.values(trials=experiments.c.trials + sa.bindparam("new_trials"), runs=experiments.c.runs + 1)
_COUNT_ENDED = _CHANGE.values(ended=experiments.c.ended + 1)


def _of(identifier: str, number: int) -> dict[str, Any]:
    """Which run or trial a statement is about."""
    return {"of_experiment": identifier, "of_number": number}


class SqlStore(Store):
    """Keeps experiments in a database whose tables are up to date.

    Parameters
    ----------
    url : str
        The address as it may be shown.
    clock : callable, optional
        Epoch seconds; by default the server's clock where there is a server, so that hosts need not agree.
    patience : float
        Seconds for which a lost connection to a server is tried again, so that its restart ends no experiment.
    """

    def __init__(
        self, engine: sa.Engine, url: str, clock: Callable[[], float] | None = None, patience: float = 60.0
    ) -> None:
        self._database = Transactions(engine, url, clock, patience)
        self._url = url

    @property
    def url(self) -> str:
        """The address, without a password."""
        return self._url

    @property
    def database(self) -> Transactions:
        """The database's transactions, for what the service keeps beside experiments."""
        return self._database

    def records(
        self,
        state: str | None = None,
        name: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        sort: Sort | str = Sort.CREATED,
        descending: bool = True,
        on_unreadable: OnUnreadable = None,
    ) -> list[Record]:
        """Give a page of experiments; see :meth:`Store.records`."""
        rules.check_state(state)
        column = experiments.c[rules.check_page(limit, offset, sort).value]

        def work(connection: sa.Connection) -> list[Record]:
            live = self.live(connection)
            key = rows.seen_state(live) if column is experiments.c.state else column
            order = [item.desc() if descending else item.asc() for item in (key, experiments.c.id)]
            query = rows.record_query(live).where(*rows.filters(state, name, live)).order_by(*order)
            found = connection.execute(query.limit(limit).offset(offset))
            return [record for row in found if (record := read_or_skip(partial(rows.record, row), on_unreadable))]

        return self._database.read(work)

    def count(self, state: str | None = None, name: str | None = None) -> int:
        """Count experiments; see :meth:`Store.count`."""
        rules.check_state(state)

        def work(connection: sa.Connection) -> int:
            filters = rows.filters(state, name, self.live(connection))
            return connection.execute(sa.select(sa.func.count()).select_from(experiments).where(*filters)).scalar_one()

        return self._database.read(work)

    def record(self, identifier: str) -> Record:
        """Give one experiment; see :meth:`Store.record`."""
        rules.check_identifier(identifier, self._url)

        def work(connection: sa.Connection) -> Record:
            # An identifier stands before those that begin with it; some databases know no case in LIKE.
            like = experiments.c.id.startswith(identifier, autoescape=True)
            query = rows.record_query(self.live(connection)).where(like).order_by(experiments.c.id).limit(5)
            found = {row.id: row for row in connection.execute(query)}
            return rows.record(found[rules.choose_experiment(identifier, list(found), self._url)])

        return self._database.read(work)

    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for; see :meth:`Store.stop_requested`."""
        rules.check_identifier(identifier, self._url)

        def work(connection: sa.Connection) -> bool:
            row = connection.execute(_READ_STOP, {"of_experiment": identifier}).first()
            if row is None:
                raise rules.no_experiment(identifier, self._url)
            return bool(row.stop == row.token)

        return self._database.read(work)

    def trials(self, identifier: str, *, facts: bool = True) -> tuple[Trial, ...]:
        """Give the trials with their runs; see :meth:`Store.trials`."""
        rules.check_identifier(identifier, self._url)

        def work(connection: sa.Connection) -> tuple[Trial, ...]:
            columns = [*_RUN_COLUMNS, runs.c.facts] if facts else _RUN_COLUMNS
            run_query = sa.select(*columns).where(runs.c.experiment == identifier).order_by(runs.c.number)
            trial_query = sa.select(trials).where(trials.c.experiment == identifier).order_by(trials.c.number)
            of_trial: dict[int, list[Run]] = {}
            for row in connection.execute(run_query):
                of_trial.setdefault(row.trial, []).append(rows.run(row, identifier))
            found = connection.execute(trial_query).all()
            if not found and not self._exists(connection, identifier):
                raise rules.no_experiment(identifier, self._url)
            return tuple(rows.trial(row, tuple(of_trial.get(row.number, ())), identifier) for row in found)

        return self._database.read(work)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _exists(self, connection: sa.Connection, identifier: str) -> bool:
        return connection.execute(sa.select(experiments.c.id).where(experiments.c.id == identifier)).first() is not None

    def live(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        """Whether an experiment's owner is at work, as far as can be known from here."""
        now = self._database.now(connection)
        leased = sa.and_(experiments.c.lease.is_not(None), experiments.c.lease > now)
        found = connection.execute(sa.select(experiments.c.id, experiments.c.holder).where(leased))
        dead = [row.id for row in found if rows.proven_dead(row.holder)]
        return sa.and_(leased, experiments.c.id.not_in(dead)) if dead else leased

    # -- experiments ---------------------------------------------------------------------------------------

    def create(self, experiment: Experiment, facts: Mapping[str, Any] | None = None) -> str:
        """Keep a new experiment; see :meth:`Store.create`."""
        identifier = secrets.token_hex(4)
        row = {
            "name": experiment.name,
            "state": "created",
            "owner": "",
            "token": 0,
            "stop": -1,
            "trials": 0,
            "runs": 0,
            "ended": 0,
            "definition": codec.dump(codec.experiment_json(experiment)),
            "facts": codec.dump(dict(facts or {})),
        }

        def work(connection: sa.Connection, again: bool) -> str:
            nonlocal identifier
            taken = connection.execute(
                sa.select(experiments.c.definition).where(experiments.c.id == identifier)
            ).scalar()
            if again and taken == row["definition"]:
                return identifier
            if taken is not None:
                identifier = secrets.token_hex(8)
            now = self._database.now(connection)
            connection.execute(experiments.insert().values(id=identifier, created=now, updated=now, **row))
            return identifier

        return self._database.write(work)

    def delete(self, identifier: str) -> None:
        """Delete an experiment; see :meth:`Store.delete`."""

        def work(connection: sa.Connection, again: bool) -> None:
            if again and not self._exists(connection, identifier):
                return
            now = self._database.now(connection)
            row = self._locked(connection, identifier)
            if rows.is_alive(row, now):
                raise rules.explain_held_claim(identifier, row.owner, row.lease - now)
            # Bottom up: the cascade would look each trial's runs up one by one.
            for table in (runs, trials):
                connection.execute(table.delete().where(table.c.experiment == identifier))
            connection.execute(experiments.delete().where(experiments.c.id == identifier))

        self._database.write(work)

    # -- claims --------------------------------------------------------------------------------------------

    def claim(self, identifier: str, owner: str, lease_seconds: float = 60.0) -> Claim:
        """Take the right to write; see :meth:`Store.claim`."""
        me = Holder.current()
        # The mark tells a claim of ours whose confirmation was lost with the connection from one made before.
        holder = codec.dump({**me.as_json(), "mark": secrets.token_hex(8)})

        def work(connection: sa.Connection, again: bool) -> Claim:
            row = self._locked(connection, identifier)
            now = self._database.now(connection)
            if again and row.holder == holder:
                return Claim(identifier, row.token, owner, lease_seconds)
            mine = row.owner == owner and rows.holder(row.holder) == me
            if not mine and rows.is_alive(row, now):
                raise rules.explain_held_claim(identifier, row.owner, row.lease - now)
            claim = Claim(identifier, row.token + 1, owner, lease_seconds)
            self._touch(
                connection, identifier, token=claim.token, owner=owner, holder=holder, lease=now + lease_seconds
            )
            return claim

        return self._database.write(work)

    def renew(self, claim: Claim) -> None:
        """Prolong the lease; see :meth:`Store.renew`."""

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_claim(connection, claim)
            lease = self._database.now(connection) + claim.lease_seconds
            connection.execute(_CHANGE, {"of_experiment": claim.experiment, "lease": lease})

        self._database.write(work)

    def release(self, claim: Claim) -> None:
        """Give the right to write back; see :meth:`Store.release`."""

        def work(connection: sa.Connection, again: bool) -> None:
            query = experiments.update().where(experiments.c.id == claim.experiment, experiments.c.token == claim.token)
            connection.execute(query.values(lease=None, holder=None))

        self._database.write(work)

    def request_stop(self, identifier: str) -> None:
        """Ask for a stop; see :meth:`Store.request_stop`."""
        rules.check_identifier(identifier, self._url)

        def work(connection: sa.Connection, again: bool) -> None:
            query = experiments.update().where(experiments.c.id == identifier).values(stop=experiments.c.token)
            if connection.execute(query).rowcount == 0:
                raise rules.no_experiment(identifier, self._url)

        self._database.write(work)

    def annotate(self, identifier: str, *, tags: Sequence[str] | None = None, remark: str | None = None) -> None:
        """Replace tags, remark; see :meth:`Store.annotate`."""
        values = {} if tags is None else {"tags": ",".join(rules.check_tags(tags))}
        if remark is not None:
            values["remark"] = rules.check_remark(remark)

        def work(connection: sa.Connection, again: bool) -> None:
            self._locked(connection, identifier)
            self._touch(connection, identifier, **values)

        self._database.write(work)

    # -- writing under a claim -----------------------------------------------------------------------------

    def update(
        self,
        identifier: str,
        *,
        claim: Claim,
        state: str | None = None,
        facts: Mapping[str, Any] | None = None,
        result: Result | None = None,
    ) -> None:
        """Replace state, facts, result; see :meth:`Store.update`."""
        rules.check_state(state)
        rules.check_claim(identifier, claim)
        values: dict[str, Any] = {} if state is None else {"state": state}
        if facts is not None:
            values["facts"] = codec.dump(dict(facts))
        if result is not None:
            values |= {"result": codec.dump(result.as_json()), "gain": result.gain}

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_claim(connection, claim)
            self._touch(connection, identifier, **values)

        self._database.write(work)

    def plan(self, identifier: str, claim: Claim, trial: Trial | None, run: Run) -> None:
        """Add a run that is going to be started; see :meth:`Store.plan`."""
        rules.check_planned(trial, run)
        rules.check_claim(identifier, claim)
        run_row = rows.run_values(identifier, claim, run)
        trial_row = None if trial is None else rows.trial_values(identifier, trial)

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_claim(connection, claim)
            planned = self._run(connection, identifier, run.number)
            if again and planned is not None and planned.token == claim.token:
                return
            known = connection.execute(_READ_TRIAL, _of(identifier, run.trial)).first() is not None
            new = trial_row is not None
            rules.check_free(identifier, run, run_known=planned is not None, trial_known=known, new_trial=new)
            if trial_row is not None:
                connection.execute(_ADD_TRIAL, trial_row)
            connection.execute(_ADD_RUN, run_row)
            self._touch(connection, identifier, _COUNT_PLANNED, new_trials=int(new))

        self._database.write(work)

    def begin(self, identifier: str, claim: Claim, run: int, facts: Mapping[str, Any] | None = None) -> None:
        """Note that a run is being started; see :meth:`Store.begin`."""
        rules.check_claim(identifier, claim)

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_claim(connection, claim)
            self._check_open(connection, identifier, run)
            values: dict[str, Any] = {"state": State.RUNNING.value, "token": claim.token}
            if facts:
                text = connection.execute(_READ_FACTS, _of(identifier, run)).scalar_one()
                earlier = codec.load(text, f"run {run} of experiment {identifier}")
                values["facts"] = codec.dump({**earlier, **facts})
            self._change_run(connection, identifier, run, values)

        self._database.write(work)

    def accept(self, identifier: str, claim: Claim, run: Run) -> None:
        """Keep the one result of a planned run; see :meth:`Store.accept`."""
        rules.check_result(run)
        rules.check_claim(identifier, claim)
        row = rows.run_values(identifier, claim, run)

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_claim(connection, claim)
            found = self._run(connection, identifier, run.number)
            if again and found is not None and found.token == claim.token and found.state == run.state.value:
                return
            self._check_open(connection, identifier, run.number, run.trial)
            self._change_run(connection, identifier, run.number, row)
            self._touch(connection, identifier, _COUNT_ENDED)

        self._database.write(work)

    # -- parts of transactions -----------------------------------------------------------------------------

    def _locked(self, connection: sa.Connection, identifier: str) -> sa.Row[Any]:
        """Read an experiment so that nobody else changes it before the end of the transaction."""
        rules.check_identifier(identifier, self._url)
        row = connection.execute(_LOCK, {"of_experiment": identifier}).first()
        if row is None:
            raise rules.no_experiment(identifier, self._url)
        return row

    def _check_claim(self, connection: sa.Connection, claim: Claim) -> None:
        """Refuse to write under a claim that has ended."""
        row = self._locked(connection, claim.experiment)
        # A lease that ran out unnoticed does no harm: had somebody taken over, the token would tell.
        if row.token != claim.token or row.lease is None:
            raise rules.explain_lost_claim(claim, row.owner)

    def _run(self, connection: sa.Connection, identifier: str, number: int) -> sa.Row[Any] | None:
        return connection.execute(_READ_RUN, _of(identifier, number)).first()

    def _check_open(
        self, connection: sa.Connection, identifier: str, number: int, result_of: int | None = None
    ) -> None:
        row = self._run(connection, identifier, number)
        trial, state = (None, None) if row is None else (row.trial, State(row.state))
        rules.check_open(identifier, number, trial, state, result_of)

    def _change_run(self, connection: sa.Connection, identifier: str, number: int, values: Mapping[str, Any]) -> None:
        if connection.execute(_CHANGE_RUN, {**_of(identifier, number), **values}).rowcount != 1:
            raise StoreError(
                f"store {self._url} left run {number} of experiment {identifier} unchanged, without an error",
                "remove the rule, trigger or row security policy of its table runs that withholds updates",
            )

    def _touch(self, connection: sa.Connection, identifier: str, change: sa.Update = _CHANGE, /, **values: Any) -> None:
        now = self._database.now(connection)
        connection.execute(change, {"of_experiment": identifier, "updated": now, **values})
