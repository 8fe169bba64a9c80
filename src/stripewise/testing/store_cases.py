"""What the parts of the contract of stores share: values, runs, expected refusals, and the store of a test.

Started as ``python -m stripewise.testing.store_cases ADDRESS EXPERIMENT RUNS BYTES``, it is a process that carries an
experiment on until it is killed. It takes the claim, finishes what an earlier process had planned, plans more, and
prints ``accepted NUMBER VALUE`` when the store has taken a result and must never lose it.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import StoreError, StripewiseError
from stripewise.facts import RunFacts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial

VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2**53 + 1, 2**63 - 1, 2**80, -(2**63), True, False),
    *(0.0, 1.0, -0.0, 0.1, 0.1 + 0.2, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5e-7, 1e22),
    *("", "true", "1", "1.0", "null", "disable", " spaces ", "Überträger", "写入", "\U0001f4be", "a\\b\"c'd", "%s_%"),
    *("\0", "half a character \udc80", "line\nbreak\ttab\r", "{}", "\u2028"),
)
"""What must come back as it went in, to the bit and to the type."""

LONG = 3600.0
"""Seconds of a lease that no test outlives."""


def run_of(number: int, trial: int = 0, **changes: Any) -> Run:
    """Give a planned run."""
    return replace(Run(number, trial, Phase.SEARCH), **changes)


def result_of(number: int, trial: int = 0, **changes: Any) -> Run:
    """Give a run with a result."""
    values = {"state": State.FINISHED, "value": 1.5, "elapsed": 2.5, "started": 1e9, **changes}
    return run_of(number, trial, **values)


def trial_of(number: int, **values: Any) -> Trial:
    """Give a trial without runs."""
    return Trial(number, Configuration(values))


@contextlib.contextmanager
def refused(kind: type[StripewiseError], *words: str) -> Iterator[None]:
    """Expect an error of a kind (no subclass will do) that says certain words."""
    try:
        yield
    except StripewiseError as error:
        assert type(error) is kind, f"{type(error).__name__}: {error}"
        for word in words:
            assert word in str(error), f"'{word}' is not said by: {error}"
        assert "\n" not in str(error)
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


class StoreCase:
    """A test's store.

    Before each test a subclass sets :attr:`address` to an empty store's, in ``setup_method`` or a fixture.
    """

    address: str

    def open(self) -> Store:
        """Open the store; override it if your store has an address that only you know."""
        return open_store(self.address)

    @contextlib.contextmanager
    def claimed(self, experiment: Experiment | None = None) -> Iterator[tuple[Store, str, Claim]]:
        """Give a store with a claimed experiment."""
        with self.open() as store:
            identifier = store.create(experiment or Experiment(name="contract"))
            yield store, identifier, store.claim(identifier, "ada", LONG)


def same(found: Any, expected: Any) -> None:
    """Compare values with their types, and numbers to the bit."""
    assert type(found) is type(expected), f"{found!r} is not {expected!r}"
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name, value in expected.items():
            same(found[name], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, float):
        assert found.hex() == expected.hex()
    else:
        assert found == expected


def at_once(count: int, call: Callable[[int], Any]) -> list[Any]:
    """Call from several threads at once, and give what those got that were not refused."""
    gate = threading.Barrier(count)
    won: list[Any] = []
    wrong: list[BaseException] = []

    def body(i: int) -> None:
        gate.wait()
        try:
            won.append(call(i))
        except StoreError:
            pass
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return won


RUNS_A_TRIAL = 3
LEASE_SECONDS = 3600.0


def carry_on(store: Store, identifier: str, total: int, size: int) -> None:
    """Bring an experiment to ``total`` runs with a result each, whose facts have ``size`` bytes."""
    claim = store.claim(identifier, f"writer:{os.getpid()}", LEASE_SECONDS)
    store.update(identifier, state="running", claim=claim)
    _say("claimed", claim.token)
    trials = store.trials(identifier)
    planned = [run for trial in trials for run in trial.runs]
    for run in planned:
        if not run.state.ended:
            _launch(store, claim, run, size)
    for number in range(len(planned), total):
        trial = number // RUNS_A_TRIAL
        new = number % RUNS_A_TRIAL == 0
        configuration = Configuration({"stripe_count": trial, "collective": trial % 2 == 0, "ratio": trial / 7})
        run = Run(number, trial, Phase.SEARCH)
        store.plan(identifier, claim, Trial(trial, configuration, Role.CANDIDATE) if new else None, run)
        _say("planned", number)
        _launch(store, claim, run, size)
    store.update(identifier, state="finished", result=Result(runs=total), claim=claim)
    store.release(claim)
    _say("finished", total)


def _launch(store: Store, claim: Claim, run: Run, size: int) -> None:
    store.begin(claim.experiment, claim, run.number)
    # Drawn anew at each launch: a result that was accepted twice would show.
    value = random.random()
    facts = RunFacts({"report": "x" * size})
    store.accept(
        claim.experiment, claim, Run(run.number, run.trial, run.phase, State.FINISHED, value, 0.1, 1.0, facts=facts)
    )
    _say("accepted", run.number, value)


def _say(*words: object) -> None:
    print(*words, flush=True)


def main(arguments: list[str]) -> None:
    """Open the store and carry on."""
    address, identifier, total, size = arguments
    with open_store(address) as store:
        carry_on(store, identifier, int(total), int(size))


if __name__ == "__main__":
    main(sys.argv[1:])
