"""Traces of DFTracer and Recorder become the same activities as Darshan logs, for every command that takes these."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stripewise.desk.cli.main import app
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
