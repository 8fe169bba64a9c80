"""What an answer tells of a phase, read as a report: the rules of evidence judge it like that of a run."""

from __future__ import annotations

from dataclasses import replace

from stripewise.catalogue.carriers import HDF5, Setting
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.effects import verdicts
from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.journal import JournalPhase, report_of

CALLS = (
    "write.collective=8,524288,2,65536,16,0.5 write.independent=13,5376,2,1016,0,0.01 "
    "write.system=21,529664,2,65536,0,0"
)
WITHIN = " write.within_collective=8,524288,2,65536,0,0.4 read.within_write=3,96,1,32,0,0.1 own.cb_nodes=4"


def phase(evidence: str, **settings: str) -> JournalPhase:
    return JournalPhase(
        "/a#", "write", True, False, 2, 1, 524288.0, 1.0, settings=settings, driver="UFS: ROMIO", evidence=evidence
    )


def activity(evidence: str, **settings: str) -> Activity:
    report = report_of([phase(evidence, **settings)])
    assert report is not None
    return activity_of(report, "a phase")


def test_an_answer_is_read_as_a_report_of_one_file() -> None:
    report = report_of([phase(CALLS + WITHIN, cb_nodes="2")])
    assert report is not None and report.mpi.io == "romio" and report.totals.bytes_written == 529664
    (file,) = activity_of(report, "a phase").files
    assert file.modes is not None and file.beneath is not None and file.posix is not None
    assert file.modes.collective_writes == 8 and file.modes.independent_writes == 13
    assert file.beneath.write.messages == 16 and file.beneath.write.largest == 65536 and file.posix.write.ranks == 2
    assert file.beneath.reading_back.count == 3 and file.own_hints == {"cb_nodes": "4"}
    assert [(one.key, one.given, one.outcome) for one in file.asked] == [("cb_nodes", "2", "applied")]
    assert file.beneath.write.exchange == (0.0, 0.5) and not file.through_hdf5


def test_damaged_evidence_and_none_are_no_report() -> None:
    for text in (
        "",
        "write.collective=8,1",
        "write.collective=a,b,c,d,e,f",
        CALLS + " dataset=1,2",
        CALLS + " dataset=1,inf,,,a",
        "noise",
    ):
        assert report_of([phase(text)]) is None


def test_rules_judge_phases_as_they_judge_runs() -> None:
    parameters = [one.bind(Workload().words()) for one in load_stack("hdf5").parameters if one.carrier is HDF5]
    space = Space(tuple(parameters))
    usual = f"{CALLS} hdf5.alignment=1 hdf5.collective=8 dataset=2048,131072,,,/values_0 dataset=133120,131072,,,/b,c"
    tuned = usual.replace("alignment=1", "alignment=65536").replace("=2048,", "=65536,").replace("=133120,", "=196608,")
    settings = [Setting(HDF5, "alignment", "65536")]
    (effect,) = verdicts(space, settings, [activity(tuned, alignment="65536")], [activity(usual)])
    assert effect.status == "effective" and "2 of 2 datasets start at a multiple of 64 KiB, 0 of 2" in effect.evidence


def test_the_evidence_of_several_families_is_that_of_all() -> None:
    first, other = phase(CALLS + WITHIN, cb_nodes="2"), replace(phase(CALLS, cb_nodes="2"), site="/b#")
    report = report_of([first, other])
    assert report is not None and [file.path for file in report.files] == [first.site, "/b#"]
    assert report.job.elapsed == first.seconds + other.seconds
    alone = report_of([first])
    assert alone is not None and report.totals.bytes_written == 2 * alone.totals.bytes_written > 0
    assert report_of([first, phase("")]) is None
