"""Suites of others are compared test by test."""

from __future__ import annotations

import time
import tomllib
import zlib
from pathlib import Path

import pytest
from benchmarks.suites import __main__ as suites

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
    text = suites.orders({"checkout": "romio", "families": ["a.tmp"]}, tmp_path)
    first = text.splitlines()[1].partition("\t")
    assert text.startswith("stripewise-orders 1\n") and first[0] == f"{zlib.crc32(first[2].encode()):08x}"
    assert first[2] == f"site={tmp_path}/romio/a.tmp\toperation=write\tsettings=\torder=1"
