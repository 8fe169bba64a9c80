"""Diagnoses that an earlier version has stored."""

from __future__ import annotations

from pathlib import Path

from tests.unit.service import running


def test_a_fix_that_an_earlier_version_stored_is_shown(tmp_path: Path) -> None:
    finding = {"code": "stdio", "title": "Data through buffered streams", "mend": "write with MPI-IO"}
    with running(tmp_path) as here:
        here.service.items.put("diagnosis", "d1", "log", "ada", {"worst": "low", "file": "log", "findings": [finding]})
        shown = here.viewer.get("/api/diagnoses/d1").json()["diagnosis"]
    assert shown["findings"] == [{**{k: v for k, v in finding.items() if k != "mend"}, "fix": "write with MPI-IO"}]
    assert "file" not in shown
