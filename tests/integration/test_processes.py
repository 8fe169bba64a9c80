"""Ending the processes of a run: what they leave in memory goes with them, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.runners.local import processes
from tests.conftest import require

RANK = """
import mmap, os, sys, time
maps = [mmap.mmap(os.open(path, os.O_RDWR), 0) for path in sys.argv[1:]]
print("ready", flush=True)
time.sleep(300)
"""


@pytest.fixture
def memory() -> Iterator[list[Path]]:
    """Three files in memory: a segment that a rank maps, one of another job, and data that the rank maps."""
    require(Path("/dev/shm").is_dir(), "this machine has no /dev/shm")
    names = ["mpich_shm_test_own", "mpich_shm_test_other", "stripewise_test_data"]
    paths = [Path("/dev/shm") / f"{name}_{os.getpid()}" for name in names]
    for path in paths:
        path.write_bytes(bytes(4096))
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("grace", [0.0, 1.0])
def test_the_shared_memory_of_ended_ranks_is_removed_and_no_other(memory: list[Path], grace: float) -> None:
    own, other, data = memory
    run_id = f"shared-memory-{os.getpid()}"
    rank = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", RANK, str(own), str(data)],
        env={processes.MARKER: run_id},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert rank.stdout is not None
    with rank, rank.stdout:
        assert rank.stdout.readline() == b"ready\n"
        assert processes.end(run_id, rank.pid, grace) == []
    assert not own.exists()
    assert other.exists()
    assert data.exists()


def test_a_segment_made_anew_under_the_same_name_is_spared(memory: list[Path]) -> None:
    own, *_ = memory
    processes._remove({str(own): own.stat().st_ino + 1})
    assert own.exists()
