"""The contract of stores.

Subclass :class:`StoreContract` in a test file, or :class:`DurableStoreContract` for a store that outlives its process,
give each test an empty store, and run the tests with pytest or any other runner that collects methods by the name
``test_*``; they use plain assertions and need no fixture.

Claims on experiments: one writer at a time, whatever happens to the one before.

Trials and runs in a store: every value as it was, and one result a run.

Experiments in a store: kept, found, listed, changed and deleted.
"""

from __future__ import annotations

import contextlib
import math
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import NotFound, StoreError, UserError
from stripewise.facts import RunFacts
from stripewise.interpreter import python
from stripewise.requests.experiment import Experiment, ParameterOverride
from stripewise.result import Result
from stripewise.store.base import Claim, Store
from stripewise.testing.store_cases import LONG, VALUES, StoreCase, at_once, refused, result_of, run_of, same, trial_of
from stripewise.trial import Phase, Role, State, Trial


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


class RunsContract(StoreCase):
    """What is asked of a store about trials and runs."""

    def test_values_come_back_to_the_bit_and_to_the_type(self) -> None:
        """True is not 1, 1 is not 1.0, and 0.1 + 0.2 is not 0.3."""
        configuration = {f"p{i}": value for i, value in enumerate(VALUES)}
        with self.claimed() as (store, identifier, claim):
            trial = Trial(0, Configuration(configuration), Role.DEFAULT, tag="\0 \udc80 \\u0000 ü")
            planned = run_of(0, pair=0, arm="default", facts={"against": 3})
            store.plan(identifier, claim, trial, planned)
            found = store.trials(identifier)
            same(dict(found[0].configuration), configuration)
            assert list(found[0].configuration) == list(configuration)
            assert found == (replace(trial, runs=(planned,)),)
            same(dict(found[0].runs[0].facts), {"against": 3})
            # Databases know no negative zero, and no measurement gives one, nor a time beyond all calendars.
            numbers = [v for v in VALUES if isinstance(v, float) and str(v) != "-0.0" and abs(v) < 1e9]
            for number, value in enumerate(numbers, start=1):
                taken = abs(value)
                run = result_of(number, value=value, elapsed=taken, started=taken, reason="\0 \udc80 ü\\")
                run = replace(
                    run, phase=Phase.CONFIRMATION, pair=number, arm="candidate", facts=RunFacts({"v": list(VALUES)})
                )
                store.plan(identifier, claim, None, replace(run, state=State.PENDING, facts=RunFacts()))
                store.accept(identifier, claim, run)
                kept = store.trials(identifier)[0].runs[number]
                assert kept == run
                same([kept.value, kept.elapsed, kept.started], [value, taken, taken])
                same(dict(kept.facts), {"v": list(VALUES)})
            assert all(run.facts == {} for run in store.trials(identifier, facts=False)[0].runs)
            assert store.trials(identifier, facts=False) == store.trials(identifier)

    def test_trials_and_runs_come_in_order(self) -> None:
        """Trials come in order of asking, runs in order of planning."""
        with self.claimed() as (store, identifier, claim):
            numbers = [(0, 0), (1, 1), (2, 0), (3, 2), (4, 1), (5, 0), *((n, n) for n in range(6, 15))]
            seen: set[int] = set()
            for number, trial in numbers:
                store.plan(
                    identifier, claim, None if trial in seen else trial_of(trial, n=trial), run_of(number, trial)
                )
                seen.add(trial)
            found = store.trials(identifier)
            assert [trial.number for trial in found] == sorted(seen)
            for asked in found:
                assert [run.number for run in asked.runs] == [n for n, t in numbers if t == asked.number]
            record = store.record(identifier)
            assert (record.trials, record.runs, record.ended) == (len(seen), len(numbers), 0)

    def test_a_run_has_one_result(self) -> None:
        """The first result stays, whatever comes later."""
        with self.claimed() as (store, identifier, claim):
            store.plan(identifier, claim, trial_of(0), run_of(0))
            assert store.trials(identifier)[0].runs[0].state is State.PENDING
            store.begin(identifier, claim, 0)
            store.begin(identifier, claim, 0, {"attempt": 1})
            begun = store.trials(identifier)[0].runs[0]
            assert begun.state is State.RUNNING
            assert begun.facts == {"attempt": 1}
            first = result_of(0, value=3.0, facts={"output": "a"})
            store.accept(identifier, claim, first)
            with refused(StoreError, "run 0", "already has a result"):
                store.accept(identifier, claim, result_of(0, value=4.0))
            with refused(StoreError, "run 0", "already has a result"):
                store.accept(identifier, claim, first)
            with refused(StoreError, "run 0", "already has a result"):
                store.begin(identifier, claim, 0)
            assert store.trials(identifier)[0].runs == (first,)
            assert store.trials(identifier)[0].runs[0].facts == {"output": "a"}
            assert store.record(identifier).ended == 1
            for number, state in enumerate((State.FAILED, State.PRUNED), start=1):
                ended = result_of(number, state=state, value=None, reason="exit code 1")
                store.plan(identifier, claim, None, run_of(number))
                store.accept(identifier, claim, ended)
                assert store.trials(identifier)[0].runs[number] == ended
                with refused(StoreError, "already has a result"):
                    store.accept(identifier, claim, result_of(number))

    def test_what_makes_no_sense_is_refused_whole(self) -> None:
        """A refused call has changed nothing."""
        with self.claimed() as (store, identifier, claim):
            store.plan(identifier, claim, trial_of(0), run_of(0))
            before = (store.trials(identifier), store.record(identifier).runs)
            with refused(StoreError, "run 0"):
                store.plan(identifier, claim, trial_of(1), run_of(0, 1))
            with refused(StoreError, "trial 0"):
                store.plan(identifier, claim, trial_of(0), run_of(1))
            with refused(StoreError, "trial 5"):
                store.plan(identifier, claim, None, run_of(1, 5))
            with refused(StoreError, "trial 1"):
                store.plan(identifier, claim, trial_of(2), run_of(1, 1))
            with refused(StoreError, "run 1"):
                store.plan(identifier, claim, None, result_of(1))
            with refused(StoreError, "run 9", "never planned"):
                store.accept(identifier, claim, result_of(9))
            with refused(StoreError, "run 9", "never planned"):
                store.begin(identifier, claim, 9)
            with refused(StoreError, "trial 0", "trial 3"):
                store.accept(identifier, claim, result_of(0, 3))
            with refused(StoreError, "run 0", "no result"):
                store.accept(identifier, claim, run_of(0, state=State.RUNNING))
            with refused(StoreError, "run 0", "not a number"):
                store.accept(identifier, claim, result_of(0, value=math.nan))
            with refused(StoreError, "JSON"):
                store.accept(identifier, claim, result_of(0, facts={"x": {1, 2}}))
            with refused(StoreError, identifier):
                store.accept(identifier, Claim("other", claim.token, "ada"), result_of(0))
            assert (store.trials(identifier), store.record(identifier).runs) == before


