"""Fortran programs in the three bindings, with the MPIs of the system: the wheels bring no Fortran."""

import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.conftest import Mpi
from tests.integration.hdf5_support import system_bench
from tests.integration.runtime_support import HEADER, Bench

RANKS = 4
BYTES = 64 * 1024
SOURCES = ["strided_mpif.f", "strided_mpi.f90", "strided_f08.f90"]


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The system's MPI of that name (Debian: libmpich-dev, libopenmpi-dev, gfortran)."""
    name = request.param
    found = {tool: shutil.which(f"{tool}.{name}") for tool in ("mpicc", "mpifort", "mpiexec")}
    require(all(found.values()), f"no Fortran with {name} (Debian: apt install gfortran lib{name}-dev {name}*)")
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    launcher = (str(found["mpiexec"]), *(options if name == "openmpi" else []))
    return system_bench(Mpi(name, Path(str(found["mpicc"])), launcher), tmp_path_factory)


def compiler(bench: Bench) -> str:
    return str(shutil.which(f"mpifort.{bench.mpi.name}"))


@pytest.mark.parametrize("source", SOURCES)
def test_each_call_counts_once_in_every_binding(bench: Bench, tmp_path: Path, source: str) -> None:
    program = bench.program(source, compiler=compiler(bench))
    outcome = bench.run(program, tmp_path / "data", ranks=RANKS)
    assert (outcome.code, outcome.complaints) == (0, [])
    file = outcome.file("data")
    expected = dict.fromkeys(("open", "close", "set_view", "sync"), (RANKS, 0))
    expected |= dict.fromkeys(("write_at_all", "read_at_all"), (RANKS, RANKS * BYTES))
    if source == "strided_f08.f90":
        expected["iread_at"] = (RANKS, RANKS * 1024)
    assert {name: (found["count"], found["bytes"]) for name, found in file["operations"].items()} == expected
    assert file["posix"]["write"]["during_collective"]["bytes"] == RANKS * BYTES
    assert file["view"]["filetype_size"] == BYTES
    assert file["driver"].startswith("UFS" if bench.is_mpich else "ompio")


@pytest.mark.parametrize("source", SOURCES)
def test_the_plan_reaches_every_binding(bench: Bench, tmp_path: Path, source: str) -> None:
    program = bench.program(source, compiler=compiler(bench))
    plan = HEADER + "hint cb_buffer_size 32768\nhint romio_cb_write enable\n"
    tuned = bench.run(program, tmp_path / "tuned", ranks=RANKS, plan=plan)
    plain = bench.run(program, tmp_path / "plain", ranks=RANKS, preload=False)
    assert tuned.code == plain.code == 0
    setting = tuned.setting("tuned", "cb_buffer_size")
    assert (setting["outcome"], setting["echoed"]) == ("applied", "32768")
    if bench.is_mpich:
        assert tuned.file("tuned")["posix"]["write"]["max_size"] == 32768
    assert (tmp_path / "tuned").read_bytes() == (tmp_path / "plain").read_bytes()


def test_c_programs_with_the_systems_mpi_are_counted_too(bench: Bench, tmp_path: Path) -> None:
    large = bench.has("MPI_File_write_at_c")
    program = bench.program("every_call.c", *(["-DLARGE_COUNTS"] if large else []))
    outcome = bench.run(program, tmp_path / "data", "own", ranks=RANKS)
    assert outcome.code == 0, outcome.stderr
    times = 2 if large else 1
    operations = outcome.file("data")["operations"]
    assert {found["count"] for name, found in operations.items() if "read" in name or "write" in name} == {
        RANKS * times
    }
