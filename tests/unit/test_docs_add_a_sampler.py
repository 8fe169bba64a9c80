"""The guide to a sampler of one's own works as written: its code is run, held to the contract, and registered."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise import plugins
from stripewise.errors import UserError
from stripewise.search import base as registry
from stripewise.search.base import make_sampler, sampler_names
from stripewise.testing.samplers import SamplerContract, play, sample_spaces

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-sampler.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def package():
    """A module made of the guide's Python, under the name that the guide gives it."""
    name, _, _ = entry()[1].partition(":")
    module = types.ModuleType(name)
    sys.modules[name] = module
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    yield module
    del sys.modules[name]


def entry():
    (block,) = blocks("toml")
    points = tomllib.loads(block)["project"]["entry-points"]
    assert list(points) == [registry.ENTRY_POINTS]
    ((name, target),) = points[registry.ENTRY_POINTS].items()
    return name, target


@pytest.mark.slow
def test_code_keeps_the_contract(package):
    suite = package.TestCoordinateSampler()
    assert isinstance(suite, SamplerContract)
    tests = [name for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 9
    for name in tests:
        getattr(suite, name)()


def test_entry_point_makes_the_name_known(package, monkeypatch):
    name, target = entry()
    point = EntryPoint(name, target, registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    assert name in sampler_names()
    sampler = make_sampler(name, {"width": "3"})
    assert sampler.options.width == 3
    history, _ = play(sampler, sample_spaces()["large"], trials=10)
    assert {trial.tag for trial in history.trials[1:]} <= {"near", "random"}
    with pytest.raises(UserError, match="no option 'depth'; its options: width"):
        make_sampler(name, {"depth": 3})


@pytest.mark.parametrize(
    ("target", "message"), [("nowhere:Sampler", "cannot be loaded"), ("json:JSONDecoder", "is not a")]
)
def test_broken_entry_points_are_named(target, message, monkeypatch):
    point = EntryPoint("broken", target, registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    assert "broken" in sampler_names()
    with pytest.raises(UserError, match=f"sampler 'broken' .{target}. {message}"):
        make_sampler("broken")


def test_a_plug_in_cannot_take_the_name_of_a_built_in_sampler(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("random", "nowhere:X", group)])
    assert sampler_names().count("random") == 1
    assert make_sampler("random").name == "random"
