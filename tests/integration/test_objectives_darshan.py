"""Darshan logs, read in a child process. The logs are those that come with PyDarshan."""

import gc
from importlib import resources
from pathlib import Path

import pytest
from darshan import DarshanReport
from darshan.backend.cffi_backend import accumulate_records

from stripewise.diagnosis.diagnose import Diagnosis
from stripewise.diagnosis.site import row_of
from stripewise.errors import RunFailed
from stripewise.measure.darshan_logs import read_log, read_logs
from stripewise.objectives import measure, parse_objective
from stripewise.objectives.darshan import find_log, log_bandwidth
from stripewise.spec.launch import Outcome
from stripewise.spec.trial import State
from tests.unit.reports import example_log

EXAMPLES = sorted(Path(str(entry)) for entry in Path(str(resources.files("darshan"))).rglob("*.darshan"))


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


def test_every_example_gives_the_bandwidth_that_darshan_estimates():
    paths = {entry.name: entry for entry in EXAMPLES}.values()
    found = {result.path: result.activity for result in read_logs(paths)}
    assert set(found) == set(paths)
    for path, activity in found.items():
        assert activity is not None, path
        assert activity.bandwidth == pytest.approx(estimate(path), rel=1e-6), path
        # The row of a site's table says the same.
        assert row_of(Diagnosis(activity, ())).bandwidth == activity.bandwidth


def estimate(path: Path) -> float:
    """PyDarshan's own estimate "by slowest": of MPI-IO, or without it of POSIX and streams."""
    report = DarshanReport(str(path), read_all=False)
    try:
        ranks = int(report.metadata["job"]["nprocs"])
        for modules in (("MPI-IO",), ("POSIX", "STDIO")):
            moved, seconds = 0.0, 0.0
            for module in modules:
                if module in report.modules:
                    report.mod_read_all_records(module)
                    derived = accumulate_records(report.records[module].to_df(), module, ranks).derived_metrics
                    if derived.total_bytes:
                        moved, seconds = moved + derived.total_bytes, seconds + derived.agg_time_by_slowest
            if moved:
                return moved / 2**20 / seconds
        return 0.0
    finally:
        # A report closes its log when it is collected. While another one calls the library, that would wait for ever.
        del report
        gc.collect()


def test_the_time_of_mpiio_is_the_time_of_its_calls_and_not_of_the_posix_calls_below():
    activity = read_log(example_log())
    (main,) = (file for file in activity.files if file.mpiio)
    assert activity.io_seconds == pytest.approx(0.26819, rel=1e-3)  # POSIX alone: 0.2138
    assert main.posix.seconds / activity.job.ranks < activity.io_seconds
    assert activity.io_share == pytest.approx(0.268, rel=1e-2)


def test_calls_of_threads_that_overlap_give_no_time():
    (threads,) = {path.name: path for path in EXAMPLES if path.name == "dxt.darshan"}.values()
    activity = read_log(threads)
    assert activity.io_seconds > 2 * activity.job.elapsed
    assert activity.io_time is None
    assert activity.io_share is None


def test_files_that_are_only_counted_count_in_the_bytes():
    (many,) = {path.name: path for path in EXAMPLES if path.name == "sample-badost.darshan"}.values()
    activity = read_log(many)
    assert len(activity.files) < activity.counted.files
    assert activity.bytes == pytest.approx(512 << 30, rel=1e-4)
