"""Traces of other tools and tables of DXT become the same activities as Darshan logs, for every command."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stripewise.desk.cli.commands import app
from stripewise.diagnose.site import diagnose
from stripewise.engine.campaign.importing import read_sources
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import UnreadableLogError, read_log
from stripewise.observe.sources import find, observe, open_all

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
SAMPLE, SAMPLES, READ = 4096, 256, 64  # of workers.py


def file_of(activity: Activity, name: str) -> Any:
    return next(file for file in activity.files if file.path.endswith(name))


def test_what_worker_processes_read_is_in_the_activity_of_a_dftracer_trace() -> None:
    activity = read_log(TRACES / "dftracer")
    assert (activity.kind, activity.job.ranks, activity.job.nodes) == ("dftracer", 3, 1)
    assert activity.job.executable == "/usr/bin/python3 workers.py /data"
    data = file_of(activity, "samples.bin").posix
    assert (data.read.count, data.read.bytes, data.read.common) == (2 * READ, 2 * READ * SAMPLE, [])
    assert (data.write.count, data.write.bytes, data.opens) == (1, SAMPLE * SAMPLES, 3)
    assert data.read.sequential < 0.8 * 2 * READ, "samples are read at random"
    assert data.read.extent <= SAMPLE * SAMPLES
    assert activity.ranks is not None
    assert sorted(activity.ranks.read) == [0, READ * SAMPLE, READ * SAMPLE]
    assert 0 < activity.io_seconds < activity.job.elapsed
    assert {"small-reads", "random-reads"} <= {finding.code for finding in diagnose(activity).findings}


def test_a_trace_of_the_first_dftracer_names_files_in_its_events() -> None:
    activity = read_log(TRACES / "dftracer-1")
    # This release writes the calls of forked workers as the parent's.
    assert (activity.kind, activity.job.ranks, activity.job.nodes, len(activity.files)) == ("dftracer", 1, 1, 1)
    data = file_of(activity, "/data/samples.bin").posix
    assert (data.read.count, data.read.bytes, data.opens) == (2 * READ, 2 * READ * SAMPLE, 3)
    assert (data.write.count, data.write.bytes) == (1, SAMPLE * SAMPLES)
    assert data.read.sequential < 0.8 * 2 * READ and data.read.extent <= SAMPLE * SAMPLES
    assert "small-reads" in {finding.code for finding in diagnose(activity).findings}


def test_what_ranks_did_is_in_the_activity_of_a_recorder_trace() -> None:
    activity = read_log(TRACES / "recorder" / "_text")
    assert (activity.kind, activity.version, activity.job.ranks) == ("recorder", "2.5.0", 2)
    shared = file_of(activity, "shared.dat")
    assert (shared.ranks, shared.posix.opens, shared.posix.syncs) == (2, 2, 2)
    assert (shared.posix.write.count, shared.posix.write.bytes) == (120, 120 * 4096)
    assert (shared.posix.write.consecutive, shared.posix.write.sequential) == (0, 2 * 59)
    assert (shared.posix.read.count, shared.posix.read.bytes) == (80, 80 * 3000)
    assert (shared.posix.read.consecutive, shared.redundant_read) == (2 * 39, 0)
    own = file_of(activity, "own-1.dat")
    assert (own.stdio.write.count, own.stdio.write.bytes, own.ranks) == (10, 10 * 4096, 1)
    assert "small-writes" in {finding.code for finding in diagnose(activity).findings}


def test_folders_with_traces_are_searched_and_each_trace_is_one_job(tmp_path: Path) -> None:
    shutil.copytree(TRACES / "dftracer", tmp_path / "job1" / "trace")
    shutil.copytree(TRACES / "recorder", tmp_path / "job2")
    (tmp_path / "job2" / "recorder.mt").touch()
    assert [path.relative_to(tmp_path) for path in find([tmp_path])] == [Path("job1/trace"), Path("job2")]
    assert {result.activity.kind for result in open_all([tmp_path]) if result.activity} == {"dftracer", "recorder"}
    rows = read_sources([tmp_path])
    assert rows.kinds == {"dftracer": 1, "recorder": 1}


@pytest.mark.parametrize(("trace", "size"), [("dftracer", SAMPLE * SAMPLES), ("recorder/_text", 4096)])
def test_a_prescription_takes_what_a_trace_shows(trace: str, size: int) -> None:
    seen = observe(TRACES / trace)
    assert (seen.workload.api, seen.workload.transfer_size) == ("posix", size)


def test_the_command_says_what_a_trace_does_not_show() -> None:
    result = CliRunner().invoke(app, ["diagnose", str(TRACES / "dftracer"), "--json"])
    assert result.exit_code in (0, 2), result.output
    found = json.loads(result.stdout)
    assert found["kind"] == "dftracer"
    assert any("has no ranks" in sentence for sentence in found["unseen"])


def event(name: str, **args: Any) -> str:
    """A line as version 1 of DFTracer writes it: hashes are numbers, and ``ph`` is a letter."""
    about = {"id": 1, "name": name, "cat": "POSIX", "pid": 7, "tid": 7, "ts": 1000, "dur": 5, "ph": "X", "args": args}
    return json.dumps(about)


def test_a_trace_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    name = json.dumps({"name": "FH", "cat": "dftracer", "ph": "M", "args": {"name": "/data/a", "value": 12}})
    lines = ["[", name, *(event("pread", fhash=12, ret=100, offset=100 * i) for i in range(5000)), '{"id":']
    packed = gzip.compress("\n".join(lines).encode())
    path = tmp_path / "run-7.pfw.gz"
    path.write_bytes(packed)
    whole = read_log(path)
    assert whole.files[0].posix is not None
    assert (whole.files[0].path, whole.files[0].posix.read.count) == ("/data/a", 5000)
    assert any("1 lines that are no events" in sentence for sentence in whole.unseen)
    path.write_bytes(packed[: len(packed) // 2])
    part = read_log(path)
    assert part.files[0].posix is not None
    assert 0 < part.files[0].posix.read.count < 5000
    assert any("cut off" in sentence for sentence in part.unseen)


def test_what_cannot_be_read_is_said_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "recorder.mt").touch()
    with pytest.raises(UnreadableLogError, match="Recorder trace: it has no text") as packed:
        read_log(tmp_path)
    assert "recorder2text" in str(packed.value.fix)
    (tmp_path / "run.pfw").write_text(event("read", ret=5) + "\n")
    with pytest.raises(UnreadableLogError, match="DFTracer trace: none of its events names a file") as nameless:
        read_log(tmp_path / "run.pfw")
    assert "DFTRACER_INC_METADATA" in str(nameless.value.fix)


def test_calls_whose_numbers_are_impossible_are_left_out_and_counted(tmp_path: Path) -> None:
    texts = tmp_path / "_text"
    shutil.copytree(TRACES / "recorder" / "_text", texts)
    with (texts / "0.txt").open("a") as text:
        for line in (
            f"1.0 2.0 pwrite 0 0 (/data/huge.dat %p 4096 {1 << 63})",
            f"1.0 2.0 lseek 0 0 (/data/huge.dat {1 << 63} 0)",
            "nan 2.0 write 0 0 (/data/huge.dat %p 4096)",
        ):
            text.write(line + "\n")
    activity = read_log(texts)
    assert any("0.txt has 3 lines that cannot be read" in gap for gap in activity.unseen)
    assert not any(file.path.endswith("huge.dat") for file in activity.files)
    nested = tmp_path / "a.pfw"
    nested.write_bytes(gzip.decompress(next((TRACES / "dftracer").glob("*.gz")).read_bytes()) + b"\n" + b"[" * 9000)
    assert any("1 lines that are no events" in gap for gap in read_log(nested).unseen)


def test_the_run_is_as_long_as_all_that_is_in_the_trace(tmp_path: Path) -> None:
    texts = tmp_path / "_text"
    texts.mkdir()
    call = "1.0 2.0 write 0 0 ( /data/a %p 4096 )\n"
    (texts / "0.txt").write_text(f"0.0 0.1 MPI_Init 0 2 ( )\n{call}3600.0 3600.5 MPI_Finalize 0 2 ( )\n")
    seen = read_log(texts)
    assert (seen.job.elapsed, seen.io_seconds, seen.io_share) == pytest.approx((3600.5, 1.0, 1 / 3600.5))
    name = json.dumps({"name": "FH", "cat": "dftracer", "ph": "M", "args": {"name": "/data/a", "value": 12}})
    nothing, ended = (
        json.dumps({"name": kind, "cat": "app", "pid": 7, "ts": ts, "dur": 0, "ph": "X", "args": {}})
        for kind, ts in (("start", 0), ("end", 60_001_000))
    )
    (tmp_path / "run.pfw").write_text("\n".join([name, nothing, event("pread", fhash=12, ret=5, offset=0), ended]))
    assert read_log(tmp_path / "run.pfw").job.elapsed == pytest.approx(60.0)


def test_ranks_of_recorder_without_a_text_are_named(tmp_path: Path) -> None:
    texts = tmp_path / "_text"
    texts.mkdir()
    whole = (TRACES / "recorder" / "_text" / "0.txt").read_text()
    for rank in (1, 9):
        (texts / f"{rank}.txt").write_text(whole)
    seen = read_log(texts)
    assert seen.job.ranks == 10 and seen.ranks is not None and seen.ranks.read[1] == seen.ranks.read[9] > 0
    missing = "texts of 8 ranks are missing (0.txt, 2.txt, 3.txt, 4.txt, 5.txt and 3 others): these are not judged"
    assert missing in seen.unseen
    (texts / "10000000.txt").write_text(whole)
    with pytest.raises(UnreadableLogError, match=r"10000000\.txt would be of more than 10,000,000 ranks"):
        read_log(texts)


def test_parquet_of_recorder_says_the_same_as_its_texts() -> None:
    pytest.importorskip("pyarrow")
    packed = TRACES / "recorder-parquet"
    texts = read_log(TRACES / "recorder" / "_text")
    assert list(find([packed])) == [packed / "_parquet"]
    for path in (packed / "_parquet", packed / "_parquet" / "0_0.parquet"):
        seen = read_log(path)
        assert (seen.kind, seen.job.ranks, seen.job.elapsed) == ("recorder", 2, pytest.approx(texts.job.elapsed))
        for file in texts.files:
            same = file_of(seen, file.path)
            for level in ("posix", "stdio"):
                wanted, got = getattr(file, level), getattr(same, level)
                assert (wanted is None) == (got is None)
                if wanted is not None:
                    assert (got.read.count, got.read.bytes, got.read.common, got.opens, got.syncs) == (
                        wanted.read.count,
                        wanted.read.bytes,
                        wanted.read.common,
                        wanted.opens,
                        wanted.syncs,
                    )
                    assert (got.write.count, got.write.sequential) == (wanted.write.count, wanted.write.sequential)


def test_a_folder_with_both_forms_of_recorder_is_one_job(tmp_path: Path) -> None:
    shutil.copytree(TRACES / "recorder", tmp_path / "job")
    shutil.copytree(TRACES / "recorder-parquet" / "_parquet", tmp_path / "job" / "_parquet")
    (tmp_path / "job" / "recorder.mt").touch()
    assert list(find([tmp_path])) == [tmp_path / "job"]
    (tmp_path / "other.parquet").write_bytes(b"PAR1" + bytes(40) + b"\x20\0\0\0PAR1")
    assert list(find([tmp_path])) == [tmp_path / "job"], "Parquet of others is none of ours"
    broken = tmp_path / "0_0.parquet"
    whole = (TRACES / "recorder-parquet" / "_parquet" / "0_0.parquet").read_bytes()
    broken.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pytest.raises(UnreadableLogError, match=r"pyarrow is not installed|0_0\.parquet is damaged"):
        read_log(broken)


EXPLORER = ("file_id", "api", "rank", "operation", "segment", "offset", "size", "start", "end", "osts")
"""Columns of DXT Explorer."""
PYDARSHAN = ("", "id", "filename", "rank", "op", "offset", "length", "start_time", "end_time")


def requests(ranks: int = 2, count: int = 50) -> Iterator[dict[str, Any]]:
    """Writes and reads of 4096 bytes, one after the other in each rank's half of a file."""
    for rank in range(ranks):
        for way in ("write", "read"):
            for i in range(count):
                start = 2 * rank + i * 0.01 + (10 if way == "read" else 0)
                yield {
                    "api": "POSIX", "rank": rank, "operation": way, "op": way, "segment": i,
                    "offset": (rank * count + i) * 4096, "size": 4096, "length": 4096.0,
                    "start": start, "start_time": start, "end": start + 0.005, "end_time": start + 0.005,
                    "file_id": 77, "id": 77, "filename": "/scratch/a, b.dat", "osts": "[1, 2]", "": i,
                }  # fmt: skip


