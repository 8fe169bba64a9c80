"""The fuzz targets for some seconds each; `make soak` gives them ten minutes."""

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
