"""Collective transfers that HDF5 breaks up, in a report that was recorded of a real program."""

from __future__ import annotations

from pathlib import Path

from stripewise.diagnose.site import diagnose
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import read_report

REPORT = Path(__file__).parents[1] / "fixtures" / "reports" / "hdf5_members.json"


def test_the_conversion_and_what_it_moves_are_found_and_not_independent_calls() -> None:
    found = {
        finding.code: finding
        for finding in diagnose(activity_of(read_report(REPORT.read_text(), "report"), "r")).problems
    }
    one = found["broken-collective"]
    assert one.says == (
        "128 of 128 collective transfers became independent (datatype_conversion): 256 MiB were written and "
        "241 MiB read for datasets of 32 MiB"
    )
    assert one.evidence["amplification"] > 15
    assert "memory of the dataset's own type" in one.fix
    # The program asked for collective transfers already, and the reads are of HDF5's making.
    assert not {"independent-writes", "independent-reads", "cached-reads"} & found.keys()
    assert not any("H5Pset_dxpl_mpio" in finding.fix + finding.kind.fix for finding in found.values())