def table(columns: tuple[str, ...], path: Path, extra: str = "") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(requests())
        file.write(extra)
    return path


@pytest.mark.parametrize(("columns", "name"), [(EXPLORER, "(record 77)"), (PYDARSHAN, "/scratch/a, b.dat")])
def test_dxt_as_csv_has_the_requests_of_all_ranks(columns: tuple[str, ...], name: str, tmp_path: Path) -> None:
    seen = read_log(table(columns, tmp_path / "run.77.dxt.csv"))
    assert (seen.kind, seen.job.ranks, seen.job.started) == ("dxt", 2, None)
    assert seen.job.elapsed == pytest.approx(12 + 0.495), "times count from the start of the job"
    (file,) = seen.files
    assert file.posix is not None and (file.path, file.ranks) == (name, 2)
    for moved in (file.posix.read, file.posix.write):
        assert (moved.count, moved.bytes, moved.consecutive, moved.sequential) == (100, 100 * 4096, 98, 98)
    assert seen.ranks is not None and seen.ranks.read == [50 * 4096] * 2


def test_rows_of_dxt_that_are_no_posix_requests_are_named(tmp_path: Path) -> None:
    header = ",".join(EXPLORER)
    extra = f"{header}\n77,MPIIO,0,write,0,0,4096,1,2,[]\n77,POSIX,0,write,0,-4,4096,1,2,[]\n77,POSIX,x\n"
    seen = read_log(table(EXPLORER, tmp_path / "run.csv", extra))
    assert seen.totals.posix.write.count == 100
    assert any("requests of MPI-IO (1) are not judged" in gap for gap in seen.unseen)
    assert any("rows that are no requests (2)" in gap for gap in seen.unseen)
    (tmp_path / "mpi.csv").write_text(f"{header}\n77,MPIIO,0,write,0,0,4096,1,2,[]\n")
    with pytest.raises(UnreadableLogError, match="DXT trace: it has requests of MPI-IO alone"):
        read_log(tmp_path / "mpi.csv")
    (tmp_path / "frame.csv").write_text(",id,rank,hostname,write_count,read_count,write_segments,read_segments\n")
    with pytest.raises(UnreadableLogError, match="as pandas writes nested frames") as nested:
        read_log(tmp_path / "frame.csv")
    assert "one row per request" in str(nested.value.fix)
    (tmp_path / "other.csv").write_text("id,rank,start,end\n1,2,3,4\n")
    (tmp_path / "notes.txt").write_text("a text about DXT\n")
    names = [path.name for path in find([tmp_path])]
    assert names == ["frame.csv", "mpi.csv", "run.csv"]


def test_what_the_parser_of_dxt_prints_is_read_with_what_it_says_of_the_job(tmp_path: Path) -> None:
    head = "# darshan log version: 3.41\n# exe: ./app -n 4\n# nprocs: 4\n# run time: 20.5\n\n# DXT_POSIX module data\n"
    file = "\n# DXT, file_id: 77, file_name: /scratch/a b.dat\n# DXT, rank: {rank}, hostname: n1\n# Module Rank Wt/Rd\n"
    line = " X_{api:<10}{rank:>3}{operation:>7}{segment:>9}{offset:>16}{size:>16}{start:>12.4f}{end:>12.4f}  [3]\n"
    text = head
    for rank in (0, 1):
        mine = [request for request in requests() if request["rank"] == rank]
        text += file.format(rank=rank) + "".join(line.format(**request) for request in mine)
    (path := tmp_path / "run.dxt.txt").write_text(text)
    seen = read_log(path)
    assert (seen.kind, seen.job.ranks, seen.job.elapsed) == ("dxt", 4, 20.5)
    assert (seen.job.executable, seen.version) == ("./app -n 4", "3.41")
    (only,) = seen.files
    assert only.posix is not None and (only.path, only.posix.write.count) == ("/scratch/a b.dat", 100)
