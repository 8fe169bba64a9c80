"""Darshan logs, read in a child process. The logs are those that come with PyDarshan."""

from pathlib import Path

import pytest

from stripewise.errors import RunFailed
from stripewise.objectives import measure, parse_objective
from stripewise.objectives.darshan import find_log, log_bandwidth
from stripewise.spec.launch import Outcome
from stripewise.spec.trial import State
from tests.unit.reports import example_log


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
    assert log_bandwidth(example_log("sample-badost.darshan")) > 0


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
    with pytest.raises(RunFailed, match="Unlinking log"):
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
