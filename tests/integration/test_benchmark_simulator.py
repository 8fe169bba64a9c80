"""The validation of the simulated cluster, as far as it is quick: constants as shipped, mechanisms, and the page."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "simulator"))

import leave_out  # noqa: E402
import mechanisms  # noqa: E402
import page  # noqa: E402

RESULTS = json.loads((ROOT / "benchmarks" / "simulator" / "results.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def shipped() -> list[leave_out.Prediction]:
    return leave_out.predictions(leave_out.shipped())


def test_most_cells_are_within_a_factor_of_one_and_a_half(shipped: list[leave_out.Prediction]) -> None:
    assert len(shipped) == 29
    assert sum(p.hit for p in shipped) / len(shipped) >= 0.7


def test_the_better_of_collective_and_independent_is_right_on_every_system(
    shipped: list[leave_out.Prediction],
) -> None:
    orders = leave_out.orders(shipped)
    assert len(orders) == 12
    assert all(right for _, _, right, *_ in orders)


def test_with_constants_from_the_other_systems_as_published() -> None:
    """The published run: each system left out in turn."""
    made = RESULTS["tables"]["system"]
    assert made["share"] >= 0.7
    assert len(made["orders"]) == 12
    assert all(right for _, _, right, *_ in made["orders"])


def test_file_per_process_cells_are_what_was_fitted() -> None:
    sites = leave_out.sites(leave_out.shipped())
    for cell in (c for c in leave_out.CELLS if c.fitted):
        predicted, _ = leave_out.predict(sites[cell.system], leave_out.system_of(cell.system), cell)
        assert predicted == pytest.approx(cell.measured, rel=0.01), cell


@pytest.mark.parametrize("check", [mechanisms.snapping, mechanisms.widest_is_best, mechanisms.sieving_flips])
def test_mechanisms(check: object) -> None:
    found = check()  # type: ignore[operator]
    assert found.holds, found.figure


def test_the_page_is_that_of_the_results() -> None:
    assert (ROOT / "benchmarks" / "notes" / "simulator.md").read_text("utf-8") == page.write_page(RESULTS)


def test_every_miss_is_explained() -> None:
    for turn in ("system", "machine"):
        for cell in RESULTS["tables"][turn]["cells"]:
            assert cell["hit"] or (cell["system"], cell["kind"]) in page.EXPLAINED, cell
    assert RESULTS["simulated"] is True
