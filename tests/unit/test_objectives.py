"""Each objective's number, or the reason why there is none."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.errors import RunFailed, UserError
from stripewise.facts import Facts, RunFacts
from stripewise.launch import Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.objectives import ended_run, kind_of, measure, objective_of, parse_objective, plain, timing
from stripewise.observe.objectives.own_figure import compare_own_figure, find_own_figure
from stripewise.observe.report import parse_report
from stripewise.requests.experiment import ObjectiveEntry
from stripewise.requests.objective import Bound
from stripewise.trial import Phase, Run, State
from tests.unit.reports import changed, recorded

BOTH = recorded("romio_strided_both")["default"]
WRITE = recorded("romio_strided_write")["default"]


def outcome(**fields) -> Outcome:
    return replace(
        Outcome(number=0, state=State.FINISHED, elapsed=2.5, started=0.0, report=parse_report(BOTH)), **fields
    )


def value(name: str, direction: str | None = None, **fields) -> float:
    return measure(parse_objective(name, direction), outcome(**fields))


def test_times():
    assert value("elapsed") == 2.5
    assert value("io_time") == BOTH["job"]["io_time"]


def test_bandwidths():
    totals = BOTH["totals"]
    assert value("write_bandwidth") == pytest.approx(totals["write_bandwidth"], rel=1e-6)
    assert value("read_bandwidth") == pytest.approx(totals["read_bandwidth"], rel=1e-6)
    moved = (totals["bytes_read"] + totals["bytes_written"]) / 2**20
    written = totals["bytes_written"] / 2**20 / totals["write_bandwidth"]
    seconds = written + totals["bytes_read"] / 2**20 / totals["read_bandwidth"]
    assert value("bandwidth") == pytest.approx(moved / seconds)
    assert value("bandwidth", report=parse_report(WRITE)) == pytest.approx(WRITE["totals"]["write_bandwidth"], rel=1e-6)


def test_one_program_of_a_command_is_measured_by_the_runtime_alone():
    one = objective_of(ObjectiveEntry(name="write_bandwidth", program="ior"))
    assert one.as_json() == {"name": "write_bandwidth", "direction": "maximize", "unit": "MiB/s", "program": "ior"}
    assert timing(one).startswith("objective write_bandwidth: of ior alone, timed from the first open")
    assert timing(objective_of(ObjectiveEntry())) == ""
    with pytest.raises(UserError, match="objective elapsed is of the whole command, not of its program ior alone"):
        objective_of(ObjectiveEntry(program="ior"))


def test_what_the_runner_knows_wins():
    assert value("write_bandwidth", metrics={"write_bandwidth": 7.0}, report=None) == 7.0
    assert value("elapsed", metrics={"elapsed": 9.0}) == 9.0


def test_the_last_match_counts(tmp_path: Path):
    (tmp_path / "stdout").write_bytes(b"rate: 1.5\n\xff\xfe\nrate: 2.5e3 MiB/s\n")
    assert value(r"regex:rate: ([\d.e+]+)", "maximize", folder=tmp_path) == 2500.0


@pytest.mark.parametrize(
    ("pattern", "text", "reason"),
    [
        (r"regex:rate: (\S+)", "nothing here", "nothing that matches"),
        (r"regex:rate: (\S+)", "rate: fast", "is not a number"),
        (r"regex:rate: (\S+)", "rate: nan", "not a measurement"),
        (r"regex:rate: (\S+)", "rate: inf", "not a measurement"),
        (r"regex:rate: (\S+)", "rate: 1e200", "not a measurement"),
        (r"regex:rate: (\S+)", "rate: 1e-200", "not a measurement"),
        (r"regex:rate: (\S+)", "rate: 0", "above zero"),
        (r"regex:rate: (\S+)", "rate: -3", "above zero"),
        (r"regex:rate:( \d+)?", "rate: ", "matches no character"),
        (r"regex:rate = (\d*)", "rate = nan", "matches no character of the output, where 'nan' stands"),
        (r"regex:rate = (\d*)", "rate = ********", r"where '\*{8}' stands"),
        (r"regex:rate: ([\d.]+)", "rate: 1.234,5", "is a part of '1.234,5'"),
        (r"regex:rate: ([\d.]+)", "rate: 1,234", "is a part of '1,234'"),
        (r"regex:rate: (\d+)", "rate: 1'234.5", "is a part of '1'234.5'"),
        (r"regex:rate: ([\d.]+)", "rate: 1.#INF", "is a part of '1.#INF'"),
        (r"regex:real\s+([\d.]+)", "real\t1m23.4s", "a part of a time in minutes and seconds"),
        (r"regex:([\d.]+)s$", "real\t1m23.4s", "a part of a time in minutes and seconds"),
        (r"regex:took ([\d.]+)", "took 1:23.4", "a part of a time in minutes and seconds"),
    ],
)
def test_outputs_without_a_number(tmp_path: Path, pattern, text, reason):
    (tmp_path / "stdout").write_text(text)
    with pytest.raises(RunFailed, match=reason):
        value(pattern, "maximize", folder=tmp_path)


# As a user wrote it for programs that print numbers in several forms.
USERS = r"regex:rate *= *([+-]?\d*(?:\.\d+)?)"


@pytest.mark.parametrize(
    ("pattern", "text", "number"),
    [
        (USERS, "rate = 5", 5.0),
        (USERS, "rate = 0.9D+01", 9.0),
        (USERS, "rate = 12,345.6", 12_345.6),
        (USERS, "rate = 12,345.6MiB/s", 12_345.6),
        (r"regex:rate: (\S+)", "rate: 0.9D+01", 9.0),
        (r"regex:rate.*([\d.]+)", "rate: 123.4 MiB/s", 123.4),
        (r"regex:rate: ([\d.]+)", "rate: 1.5e3", 1500.0),
        (r"regex:rate: ([\d.]+)", "rate: 12. That was all.", 12.0),
        (r"regex:rate: ([\d.]+)", "rate: 12GiB/s", 12.0),
        # What the pattern itself asks for beside the group is not a part of the number.
        (r"regex:^write,(\d+),", "write,812,820,3", 812.0),
        (r"regex:^write,([\d.]+)", "write,812.50,820.1,3", 812.5),
        (r"regex:took (\d+)\.\d+ s", "took 12.7 s", 12.0),
    ],
)
def test_the_whole_number_counts(tmp_path: Path, pattern, text, number):
    (tmp_path / "stdout").write_text(f"{text}\n")
    assert value(pattern, "maximize", folder=tmp_path) == number


@pytest.mark.parametrize(
    ("first", "then", "number"),
    [
        ("rate: 950 MB/s", "rate: 1.1 GB/s", 1100.0),
        ("rate: 1.1 GB/s", "rate: 950 MB/s", 0.95),
        ("rate: 950MiB/s", "rate: 1.5GiB/s", 1536.0),
        ("rate: 950", "rate: 12.5k, of them", 12_500.0),
        ("rate: 3.5 s", "rate: 950 ms", 0.95),
        ("rate: 3.5 Mbytes/sec", "rate: 950 KB/s", 0.95),
        # Nothing tells what one would be of the other.
        ("rate: 950 MB/s", "rate: 900", 900.0),
        ("rate: 3 items", "rate: 4 k of them", 4.0),
    ],
)
def test_numbers_of_an_experiment_have_the_unit_of_its_first_run(tmp_path: Path, first, then, number):
    rate = parse_objective(r"regex:rate: ([0-9.]+) ?[kMG]?", "maximize")
    units: dict[str, str] = {}
    (tmp_path / "stdout").write_text(first)
    printed = float(re.findall(r"[0-9.]+", first)[0])
    assert measure(rate, outcome(folder=tmp_path), units) == printed
    (tmp_path / "stdout").write_text(then)
    assert measure(rate, outcome(folder=tmp_path), units) == pytest.approx(number)


def test_numbers_in_units_of_two_kinds_are_not_compared(tmp_path: Path):
    rate = parse_objective(r"regex:rate: ([0-9.]+)", "maximize")
    units: dict[str, str] = {}
    (tmp_path / "stdout").write_text("rate: 950 MB/s")
    measure(rate, outcome(folder=tmp_path), units)
    (tmp_path / "stdout").write_text("rate: 3.5 s")
    with pytest.raises(RunFailed, match="the number is in s, and that of the first run in MB/s"):
        measure(rate, outcome(folder=tmp_path), units)


def test_a_unit_may_stand_in_the_label_of_a_number(tmp_path: Path):
    """As fio prints latencies: 950 usec beside 1.1 msec was proven a gain of 864 times."""
    rate = parse_objective(r"regex:clat \(.sec\).*avg= *([0-9.]+)", "minimize")
    units: dict[str, str] = {}
    for text, number in (
        ("clat (usec): min=96, max=1231, avg=950.5, stdev=2", 950.5),
        ("a (h): 1\n clat (msec): min=1, max=3, avg= 1.1, stdev=1", 1100.0),
    ):
        (tmp_path / "stdout").write_text(text)
        assert measure(rate, outcome(folder=tmp_path), units) == pytest.approx(number)


def test_a_limit_has_the_unit_of_the_first_run(tmp_path: Path):
    asked = ObjectiveEntry(subject_to=(r"regex:wait: ([0-9.]+) <= 20",))
    units: dict[str, str] = {}
    planned = Run(0, 0, Phase.SEARCH)
    states = []
    for text in ("wait: 15 ms", "wait: 1.5 s", "wait: 16 ms"):
        (tmp_path / "stdout").write_text(text)
        made = ended_run(planned, outcome(folder=tmp_path), objective_of(asked), RunFacts(), units=units)
        states.append(made.state)
    assert states == [State.FINISHED, State.FAILED, State.FINISHED]


def test_standard_error_is_searched_where_standard_output_has_no_match(tmp_path: Path):
    (tmp_path / "stdout").write_text("hello\n")
    (tmp_path / "stderr").write_text("rate: 4\n")
    assert value(r"regex:rate: (\d+)", "maximize", folder=tmp_path) == 4.0
    (tmp_path / "stdout").write_text("rate: 3\n")
    assert value(r"regex:rate: (\d+)", "maximize", folder=tmp_path) == 3.0


def test_a_pattern_that_takes_for_ever_fails_the_run(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(plain, "_SECONDS", 0.5, raising=False)
    (tmp_path / "stdout").write_text("a" * 64 + "!")
    with pytest.raises(RunFailed, match=r"'\(a\+\)\+\$' was not found in the output within 0.5 s"):
        value("regex:(a+)+$", "maximize", folder=tmp_path)


def test_a_pattern_of_any_characters(tmp_path: Path):
    (tmp_path / "stdout").write_text("x" * 1000 + "\x00\u00e9: 4\n" + "tail\n" * 100_000)
    assert value("regex:\x00\u00e9: ([0-9]+)", "maximize", folder=tmp_path) == 4.0


def test_missing_output(tmp_path: Path):
    with pytest.raises(RunFailed, match="cannot be read"):
        value(r"regex:(\d+)", "maximize", folder=tmp_path)
    with pytest.raises(RunFailed, match="no output"):
        value(r"regex:(\d+)", "maximize")


def test_missing_or_broken_reports():
    with pytest.raises(RunFailed, match="no report") as caught:
        value("io_time", report=None)
    assert "stripewise doctor" in caught.value.fix
    incomplete = changed(changed(WRITE, "job.complete", False), "job.ranks_reported", 3)
    with pytest.raises(RunFailed, match="only 3 of 4 ranks"):
        value("io_time", report=parse_report(incomplete))
    with pytest.raises(RunFailed, match="no read through MPI-IO"):
        value("read_bandwidth", report=parse_report(WRITE))


def test_failed_runs_keep_their_reason():
    with pytest.raises(RunFailed, match="killed by signal 9"):
        value("elapsed", state=State.FAILED, reason="killed by signal 9")
    with pytest.raises(RunFailed, match="pruned"):
        value("elapsed", state=State.PRUNED)


def test_a_metric_that_is_no_number():
    with pytest.raises(RunFailed, match="not a measurement"):
        value("elapsed", metrics={"elapsed": math.inf})


def test_rates_of_data_calls():
    timed = changed(changed(BOTH, "totals.write_time", 0.25), "totals.read_time", None)
    moved = BOTH["totals"]["bytes_written"] / 2**20
    assert value("write_rate", report=parse_report(timed)) == pytest.approx(moved / 0.25)
    with pytest.raises(RunFailed, match="does not tell the time in read calls"):
        value("read_rate", report=parse_report(timed))
    behind = changed(timed, "files.0.operations.iwrite_at", BOTH["files"][0]["operations"]["write_at_all"])
    with pytest.raises(RunFailed, match="iwrite_at"):
        value("write_rate", report=parse_report(behind))


IOR = "Max Write: 148.12 MiB/sec (155.31 MB/sec)\nMax Read:  20.10 MiB/sec (3 MB/sec)\n"
IOR_TABLE = "access    bw(MiB/s)  IOPS\n------    ------\nwrite     4.87       639.98\n"
BLOCKS = "Write bandwidth           =        1184.6900 MiB/s\nWrite bandwidth           =           1.1569 GiB/s\n"
FIO = "   READ: bw=20.9MiB/s (21.9MB/s), io=64.0MiB\n  WRITE: bw=1231KiB/s (1261kB/s), io=64.0MiB\n"
DD = "16+0 records in\n16+0 records out\n16777216 bytes (17 MB, 16 MiB) copied, 0.0078 s, 2.1 GB/s\n"
MIB, MB = 1.0, 1e6 / 2**20


@pytest.mark.parametrize(
    ("printed", "objective", "number", "unit"),
    [
        (IOR, "write_bandwidth", "148.12", MIB),
        (IOR, "read_bandwidth", "20.10", MIB),
        ("Write Bandwidth = 148.1 Mbytes/sec", "bandwidth", "148.1", MB),
        ("  I/O bandwidth   :   33.2  [MiB]\n", "write_rate", "33.2", MIB),
        ("Max Read: 20.1 MiB/sec\n", "write_bandwidth", None, None),
        (IOR_TABLE, "write_bandwidth", "4.87", MIB),
        ("rank 3 wrote 5 files\nwrite steps: 17\nread 3\n", "write_bandwidth", None, None),
        # As IOR under a launcher that marks lines, h5bench, PnetCDF, fio, elbencho, dd and BTIO print theirs.
        ("stdout[0] Max Write: 2321.09 MiB/sec (2433.84 MB/sec)\n", "write_bandwidth", "2321.09", MIB),
        ("0: Max Write: 2321.09 MiB/sec\n1: done\n", "write_bandwidth", "2321.09", MIB),
        ("Raw write rate = 2528.860 MB/sec\n\tObserved write rate = 1197.592 MB/sec\n", "bandwidth", "1197.592", MB),
        ("    Write bandwidth:           670.08 MiB/s\n            0.65 GiB/s\n", "write_bandwidth", "670.08", MIB),
        (BLOCKS, "write_bandwidth", "1.1569", 1024.0),
        (FIO, "write_bandwidth", "1231", 1 / 1024),
        (FIO, "read_bandwidth", "20.9", MIB),
        ("          Throughput MiB/s :       10572      10488\n", "write_bandwidth", "10572", MIB),
        (DD, "write_bandwidth", "2.1", 1e9 / 2**20),
        (" I/O data rate  (MB/sec) :           123.45\n", "write_bandwidth", "123.45", MB),
        ("write 123 MiB/s\n", "write_bandwidth", "123", MIB),
        ("write bandwidth: 12.5\n", "write_bandwidth", "12.5", None),
        # Of the network and the memory, and sizes.
        ("Naturally Ordered Ring Bandwidth:   1232.893592 MB/s\n", "write_bandwidth", None, None),
        ("Min Ping Pong Bandwidth:  1995.8 MB/s\n", "write_bandwidth", None, None),
        ("Max heap memory allocated by PnetCDF internally is 8.54 MiB\n", "write_bandwidth", None, None),
        ("Total write amount:             68696794 B\nNumber of time records: 2\n", "write_bandwidth", None, None),
    ],
)
def test_the_programs_own_figure(printed, objective, number, unit):
    found = find_own_figure(printed, objective)
    assert (found is None) == (number is None)
    if found is not None:
        pattern = parse_objective(found.objective, "maximize").name.removeprefix("regex:")
        assert re.findall(pattern, printed, re.MULTILINE)[-1] == number
        assert found.rate == (None if unit is None else pytest.approx(float(number) * unit))


@pytest.mark.parametrize(
    ("printed", "said", "proposed"),
    [
        ("Max Write: 110.0 MiB/sec\n", "the program's own figure is 110 MiB/s", False),
        ("Max Write: 130.0 MiB/sec\n", "more than 20% apart", True),
        ("Max Write: 70.0 MiB/sec\n", "more than 20% apart", True),
        ("write bandwidth: 70.0\n", "so the two may differ", True),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_the_programs_figure_stands_beside_ours_and_is_proposed_where_they_differ(
    tmp_path, stream, printed, said, proposed
):
    (tmp_path / "stdout").write_text("starting\n")
    (tmp_path / stream).write_text(printed)
    told = compare_own_figure("write_bandwidth", str(tmp_path), 100.0, "MiB/s")
    assert printed.strip() in told
    assert said in told
    assert ("--objective 'regex:" in told) is proposed
    assert compare_own_figure("elapsed", str(tmp_path), 100.0, "s") == ""
    if proposed:
        (name,) = re.findall(r"--objective '(regex:.*)' --direction", told)
        assert value(name, direction="maximize", folder=tmp_path) == float(printed.split()[2])


def test_one_open_for_both_directions_is_timed_by_the_calls_and_said():
    assert "reads and writes in one open" not in explain("write_bandwidth", BOTH)
    mixed = changed(BOTH, "files.0.write_span", BOTH["files"][0]["span"])
    mixed = changed(mixed, "files.0.read_span", BOTH["files"][0]["span"])
    moved, calls = BOTH["totals"]["bytes_written"] / 2**20, BOTH["files"][0]["operations"]
    other = sum(calls[name]["time_sum"] for name in ("open", "close", "delete", "set_view")) / 4
    found = value("write_bandwidth", report=parse_report(mixed))
    assert found == pytest.approx(moved / (BOTH["totals"]["write_time"] + other / 2))
    assert "counts the time in write calls" in explain("write_bandwidth", mixed)
    assert "--objective io_time" in explain("bandwidth", mixed)
    assert explain("io_time", mixed) == ""
    synced = changed(mixed, "files.0.operations.sync", {**calls["close"], "time_sum": 4.0})
    slower = value("write_bandwidth", report=parse_report(synced))
    assert moved / slower == pytest.approx(moved / found + 1.0)
    assert value("read_bandwidth", report=parse_report(synced)) == value("read_bandwidth", report=parse_report(mixed))
    # The launcher's file and the script that the shell reads are no reason to time it less well.
    own = {
        **mixed["files"][0],
        "path": "/tmp/hydra",
        "ranks": 1,
        "operations": {"write": {**calls["write_at_all"], "bytes": 5565}},
    }
    assert value("write_bandwidth", report=parse_report({**mixed, "posix_files": [own]})) == found
    own["operations"]["write"]["bytes"] = BOTH["totals"]["bytes_written"] // 10
    assert "divides by the time of both" in explain("write_bandwidth", {**mixed, "posix_files": [own]})
    behind = changed(mixed, "files.0.operations.iwrite_at", calls["write_at_all"])
    assert value("write_bandwidth", report=parse_report(behind)) == pytest.approx(BOTH["totals"]["write_bandwidth"])
    assert "divides by the time of both" in explain("write_bandwidth", behind)


def explain(name, report):
    return kind_of(name).explain(activity_of(parse_report(report), "report"))


def test_a_value_of_zero_has_no_finite_ratio():
    bandwidth, elapsed = objective_of(ObjectiveEntry(name="bandwidth")), objective_of(ObjectiveEntry(name="elapsed"))
    assert bandwidth.speedup(4.0, 2.0) == elapsed.speedup(2.0, 4.0) == 2.0
    assert bandwidth.speedup(4.0, 0.0) == elapsed.speedup(0.0, 4.0) == math.inf
    assert bandwidth.speedup(0.0, 4.0) == elapsed.speedup(4.0, 0.0) == 0.0
    assert bandwidth.speedup(0.0, 0.0) == elapsed.speedup(0.0, 0.0) == 1.0
    assert bandwidth.speedup(-4.0, 0.0) == -math.inf


def limited(*limits: str, **fields):
    objective = objective_of(ObjectiveEntry(name="elapsed", subject_to=list(limits)))
    return ended_run(Run(1, 1, Phase.SEARCH), outcome(**fields), objective, RunFacts())


def test_a_run_keeps_its_limits_or_has_failed():
    kept = limited("busy_share >= 90", "energy <= 5e3", metrics={"busy_share": 90.0, "energy": 12.0})
    assert (kept.state, kept.value, kept.facts.broken) == (State.FINISHED, 2.5, "")
    assert kept.facts.subject_to == {"busy_share >= 90": 90.0, "energy <= 5e3": 12.0}
    broken = limited("energy <= 5e3", "busy_share >= 90", metrics={"busy_share": 0.0, "energy": 12.0})
    assert (broken.state, broken.value) == (State.FAILED, None)
    assert broken.reason == "broke busy_share >= 90: it was 0" and broken.facts.broken == "busy_share >= 90"
    unread = limited("busy_share >= 90")
    assert unread.state is State.FAILED and "no loader was seen" in unread.reason and not unread.facts.broken


def test_a_limit_is_of_what_a_pattern_finds(tmp_path):
    (tmp_path / "stdout").write_text("used >= 12 GiB\n")
    assert limited("regex:used >= ([0-9]+) <= 12", folder=tmp_path).state is State.FINISHED
    assert limited("regex:used >= ([0-9]+)<=1.1e1", folder=tmp_path).reason.endswith("it was 12")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("busy_share", "is not understood"),
        ("busy_share > 90", "is not understood"),
        ("busy_share >= much", "is not understood"),
        ("busyness >= 90", "'busyness' is unknown"),
        ("regex:rate >= 90", "the pattern has no group"),
    ],
)
def test_a_wrong_limit_is_refused(limit, reason):
    with pytest.raises(UserError, match=reason):
        objective_of(ObjectiveEntry(subject_to=[limit]))


def test_the_last_sign_of_a_limit_ends_its_name():
    assert Bound.parse("regex:a<=(.*) >= 3") == Bound("regex:a<=(.*)", least=True, limit=3.0)


def test_limits_survive_json():
    made = objective_of(ObjectiveEntry(subject_to=["io_time <= 5"]))
    assert made.as_json()["subject_to"] == ["io_time <= 5"]
    assert Facts(objective=made.as_json()).objective == made
