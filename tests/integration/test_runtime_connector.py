"""The runtime as a pass-through connector that HDF5 >= 1.14 loads by itself, without the preload and beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.building import ROOT, checked
from tests.integration.conftest import Mpi
from tests.integration.hdf5_support import BuiltHdf5Bench, built_hdf5, differences
from tests.integration.runtime_support import HEADER, PROGRAMS, Bench, Outcome
from tests.integration.test_runtime_hdf5 import deciding, in_force

RANKS = 2
CONNECTOR = "stripewise under_vol=0;under_info={}"
TIMES = ("time_max", "time_sum")
SETTINGS = """hdf5 alignment 65536
hdf5 alignment_threshold 1024
hdf5 meta_block_size 65536
hdf5 coll_metadata_write true
hdf5 file_space_strategy page
hdf5 file_space_page_size 16384
"""
CHUNKS = "hdf5 chunk_size 65536\nhdf5 shuffle true\nhdf5 deflate 4\nhdf5 collective_writes yes\n"


@pytest.fixture(scope="module")
def bench(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> BuiltHdf5Bench:
    root = next((root for found, root in built_hdf5() if found >= (1, 14)), None)
    if root is None:
        pytest.skip("no parallel HDF5 >= 1.14 built with the MPICH of this environment: name one in HDF5_ROOT")
    return BuiltHdf5Bench(mpich, tmp_path_factory, hdf5=root)


def run(
    bench: BuiltHdf5Bench, way: str, path: Path, program: str, *words: object, plan: str | None = None, **more: str
) -> Outcome:
    """Run with nothing, or the runtime preloaded ("shim"), as HDF5's connector ("vol"), or as both."""
    environment: dict[str, Any] = {**more}
    if way in ("vol", "both"):
        environment |= {"HDF5_PLUGIN_PATH": str(bench.library.parent), "HDF5_VOL_CONNECTOR": CONNECTOR}
    if way != "plain":
        environment["STRIPEWISE_REPORT"] = str(bench.folder / "report.json")
    outcome = bench.run(
        bench.hdf5_program(program),
        path,
        *words,
        plan=plan and HEADER + plan,
        ranks=RANKS,
        preload=way in ("shim", "both"),
        **environment,
    )
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    return outcome


def without_times(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: without_times(value) for name, value in part.items() if name not in TIMES}
    return [without_times(value) for value in part] if isinstance(part, list) else part


def seen(outcome: Outcome, name: str) -> tuple[Any, Any]:
    """Give what the report says at the level of HDF5, durations apart: what was done, and what was set."""
    file = outcome.file(name)
    settings = [setting for setting in file["settings"] if setting["layer"] == "hdf5"]
    return without_times(file["hdf5"]), sorted(settings, key=lambda setting: str(setting["key"]))


PATTERNS = ["rows", "rows_all", "columns_all", "points", "many", "large_all", "own", "exclusive"]


@pytest.mark.parametrize("plan", [None, SETTINGS, CHUNKS], ids=["observe", "settings", "chunks"])
def test_both_ways_see_and_set_the_same(bench: BuiltHdf5Bench, tmp_path: Path, plan: str | None) -> None:
    for program in PATTERNS if plan is None else ["rows_all", "large_all", "own"]:
        files = {}
        for way in ("plain", "shim", "vol", "both"):
            outcome = run(
                bench, way, tmp_path / "data.h5", "hdf5_patterns.c", program, plan=None if way == "plain" else plan
            )
            files[way] = tmp_path / f"{way}.h5"
            (tmp_path / "data.h5").rename(files[way])
            assert differences(files["plain"], files[way]) == "", (program, way)
            if way == "shim":
                expected = seen(outcome, "data.h5")
                assert expected[0]["operations"]["file_close"]["count"] == RANKS
                assert bool(expected[1]) == bool(plan)
            elif way != "plain":
                assert seen(outcome, "data.h5") == expected, (program, way)
                assert outcome.report is not None and outcome.report["job"]["complete"]
                assert outcome.file("data.h5")["ranks"] == RANKS


