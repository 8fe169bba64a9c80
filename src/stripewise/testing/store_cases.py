"""What the parts of the contract of stores share: values, runs, expected refusals, and the store of a test."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import StoreError, StripewiseError
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Run, State, Trial

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
