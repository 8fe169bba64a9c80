"""Trained models in the runtime: the same values, the same decisions, the stacks' rules between their settings."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.formats import TUNABLE, WORD
from stripewise.models.ann import AnnModel
from stripewise.models.artifact.content import Artifact
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import artifact_bytes, parse_artifact
from stripewise.models.domain import table_frame
from stripewise.models.network import NeuralNetwork
from stripewise.models.prescribe.grid import CandidateGrid
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.tunables import SetBy, tunable_columns
from tests.fixtures.campaigns import GIB, MIB, campaign
from tests.integration.building import core_library
from tests.integration.native_model import NativeModel, open_library
from tests.python_model import predict

HINTS = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")
SMALL: dict[str, dict[str, Any]] = {
    "tree": {},
    "forest": {"trees": 12},
    "boosting": {"rounds": 25},
    "auto": {"folds": 2},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return open_library(core_library(tmp_path_factory))


@functools.cache
def table(tunables: tuple[str, ...]) -> Any:
    return campaign(tunables=tunables, repeats=1, noise=0.05)


@functools.cache
def trained(name: str, tunables: tuple[str, ...] = HINTS) -> Any:
    if name != "ann":
        rows = table(tunables)
        # Its ensemble has as many trees whatever the rows.
        return make_model(name, SMALL[name]).fit(rows.take(np.arange(0, len(rows), 5)) if name == "auto" else rows)
    rng = np.random.default_rng(0)
    model = AnnModel()
    fitted = make_model("tree").fit(table(tunables))
    model._domain, model._encoder = fitted.domain, fitted.encoder
    widths = [len(fitted.encoder.features), 32, 16, 1]

    def network(seed: int) -> NeuralNetwork:
        weights = tuple(
            (rng.normal(size=(b, a)) / np.sqrt(a)).astype(np.float32) for a, b in zip(widths, widths[1:], strict=False)
        )
        biases = tuple(rng.normal(size=b).astype(np.float32) for b in widths[1:])
        return NeuralNetwork(weights, biases, rng.uniform(1, 40, size=widths[0]), 900.0 + seed, 5.0, 0.1)

    model.networks = {place: network(place) for place in (0, 1)}
    return model


def input_row(artifact: Artifact, values: Mapping[str, Any]) -> list[float]:
    """Numbers for an artifact's inputs from values by name, as the runtime fills them."""
    given = [values[entry.name] for entry in artifact.inputs]
    return [float(artifact.texts.code(value)) if isinstance(value, str) else float(value) for value in given]


def columns_of(artifact: Artifact, frame: Mapping[str, Sequence[Any]]) -> list[np.ndarray]:
    """As :func:`input_row` for many rows; words that are not given count as 0."""
    n = len(next(iter(frame.values())))
    columns = []
    for entry in artifact.inputs:
        given = frame.get(entry.name)
        if given is None:
            columns.append(np.zeros(n))
            continue
        columns.append(
            np.asarray([artifact.texts.code(v) if isinstance(v, str) else float(v) for v in given], dtype=np.float64)
        )
    return columns


@pytest.mark.parametrize("name", [*SMALL, "ann"])
def test_values_in_the_runtime_are_the_model_s(library: ctypes.CDLL, name: str) -> None:
    model = trained(name)
    frame = table_frame(table(HINTS))
    rows = np.random.default_rng(1).permutation(len(table(HINTS)))[:700]
    frame = {key: [values[i] for i in rows] for key, values in frame.items()}
    # Between the values that were measured, too.
    frame["file_gib"] = (np.asarray(frame["file_gib"], dtype=np.float64) * 1.37).tolist()
    artifact = to_artifact(model)
    data = artifact_bytes(artifact)
    columns = columns_of(artifact, frame)
    points = model.domain.points(frame)
    # Of auto the ensemble that its blend has taught is exported.
    expected = np.exp(model.rough(points)) if name == "auto" else model.predict_points(points).value
    native = NativeModel(library, data)
    try:
        found = native.predict(columns, len(rows))
    finally:
        native.close()
    assert np.all(np.abs(found / expected - 1) <= 1e-9)
    assert np.all(np.abs(predict(parse_artifact(data), columns, len(rows)) / expected - 1) <= 1e-9)


