"""Suites of others are compared test by test."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest
from benchmarks.suites import __main__ as suites

from stripewise.observe.orders import Order, append_orders, site_of

SUITES = tomllib.loads((suites.HERE / "suites.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "output", "tests"),
    [
        (
            "mpi4py",
            "testA (t.X.testA) ... ok\ntestB (t.X.testB) ... FAIL\ntestA (t.X.testA) ... ok\n",
            {"testA (t.X.testA)": ["ok", "ok"], "testB (t.X.testB)": ["FAIL"]},
        ),
        (
            "h5py",
            "PASSED a/test_b.py::T::test_c\nFAILED a.py::d - x\n",
            {"a/test_b.py::T::test_c": ["PASSED"], "a.py::d": ["FAILED"]},
        ),
        ("cpython", "test_a (test.test_os.T.test_a)\nIt does. ... ok\n", {"test_a (test.test_os.T.test_a)": ["ok"]}),
        ("tar", "tar 12ab ok\nextracted same ok\n", {"tar 12ab": ["ok"], "extracted same": ["ok"]}),
    ],
)
def test_the_outcome_of_each_test_is_read(name: str, output: str, tests: dict[str, list[str]]) -> None:
    assert suites.outcomes(SUITES[name], output) == tests


def test_what_a_run_changes_is_named(tmp_path: Path) -> None:
    command = "sh -c 'echo T one ok; test -e here || echo T two ok > rank.1; exit 3'"
    suite = {"command": command, "test": r"(?m)^T (\w+) (\w+)$", "ranks": "rank.*"}
    plain = suites.run(suite, "plain", tmp_path, {}, 60)
    assert (plain["code"], plain["tests"]) == (3, {"one": ["ok"], "two": ["ok"]})
    (tmp_path / "here").touch()
    assert suites.compare(plain, suites.run(suite, "plain", tmp_path, {}, 60)) == ["two: ['ok'], None"]
    assert suites.words_of("direct", tmp_path, suite)[-2:] == [str(tmp_path / "direct.plan"), "--"]


def test_the_time_limit_ends_the_programs_that_a_test_started(tmp_path: Path) -> None:
    command = "sh -c 'set -m; sleep 1000 & echo $! > child; echo T one ok; wait'"  # in a process group of its own
    suite = {"command": command, "test": r"(?m)^T (\w+) (\w+)$"}
    done = suites.run(suite, "plain", tmp_path, {}, 1)
    assert (done["code"], done["tests"]) == (None, {"one": ["ok"]})
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "cmdline")
    until = time.monotonic() + 30
    while (running := child.exists() and child.read_bytes()) and time.monotonic() < until:
        time.sleep(0.01)
    assert not running


def test_orders_are_those_of_the_runtime(tmp_path: Path) -> None:
    found = suites.orders({"checkout": "mpi4py", "families": ["a.tmp"]}, tmp_path)
    assert found[0] == Order(1, site_of(tmp_path / "mpi#py/a.tmp"), "write")
    assert found[1].text == "hint romio_cb_write disable" and [one.number for one in found[-2:]] == [53, 54]
    append_orders(tmp_path / "suites.orders", found)
    assert suites.carried_out(tmp_path) == 0
    (tmp_path / "suites.journal").write_text("0\tsite=a\torder=0\n0\tsite=a\torder=12\tmissed=0\n")
    assert suites.carried_out(tmp_path) == 1
