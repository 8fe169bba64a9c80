"""Causes from time alone, on times whose cause is known."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from stripewise.desk.cli.main import main
from stripewise.diagnose.causes.analysis import (
    Timing,
    analyse,
    anomalies,
    classify,
    clusters,
    patterns,
    read_timings,
    speed_rules,
)
from stripewise.diagnose.causes.models import Calibration, TimeModel, fit, load, overlap
from stripewise.diagnose.causes.probe import offsets
from stripewise.errors import UserError
from tests.unit.reports import EXAMPLE_LOGS

CACHED = TimeModel(2e-6, 1e-10, 0.2, 1024, 1 << 22, 100)
STORAGE = TimeModel(4e-4, 4e-9, 0.3, 1024, 1 << 22, 100)
SITE = Calibration({"read": {"cached": CACHED, "uncached": STORAGE}, "write": {"cached": CACHED, "uncached": STORAGE}})


def drawn(model: TimeModel, sizes: list[int], seed: int = 0) -> list[float]:
    draw = np.random.default_rng(seed)
    return [float(model.time(size) * np.exp(draw.normal(0, model.spread))) for size in sizes]


def test_a_model_is_found_again_from_noisy_times_with_outliers() -> None:
    sizes = [1024 * 2 ** (i % 12) for i in range(400)]
    seconds = drawn(STORAGE, sizes)
    seconds[::20] = [second * 30 for second in seconds[::20]]
    found = fit(sizes, seconds)
    assert found.constant == pytest.approx(STORAGE.constant, rel=0.15)
    assert found.slope == pytest.approx(STORAGE.slope, rel=0.15)
    assert found.spread == pytest.approx(0.3, abs=0.1)


def test_too_few_operations_are_refused() -> None:
    with pytest.raises(UserError, match="too few"):
        fit([1, 2, 3], [1e-6, 1e-6, 1e-6])


def test_operations_get_the_class_they_were_drawn_from() -> None:
    sizes = [3000 * (i % 40 + 1) for i in range(400)]
    cached = SITE.classify("read", sizes, drawn(CACHED, sizes))
    uncached = SITE.classify("read", sizes, drawn(STORAGE, sizes, 1))
    assert cached.count("cached") >= 396
    assert uncached.count("uncached") >= 396


def test_conditions_that_overlap_leave_an_operation_undecided() -> None:
    near = TimeModel(2.4e-6, 1e-10, 0.2, 1024, 1 << 22, 100)
    site = Calibration({"read": {"memory": CACHED, "cached": near, "uncached": STORAGE}})
    assert overlap(CACHED, near, 4096) > 0.05
    assert overlap(CACHED, STORAGE, 4096) < 0.01
    assert site.classify("read", [4096], [2.6e-6]) == ["undecided"]
    assert site.classify("read", [4096], [4e-4]) == ["uncached"]
    assert site.among("cached", "uncached").classify("read", [4096], [2.6e-6]) == ["cached"]


def test_a_direction_that_was_not_calibrated_is_an_error() -> None:
    with pytest.raises(UserError, match="no models of writes"):
        Calibration({"read": {"cached": CACHED}}).classify("write", [1], [1.0])


def test_a_calibration_survives_its_file_and_nonsense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    path.write_text(SITE.text(), "utf-8")
    assert load(path).models == SITE.models
    for nonsense in (
        '{"format": "other", "version": 1}',
        "[" * 100_000,
        re.sub('"slope": [^,]*', '"slope": "x"', SITE.text()),
    ):
        path.write_text(nonsense)
        with pytest.raises(UserError, match="not a calibration"):
            load(path)


def test_clusters_of_two_conditions_are_two() -> None:
    seconds = drawn(CACHED, [4096] * 300) + drawn(STORAGE, [4096] * 100)
    found = [cluster for cluster in clusters(seconds) if cluster.share > 0.1]
    assert len(found) == 2
    assert found[0].seconds == pytest.approx(CACHED.time(4096), rel=0.1)
    assert found[1].share == pytest.approx(0.25, abs=0.02)
    assert all(cluster.peak for cluster in found)


def test_slow_reverse_reads_and_stalled_writes_are_anomalies() -> None:
    size = 65536
    reverse = [Timing("read", size, STORAGE.time(size) * 3, (100 - i) * size) for i in range(50)]
    writes = [Timing("write", size, CACHED.time(size), i * size) for i in range(60)]
    writes += [Timing("write", size, STORAGE.time(size) * 5, 60 * size)]
    timings = [*reverse, *writes]
    found = {anomaly.cause: anomaly for anomaly in anomalies(timings, classify(timings, SITE), SITE)}
    assert found["read-ahead"].count == 49  # the first has nothing before it
    assert found["read-ahead"].ratio == pytest.approx(3, rel=0.01)
    assert found["write-behind"].examples == (110,)


def test_quiet_operations_are_no_anomalies() -> None:
    timings = [Timing("read", 65536, t, i * 65536) for i, t in enumerate(drawn(STORAGE, [65536] * 200))]
    assert anomalies(timings, classify(timings, SITE), SITE) == []


def test_rules_name_what_makes_operations_slow() -> None:
    timings = []
    for i in range(300):
        size = 4096 if i % 3 else 1 << 20
        timings.append(Timing("read", size, STORAGE.time(size), i * (1 << 20)))
    found = speed_rules(timings, (50.0, 150.0))
    assert found is not None
    assert "size" in found.text
    assert "slow (slow 100%)" in found.text
    assert found.accuracy > 0.95
    assert speed_rules(timings[:10]) is None


def test_no_rule_divides_what_it_calls_the_same() -> None:
    """Small reads are slow more often than small writes, but slow is what both are."""

    def made(operation: str, size: int, rate: float, count: int) -> list[Timing]:
        return [Timing(operation, size, size / rate / 2**20) for _ in range(count)]

    small = [*made("read", 4096, 10, 38), *made("read", 4096, 100, 2), *made("write", 4096, 10, 30)]
    found = speed_rules([*small, *made("write", 4096, 100, 10), *made("read", 1 << 20, 200, 40)], (50.0, 150.0))
    assert found is not None and "write" not in found.text
    leaves = [line.strip() for line in found.text.splitlines() if not line.endswith(":")]
    assert leaves == ["slow (slow 85%, average 15%)", "fast (fast 100%)"]


def test_patterns_are_told_from_offsets() -> None:
    places = [0, 10, 20, 10, 0, 50, 5000, 5000]
    assert patterns([Timing("read", 10, 1.0, place) for place in places]) == [
        "first", "forward", "forward", "reverse", "reverse", "gap", "jump", "same",
    ]  # fmt: skip


def test_times_of_darshan_s_trace_are_read_from_a_log() -> None:
    """Of PyDarshan's examples, as they come with it."""
    import darshan

    timings = read_timings(EXAMPLE_LOGS / "ior_hdf5_example.darshan")
    report = darshan.DarshanReport(str(EXAMPLE_LOGS / "ior_hdf5_example.darshan"), read_all=False)
    report.mod_read_all_dxt_records("DXT_POSIX", dtype="dict")
    expected = [
        (way, segment["length"], segment["offset"])
        for trace in report.records["DXT_POSIX"]
        for way in ("read", "write")
        for segment in trace[f"{way}_segments"]
        if segment["end_time"] > segment["start_time"]
    ]
    assert sorted((t.operation, t.size, t.offset) for t in timings) == sorted(expected)
    assert patterns(timings).count("first") == len({timing.series for timing in timings})
    with pytest.raises(UserError, match="no trace of single requests: run the program with DXT_ENABLE_IO_TRACE=1"):
        read_timings(EXAMPLE_LOGS / "example.darshan")


