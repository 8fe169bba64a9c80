"""The published scores of the findings: the bounds hold, and the page is that of the results."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from stripewise.diagnose.site import RULES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report", ROOT / "benchmarks" / "diagnosis" / "report.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_finding_reaches_its_bound_with_enough_cases(report: ModuleType) -> None:
    tables = report.read("seed-4")
    assert report.below(tables) == []
    for source in (report.REPORTS, report.LOGS):
        for code, row in tables[source].items():
            assert row["positives"] >= 20, code
    judged = {code for source in (report.REPORTS, report.LOGS) for code in tables[source]} | {
        code for name in ("layouts", "loaders") for code in report.read(name)
    }
    assert len(judged) >= 38
    assert judged <= set(RULES)


def test_the_page_is_that_of_the_results(report: ModuleType) -> None:
    parts = [report.read(name) for name in ("seed-4", "seed-2", "layouts", "loaders", "residency", "logs", "applied")]
    others = report.read("field_logs")
    notes = report.page(*parts) + report.of_others(others) + report.EXCHANGE + report.BOUNDS
    assert report.NOTES.read_text("utf-8") == notes
    assert report.PAGE.read_text("utf-8") == report.brief(parts[0], *parts[4:], others)


def test_findings_are_true_of_logs_of_others(report: ModuleType) -> None:
    found = report.read("field_logs")
    assert found["logs"] >= 140 and found["recognised"] == found["damaged"] == 7
    assert found["all"]["true"] >= 0.95 * (found["all"]["true"] + found["all"]["false"])
    assert set(found["codes"]) <= set(RULES)


_BOTH = ("proposed", "prescribed")


def test_no_proposal_harmed_and_prescribe_asks_for_nothing_else(report: ModuleType) -> None:
    rows = report.read("applied")["applied"]
    assert report.harmful(rows) == []
    assert sum("speedup" in row for row in rows) >= 8
    for row in rows:
        mine, theirs = (dict(line.split()[1:] for line in row[name] if line.startswith("hint ")) for name in _BOTH)
        assert all(theirs.get(key, value) == value for key, value in mine.items()), row["case"]
