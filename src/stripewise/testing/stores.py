"""The contract of stores.

Subclass :class:`StoreContract` in a test file, or :class:`DurableStoreContract` for a store that outlives its process,
give each test an empty store, and run the tests with pytest or any other runner that collects methods by the name
``test_*``; they use plain assertions and need no fixture.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Iterator

from stripewise.errors import StoreError
from stripewise.interpreter import python
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Store
from stripewise.testing.store_cases import LONG, refused, result_of, run_of, same, trial_of
from stripewise.testing.store_claims import ClaimsContract
from stripewise.testing.store_experiments import ExperimentsContract
from stripewise.testing.store_runs import RunsContract

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
                said = [_rest(process) for process in processes]
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
                    said += _rest(process)
                _note(said, accepted, seed)
                self.check(store, identifier, accepted, seed)
            total = store.record(identifier).runs + 5
            with self.writer(identifier, total) as process:
                _note(_rest(process), accepted, seed)
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
        command = python("-m", "stripewise.testing.writer", self.address, identifier, str(runs), "2000")
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


def _rest(process: subprocess.Popen[str]) -> list[str]:
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
