"""HDF5 under the preloaded runtime, on Debian's parallel libraries of both MPIs: what is seen, set and left alone."""

import re
from pathlib import Path
from typing import Any

import pytest

from stripewise.diagnose.filters import chunk_shape
from stripewise.observe.report import parse_report
from tests.integration.hdf5_support import Hdf5Bench, contents, debian_mpi, differences
from tests.integration.runtime_models import save_hdf5_model
from tests.integration.runtime_support import HEADER, Outcome

RANKS = 2

SETTINGS = """hdf5 alignment 65536
hdf5 alignment_threshold 1024
hdf5 meta_block_size 65536
hdf5 coll_metadata_write true
hdf5 chunk_cache 4194304
hdf5 sieve_buf_size 131072
"""
FILE_SPACE = "hdf5 file_space_strategy page\nhdf5 file_space_page_size 16384\n"
FILTERS = "hdf5 chunk_size 65536\nhdf5 shuffle true\nhdf5 deflate 4\nhdf5 fletcher32 true\n"


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Hdf5Bench:
    return Hdf5Bench(debian_mpi(request.param), tmp_path_factory)


def run(bench: Hdf5Bench, path: Path, name: str, *arguments: object, plan: str | None = None, **more: Any) -> Outcome:
    program = bench.hdf5_program("hdf5_patterns.c")
    outcome = bench.run(program, path, name, *arguments, plan=plan and HEADER + plan, ranks=RANKS, **more)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    if outcome.report is not None:
        parse_report(outcome.report)
    return outcome


def only_dataset(outcome: Outcome, file: str = "data.h5") -> dict[str, Any]:
    (dataset,) = outcome.file(file)["hdf5"]["datasets"]
    return dict(dataset)


@pytest.mark.parametrize("collective", [False, True])
def test_rows_are_one_run_a_call(bench: Hdf5Bench, tmp_path: Path, collective: bool) -> None:
    outcome = run(bench, tmp_path / "data.h5", "rows_all" if collective else "rows")
    dataset = only_dataset(outcome)
    assert (dataset["name"], dataset["storage"], dataset["size"], dataset["element_size"]) == (
        "/rows",
        "contiguous",
        [8 * RANKS, 64],
        8,
    )
    assert (dataset["creates"], dataset["ranks"], dataset["nodes"]) == (RANKS, RANKS, 1)
    for way in ("write", "read"):
        moved = dataset[way]
        assert (moved["calls"], moved["bytes"]) == (RANKS, RANKS * 4096)
        assert (moved["collective"], moved["independent"]) == ((RANKS, 0) if collective else (0, RANKS))
        assert moved["broken_collective"] == 0
        assert moved["selections"] == {"block": RANKS}
        assert (moved["contiguous"], moved["strided"], moved["random"]) == (RANKS, 0, 0)
        assert moved["top"] == [[4096, RANKS]]
        assert sum(moved["histogram"]) == moved["histogram"][2] == RANKS
    assert dataset["address"] % 8 == 0
    operations = outcome.file("data.h5")["hdf5"]["operations"]
    assert {name: part["count"] for name, part in operations.items()} == dict.fromkeys(
        ("file_create", "file_close", "dataset_create", "dataset_close", "dataset_write", "dataset_read"), RANKS
    )


def test_columns_are_strided_and_chunked(bench: Hdf5Bench, tmp_path: Path) -> None:
    dataset = only_dataset(run(bench, tmp_path / "data.h5", "columns_all"))
    assert (dataset["storage"], dataset["chunk"], dataset["address"]) == ("chunked", [16, 4], None)
    assert dataset["write"]["selections"] == {"strided": RANKS}
    assert (dataset["write"]["strided"], dataset["write"]["contiguous"]) == (RANKS, 0)


def test_points_are_random_and_idle_ranks_move_nothing(bench: Hdf5Bench, tmp_path: Path) -> None:
    dataset = only_dataset(run(bench, tmp_path / "data.h5", "points"))
    assert dataset["write"]["selections"] == {"points": 1, "none": RANKS - 1}
    assert (dataset["write"]["bytes"], dataset["write"]["random"], dataset["write"]["top"]) == (24, 1, [[24, 1]])


