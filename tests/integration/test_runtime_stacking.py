"""The runtime together with other libraries that stand between a program and MPI."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench

RANKS = 2


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def test_a_library_behind_sees_the_tuned_call_once(bench: Bench, tmp_path: Path) -> None:
    log = tmp_path / "spy.log"
    outcome = bench.run(
        bench.program("strided.c"),
        tmp_path / "data",
        ranks=RANKS,
        plan=HEADER + "hint romio_cb_write enable\n",
        behind=(bench.preload("spy.c"),),
        SPY_LOG=str(log),
    )
    assert outcome.code == 0, outcome.stderr
    assert log.read_text().splitlines() == ["open romio_cb_write=enable", "write_at_all"]
    assert outcome.file("data")["operations"]["write_at_all"]["count"] == RANKS


def test_darshan_behind_writes_its_log(bench: Bench, tmp_path: Path) -> None:
    libdarshan = os.environ.get("STRIPEWISE_LIBDARSHAN", "")
    if not Path(libdarshan).is_file():
        pytest.skip("Debian packages no libdarshan: name one in STRIPEWISE_LIBDARSHAN")
    needed = subprocess.run(["ldd", libdarshan], capture_output=True, text=True, check=True).stdout
    if ("libmpi.so.40" in needed) == bench.is_mpich:
        pytest.skip("this libdarshan is built with the other MPI")
    log = tmp_path / "log.darshan"
    outcome = bench.run(
        bench.program("strided.c"),
        tmp_path / "data",
        ranks=RANKS,
        plan=HEADER + "hint romio_cb_write enable\n",
        behind=(Path(libdarshan),),
        DARSHAN_LOGFILE=str(log),
    )
    assert outcome.code == 0, outcome.stderr
    assert log.stat().st_size > 0
    assert outcome.file("data")["operations"]["write_at_all"]["count"] == RANKS


def test_mpi_that_came_by_dlopen_is_found(bench: Bench, tmp_path: Path) -> None:
    """As in Python: the program has no MPI, an extension in a local scope brings it."""
    extension = tmp_path / "extension.so"
    main = tmp_path / "main"
    source = tmp_path / "main.c"
    source.write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(int argc, char **argv) {\n"
        "    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);\n"
        "    if (!library) { puts(dlerror()); return 2; }\n"
        '    return ((int (*)(int, char **))dlsym(library, "main"))(argc - 2, argv);\n}\n'
    )
    program = bench.program("strided.c")
    flags = [
        "-O1",
        "-shared",
        "-fPIC",
        str(Path(__file__).parents[1] / "fixtures" / "programs" / "strided.c"),
    ]
    subprocess.run([str(bench.mpi.mpicc), *flags, "-o", str(extension)], check=True)
    subprocess.run(["cc", str(source), "-o", str(main), "-ldl"], check=True)
    assert program.exists()
    outcome = bench.run(main, tmp_path / "data", extension, ranks=RANKS, plan=HEADER + "hint cb_nodes 1\n")
    assert outcome.code == 0, outcome.stderr + outcome.stdout
    assert outcome.file("data")["operations"]["write_at_all"]["count"] == RANKS
    assert outcome.setting("data", "cb_nodes")["outcome"] == "applied"
