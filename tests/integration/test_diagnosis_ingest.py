"""Reading what past runs left: logs whole, cut off, damaged and hostile; reports; IOR; folders."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.diagnose.finding import Severity
from stripewise.diagnose.site import SiteProfile, diagnose, row_of
from stripewise.errors import UserError
from stripewise.observe.activity import FileActivity
from stripewise.observe.darshan_logs import UnreadableLogError, read_log, read_logs
from stripewise.observe.sources import open_all, open_one
from tests.unit.reports import PYDARSHAN

LOGS = sorted(PYDARSHAN.rglob("*.darshan"))
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "reports"
FIELD = FIXTURES.parent / "ior"
BAD_OST = next(path for path in LOGS if path.name == "sample-badost.darshan")
PIECES = FIXTURES.parent / "darshan" / "netcdf-pieces.darshan"
ONE_STRIPE = next(path for path in LOGS if path.name == "noposix.darshan")
TRACED = next(path for path in LOGS if path.name == "ior_hdf5_example.darshan")

IOR = """IOR-3.3.0: MPI Coordinated Test of Parallel I/O
Began               : Mon Jan  6 10:00:00 2025
Command line        : ior -a MPIIO -c -t 4k -b 1m -w -o /scratch/file

Options:
api                 : MPIIO
test filename       : /scratch/file
access              : single-shared-file
type                : independent
segments            : 1
nodes               : 2
tasks               : 8
xfersize            : 4096 bytes
blocksize           : 1 MiB

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     16.00      4096       0.001       1024.00    4.00       0.010      0.480      0.010      0.500      0
"""


def test_every_example_log_of_pydarshan_is_read() -> None:
    assert len(LOGS) >= 15
    results = list(read_logs(LOGS))
    assert [str(result.error) for result in results if result.error] == []
    assert {result.path for result in results} == set(LOGS)
    for result in results:
        assert result.activity is not None
        assert result.activity.job.ranks >= 1
        assert diagnose(result.activity).as_json()["findings"] is not None


def test_the_reader_does_without_pandas_until_pydarshan_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("DataFrame = 'loaded'\n")
    code = (
        "import sys\nfrom stripewise.observe._darshan_reader import _delay_pandas\n_delay_pandas()\n"
        "from stripewise.observe import _darshan_log\nassert 'pandas.core' not in sys.modules\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\nprint(_darshan_log.backend.pd.DataFrame)\n"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stdout == "loaded\n"
    )


def test_figures_of_a_log_are_those_of_pydarshan() -> None:
    import darshan

    found = read_log(TRACED)
    report = darshan.DarshanReport(str(TRACED), read_all=True)
    counters = report.records["POSIX"].to_df()["counters"]
    assert found.totals.posix.write.bytes == counters["POSIX_BYTES_WRITTEN"].sum()
    assert found.totals.posix.read.count == counters["POSIX_READS"].sum()
    assert found.totals.posix.write.sizes[4] == counters["POSIX_SIZE_WRITE_100K_1M"].sum()
    traces = report.records["DXT_POSIX"].to_df()
    written = sum(int(trace["write_segments"]["length"].sum()) for trace in traces if len(trace["write_segments"]))
    assert found.ranks is not None and found.ranks.source == "trace"
    assert sum(found.ranks.written) == written
    assert found.timeline is not None and sum(found.timeline.written) == written


def test_the_slow_target_of_the_bad_log_is_named() -> None:
    found = {finding.code: finding for finding in diagnose(read_log(BAD_OST)).findings}
    assert found["slow-ost"].evidence["osts"].keys() == {"14"}
    assert "file-per-process" in found
    assert "dead-settings" not in found


def test_damaged_and_hostile_logs_are_errors_that_name_them(tmp_path: Path) -> None:
    whole = TRACED.read_bytes()
    draw = random.Random(7)
    paths = []
    for number in range(24):
        data = bytearray(whole[: draw.randrange(len(whole))] if number % 3 == 0 else whole)
        for _ in range(0 if number % 3 == 0 else 40):
            data[draw.randrange(len(data) if number % 3 == 1 else 400)] = draw.randrange(256)
        paths.append(tmp_path / f"{number}.darshan")
        paths[-1].write_bytes(data)
    (tmp_path / "text.darshan").write_text("no log")
    (tmp_path / "empty.darshan").touch()
    paths += [tmp_path / "text.darshan", tmp_path / "empty.darshan", tmp_path / "none.darshan", TRACED]
    results = {result.path: result for result in read_logs(paths)}
    assert len(results) == len(paths)
    failed = [result for result in results.values() if result.error]
    assert len(failed) >= 20
    assert all(str(result.path) in str(result.error) for result in failed)
    assert results[TRACED].activity is not None


def test_control_characters_of_a_log_command_no_terminal() -> None:
    file = FileActivity(path="/data/\x1b[2J\x07name\n")
    assert file.path == "/data/\\x1b[2J\\x07name\\n"
    assert FileActivity(path="/dätä/文件").path == "/dätä/文件"


def test_the_shared_file_on_one_stripe_is_found() -> None:
    found = {finding.code: finding for finding in diagnose(read_log(ONE_STRIPE)).findings}
    assert found["one-stripe"].evidence["ranks"] == 512
    # The job reads 1.7 GiB in 6 s of 11 h: nothing is urgent, only a new file gets a layout, and it writes nothing.
    assert {finding.severity for finding in found.values()} <= {Severity.LOW, Severity.INFO, Severity.OK}
    assert found["one-stripe"].settings == () and "lfs migrate" in found["one-stripe"].fix
    assert found["stdio"].fix.startswith("Read data with read")
    written = {finding.code: finding for finding in diagnose(read_log(PIECES)).findings}["one-stripe"]
    assert [setting.line() for setting in written.settings] == ["layout lustre stripe_count 64"]


def test_one_unreadable_log_raises(tmp_path: Path) -> None:
    with pytest.raises(UnreadableLogError, match=r"cannot read .*missing"):
        read_log(tmp_path / "missing.darshan")
    with pytest.raises(UnreadableLogError, match="not a regular file"):
        read_log(tmp_path)


def test_output_of_ior_is_an_activity(tmp_path: Path) -> None:
    path = tmp_path / "ior.out"
    path.write_text(IOR)
    (result,) = open_all([path])
    assert result.activity is not None
    assert result.activity.kind == "ior"
    assert result.activity.job.ranks == 8
    assert result.activity.totals.mpiio.write.bytes == 8 << 20
    assert {"small-writes", "independent-writes"} <= {f.code for f in diagnose(result.activity).findings}


def test_runs_of_one_output_of_ior_are_jobs_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = open_all([FIELD / "two-runs.txt"])
    assert first.activity is not None and second.activity is not None
    assert (first.activity.job.ranks, second.activity.job.ranks) == (8, 16)
    found = {finding.code for finding in diagnose(second.activity).findings}
    assert {"small-writes", "file-per-process"} <= found and "reopens" not in found
    with pytest.raises(UserError, match="holds 2 runs"):
        open_one(FIELD / "two-runs.txt")
    assert main(["diagnose", str(FIELD / "two-runs.txt"), "--json"]) == 0
    jobs = json.loads(capsys.readouterr().out)["jobs"]
    assert [(job["ranks"], job["bytes_written"]) for job in jobs] == [(8, 512 << 20), (16, 47_008 * 16_000)]


def test_json_that_ior_wrote_badly_is_an_activity() -> None:
    activity = open_one(FIELD / "issue-102.json")
    assert (activity.job.ranks, activity.bytes, activity.seen) == (2, 4 << 20, ["POSIX"])


def test_a_report_of_the_runtime_is_an_activity(tmp_path: Path) -> None:
    data = json.loads((FIXTURES / "romio_patterns.json").read_text())["tile"]
    source = tmp_path / "report.json"
    source.write_text(json.dumps(data))
    (result,) = open_all([source])
    assert result.activity is not None
    assert result.activity.kind == "report"
    assert result.activity.bytes == data["totals"]["bytes_read"] + data["totals"]["bytes_written"]
    (tmp_path / "broken.json").write_text('{"format": "stripewise-report", "version": 1}')
    (broken,) = open_all([tmp_path / "broken.json"])
    assert str(tmp_path / "broken.json") in str(broken.error)


def test_a_folder_without_logs_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no Darshan logs"):
        list(open_all([tmp_path]))


def test_a_folder_becomes_a_table_and_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, path in enumerate((BAD_OST, TRACED)):
        (tmp_path / f"{number}.darshan").write_bytes(path.read_bytes())
    (tmp_path / "cut.darshan").write_bytes(TRACED.read_bytes()[:500])
    table = tmp_path / "jobs.csv"
    assert main(["diagnose", str(tmp_path), "--table", str(table), "--json", "--fail-on", "high"]) == 3
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["site"]["jobs"] == 2
    assert document["site"]["unreadable"] == 1
    assert document["site"]["osts"]["14"]["slowness"] > 2
    assert "cut.darshan" in output.err
    with table.open() as file:
        rows = {Path(row["source"]).name: row for row in csv.DictReader(file)}
    assert "slow-ost" in rows["0.darshan"]["codes"].split()
    assert int(rows["0.darshan"]["ranks"]) == 2048


def test_one_log_gives_page_plan_and_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, plan = tmp_path / "page.html", tmp_path / "fix.plan"
    assert main(["diagnose", str(PIECES), "--plan", str(plan), "--report", str(page)]) == 0
    assert "Expected: 1.6 to 2.4 times as fast, because:" in page.read_text("utf-8")
    assert "times as fast Project notes" in " ".join(capsys.readouterr().out.split())
    assert main(["diagnose", str(BAD_OST), "--report", str(page)]) == 0
    printed = capsys.readouterr().out
    assert printed.index("slow storage target") < printed.index("A file for each rank")
    assert plan.read_text().startswith("stripewise-plan 1\n")
    text = page.read_text()
    assert "http-equiv" in text and "slow-ost" in text and 'data-figure="osts"' in text
    assert "<script src" not in text


def test_single_requests_show_io_over_time_without_a_heatmap() -> None:
    seen = {log.path: log.activity for log in open_all([TRACED, BAD_OST], 1)}
    traced, summed = seen[TRACED], seen[BAD_OST]
    assert traced is not None and traced.timeline is not None
    assert summed is not None and summed.timeline is None
    assert not any("over time" in sentence for sentence in traced.unseen)
    assert any("I/O over time is unknown" in sentence for sentence in summed.unseen)


def test_an_empty_plan_is_not_written_and_the_diagnosis_is_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, ior = tmp_path / "fix.plan", tmp_path / "ior.out"
    ior.write_text(IOR)
    assert main(["diagnose", str(ior), "--plan", str(plan)]) == 1
    said = capsys.readouterr()
    assert "ior" in said.out and "no plan was written" in " ".join(said.err.split())
    assert not plan.exists()


def test_findings_of_equally_many_jobs_are_in_the_order_of_the_job(tmp_path: Path) -> None:
    (log,) = open_all([PIECES], 1)
    assert log.activity is not None
    found, profile = diagnose(log.activity), SiteProfile()
    profile.add(found, row_of(found))
    codes = [finding.code for finding in found.findings if finding.severity >= Severity.LOW]
    assert len(codes) > 1 and list(profile.as_json()["findings"]) == list(dict.fromkeys(codes))


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--fail-on", "worst"], "choose from low, medium, high"),
        (["--threshold", "small_share=much"], "is not a number"),
        (["--threshold", "no=1"], "threshold 'no' does not exist"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(TRACED), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_a_missing_path_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "/no/such.darshan"]) == 2
    assert "/no/such.darshan" in capsys.readouterr().err


def test_each_unreadable_log_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = [tmp_path / name for name in ("one.json", "two.json")]
    for path in broken:
        path.write_text('{"format": "stripewise-report", "version": 1}')
    for named in (broken[:1], broken):
        assert main(["diagnose", *map(str, named)]) == 2
        told = capfd.readouterr().err
        assert [told.count(str(path)) for path in named] == [1] * len(named)
    ior = tmp_path / "ior.out"
    ior.write_text(IOR)
    assert main(["diagnose", str(broken[0]), str(ior)]) == 1
    assert capfd.readouterr().err.count(str(broken[0])) == 1


def test_files_that_could_not_be_written_are_refused_before_logs_are_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for option in ("--report", "--plan", "--table"):
        assert main(["diagnose", str(tmp_path / "never-read"), option, str(tmp_path / "none" / "file")]) == 2
        assert f"{option}: the folder {tmp_path}/none does not exist; create it first" in capfd.readouterr().err
