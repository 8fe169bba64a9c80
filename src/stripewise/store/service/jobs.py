"""Jobs for workers: taken one at a time under a lease, carried on by another worker where one dies.

A job is a request to carry something on: an experiment, a campaign, the training of a model. Its taker gets a fencing
number and renews its lease. A taker that was replaced gets an error with its next call, and its results do not count.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import sqlalchemy as sa

from stripewise.errors import NotFound, StoreError
from stripewise.store import codec
from stripewise.store import schema as rows
from stripewise.store.holder import Holder
from stripewise.store.schema import jobs
from stripewise.store.transactions import Transactions

KINDS = ("experiment", "campaign", "training", "validation", "evaluation")
STATES = ("queued", "running", "done", "failed", "stopped")

MOST_IDLE = 3
"""A job that was taken so often in a row without getting any further is given up: it kills its workers."""


_LATEST_SECONDS = 600.0
"""No job is put off for longer: one that is due later was written before the clock was set back."""


@dataclass(frozen=True)
class ServiceJob:
    """A job as it is kept.

    Attributes
    ----------
    kind, state : str
        Of :data:`KINDS` and :data:`STATES`.
    subject : str
        Identifier of what is carried on.
    submitter : str
        Name of the token that asked for it.
    created, updated : float
        Epoch seconds.
    owner : str
        The worker that has it, or had it last.
    token : int
        Fencing number of the latest taker.
    error : str
        Why it failed, in one line.
    """

    id: str
    kind: str
    subject: str
    state: str
    submitter: str
    created: float
    updated: float
    owner: str = ""
    token: int = 0
    request: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    error: str = ""


def _job(row: sa.Row[Any]) -> ServiceJob:
    values = {entry.name: getattr(row, entry.name) for entry in fields(ServiceJob)}
    for name in ("request", "result"):
        values[name] = None if values[name] is None else codec.load(values[name], f"job {row.id}")
    return ServiceJob(**values)


class Jobs:
    """The queue."""

    def __init__(self, database: Transactions) -> None:
        self._database = database

    # -- for those who ask ---------------------------------------------------------------------------------

    def submit(self, kind: str, subject: str, submitter: str, request: Mapping[str, Any] | None = None) -> ServiceJob:
        """Add a job, unless one for the same subject is waiting already, which is given then."""
        identifier = secrets.token_hex(8)

        def work(connection: sa.Connection, again: bool) -> ServiceJob:
            same = (jobs.c.subject == subject, jobs.c.kind == kind, jobs.c.state == "queued")
            row = connection.execute(sa.select(jobs).where(*same)).first()
            if row is None:
                now = self._database.now(connection)
                connection.execute(
                    jobs.insert().values(
                        id=identifier,
                        kind=kind,
                        subject=subject,
                        state="queued",
                        submitter=submitter,
                        created=now,
                        updated=now,
                        due=now,
                        token=0,
                        stop=-1,
                        progress=0,
                        idle=0,
                        owner="",
                        request=codec.dump(dict(request or {})),
                        error="",
                    )
                )
                row = connection.execute(sa.select(jobs).where(jobs.c.id == identifier)).one()
            return _job(row)

        return self._database.write(work)

    def get(self, identifier: str) -> ServiceJob:
        """Give a job.

        Raises
        ------
        UserError
            If there is none.
        """
        found = self._database.first(sa.select(jobs).where(jobs.c.id == identifier))
        if found is None:
            raise NotFound(f"job '{identifier[:40]}' does not exist", "see the list of jobs")
        return _job(found)

    def of(self, subject: str) -> ServiceJob | None:
        """Give the latest job for a subject."""
        query = sa.select(jobs).where(jobs.c.subject == subject).order_by(jobs.c.number.desc()).limit(1)
        found = self._database.first(query)
        return None if found is None else _job(found)

    def waiting(self) -> dict[str, str]:
        """Give the state of each subject whose job waits or is at work."""
        query = sa.select(jobs.c.subject, jobs.c.state).where(jobs.c.state.in_(("queued", "running")))
        return {row.subject: row.state for row in self._database.all(query)}

    def counts(self) -> dict[str, int]:
        """Count the jobs of each state."""
        query = sa.select(jobs.c.state, sa.func.count().label("number")).group_by(jobs.c.state)
        return dict.fromkeys(STATES, 0) | {row.state: row.number for row in self._database.all(query)}

    def stop(self, subject: str) -> bool:
        """Withdraw what waits for a subject, and ask its worker to stop; False if there was nothing."""

        def work(connection: sa.Connection, again: bool) -> bool:
            mine = (jobs.c.subject == subject,)
            now = self._database.now(connection)
            waiting = jobs.update().where(*mine, jobs.c.state == "queued").values(state="stopped", updated=now)
            running = jobs.update().where(*mine, jobs.c.state == "running").values(stop=jobs.c.token)
            return sum(connection.execute(query).rowcount for query in (waiting, running)) > 0

        return self._database.write(work)

    def forget(self, subject: str) -> None:
        """Delete the jobs of a subject that is gone."""
        self._database.execute(jobs.delete().where(jobs.c.subject == subject, jobs.c.state != "running"))

    # -- for workers ---------------------------------------------------------------------------------------

    def take(self, owner: str, lease_seconds: float = 60.0, kinds: tuple[str, ...] = KINDS) -> ServiceJob | None:
        """Take the oldest job that is due: one that waits, or whose taker is dead or has let its lease run out."""
        # Looked for without a lock, so that those who find nothing keep nobody waiting.
        for number in self._database.read(lambda connection: self._due(connection, kinds)):
            taken = self._try(number, owner, lease_seconds)
            if taken is not None:
                return taken
        return None

    def _due(self, connection: sa.Connection, kinds: tuple[str, ...]) -> list[int]:
        now = self._database.now(connection)
        due = sa.or_(jobs.c.due <= now, jobs.c.due > now + _LATEST_SECONDS)
        where = (jobs.c.state.in_(("queued", "running")), jobs.c.kind.in_(kinds), due)
        columns: list[Any] = [jobs.c.number, jobs.c.state, jobs.c.lease, jobs.c.holder]
        found = connection.execute(sa.select(*columns).where(*where).order_by(jobs.c.number))
        return [row.number for row in found if row.state == "queued" or not rows.is_alive(row, now)]

    def _try(self, number: int, owner: str, lease_seconds: float) -> ServiceJob | None:
        """Take a job, unless another worker has been quicker."""
        # The mark tells a taking of ours whose confirmation was lost with the connection from another's.
        holder = codec.dump({**Holder.current().as_json(), "mark": secrets.token_hex(8)})

        def work(connection: sa.Connection, again: bool) -> ServiceJob | None:
            now = self._database.now(connection)
            query = sa.select(jobs).where(jobs.c.number == number).with_for_update(skip_locked=True)
            row = connection.execute(query).first()
            if row is None or row.state not in ("queued", "running"):
                return None
            if again and row.holder == holder:
                return _job(row)
            if row.state == "running" and rows.is_alive(row, now):
                return None
            try:
                _job(row)
            except StoreError as error:
                # It would end one worker after another, and no other job would be taken.
                lost = {"state": "failed", "error": error.what, "request": "{}", "result": None, "lease": None}
                values = {**lost, "token": row.token + 1, "holder": None, "updated": now}
                connection.execute(jobs.update().where(jobs.c.number == number).values(values))
                return None
            values = {"token": row.token + 1, "owner": owner, "holder": holder, "updated": now, "state": "running"}
            connection.execute(jobs.update().where(jobs.c.number == number).values(lease=now + lease_seconds, **values))
            return _job(connection.execute(sa.select(jobs).where(jobs.c.number == number)).one())

        return self._database.write(work)

    def note_progress(self, job: ServiceJob, progress: int) -> bool:
        """Note how far a job has come when it is taken; False if it was taken too often without getting further."""

        def work(connection: sa.Connection, again: bool) -> bool:
            row = self._check_job(connection, job)
            idle = row.idle if again else row.idle + 1
            idle = 1 if progress > row.progress else idle
            where = jobs.update().where(jobs.c.id == job.id)
            connection.execute(where.values(progress=progress, idle=idle))
            return bool(idle <= MOST_IDLE)

        return self._database.write(work)

    def renew(self, job: ServiceJob, lease_seconds: float = 60.0) -> bool:
        """Prolong a lease; gives whether a stop was asked for.

        Raises
        ------
        StoreError
            If another worker has the job.
        """

        def work(connection: sa.Connection, again: bool) -> bool:
            row = self._check_job(connection, job)
            lease = self._database.now(connection) + lease_seconds
            connection.execute(jobs.update().where(jobs.c.id == job.id).values(lease=lease))
            return bool(row.stop == row.token)

        return self._database.write(work)

    def finish(self, job: ServiceJob, state: str, result: Mapping[str, Any] | None = None, error: str = "") -> None:
        """Say how a job ended.

        Raises
        ------
        StoreError
            If another worker has the job.
        """

        def work(connection: sa.Connection, again: bool) -> None:
            row = self._check_job(connection, job, ended=again)
            if row.state != "running":
                return
            now = self._database.now(connection)
            kept = None if result is None else codec.dump(dict(result))
            where = jobs.update().where(jobs.c.id == job.id)
            connection.execute(
                where.values(state=state, result=kept, error=error, lease=None, holder=None, updated=now)
            )

        self._database.write(work)

    def put_back(self, job: ServiceJob, seconds: float, *, counted: bool = True, error: str | None = None) -> None:
        """Give a job back, to be taken again after some seconds.

        Parameters
        ----------
        counted : bool
            As a try without progress or not.
        error : str, optional
            Why it is given back; what was said before stays otherwise.
        """

        def work(connection: sa.Connection, again: bool) -> None:
            self._check_job(connection, job, ended=again)
            due = self._database.now(connection) + seconds
            where = jobs.update().where(jobs.c.id == job.id)
            idle = jobs.c.idle if counted else sa.case((jobs.c.idle > 0, jobs.c.idle - 1), else_=0)
            why = {} if error is None else {"error": error}
            connection.execute(where.values(state="queued", due=due, lease=None, holder=None, idle=idle, **why))

        self._database.write(work)

    def _check_job(self, connection: sa.Connection, job: ServiceJob, *, ended: bool = False) -> sa.Row[Any]:
        row = connection.execute(sa.select(jobs).where(jobs.c.id == job.id).with_for_update()).first()
        if row is None or row.token != job.token or (row.state != "running" and not ended):
            by = f" by {row.owner}" if row is not None and row.token != job.token else ""
            raise StoreError(f"job {job.id} was taken over{by}", "nothing more is written under it")
        return row


def live_workers(database: Transactions) -> int:
    """Count the workers that hold a job now."""

    def work(connection: sa.Connection) -> int:
        now = database.now(connection)
        columns: list[Any] = [jobs.c.owner, jobs.c.holder, jobs.c.lease]
        query = sa.select(*columns).where(jobs.c.state == "running")
        return sum(rows.is_alive(row, now) for row in connection.execute(query))

    return database.read(work)