def test_work_on_metadata_is_counted(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "many", 5)
    file = outcome.file("data.h5")["hdf5"]
    counts = {name: part["count"] for name, part in file["operations"].items()}
    for name in ("group_create", "dataset_create", "attribute_create", "attribute_write", "dataset_write"):
        assert counts[name] == 5 * RANKS, name
    assert counts["file_flush"] == RANKS
    assert {dataset["name"] for dataset in file["datasets"]} == {f"/group{i}/values" for i in range(5)}
    assert all(part["time_sum"] >= part["time_max"] > 0 for part in file["operations"].values())


def test_many_datasets_are_summed_beyond_the_limit(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "many", 300)
    datasets = {dataset["name"]: dataset for dataset in outcome.file("data.h5")["hdf5"]["datasets"]}
    other = datasets.pop("(other datasets)")
    assert len(datasets) == 256
    assert "/group299/values" in datasets and "/group0/values" not in datasets
    assert other["creates"] == 44 * RANKS
    assert other["write"]["bytes"] == 44 * RANKS * 256
    assert sum(dataset["write"]["calls"] for dataset in datasets.values()) == 256 * RANKS


def test_settings_are_given_and_read_back(bench: Hdf5Bench, tmp_path: Path) -> None:
    plain = run(bench, tmp_path / "plain.h5", "rows")
    outcome = run(bench, tmp_path / "data.h5", "rows", plan=SETTINGS)
    for line in SETTINGS.splitlines():
        _, key, value = line.split()
        setting = outcome.setting("data.h5", key)
        assert (setting["outcome"], setting["given"], setting["echoed"]) == ("applied", value, value), key
        assert outcome.file("data.h5")["hdf5"]["properties"][key] == value
    assert only_dataset(plain, "plain.h5")["address"] % 65536 != 0
    assert only_dataset(outcome)["address"] % 65536 == 0

    def collective_writes(found: dict[str, Any]) -> int:
        return sum(part["count"] for name, part in found["operations"].items() if name.startswith("write_at_all"))

    assert collective_writes(outcome.file("data.h5")) > collective_writes(plain.file("plain.h5"))
    assert differences(tmp_path / "plain.h5", tmp_path / "data.h5") == ""


def test_file_space_is_what_the_file_says(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "rows", plan=FILE_SPACE)
    properties = outcome.file("data.h5")["hdf5"]["properties"]
    assert (properties["file_space_strategy"], properties["file_space_page_size"]) == ("page", "16384")


def assert_divided(file: dict[str, Any], size: int) -> None:
    """Assert that the runtime divides datasets as Python expects."""
    datasets = file["hdf5"]["datasets"]
    assert datasets and all(
        tuple(dataset["chunk"]) == chunk_shape(dataset["size"], dataset["element_size"], size) for dataset in datasets
    )


def test_chunks_and_filters_only_where_all_writes_are_collective(bench: Hdf5Bench, tmp_path: Path) -> None:
    run(bench, tmp_path / "plain.h5", "large_all")
    without = run(bench, tmp_path / "data.h5", "large_all", plan=FILTERS)
    assert without.setting("data.h5", "chunk_size")["outcome"] == "applied"
    assert without.setting("data.h5", "chunk_size")["echoed"] == "32x256 elements"
    assert_divided(without.file("data.h5"), 65536)
    for key in ("shuffle", "deflate", "fletcher32"):
        assert without.setting("data.h5", key)["outcome"] == "not_applicable"
        assert "collective_writes" in without.setting("data.h5", key)["note"]
    stated = run(bench, tmp_path / "data.h5", "large_all", plan=FILTERS + "hdf5 collective_writes yes\n")
    assert only_dataset(stated)["filters"] == ["deflate", "shuffle", "fletcher32"]
    assert (tmp_path / "data.h5").stat().st_size < (tmp_path / "plain.h5").stat().st_size / 2
    assert differences(tmp_path / "plain.h5", tmp_path / "data.h5") == ""


