"""Tables from what other tools left."""

from __future__ import annotations

import importlib.util
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.importing import _keep_complete, table_from
from stripewise.models.table import read_table

IOR = Path(__file__).resolve().parents[1] / "fixtures" / "ior"
REPORTS = Path(__file__).resolve().parents[1] / "fixtures" / "reports"
HEADER = "access bw(MiB/s) IOPS Latency(s) block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n"


def ior_text(write: float, read: float, transfer: int = 1024, tasks: int = 8, flags: str = "-c") -> str:
    rows = "".join(
        f"{access} {value} 1.0 0.01 16384 {transfer}.00 0.002 0.15 0.003 0.157 {number}\n"
        for number in range(2)
        for access, value in (("write", write + number), ("read", read + number))
    )
    return (
        "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
        f"Command line        : ior -a MPIIO {flags} -b 16m -i 2\n\nOptions:\napi                 : MPIIO\n"
        f"access : single-shared-file\nnodes : 2\ntasks : {tasks}\n\nResults:\n\n"
        f"{HEADER}{rows}"
    )


def run(*words: object) -> int:
    return main(["site", "table", "import", *map(str, words)])


def test_ior_text_with_columns_from_the_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for stripes, factor in ((1, 1.0), (4, 3.0)):
        for transfer in (1024, 4096):
            file = tmp_path / "runs" / f"stripes{stripes}-t{transfer}.out"
            file.parent.mkdir(exist_ok=True)
            file.write_text(ior_text(800 * factor, 2000 * factor, transfer), "utf-8")
    assert (
        run(tmp_path / "runs", "--out", tmp_path / "site", "--from-name", r"stripes(?P<stripe_count>\d+)", "--json")
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 16 and document["files"] == {"IOR text": 4}
    assert document["parameters"] == ["stripe_count"]
    table = read_table(tmp_path / "site")
    about = {column.name: column for column in table.schema.columns}
    assert about["stripe_count"].role == "stripe_count" and about["stripe_count"].values == [1, 4]
    assert about["transfer_size"].values == [2**20, 2**22] and about["transfer_size"].unit == "B"
    assert about["collective"].values == [True] and about["layout"].values == ["segmented"]
    assert about["file_size"].values == [16 * 2**20 * 8] and about["processes"].values == [8]
    keep = table.of({"operation": "write", "transfer_size": 2**20})
    assert sorted(table.values[keep]) == [800.0, 801.0, 2400.0, 2401.0] and set(table.repeats) == {0, 1}


def test_runs_of_one_ior_output_are_rows_of_their_own(tmp_path: Path) -> None:
    assert run(IOR / "two-runs.txt", "--out", tmp_path / "two", "--parameter", "file_per_process") == 0
    table = read_table(tmp_path / "two")
    found = {column.name: column.values for column in table.schema.columns}
    assert found["api"] == ["pnetcdf", "posix"] and found["processes"] == [8, 16] and found["nodes"] == [2, 4]
    assert found["transfer_size"] == [47_008, 1 << 20] and found["file_size"] == [512 << 20, 47_008 * 16_000]
    assert found["layout"] == ["segmented"] and sorted(table.values) == [100.0, 900.0]


def test_a_folder_of_ior_outputs_has_those_whose_json_is_broken(tmp_path: Path) -> None:
    shutil.copy(IOR / "issue-102.json", tmp_path / "broken.json")
    assert run(tmp_path, "--out", tmp_path / "table", "--parameter", "processes") == 0
    assert sorted(read_table(tmp_path / "table").values) == [1266.5873, 1658.4832]


def test_ior_json_and_csv_take_parameters_that_are_named(tmp_path: Path) -> None:
    for tasks, value in ((4, 100.0), (8, 190.0)):
        test = {
            "Parameters": {"api": "MPIIO", "collective": 1, "numTasks": tasks, "segmentCount": 4, "blockSize": 4096,
                           "transferSize": 4096},
            "Results": [{"access": "write", "bwMiB": value, "blockKiB": 4.0, "xferKiB": 4.0}],
        }  # fmt: skip
        (tmp_path / f"{tasks}.json").write_text(json.dumps({"Version": "4", "tests": [test]}), "utf-8")
    files = [tmp_path / "4.json", tmp_path / "8.json"]
    assert run(*files, "--out", tmp_path / "json", "--parameter", "processes") == 0
    table = read_table(tmp_path / "json")
    assert [c.name for c in table.schema.parameter] == ["processes"] and sorted(table.values) == [100.0, 190.0]
    assert next(c for c in table.schema.context if c.name == "layout").values == ["strided"]
    (tmp_path / "ior.csv").write_text(
        "access,bw(MiB/s),block(KiB),xfer(KiB),iter\nwrite,5.5,16,4,0\nread,6.5,16,4,0\n", "utf-8"
    )
    assert (
        run(tmp_path / "ior.csv", "--out", tmp_path / "csv", "--set", "stripe_count=4", "--parameter", "stripe_count")
        == 0
    )
    assert sorted(read_table(tmp_path / "csv").values) == [5.5, 6.5]


def test_reports_of_the_runtime_bring_workload_and_hints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = json.loads((REPORTS / "romio_strided_write.json").read_text("utf-8"))
    values = []
    for name in list(recorded)[:3]:
        (tmp_path / f"{len(values)}.json").write_text(json.dumps(recorded[name], indent=1), "utf-8")
        values.append(recorded[name]["totals"]["write_bandwidth"])
    (tmp_path / "notes.txt").write_text("passed over", "utf-8")
    assert run(tmp_path, "--out", tmp_path / "seen", "--parameter", "cb_buffer_size") == 0
    table = read_table(tmp_path / "seen")
    assert {c.name for c in table.schema.context} >= {"operation", "nodes", "processes", "transfer_size", "api"}
    assert "cb_buffer_size" in {c.name for c in table.schema.parameter}
    # A run under another setting may show less of the pattern: its row is left out, and that is said.
    assert set(table.values) <= set(values) and len(table) >= 2
    assert len(table) == len(values) or "rows are left out, for they lack" in capsys.readouterr().err


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_number_without_end_in_one_file_hides_no_other(
    digits: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (IOR.parent / "results" / "fio-3.json").read_text("utf-8")
    for name, depth in (("a", "8"), ("b", "9" * digits)):
        (tmp_path / f"{name}.json").write_text(text.replace('"iodepth" : "8"', f'"iodepth" : "{depth}"'), "utf-8")
    given = ("--parameter", "io_depth", "--set", f"site={'9' * digits}", "--json")
    assert run(tmp_path, "--out", tmp_path / "t", *given) == 0
    document = json.loads(capsys.readouterr().out)
    assert [line.partition(": ")[0] for line in document["unreadable"]] == [str(tmp_path / "b.json")] * (digits > 4300)
    assert len(read_table(tmp_path / "t")) == document["rows"]


def test_a_folder_of_darshan_logs_with_a_broken_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.find_spec("darshan")
    assert spec is not None and spec.origin is not None
    logs = Path(spec.origin).parent / "examples" / "example_logs"
    for name in ("example.darshan", "sample-badost.darshan", "ior_hdf5_example.darshan"):
        shutil.copy(logs / name, tmp_path / name)
    (tmp_path / "broken.darshan").write_bytes(b"no log at all")
    assert run(tmp_path, "--out", tmp_path / "logs", "--parameter", "processes", "--workers", 2, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == {"darshan": 3} and document["rows"] >= 3
    assert len(document["unreadable"]) == 1 and "broken.darshan" in document["unreadable"][0]
    table = read_table(tmp_path / "logs")
    assert min(table.values) > 0 and {"operation"} <= {c.name for c in table.schema.context}


SCHEMA = """
name = "own"
[objective]
column = "speed"
direction = "maximize"
[[parameter]]
name = "stripes"
kind = "ordinal"
role = "stripe_count"
values = [1, 2]
[[context]]
name = "nodes"
kind = "ordinal"
role = "nodes"
values = [4]
"""


def test_any_csv_with_a_schema(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA, "utf-8")
    (tmp_path / "a.csv").write_text("stripes,nodes,speed,host\n1,4,10.5,x\n2,4,20.5,y\n", "utf-8")
    (tmp_path / "b.csv").write_text("host,nodes,stripes,speed\nz,4,1,11.5\n", "utf-8")
    assert run(tmp_path / "a.csv", tmp_path / "b.csv", "--schema", tmp_path / "s.toml", "--out", tmp_path / "own") == 0
    assert list(read_table(tmp_path / "own").values) == [10.5, 20.5, 11.5]


@pytest.mark.parametrize(
    "text, message",
    [
        ("stripes,nodes,speed\n1,4,nan\n", "row 1: speed is nan"),
        ("stripes,nodes,speed\n1,4,-inf\n", "row 1: speed is -inf"),
        ("stripes,nodes,speed\n1,4,fast\n", "speed is 'fast', which is not a number"),
        ("stripes,nodes,speed\n3,4,1\n", "stripes = '3' is not among"),
        ("stripes,nodes,speed\n1,4\n", "line 2 has more or fewer cells"),
        ("stripes,nodes,speed\n1,4,5,6\n", "line 2 has more or fewer cells"),
        ("stripes,speed\n1,5\n", "no column 'nodes'"),
        ("stripes,nodes,speed\n", "has no rows"),
        ('stripes,nodes,speed\n"1,4,5\n', "cannot read"),
    ],
)
def test_malformed_csv_ends_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(SCHEMA, "utf-8")
    (tmp_path / "a.csv").write_text(text, "utf-8")
    assert run(tmp_path / "a.csv", "--schema", tmp_path / "s.toml", "--out", tmp_path / "own") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "own.csv").exists()


@pytest.mark.parametrize(
    "words, message",
    [
        (["a.csv"], "say what its columns mean with --schema"),
        (["gone.out"], "does not exist"),
        (["a.out"], "nothing in these 4 rows can be tuned"),
        (["a.out", "--parameter", "colour"], "this column does not exist"),
        (["a.out", "--from-name", "("], "not a regular expression"),
        (["a.out", "--from-name", "abc"], "names no column"),
        (["a.out", "--from-name", "(?P<stripe_count>x+y)"], "does not match"),
        (["a.out", "--set", "stripe_count"], "is not NAME=VALUE"),
        (["empty"], "empty holds no Darshan logs"),
    ],
)
def test_what_cannot_be_imported_ends_in_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("x,y\n1,2\n", "utf-8")
    Path("a.out").write_text(ior_text(1.5, 2.5), "utf-8")
    Path("empty").mkdir()
    assert run(*words, "--out", "t") == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_columns_that_lack_the_same_rows_are_named_in_one_note() -> None:
    notes: list[str] = []
    rows: list[dict[str, Any]] = [{"bandwidth": 1.0, "nodes": 1, **({} if n else {"a": 1, "b": 2})} for n in range(6)]
    _, names = _keep_complete(rows, "bandwidth", (), notes)
    assert names == ["nodes"]
    assert notes == ["columns a, b are left out: 5 of 6 rows have no value there"]


def test_importing_takes_time_as_there_are_rows() -> None:
    rows: list[dict[str, Any]] = [
        {"bandwidth": 1.0, "stripe_count": n % 4 or None, "file_size": n + 1, "memory": str(n)} for n in range(20_000)
    ]
    began = time.process_time()
    table, notes = table_from(rows, "many", "", ["stripe_count"])
    assert time.process_time() - began < 15  # every value beside every other: an hour
    assert len(table) == 15_000 and notes == ["5,000 rows are left out, for they lack stripe_count"]
    sizes = next(column for column in table.schema.context if column.name == "file_size")
    assert [sizes.values[level] for level in table.context_levels[:2, table.schema.context.index(sizes)]] == [2, 3]
