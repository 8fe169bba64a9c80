"""Results of fio, elbencho, h5bench and IO500, as rows and as activities. The figures are of our own making."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.importing import read_sources, table_from
from stripewise.errors import UserError
from stripewise.observe.elbencho import parse_elbencho
from stripewise.observe.fio import parse_fio
from stripewise.observe.h5bench import parse_h5bench
from stripewise.observe.io500 import rows_of_result, rows_of_summary
from stripewise.observe.sources import open_all, source_of

RESULTS = Path(__file__).resolve().parents[1] / "fixtures" / "results"


def text_of(name: str) -> str:
    return (RESULTS / name).read_text("utf-8")


def figures(runs):
    return [(row.access, round(row.bandwidth, 3), row.moved) for run in runs for row in run.rows]


def test_fio_has_a_run_for_each_job() -> None:
    (first, second), notes = parse_fio(text_of("fio-3.json"))
    assert (first.version, first.api, first.tasks, first.transfer, first.layout) == (
        "3.33",
        "posix",
        4,
        1 << 20,
        "segmented",
    )
    assert first.more == {"io_engine": "libaio", "io_depth": 8, "direct": True} and first.file_per_process
    assert figures([first]) == [("write", 800.0, 8_388_608_000)]
    assert (second.tasks, second.transfer, second.layout, second.path) == (1, 4096, "random", "/scratch/me/one")
    assert figures([second]) == [("write", 1.953, 20_480_000), ("read", 3.906, 40_960_000)] and notes == []


def test_processes_of_a_fio_job_that_are_listed_one_by_one_are_added_up() -> None:
    document = json.loads(text_of("fio-3.json").partition("\n")[2])
    del document["global options"]["group_reporting"]
    document["jobs"] = [document["jobs"][0]] * 4
    ((run,), _) = parse_fio(json.dumps(document))
    assert run.tasks == 4 and figures([run]) == [("write", 3200.0, 4 * 8_388_608_000)]


def test_fio_of_several_clients_counts_none_twice() -> None:
    document = json.loads(text_of("fio-3.json").partition("\n")[2])
    job = document.pop("jobs")[0]
    document["client_stats"] = [{**job, "hostname": "a"}, {**job, "hostname": "b"}, {**job, "jobname": "All clients"}]
    ((run,), _) = parse_fio(json.dumps(document))
    assert (run.nodes, run.tasks) == (2, 8) and figures([run]) == [("write", 1600.0, 2 * 8_388_608_000)]


def test_fio_2_counted_kib() -> None:
    document = json.loads(text_of("fio-3.json").partition("\n")[2])
    document["jobs"] = document["jobs"][:1]
    write = document["jobs"][0]["write"]
    write["io_bytes"] = write.pop("io_kbytes")
    assert figures(parse_fio(json.dumps(document))[0]) == [("write", 800.0, 8_388_608_000)]


def test_fio_that_is_cut_off_or_failed_is_named() -> None:
    with pytest.raises(UserError, match="x: fio's JSON, which is cut off or damaged"):
        parse_fio(text_of("fio-3.json")[:-40], "x")
    with pytest.raises(UserError, match="x: fio's JSON without a job that read or wrote; job a ended with error 28"):
        parse_fio('{"fio version" : "fio-3.1", "jobs" : [{"jobname" : "a", "error" : 28}]}', "x")


def test_elbencho_has_a_run_for_each_start_and_rates_of_other_phases() -> None:
    (run,), rates = parse_elbencho(text_of("elbencho-3.csv"))
    assert (run.version, run.nodes, run.tasks, run.transfer, run.layout) == ("3.0-1", 2, 16, 1 << 20, "segmented")
    # Of a phase shorter than a second the printed rate is taken.
    assert figures([run]) == [("write", 5461.333, 16384 << 20), ("read", 18103.0, 16384 << 20)]
    assert run.more == {"io_depth": 4, "direct": True}
    assert [(row["metadata_operation"], row["rate"], row["items"]) for row in rates] == [
        ("directory creation", 1466.0, 1),
        ("file removal", 8500.0, 4),
    ]


def test_elbencho_that_mixes_reads_and_writes() -> None:
    header, _, _, write, *_ = text_of("elbencho-3.csv").splitlines()
    header = header.replace(",version", ",rwmix read MiB/s [last],rwmix read MiB [last],version")
    (run,), _ = parse_elbencho(f"{header}\n{write.replace(',3.0-1', ',2000,6000,3.0-1')}\n")
    assert figures([run]) == [("write", 5461.333, 16384 << 20), ("read", 2000.0, 6000 << 20)]


def test_h5bench_prints_and_csv() -> None:
    (written,) = parse_h5bench(text_of("h5bench-1.txt"))
    assert (written.api, written.tasks, written.collective) == ("hdf5", 4, True)
    # 2.5 GiB in 6.138 s less 4 s of computing.
    assert figures([written]) == [("write", 1197.381, 2_684_354_560)]
    (read,) = parse_h5bench(text_of("h5bench-1.csv"))
    assert (read.tasks, read.collective) == (4, False) and figures([read]) == [("read", 2352.941, 2_684_354_560)]


def test_several_programs_of_h5bench_keep_their_options() -> None:
    text = text_of("h5bench-1.txt")
    first, second = parse_h5bench(text + text.replace("operations: YES", "operations: NO").replace("write", "read"))
    assert (first.collective, second.collective) == (True, False)
    assert [row.access for run in (first, second) for row in run.rows] == ["write", "read"]


def test_the_list_of_io500_has_what_each_command_asked_for() -> None:
    rows = rows_of_result(text_of("io500/result.txt"))
    easy, metadata, hard, find = rows
    assert (easy["phase"], easy["bandwidth"], easy["processes"]) == ("ior-easy-write", 2560.0, 64)
    assert (easy["transfer_size"], easy["layout"], easy["file_per_process"]) == (2 << 20, "segmented", True)
    # Its time ended the phase: what it moved is not known from its command.
    assert easy["file_size"] is None
    assert (hard["transfer_size"], hard["layout"], hard["collective"], hard["api"]) == (
        47_008,
        "strided",
        True,
        "mpiio",
    )
    assert (metadata["metadata_operation"], metadata["rate"], metadata["items"]) == ("file creation", 12_500, 10**6)
    assert (find["metadata_operation"], find["rate"]) == ("find", 700_500)


def test_the_list_of_the_first_versions_of_io500_has_no_processes(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(text_of("io500/result.txt").partition("procs           = 64\n")[2])
    source = source_of(tmp_path / "out")
    assert source is not None and source.name == "io500"
    rows = rows_of_result((tmp_path / "out").read_text())
    assert len(rows) == 4 and rows[0]["processes"] is None and rows[1]["processes"] is None


def test_the_summary_of_io500_in_both_forms() -> None:
    old = "[RESULT] BW   phase 1            ior_easy_write                2.500 GB/s : time 304.45 seconds\n"
    assert rows_of_summary(old) == [{"phase": "ior-easy-write", "operation": "write", "bandwidth": 2560.0}]
    rows = rows_of_summary(text_of("io500/result_summary.txt"))
    assert [(row["phase"], row.get("bandwidth"), row.get("rate")) for row in rows] == [
        ("ior-easy-write", 2560.0, None),
        ("mdtest-easy-write", None, 12_500.0),
        ("ior-hard-write", 256.0, None),
        ("find", None, 700_500.0),
    ]


def test_a_folder_of_io500_counts_nothing_twice(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "io500", tmp_path / "io500")
    assert read_sources([tmp_path]).kinds == {"IO500": 1}
    ior = Path(RESULTS.parent, "ior", "two-runs.txt").read_text()
    (tmp_path / "io500" / "ior-easy-write.txt").write_text(ior)
    found = read_sources([tmp_path])
    assert found.kinds == {"IOR text": 1} and len(found.rows) == 2
    # Who names the list, gets it.
    assert len(read_sources([tmp_path / "io500" / "result.txt"]).rows) == 4


def test_a_job_that_ran_two_benchmarks_gives_the_rows_of_both(tmp_path: Path) -> None:
    ior = Path(RESULTS.parent, "ior", "two-runs.txt").read_text()
    (tmp_path / "job.out").write_text(ior + text_of("mdtest-4.txt"))
    found = read_sources([tmp_path])
    assert found.kinds == {"IOR text and mdtest": 1} and len(found.rows) == 6
    _, notes = table_from(found.rows, "t", "about", ["transfer_size"])
    assert notes[0] == "4 rows have no bandwidth, and a table has one objective: import their files by themselves"


def test_reads_and_writes_of_all_are_diagnosed_from_a_folder(tmp_path: Path) -> None:
    for name in ("fio-3.json", "elbencho-3.csv", "h5bench-1.txt", "mdtest-4.txt"):
        shutil.copy(RESULTS / name, tmp_path)
    found = {
        (one.activity.source.removeprefix(f"{tmp_path}/"), one.activity.kind, one.activity.bytes)
        for one in open_all([tmp_path])
        if one.activity
    }
    assert found == {
        ("fio-3.json (run 1)", "fio", 8_388_608_000),
        ("fio-3.json (run 2) (writes)", "fio", 20_480_000),
        ("fio-3.json (run 2) (reads)", "fio", 40_960_000),
        ("elbencho-3.csv (writes)", "elbencho", 16384 << 20),
        ("elbencho-3.csv (reads)", "elbencho", 16384 << 20),
        ("h5bench-1.txt", "h5bench", 2_684_354_560),
    }
    (fio, *_) = open_all([tmp_path / "fio-3.json"])
    assert fio.activity is not None and fio.activity.totals.posix.write.count == 8000
    assert main(["diagnose", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (text_of("io500/result.txt"), "IO500's list of results; give the outputs of its phases"),
        (text_of("io500/config.ini"), "IO500's configuration; it says what to run"),
        ("access,rank,runtime-with-openclose,runtime\nwrite,0,1,1\n", "IOR's figures of single ranks"),
        ("rank,items,rate-Directory creation\nall,1,2\n", "mdtest's figures of single ranks"),
        ("a: (g=0): rw=read, bs=(R) 4096B\nfio-3.33\nStarting 1 process\n", "fio's output for people; run fio with"),
        ("OPERATION RESULT TYPE        FIRST DONE  LAST DONE\nWRITE\n", "elbencho's output for people; run elbencho"),
        ("Label,Phase,RuntimeMS,Rank,MixType\n", "elbencho's live statistics; give the file of --csvfile"),
        ("steps,arrays,rows,cols,scaling,proc-rows\n1,2\n", "results of h5bench's hdf5_iotest"),
    ],
)
def test_what_cannot_be_diagnosed_is_named(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").write_text(text)
    assert main(["diagnose", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split()) and "not a" not in error


def test_the_summary_of_a_folder_counts_in_the_right_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(RESULTS / "fio-3.json", tmp_path)
    assert main(["diagnose", str(tmp_path)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("2 of 3 jobs have problems") and " 3 jobs, " in printed
    assert ": 1 job (33%)" in printed and " 1 jobs" not in printed
