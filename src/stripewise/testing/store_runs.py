"""Trials and runs in a store: every value as it was, and one result a run."""

from __future__ import annotations

import math
from dataclasses import replace

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import StoreError
from stripewise.facts import RunFacts
from stripewise.store.base import Claim
from stripewise.testing.store_cases import VALUES, StoreCase, refused, result_of, run_of, same, trial_of
from stripewise.trial import Phase, Role, State, Trial


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
            # Databases know no negative zero, and no measurement gives one.
            numbers = [value for value in VALUES if isinstance(value, float) and str(value) != "-0.0"]
            numbers += [math.inf, -math.inf]
            for number, value in enumerate(numbers, start=1):
                run = result_of(number, value=value, elapsed=value, started=value, reason="\0 \udc80 ü\\")
                run = replace(
                    run, phase=Phase.CONFIRMATION, pair=number, arm="candidate", facts=RunFacts({"v": list(VALUES)})
                )
                store.plan(identifier, claim, None, replace(run, state=State.PENDING, facts=RunFacts()))
                store.accept(identifier, claim, run)
                kept = store.trials(identifier)[0].runs[number]
                assert kept == run
                same([kept.value, kept.elapsed, kept.started], [value] * 3)
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
