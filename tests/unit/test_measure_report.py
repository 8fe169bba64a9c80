"""Reading the runtime's report, and what it shows of the workload."""

import json
import re

import pytest

from stripewise.diagnose.site import diagnose
from stripewise.errors import StripewiseError, UserError
from stripewise.observe.from_report import activity_of
from stripewise.observe.journal import learned_lines
from stripewise.observe.report import parse_report, sum_reports
from stripewise.observe.workload import workload_of
from stripewise.output.diagnosis import render_diagnosis
from stripewise.runners.local.scratch import Scratch
from tests.unit.reports import changed, recorded, report


def test_every_recorded_report_is_read():
    for name in ("romio_strided_write", "romio_strided_both", "romio_patterns", "ompio_strided_write"):
        for data in recorded(name).values():
            assert parse_report(data).job.ranks == 4


def test_additional_keys_are_tolerated():
    data = changed(recorded("romio_patterns")["tile"], "files.0.something_new", [1, 2])
    assert (
        parse_report(data).files[0].operations == parse_report(recorded("romio_patterns")["tile"]).files[0].operations
    )


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("format", "something-else", "not a report of the runtime"),
        ("version", 2, "version 2"),
        ("job.ranks", 0, "job.ranks"),
        ("job.elapsed", float("nan"), "job.elapsed"),
        ("totals", None, "totals"),
        ("files", {"a": 1}, "files"),
        ("files.0.posix.write.sizes", [[1]], "sizes"),
        ("totals.bytes_written", -1, "bytes_written"),
    ],
)
def test_malformed_reports_name_the_place(path, value, named):
    with pytest.raises(StripewiseError) as caught:
        parse_report(changed(recorded("romio_patterns")["tile"], path, value))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [{}, {"a": 1}, {"format": "stripewise-kernel"}, [1], None])
def test_other_json_is_not_told_to_be_built_anew(data):
    with pytest.raises(StripewiseError, match="not a report of the runtime") as caught:
        parse_report(data)
    assert "STRIPEWISE_REPORT" in caught.value.fix and "build" not in caught.value.fix


def test_strided_collective_write():
    workload = workload_of(activity_of(report("romio_strided_write"), "report.json"))
    assert workload.model_dump(exclude_none=True) == {
        "operation": "write",
        "nodes": 1,
        "processes_per_node": 4,
        "file_size": 8 << 20,
        "transfer_size": 256 << 10,
        "layout": "strided",
        "piece_size": 1024,
        "collective": True,
        "file_per_process": False,
        "api": "mpiio",
        "files": 1,
        "driver": "UFS:",
        "file_system": "tmpfs",
    }
    words = workload.words()
    assert (words["pieces"], words["interleaved"]) == ("yes", "yes")


@pytest.mark.parametrize(
    ("pattern", "pieces", "interleaved", "layout"),
    [
        ("segmented", "no", "no", "segmented"),
        ("tile", "unknown", "unknown", "tile"),
        ("independent", "yes", "unknown", None),
        ("file_per_process", "no", "no", "segmented"),
        ("random", "no", "unknown", "random"),
    ],
)
def test_patterns(pattern, pieces, interleaved, layout):
    workload = workload_of(activity_of(report("romio_patterns", pattern), "report.json"))
    words = workload.words()
    assert (words["pieces"], words["interleaved"], workload.layout) == (pieces, interleaved, layout)


def test_of_thousands_of_files_one_that_is_known_tells_the_workload():
    # Each of four ranks wrote files of its own; most of them have one record, of which little is known.
    data = recorded("romio_strided_write")["default"]
    own = {**data["files"][0], "ranks": 1}
    together = {
        **own, "path": "(other files)", "ranks": 4, "opens": 1556, "driver": None, "file_system": None, "size": None,
        "independent": {"calls": 46_680, "bytes": 1 << 30},
    }  # fmt: skip
    data = {**data, "files": [together, *({**own, "path": f"/f{rank}"} for rank in range(4))]}
    workload = workload_of(activity_of(parse_report(data), "report.json"))
    assert (workload.file_per_process, workload.driver, workload.file_size) == (True, "UFS:", 8 << 20)


