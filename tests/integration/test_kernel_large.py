"""stripewise-kernel with more than two GiB in a call, under MPICH and Open MPI."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.conftest import Mpi

KIB = 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mpi", "api"),
    [
        # System calls are the same under every MPI. Each takes long, so each MPI meets one of the others.
        ("mpich", ["-a", "posix"]),
        ("openmpi", ["-a", "mpiio", "-c"]),
        ("mpich", ["--layout", "strided", "--piece", "2052m"]),
    ],
    indirect=["mpi"],
)
def test_more_than_two_gib_in_a_call(mpi: Mpi, kernel: Callable[[Mpi], Path], api: list[str], tmp_path: Path) -> None:
    memory = int(re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) // KIB  # type: ignore[index]
    require(memory > 3000, f"{memory} MiB of memory available, 3000 MiB needed")
    command = [*mpi.mpiexec(1), str(kernel(mpi)), "-o", str(tmp_path / "data"), *api, "-b", "2052m", "-t", "2052m"]
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    write, read = json.loads(done.stdout)["repetitions"]
    assert write["bytes"] == read["bytes"] == 2052 * KIB * KIB
    assert read["verified"] is True
