"""Darshan logs, read in a child process. The logs are those that come with PyDarshan."""

import gc
from collections import Counter
from pathlib import Path

import pytest
from darshan import DarshanReport
from darshan.backend.cffi_backend import accumulate_records

from stripewise.diagnose.site import Diagnosis, diagnose, row_of
from stripewise.errors import RunFailed
from stripewise.launch import Outcome
from stripewise.observe import _darshan_fold
from stripewise.observe._darshan_log import summarise
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import read_log, read_logs
from stripewise.observe.objectives import measure, parse_objective
from stripewise.observe.objectives.darshan import find_log, log_bandwidth
from stripewise.output.diagnosis import request_sizes
from stripewise.trial import State
from tests.unit.reports import PYDARSHAN, example_log

LOGS = sorted(PYDARSHAN.rglob("*.darshan"))


@pytest.fixture
def log() -> Path:
    return example_log()


def test_bandwidth_is_darshans_own_estimate(log, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "job.darshan").write_bytes(log.read_bytes())
    # The "agg_perf_by_slowest" that PyDarshan's summary shows for this log.
    assert log_bandwidth(find_log(tmp_path)) == pytest.approx(29.874764, rel=1e-5)
    outcome = Outcome(0, State.FINISHED, 1.0, 0.0, folder=tmp_path)
    assert measure(parse_objective("darshan_bandwidth"), outcome) == pytest.approx(29.874764, rel=1e-5)


def test_a_log_elsewhere_is_named_by_the_runner(log):
    outcome = Outcome(0, State.FINISHED, 1.0, 0.0, facts={"darshan_log": str(log)})
    assert measure(parse_objective("darshan_bandwidth"), outcome) == pytest.approx(29.874764, rel=1e-5)


def test_programs_without_mpiio_are_measured_by_posix_and_stdio():
    log = example_log("sample-badost.darshan")
    assert log_bandwidth(log) == read_log(log).bandwidth > 0