def test_times_that_a_tool_has_rounded_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.dxt.csv"
    rows = [f"a.dat,POSIX,0,read,{i * 100},100,{i}.0001,{i}.0004" for i in range(30)]
    path.write_text("\n".join(["file_name,api,rank,operation,offset,length,start,end", *rows, ""]))
    with pytest.raises(UserError, match=r"rounded to 0\.1 ms"):
        read_timings(path)
    path.write_text(path.read_text() + "a.dat,POSIX,0,write,0,100,31.0,31.0000123\n")
    assert len(read_timings(path)) == 31


@pytest.mark.parametrize("pattern", ["sequential", "reverse", "strided", "random"])
def test_places_of_a_series_lie_in_the_file(pattern: str) -> None:
    found = offsets(pattern, 4096, 500, 1 << 20, 1)
    assert len(found) == 500
    assert all(0 <= place <= (1 << 20) - 4096 and place % 4096 == 0 for place in found)
    assert len(set(found)) > 100


@pytest.mark.parametrize(
    "text, said",
    [
        ("operation,size\nread,1\n", "no column 'seconds'"),
        ("operation,size,seconds\nmove,1,1\n", "line 2: operation is 'move'"),
        ("operation,size,seconds\nread,1,much\n", "line 2"),
        ("operation,size,seconds\nread,1,0\n", "above 0"),
        ("operation,size,seconds\nread,1,1e300\n", r"no call takes 1e\+300 s"),
        ("operation,size,seconds\nread,1,nan\n", "no call takes nan s"),
        ("operation,size,seconds\n", "no operations"),
    ],
)
def test_wrong_timings_are_named_by_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=said):
        read_timings(path)