def test_chunks_take_the_shape_of_the_plan_and_hold_the_same(bench: Hdf5Bench, tmp_path: Path) -> None:
    plain = run(bench, tmp_path / "plain.h5", "columns_all")
    seen = only_dataset(plain, "plain.h5")
    assert (seen["size"], seen["chunk"]) == ([16, 4 * RANKS], [16, 4])
    found = run(bench, tmp_path / "data.h5", "columns_all", plan="hdf5 chunk_shape readers:other=1x1,*/4x*\n")
    setting = found.setting("data.h5", "chunk_shape")
    assert (setting["outcome"], setting["echoed"]) == ("applied", f"4x{4 * RANKS} elements")
    assert only_dataset(found)["chunk"] == [4, 4 * RANKS]
    assert differences(tmp_path / "plain.h5", tmp_path / "data.h5") == ""
    # A dimension is never larger than the dataset's.
    large = run(bench, tmp_path / "data.h5", "columns_all", plan="hdf5 chunk_shape 100x3\n")
    assert only_dataset(large)["chunk"] == [16, 3]
    for value, outcome in (("own", "not_applicable"), ("*x*x*", "not_applicable"), ("writers", "refused")):
        kept = run(bench, tmp_path / "data.h5", "columns_all", plan=f"hdf5 chunk_shape {value}\n")
        assert kept.setting("data.h5", "chunk_shape")["outcome"] == outcome, value
        assert only_dataset(kept)["chunk"] == [16, 4]
    # What the program does not chunk is chunked only where the plan overrides.
    rows = run(bench, tmp_path / "rows.h5", "rows", plan="hdf5 chunk_shape 8x64\n")
    assert "has no chunks" in rows.setting("rows.h5", "chunk_shape")["note"]
    over = run(bench, tmp_path / "rows.h5", "rows", plan="override yes\nhdf5 chunk_shape 8x64\n")
    assert only_dataset(over, "rows.h5")["chunk"] == [8, 64]
    assert only_dataset(over, "rows.h5")["write"]["box"] == [8, 64]
    assert only_dataset(over, "rows.h5")["write"]["chunk_ranks"] == 1


ODD = """hdf5 datasets single,/odd/dou*,foreign,whole
hdf5 chunk_size 16384
hdf5 shuffle true
hdf5 deflate 1
hdf5 scaleoffset 3
hdf5 szip 16
hdf5 plugin 32000
hdf5 collective_writes yes
"""


@pytest.mark.parametrize("digits", [-30, 3, 37])
def test_no_value_is_further_off_than_the_accuracy(bench: Hdf5Bench, tmp_path: Path, digits: int) -> None:
    found = run(bench, tmp_path / "data.h5", "odd", digits, plan=ODD + f"hdf5 accuracy 1e{-digits}\n")
    filters = {dataset["name"]: dataset["filters"] for dataset in found.file("data.h5")["hdf5"]["datasets"]}
    assert filters["/odd/single"] == filters["/odd/double"] == ["deflate", "shuffle"]
    # HDF5's own filter for digits lost NaN and numbers near the fill value of reals; whole numbers it packs exactly.
    assert filters["/odd/whole"] == ["deflate", "shuffle", "scaleoffset"]
    # HDF5 would write converted numbers independently, which it cannot do through filters.
    assert filters["/odd/foreign"] == filters["/odd/other"] == []
    assert found.setting("data.h5", "accuracy")["outcome"] == "applied"
    # What HDF5 1.10 would make unreadable where several ranks write data that cannot be compressed.
    for key in ("szip", "plugin"):
        assert "before 1.14 loses chunks" in found.setting("data.h5", key)["note"], key


@pytest.mark.parametrize(
    ("plan", "outcome"),
    [
        ("hdf5 accuracy 0.001\n", "not_applicable"),
        ("hdf5 deflate 1\nhdf5 accuracy 1e-38\n", "refused"),
    ],
)
def test_nothing_is_rounded_without_a_compressor_or_a_good_accuracy(
    bench: Hdf5Bench, tmp_path: Path, plan: str, outcome: str
) -> None:
    run(bench, tmp_path / "plain.h5", "large_all")
    found = run(
        bench, tmp_path / "data.h5", "large_all", plan="hdf5 chunk_size 65536\nhdf5 collective_writes yes\n" + plan
    )
    assert found.setting("data.h5", "accuracy")["outcome"] == outcome
    assert differences(tmp_path / "plain.h5", tmp_path / "data.h5") == ""


