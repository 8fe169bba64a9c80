"""The guide to a model of one's own works as written: its code is run, held to the contract, and registered."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise.model import registry
from stripewise.model.registry import load_model, make_model, model_names
from stripewise.testing.models import ModelContract, sample_table

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-model.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


def entry():
    (block,) = blocks("toml")
    points = tomllib.loads(block)["project"]["entry-points"]
    assert list(points) == [registry.ENTRY_POINTS]
    ((name, target),) = points[registry.ENTRY_POINTS].items()
    return name, target


@pytest.fixture
def package(monkeypatch):
    """A module made of the guide's Python, under the name that the guide gives it, and registered as it says."""
    name, target = entry()
    module = types.ModuleType(target.partition(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    point = EntryPoint(name, target, registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    return module


def test_code_keeps_the_contract(package):
    suite = package.TestNearestModel()
    assert isinstance(suite, ModelContract)
    tests = [name for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 10
    for name in tests:
        getattr(suite, name)()


def test_entry_point_makes_the_name_known(package, tmp_path):
    name, _ = entry()
    assert name in model_names()
    model = make_model(name, {"neighbours": "4"}).fit(sample_table(repeats=1))
    model.save(tmp_path / "a.model")
    assert load_model(tmp_path / "a.model").options.neighbours == 4
