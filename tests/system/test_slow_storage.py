"""Journals on a file system that shows changes late: no accepted result is lost, whoever is killed (simulated)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.kills.soak import Soak
from benchmarks.kills.storages import mounted, nfs

from stripewise.requests.experiment import Experiment
from stripewise.store.opening import open_store
from stripewise.testing.stores import result_of, run_of, trial_of
from tests.conftest import require

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _fuse(tmp_path: Path) -> None:
    server, client = tmp_path / "try-server", tmp_path / "try-client"
    for folder in (server, client):
        folder.mkdir()
    try:
        with mounted(server, client, 0):
            pass
    except RuntimeError as error:
        require(False, f"{error}: run as root where there is /dev/fuse")


@contextlib.contextmanager
def two_clients(folder: Path, delay: float, lost: float) -> Iterator[tuple[Path, list[Path]]]:
    """Mount a server's folder twice."""
    server, clients = folder / "server", [folder / "a", folder / "b"]
    for path in (server, *clients):
        path.mkdir()
    with contextlib.ExitStack() as stack:
        for seed, client in enumerate(clients):
            stack.enter_context(mounted(server, client, seed, delay, lost))
        yield server, clients


def test_the_file_system_shows_late_what_another_client_did(tmp_path: Path) -> None:
    with two_clients(tmp_path, 60.0, 1.0) as (_, (a, b)):
        (a / "file").write_text("one")
        assert (b / "file").read_text() == "one"
        with (a / "file").open("a") as file:
            file.write(" two")
        assert (a / "file").read_text() == "one two", "its own changes are seen at once"
        assert (b / "file").read_text() == "one", "those of others late"


@pytest.mark.parametrize("lost", [0.0, 0.5, 1.0])
def test_owners_on_two_clients_know_each_result_of_the_other(tmp_path: Path, lost: float) -> None:
    """Each takes over from the other, of whose journal it has seen half and remembers that for half a minute."""
    with two_clients(tmp_path, 60.0, lost) as (server, clients):
        places = [f"journal:{client}/journal" for client in clients]
        with open_store(places[0]) as store:
            identifier = store.create(Experiment())
        number = 0
        for turn in range(4):
            with open_store(places[turn % 2]) as own, open_store(places[1 - turn % 2]) as other:
                claim = own.claim(identifier, f"owner {turn}", 0.2)
                known = [run.value for trial in own.trials(identifier) for run in trial.runs]
                assert known == [float(before) for before in range(number)]
                for _ in range(4):
                    own.plan(identifier, claim, trial_of(number), run_of(number, trial=number))
                    own.accept(identifier, claim, result_of(number, trial=number, value=float(number)))
                    number += 1
                    if number % 4 == 2:
                        other.trials(identifier)
            time.sleep(0.3)
        with open_store(f"journal:{server}/journal") as store:
            assert [run.value for trial in store.trials(identifier) for run in trial.runs] == [*map(float, range(16))]
            assert not store.record(identifier).notes


@pytest.mark.slow
def test_three_kills_leave_each_result_once(tmp_path: Path) -> None:
    """The beginning of ``python -m benchmarks.kills``, which makes two hundred."""
    with nfs(tmp_path, 1) as storage:
        figures = Soak(storage, tmp_path, 1).run(3)
    assert figures.kills.total() >= 3
    assert figures.results >= 10
