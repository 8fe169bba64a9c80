"""The guide to a finding of one's own works as written: its rule is registered, found, weighed and set aside again."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise import plugins
from stripewise.diagnose import site as diagnosing
from stripewise.diagnose.finding import RULES
from stripewise.diagnose.limits import LIMITS
from stripewise.errors import UserError

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-finding.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


def entry():
    (block,) = blocks("toml")
    points = tomllib.loads(block)["project"]["entry-points"]
    assert list(points) == [diagnosing.ENTRY_POINTS]
    ((name, target),) = points[diagnosing.ENTRY_POINTS].items()
    return EntryPoint(name, target, diagnosing.ENTRY_POINTS)


@pytest.fixture
def package(monkeypatch):
    """A module made of the guide's Python, under the name that the guide gives it; its rule goes with the test."""
    rules, limits = dict(RULES), dict(LIMITS)
    module = types.ModuleType(entry().value)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    yield module
    for table, before in ((RULES, rules), (LIMITS, limits)):
        table.clear()
        table.update(before)


def register(monkeypatch, point):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == diagnosing.ENTRY_POINTS else [])


def test_the_rule_is_found_by_its_own_test(package):
    package.test_many_files_are_found_and_a_few_are_not()


def test_the_finding_weighs_and_its_threshold_can_be_set(package):
    assert set(LIMITS) >= {"files_a_rank"}
    activity = package.Activity.model_validate(
        {
            "source": "log",
            "kind": "darshan",
            "job": {"ranks": 4, "elapsed": 10.0},
            "io_seconds": 5.0,
            "counted": {"files": 40, "small": 0},
        }
    )
    codes = [{f.code for f in diagnosing.diagnose(activity, limits).findings} for limits in ({}, {"files_a_rank": 5})]
    assert ["many-files-a-rank" in found for found in codes] == [False, True]


def test_entry_points_are_imported_and_broken_ones_named(package, monkeypatch):
    register(monkeypatch, entry())
    package.test_many_files_are_found_and_a_few_are_not()
    register(monkeypatch, EntryPoint("broken", "nowhere_at_all", diagnosing.ENTRY_POINTS))
    with pytest.raises(UserError, match=r"findings 'broken' \(nowhere_at_all\) cannot be loaded"):
        package.found(files=1)
