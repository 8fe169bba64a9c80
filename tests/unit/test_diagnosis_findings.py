"""Each kind of finding on an activity that has the fault, and on one that nearly has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.catalogue.expectation import Expected, Proposal
from stripewise.diagnose.finding import LIMITS, RULES, Finding, Severity, aggregation
from stripewise.diagnose.site import diagnose
from stripewise.errors import UserError
from stripewise.formats import REPORT_FORMAT, REPORT_VERSION
from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import Report
from stripewise.output.diagnosis import render_diagnosis

KIB, MIB = 1024, 1 << 20
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "findings.md"


def calls(count: int, size: int, **more: Any) -> dict[str, Any]:
    edges = (100, KIB, 10 * KIB, 100 * KIB, MIB, 4 * MIB, 10 * MIB, 100 * MIB, 1 << 30)
    sizes = [0] * 10
    sizes[sum(size > edge for edge in edges)] = count
    base = {
        "count": count, "bytes": count * size, "seconds": 1.0, "sizes": sizes, "common": [(size, count)],
        "sequential": count, "consecutive": count, "extent": count * size, "largest": size,
    }  # fmt: skip
    return base | more


def activity(*files: dict[str, Any], ranks: int = 4, ranks_: dict[str, Any] | None = None, **more: Any) -> Activity:
    levels = {name: next((file[name] for file in files if file.get(name)), {}) for name in ("posix", "mpiio", "stdio")}
    modes = next((file["modes"] for file in files if "modes" in file), {})
    base = {
        "source": "log", "kind": "darshan", "job": {"ranks": ranks, "elapsed": 10.0}, "io_seconds": 5.0,
        "summed_seconds": 10.0, "totals": {**{k: v for k, v in levels.items() if v}, "modes": modes},
        "files": [{"path": f"/f{i}", "ranks": ranks, **file} for i, file in enumerate(files)],
    }  # fmt: skip
    return Activity.model_validate(base | more | ({"ranks": ranks_} if ranks_ else {}))


def posix(**more: Any) -> dict[str, Any]:
    return {"posix": more}


def collective(size: int, made: dict[str, Any], *, contiguous: bool | None = None, **more: Any) -> dict[str, Any]:
    return {
        "mpiio": {"write": calls(64, size)}, "posix": {"write": made}, "modes": {"collective_writes": 64},
        "view_contiguous": contiguous, **more,
    }  # fmt: skip


def loader(wait: float, busy: float, batches: int = 100) -> dict[str, Any]:
    return {"workers": 2, "batches": batches, "samples": 8 * batches, "wait": wait, "busy": busy}


def heavy(written: list[int]) -> Activity:
    loads = {"source": "records", "read": [0] * len(written), "written": written, "seconds": [1.0] * len(written)}
    one = activity(posix(write=calls(100, MIB)), ranks=len(written))
    return Activity.model_validate(one.model_dump() | {"ranks": loads})


def workers(io_seconds: float) -> list[dict[str, Any]]:
    one = {"elapsed": 10.0, "io_seconds": io_seconds, "reads": 500, "read": 500 * MIB, "parent": 7}
    return [one, one, {**one, "parent": 1, "reads": 1}]


def modules(path_calls: int) -> dict[str, Any]:
    names = ("__init__.py", "core.pyc", "fast.so")
    more = {"posix": {"opens": 1, "read": calls(2, 4 * KIB)}}
    return {
        "files": [{"path": f"/env/package{i}/{names[i % 3]}", **more} for i in range(60)],
        "processes": [{"elapsed": 5.0, "io_seconds": 1.0, "reads": 120, "read": MIB, "path_calls": path_calls}],
    }


def test_more_calls_on_paths_than_imports_make_are_not_those_of_imports() -> None:
    # As of a program that asks SQLite for 20,000 rows, each of which looks for a journal.
    assert "import-storm" not in codes(activity(**modules(40_444)))


def test_what_lies_on_a_local_disk_is_not_to_be_put_there() -> None:
    made = {where: modules(900) for where in ("ext4", "lustre")}
    for where, one in made.items():
        one["files"] = [{**file, "file_system": where} for file in one["files"]]
    fixes = {where: found(activity(**one), "import-storm").fix for where, one in made.items()}
    assert fixes["ext4"].startswith("Shorten PYTHONPATH") and not fixes["lustre"]


def step(written: list[int]) -> Activity:
    loads = {"source": "report", "read": [8 * MIB] * len(written), "written": written, "seconds": [1.0] * len(written)}
    one = activity(posix(write=calls(100, MIB)), ranks=len(written))
    return Activity.model_validate(one.model_dump() | {"ranks": loads})


def layout(count: int, size: int = MIB) -> dict[str, Any]:
    return {"layout": {"file_system": "lustre", "stripe_count": count, "stripe_size": size, "osts": list(range(count))}}


def spread(slow: float, fast: float, slow_bytes: int = MIB) -> dict[str, Any]:
    return {
        "spread": {
            "slowest_rank": 2, "slowest_seconds": slow, "slowest_bytes": slow_bytes,
            "fastest_seconds": fast, "fastest_bytes": MIB,
        }
    }  # fmt: skip


def osts(loads: dict[int, int], seconds: dict[int, float] | None = None) -> Activity:
    known = {t: {"bytes": b, "seconds": (seconds or {}).get(t)} for t, b in loads.items()}
    return activity({**posix(write=calls(100, MIB)), **layout(4)}, osts=known)


def small_files(small: int, files: int) -> Activity:
    return activity(posix(write=calls(64, KIB)), counted={"files": files, "small": small})


def plan(value: str) -> Activity:
    asked = [{"key": "romio_cb_write", "requested": value, "outcome": "applied"}]
    made = collective(MIB, calls(64, MIB), asked=asked, driver="UFS:")
    return activity(made)


def hdf5(broken: int) -> Activity:
    made = {"collective": 64, "broken": broken, "broken_by": ["datatype_conversion"], "bytes": 8 * MIB}
    return activity(collective(MIB, calls(64, MIB), transfers={"write": made}))


def test_streams_pass_large_calls_on() -> None:
    mixed = {"stdio": {"write": calls(1, 16 * MIB), "read": calls(900, 4 * KIB)}}
    (found,) = (one for one in diagnose(activity(mixed)).findings if one.code == "stdio")
    assert found.evidence["bytes"] == 900 * 4 * KIB and found.fix.startswith("Read")
    assert "stdio" not in codes(activity({"stdio": {"write": calls(64, 16 * MIB)}}))


def test_time_in_flushes_is_not_called_time_in_opens() -> None:
    slow = {"write": calls(300, 80), "syncs": 300, "opens": 1, "meta_seconds": 9.0, "calls": {"sync": 8.9, "open": 0.1}}
    found = {one.code: one for one in diagnose(activity(posix(**slow))).findings}
    assert found["flushes"].severity is Severity.HIGH and "metadata-storm" not in found
    few = {**slow, "write": calls(30, MIB), "syncs": 4, "stats": 300, "meta_seconds": 200.0, "calls": {"sync": 190.0}}
    few["syncs"] = 9
    found = {one.code: one for one in diagnose(activity(posix(**few))).findings}
    assert found["flushes"].says == "9 flushes to disk took 190 s, 100% of the I/O time"
    assert found["flushes"].severity is Severity.HIGH
    once = {**few, "syncs": 4}
    (found,) = (one for one in diagnose(activity(posix(**once))).findings if one.code == "flushes")
    assert found.severity is Severity.MEDIUM, "one by each rank is what safety costs"


def test_installed_software_is_no_data_of_the_program() -> None:
    zones = [{"path": f"/usr/share/zoneinfo/{i}", **posix(read=calls(9, 100), opens=9)} for i in range(100)]
    read = activity(*zones, ranks=1, counted={"files": 100, "small": 100})
    assert not {"small-files", "small-reads", "reopens", "redundant-reads"} & codes(read)
    written = [{**zone, **posix(write=calls(9, 100), opens=1)} for zone in zones]
    assert {"small-files", "small-writes"} <= codes(activity(*written, ranks=1, counted={"files": 100, "small": 100}))


def test_a_file_that_goes_in_one_request_is_no_reason_for_larger_ones() -> None:
    frames = [{"ranks": 1, **posix(write=calls(1, 7 * KIB), opens=1)} for _ in range(200)]
    assert "small-writes" not in codes(activity(*frames, ranks=1))
    pieces = [{"ranks": 1, **posix(write=calls(9, 7 * KIB), opens=1)} for _ in range(200)]
    assert "small-writes" in codes(activity(*pieces, ranks=1))


def test_small_requests_beside_streams_are_few_of_all() -> None:
    both = activity(posix(write=calls(65, 4 * KIB)), {"stdio": {"write": calls(300, MIB)}})
    assert "small-writes" not in codes(both)


def test_the_file_with_the_time_is_named_first() -> None:
    quick = {"path": "/quick", **posix(write=calls(900, 8 * KIB, seconds=0.1))}
    slow = {"path": "/slow", **posix(write=calls(20_000, 4, seconds=4.0))}
    assert found(activity(quick, slow), "small-writes").files == ("/slow", "/quick")


def test_code_with_mpi_is_not_shown_to_one_process_without_it() -> None:
    alone, many = (activity({**posix(write=calls(900, 4 * KIB)), "ranks": ranks}, ranks=ranks) for ranks in (1, 4))
    assert found(alone, "small-writes").examples == ("buffer",)
    assert found(many, "small-writes").examples == ("collective", "buffer")


def test_each_process_of_a_pipeline_reads_for_itself() -> None:
    made = {**posix(read=calls(128, MIB, extent=64 * MIB)), "processes": 2, "size": 64 * MIB}
    assert "redundant-reads" not in codes(activity(made, job={"ranks": 1, "interface": "posix"}))
    assert "redundant-reads" in codes(activity(made, job={"ranks": 1}))


def test_seeks_are_no_time_of_metadata() -> None:
    # As of ant, which looks into its archives.
    made = posix(read=calls(900, MIB), opens=300, meta_seconds=4.0, calls={"seek": 3.9, "open": 0.1})
    assert "metadata-storm" not in codes(activity(made))
    made["posix"]["calls"] = {"seek": 0.1, "open": 3.9}
    assert "(3.9 s over all processes)" in found(activity(made), "metadata-storm").says


def test_ranks_that_read_unequal_parts_could_read_meanwhile() -> None:
    loads = {
        "source": "report",
        "read": [64 * MIB, 9 * MIB, 9 * MIB, 9 * MIB],
        "written": [0] * 4,
        "seconds": [1.0] * 4,
    }
    assert "a rank could read in" in found(activity(posix(read=calls(67, MIB)), ranks_=loads), "rank-imbalance").says


def test_imports_are_told_once() -> None:
    many = {**modules(900), "totals": {"posix": {"stats": 900, "calls": {"stat": 9.0}}}}
    one = activity(job={"ranks": 1, "interface": "posix"}, counts_opens_once=True, **many)
    assert "import-storm" in codes(one) and "metadata-storm" not in codes(one)
    # As of zarr: half as many chunks are written, each under another name before.
    chunks = [{"path": f"/data/{i}", **posix(write=calls(1, 16 * KIB), opens=1)} for i in range(40)]
    both = {**many, "files": [*many["files"], *chunks]}
    one = activity(job={"ranks": 1, "interface": "posix"}, counts_opens_once=True, **both)
    assert "metadata-storm" in codes(one) and "import-storm" not in codes(one)


def test_the_request_off_the_stripes_is_the_one_that_is_named():
    sizes = [(4096, 100), (100_000, 90)]
    made = activity({**posix(write=calls(190, 100_000, common=sizes)), **layout(4)})
    (found,) = (one for one in diagnose(made).findings if one.code == "stripe-unaligned")
    assert found.says.startswith("requests of 100,000 bytes do not fit stripes of 1,048,576 bytes")


def test_the_modules_of_a_package_have_one_record_and_are_not_one_file_opened_again():
    # As a report of three interpreters has them: 47 modules of a folder, each opened once by each.
    records = {path: activity({**posix(read=calls(282, 16 * KIB), opens=141), "path": path}) for path in PYTHON}
    found = {path: {one.code for one in diagnose(made).findings} for path, made in records.items()}
    assert ["reopens" in codes for codes in found.values()] == [False, False, True]


def test_what_python_reads_to_import_is_no_data_of_the_program() -> None:
    # As a report has two ranks of a FEniCS program, whose pkg_resources reads 80 files of package data twice.
    small = posix(read=calls(8, 4096), opens=4, meta_seconds=0.1)
    where = "/usr/lib/python3/dist-packages/{}.egg-info/PKG-INFO", "/scratch/{}.txt"
    found = []
    for path in where:
        files = [{**small, "path": path.format(i), "ranks": 2, "size": 4096} for i in range(80)]
        made = activity(*files, ranks=2, counts_opens_once=True, counted={"files": 81, "small": 80})
        found.append({one.code: one for one in diagnose(made).findings})
    assert not {"small-files", "small-reads", "reopens"} & found[0].keys()
    assert "small-files" in found[1]


def test_each_process_may_open_a_file_once() -> None:
    opened = posix(read=calls(100, MIB), opens=100, meta_seconds=1.0)
    made = [activity({**opened, "ranks": ranks}, ranks=ranks, counts_opens_once=True) for ranks in (2, 100)]
    found = [{one.code: one for one in diagnose(one).findings}.get("reopens") for one in made]
    assert found[0] is not None and found[0].says == "1 file was opened 98 times more than needed"
    assert found[1] is None


def test_files_that_are_counted_together_are_not_one_file_opened_and_flushed_again():
    # As a report has them of 1,500 files, each created, written and flushed once: the last 900 have one record.
    made = posix(write=calls(900, 16 * KIB), opens=900, syncs=900, meta_seconds=4.0)
    told = [codes(activity({**made, "path": path})) & {"reopens", "flushes"} for path in ("(other files)", "/one")]
    assert told == [set(), {"reopens", "flushes"}]


def test_flushes_of_the_programs_files_are_no_time_of_imports():
    packages = modules(900)
    own = {"path": "/f.dat", "posix": {"write": calls(60, 64 * KIB), "opens": 1, "syncs": 60, "meta_seconds": 3.0}}
    packages["files"] = [*packages["files"], own]
    storm = found(activity(**packages, totals={"posix": {"opens": 61, "meta_seconds": 3.1}}), "import-storm")
    assert storm is not None and storm.severity is Severity.LOW


PYTHON = ("/usr/lib/python3.11/*.pyc", "/usr/lib/python3.11/*.py", "/scratch/all.data")


def whole_readers(count: int, moved: int) -> dict[str, Any]:
    return {"processes": 5, "whole_readers": count, "whole_read": moved}


CASES: dict[str, tuple[Activity, Activity]] = {
    "small-reads": (activity(posix(read=calls(1000, 4 * KIB))), activity(posix(read=calls(1000, MIB)))),
    "small-writes": (activity(posix(write=calls(1000, 4 * KIB))), activity(posix(write=calls(20, 4 * KIB)))),
    "unaligned-file": (
        activity(posix(write=calls(100, MIB), unaligned_file=90, file_alignment=MIB)),
        activity(posix(write=calls(100, MIB), unaligned_file=5, file_alignment=MIB)),
    ),
    "unaligned-memory": (
        activity(posix(write=calls(100, MIB), unaligned_memory=90)),
        activity(posix(write=calls(100, MIB), unaligned_memory=9)),
    ),
    "random-reads": (
        activity(posix(read=calls(1000, MIB, sequential=400), opens=4)),
        activity(posix(read=calls(1000, MIB, sequential=900), opens=4)),
    ),
    "random-writes": (
        activity(posix(write=calls(1000, MIB, sequential=400), opens=4)),
        activity(posix(write=calls(1000, MIB, sequential=900), opens=4)),
    ),
    "sequential-reads": (
        activity(posix(read=calls(1000, MIB))),
        activity(posix(read=calls(1000, MIB, sequential=400))),
    ),
    "sequential-writes": (
        activity(posix(write=calls(1000, MIB))),
        activity(posix(write=calls(1000, MIB, sequential=400))),
    ),
    "redundant-reads": (
        activity(posix(read=calls(100, MIB, extent=25 * MIB))),
        activity(posix(read=calls(100, MIB, extent=90 * MIB))),
    ),
    "redundant-writes": (
        activity(posix(write=calls(100, MIB, extent=25 * MIB))),
        activity(posix(write=calls(100, MIB, extent=90 * MIB))),
    ),
    "independent-reads": (
        activity({"mpiio": {"read": calls(200, 4 * KIB)}, "modes": {"independent_reads": 200}}),
        activity({"mpiio": {"read": calls(200, 8 * MIB)}, "modes": {"independent_reads": 200}}),
    ),
    "independent-writes": (
        activity({"mpiio": {"write": calls(200, 4 * KIB)}, "modes": {"independent_writes": 200}}),
        activity({"mpiio": {"write": calls(200, 4 * KIB)}, "modes": {"collective_writes": 200}}),
    ),
    "strided-without-buffering": (
        activity(collective(MIB, calls(6400, 10 * KIB, consecutive=0))),
        activity(collective(MIB, calls(16, 4 * MIB))),
    ),
    "collective-not-aggregated": (
        activity(collective(47_008, calls(64, 47_008, consecutive=0))),
        activity(collective(47_008, calls(64, 47_008))),
    ),
    "collective-costs": (
        activity(collective(4 * MIB, calls(16, 16 * MIB), beneath={"write": {"ranks": 1}})),
        activity(collective(4 * MIB, calls(64, 4 * MIB), beneath={"write": {"ranks": 4}})),
    ),
    "exchange-costs": tuple(
        activity(
            collective(64 * KIB, calls(2, 2 * MIB), beneath={"write": {"ranks": 1, "exchange": (outside, 13.3 * 4)}})
        )
        for outside in (13.3 * 4 - 0.25, 13.3 * 4 - 9.0)
    ),
    "broken-collective": (hdf5(broken=64), hdf5(broken=2)),
    "chunks": tuple(
        activity(
            posix(write=calls(100, MIB))
            | {"datasets": [{"name": "/t", "size": [64, 64], "chunk": [rows, rows], "element_size": 8}]}
        )
        for rows in (1, 2)
    ),
    "read-modify-write": (
        activity({**collective(MIB, calls(64, MIB)), "beneath": {"reading_back": {"bytes": 32 * MIB}}}),
        activity({**collective(MIB, calls(64, MIB)), "beneath": {"reading_back": {"bytes": 2 * MIB}}}),
    ),
    "shared-without-mpiio": (
        activity(posix(write=calls(100, MIB))),
        activity(posix(read=calls(100, MIB))),
    ),
    "blocking-reads": (
        activity({"mpiio": {"read": calls(200, MIB)}, "modes": {"independent_reads": 200}}),
        activity({"mpiio": {"read": calls(200, MIB)}, "modes": {"independent_reads": 200, "nonblocking_reads": 1}}),
    ),
    "blocking-writes": (
        activity({"mpiio": {"write": calls(200, MIB)}, "modes": {"collective_writes": 200}}),
        activity({"mpiio": {"write": calls(20, MIB)}, "modes": {"collective_writes": 20}}),
    ),
    "collective-reads": (
        activity({"mpiio": {"read": calls(200, MIB)}, "modes": {"collective_reads": 200}}),
        activity({"mpiio": {"read": calls(200, MIB)}, "modes": {"collective_reads": 90, "independent_reads": 110}}),
    ),
    "collective-writes": (
        activity({"mpiio": {"write": calls(200, MIB)}, "modes": {"collective_writes": 200}}),
        activity({"mpiio": {"write": calls(200, MIB)}, "modes": {"independent_writes": 200}}),
    ),
    "aggregators": (
        activity(collective(MIB, calls(64, MIB), info={"cb_nodes": "3"}), job={"ranks": 4, "nodes": 1}),
        activity(collective(MIB, calls(64, MIB), info={"cb_nodes": "2"}), job={"ranks": 4, "nodes": 2}),
    ),
    "aggregator-a-node": (
        activity(collective(MIB, calls(64, MIB), info={"cb_nodes": "2"}), job={"ranks": 4, "nodes": 2}),
        activity(collective(MIB, calls(64, MIB), info={"cb_nodes": "3"}), job={"ranks": 4, "nodes": 2}),
    ),
    "one-stripe": (
        activity({**posix(write=calls(512, MIB)), **layout(1)}, ranks=64),
        activity({**posix(write=calls(512, MIB)), **layout(4)}, ranks=64),
    ),
    "wide-stripes": (
        activity(*[{**posix(write=calls(1, KIB)), **layout(8)} for _ in range(10)]),
        activity(*[{**posix(write=calls(1, KIB)), **layout(8)} for _ in range(5)]),
    ),
    "stripe-unaligned": (
        activity({**posix(write=calls(100, 3 * MIB)), **layout(4, 2 * MIB)}),
        activity({**posix(write=calls(100, 4 * MIB)), **layout(4, 2 * MIB)}),
    ),
    "ost-imbalance": (osts({0: 90 * MIB, 1: 10 * MIB, 2: 10 * MIB}), osts({0: 40 * MIB, 1: 30 * MIB, 2: 30 * MIB})),
    "slow-ost": (
        osts(dict.fromkeys(range(6), 50 * MIB), {**dict.fromkeys(range(5), 1.0), 5: 9.0}),
        osts(dict.fromkeys(range(6), 50 * MIB), {**dict.fromkeys(range(5), 1.0), 5: 1.5}),
    ),
    "client-settings": (
        activity({**posix(write=calls(300, 4 * MIB)), "file_system": "lustre"}),
        activity({**posix(write=calls(300, 4 * MIB)), "file_system": "ext4"}),
    ),
    "striping-grade": (osts({0: MIB}), activity(posix(write=calls(1, MIB)))),
    "file-per-process": (
        activity(posix(write=calls(9, MIB)), ranks=64, counted={"writers": 64, "written_single": 64}),
        activity(posix(write=calls(9, MIB)), ranks=64, counted={"writers": 8, "written_single": 8}),
    ),
    "metadata-storm": (
        activity(posix(write=calls(10, KIB), opens=900, meta_seconds=8.0)),
        activity(posix(write=calls(500, MIB), opens=900, meta_seconds=0.5)),
    ),
    "reopens": (
        activity(posix(write=calls(100, MIB), opens=80)),
        activity(posix(write=calls(100, MIB), opens=8)),
    ),
    "small-files": (small_files(90, 100), small_files(30, 100)),
    "flushes": (
        activity(posix(write=calls(100, MIB), syncs=50, opens=4)),
        activity(posix(write=calls(100, MIB), syncs=4, opens=4)),
    ),
    "rank-funnel": (heavy([64 * MIB, 0, 0, 0]), heavy([64 * MIB, 0, 64 * MIB, 0])),
    "rank-imbalance": (heavy([64 * MIB, MIB, 20 * MIB, MIB]), heavy([64 * MIB, 60 * MIB, 64 * MIB, 50 * MIB])),
    "stragglers": (
        activity({**posix(write=calls(100, MIB)), **spread(4.0, 0.5)}),
        activity({**posix(write=calls(100, MIB)), **spread(4.0, 0.5, 9 * MIB)}),
    ),
    "stdio": (
        activity({"stdio": {"write": calls(900, 4 * KIB)}}),
        activity({"stdio": {"write": calls(9, 4 * KIB)}}, posix(write=calls(100, MIB))),
    ),
    "dead-settings": (plan("enabled"), plan("enable")),
    "cached-reads": (
        activity(posix(write=calls(100, MIB, start=1.0, end=2.0), read=calls(100, MIB, start=3.0, end=4.0))),
        activity(posix(write=calls(100, MIB, start=3.0, end=4.0), read=calls(100, MIB, start=1.0, end=2.0))),
    ),
    "read-by-every-process": (
        activity({**posix(read=calls(64, MIB, extent=16 * MIB)), **whole_readers(4, 64 * MIB), "size": 16 * MIB}),
        # Four epochs of four processes, each of which has its quarter.
        activity({**posix(read=calls(64, MIB, extent=16 * MIB)), **whole_readers(0, 0), "size": 16 * MIB}),
    ),
    "small-samples": (
        activity(posix(read=calls(1000, 4 * KIB, random=900))),
        activity(posix(read=calls(1000, MIB, random=900))),
    ),
    "random-striped": (
        activity({**posix(read=calls(1000, 64 * KIB, random=900)), **layout(8)}),
        activity({**posix(read=calls(1000, 64 * KIB, random=900)), **layout(1)}),
    ),
    "import-storm": (activity(**modules(900)), activity(**modules(90))),
    "checkpoint-one-rank": (step([64 * MIB, 0, 0, 0]), step([32 * MIB, 8 * MIB, 16 * MIB, 8 * MIB])),
    "starved-workers": (
        activity(posix(read=calls(1000, MIB)), processes=workers(8.0)),
        activity(posix(read=calls(1000, MIB)), processes=workers(2.0)),
    ),
    "loader-balance": (activity(loaders=[loader(6.0, 4.0)]), activity(loaders=[loader(6.0, 4.0, batches=7)])),
    "write-heavy": (activity(posix(write=calls(100, MIB))), activity(posix(read=calls(100, MIB)))),
    "read-heavy": (activity(posix(read=calls(100, MIB))), activity(posix(write=calls(100, MIB)))),
}  # fmt: skip


def codes(one: Activity) -> set[str]:
    return {finding.code for finding in diagnose(one).findings}


@pytest.mark.parametrize(
    ("wait", "word", "severity"),
    [
        (0.09, "compute-bound", "OK"),
        (0.2, "balanced", "INFO"),
        (0.3, "input-bound", "MEDIUM"),
        (0.6, "input-bound", "HIGH"),
    ],
)
def test_a_loader_is_judged_by_the_waits_of_its_consumer(wait: float, word: str, severity: str) -> None:
    (found,) = (
        one for one in diagnose(activity(loaders=[loader(wait, 1 - wait)])).findings if one.code == "loader-balance"
    )
    assert (
        found.says == f"{word}: {wait:.0%} of the time that 100 batches took went by in waits for them, with 2 workers"
    )
    assert found.severity is Severity[severity]


def test_opens_with_hardly_any_data_are_a_storm_whatever_the_clock_says() -> None:
    quick = {"opens": 900, "meta_seconds": 0.1}
    storm = found(activity(posix(write=calls(900, 100), **quick), counted={"files": 1}), "metadata-storm")
    said = "900 opens, stats and flushes of 1 file took only 1% of the I/O time here (0.1 s over all processes)"
    assert storm.says == said
    assert "metadata-storm" not in codes(activity(posix(write=calls(900, 64 * KIB), **quick))), "data as well"
    assert "metadata-storm" not in codes(activity(posix(write=calls(9000, 100), **quick))), "more writes than opens"


def test_a_flush_at_each_of_many_closes_is_a_frequent_flush() -> None:
    assert "flushes" in codes(activity(posix(write=calls(400, MIB), syncs=100, opens=100)))
    assert "flushes" not in codes(activity(posix(write=calls(4000, MIB), syncs=100, opens=100)))


def test_only_those_count_that_read_the_whole_file() -> None:
    # A parent that read the head of the file, and two workers that read it all, one of them twice.
    three = activity(
        {**posix(read=calls(193, MIB, extent=64 * MIB)), **whole_readers(2, 192 * MIB), "size": 64 * MIB},
        summed_seconds=1.0,
    )
    (found,) = [one for one in diagnose(three).findings if one.code == "read-by-every-process"]
    assert "read 3.0 times over by up to 2 processes" in found.says
    assert found.severity == Severity.HIGH and found.share > 0.5


@pytest.mark.parametrize("code", RULES)
def test_the_fault_is_found_and_the_near_miss_is_not(code: str) -> None:
    fault, near = CASES[code]
    assert code in codes(fault)
    assert code not in codes(near)


@pytest.mark.parametrize("code", RULES)
def test_a_finding_says_what_with_numbers_and_why(code: str) -> None:
    found = next(finding for finding in diagnose(CASES[code][0]).findings if finding.code == code)
    assert found.evidence
    assert re.search(r"\d|romio", found.says)
    assert 0 <= found.share <= 1
    document = found.as_json()
    assert document["mechanism"].endswith(".") and document["fix"].endswith(".")


def test_every_code_and_threshold_is_documented_with_its_value() -> None:
    text = DOCS.read_text("utf-8")
    listed = set(re.findall(r"^\| `([a-z0-9_-]+)` \|", text, re.MULTILINE))
    assert listed == set(RULES) | set(LIMITS)


def test_every_insight_of_drishti_has_a_finding() -> None:
    theirs = {name for kind, _ in RULES.values() for name in kind.drishti}
    posix_codes = {f"P{number:02}" for number in range(1, 23) if number != 20}
    assert theirs == {"S01", *posix_codes, *(f"M{number:02}" for number in range(1, 11))}


def test_the_worst_comes_first_and_settings_make_a_plan() -> None:
    found = diagnose(CASES["strided-without-buffering"][0])
    assert [f.severity for f in found.findings] == sorted((f.severity for f in found.findings), reverse=True)
    # On how many nodes it ran is not in the log, and on one of them aggregators would cost more than they save.
    assert found.plan() == ""
    (one,) = [f for f in found.findings if f.code == "strided-without-buffering"]
    assert "on one, the exchange often costs more than it saves. Say how many there were with --nodes" in one.fix
    assert "hint romio_cb_write enable" in diagnose(found.activity.on_nodes(4)).plan()
    assert found.activity.on_nodes(1).on_nodes(4).job.nodes == 1
    assert found.activity.on_nodes(99).job.nodes == found.activity.job.ranks
    assert diagnose(CASES["small-files"][0]).plan() == ""


def test_what_a_model_decides_is_not_proposed_otherwise() -> None:
    found = diagnose(CASES["strided-without-buffering"][0].on_nodes(4))
    proposal = "hint romio_cb_write enable"
    assert proposal in found.plan()
    led = found.led_by({"decided": ["hint romio_cb_write disable"]})
    assert proposal not in led.plan() and [f.code for f in led.findings] == [f.code for f in found.findings]
    assert any(f"{proposal} is not proposed: the model expects no gain of it here" in one.fix for one in led.findings)
    assert found.led_by({"decided": [proposal, "hint cb_nodes 2"]}) == found


def test_nothing_is_proposed_that_breaks_calls_of_the_program() -> None:
    file = collective(4 * MIB, calls(16, 16 * MIB), beneath={"write": {"ranks": 1}})
    plain, ordered = (
        activity({**file, "calls": made}).on_nodes(1) for made in (["write_all"], ["write_all", "write_ordered"])
    )
    disabled = Setting(HINT, "romio_cb_write", "disable")
    assert aggregation(plain, plain.files, "write").settings == (disabled,)
    assert disabled not in aggregation(ordered, ordered.files, "write").settings


def test_findings_weigh_less_where_io_is_a_small_part_of_the_run() -> None:
    fault = activity(posix(write=calls(1000, MIB, sequential=400, seconds=9.0), opens=4))
    rare, rarest = (
        fault.model_copy(update={"job": fault.job.model_copy(update={"elapsed": elapsed})})
        for elapsed in (200.0, 5000.0)
    )
    each = (fault, rare, rarest)
    weights = [next(f for f in diagnose(one).findings if f.code == "random-writes").severity for one in each]
    assert weights == [Severity.HIGH, Severity.MEDIUM, Severity.LOW]


def test_thresholds_can_be_set_and_unknown_ones_are_named() -> None:
    near = CASES["random-writes"][1]
    assert "random-writes" in {f.code for f in diagnose(near, {"random_share": 0.05}).findings}
    with pytest.raises(UserError, match="threshold 'typo' does not exist"):
        diagnose(near, {"typo": 1})


@pytest.mark.parametrize(
    ("level", "setting"),
    [
        (posix(write=calls(1 << 20, 4 * KIB)), "max_dirty_mb"),
        (posix(read=calls(1 << 20, 4 * KIB)), "more read-ahead"),
        (posix(read=calls(1 << 20, 4 * KIB, sequential=1 << 19)), "less read-ahead"),
        (posix(write=calls(300, 4 * MIB), unaligned_file=200), "unaligned_dio"),
        (posix(write=calls(300, 4 * MIB)), "hybrid_io"),
    ],
)
def test_operators_hear_of_the_settings_that_fit_the_requests(level: dict[str, Any], setting: str) -> None:
    found = diagnose(activity({**level, **layout(4)})).findings
    (advice,) = [finding for finding in found if finding.code == "client-settings"]
    assert setting in advice.fix and not advice.settings


@pytest.mark.parametrize("through_mpi", [0, MIB])
def test_balance_is_judged_only_where_all_bytes_went_through_own_calls(through_mpi: int) -> None:
    report = Report.model_validate(
        {
            "format": REPORT_FORMAT,
            "version": REPORT_VERSION,
            "mpi": {"io": "romio"},
            "job": {"executable": "/app", "ranks": 2, "nodes": 1, "elapsed": 2.0, "io_time": 1.0},
            "totals": {"bytes_read": 0, "bytes_written": 3 * MIB},
            "files": [{"path": "/shared", "independent": {"calls": 1, "bytes": through_mpi}}],
            "processes": [{"pid": pid, "rank": pid, "bytes_written": (1 + pid) * MIB} for pid in range(2)],
        }
    )
    found = activity_of(report, "report.json")
    assert (found.ranks is None) == bool(through_mpi) == any("balance" in line for line in found.unseen)


def found(one: Activity, code: str) -> Any:
    return next((finding for finding in diagnose(one).findings if finding.code == code), None)


def test_no_finding_says_how_much_its_change_brings_at_most() -> None:
    # Measured gains exceeded what bytes and rates of the log allowed.
    for fault, _ in CASES.values():
        made = diagnose(fault)
        for finding in made.findings:
            assert "times faster" not in f"{finding.says} {finding.fix}" and "bound" not in finding.as_json()
        assert not re.search("at most [0-9.]+ times", render_diagnosis(made.as_json(), fault))


def test_sieving_and_repetitions_are_no_redundant_writes() -> None:
    sieved = {"posix": {"write": calls(100, MIB, extent=25 * MIB)}, "mpiio": {"write": calls(100, 256 * KIB)}}
    assert found(activity(sieved), "redundant-writes") is None
    again = posix(write=calls(100, MIB, extent=25 * MIB), opens=16)
    assert found(activity(again), "redundant-writes") is None, "each rank opened and wrote the file four times"


def test_sizes_that_divide_the_alignment_are_aligned() -> None:
    fitting = {"unaligned_file": 255 * 40, "file_alignment": MIB}
    assert found(activity(posix(write=calls(256 * 40, 4 * KIB), **fitting)), "unaligned-file") is None
    shifted = {**fitting, "unaligned_file": 256 * 40}
    assert found(activity(posix(write=calls(256 * 40, 4 * KIB), **shifted)), "unaligned-file") is not None
    assert found(activity(posix(read=calls(100, MIB), unaligned_file=90, file_alignment=MIB)), "unaligned-file") is None


def test_aggregators_choose_where_requests_begin() -> None:
    merged = {**collective(3 * MIB, calls(16, 12 * MIB)), **layout(4, 2 * MIB)}
    assert found(activity(merged), "stripe-unaligned") is None
    # As E3SM's I/O on 512 ranks: 56 aggregators open the file, and write each stripe by itself.
    few = collective(300 * KIB, calls(305, 780 * KIB, consecutive=0), **layout(4))
    few["mpiio"]["opens"], few["posix"]["opens"] = 512, 57
    few["posix"] |= {"unaligned_file": 290, "file_alignment": MIB}
    away = {"stripe-unaligned", "unaligned-file", "collective-not-aggregated", "strided-without-buffering"}
    assert not codes(activity(few)) & away
    few["posix"]["opens"] = 513
    assert codes(activity(few)) >= {"stripe-unaligned", "unaligned-file"}


def test_large_requests_in_any_order_or_place_are_no_fault() -> None:
    # As 2,048 ranks that write and read 128 MiB each time, behind a header of 2 KiB, and 36 small reads of the header.
    large = {"write": calls(100, 128 * MIB, sequential=20), "unaligned_file": 100, "file_alignment": MIB}
    assert not codes(activity({"posix": large, **layout(24)})) & {"unaligned-file", "random-writes"}
    assert "random-reads" not in codes(activity(posix(read=calls(1000, 21 * MIB, sequential=400), opens=4)))


def test_what_mpi_io_reads_for_others_is_not_read_again() -> None:
    wide = {"mpiio": {"read": calls(1000, 100 * KIB)}, "posix": {"read": calls(80, 32 * MIB, extent=1280 * MIB)}}
    merged = {**wide, "modes": {"collective_reads": 400, "independent_reads": 600}}
    assert found(activity(merged), "redundant-reads") is None
    loads = {"source": "records", "read": [2 << 30, 0, 256 * MIB, 0], "written": [0] * 4, "seconds": [1.0] * 4}
    assert found(activity(merged, ranks_=loads), "rank-imbalance") is None
    alone = {**wide, "modes": {"independent_reads": 1000}}
    assert found(activity(alone, ranks_=loads), "rank-imbalance") is not None


def test_one_symptom_is_one_finding() -> None:
    # A log file that one of 32 ranks opens 3,000 times and begins again each time.
    begun = {"stdio": {"write": calls(217_216, 15, extent=2772), "opens": 3034}}
    assert {"reopens", "redundant-writes"} & codes(activity(begun, ranks=32)) == {"reopens"}
    writes = {"source": "records", "read": [9 * MIB, 1, 1, 1], "written": [99 * MIB, 0, 0, 0], "seconds": [1.0] * 4}
    one = activity(posix(write=calls(99, MIB)), ranks_=writes)
    assert codes(one) & {"rank-funnel", "checkpoint-one-rank"} == {"rank-funnel"}
    both = {**posix(write=calls(100, MIB), read=calls(1000, 64 * KIB, random=900)), **layout(8)}
    assert found(activity(both), "random-striped") is None, "writes need the stripes"


def test_creations_weigh_what_they_took() -> None:
    # 2,048 files of 2,048 ranks, one of which lies on a slow target: that the files are many is not what took the time.
    own = [{**posix(write=calls(64, MIB), meta_seconds=0.01), "ranks": 1} for _ in range(8)]
    counted = {"writers": 2048, "written_single": 2048}
    assert found(activity(*own, ranks=2048, counted=counted), "file-per-process").severity is Severity.LOW


def test_the_grade_of_a_layout_has_no_fault_that_is_no_finding() -> None:
    uneven = osts({0: 90 * MIB, 1: MIB})
    assert "49% lost to uneven targets" in found(uneven, "striping-grade").says
    alone = uneven.model_copy(update={"job": uneven.job.model_copy(update={"ranks": 1})})
    assert "0% lost to uneven targets" in found(alone, "striping-grade").says, "one target after the other"
    narrow = activity({**posix(write=calls(512, MIB)), **layout(1)}, osts={0: {"bytes": 512 * MIB}, 1: {"bytes": 9}})
    assert "0% lost to uneven targets" in found(narrow, "striping-grade").says, "one stripe is named already"
    wide = found(activity(*[{**posix(write=calls(99, MIB)), **layout(160)} for _ in range(8)]), "wide-stripes")
    assert wide.says == "8 files have less than 1 MiB for each stripe, of up to 160"


def test_late_ranks_are_listed_as_in_a_sentence() -> None:
    def late(*ranks: int) -> str:
        files = [{**posix(write=calls(100, MIB)), **spread(4.0, 0.5)} for _ in ranks]
        for file, rank in zip(files, ranks, strict=True):
            file["spread"] = {**file["spread"], "slowest_rank": rank}
        return str(found(activity(*files), "stragglers").says)

    assert late(1312) == "rank 1312 took 3.5 s longer than the fastest for as many bytes"
    assert late(42, 186, 1) == "ranks 42, 186 and 1 took 10.5 s longer than the fastest for as many bytes in all"


def test_a_file_that_is_only_read_gets_no_layout() -> None:
    read = activity({**posix(read=calls(512, MIB)), **layout(1)}, ranks=64)
    one = found(read, "one-stripe")
    assert one.settings == () and "lfs migrate" in one.fix


def test_independent_bytes_are_those_of_independent_calls() -> None:
    both = {
        "mpiio": {"write": calls(2064, 4 * KIB, bytes=2000 * 512 + 64 * MIB, common=[(512, 2000)])},
        "modes": {"independent_writes": 2000, "collective_writes": 64},
    }
    assert "calls of 512 B on average" in found(activity(both), "independent-writes").says
    unknown = {**both, "mpiio": {"write": calls(2064, 32 * KIB, common=[])}}
    assert "2,000 independent write calls go to files" in found(activity(unknown), "independent-writes").says


def test_collective_calls_that_nobody_merged_are_not_good() -> None:
    fault, near = CASES["collective-not-aggregated"]
    assert found(fault, "collective-writes") is None and found(near, "collective-writes") is not None
    fewer = activity(collective(KIB, calls(60, 200, consecutive=0), modes={"collective_writes": 92_752}))
    assert found(fewer, "strided-without-buffering") is None, "fewer requests than calls"


def test_the_call_that_took_the_time_is_named() -> None:
    slow = {"set_view": 45.0, "open": 4.7}
    one = activity(
        {"mpiio": {"write": calls(10, KIB), "opens": 900, "meta_seconds": 49.7, "calls": slow}},
        seen=["MPI-IO"], counts_opens_once=True, summed_seconds=55.0, io_seconds=5.0, job={"ranks": 4, "elapsed": 60.0},
    )  # fmt: skip
    storm = found(one, "metadata-storm")
    assert storm.says.endswith("; MPI_File_set_view took 45 s of them") and "Set the view once" in storm.fix


def test_calls_on_paths_of_a_program_with_mpi_are_metadata() -> None:
    # As of mdtest, whose 1,200 creations, stats and deletions go through no MPI-IO.
    one = activity(
        posix(opens=400, meta_seconds=0.2), seen=["MPI-IO", "POSIX"], counts_opens_once=True, counted={"files": 400},
        totals={"posix": {"opens": 400, "stats": 3900, "meta_seconds": 5.8, "calls": {"change": 5.6}}},
    )  # fmt: skip
    said = found(one, "metadata-storm").says
    assert "4,300 opens, stats, renames and deletions, with 400 files; changes of paths took 5.6 s" in said
    # As of h5bench: four slow opens, and 1,169 names that MPI looked for as it started.
    file = {"mpiio": {"write": calls(138, MIB), "opens": 1, "meta_seconds": 5.0, "calls": {"open": 5.0}}}
    few = activity(
        file, seen=["MPI-IO", "POSIX"], counts_opens_once=True,
        totals={"mpiio": file["mpiio"], "posix": {"opens": 1169, "meta_seconds": 0.1, "calls": {"failed_open": 0.1}}},
    )  # fmt: skip
    assert "metadata-storm" not in codes(few)
    start = {"opens": 1169, "meta_seconds": 5.0, "calls": {"failed_open": 5.0}}
    few = activity(posix(opens=4), seen=["MPI-IO", "POSIX"], counts_opens_once=True, totals={"posix": start})
    assert "metadata-storm" not in codes(few), "294 by each process"


@pytest.mark.parametrize("ranks", [1, 4])
def test_collective_calls_are_no_advice_for_files_of_one_process(ranks: int) -> None:
    made = activity({**posix(write=calls(1000, 4 * KIB)), "ranks": ranks}, ranks=4)
    (found,) = (one for one in diagnose(made).findings if one.code == "small-writes")
    assert ("collective" in (found.fix or found.kind.fix)) is (ranks > 1)


def test_collective_calls_are_not_promised_to_pay_on_one_node() -> None:
    # Measured: a quarter of the speed, for pieces of 1 KiB by two ranks of one node.
    for way in ("read", "write"):
        alone = activity({"mpiio": {way: calls(200, 4 * KIB)}, "modes": {f"independent_{way}s": 200}})
        assert found(alone, f"independent-{way}s").kind.fix.endswith("can cost more than it saves: measure both.")


def test_flushes_of_streams_are_told_from_those_of_disks() -> None:
    stream = activity({"stdio": {"write": calls(100, KIB), "syncs": 80}})
    assert found(stream, "flushes").says == "80 calls of fflush for 100 writes"
    assert found(stream, "flushes").severity is Severity.LOW and "waits for no disk" in found(stream, "flushes").fix
    twice = activity(posix(write=calls(768, MIB), syncs=128), ranks=64)
    assert found(twice, "flushes") is None, "two of each rank"


def test_reads_of_large_chunks_name_the_cache() -> None:
    one = found(activity({**posix(read=calls(1000, 4 * KIB)), "chunk_bytes": 8 * MIB}), "small-reads")
    assert "chunks of HDF5 have up to 8 MiB" in one.fix and "rdcc_nbytes" in one.fix
    assert "1 MiB of a dataset before HDF5 2.0, and 8 MiB since" in one.fix
    assert found(activity({**posix(read=calls(1000, 4 * KIB)), "chunk_bytes": MIB}), "small-reads").fix == ""


@pytest.mark.parametrize(
    ("version", "cache", "said"),
    [
        ("1.14.5", None, "its cache holds 1 MiB of a dataset."),
        ("2.0.0", None, ""),
        ("2.0.0", 64 * KIB, "/t has chunks of 4 MiB, and HDF5's cache of it holds 64 KiB."),
        ("1.14.5", 64 * MIB, ""),
    ],
)
def test_a_chunk_is_held_against_the_cache_that_its_dataset_has(version: str, cache: int | None, said: str) -> None:
    dataset = {"name": "/t", "chunk": [512, 1024], "element_size": 8, "cache_bytes": cache}
    read = {**posix(read=calls(1000, 4 * KIB)), "hdf5_version": version, "chunk_bytes": 4 * MIB, "datasets": [dataset]}
    fix = found(activity(read), "small-reads").fix
    assert said in fix and bool(said) == bool(fix)


ROW = {"calls": 9999, "bytes": 9, "box": [1, 512]}


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ({"chunk": [1, 1]}, "/t has 524,288 chunks of 1 element each"),
        ({"chunk": [1, 1], "size": [3, 3]}, ""),
        (
            {"read": ROW, "cache_bytes": MIB},
            "reads want parts: a chunk is read in",
        ),
        (
            {"read": ROW, "cache_bytes": MIB, "filters": ["deflate"]},
            "unpacked again",
        ),
        ({"read": ROW, "cache_bytes": 4 * MIB}, ""),
        ({"read": ROW | {"box": [512, 512]}, "cache_bytes": MIB}, ""),
        ({"write": ROW | {"chunk_ranks": 4.0}}, "written by 4.0 ranks on average"),
        ({"write": ROW | {"chunk_ranks": 1.2}}, ""),
    ],
)
def test_chunks_are_held_against_their_use(dataset: dict[str, Any], said: str) -> None:
    one = {"name": "/t", "size": [1024, 512], "chunk": [512, 512], "element_size": 8} | dataset
    shown = found(activity({**posix(write=calls(9, MIB)), "datasets": [one]}), "chunks")
    assert said in shown.says if said else shown is None


def test_sieving_of_a_new_file_reads_in_vain_and_writes_more() -> None:
    made = {"write": calls(300, MIB), "read": calls(300, 0, bytes=0)}
    one = activity({"mpiio": {"write": calls(100, 768 * KIB)}, "posix": made, "modes": {"collective_writes": 100}})
    assert found(one, "read-modify-write").says.startswith("300 MiB were written for 75 MiB")


def test_requests_weigh_little_where_collective_calls_spend_their_time_elsewhere() -> None:
    made = calls(8000, 4 * KIB)
    exchanging = {"write": {"ranks": 4, "exchange": (92.0, 92.4)}}
    file = {"mpiio": {"write": {**made, "seconds": 92.4}}, "posix": {"write": made}, "modes": {"collective_writes": 64}}
    for beneath, weight in ((exchanging, "low"), ({}, "high")):
        found = {
            one.kind.code: one for one in diagnose(activity({**file, "beneath": beneath}, summed_seconds=92.4)).findings
        }
        assert found["small-writes"].severity.word == weight, beneath
        assert ("exchange-costs" in found) == bool(beneath)


def test_time_in_collective_calls_is_that_of_the_mean_rank_of_the_job() -> None:
    one = {"mpiio": {"write": calls(64, KIB)}, "modes": {"collective_writes": 64}, "view_piece": 4}
    pair = {**one, "ranks": 2, "beneath": {"write": {"ranks": 1, "exchange": (3.9, 4.0)}}}
    found = next(one for one in diagnose(activity(pair, pair)).findings if one.kind.code == "exchange-costs")
    assert found.evidence["seconds"] == 2.0  # and not 4: each rank uses one of the two files
    views = {**pair, "modes": {"collective_writes": 64, "views": 6}}
    found = next(one for one in diagnose(activity(views)).findings if one.kind.code == "exchange-costs")
    assert "pieces" not in found.says
    alone = {**pair, "ranks": 1}
    assert "exchange-costs" not in {one.kind.code for one in diagnose(activity(alone, alone)).findings}


@pytest.mark.parametrize(
    ("beneath", "view", "severity"),
    [
        ({"exchange": (8.0, 8.01)}, {}, "info"),
        # An exchange of pieces that are as small may take so long.
        ({"exchange": (8.0, 8.01)}, {"view_piece": 4, "modes": {"collective_writes": 64, "views": 4}}, "high"),
        ({"exchange": (2.4, 2.41)}, {"mpiio": {"write": calls(640, KIB)}, "modes": {"collective_writes": 640}}, "high"),
    ],
)
def test_ranks_that_come_late_to_collective_calls_are_no_costs_of_exchange(beneath, view, severity) -> None:
    file = collective(64 * KIB, calls(2, 2 * MIB), beneath={"write": {"ranks": 1, **beneath}}, driver="ROMIO UFS")
    made = diagnose(activity({**file, **view}, summed_seconds=beneath["exchange"][1])).findings
    (found,) = (one for one in made if one.code == "exchange-costs")
    assert found.severity.word == severity and ("ranks come late" in found.says) == (severity == "info")
    assert severity != "info" or not found.settings


def test_settings_for_a_small_share_of_the_time_are_not_proposed() -> None:
    setting = Proposal((Setting(HINT, "romio_cb_write", "disable"),), Expected(1.5, 2.0, ()))
    kind = next(one.kind for one in diagnose(activity(collective(KIB, calls(64, KIB)))).findings)
    assert Finding(kind, Severity.LOW, "", proposal=setting, share=0.5).settings
    assert not Finding(kind, Severity.LOW, "", proposal=setting, share=0.01).settings


def test_metadata_of_hdf5_does_not_count_for_the_size_of_collective_calls() -> None:
    modes = {
        "collective_writes": 8,
        "independent_writes": 800,
        "collective_bytes": 128 * MIB,
        "independent_bytes": 8000,
    }
    both = {"write": {"count": 808, "bytes": 128 * MIB + 8000}}
    file = {"mpiio": both, "posix": both, "modes": modes, "view_contiguous": True, "beneath": {"write": {"ranks": 1}}}
    (found,) = (one for one in diagnose(activity(file)).findings if one.code == "collective-costs")
    assert found.says.startswith("8 collective calls of 16 MiB,")


def test_requests_of_ompio_are_not_timed() -> None:
    beneath = {"write": {"ranks": 1, "exchange": (53.0, 53.2)}}
    file = collective(64 * KIB, calls(2, 2 * MIB), beneath=beneath, driver="OMPIO")
    assert "exchange-costs" not in {one.kind.code for one in diagnose(activity(file)).findings}
