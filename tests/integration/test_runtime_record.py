"""The record of a real program: what it says is what the report counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stripewise.spec.record import Record
from stripewise.spec.record_reading import read_record
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench, Outcome

RANKS, PHASES, PIECES, BYTES = 4, 6, 4, 256


@pytest.fixture(scope="module")
def bench(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(mpich, tmp_path_factory)


def recorded(bench: Bench, tmp_path: Path, scenario: str) -> tuple[Record, Outcome]:
    words = (tmp_path / "chk", PHASES, PIECES, BYTES, scenario)
    place = tmp_path / "program.record"
    outcome = bench.run(bench.program("phases.c"), *words, ranks=RANKS, STRIPEWISE_RECORD=str(place))
    assert outcome.code == 0, outcome.stderr
    assert outcome.complaints == [] and [path.name for path in tmp_path.glob("*.record*")] == [place.name]
    return read_record(place), outcome


def counted(outcome: Outcome, name: str) -> int:
    assert outcome.report is not None
    return sum(int(file["operations"].get(name, {"count": 0})["count"]) for file in outcome.report["files"])


@pytest.mark.parametrize("scenario", ["read", "split", "self"])
def test_the_record_holds_every_call(bench: Bench, tmp_path: Path, scenario: str) -> None:
    record, outcome = recorded(bench, tmp_path, scenario)
    assert outcome.report is not None and record.gaps == () and (record.ranks, record.nodes) == (RANKS, 1)
    for name in ("set_view", "write_at_all", "read_at_all", "close"):
        assert record.count(name) == counted(outcome, name)
    totals = outcome.report["totals"]
    assert record.moved == {"read": totals["bytes_read"], "write": totals["bytes_written"]}
    assert record.io_time == pytest.approx(outcome.report["job"]["io_time"], rel=1e-6)
    opened = {
        group.path(numbers[1], rank)
        for group in record.groups
        for rank in range(group.first, group.first + group.count)
        for name, numbers in record.calls(rank)
        if name == "open"
    }
    assert opened == {file["path"] for file in outcome.report["files"]}
    sizes = {
        group.comms[numbers[2]][1].base
        for group in record.groups
        for name, numbers in record.calls(group.first)
        if name == "open"
    }
    assert sizes == {"read": {RANKS}, "split": {RANKS // 2, RANKS}, "self": {1}}[scenario]
