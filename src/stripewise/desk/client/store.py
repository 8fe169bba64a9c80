"""The experiments of a service, read like those of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.client.client import Client
from stripewise.desk.client.transport import ServiceError, reads_answers
from stripewise.errors import StoreError, UserError
from stripewise.facts import Facts, RunFacts
from stripewise.store import codec
from stripewise.store.base import OnUnreadable, Record, Sort, Store, no_experiment
from stripewise.trial import Phase, Role, Run, State, Trial


def _not_here(*given: object, **named: object) -> NoReturn:
    """Refuse what only the workers of the service do."""
    raise StoreError("only the workers of the service write to its experiments", "use the service's own commands")


@reads_answers
class RemoteStore(Store):
    """Reads, stops and deletes a service's experiments; its workers are the only ones to write to them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @property
    def url(self) -> str:
        """The service's address."""
        return self.client.address.url

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
        found: list[Record] = []
        for start in range(0, limit, 100):
            page = self.client.experiments(
                state=state,
                name=name,
                limit=min(100, limit - start),
                offset=offset + start,
                sort=Sort(sort).value,
                order="descending" if descending else "ascending",
                whole="true",
            )
            found += [record_of(item) for item in page["items"]]
            # The service leaves out what it cannot read.
            if offset + start + 100 >= page["total"]:
                break
        return found

    def count(self, state: str | None = None, name: str | None = None) -> int:
        """Count experiments; see :meth:`Store.count`."""
        return int(self.client.experiments(state=state, name=name, limit=1)["total"])

    def record(self, identifier: str) -> Record:
        """Give one experiment; see :meth:`Store.record`."""
        try:
            return record_of(self.client.experiment(identifier))
        except ServiceError as error:
            if error.status == 404:
                # The service gives no advice on commands of a terminal.
                fix = error.fix or no_experiment(identifier, self.url).fix
                raise UserError(error.what.replace(" in the store", f" in {self.url}"), fix) from error
            raise

    def trials(self, identifier: str, *, facts: bool = True) -> tuple[Trial, ...]:
        """Give the trials with their runs; see :meth:`Store.trials`."""
        return tuple(trial_of(document) for document in self.client.trials(identifier, facts=facts))

    def request_stop(self, identifier: str) -> None:
        """Ask for a stop; see :meth:`Store.request_stop`."""
        self.client.stop(identifier)

    def annotate(self, identifier: str, *, tags: Sequence[str] | None = None, remark: str | None = None) -> None:
        """Replace tags, remark; see :meth:`Store.annotate`."""
        self.client.annotate(identifier, tags=tags, remark=remark)

    def delete(self, identifier: str) -> None:
        """Delete an experiment; see :meth:`Store.delete`."""
        self.client.delete(self.client.experiment_path(identifier))

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    # Only the service's workers write; the desk hands new experiments to them.
    create: Any = _not_here
    stop_requested: Any = _not_here
    claim: Any = _not_here
    renew: Any = _not_here
    release: Any = _not_here
    update: Any = _not_here
    plan: Any = _not_here
    begin: Any = _not_here
    accept: Any = _not_here


def record_of(document: Mapping[str, Any]) -> Record:
    """Make a record of a service's document."""
    return Record(
        id=document["id"],
        experiment=codec.read_experiment(document["definition"], document["id"]),
        state=document["state"],
        created=document["created"],
        updated=document["updated"],
        owner=document["owner"],
        facts=Facts(document["facts"]),
        result=None if document["result"] is None else codec.read_result(document["result"], document["id"]),
        trials=document["trials"],
        runs=document["runs"],
        ended=document["ended"],
        notes=tuple(document["notes"]),
        tags=tuple(document["tags"]),
        remark=document["remark"],
    )


def trial_of(document: Mapping[str, Any]) -> Trial:
    """Make a trial of a service's document."""
    return Trial(
        number=document["number"],
        configuration=Configuration(document["configuration"]),
        role=Role(document["role"]),
        runs=tuple(run_of(run) for run in document["runs"]),
        tag=document["tag"],
    )


def run_of(document: Mapping[str, Any]) -> Run:
    """Make a run of a service's document."""
    names = ("number", "trial", "value", "elapsed", "started", "reason", "pair", "arm")
    given = {name: document[name] for name in names}
    facts = dict(document.get("facts") or {})
    if document.get("folder"):
        facts.setdefault("folder", document["folder"])
    return Run(**given, phase=Phase(document["phase"]), state=State(document["state"]), facts=RunFacts(facts))
