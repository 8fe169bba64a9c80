"""A disk that runs full loses nothing that was accepted, and the experiment goes on once there is room."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.errors import StoreError
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.testing.store_cases import carry_on
from stripewise.testing.stores import refused, result_of, run_of, trial_of
from tests.conftest import require

ADDRESSES = ("sqlite:///{}/s.db", "journal:{}/journal")
FACTS = {"output": "x" * 20_000}
KIB = 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    require(done.returncode == 0, f"mounting a small disk needs root: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(store: Store, identifier: str) -> tuple[Claim, dict[int, float]]:
    """Write until the disk is full, and give the claim and the values that were accepted."""
    claim = store.claim(identifier, "ada", 3600.0)
    store.update(identifier, state="running", claim=claim)
    accepted: dict[int, float] = {}
    first = store.record(identifier).runs
    with pytest.raises(StoreError) as caught:
        for number in range(first, first + 1000):
            store.plan(identifier, claim, trial_of(number, n=number), run_of(number, number))
            value = random.random()
            store.accept(identifier, claim, result_of(number, number, value=value, facts=FACTS))
            accepted[number] = value
    assert "disk is full" in str(caught.value), str(caught.value)
    assert "make room" in str(caught.value)
    assert len(accepted) > 3
    return claim, accepted


def values_of(store: Store, identifier: str) -> dict[int, float | None]:
    return {run.number: run.value for trial in store.trials(identifier) for run in trial.runs if run.state.ended}


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_full_disk_loses_nothing(address: str, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300 * KIB)
    where = address.format(small_disk)
    with open_store(where) as store:
        identifier = store.create(Experiment())
        claim, accepted = fill(store, identifier)
        # Full, but readable: by this process and by others.
        assert values_of(store, identifier) == accepted
    with open_store(where) as store:
        assert values_of(store, identifier) == accepted
        assert store.record(identifier).notes == ()
        ballast.unlink()
        # The first session's process would be dead now; here it is this one, and must let go.
        assert store.claim(identifier, "ada").token == claim.token + 1
        store.release(Claim(identifier, claim.token + 1, "ada"))
        total = store.record(identifier).runs
        carry_on(store, identifier, total, 10)
        record = store.record(identifier)
        assert (record.state, record.runs, record.ended) == ("finished", total, total)
        kept = values_of(store, identifier)
        assert {number: kept[number] for number in accepted} == accepted


@pytest.mark.parametrize("address", ADDRESSES)
def test_going_on_under_the_same_claim_once_there_is_room(address: str, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300 * KIB)
    with open_store(address.format(small_disk)) as store:
        identifier = store.create(Experiment())
        claim = store.claim(identifier, "ada", 3600.0)
        store.plan(identifier, claim, trial_of(0), run_of(0))
        with pytest.raises(StoreError):
            for _ in range(1000):
                store.accept(identifier, claim, result_of(0, facts={"output": "x" * 2_000_000}))
        ballast.unlink()
        store.accept(identifier, claim, result_of(0, value=4.0))
        assert values_of(store, identifier) == {0: 4.0}
        store.release(claim)


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_room_for_a_new_store(address: str, small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 4096)
    where = address.format(small_disk)
    with refused(StoreError, "disk is full", "make room"), open_store(where) as store:
        store.create(Experiment())
    # There is no experiment yet that could be resumed.
    assert main(["tune", "--store", where, "--yes", "--", "true"]) == 1
    assert "make room, then repeat the command" in " ".join(capsys.readouterr().err.split())
    ballast.unlink()
    with open_store(where) as store:
        assert store.record(store.create(Experiment())).state == "created"


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_limit_on_file_sizes_loses_nothing(address: str, tmp_path: Path) -> None:
    where = address.format(tmp_path)
    with open_store(where) as store:
        identifier = store.create(Experiment())
    command = [sys.executable, "-m", "stripewise.testing.store_cases", where, identifier, "1000", "20000"]
    limit = 500 * KIB
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stripewise.errors.StoreError: store "), done.stderr
    assert "disk" in last
    words = [line.split() for line in done.stdout.splitlines()]
    accepted = {int(word[1]): float(word[2]) for word in words if word[0] == "accepted"}
    assert len(accepted) > 3
    with open_store(where) as store:
        kept = values_of(store, identifier)
        assert {number: kept[number] for number in accepted} == accepted
        total = len(accepted) + 10
        carry_on(store, identifier, total, 10)
        assert store.record(identifier).ended == total
