"""Every registered model keeps the contract of models, and so does one that another package brings."""

from __future__ import annotations

import pickle
import zipfile
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import pytest

from stripewise import plugins
from stripewise.errors import UserError
from stripewise.models import members, registry
from stripewise.models.base import PerformanceModel
from stripewise.models.files import Stored, write_model_file
from stripewise.models.registry import load_model, make_model, model_names
from stripewise.testing.models import ModelContract, sample_table

# Small enough to keep the suite quick, large enough to learn the sample.
SMALL = {
    "forest": {"trees": 40},
    "boosting": {"rounds": 80, "learning_rate": 0.1},
    "auto": {"folds": 2},
    "ann": {"epochs": 40, "batch": 16},
}


class TestLinear(ModelContract):
    # Whichever limits is a kink that a sum of costs can only round off.
    accuracy = 65.0

    def make(self) -> PerformanceModel:
        return make_model("linear")


class TestTree(ModelContract):
    def make(self) -> PerformanceModel:
        return make_model("tree")


class TestForest(ModelContract):
    accuracy = 88.0

    def make(self) -> PerformanceModel:
        return make_model("forest", SMALL["forest"])


class TestBoosting(ModelContract):
    accuracy = 88.0

    def make(self) -> PerformanceModel:
        return make_model("boosting", SMALL["boosting"])


@pytest.mark.slow
class TestAuto(ModelContract):
    accuracy = 93.0

    @pytest.fixture(autouse=True)
    def _few_trees(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Grow a tenth of the trees, except where the accuracy is looked at: they take most of the time."""
        if request.node.name != "test_learns_what_it_has_not_seen":
            grow = members._grow

            def grow_few(*given: Any, n_estimators: int, **more: Any) -> Any:
                return grow(*given, n_estimators=n_estimators // 10, **more)

            monkeypatch.setattr(members, "_grow", grow_few)

    def make(self) -> PerformanceModel:
        return make_model("auto", SMALL["auto"])


@pytest.mark.slow
class TestAnn(ModelContract):
    suffix = ".pt"

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        # PyTorch is 3 GB and an extra of its own: it is in none of the other tests' environments.
        if find_spec("torch") is None:
            pytest.skip("PyTorch is not installed: make ann runs these tests")

    def make(self) -> PerformanceModel:
        return make_model("ann", SMALL["ann"])


def test_every_model_has_a_contract() -> None:
    covered = {"linear", "tree", "forest", "boosting", "auto", "ann"}
    assert set(model_names()) == covered


def test_models_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", "stripewise.models.trees.tree:TreeModel", registry.ENTRY_POINTS)
    broken = EntryPoint("broken", "no.such.module:Model", registry.ENTRY_POINTS)
    other = EntryPoint("other", "stripewise.models.table:Table", registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry, broken, other])
    assert model_names()[-1:] == ["other"]
    assert make_model("mine").name == "tree"
    with pytest.raises(UserError, match="cannot be loaded"):
        make_model("broken")
    with pytest.raises(UserError, match=r"is not a stripewise\.models\.base\.PerformanceModel"):
        make_model("other")


def test_unknown_names_and_options() -> None:
    with pytest.raises(UserError, match="unknown model 'forrest'"):
        make_model("forrest")
    with pytest.raises(UserError, match="no option 'tree'"):
        make_model("forest", {"tree": 5})
    with pytest.raises(UserError, match="trees"):
        make_model("forest", {"trees": "many"})


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> object:
        return (Path.touch, (self.path,))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_reading_a_model_runs_no_code(tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    model = tmp_path / "a.model"
    make_model("tree").fit(sample_table(repeats=1)).save(model)
    with zipfile.ZipFile(model) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    trap = tmp_path / "trap.npy"
    np.save(trap, np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    members["arrays/value.npy"] = trap.read_bytes()
    with zipfile.ZipFile(model, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(UserError, match="damaged"):
        load_model(model)
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap(sprung)))
        archive.writestr("archive/version", "3\n")
    with pytest.raises(UserError):
        load_model(tmp_path / "a.pt")
    assert not sprung.exists()


def test_a_model_of_an_earlier_version_is_read_without_its_network(tmp_path: Path) -> None:
    table = sample_table(repeats=1).take(np.arange(0, 864, 12))
    model = make_model("auto", SMALL["auto"]).fit(table)
    stored = model._stored()
    stored.head["options"]["ann"] = False
    write_model_file(tmp_path / "a.model", stored)
    again = load_model(tmp_path / "a.model")
    assert np.array_equal(again.predict_table(table).value, model.predict_table(table).value)
    next(iter(stored.head["state"]["members"].values()))[0]["kind"] = "network"
    write_model_file(tmp_path / "b.model", stored)
    with pytest.raises(UserError, match=r"b\.model is damaged: a member of the kind 'network'; train it again"):
        load_model(tmp_path / "b.model")


def test_networks_are_written_to_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch refuses the name of a part's file, which begins with a dot."""
    written: list[object] = []

    def save(document: object, to: IO[bytes]) -> None:
        written.append(document)
        to.write(b"tensors")

    torch = SimpleNamespace(save=save, tensor=lambda array: array)
    monkeypatch.setattr("stripewise.models.ann.import_torch", lambda: torch)
    model = make_model("ann")
    monkeypatch.setattr(model, "_stored", lambda: Stored({"model": "ann"}, {}))
    model.save(tmp_path / "a.pt")
    assert (tmp_path / "a.pt").read_bytes() == b"tensors"
    assert written == [{"stripewise": '{"model": "ann"}'}]


@pytest.mark.parametrize(("array", "value"), [("left", 0), ("feature", 2**31 - 2), ("left", None)])
def test_trees_that_are_none_are_refused(tmp_path: Path, array: str, value: int | None) -> None:
    """A walk in a circle, a feature up to which LightGBM would make room for all, and a node with two parents."""
    fitted = make_model("tree").fit(sample_table(repeats=1))
    trees = fitted.trees  # type: ignore[attr-defined]
    getattr(trees, array)[0] = trees.right[0] if value is None else value
    fitted.save(tmp_path / "a.model")
    with pytest.raises(UserError, match="trees of the model file are damaged"):
        load_model(tmp_path / "a.model")


@pytest.mark.parametrize(("name", "value"), [("error_correlation", -1.0), ("error_correlation", 2.0), ("noise", -0.1)])
def test_a_model_of_impossible_errors_is_refused(tmp_path: Path, name: str, value: float) -> None:
    fitted = make_model("tree").fit(sample_table(repeats=1))
    setattr(fitted, name, value)
    fitted.save(tmp_path / "a.model")
    with pytest.raises(UserError, match="damaged"):
        load_model(tmp_path / "a.model")
