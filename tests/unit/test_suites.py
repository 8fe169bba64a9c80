"""Suites of others are compared test by test."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from benchmarks.suites import __main__ as suites

SUITES = tomllib.loads((suites.HERE / "suites.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "output", "tests"),
    [
        (
            "mpi4py",
            "testA (test_io.X.testA) ... testA (test_io.X.testA) ... ok\nok\ntestB (test_io.X.testB) ... FAIL\n",
            {"testA (test_io.X.testA)": ["ok"], "testB (test_io.X.testB)": ["FAIL"]},
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
    suite = {"command": "sh -c 'echo T one ok; test -e here || echo T two ok; exit 3'", "test": r"(?m)^T (\w+) (\w+)$"}
    plain = suites.run(suite, "plain", tmp_path, "python3", 60)
    assert (plain["code"], plain["tests"]) == (3, {"one": ["ok"], "two": ["ok"]})
    (tmp_path / "here").touch()
    assert suites.compare(plain, suites.run(suite, "plain", tmp_path, "python3", 60)) == ["two: ['ok'], None"]
    assert suites.words_of("direct", tmp_path)[-2:] == [str(tmp_path / "direct.plan"), "--"]
