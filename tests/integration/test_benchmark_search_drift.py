"""The race on a machine that changes: its page is that of its results, and says when a choice had settled."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "search"))

import drift  # noqa: E402

RESULTS = json.loads((ROOT / "benchmarks" / "search" / "drift.json").read_text("utf-8"))


def test_the_page_is_that_of_the_results() -> None:
    assert (ROOT / "benchmarks" / "notes" / "search-drift.md").read_text("utf-8") == drift.write_page(RESULTS)


@pytest.mark.parametrize(
    ("choices", "run"), [([9, 10, 10], 2), ([10, 9, 10], 3), ([10, 10, 9], None), ([9.99, 10, 10], 1)]
)
def test_a_choice_has_settled_once_it_stays_good(choices: list[float], run: int | None) -> None:
    result = {"trajectory": choices, "optimum": 10.0, "median": 8.0, "direction": "maximize"}
    assert drift.settled(result) == run