@pytest.mark.parametrize("content", [b"", b"no log", b"\x00" * 4096])
def test_broken_logs_fail_the_run_only(tmp_path, content):
    (tmp_path / "a.darshan").write_bytes(content)
    with pytest.raises(RunFailed, match="cannot be read") as caught:
        log_bandwidth(find_log(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_reader_that_prints_no_text(log, tmp_path, monkeypatch):
    reader = tmp_path / "reader"
    reader.write_text("#!/bin/sh\nprintf 'Unlinking log \\205\\177\\n' >&2\nexit 3\n")
    reader.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(reader))
    with pytest.raises(RunFailed, match="ended with code 3"):
        log_bandwidth(log)


def test_a_log_cut_short(log, tmp_path):
    (tmp_path / "a.darshan").write_bytes(log.read_bytes()[:700])
    with pytest.raises(RunFailed):
        log_bandwidth(find_log(tmp_path))


def test_no_log_and_several(tmp_path):
    with pytest.raises(RunFailed, match="no Darshan log") as caught:
        find_log(tmp_path)
    assert "DARSHAN_LOGPATH" in caught.value.fix
    for name in "ab":
        (tmp_path / f"{name}.darshan").touch()
    with pytest.raises(RunFailed, match="2 Darshan logs"):
        find_log(tmp_path)
    with pytest.raises(RunFailed, match="no folder"):
        find_log(None)


@pytest.fixture(scope="module")
def examples() -> dict[Path, Activity]:
    """Every example log of PyDarshan, read once."""
    paths = {entry.name: entry for entry in LOGS}.values()
    found = {result.path: result.activity for result in read_logs(paths)}
    assert set(found) == set(paths)
    assert None not in found.values()
    return found


def test_every_example_gives_the_bandwidth_and_the_sums_that_darshan_records(examples):
    for path, activity in examples.items():
        report = DarshanReport(str(path), read_all=False)
        try:
            for module in ("POSIX", "MPI-IO", "STDIO"):
                if module in report.modules:
                    report.mod_read_all_records(module)
            assert activity.bandwidth == pytest.approx(estimate(report), rel=1e-6), path
            # The row of a site's table says the same.
            assert row_of(Diagnosis(activity, ())).bandwidth == activity.bandwidth
            same_sums(activity, report)
        finally:
            # A report closes its log when it is collected. While another one calls the library, that would wait for
            # ever.
            del report
            gc.collect()


def estimate(report: DarshanReport) -> float:
    """PyDarshan's own estimate "by slowest": of MPI-IO, or without it of POSIX and streams."""
    ranks = int(report.metadata["job"]["nprocs"])
    for modules in (("MPI-IO",), ("POSIX", "STDIO")):
        moved, seconds = 0.0, 0.0
        for module in modules:
            if module in report.records:
                derived = accumulate_records(report.records[module].to_df(), module, ranks).derived_metrics
                if derived.total_bytes:
                    moved, seconds = moved + derived.total_bytes, seconds + derived.agg_time_by_slowest
        if moved:
            return moved / 2**20 / seconds
    return 0.0


class Records(Counter):
    """Sums of PyDarshan's counters over all records of data files, by name: streams and pipes are left out."""

    def __init__(self, report: DarshanReport) -> None:
        super().__init__()
        names = report.name_records
        self.files, self.own, self.to_written = set(), 0, 0
        for module, prefix in (("POSIX", "POSIX"), ("MPI-IO", "MPIIO"), ("STDIO", "STDIO")):
            if module not in report.records:
                continue
            counters = report.records[module].to_df()["counters"]
            paths = counters["id"].map(names)
            aside = paths.isin(["<STDIN>", "<STDOUT>", "<STDERR>"]) | paths.str.contains(r"/pipe_-?\d+$", na=False)
            counters = counters[~aside]
            self.files |= set(counters["id"])
            self.update(counters.drop(columns=["id", "rank"]).clip(lower=0).sum().to_dict())
            if module == "POSIX":
                wrote = counters[(counters["rank"] >= 0) & (counters["POSIX_BYTES_WRITTEN"] > 0)]
                self.own = int((wrote.groupby("id").size() == 1).sum())
                sums = counters.drop(columns="rank").groupby("id").sum()
                sums = sums[sums["POSIX_BYTES_WRITTEN"] > 0]
                self.to_written = int((sums["POSIX_READS"] + sums["POSIX_WRITES"]).sum())
            assert all(name.startswith(prefix) for name in counters.columns.drop(["id", "rank"]))

    def sum(self, *names: str) -> int:
        return int(sum(self[name] for name in names))


def same_sums(activity: Activity, report: DarshanReport) -> None:
    """Hold each figure of a diagnosis that is a sum over all files against PyDarshan's own records."""
    records = Records(report)
    assert activity.counted.files == len(records.files)
    for level, prefix in (("posix", "POSIX"), ("mpiio", "MPIIO")):
        total = getattr(activity.totals, level)
        assert total.read.bytes == records[f"{prefix}_BYTES_READ"]
        assert total.write.bytes == records[f"{prefix}_BYTES_WRITTEN"]
        where = "to the file system" if level == "posix" else "through MPI-IO"
        for way in ("read", "write"):
            stem = f"{prefix}_SIZE_{way.upper()}_{'AGG_' if level == 'mpiio' else ''}"
            sizes = [int(value) for name, value in records.items() if name.startswith(stem)]
            assert request_sizes(activity).get(f"{way}s {where}", [0] * len(sizes)) == sizes
    metadata = [f"POSIX_{name}" for name in ("OPENS", "STATS", "FSYNCS", "FDSYNCS")] + ["STDIO_OPENS", "STDIO_FLUSHES"]
    requests = records.sum("POSIX_READS", "POSIX_WRITES") or records.sum("MPIIO_INDEP_WRITES", "MPIIO_COLL_WRITES")
    expected = {
        "file-per-process": {"files": records.own},
        "metadata-storm": {"calls": records.sum(*metadata), "files": len(records.files)},
        "small-files": {"files": len(records.files)},
        "stdio": {"bytes": records.sum("STDIO_BYTES_READ", "STDIO_BYTES_WRITTEN")},
        "unaligned-file": {"requests": records.to_written},
        "cached-reads": {"read_bytes": records["POSIX_BYTES_READ"]},
    }
    for way, past in (("read", "READ"), ("write", "WRITTEN")):
        verb, both = f"{way.upper()}S", records.sum(f"POSIX_BYTES_{past}", f"STDIO_BYTES_{past}")
        calls = {name: records[f"MPIIO_{name}_{verb}"] for name in ("INDEP", "COLL", "SPLIT")}
        expected |= {
            f"{way}-heavy": {"requests": records[f"POSIX_{verb}"], "all": requests},
            f"small-{way}s": {"bytes": both},
            f"random-{way}s": {"requests": records[f"POSIX_{verb}"]},
            f"sequential-{way}s": {
                "sequential": records[f"POSIX_SEQ_{verb}"],
                "consecutive": records[f"POSIX_CONSEC_{verb}"],
                "requests": records[f"POSIX_{verb}"],
            },
            f"redundant-{way}s": {} if records[f"MPIIO_BYTES_{past}"] else {"bytes": both},
            f"blocking-{way}s": {"blocking_calls": sum(calls.values())},
            f"collective-{way}s": {
                "collective_calls": calls["COLL"] + calls["SPLIT"],
                "independent_calls": calls["INDEP"],
            },
        }
    for finding in diagnose(activity).findings:
        own = expected.get(finding.code, {})
        assert {name: finding.evidence[name] for name in own} == own, finding.code


def test_the_time_of_mpiio_is_the_time_of_its_calls_and_not_of_the_posix_calls_below():
    activity = read_log(example_log())
    (main,) = (file for file in activity.files if file.mpiio)
    assert activity.io_seconds == pytest.approx(0.26819, rel=1e-3)  # POSIX alone: 0.2138
    assert main.posix.seconds / activity.job.ranks < activity.io_seconds
    assert activity.io_share == pytest.approx(0.268, rel=1e-2)


def test_calls_of_threads_that_overlap_give_no_time():
    activity = read_log(example_log())
    activity = activity.model_copy(update={"io_seconds": 2 * activity.job.elapsed})
    assert activity.io_time is None
    assert row_of(Diagnosis(activity, ())).io_time is None
    assert activity.io_share is None


def test_files_that_are_only_counted_count_in_the_bytes(monkeypatch):
    (many,) = {path.name: path for path in LOGS if path.name == "sample-badost.darshan"}.values()
    monkeypatch.setattr(_darshan_fold, "_LISTED_BY_TIME", 30)
    monkeypatch.setattr(_darshan_fold, "_LISTED_BY_BYTES", 10)
    activity = Activity.model_validate(summarise(str(many)))
    assert len(activity.files) < 50
    assert activity.bytes == pytest.approx(512 << 30, rel=1e-4)
    assert any("of 2,049: their sums are lower bounds" in sentence for sentence in activity.unseen)