def test_calls_on_streams_are_no_requests_to_the_file_system():
    # strace counted 2,453 writes of 4 KiB, where the program made 1,500,001 calls.
    activity = activity_of(report("r_streams"), "report.json")
    (table,) = (file for file in activity.files if file.path == "/scratch/d.csv")
    assert table.posix is None and table.stdio is not None and table.stdio.write.count == 1_500_001
    found = {one.code for one in diagnose(activity).findings}
    assert "stdio" in found and not {"small-writes", "small-reads"} & found


def test_where_the_time_of_programs_without_mpi_goes_is_named():
    found = {
        key: diagnose(activity_of(report("any_program", key), "report.json")) for key in ("sqlite", "octave", "git")
    }
    # strace: 25 fdatasync took 63% of the time in calls.
    first = found["sqlite"].problems[0]
    assert (first.code, first.severity.word) == ("flushes", "high") and first.says.startswith("25 flushes to disk took")
    again = {one.code: one for one in found["sqlite"].findings}["cached-reads"]
    assert again.severity.word == "info" and "files that the same job wrote" in again.says, "it read before it wrote"
    # 160,009 calls of lseek took it, and none of the nine opens.
    assert "reopens" not in {one.code for one in found["octave"].findings}
    assert "what was found is little of it" in found["octave"].verdict
    storm = found["git"].problems[0]
    assert storm.code == "metadata-storm" and "changes of paths took 0.113 s" in storm.says
    assert "rank" not in storm.fix and not storm.examples


def test_programs_of_another_user_leave_the_time_in_io_unknown():
    # As of pgbench behind su: its 4 s were called a run without I/O.
    data = recorded("r_streams")["default"]
    one = {**data["processes"][0], "script": "", "elapsed": data["job"]["elapsed"]}
    behind = {**data, "processes": [{**one, "executable": "/usr/bin/su"}]}
    found = diagnose(activity_of(parse_report(behind), "report.json"))
    assert "is unknown" in found.verdict and any("what su started" in said for said in found.activity.unseen)
    behind["processes"].append({**one, "executable": "/usr/bin/R"})
    assert "is unknown" in diagnose(activity_of(parse_report(behind), "report.json")).verdict
    behind["processes"][1]["elapsed"] = 2 * one["elapsed"]
    assert "is unknown" not in diagnose(activity_of(parse_report(behind), "report.json")).verdict


def test_a_file_of_two_records_counts_once():
    data = recorded("romio_patterns")["tile"]
    beside = {**data["files"][0], "operations": {}, "posix": {}}
    data = {**data, "posix_files": [beside]}
    assert activity_of(parse_report(data), "report.json").counted.files == len(data["files"])


def test_a_file_through_streams_and_other_calls_counts_as_both():
    activity = activity_of(report("any_program", "octave"), "report.json")
    (log,) = (file for file in activity.files if file.path == "/scratch/log.txt")
    assert log.stdio is not None and log.posix is not None
    assert (log.stdio.write.count, log.posix.write.count, log.posix.read.count) == (80_000, 0, 37)
    (small,) = (one for one in diagnose(activity).findings if one.code == "small-writes")
    assert small.says.startswith("391 requests"), "writev of strace"
    # Of the database 16 bytes went through a stream, and 4,762 reads did not.
    found = diagnose(activity_of(report("any_program", "sqlite"), "report.json")).findings
    (small,) = (one for one in found if one.code == "small-reads")
    assert small.says.startswith("4,762 requests")


def test_a_job_has_the_name_of_its_program_and_not_of_a_shell_or_interpreter():
    assert activity_of(report("r_streams"), "report.json").job.name == "R"
    program = recorded("r_streams")["default"]
    program["job"]["executable"] = "/usr/bin/python3.11"
    program["processes"] = [{**program["processes"][0], "executable": "/usr/bin/python3.11", "script": "app.py"}]
    assert activity_of(parse_report(program), "report.json").job.name == "app.py"
    one = {**program["processes"][0], "script": ""}
    program["processes"] = [
        {**one, "executable": f"/usr/bin/{name}", "elapsed": elapsed}
        for name, elapsed in (("blockMesh", 0.01), ("bash", 9.0), ("icoFoam", 0.25))
    ]
    assert activity_of(parse_report(program), "report.json").job.name == "icoFoam"
    assert activity_of(report("romio_patterns", "tile"), "report.json").job.name == "stripewise-kernel"


