"""Every store that needs no server keeps the contract of stores; PostgreSQL's run is among the system tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stripewise.catalogue.configuration import Configuration
from stripewise.requests.experiment import Experiment
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.testing import store_cases as writer
from stripewise.testing.stores import DurableStoreContract, StoreContract, run_of, same
from stripewise.trial import Trial
from tests.integration.forked import CONTEXT

scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=())),
)


@pytest.mark.parametrize("address", [MEMORY, "sqlite:///{}/store.db", "journal:{}/journal"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(st.text(min_size=1), scalars, max_size=5), tag=st.text(st.characters()))
def test_any_configuration_comes_back(address: str, tmp_path: Path, values: dict[str, Any], tag: str) -> None:
    with open_store(address.format(tmp_path)) as store:
        identifier = store.create(Experiment(), {"values": values})
        claim = store.claim(identifier, "ada")
        store.plan(identifier, claim, Trial(0, Configuration(values), tag=tag), run_of(0, reason=tag))
        (trial,) = store.trials(identifier)
        same(dict(trial.configuration), values)
        same(dict(store.record(identifier).facts), {"values": values})
        assert (trial.tag, trial.runs[0].reason) == (tag, tag)


class TestMemory(StoreContract):
    address = MEMORY


class Writer:
    """The writer of the contract, forked from a process that has loaded it: loading takes a second."""

    def __init__(self, *words: str) -> None:
        reading, writing = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=_write, args=(writing, list(words)))
        self._process.start()
        writing.close()
        self.stdout = os.fdopen(os.dup(reading.fileno()))
        reading.close()
        self.kill, self.wait = self._process.kill, self._process.join


def _write(told: Connection, words: list[str]) -> None:
    os.dup2(told.fileno(), 1)
    told.close()
    writer.main(words)


class ForkedStoreContract(DurableStoreContract):
    @contextlib.contextmanager
    def writer(self, identifier: str, runs: int) -> Iterator[Any]:
        process = Writer(self.address, identifier, str(runs), "2000")
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


class TestSqlite(ForkedStoreContract):
    @pytest.fixture(autouse=True)
    def _address(self, tmp_path: Path) -> None:
        self.address = f"sqlite:///{tmp_path}/new/store.db"


class TestJournal(ForkedStoreContract):
    @pytest.fixture(autouse=True)
    def _address(self, tmp_path: Path) -> None:
        self.address = f"journal:{tmp_path}/new/journal"