def test_collective_transfers_that_were_not_are_told(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    for way in ("shim", "vol", "both"):
        outcome = run(bench, way, tmp_path / "data.h5", "hdf5_objects.c", "broken")
        written = {part["name"]: part["write"] for part in outcome.file("data.h5")["hdf5"]["datasets"]}
        broken = {name: (part["broken_collective"], part["broken_by"]) for name, part in written.items()}
        assert broken == {"/compact": (2 * RANKS, ["not_contiguous_or_chunked"]), "/plain": (0, [])}, way


def test_everything_else_of_hdf5_goes_through(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.h5", tmp_path / "other.h5"
    run(bench, "plain", plain, "hdf5_objects.c", "objects")
    for way in ("vol", "both"):
        outcome = run(bench, way, other, "hdf5_objects.c", "objects")
        assert differences(plain, other) == ""
        operations = outcome.file("other.h5")["hdf5"]["operations"]
        # One read through a reference, which no function that could be taken the place of opens.
        assert operations["dataset_read"]["count"] == RANKS
        assert operations["dataset_write"]["count"] == 4 * RANKS
        assert operations["dataset_extend"]["count"] == RANKS
        opened = operations["dataset_create"]["count"] + operations["dataset_open"]["count"]
        assert operations["dataset_close"]["count"] == opened


def test_calls_that_may_come_later_are_seen(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    assert run(bench, "shim", tmp_path / "data.h5", "hdf5_objects.c", "later").file("data.h5")["hdf5"] is None
    outcome = run(bench, "vol", tmp_path / "data.h5", "hdf5_objects.c", "later", plan=SETTINGS)
    (dataset,) = outcome.file("data.h5")["hdf5"]["datasets"]
    assert (dataset["name"], dataset["write"]["bytes"]) == ("/group/later", RANKS * 32 * 8)
    assert outcome.setting("data.h5", "file_space_strategy")["echoed"] == "page"


def test_what_only_the_preload_can_do_is_named(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, "vol", tmp_path / "data.h5", "hdf5_patterns.c", "rows", plan="hint cb_nodes 1\n" + SETTINGS)
    hint = outcome.setting("data.h5", "cb_nodes")
    assert (hint["outcome"], "not preloaded" in hint["note"]) == ("not_applicable", True)
    assert outcome.setting("data.h5", "alignment")["outcome"] == "applied"


PRESCRIBED = "hdf5 alignment 65536;hdf5 chunk_size 4096;hdf5 coll_metadata_write true"
PHASES = ("hdf5_phases.c", 4, "small", 3, 5000)


def test_the_connector_alone_predicts(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    run(bench, "plain", tmp_path / "plain", *PHASES)
    outcome = run(bench, "vol", tmp_path / "chk", *PHASES, **deciding("predict", tmp_path))
    for number in range(4):
        name = f"chk.{number:04d}"
        assert in_force(outcome, name) == PRESCRIBED
        assert {s["note"] for s in outcome.file(name)["settings"]} == {"prescribed by the model"}
        # Of the model's five tunables the hint is MPI_File_open's, and all_coll_metadata_ops could hang the program.
        decision = outcome.file(name)["decision"]
        assert (decision["verdict"], decision["count"], decision["combinations"]) == ("changed", 1, 16)
        assert outcome.file(name)["size"] == (tmp_path / name).stat().st_size
        assert differences(tmp_path / f"plain.{number:04d}", tmp_path / name) == ""


def test_the_connector_alone_tries_one_candidate_a_phase_and_learns(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    online = {"STRIPEWISE_JOURNAL": str(journal), **deciding("online", tmp_path)}
    outcome = run(bench, "vol", tmp_path / "chk", *PHASES, **online)
    lines = [dict(w.split("=", 1) for w in line.split("\t")[1:]) for line in journal.read_text().splitlines()[1:]]
    assert [line["settings"] for line in lines] == [in_force(outcome, f"chk.{number:04d}") for number in range(4)]
    assert lines[0]["settings"] == PRESCRIBED and lines[1]["settings"] == ""
    assert {(line["bytes"], line["pattern"]) for line in lines} == {("30000", "c")}
    assert all("api=hdf5" in line["workload"] and "file_size=30000" in line["workload"] for line in lines)
    (site,) = outcome.report["online"]
    assert site["phases"] == 4
    # What another job's phases had besides, under the preload, is no candidate here; nor is a hint of the plan.
    journal.write_text(
        journal.read_text().replace("settings=hdf5 alignment", "settings=hint cb_nodes 1;hdf5 alignment")
    )
    plan = "hint cb_nodes 1\nhdf5 alignment 4096\n"
    online.pop("STRIPEWISE_MODEL")
    planned = run(bench, "vol", tmp_path / "chk", *PHASES, plan=plan, **online)
    tried = {in_force(planned, f"chk.{number:04d}") for number in range(4)}
    assert tried == {"", "hdf5 alignment 4096"}


def test_orders_wait_for_the_preload(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("")
    orders = {"STRIPEWISE_MODE": "orders", "STRIPEWISE_ORDERS": str(tmp_path / "orders")}
    outcome = run(bench, "vol", tmp_path / "chk", *PHASES, STRIPEWISE_JOURNAL=str(tmp_path / "journal"), **orders)
    assert "decision" not in outcome.file("chk.0000") or outcome.file("chk.0000")["decision"] is None


def test_errors_are_printed_once(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    for way in ("plain", "vol", "both"):
        assert run(bench, way, tmp_path / "none.h5", "hdf5_patterns.c", "missing").stderr.count("HDF5-DIAG") == RANKS


def test_what_is_declared_of_hdf5_is_what_its_headers_say(bench: BuiltHdf5Bench, tmp_path: Path) -> None:
    connector = ROOT / "native" / "vol"
    strict = [str(bench.mpi.mpicc), "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{connector}"]
    theirs = ["-DSTRIPEWISE_HDF5_HEADERS", f"-I{bench.hdf5 / 'include'}"]
    places = []
    for words in ([], theirs):
        probe = tmp_path / f"probe{len(words)}"
        checked([*strict, *words, str(PROGRAMS / "vol_layout.c"), "-o", str(probe)])
        places.append(subprocess.run([probe], capture_output=True, text=True, check=True).stdout)
    assert places[0] == places[1] and len(places[0].splitlines()) > 100
    others = [f"-I{ROOT / 'native' / part}" for part in ("core", "include", "shim")]
    checked([*strict, *theirs, *others, "-fsyntax-only", *map(str, sorted(connector.glob("*.c")))])


def test_the_runtime_is_a_plugin_that_older_hdf5_passes_over(
    mpich: Mpi, tmp_path_factory: pytest.TempPathFactory
) -> None:
    library = Bench(mpich, tmp_path_factory).library
    asks = f"import ctypes; c = ctypes.CDLL({str(library)!r}); c.H5PLget_plugin_info.restype = ctypes.c_void_p"
    said = subprocess.run(
        [sys.executable, "-c", f"{asks}; print(c.H5PLget_plugin_type(), c.H5PLget_plugin_info())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["1", "None"]