@pytest.mark.parametrize("operation", ["write", "read"])
@pytest.mark.parametrize("nodes, each", [(2, 1), (4, 4), (8, 4)])
def test_the_runtime_chooses_what_python_chooses(library: ctypes.CDLL, operation: str, nodes: int, each: int) -> None:
    model = trained("boosting")
    artifact = to_artifact(model)
    workload = Workload(operation=operation, nodes=nodes, processes_per_node=each, file_size=8 * GIB, collective=True)
    current = {"stripe_count": 1, "stripe_size": MIB, "romio_cb_write": "automatic", "cb_nodes": 1}
    words = {**workload.words(), "ppn": each, "file_gib": 8, **current}
    row = input_row(artifact, words)
    native = NativeModel(library, artifact_bytes(artifact))
    try:
        choice = native.choose(row)
    finally:
        native.close()
    answer = Prescriber(model)
    every = tunable_columns(model.domain.schema)
    free = [k for k in every if k.set_by is SetBy.SETTING and k.can_change(operation)]
    grid = CandidateGrid(model, free, every)
    fixed = model.domain.points(
        {
            "operation": [operation],
            "nodes": [nodes],
            "ppn": [each],
            "file_gib": [8],
            **{k: [v] for k, v in current.items()},
        }
    )
    best = grid.best(fixed, workload.words())
    assert choice.combinations == int(best.combinations[0])
    assert choice.best >= choice.current
    gain = float(best.expected.mean[0] - grid.predict(fixed).mean[0])
    place = model.domain.columns[0].values.index(operation)
    assert choice.margin == pytest.approx(model.margins()[place], rel=1e-12)
    if gain > choice.margin:
        assert choice.changed
        assert np.log(choice.best / choice.current) == pytest.approx(gain, rel=1e-6)
        chosen = {
            entry.name: choice.values[place] for place, entry in enumerate(artifact.inputs) if entry.kind == TUNABLE
        }
        for tunable in free:
            value = model.domain.values(tunable.place, best.points[:, tunable.place]).tolist()[0]
            number = artifact.texts.code(value) if isinstance(value, str) else value
            assert chosen[tunable.name] == number
    else:
        assert not choice.changed
    assert answer.prescribe(PrescriptionRequest(workload, current)).combinations == int(best.combinations[0])


def test_settings_carry_what_the_runtime_needs_to_apply_them() -> None:
    artifact = to_artifact(trained("tree"))
    entries = {entry.name: entry for entry in artifact.inputs}
    assert (entries["stripe_count"].carrier, entries["stripe_count"].layer) == ("layout", "lustre")
    assert entries["romio_cb_write"].carrier == "hint"
    assert [value.spelling for value in entries["romio_cb_write"].values] == ["automatic", "disable", "enable"]
    assert entries["file_gib"].factor == GIB
    assert [entry.key for entry in artifact.derived] == ["cb_config_list"]
    assert artifact.simulated


def test_the_program_s_own_words_are_never_chosen(library: ctypes.CDLL) -> None:
    artifact = to_artifact(trained("tree", ("stripe_count", "transfer_size", "collective")))
    names = [entry.name for entry in artifact.inputs]
    # A word that is 0 says nothing: one file per process, for instance, is expected to want few stripes.
    row = [0.0 if entry.kind == WORD else 1.0 for entry in artifact.inputs]
    row = [value if e.kind != TUNABLE else e.values[0].number for value, e in zip(row, artifact.inputs, strict=True)]
    row[names.index("operation")] = float(artifact.texts.code("write"))
    for name, value in (("nodes", 8.0), ("ppn", 4.0), ("file_gib", 8.0), ("writes", 1.0)):
        row[names.index(name)] = value
    native = NativeModel(library, artifact_bytes(artifact))
    try:
        choice = native.choose(row)
    finally:
        native.close()
    assert choice.changed
    assert choice.values[names.index("stripe_count")] in (8, 16)  # in one leaf: the cheaper is taken
    assert choice.values[names.index("transfer_size")] == row[names.index("transfer_size")]
    assert choice.combinations == 4


def test_a_linear_model_is_refused() -> None:
    model = make_model("linear").fit(table(("stripe_count",)))
    with pytest.raises(UserError, match="linear has no form that the runtime reads"):
        to_artifact(model)
