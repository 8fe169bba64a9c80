"""The mode orders on both MPIs: what a phase carries out, what it answers, and that nothing is done twice."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.observe.journal import JournalPhase, parse_journal
from stripewise.observe.orders import Order, append_orders, site_of
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench, Outcome
from tests.integration.test_runtime_modes import BYTES, PIECES, RANKS, expected


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def aggregators(number: int, tmp_path: Path, count: int, operation: str = "write") -> Order:
    settings = (Setting(HINT, "cb_nodes", str(count)),) if count else ()
    return Order(number, site_of(tmp_path / "chk.0000"), operation, settings)


def variables(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "STRIPEWISE_MODE": "orders",
        "STRIPEWISE_ORDERS": str(tmp_path / "orders"),
        "STRIPEWISE_JOURNAL": str(tmp_path / "answers"),
        **more,
    }


def run(
    bench: Bench, tmp_path: Path, count: int, scenario: str = "world", behind: tuple[Path, ...] = (), **more: str
) -> Outcome:
    words = (tmp_path / "chk", count, PIECES, BYTES, scenario)
    outcome = bench.run(bench.program("phases.c"), *words, behind=behind, **variables(tmp_path, **more))  # type: ignore[arg-type]
    assert outcome.code == 0, outcome.stderr
    return outcome


def answers(tmp_path: Path) -> tuple[JournalPhase, ...]:
    journal = parse_journal((tmp_path / "answers").read_text())
    assert journal.damaged == 0
    return journal.phases


def test_each_phase_carries_out_the_next_order_and_answers(bench: Bench, tmp_path: Path) -> None:
    append_orders(tmp_path / "orders", [aggregators(1, tmp_path, 2), aggregators(2, tmp_path, 0)])
    append_orders(tmp_path / "orders", [aggregators(3, tmp_path, 1), aggregators(4, tmp_path, 1, "read")])
    outcome = run(bench, tmp_path, 5)
    found = answers(tmp_path)
    assert [phase.order for phase in found] == [1, 2, 3, 0, 0]
    assert [phase.settings.get("cb_nodes") for phase in found] == ["2", None, "1", None, None]
    assert all(phase.moved == RANKS * PIECES * BYTES for phase in found)
    # ROMIO takes one aggregator a node and says so; OMPIO is not given the hint.
    assert [phase.missed for phase in found] == [1, 0, 0, 0, 0]
    assert {phase.launch for phase in found} == {found[0].launch} and 0 < found[0].time - found[0].launch < 60
    decision = outcome.file("chk.0000")["decision"]
    assert (decision["verdict"], decision["why"]) == ("changed", "order 1: hint cb_nodes 2")
    assert outcome.setting("chk.0002", "cb_nodes")["given"] == "1"
    assert outcome.file("chk.0003")["decision"]["why"] == "no order has come: the default"
    for number in range(5):
        assert (tmp_path / f"chk.{number:04d}").read_bytes() == expected(RANKS, number)
    # What was carried out is not carried out by the next job.
    append_orders(tmp_path / "orders", [aggregators(3, tmp_path, 1), aggregators(5, tmp_path, 2)])
    run(bench, tmp_path, 2)
    assert [phase.order for phase in answers(tmp_path)[5:]] == [5, 0]
    assert len({phase.launch for phase in answers(tmp_path)}) == 2


def test_an_order_is_seen_soon_while_another_file_is_open(bench: Bench, tmp_path: Path) -> None:
    append_orders(tmp_path / "orders", [])
    (tmp_path / "later").write_text(Order(1, site_of(tmp_path / "chk.0000"), "write").line())
    words = (tmp_path / "chk", tmp_path / "orders", tmp_path / "later")
    outcome = bench.run(bench.program("late_order.c"), *words, ranks=2, **variables(tmp_path))  # type: ignore[arg-type]
    assert outcome.code == 0, outcome.stderr
    assert [phase.order for phase in answers(tmp_path)] == [0, 0, 1]


def test_the_thread_of_rank_0_takes_no_descriptor_of_the_program(bench: Bench, tmp_path: Path) -> None:
    append_orders(tmp_path / "orders", [aggregators(1, tmp_path, 2)])
    words = (tmp_path / "chk.0000",)
    outcome = bench.run(bench.program("lowest_descriptor.c"), *words, ranks=1, **variables(tmp_path))  # type: ignore[arg-type]
    assert outcome.code == 0, outcome.stderr
    assert [phase.order for phase in answers(tmp_path)] == [1]


def test_what_the_plan_sets_is_told_to_be_missed(bench: Bench, tmp_path: Path) -> None:
    append_orders(tmp_path / "orders", [aggregators(1, tmp_path, 2), aggregators(2, tmp_path, 0)])
    (tmp_path / "plan").write_text(HEADER + "hint cb_nodes 1\n")
    outcome = run(bench, tmp_path, 2, STRIPEWISE_PLAN=str(tmp_path / "plan"))
    assert [(phase.order, phase.missed) for phase in answers(tmp_path)] == [(1, 1), (2, 0)]
    assert outcome.setting("chk.0000", "cb_nodes")["given"] == "1"


@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_a_settled_phase_pays_for_its_write_back(bench: Bench, tmp_path: Path) -> None:
    append_orders(tmp_path / "orders", [aggregators(1, tmp_path, 2)])
    behind = (bench.preload("tell_fsync.c"),)
    plain = run(bench, tmp_path, 2, behind=behind).stderr.count("fsync was called")  # the report's
    assert run(bench, tmp_path, 2, STRIPEWISE_SETTLE="1", behind=behind).stderr.count("fsync was called") >= plain + 2
    assert (tmp_path / "chk.0001").read_bytes() == expected(RANKS, 1)


@pytest.mark.parametrize("damage", ["missing", "folder", "alien", "torn"])
@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_orders_that_cannot_be_read_cost_a_line_at_most(bench: Bench, tmp_path: Path, damage: str) -> None:
    orders = tmp_path / "orders"
    if damage == "folder":
        orders.mkdir()
    elif damage == "alien":
        orders.write_text("hint cb_nodes 2\n")
    elif damage == "torn":
        append_orders(orders, [aggregators(1, tmp_path, 2)])
        orders.write_bytes(orders.read_bytes()[:-5])
    outcome = run(bench, tmp_path, 3)
    assert len(outcome.complaints) == (damage in ("folder", "alien")), outcome.complaints
    assert [phase.order for phase in answers(tmp_path)] == [0, 0, 0]
    assert (tmp_path / "chk.0002").read_bytes() == expected(RANKS, 2)


@pytest.mark.parametrize("scenario", ["self", "split"])
@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_only_rank_0_of_the_job_carries_out_orders(bench: Bench, tmp_path: Path, scenario: str) -> None:
    prefix = {"self": "chk.c.", "split": "chk.a."}[scenario]
    site = site_of(tmp_path / f"{prefix}0000")
    append_orders(tmp_path / "orders", [Order(1, site, "write", (Setting(HINT, "cb_nodes", "1"),))])
    run(bench, tmp_path, 3, scenario)
    found = answers(tmp_path)
    assert [phase.order for phase in found].count(1) <= 1
    assert len(found) <= 4


@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_a_job_that_is_killed_loses_no_order_and_carries_none_out_twice(bench: Bench, tmp_path: Path) -> None:
    """Kill the job at some phase, twice; in the end every order has one answer."""
    append_orders(tmp_path / "orders", [aggregators(n, tmp_path, n % 3) for n in range(1, 31)])
    environment = variables(tmp_path)
    words = list(map(str, (bench.program("phases.c"), tmp_path / "chk", 60, PIECES, BYTES)))
    for wait in (0.02, 0.05):
        command = bench.command(words, 2, environment, [bench.library])
        job = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = (tmp_path / "answers").stat().st_size if (tmp_path / "answers").exists() else 0
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and job.poll() is None:
            if (tmp_path / "answers").exists() and (tmp_path / "answers").stat().st_size > before:
                break
            time.sleep(0.005)
        time.sleep(wait)
        _kill_tree(job.pid)
        job.wait()
    assert bench.run(bench.program("phases.c"), *words[1:], ranks=2, **environment).code == 0  # type: ignore[arg-type]
    carried_out = [phase.order for phase in answers(tmp_path) if phase.order]
    assert sorted(carried_out) == list(range(1, 31))
    assert all(
        phase.settings.get("cb_nodes", "0") == str(phase.order % 3) for phase in answers(tmp_path) if phase.order
    )


def _kill_tree(root: int) -> None:
    """Kill -9 a process and all that it has started."""
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(root)], capture_output=True, text=True, check=False)
    for child in children.stdout.split():
        _kill_tree(int(child))
    with contextlib.suppress(ProcessLookupError):
        os.kill(root, signal.SIGKILL)