def test_the_programs_own_properties_win_unless_overridden(bench: Hdf5Bench, tmp_path: Path) -> None:
    plan = "hdf5 alignment 65536\nhdf5 meta_block_size 65536\nhdf5 coll_metadata_write true\n"
    outcome = run(bench, tmp_path / "data.h5", "own", plan=plan)
    alignment = outcome.setting("data.h5", "alignment")
    assert (alignment["outcome"], alignment["application"], alignment["echoed"]) == ("application_wins", "512", "512")
    assert outcome.setting("data.h5", "meta_block_size")["application"] == "8192"
    assert outcome.setting("data.h5", "coll_metadata_write")["outcome"] == "applied"
    forced = run(bench, tmp_path / "data.h5", "own", plan="override yes\n" + plan)
    assert forced.setting("data.h5", "alignment")["echoed"] == "65536"


def test_what_cannot_be_set_is_named(bench: Hdf5Bench, tmp_path: Path) -> None:
    plan = "hdf5 alignment big\nhdf5 file_space_page_size 3\nhdf5 dxpl_mpio collective\nhdf5 colour blue\n"
    outcome = run(bench, tmp_path / "data.h5", "rows", plan=plan)
    assert (outcome.setting("data.h5", "alignment")["outcome"], outcome.setting("data.h5", "alignment")["note"]) == (
        "refused",
        "no value of this setting",
    )
    assert outcome.setting("data.h5", "file_space_page_size")["outcome"] == "refused"
    assert "hang" in outcome.setting("data.h5", "dxpl_mpio")["note"]
    assert "no such setting" in outcome.setting("data.h5", "colour")["note"]
    assert "HDF5-DIAG" not in outcome.stderr


def test_exclusive_creation_and_failing_opens_stay_the_programs(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "exclusive", plan=SETTINGS)
    assert "exclusively" in outcome.setting("data.h5", "alignment")["note"]
    plain = run(bench, tmp_path / "none.h5", "missing", preload=False)
    tuned = run(bench, tmp_path / "none.h5", "missing", plan=SETTINGS)
    assert tuned.stderr.count("HDF5-DIAG") == plain.stderr.count("HDF5-DIAG") == RANKS