def test_reads_and_writes():
    workload = workload_of(activity_of(report("romio_strided_both"), "report.json"))
    assert (workload.operation, workload.collective, workload.layout) == ("both", True, "strided")


def test_mixed_calls_leave_collective_open():
    data = changed(recorded("romio_strided_write")["default"], "files.0.independent", {"calls": 1, "bytes": 1 << 40})
    assert (
        workload_of(
            activity_of(parse_report(changed(data, "files.0.independent.bytes", 100)), "report.json")
        ).collective
        is True
    )
    assert workload_of(activity_of(parse_report(data), "report.json")).collective is False
    words = workload_of(
        activity_of(parse_report(changed(data, "files.0.collective.bytes", 1 << 40)), "report.json")
    ).words()
    assert words["collective"]
    assert words["independent"]


def test_a_hint_of_the_program_hides_whether_ranks_interleave():
    data = changed(recorded("romio_strided_write")["default"], "files.0.info.romio_cb_write", "enable")
    assert workload_of(activity_of(parse_report(data), "report.json")).words()["interleaved"] == "unknown"


def test_lustre_aggregates_whether_ranks_interleave_or_not():
    data = changed(recorded("romio_strided_write")["default"], "files.0.driver", "LUSTRE:")
    assert workload_of(activity_of(parse_report(data), "report.json")).words()["interleaved"] == "unknown"


def test_program_of_one_rank_a_node_may_or_may_not_interleave():
    data = changed(recorded("romio_patterns")["segmented"], "files.0.nodes", 4)
    assert workload_of(activity_of(parse_report(data), "report.json")).words()["interleaved"] == "unknown"


def test_ompio_says_nothing_about_interleaving():
    workload = workload_of(activity_of(report("ompio_strided_write"), "report.json"))
    assert (workload.driver, workload.collective, workload.words()["interleaved"]) == ("ompio", True, "unknown")


def test_a_program_without_files():
    data = changed(recorded("romio_patterns")["tile"], "files", [])
    data = changed(data, "totals.bytes_written", 0)
    workload = workload_of(activity_of(parse_report(data), "report.json"))
    assert workload.model_dump(exclude_none=True) == {"nodes": 1, "processes_per_node": 4, "files": 0}


def test_several_programs_of_a_command_are_summed():
    one = parse_report(recorded("romio_strided_write")["default"])
    slow = one.totals.model_copy(update={"bytes_written": 30 << 20, "write_bandwidth": 10.0, "write_time": 2.0})
    fast = one.totals.model_copy(update={"bytes_written": 10 << 20, "write_bandwidth": 30.0, "write_time": 1.0})
    wider = one.job.model_copy(update={"ranks": 64, "executable": "/apps/second", "complete": False})
    both = sum_reports([one.model_copy(update={"totals": slow}), one.model_copy(update={"totals": fast, "job": wider})])
    assert both.totals.bytes_written == 40 << 20
    assert both.totals.write_bandwidth == pytest.approx(40 / (30 / 10 + 10 / 30))
    assert (both.totals.write_time, both.job.io_time, both.job.ranks) == (3.0, 2 * one.job.io_time, 64)
    assert not both.job.complete and len(both.files) == 2 * len(one.files)
    assert [program.executable for program in both.programs] == [one.job.executable, "/apps/second"]
    assert parse_report(both.as_json(20)).programs == both.programs
    assert sum_reports([one]) is one


