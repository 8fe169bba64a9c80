"""The preloaded runtime on both MPIs: what it counts, what it applies, and that the program does not notice."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench

RANKS = 4
BYTES = 96

OWN = [
    *("read", "read_at", "read_all", "read_at_all", "iread", "iread_at", "iread_all", "iread_at_all"),
    *("read_all_begin", "read_at_all_begin"),
]
SHARED = ["read_shared", "iread_shared", "read_ordered", "read_ordered_begin"]


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def writes(names: list[str]) -> list[str]:
    return [name.replace("read", "write") for name in names]


@pytest.mark.parametrize("part", ["own", "shared"])
def test_every_operation_is_counted_exactly(bench: Bench, tmp_path: Path, part: str) -> None:
    large = bench.has("MPI_File_write_at_c")
    program = bench.program("every_call.c", *(["-DLARGE_COUNTS"] if large else []))
    # Open MPI's shared pointers crash by themselves with several ranks (sharedfp/sm) on this file system.
    ranks = 1 if part == "shared" and not bench.is_mpich else RANKS
    outcome = bench.run(program, tmp_path / "data", part, ranks=ranks)
    assert (outcome.code, outcome.complaints) == (0, [])
    file = outcome.file("data")
    times = 2 if large else 1
    calls = ranks * times
    names = OWN if part == "own" else SHARED
    expected = {"open": (ranks, 0), "close": (ranks, 0)}
    for name in names + writes(names):
        expected[name] = (calls, calls * BYTES)
        if name.endswith("_begin"):
            expected[name.replace("_begin", "_end")] = (calls, 0)
    if part == "own":
        expected |= dict.fromkeys(("set_size", "preallocate", "set_view", "set_info", "sync"), (ranks, 0))
    else:
        expected["delete"] = (1, 0)
    assert {name: (found["count"], found["bytes"]) for name, found in file["operations"].items()} == expected
    data = [found for name, found in file["operations"].items() if "min_size" in found]
    assert len(data) == 2 * len(names)
    assert {(found["min_size"], found["max_size"]) for found in data} == {(BYTES, BYTES)}
    collective = [name for name in expected if ("_all" in name or "ordered" in name) and not name.endswith("_end")]
    assert file["collective"] == {"calls": calls * len(collective), "bytes": calls * len(collective) * BYTES}
    independent = 2 * len(names) - len(collective)
    assert file["independent"] == {"calls": calls * independent, "bytes": calls * independent * BYTES}
    totals = outcome.report and outcome.report["totals"]
    assert totals
    assert totals["bytes_written"] == totals["bytes_read"] == calls * len(names) * BYTES
    assert outcome.report and outcome.report["job"]["complete"]


def test_report_describes_the_job_and_the_file(bench: Bench, tmp_path: Path) -> None:
    outcome = bench.run(bench.program("strided.c"), tmp_path / "data", 64, 1024, ranks=RANKS)
    assert outcome.report
    assert outcome.report["format"] == "stripewise-report"
    assert outcome.report["runtime"]["mode"] == "observe"
    mpi = outcome.report["mpi"]
    assert mpi["abi"] == bench.mpi.name
    assert mpi["io"] == ("romio" if bench.is_mpich else "ompio")
    assert ("MPICH" if bench.is_mpich else "Open MPI") in mpi["library"]
    job = outcome.report["job"]
    assert (job["ranks"], job["ranks_reported"], job["nodes"], job["complete"]) == (RANKS, RANKS, 1, True)
    assert Path(job["executable"]).name == "strided"
    assert 0 < job["io_time"] <= job["elapsed"]
    file = outcome.file("data")
    assert (file["opens"], file["ranks"], file["nodes"]) == (1, RANKS, 1)
    assert file["size"] == RANKS * 64 * 1024
    assert file["view"] == {
        "filetype_size": 65536,
        "contiguous": False,
        "piece_size": 1024,
    }
    written = file["posix"]["write"]
    # Every byte once: the pieces of all ranks fill the file without a gap.
    assert written["bytes"] == written["during_collective"]["bytes"] == RANKS * 65536
    assert 1 <= written["ranks"] <= RANKS
    assert sum(size * count for size, count in written["sizes"]) == written["bytes"]
    assert 0 < file["write_span"] <= file["span"] <= job["elapsed"]
    totals = outcome.report["totals"]
    assert totals["write_bandwidth"] == pytest.approx(RANKS * 65536 / 2**20 / file["write_span"], rel=1e-5)


def test_bytes_and_exit_are_the_same_with_and_without(bench: Bench, tmp_path: Path) -> None:
    program = bench.program("strided.c")
    plan = HEADER + "hint romio_cb_write enable\nhint cb_nodes 2\nhint cb_buffer_size 4096\n"
    with_it = bench.run(program, tmp_path / "with", plan=plan)
    without = bench.run(program, tmp_path / "without", preload=False)
    assert with_it.code == without.code == 0
    assert with_it.report
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_plan_is_applied_and_takes_effect(bench: Bench, tmp_path: Path) -> None:
    program = bench.program("strided.c")
    plan = HEADER + "id exp-1.2\nhint cb_buffer_size 16384\nhint romio_cb_write enable\n"
    outcome = bench.run(program, tmp_path / "data", plan=plan)
    assert outcome.report
    assert outcome.report["runtime"] | {"version": ""} == {
        "version": "",
        "mode": "apply",
        "plan": str(bench.folder / "plan"),
        "plan_id": "exp-1.2",
        "plan_error": None,
    }
    setting = outcome.setting("data", "cb_buffer_size")
    assert setting | {"note": ""} == {
        "layer": "hint",
        "key": "cb_buffer_size",
        "requested": "16384",
        "application": None,
        "given": "16384",
        "echoed": "16384",
        "outcome": "applied",
        "note": "",
    }
    if bench.is_mpich:
        assert outcome.file("data")["posix"]["write"]["max_size"] == 16384
        assert outcome.file("data")["info"]["romio_cb_write"] == "enable"


def test_observe_applies_nothing_of_a_plan(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "hint cb_buffer_size 16384\n"
    outcome = bench.run(bench.program("strided.c"), tmp_path / "data", plan=plan, STRIPEWISE_MODE="observe")
    setting = outcome.setting("data", "cb_buffer_size")
    assert (setting["given"], setting["outcome"]) == (None, "not_applicable")
    assert outcome.file("data")["info"].get("cb_buffer_size") != "16384"


@pytest.mark.parametrize("override", [False, True])
def test_the_applications_hints_win_unless_overridden(bench: Bench, tmp_path: Path, override: bool) -> None:
    plan = HEADER + f"override {'yes' if override else 'no'}\nhint cb_buffer_size 524288\nhint cb_nodes 1\n"
    outcome = bench.run(bench.program("scenarios.c", "-pthread"), tmp_path / "data", "own_hints", plan=plan)
    setting = outcome.setting("data", "cb_buffer_size")
    assert (setting["requested"], setting["application"]) == ("524288", "1048576")
    winner = "524288" if override else "1048576"
    assert (setting["given"], setting["echoed"]) == (winner, winner)
    assert setting["outcome"] == ("applied" if override else "application_wins")
    assert outcome.setting("data", "cb_nodes")["outcome"] == "applied"
    if bench.is_mpich:
        assert outcome.file("data")["info"]["romio_cb_write"] == "disable"


@pytest.mark.parametrize("override", [False, True])
def test_hints_that_the_application_sets_after_the_open_are_its_own(
    bench: Bench, tmp_path: Path, override: bool
) -> None:
    plan = HEADER + f"override {'yes' if override else 'no'}\nhint cb_buffer_size 524288\nhint cb_nodes 1\n"
    outcome = bench.run(bench.program("scenarios.c", "-pthread"), tmp_path / "data", "later_hints", plan=plan)
    setting = outcome.setting("data", "cb_buffer_size")
    assert (setting["requested"], setting["application"]) == ("524288", "1048576")
    assert setting["outcome"] == ("applied" if override else "application_wins")
    if bench.is_mpich:
        winner = "524288" if override else "1048576"
        assert (setting["given"], setting["echoed"]) == (winner, winner)
        assert outcome.file("data")["info"]["cb_buffer_size"] == winner
    # A copy of the file's own info, given back, asks for nothing.
    assert outcome.file("data")["application_info"] == {"cb_buffer_size": "1048576"}
    assert outcome.setting("data", "cb_nodes")["outcome"] == "applied"


def test_misspelt_hints_are_told_by_their_echo(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(mpich, tmp_path_factory)
    plan = HEADER + "hint romio_cb_wriet enable\nhint romio_ds_write enabel\n"
    outcome = bench.run(bench.program("strided.c"), tmp_path / "data", plan=plan)
    key = outcome.setting("data", "romio_cb_wriet")
    assert (key["outcome"], key["given"], key["echoed"]) == ("applied", "enable", None)
    value = outcome.setting("data", "romio_ds_write")
    assert (value["given"], value["echoed"]) == ("enabel", "automatic")


def test_settings_follow_their_file_patterns(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + (
        f"file *.out\nhint cb_nodes 1\nfile {tmp_path}/d*\nhint cb_nodes 2\nhint cb_buffer_size 8192\n"
        "file other\nhint striping_unit 65536\n"
    )
    outcome = bench.run(bench.program("strided.c"), tmp_path / "data", plan=plan)
    settings = {setting["key"]: setting["requested"] for setting in outcome.file("data")["settings"]}
    assert settings == {"cb_nodes": "2", "cb_buffer_size": "8192"}


def test_launchers_settings_are_checked_against_the_environment(bench: Bench, tmp_path: Path) -> None:
    plan = (
        HEADER + "env HERE right\nenv WRONG right\nmca io_ompio_num_aggregators 2\nargument size 5\nhdf5 alignment 9\n"
    )
    environment = {"HERE": "right", "WRONG": "left", "OMPI_MCA_io_ompio_num_aggregators": "2"}
    outcome = bench.run(bench.program("strided.c"), tmp_path / "data", plan=plan, **environment)
    found = {s["key"]: (s["layer"], s["given"], s["outcome"]) for s in outcome.file("data")["settings"]}
    assert found == {
        "HERE": ("env", "right", "applied"),
        "WRONG": ("env", "left", "not_applicable"),
        "io_ompio_num_aggregators": ("mca", "2", "applied"),
        "size": ("argument", None, "not_applicable"),
        "alignment": ("hdf5", None, "not_applicable"),
    }


def of_variables(bench: Bench, place: Path, values: dict[str, str]) -> dict[str, tuple[str | None, str, str]]:
    plan = HEADER + "".join(f"{CARRIERS.get(name, 'env')} {name} {value}\n" for name, value in values.items())
    given = {f"OMPI_MCA_{name}" if name in CARRIERS else name: value for name, value in values.items()}
    outcome = bench.run(bench.program("strided.c"), place / "data", plan=plan, ranks=2, **given)
    assert outcome.code == 0, outcome.stderr
    return {one["key"]: (one["echoed"], one["outcome"], one["note"]) for one in outcome.file("data")["settings"]}


VARIABLES = {"MPIR_CVAR_ALLTOALL_THROTTLE": "8", "MPIR_CVAR_NO_SUCH_THING": "1", "HERE": "1"}
CARRIERS = {"coll_han_priority": "mca"}
UNKNOWN = (None, "not_applicable", "the MPI library has no variable of this name")


def test_mpi_says_what_its_variables_hold(bench: Bench, tmp_path: Path) -> None:
    found = of_variables(bench, tmp_path, {**VARIABLES, "coll_han_priority": "40"})
    known = ("8", "applied", "") if bench.is_mpich else UNKNOWN
    assert found.pop("coll_han_priority") == (UNKNOWN if bench.is_mpich else ("40", "applied", ""))
    assert found == dict(zip(VARIABLES, (known, UNKNOWN, (None, "applied", "")), strict=True))


NO_VARIABLE = (None, "not_applicable", "libfabric has no variable of this name")
OF_NETWORKS = {"UCX_RNDV_THRESH": "8k", "UCX_NO_SUCH_THING": "1", "FI_OFI_RXM_BUFFER_SIZE": "8192", "FI_NO_SUCH": "1"}


def test_ucx_and_libfabric_say_what_their_variables_hold(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = of_variables(Bench(mpich, tmp_path_factory), tmp_path, OF_NETWORKS)
    # UCX lists no variables of single transports, so what it does not list may act.
    held = found["UCX_RNDV_THRESH"][0]
    assert held in ("8K", "intra:8K,inter:8K")
    answers = ((held, "applied", ""), (None, "applied", ""), ("8192", "applied", ""), NO_VARIABLE)
    assert found == dict(zip(OF_NETWORKS, answers, strict=True))


def test_an_older_mpich_says_it_too(mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    mpicc, mpiexec = Path("/usr/bin/mpicc.mpich"), Path("/usr/bin/mpiexec.mpich")
    require(mpicc.exists() and mpiexec.exists(), "no MPICH of Debian: apt install libmpich-dev")
    # By the ABI that all versions of MPICH share, one runtime serves them.
    bench = Bench(mpich, tmp_path_factory)
    bench.mpi = Mpi("older", mpicc, (str(mpiexec),))
    found = of_variables(bench, tmp_path, VARIABLES)
    assert found == dict(zip(VARIABLES, (("8", "applied", ""), UNKNOWN, (None, "applied", "")), strict=True))


def test_hints_that_differ_between_ranks_do_not_hang(bench: Bench, tmp_path: Path) -> None:
    plan = HEADER + "hint access_style read_once\n"
    outcome = bench.run(bench.program("scenarios.c", "-pthread"), tmp_path / "data", "uneven_hints", plan=plan)
    assert (outcome.code, outcome.file("data")["opens"]) == (0, 1)


def test_a_failing_tuned_open_falls_back_to_the_plain_one(bench: Bench, tmp_path: Path) -> None:
    outcome = bench.run(
        bench.program("strided.c"),
        tmp_path / "data",
        plan=HEADER + "hint poison yes\nhint cb_nodes 1\n",
        behind=(bench.preload("picky_open.c"),),
    )
    assert outcome.code == 0, outcome.stderr
    setting = outcome.setting("data", "poison")
    assert (setting["outcome"], setting["given"], setting["echoed"]) == ("refused", None, None)
    assert "failed" in setting["note"]
    assert outcome.file("data")["operations"]["open"]["count"] == RANKS


def test_data_sieving_shows_as_reads_during_writes(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(mpich, tmp_path_factory)
    program = bench.program("scenarios.c", "-pthread")
    sieved = bench.run(program, tmp_path / "a", "sieved", ranks=1, plan=HEADER + "hint romio_ds_write enable\n")
    during = sieved.file("a")["posix"]["read"]["during_write"]
    assert (during["ranks"], during["count"]) == (1, 1)
    assert during["bytes"] > 256
    pieces = bench.run(program, tmp_path / "b", "sieved", ranks=1, plan=HEADER + "hint romio_ds_write disable\n")
    assert pieces.file("b")["posix"]["read"]["during_write"]["count"] == 0
    assert [2, 128] in pieces.file("b")["posix"]["write"]["sizes"]


def test_what_romio_exchanges_is_counted_with_the_call_that_caused_it(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(mpich, tmp_path_factory)
    found = {}
    for way in ("enable", "disable"):
        plan = HEADER + f"hint romio_cb_write {way}\nhint romio_ds_write disable\n"
        found[way] = bench.run(bench.program("strided.c"), tmp_path / way, ranks=2, plan=plan).file(way)
    calls = {way: file["operations"]["write_at_all"] for way, file in found.items()}
    assert calls["enable"]["messages"] > 0
    assert calls["disable"]["messages"] == 0
    for way, file in found.items():
        assert 0 < file["posix"]["write"]["during_collective"]["time_sum"] < calls[way]["time_sum"]


def test_the_programs_own_posix_calls_are_not_mpi_io(bench: Bench, tmp_path: Path) -> None:
    outcome = bench.run(bench.program("scenarios.c", "-pthread"), tmp_path / "data", "own_posix")
    written = outcome.file("data")["posix"]["write"]
    assert (written["count"], written["bytes"], written["ranks"]) == (3 * RANKS, 3 * RANKS * 1024, RANKS)
    assert written["during_independent"]["bytes"] == 3 * RANKS * 1024


def test_repeated_opens_of_a_file_are_one_record(bench: Bench, tmp_path: Path) -> None:
    outcome = bench.run(bench.program("scenarios.c", "-pthread"), tmp_path / "data", "repeated", 20)
    file = outcome.file("data")
    assert (file["opens"], file["operations"]["open"]["count"]) == (20, 20 * RANKS)
    assert file["operations"]["write_at"]["bytes"] == 20 * RANKS * 1024


def test_a_files_own_per_rank_name_is_found_relative_and_prefixed(bench: Bench, tmp_path: Path) -> None:
    program = bench.program("scenarios.c", "-pthread")
    done = subprocess.run(
        bench.command(
            [str(program), "ufs:data" if bench.is_mpich else "./data", "plain"],
            2,
            {"STRIPEWISE_REPORT": str(bench.folder / "relative.json")},
            [bench.library],
        ),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f'"{tmp_path}/data"' in (bench.folder / "relative.json").read_text()


def test_sessions_without_init_report_too(bench: Bench, tmp_path: Path) -> None:
    program = bench.program("session.c")
    # MPICH's files want MPI_Init even beside a session, so there the session stands inside.
    outcome = bench.run(program, tmp_path / "data", *(["init"] if bench.is_mpich else []))
    assert outcome.code == 0, outcome.stderr
    assert outcome.file("data")["operations"]["write_at_all"]["bytes"] == RANKS * 1000
    assert outcome.report and outcome.report["job"]["ranks_reported"] == outcome.report["job"]["ranks"] == RANKS