def test_serial_files_and_halves_of_the_job(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = run(bench, tmp_path / "data.h5", "apart", plan=SETTINGS)
    for rank in range(RANKS):
        file = outcome.file(f"data.h5.{rank}")
        assert file["hdf5"]["driver"] == "serial"
        assert file["hdf5"]["datasets"][0]["write"]["selections"] == {"all": 1}
        assert outcome.setting(f"data.h5.{rank}", "alignment")["outcome"] == "applied"
        assert outcome.setting(f"data.h5.{rank}", "coll_metadata_write")["outcome"] == "not_applicable"
    assert outcome.file("data.h5")["hdf5"]["driver"] == "mpio"
    assert outcome.file("data.h5")["ranks"] == RANKS // 2


@pytest.mark.parametrize("create", [1, 2])
@pytest.mark.parametrize("filters", ["", "hdf5 shuffle true\nhdf5 fletcher32 true\n"])
def test_a_full_disk_fails_the_write_and_not_the_close(
    bench: Hdf5Bench, tmp_path: Path, create: int, filters: str
) -> None:
    behind = (bench.preload("full_disk.c"),)
    for plan in ("hdf5 alignment 1\n", f"hdf5 chunk_size 262144\n{filters}"):
        outcome = run(bench, tmp_path / "data.h5", "full", create, plan=plan, behind=behind)
        assert outcome.stdout.count("a write failed") == RANKS, plan
        chunked = [
            setting["outcome"] for setting in outcome.file("data.h5.0")["settings"] if setting["key"] == "chunk_size"
        ]
    assert chunked == ["applied"]
    room = run(bench, tmp_path / "data.h5", "full", create, plan=plan)
    run(bench, tmp_path / "plain.h5", "full", create, preload=False)
    assert room.stdout.count("all was written") == RANKS
    assert differences(tmp_path / "plain.h5.0", tmp_path / "data.h5.0") == ""


@pytest.mark.parametrize(("override", "slots"), [("", "125"), ("override yes\n", "2087")])
def test_the_program_s_own_slots_stay(bench: Hdf5Bench, tmp_path: Path, override: str, slots: str) -> None:
    outcome = run(bench, tmp_path / "data.h5", "own", plan=f"{override}hdf5 chunk_cache 4194304\n")
    assert outcome.setting("data.h5", "chunk_cache")["outcome"] == "applied"
    assert outcome.file("data.h5")["hdf5"]["properties"]["chunk_slots"] == slots


# ---- decisions inside the program ----


def deciding(mode: str, folder: Path) -> dict[str, str]:
    return {"STRIPEWISE_MODE": mode, "STRIPEWISE_MODEL": str(save_hdf5_model(folder))}


def phases(bench: Hdf5Bench, prefix: Path, count: int, kind: str, **more: str) -> Outcome:
    program = bench.hdf5_program("hdf5_phases.c")
    outcome = bench.run(program, prefix, count, kind, 3, 5000, ranks=RANKS, **more)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    return outcome


def in_force(outcome: Outcome, file: str) -> str:
    """What was applied to a file, as the journal writes it."""
    applied = [s for s in outcome.file(file)["settings"] if s["outcome"] == "applied"]
    order = sorted(applied, key=lambda s: (["hint", "layout", "hdf5"].index(s["layer"]), s["key"]))
    return ";".join(f"{s['layer']} {s['key']} {s['given']}" for s in order)


@pytest.mark.usefixtures("romio")
def test_one_decision_holds_hints_and_properties(bench: Hdf5Bench, tmp_path: Path) -> None:
    outcome = phases(bench, tmp_path / "chk", 2, "small", **deciding("predict", tmp_path))
    phases(bench, tmp_path / "plain", 1, "small", preload=False)  # type: ignore[arg-type]
    assert differences(tmp_path / "plain.0000", tmp_path / "chk.0000") == ""
    for name in ("chk.0000", "chk.0001"):
        decision = outcome.file(name)["decision"]
        # all_coll_metadata_ops could hang the program: 2 ** 5 combinations are left.
        assert (decision["verdict"], decision["count"], decision["combinations"]) == ("changed", 1, 32)
        assert decision["predicted"] / decision["current"] == pytest.approx(2.718281828**1.8)
        assert in_force(outcome, name) == (
            "hint romio_cb_write disable;hdf5 alignment 65536;hdf5 chunk_size 4096;hdf5 coll_metadata_write true"
        )
        assert {s["note"] for s in outcome.file(name)["settings"]} == {"prescribed by the model"}
        properties = outcome.file(name)["hdf5"]["properties"]
        assert (properties["alignment"], properties["coll_metadata_write"]) == ("65536", "true")
        assert_divided(outcome.file(name), 4096)


def test_each_open_decides_for_what_it_does(bench: Hdf5Bench, tmp_path: Path) -> None:
    if not bench.is_mpich:
        pytest.skip("the other tests meet both MPIs")
    predict = deciding("predict", tmp_path)
    read = phases(bench, tmp_path / "table", 1, "tables", **predict)
    assert in_force(read, "table.0000") == "hdf5 chunk_cache 4194304"
    own = run(bench, tmp_path / "own.h5", "own", **predict)
    assert in_force(own, "own.h5") == "hint romio_cb_write disable;hdf5 chunk_size 4096;hdf5 coll_metadata_write true"
    exclusive = run(bench, tmp_path / "exclusive.h5", "exclusive", **predict)
    assert in_force(exclusive, "exclusive.h5") == "hint romio_cb_write disable"
    plan = "hdf5 alignment 512\nhdf5 chunk_size 2048\n"
    planned = run(bench, tmp_path / "rows.h5", "rows", plan=plan, **predict)
    assert in_force(planned, "rows.h5") == (
        "hint romio_cb_write disable;hdf5 alignment 512;hdf5 chunk_size 2048;hdf5 coll_metadata_write true"
    )
    assert not planned.setting("rows.h5", "alignment")["note"]
    assert_divided(planned.file("rows.h5"), 2048)
    parts = run(bench, tmp_path / "apart.h5", "apart", **predict)
    assert in_force(parts, "apart.h5.0") == "" and "alignment 65536" in in_force(parts, "apart.h5")


def test_a_candidate_holds_hints_and_properties(bench: Hdf5Bench, tmp_path: Path) -> None:
    journal, count = tmp_path / "journal", 6
    online = {"STRIPEWISE_JOURNAL": str(journal), **deciding("online", tmp_path)}
    outcome = phases(bench, tmp_path / "chk", count, "small", **online)
    lines = [dict(w.split("=", 1) for w in line.split("\t")[1:]) for line in journal.read_text().splitlines()[1:]]
    assert [line["settings"] for line in lines] == [in_force(outcome, f"chk.{number:04d}") for number in range(count)]
    assert "hdf5 alignment 65536" in lines[0]["settings"] and lines[1]["settings"] == ""
    # Whatever alignment and chunks make of the file, the phases are of one size.
    assert {(line["bytes"], line["pattern"]) for line in lines} == {("30000", "c")}
    for line in lines:
        assert "api=hdf5" in line["workload"] and "transfer_size=5000" in line["workload"], line
        assert "file_size=30000" in line["workload"], line
    # A compressed file is asked about as what its datasets hold: 3 tables of 64 rows.
    journal.unlink()
    phases(bench, tmp_path / "table", 2, "tables", **online)
    assert [re.findall(r" file_size=(\d+)", line) for line in journal.read_text().splitlines()[1:]] == [["960000"]] * 2
    # The plan of a program is a candidate as a whole.
    plan = HEADER + "hdf5 alignment 4096\nhint cb_nodes 1\n"
    planned = phases(bench, tmp_path / "own", 2, "small", plan=plan, STRIPEWISE_MODE="online")
    assert in_force(planned, "own.0000") == "hint cb_nodes 1;hdf5 alignment 4096"
    assert in_force(planned, "own.0001") == "" and planned.file("own.0001")["settings"] == []


def test_a_phase_costs_three_collective_calls(bench: Hdf5Bench, tmp_path: Path) -> None:
    """Ranks that wait for a processor pay for each: the decision, that all follow it, and what it cost."""
    count, calls = 3, []
    for mode in ("observe", "online"):
        more: Any = {**deciding(mode, tmp_path), "behind": (bench.preload("count_collectives.c"),)}
        outcome = phases(bench, tmp_path / "table", count, "tables", **more)
        calls.append({name: int(number) for name, number in re.findall(r"counted (\w+) (\d+)", outcome.stdout)})
    assert "hdf5 chunk_cache 4194304" in [in_force(outcome, f"table.{number:04d}") for number in range(count)]
    # When the job begins, its nodes are counted once and for all.
    assert {name: calls[1][name] - calls[0][name] for name in calls[1]} == {
        "Allreduce": count,
        "Bcast": count + 1,
        "Gather": 1,
        "Reduce": count,
        "Comm_dup": 0,
    }


PROGRAMS = ["rows", "rows_all", "columns", "columns_all", "points", "many", "many_all", "large", "large_all"]
PLANS = {
    "observe": None,
    "access": SETTINGS,
    "paged": FILE_SPACE + SETTINGS,
    "chunked": "hdf5 chunk_size 4096\nhint romio_cb_write enable\n",
    "metadata": "hdf5 coll_metadata_write true\nhdf5 meta_block_size 1048576\nhint cb_nodes 2\n",
}


@pytest.fixture(scope="module")
def plain(bench: Hdf5Bench, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """What each program writes without the runtime: the file, and its contents."""
    path = tmp_path_factory.mktemp("plain") / "data"
    run(bench, path, ",".join(PROGRAMS), preload=False)
    files = {program: Path(f"{path}.{program}") for program in PROGRAMS}
    return {program: (file, contents(file)) for program, file in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("mode", PLANS)
def test_objects_and_values_are_the_same_in_every_mode(
    bench: Hdf5Bench, tmp_path: Path, plain: dict[str, tuple[Path, str]], mode: str
) -> None:
    run(bench, tmp_path / "tuned", ",".join(PROGRAMS), plan=PLANS[mode])
    for program, (one, written) in plain.items():
        other = tmp_path / f"tuned.{program}"
        assert differences(one, other) == "", program
        assert written == contents(other), program
