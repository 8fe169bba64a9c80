"""The guide to a model of one's own works as written: its code is run, held to the contract, and registered."""

from __future__ import annotations

import re
import sys
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise import plugins
from stripewise.models import registry
from stripewise.models.registry import load_model, make_model, model_class, model_names
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
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
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


REFERENCE = GUIDE.parents[1] / "reference" / "models.md"


def test_every_model_and_option_is_in_the_reference():
    text = REFERENCE.read_text("utf-8")
    for name in model_names():
        assert f"| `{name}` |" in text, f"{name} is not in docs/reference/models.md"
        for option, field in model_class(name).Options.model_fields.items():
            default = str(field.default).lower() if isinstance(field.default, bool) else field.default
            row = f"| `{name}` | `{option}` | `{default}` | {field.description} |"
            assert row in text, f"docs/reference/models.md has no row {row}"
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, flags=re.MULTILINE)
    assert all(option in model_class(name).Options.model_fields for name, option in listed)


def test_the_reference_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", REFERENCE.read_text("utf-8"), flags=re.DOTALL)
    table = GUIDE.parents[2] / "benchmarks" / "data" / "tables" / "ior_vast_scaling"
    monkeypatch.chdir(tmp_path)
    example = example.replace("benchmarks/data/tables/ior_vast_scaling", str(table)).replace("100", "5")
    exec(compile(example, str(REFERENCE), "exec"), {})
    assert (tmp_path / "site.model").is_file()
    assert "xfersize" in capsys.readouterr().out