class ClaimsContract(StoreCase):
    """What is asked of a store about who may write."""

    def test_a_claim_keeps_others_out_until_it_is_given_back(self) -> None:
        """The refusal names the owner; fencing numbers grow."""
        with self.claimed() as (store, identifier, claim):
            store.update(identifier, state="running", claim=claim)
            with refused(StoreError, "ada", identifier):
                store.claim(identifier, "bob")
            store.release(claim)
            second = store.claim(identifier, "bob", LONG)
            assert second.token > claim.token
            assert store.record(identifier).owner == "bob"
            store.release(second)
            store.release(second)

    def test_writes_of_a_lost_claim_are_refused(self) -> None:
        """Only the latest claim writes, and only until it is given back."""
        with self.claimed() as (store, identifier, old):
            store.plan(identifier, old, trial_of(0), run_of(0))
            new = store.claim(identifier, "ada", LONG)
            assert new.token > old.token
            calls: list[Callable[[Claim], object]] = [
                lambda c: store.update(identifier, state="failed", claim=c),
                lambda c: store.plan(identifier, c, trial_of(1), run_of(1, 1)),
                lambda c: store.begin(identifier, c, 0),
                lambda c: store.accept(identifier, c, result_of(0)),
                store.renew,
            ]
            for call in calls:
                with refused(StoreError, identifier):
                    call(old)
            store.release(old)
            assert store.trials(identifier) == (replace(trial_of(0), runs=(run_of(0),)),)
            assert store.record(identifier).state == "created"
            store.renew(new)
            for call in calls:
                call(new)
            store.release(new)
            for call in calls:
                with refused(StoreError, identifier):
                    call(new)

    def test_a_lease_that_ran_out_is_taken_over(self) -> None:
        """Renewing keeps a claim; without it the experiment reads as stopped and is free."""
        with self.claimed() as (store, identifier, claim):
            store.release(claim)
            # A machine that is busy may need longer than a short lease for what lies between.
            for lease in (0.4, 4.0, 40.0):
                first = store.claim(identifier, "ada", lease)
                store.update(identifier, state="running", claim=first)
                time.sleep(lease / 2)
                renewed = time.monotonic()
                store.renew(first)
                time.sleep(0.75 * lease)
                state = store.record(identifier).state
                try:
                    bob = store.claim(identifier, "bob")
                except StoreError as error:
                    told = str(error)
                else:
                    told = ""
                    store.release(bob)
                if time.monotonic() - renewed < lease:
                    break
            assert "ada" in told
            assert state == "running"
            time.sleep(lease / 2)
            assert store.record(identifier).state == "stopped"
            assert [record.id for record in store.records("stopped")] == [identifier]
            assert store.records("running") == []
            # Late, but nobody has taken over: no harm is done.
            store.plan(identifier, first, trial_of(0), run_of(0))
            second = store.claim(identifier, "bob", LONG)
            with refused(StoreError, "ada", "bob"):
                store.accept(identifier, first, result_of(0))
            store.accept(identifier, second, result_of(0, value=7.0))
            assert store.trials(identifier)[0].values == (7.0,)
            assert store.record(identifier).state == "running"

    def test_a_request_to_stop_ends_with_the_claim_it_was_made_to(self) -> None:
        """Resuming does not stop at once for an old request."""
        with self.open() as store:
            identifier = store.create(Experiment())
            assert not store.stop_requested(identifier)
            store.request_stop(identifier)
            assert store.stop_requested(identifier)
            claim = store.claim(identifier, "ada")
            assert not store.stop_requested(identifier)
            store.request_stop(identifier)
            store.request_stop(identifier)
            assert store.stop_requested(identifier)
            store.update(identifier, state="stopped", claim=claim)
            store.release(claim)
            assert store.stop_requested(identifier)
            store.claim(identifier, "ada")
            assert not store.stop_requested(identifier)

    def test_of_many_at_once_one_gets_the_claim(self) -> None:
        """Eight threads want the same experiment."""
        with self.open() as store:
            identifier = store.create(Experiment())
            won = at_once(8, lambda i: store.claim(identifier, f"owner {i}", LONG))
            assert len(won) == 1
            assert store.record(identifier).owner == won[0].owner

    def test_of_many_results_at_once_one_is_kept(self) -> None:
        """Six threads have a result for the same run."""
        with self.claimed() as (store, identifier, claim):
            for number in range(5):
                store.plan(identifier, claim, trial_of(0) if number == 0 else None, run_of(number))

                def accept(i: int, number: int = number) -> float:
                    store.accept(identifier, claim, result_of(number, value=float(i)))
                    return float(i)

                won = at_once(6, accept)
                assert len(won) == 1
                assert store.trials(identifier)[0].runs[number].value == won[0]
            assert store.record(identifier).ended == 5