def learned(*bandwidths, choice=0, settled=True, why=None):
    """A report of the mode online, with one site whose candidates have these bandwidths."""
    settings = ("", "hint cb_nodes 2;layout lustre stripe_count 8", "hint romio_cb_write disable")
    site = {
        "site": "/c.#",
        "phases": 6,
        "settled": settled,
        "choice": choice,
        "why": why,
        "candidates": [
            {"settings": s, "phases": 2, "bandwidth": b} for s, b in zip(settings, bandwidths, strict=False)
        ],
    }
    return parse_report({**recorded("romio_strided_write")["default"], "online": [site]})


def test_the_mode_online_says_what_it_did():
    assert learned_lines(learned(100.0, 150.0, 50.0, choice=1)) == [
        "writing /c.#, 6 phases: 2 candidates tried, and settled on cb_nodes=2 lustre.stripe_count=8 "
        "(1.50 times the default's 100 MiB/s, 2 phases)",
        "  also tried: romio_cb_write=disable (0.50 times the default's 100 MiB/s, 2 phases)",
    ]
    (unfinished,) = learned_lines(learned(100.0, None, settled=False, choice=1))
    assert "0 of 1 candidate tried, not yet decided; the next phase would try cb_nodes=2" in unfinished
    (nothing,) = learned_lines(learned(100.0, why="the model has no inputs here"))
    assert nothing == "writing /c.#, 6 phases: nothing was tried (the model has no inputs here)"
    with pytest.raises(StripewiseError, match="'choice' is not one of the candidates"):
        learned(100.0, choice=1)


def test_the_mode_online_says_whose_learning_the_report_holds():
    report = learned(100.0, 150.0, choice=1)
    own = report.model_copy(update={"files": [report.files[0].model_copy(update={"ranks": 1})]})
    assert report.job.ranks > 1 and "rank 0" not in "\n".join(learned_lines(report))
    assert learned_lines(own)[-1].startswith("this tells of rank 0 only: other ranks lead files of their own")


def test_one_of_several_programs_is_chosen_by_name_or_path():
    first = parse_report(changed(recorded("romio_strided_write")["default"], "job.executable", "/apps/first"))
    second = first.model_copy(update={"job": first.job.model_copy(update={"executable": "/apps/second"})})
    for name in ("second", "/apps/second"):
        chosen = sum_reports([first, second], name)
        assert (chosen.job, chosen.totals) == (second.job, second.totals)
        assert [program.name for program in chosen.programs] == ["first", "second"]
    twice = sum_reports([first, second, second], "second")
    assert twice.totals.bytes_written == 2 * second.totals.bytes_written and len(twice.programs) == 3
    with pytest.raises(UserError, match=r"no program of the command is called third: it started first, second"):
        sum_reports([first, second, first], "third")


def test_a_run_folder_gives_the_reports_of_all_programs_in_their_order(tmp_path):
    data = recorded("romio_strided_write")["default"]
    place = Scratch(tmp_path, "run")
    assert place.read_report() == (None, "the runtime wrote none")
    for number, name in enumerate(("report.json", "report.json.2", "report.json.10", "report.json.77.tmp")):
        (tmp_path / name).write_text(json.dumps(changed(data, "job.executable", f"/apps/p{number}")), "utf-8")
    found, why = place.read_report()
    assert found is not None and not why
    assert [program.executable for program in found.programs] == ["/apps/p0", "/apps/p1", "/apps/p2"]
    (tmp_path / "report.json.2").write_text("{", "utf-8")
    assert place.read_report()[0] is None and "report.json.2 is not JSON" in place.read_report()[1]
    place.create({}, {})
    assert place.reports() == []


def test_the_page_of_a_program_without_mpi_names_its_script_and_processes():
    data = recorded("r_streams")["default"]
    one = {**data["processes"][0], "executable": "/usr/bin/python3.11", "script": "app.py"}
    data = {**data, "processes": [one, one], "job": {**data["job"], "executable": "/usr/bin/python3.11"}}
    found = diagnose(activity_of(parse_report(data), "report.json"))
    page = render_diagnosis(found.as_json(), found.activity)
    assert "<title>app.py" in page and "app.py, /usr/bin/python3.11" in page
    assert re.search(r"Processes\s*</\w+>\s*<\w+[^>]*>\s*2\b", page) and "Ranks<" not in page
