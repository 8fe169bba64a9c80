"""Claims on experiments: one writer at a time, whatever happens to the one before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from stripewise.errors import StoreError
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Claim
from stripewise.testing.store_cases import LONG, StoreCase, at_once, refused, result_of, run_of, trial_of


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
