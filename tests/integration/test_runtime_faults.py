"""Whatever goes wrong on the runtime's side, the program's result stays its own and at most one line is said."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.runners.program.mpi import library_of_launcher
from tests.conftest import require
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench, Outcome

RANKS = 4


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def scenario(bench: Bench, name: str, data: Path, *arguments: object, **options: object) -> Outcome:
    return bench.run(bench.program("scenarios.c", "-pthread"), data, name, *arguments, **options)  # type: ignore[arg-type]


PLANS = {
    "no such file": (None, "cannot be read: No such file"),
    "empty": ("", 'line 1: not "stripewise-plan 1"'),
    "another version": ("stripewise-plan 2\n", "line 1: not"),
    "unknown word": (HEADER + "\n# fine\nhnit cb_nodes 2\n", 'line 4: unknown word "hnit"'),
    "no value": (HEADER + "hint cb_nodes\n", 'line 2: "hint" wants a name and a value'),
    "unknown file system": (HEADER + "layout zfs stripe_count 2\n", 'line 2: layout of "zfs"'),
    "control character": (HEADER + "hint a b\x01\n", "line 2: a control character"),
    "long key": (HEADER + f"hint {'k' * 256} v\n", "line 2: a name longer than 255"),
    "long value": (HEADER + f"hint k {'v' * 1024}\n", "line 2: a value longer than 1023"),
    "too many": (HEADER + "hint a b\n" * 4097, "line 4098: more than 4096 settings"),
    "too large": (HEADER + "#" * (1 << 20), "cannot be read: larger than 1 MiB"),
}


@pytest.mark.parametrize("name", PLANS)
def test_unreadable_plans_are_told_once_and_left_aside(bench: Bench, tmp_path: Path, name: str) -> None:
    text, message = PLANS[name]
    missing = {} if text is not None else {"STRIPEWISE_PLAN": str(tmp_path / "no plan"), "STRIPEWISE_MODE": "apply"}
    outcome = scenario(bench, "plain", tmp_path / "data", plan=text, **missing)
    assert outcome.code == 0
    (line,) = outcome.complaints
    assert message in line and "running without it" in line and "plan" in line
    assert outcome.report and outcome.report["runtime"]["plan_error"] in line
    assert outcome.report["runtime"]["mode"] == "observe"
    assert outcome.file("data")["settings"] == []
    assert outcome.file("data")["operations"]["write_at"]["count"] == RANKS


@pytest.mark.parametrize(
    ("mode", "message"),
    [("turbo", "STRIPEWISE_MODE=turbo is unknown"), ("apply", "without STRIPEWISE_PLAN")],
)
def test_modes_that_cannot_be_followed_observe(bench: Bench, tmp_path: Path, mode: str, message: str) -> None:
    outcome = scenario(bench, "plain", tmp_path / "data", STRIPEWISE_MODE=mode)
    (line,) = outcome.complaints
    assert message in line
    assert outcome.report and outcome.report["runtime"]["mode"] == "observe"


@pytest.mark.parametrize("place", ["missing/report.json", "", "full"])
def test_reports_that_cannot_be_written_are_told_once(bench: Bench, tmp_path: Path, place: str) -> None:
    target = Path("/dev/full") if place == "full" else tmp_path / place
    outcome = scenario(bench, "plain", tmp_path / "data", report=target)
    assert outcome.code == 0
    (line,) = outcome.complaints
    assert f"report {target} cannot be written" in line
    assert Path("/dev/full").is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without a free block."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
        == 0
    )
    require(mounted, "mounting a small tmpfs needs root")
    (folder / "filler").write_bytes(b"x" * 8192)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_no_half_report(bench: Bench, tmp_path: Path, full_disk: Path) -> None:
    outcome = scenario(bench, "plain", tmp_path / "data", report=full_disk / "report.json")
    assert outcome.code == 0
    (line,) = outcome.complaints
    assert "No space left" in line
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


def test_an_old_report_is_replaced_as_a_whole(bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("{}" * 100_000)
    outcome = scenario(bench, "plain", tmp_path / "data", report=target)
    assert outcome.report and outcome.report["job"]["complete"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "report.json"]


def test_without_its_variables_the_library_does_nothing(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(bench, "plain", tmp_path / "data", STRIPEWISE_REPORT="")
    assert (outcome.code, outcome.report, outcome.complaints) == (0, None, [])


@pytest.mark.parametrize("name", ["aborts", "exits"])
def test_ends_without_finalize_stay_as_they_are(bench: Bench, tmp_path: Path, name: str) -> None:
    with_it = scenario(bench, name, tmp_path / "a")
    without = scenario(bench, name, tmp_path / "b", preload=False)
    # MPICH's launcher kills the ranks that are slower to exit, with 9, in either case.
    codes = {5, 9} if name == "exits" else {7}
    assert {with_it.code, without.code} <= codes
    assert with_it.complaints == []
    # Where the launcher has not killed the rank before, it tells what it saw itself.
    if with_it.report is not None:
        job = with_it.report["job"]
        assert (job["ranks"], job["ranks_reported"], job["complete"]) == (RANKS, 1, False)
        assert with_it.file("a")["operations"]["write_at"]["bytes"] == 1024
    assert (tmp_path / "a").stat().st_size == (tmp_path / "b").stat().st_size


def test_files_never_closed_are_reported(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(bench, "unclosed", tmp_path / "data")
    file = outcome.file("data")
    assert "close" not in file["operations"]
    assert file["operations"]["write_at"]["bytes"] == RANKS * 1024
    assert file["write_span"] > 0


def test_a_forked_child_neither_harms_nor_reports(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(bench, "forks", tmp_path / "data")
    assert (outcome.code, outcome.complaints) == (0, [])
    assert outcome.file("data")["operations"]["write_at"]["count"] == 2 * RANKS
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_errors_of_the_program_pass_through(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "hint cb_nodes 2\n"
    absent = scenario(bench, "missing", tmp_path / "none", plan=plan)
    assert absent.code == 0
    assert absent.file("none")["opens"] == 0
    refused = scenario(bench, "failing_write", tmp_path / "data", plan=plan)
    assert refused.code == 0
    written = refused.file("data")["operations"]["write_at"]
    assert (written["count"], written["bytes"]) == (RANKS, 0)
    assert refused.file("data")["write_span"] is None


def test_each_ranks_own_files_are_entries_of_their_own(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(bench, "self", tmp_path / "data")
    assert outcome.report and len(outcome.report["files"]) == RANKS
    for rank in range(RANKS):
        file = outcome.file(f"data.{rank}")
        assert (file["opens"], file["ranks"], file["operations"]["write_at"]["bytes"]) == (1, 1, 1024)


def test_threads_lose_no_count(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(bench, "threads", tmp_path / "data", 200, ranks=2)
    assert outcome.report
    file = outcome.file("data")
    assert (file["operations"]["write_at"]["count"], file["operations"]["write_at"]["bytes"]) == (
        1600,
        1600 * 1024,
    )
    assert file["posix"]["write"]["count"] == 1600
    plan = HEADER + "hint cb_nodes 1\n"
    opened = scenario(bench, "opening_threads", tmp_path / "many", 20, ranks=2, plan=plan)
    assert opened.code == 0
    assert opened.report and len(opened.report["files"]) == 8
    for file in opened.report["files"]:
        assert file["operations"]["open"]["count"] == 20
        assert "handles errors of opens itself" in file["settings"][0]["note"]


def test_two_thousand_files_stay_within_the_budget(bench: Bench, tmp_path: Path) -> None:
    outcome = scenario(
        bench,
        "many",
        tmp_path / "data",
        2000,
        ranks=2,
        plan=HEADER + "hint cb_nodes 1\nhint cb_buffer_size 65536\n",
    )
    assert outcome.code == 0
    assert outcome.report
    files = {Path(file["path"]).name: file for file in outcome.report["files"]}
    other = files.pop("(other files)")
    assert len(files) == 2 * 1000
    assert other["opens"] == 2 * 1000
    assert other["operations"]["write_at"]["bytes"] == 2 * 1000 * 1024
    assert all(f"data.{rank}.1999" in files and f"data.{rank}.0" not in files for rank in range(2))
    assert {file["operations"]["write_at"]["bytes"] for file in files.values()} == {1024}
    assert outcome.report["totals"]["bytes_written"] == 2 * 2000 * 1024


@pytest.mark.parametrize(
    "command", [["/bin/ls", "/"], ["/bin/bash", "-c", "echo $((6 * 7))"], ["python3", "-c", "print(42)"]]
)
def test_programs_without_mpi_run_unchanged(bench: Bench, tmp_path: Path, command: list[str]) -> None:
    environment = {**os.environ, "STRIPEWISE_REPORT": str(tmp_path / "r"), "STRIPEWISE_MODE": "observe"}
    plain = subprocess.run(command, capture_output=True, check=True, env=environment)
    loaded = subprocess.run(
        command, capture_output=True, check=True, env={**environment, "LD_PRELOAD": str(bench.library)}
    )
    assert (loaded.stdout, loaded.stderr) == (plain.stdout, plain.stderr)
    assert list(tmp_path.iterdir()) == []


def test_the_library_depends_on_no_mpi(bench: Bench) -> None:
    needed = subprocess.run(["readelf", "-d", str(bench.library)], capture_output=True, text=True, check=True).stdout
    libraries = [line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line]
    own = ("libc.", "libm.", "libdl.", "libpthread.", "ld-linux")
    assert libraries and all(name.startswith(own) for name in libraries)
    undefined = subprocess.run(
        ["nm", "-D", "-u", str(bench.library)], capture_output=True, text=True, check=True
    ).stdout
    assert not [line for line in undefined.splitlines() if "mpi" in line.lower()]


def test_the_library_has_no_call_that_its_mpi_lacks(bench: Bench) -> None:
    """Programs such as mpi4py look whether there is a call with MPI_Count, and make another where there is none."""

    def calls(library: Path) -> set[str]:
        command = ["nm", "-D", "--defined-only", str(library)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return {name for line in lines if (name := line.split()[-1].partition("@")[0]).startswith("MPI_")}

    library = library_of_launcher(Path(bench.mpi.launcher[0]))
    assert library and calls(bench.library) and calls(bench.library) <= calls(library)


def test_an_open_that_fails_prints_no_more_where_the_handler_returns(bench: Bench, tmp_path: Path) -> None:
    """MPICH calls it a success then; asking its handle for hints printed an error of MPICH's own."""
    plan = HEADER + "file *\nhint romio_cb_write disable\n"
    plain = scenario(bench, "failing_open", tmp_path / "absent", ranks=1, preload=False)
    tuned = scenario(bench, "failing_open", tmp_path / "absent", ranks=1, plan=plan)
    observed = scenario(bench, "failing_open", tmp_path / "absent", ranks=1)
    assert plain.code == tuned.code == observed.code == 0
    assert plain.stderr == tuned.stderr == observed.stderr
    assert tuned.report and [file["operations"]["open"]["count"] for file in tuned.report["files"]] == [1]


def test_little_address_space_does_not_stop_a_program(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(mpich, tmp_path_factory)
    program = bench.program("scenarios.c", "-pthread")
    words = [
        "/bin/sh",
        "-c",
        'ulimit -v 700000; exec "$0" "$@"',
        str(program),
        str(tmp_path / "data"),
        "plain",
    ]
    environment = {"STRIPEWISE_REPORT": str(tmp_path / "report.json")}
    done = subprocess.run(
        bench.command(words, 2, environment, [bench.library]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data").stat().st_size == 2048
