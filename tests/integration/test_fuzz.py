"""Fuzzing for some seconds a parser, and the thread sanitizer; `make soak` and `make sanitize` do the whole."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.building import ROOT
from tests.integration.conftest import Mpi

sys.path.insert(0, str(ROOT / "native"))
import soak

SECONDS = 20


@pytest.mark.slow
def test_twenty_seconds_a_target_find_nothing(mpich: Mpi, tmp_path: Path) -> None:
    require(soak.compiler(), "no clang: apt install clang libclang-rt-14-dev")
    command = [sys.executable, str(ROOT / "native" / "soak.py"), "--mpicc", str(mpich.mpicc)]
    command += ["--seconds", str(SECONDS), "--kept", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == set(soak.targets())
    assert not list(tmp_path.glob("finding-*"))


@pytest.mark.slow
def test_the_parsers_in_python_give_a_value_or_an_error_of_ours(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--seconds", "1", "--kept", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_thread_sanitizer_finds_nothing(mpich: Mpi, tmp_path: Path) -> None:
    """In the two programs in which it once did; ``make sanitize`` runs all, with all tools and both MPIs."""
    command = [sys.executable, str(ROOT / "native" / "sanitize.py"), "--mpi", f"mpich={mpich.mpicc.parent}"]
    command += ["--tool", "thread", "--kept", str(tmp_path), "--only", ".*_many_threads|exits_while_threads_write"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("nothing found") == 2, done.stdout