def test_the_best_case_is_what_the_cache_would_take() -> None:
    timings = [Timing("read", 4096, STORAGE.time(4096), None)] * 30
    found = analyse(timings, SITE)
    assert found.counts == {"read": {"uncached": 30}}
    assert found.places == {"read": {"unknown": {"uncached": 30}}}
    assert found.best["read"] == pytest.approx(30 * CACHED.time(4096))
    assert [factor.condition for factor in found.factors] == ["uncached"]


def test_the_command_classes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "site.json").write_text(SITE.text(), "utf-8")
    rows = [f"read,4096,{second},{-4096 * i + 10**6}" for i, second in enumerate(drawn(CACHED, [4096] * 60))]
    (tmp_path / "t.csv").write_text("operation,size,seconds,offset\n" + "\n".join(rows) + "\n")
    words = ["site", "causes", str(tmp_path / "t.csv"), "--calibration", str(tmp_path / "site.json")]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {"read": {"cached": 60}}
    assert document["places"] == {"read": {"first": {"cached": 1}, "reverse": {"cached": 59}}}
    assert main(words) == 0 and "reverse (59): cached 100%" in capsys.readouterr().out
    assert main(["diagnose", str(tmp_path / "t.csv")]) == 2
    assert f"stripewise site causes {tmp_path / 't.csv'}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("calibrated", [True, False])
def test_causes_are_written_as_a_page(tmp_path: Path, calibrated: bool) -> None:
    (tmp_path / "site.json").write_text(SITE.text(), "utf-8")
    cached, stored = drawn(CACHED, [4096] * 60), drawn(STORAGE, [4096] * 40)
    lost = [STORAGE.time(4096) * 100] * 3
    rows = [f"read,4096,{second},{4096 * place}" for place, second in enumerate((*cached, *stored, *lost))]
    (tmp_path / "t.csv").write_text("operation,size,seconds,offset\n" + "\n".join(rows) + "\n")
    page = tmp_path / "t.html"
    known = ["--calibration", str(tmp_path / "site.json")] if calibrated else []
    assert main(["site", "causes", str(tmp_path / "t.csv"), "--report", str(page), *known]) == 0
    text = page.read_text("utf-8")
    assert 'data-figure="reads"' in text and 'data-figure="often"' in text and 'data-figure="writes"' not in text
    assert text.count("read of 4 KiB") >= 2  # a cluster of each condition
    assert ("Not calibrated" in text) != calibrated
    if calibrated:
        assert 'scope="row">read, uncached' in text and 'scope="row">read, cached' in text
        assert 'scope="row">read, forward' in text
        assert 'scope="row">slow' in text and "answered by the page cache would take" in text
        figures = json.loads(text.split('id="figures">')[1].split("</script>")[0])
        names = [trace["name"] for trace in figures["figures"]["reads"]["data"]]
        assert names == ["cached", "uncached", "cached, calibrated", "uncached, calibrated"]


def test_nothing_is_measured_where_the_calibration_could_not_be_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["site", "calibrate", str(tmp_path), "--out", str(tmp_path / "none" / "c.json")]) == 2
    assert "none does not exist; create it first" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
