"""Diagnoses of uploads: of whatever name, and as an earlier version has stored them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.service import running

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def test_a_fix_that_an_earlier_version_stored_is_shown(tmp_path: Path) -> None:
    finding = {"code": "stdio", "title": "Data through buffered streams", "mend": "write with MPI-IO"}
    with running(tmp_path) as here:
        here.service.items.put("diagnosis", "d1", "log", "ada", {"worst": "low", "file": "log", "findings": [finding]})
        shown = here.viewer.get("/api/diagnoses/d1").json()["diagnosis"]
    assert shown["findings"] == [{**{k: v for k, v in finding.items() if k != "mend"}, "fix": "write with MPI-IO"}]
    assert "file" not in shown


@pytest.mark.parametrize(("name", "kind"), [("run.stdout", "ior"), ("steps", "record"), ("page.html", "")])
def test_an_upload_is_told_by_its_content_whatever_its_name(tmp_path: Path, name: str, kind: str) -> None:
    content = {
        "run.stdout": FIXTURES / "ior" / "issue-102.json",
        "steps": FIXTURES / "records" / "steps.record",
        "page.html": Path(__file__),
    }[name].read_bytes()
    words = {"Content-Type": "application/octet-stream"}
    with running(tmp_path) as here:
        answer = here.operator.post(f"/api/diagnoses?name={name}", content=content, headers=words)
    if kind:
        assert answer.status_code == 201 and answer.json()["diagnosis"]["kind"] == kind
    else:
        assert answer.status_code == 422 and "page.html is none of these: Darshan logs, traces" in answer.text
