"""Reading the experiments of a database, which takes no claim."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import sqlalchemy as sa

from stripewise.store import rows, rules
from stripewise.store.base import OnUnreadable, Record, Sort, Store, readable
from stripewise.store.schema import experiments, runs, trials
from stripewise.store.transactions import Transactions
from stripewise.trial import Run, Trial

_RUN_COLUMNS = [column for column in runs.c if column.name not in ("experiment", "token", "facts")]


class SqlReader(Store):
    """The part of a database's store that only reads; parameters as for :class:`~stripewise.store.sql.SqlStore`."""

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
            return [record for row in found if (record := readable(partial(rows.record, row), on_unreadable))]

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
            query = rows.record_query(self.live(connection))
            row = connection.execute(query.where(experiments.c.id == identifier)).first()
            if row is None:
                like = experiments.c.id.startswith(identifier, autoescape=True)
                found = connection.execute(query.where(like).order_by(experiments.c.id).limit(4)).all()
                # LIKE knows no case in some databases; identifiers do.
                found = [candidate for candidate in found if candidate.id.startswith(identifier)]
                if len(found) > 1:
                    raise rules.ambiguous(identifier, [candidate.id for candidate in found])
                row = found[0] if found else None
            if row is None:
                raise rules.no_experiment(identifier, self._url)
            return rows.record(row)

        return self._database.read(work)

    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for; see :meth:`Store.stop_requested`."""
        rules.check_identifier(identifier, self._url)

        def work(connection: sa.Connection) -> bool:
            query = sa.select(experiments.c.stop, experiments.c.token).where(experiments.c.id == identifier)
            row = connection.execute(query).first()
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
