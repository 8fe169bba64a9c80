"""Odd programs: the runtime counts what it can, and a program that cannot be preloaded is left alone.

``make sanitize`` runs all of odd.c under sanitizers and in valgrind; here are those whose result says something.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.building import checked
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench, Outcome

RANKS = 2
KIB = 1024
NOBODY = 65534


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def odd(bench: Bench, data: Path, name: str) -> Outcome:
    outcome = bench.run(
        bench.program("odd.c", "-pthread"),
        data,
        name,
        ranks=RANKS,
        plan=HEADER + "hint cb_buffer_size 65536\n",
        STRIPEWISE_MODE="online",
    )
    assert outcome.complaints == []
    return outcome


@pytest.mark.parametrize(
    ("name", "file", "writes", "size"),
    [
        # Each writes its own blocks of a KiB, and reads them again.
        ("freed_communicators", "data.0.0", RANKS, RANKS * KIB),
        ("children", "data", 6 * RANKS, RANKS * KIB),
        ("closed_late", "data", 0, RANKS * KIB),
        ("one_file_of_many_threads", "data", RANKS * 4 * 20, KIB),
        ("execs_at_the_end", "data", RANKS, RANKS * KIB),
    ],
)
def test_what_a_program_did_is_counted(
    bench: Bench, tmp_path: Path, name: str, file: str, writes: int, size: int
) -> None:
    outcome = odd(bench, tmp_path / "data", name)
    assert outcome.code == 0, outcome.stderr
    assert outcome.file(file)["operations"].get("write_at", {"count": 0})["count"] == writes
    assert (tmp_path / file).stat().st_size == size


@pytest.mark.parametrize("mode", ["apply", "online"])
def test_functions_of_the_program_are_not_taken_for_the_c_librarys(bench: Bench, tmp_path: Path, mode: str) -> None:
    program = bench.program("own_functions.c", "-fno-builtin", "-lm")
    plan = HEADER + "hint cb_buffer_size 65536\n"
    journal = tmp_path / "journal"
    outcome = bench.run(
        program, tmp_path / "data", ranks=RANKS, plan=plan, STRIPEWISE_MODE=mode, STRIPEWISE_JOURNAL=str(journal)
    )
    assert outcome.code == 0 and outcome.report is not None, outcome.stderr
    assert journal.exists() == (mode == "online")


def test_what_is_written_behind_the_back_of_close_harms_nothing(bench: Bench, tmp_path: Path) -> None:
    outcome = odd(bench, tmp_path / "data", "descriptors_moved")
    assert outcome.code == 0, outcome.stderr
    assert outcome.file("data")["operations"]["write_at"]["bytes"] == RANKS * KIB


def test_a_program_may_exit_while_its_threads_write(bench: Bench, tmp_path: Path) -> None:
    outcome = odd(bench, tmp_path / "data", "exits_while_threads_write")
    assert outcome.code in (5, 9), outcome.stderr
    if outcome.report is not None:  # else the launcher had killed rank 0 before
        assert outcome.report["job"]["complete"] is False
        assert outcome.file("data")["operations"]["write_at"]["count"] > 0


# -- programs that cannot be preloaded ---------------------------------------------------------------------------------

LOADED = r"""
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    int loaded = 0;
    while (maps && fgets(line, sizeof line, maps))
        loaded |= strstr(line, "libstripewise") != NULL;
    puts(loaded ? "loaded" : "untouched");
    return 0;
}
"""


@pytest.fixture
def everybody() -> Iterator[Path]:
    """A folder that another user can enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def says(program: Path, library: Path, folder: Path, user: int | None = None) -> str:
    environment = {
        "LD_PRELOAD": str(library),
        "STRIPEWISE_REPORT": str(folder / "report"),
        "STRIPEWISE_MODE": "observe",
    }
    done = subprocess.run([program], capture_output=True, text=True, env=environment, user=user, check=False)
    assert done.returncode == 0, done.stderr
    assert not (folder / "report").exists()
    return done.stdout.strip() + done.stderr


def test_static_programs_stay_untouched(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "loaded.c").write_text(LOADED)
    for flags, expected in (["-static"], "untouched"), ([], "loaded"):
        checked(["cc", "-O1", *flags, str(tmp_path / "loaded.c"), "-o", str(tmp_path / "loaded")])
        assert says(tmp_path / "loaded", bench.library, tmp_path) == expected


def test_setuid_programs_stay_untouched(bench: Bench, everybody: Path) -> None:
    require(os.geteuid() == 0, "making a program of another user's needs root")
    (everybody / "loaded.c").write_text(LOADED)
    library = shutil.copy(bench.library, everybody / "libstripewise.so")
    program = everybody / "loaded"
    checked(["cc", "-O1", str(everybody / "loaded.c"), "-o", str(program)])
    assert says(program, library, everybody, NOBODY) == "loaded"
    program.chmod(0o4755)
    # The loader itself refuses a preload with a slash, whoever owns the library.
    assert says(program, library, everybody, NOBODY).startswith("untouched")
    assert says(program, library, everybody) == "loaded", "as its owner it gains no rights"
