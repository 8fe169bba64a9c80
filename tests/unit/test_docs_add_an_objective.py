"""The guide to an objective of one's own works as written: its code is run, held to the contract, and registered."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise import plugins
from stripewise.errors import RunFailed, UserError
from stripewise.launch import Outcome
from stripewise.observe.objectives import Conditions, kind_of, measure, parse_objective, registry, usages
from stripewise.testing.objectives import ObjectiveContract
from stripewise.trial import State

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-an-objective.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


def entry():
    (block,) = blocks("toml")
    points = tomllib.loads(block)["project"]["entry-points"]
    assert list(points) == [registry.ENTRY_POINTS]
    ((name, target),) = points[registry.ENTRY_POINTS].items()
    return EntryPoint(name, target, registry.ENTRY_POINTS)


@pytest.fixture
def package(monkeypatch):
    """A module made of the guide's Python, installed under the name that the guide gives it."""
    module = types.ModuleType(entry().module)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry()] if group == registry.ENTRY_POINTS else [])
    return module


def test_code_keeps_the_contract(package, tmp_path):
    suite = package.TestOpenTime()
    assert isinstance(suite, ObjectiveContract)
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 6
    for test in tests:
        test(tmp_path) if inspect.signature(test).parameters else test()


def test_entry_point_makes_the_name_known(package):
    assert "open_time" in usages()
    found = parse_objective("open_time")
    assert (found.direction, found.unit) == ("minimize", "s")
    outcome = Outcome(0, State.FINISHED, elapsed=2.0, started=0.0, report=package.REPORT)
    assert measure(found, outcome) == pytest.approx(0.5)
    with pytest.raises(RunFailed, match="no report, so open_time is unknown"):
        measure(found, Outcome(0, State.FINISHED, elapsed=2.0, started=0.0))
    with pytest.raises(UserError, match="open_time is measured by the preloaded runtime, which cannot be in app"):
        kind_of("open_time").check(Conditions("local", "app", unseen="it is linked statically"))


def test_everything_that_the_guide_names_exists():
    table = re.findall(r"^\| (`.*?) \|", GUIDE.read_text("utf-8"), flags=re.MULTILINE)
    names = {name for row in table for name in re.findall(r"`(\w+)`", row)}
    assert len(names) >= 9
    assert all(hasattr(registry.ObjectiveKind, name) for name in names)