__all__ = ["DurableStoreContract", "StoreContract", "refused", "result_of", "run_of", "same", "trial_of"]


class StoreContract(ExperimentsContract, RunsContract, ClaimsContract):
    """What the tuning loop, the server and the command line rely on.

    Before each test a subclass sets ``address`` to an empty store's, in ``setup_method`` or a fixture.
    """


class DurableStoreContract(StoreContract):
    """What is asked of stores that outlive their processes, as well.

    Attributes
    ----------
    kills : int
        How often a writer is killed.
    """

    kills = 10

    def test_what_was_accepted_is_there_when_the_store_is_opened_again(self) -> None:
        """A second opener sees what the first was told."""
        with self.claimed() as (store, identifier, claim):
            store.plan(identifier, claim, trial_of(0, a=1.0, b=True), run_of(0))
            store.accept(identifier, claim, result_of(0))
            store.request_stop(identifier)
            with self.open() as other:
                assert other.trials(identifier) == store.trials(identifier)
                assert other.record(identifier) == store.record(identifier)
                assert other.stop_requested(identifier)
                with refused(StoreError, "ada"):
                    other.claim(identifier, "bob")
            store.release(claim)
        with self.open() as store:
            assert store.trials(identifier)[0].runs == (result_of(0),)
            assert store.claim(identifier, "bob").token > claim.token

    def test_the_claim_of_a_dead_process_is_taken_over_at_once(self) -> None:
        """A killed owner keeps nobody waiting for its lease."""
        with self.open() as store:
            identifier = store.create(Experiment())
            with self.writer(identifier, runs=10**6) as process:
                assert _lines(process, 1)[0].startswith("claimed")
                assert store.record(identifier).state == "running"
                with refused(StoreError, "writer"):
                    store.claim(identifier, "bob")
                process.kill()
                process.wait()
            assert store.record(identifier).state == "stopped"
            assert store.count("stopped") == 1
            claim = store.claim(identifier, "bob", LONG)
            assert store.record(identifier).owner == "bob"
            store.release(claim)

    def test_several_processes_write_at_once(self) -> None:
        """Writers of different experiments wait for one another, and none is refused."""
        with self.open() as store:
            known = [store.create(Experiment(name=str(i))) for i in range(3)]
            with contextlib.ExitStack() as stack:
                processes = [stack.enter_context(self.writer(identifier, 20)) for identifier in known]
                said = [_read_rest(process) for process in processes]
            for identifier, lines in zip(known, said, strict=True):
                assert lines[-1:] == ["finished 20\n"], lines
                record = store.record(identifier)
                assert (record.state, record.runs, record.ended) == ("finished", 20, 20)

    def test_kill_at_any_moment_loses_nothing_and_doubles_nothing(self) -> None:
        """Writers are killed with SIGKILL until the work is done."""
        seed = random.randrange(2**32)
        rng = random.Random(seed)
        accepted: dict[int, float] = {}
        with self.open() as store:
            identifier = store.create(Experiment())
            for _ in range(self.kills):
                with self.writer(identifier, runs=10**6) as process:
                    said = _lines(process, 1)
                    time.sleep(rng.expovariate(1 / 0.05))
                    process.kill()
                    said += _read_rest(process)
                _note(said, accepted, seed)
                self.check(store, identifier, accepted, seed)
            total = store.record(identifier).runs + 5
            with self.writer(identifier, total) as process:
                _note(_read_rest(process), accepted, seed)
            self.check(store, identifier, accepted, seed)
            record = store.record(identifier)
            assert (record.state, record.runs, record.ended) == ("finished", total, total), seed
            assert sorted(accepted) == list(range(total)), seed

    def check(self, store: Store, identifier: str, accepted: dict[int, float], seed: int) -> None:
        """Compare what is kept with what writers were told."""
        with self.open() as fresh:
            trials = fresh.trials(identifier)
            assert trials == store.trials(identifier), seed
            record = fresh.record(identifier)
        kept = {run.number: run for trial in trials for run in trial.runs}
        assert sorted(kept) == list(range(len(kept))), seed
        assert [trial.number for trial in trials] == list(range(len(trials))), seed
        ended = {number: run for number, run in kept.items() if run.state.ended}
        for number, value in accepted.items():
            assert number in ended, (seed, number)
            assert ended[number].value == value, (seed, number)
        # Killed between the store's word and its own, a writer may have kept one more than it could say.
        for number, run in ended.items():
            accepted.setdefault(number, float(run.value or 0.0))
        assert (record.trials, record.runs, record.ended) == (len(trials), len(kept), len(ended)), seed

    @contextlib.contextmanager
    def writer(self, identifier: str, runs: int) -> Iterator[subprocess.Popen[str]]:
        """Start a process that writes to the experiment."""
        command = python("-m", "stripewise.testing.store_cases", self.address, identifier, str(runs), "2000")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def _read_rest(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    lines = process.stdout.readlines()
    process.wait()
    return lines


def _note(lines: list[str], accepted: dict[int, float], seed: int) -> None:
    """Take in what a writer has said; no run may be accepted twice."""
    for line in lines:
        words = line.split()
        if len(words) == 3 and words[0] == "accepted" and line.endswith("\n"):
            number = int(words[1])
            assert number not in accepted, (seed, number)
            accepted[number] = float(words[2])
