"""Experiments in a store: kept, found, listed, changed and deleted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from stripewise.errors import NotFound, StoreError, UserError
from stripewise.requests.experiment import Experiment, ParameterOverride
from stripewise.result import Result
from stripewise.store.base import Claim
from stripewise.testing.store_cases import LONG, VALUES, StoreCase, refused, result_of, run_of, same, trial_of


class ExperimentsContract(StoreCase):
    """What is asked of a store about whole experiments."""

    def test_an_experiment_comes_back_as_it_went_in(self) -> None:
        """Definition and facts keep every value and its type."""
        experiment = Experiment(
            name="Überträger \\",
            command=["mpiexec", "-n", "4", "./app", "--x=\udcff"],
            stacks=["romio"],
            objective="regex:([0-9.]+)",
            budget=7,
            seed=2**63 - 1,
            sampler_options={
                "zero": 0,
                "off": False,
                "rate": 0.1,
                "text": "0",
                "none": None,
                "nested": {"a": [1, 1.0]},
            },
            parameters={"cb_nodes": ParameterOverride(values=[1, 2.0, True, "four"])},
        )
        with self.open() as store:
            before = time.time()
            identifier = store.create(experiment, {"values": list(VALUES), "infinite": math.inf})
            record = store.record(identifier)
            same(record.experiment.model_dump(), experiment.model_dump())
            same(dict(record.facts), {"values": list(VALUES), "infinite": math.inf})
            assert (record.state, record.owner, record.result) == ("created", "", None)
            assert (record.trials, record.runs, record.ended) == (0, 0, 0)
            assert record.created == record.updated
            assert abs(record.created - before) < 60
            assert store.trials(identifier) == ()

    def test_identifiers_are_unique_and_can_be_cut(self) -> None:
        """A beginning that only one experiment has will do."""
        with self.open() as store:
            known = [store.create(Experiment(name=str(i))) for i in range(40)]
            assert len(set(known)) == 40
            for identifier in known:
                assert identifier.isalnum()
                assert store.record(identifier).id == identifier
                length = next(n for n in range(1, 99) if sum(other.startswith(identifier[:n]) for other in known) == 1)
                assert store.record(identifier[:length]).id == identifier
                shared = identifier[:1]
                if sum(other.startswith(shared) for other in known) > 1:
                    with refused(UserError, shared, "several"):
                        store.record(shared)

    def test_unknown_experiments_are_refused(self) -> None:
        """The user's fault, in every call, whatever was typed."""
        with self.open() as store:
            store.create(Experiment())
            claim = Claim("nowhere", 1, "ada")
            calls: list[Callable[[str], object]] = [
                store.record,
                store.trials,
                store.delete,
                store.request_stop,
                store.stop_requested,
                lambda i: store.claim(i, "ada"),
                lambda i: store.renew(claim),
                lambda i: store.update(i, state="running", claim=claim),
                lambda i: store.plan(i, claim, trial_of(0), run_of(0)),
                lambda i: store.begin(i, claim, 0),
                lambda i: store.accept(i, claim, result_of(0)),
            ]
            for call in calls:
                with refused(NotFound, "nowhere", "stripewise list"):
                    call("nowhere")
            for word in ("", "%", "_", "..", "../..", "/", "a b", "'", "\0", "\udc80", "é", "x" * 5000):
                with refused(NotFound):
                    store.record(word)
            # Giving back what has gone is allowed.
            store.release(claim)

    def test_people_annotate_experiments_at_any_time(self) -> None:
        """Tags and a remark are kept beside the experiment, also while somebody else runs it."""
        with self.open() as store:
            identifier = store.create(Experiment())
            store.claim(identifier, "ada", LONG)
            before = store.record(identifier)
            assert (before.tags, before.remark) == ((), "")
            store.annotate(identifier, tags=[" night ", "Überlauf", "night", ""])
            store.annotate(identifier, remark="before the firmware \\u0000\n")
            record = store.record(identifier)
            assert (record.tags, record.remark) == (("night", "Überlauf"), "before the firmware \\u0000")
            assert record.updated >= before.updated
            assert store.records()[0] == record
            store.annotate(identifier, tags=[])
            assert store.record(identifier).tags == ()
            for tags in (["a,b"], ["x" * 41], list("abcdefghijklmnopqrstu"), ["\0"]):
                with refused(UserError, "tag"):
                    store.annotate(identifier, tags=tags)
            for text in ("x" * 4001, "\0"):
                with refused(UserError, "remark"):
                    store.annotate(identifier, remark=text)
            with refused(NotFound):
                store.annotate("nowhere", tags=["a"])

    def test_pages_filters_and_orders(self) -> None:
        """Lists are cut, filtered and sorted in the store."""
        with self.open() as store:
            names = ["b", "a", "c", "a", "%", "A"]
            known = [store.create(Experiment(name=name)) for name in names]
            claim = store.claim(known[1], "ada", LONG)
            store.update(known[1], state="running", claim=claim)
            store.plan(known[1], claim, trial_of(0), run_of(0))

            def ids(*args: Any, **kwargs: Any) -> list[str]:
                return [record.id for record in store.records(*args, **kwargs)]

            assert ids(sort="created", descending=False) == known
            assert ids() == known[::-1]
            assert ids(limit=2, offset=1) == known[::-1][1:3]
            assert ids(limit=0) == []
            assert ids(offset=99) == []
            assert [ids(limit=1, offset=n)[0] for n in range(6)] == known[::-1]
            assert set(ids(name="a")) == {known[1], known[3]}
            assert ids(name="%") == [known[4]]
            assert ids("running") == [known[1]]
            assert ids("created", "a") == [known[3]]
            assert ids(sort="updated")[0] == known[1]
            assert ids(sort="runs")[0] == known[1]
            assert ids(sort="owner")[0] == known[1]
            assert ids(sort="state", descending=False)[-1] == known[1]
            listed = [record.experiment.name for record in store.records(name="a", sort="name")]
            assert listed == ["a", "a"]
            store.update(known[1], claim=claim, result=Result(speedup=2.0, confirmed=True))
            assert ids(sort="gain")[0] == known[1]
            for sort in ("created", "updated", "name", "state", "owner", "runs", "gain"):
                rising, falling = ids(sort=sort, descending=False), ids(sort=sort)
                assert set(rising) == set(known)
                assert rising == falling[::-1]
            assert (store.count(), store.count("running"), store.count("created", "a"), store.count(name="x")) == (
                6,
                1,
                1,
                0,
            )
            pages: tuple[dict[str, Any], ...] = ({"state": "asleep"}, {"sort": "beauty"}, {"limit": -1}, {"offset": -1})
            for bad in pages:
                with refused(UserError):
                    store.records(**bad)

    def test_updates_replace_what_is_given_and_nothing_else(self) -> None:
        """What is left out of an update stays."""
        with self.claimed() as (store, identifier, claim):
            store.update(identifier, claim=claim, facts={"a": 1, "b": {"c": [1.0]}})
            store.update(identifier, claim=claim, state="running")
            store.update(identifier, claim=claim, result=Result(speedup=3.1))
            first = store.record(identifier)
            assert (first.state, dict(first.facts), first.result) == (
                "running",
                {"a": 1, "b": {"c": [1.0]}},
                Result(speedup=3.1),
            )
            assert first.owner == "ada"
            store.update(identifier, claim=claim, facts={}, state="finished")
            second = store.record(identifier)
            assert (second.state, dict(second.facts), second.result) == ("finished", {}, Result(speedup=3.1))
            assert second.updated >= first.updated >= second.created
            with refused(UserError, "asleep"):
                store.update(identifier, claim=claim, state="asleep")
            with refused(StoreError, "JSON"):
                store.update(identifier, claim=claim, facts={"path": object()})
            assert store.record(identifier).facts == {}

    def test_deleting_takes_everything_and_nothing_else(self) -> None:
        """Deleting waits for the claim, and is complete."""
        with self.claimed() as (store, identifier, claim):
            other = store.create(Experiment(name="other"))
            hold = store.claim(other, "ada", LONG)
            for i, c in ((identifier, claim), (other, hold)):
                store.plan(i, c, trial_of(0, a=1), run_of(0))
            with refused(StoreError, "ada"):
                store.delete(identifier)
            assert store.record(identifier).runs == 1
            store.release(claim)
            store.delete(identifier)
            for call in (store.record, store.trials, store.delete):
                with refused(NotFound, identifier):
                    call(identifier)
            with refused(NotFound, identifier):
                store.plan(identifier, claim, trial_of(1), run_of(1, 1))
            store.release(claim)
            assert [record.id for record in store.records()] == [other]
            assert len(store.trials(other)) == 1
