"""C and Python agree on artifacts: on the encoding to the bit, on the value to 1e-9, on what is best."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stripewise.errors import UserError
from stripewise.formats import ARTIFACT_NONE, CONTEXT, TUNABLE, Op
from stripewise.models.artifact.content import Artifact, ArtifactInput, InputValue, Layer, Member, TreeBlock
from stripewise.models.artifact.file import artifact_bytes, parse_artifact, save_artifact
from stripewise.models.artifact.program import OUTPUT, Program, apply, constant, read
from tests.fixtures.make_artifacts import ARTIFACTS, FOLDER
from tests.integration.building import core_library
from tests.integration.native_model import NativeModel, open_library
from tests.python_model import added, encode, predict

BINARY = [op for op in Op if Op.ADD <= op < Op.SELECT]
UNARY = [Op.LOG2, Op.SINGLE, Op.ABS, Op.NEGATE, Op.NOT]
CASES = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return open_library(core_library(tmp_path_factory))


def random_program(rng: np.random.Generator, inputs: int, size: int) -> Program:
    if size <= 1:
        return read(int(rng.integers(inputs))) if rng.random() < 0.8 else constant(float(rng.normal() * 10))
    kind = rng.random()
    if kind < 0.25:
        return apply(UNARY[int(rng.integers(len(UNARY)))], random_program(rng, inputs, size - 1))
    if kind < 0.32 and size > 3:
        return apply(Op.SELECT, *(random_program(rng, inputs, size // 3) for _ in range(3)))
    half = int(rng.integers(1, size))
    op = BINARY[int(rng.integers(len(BINARY)))]
    return apply(op, random_program(rng, inputs, half), random_program(rng, inputs, size - half))


def random_tree(rng: np.random.Generator, leaves: int, features: int) -> TreeBlock:
    value: list[float] = []
    feature: list[int] = []
    right: list[int] = []

    def grow(count: int) -> None:
        place = len(value)
        value.append(float(rng.normal() * (1 if count == 1 else 20)))
        feature.append(ARTIFACT_NONE if count == 1 else int(rng.integers(features)))
        right.append(0)
        if count > 1:
            left = int(rng.integers(1, count))
            grow(left)
            right[place] = len(value)
            grow(count - left)

    grow(leaves)
    return TreeBlock(np.asarray(value, np.float32), np.asarray(feature, np.uint32), np.asarray(right, np.uint32))


def random_member(rng: np.random.Generator, inputs: int) -> Member:
    count = int(rng.integers(1, 12))
    features = tuple(random_program(rng, inputs, int(rng.integers(1, 9))) for _ in range(count))
    gate = None if rng.random() < 0.7 else apply(Op.GREATER, read(0), constant(3.0))
    post = OUTPUT if rng.random() < 0.5 else apply(Op.MULTIPLY, OUTPUT, apply(Op.ADD, read(0), constant(1.0)))
    rest = {"weight": float(rng.normal()), "base": float(rng.normal()), "scale": 1.5, "gate": gate, "post": post}
    if rng.random() < 0.6:
        trees = tuple(random_tree(rng, int(rng.integers(1, 40)), count) for _ in range(int(rng.integers(0, 30))))
        return Member(features, trees=trees, float32=bool(rng.random() < 0.5), **rest)
    # A network's inputs must be finite for its sums to mean anything: squash them.
    squashed = tuple(apply(Op.MINIMUM, apply(Op.ABS, read(i % inputs)), constant(50.0)) for i in range(count))
    widths = [count, *rng.integers(1, 40, size=int(rng.integers(0, 3))).tolist(), 1]
    layers = tuple(
        Layer(
            (rng.normal(size=(outputs, width)) / np.sqrt(width)).astype(np.float32),
            rng.normal(size=outputs).astype(np.float32),
            bool(rng.random() < 0.7 and outputs > 1),
        )
        for width, outputs in itertools.pairwise(widths)
    )
    return Member(squashed, layers=layers, float32=bool(rng.random() < 0.5), **rest)


def random_artifact(rng: np.random.Generator) -> Artifact:
    contexts = [ArtifactInput(f"c{i}", CONTEXT) for i in range(int(rng.integers(1, 4)))]
    tunables = []
    for i in range(int(rng.integers(0, 4))):
        numbers = sorted(set(rng.choice([1, 2, 3, 4, 8, 64, 1024, 2**20], size=4).tolist()))
        values = tuple(InputValue(float(n), str(n)) for n in numbers)
        tunables.append(ArtifactInput(f"t{i}", TUNABLE, values=values, default=int(rng.integers(len(values)))))
    inputs = (*contexts, *tunables)
    members = tuple(random_member(rng, len(inputs)) for _ in range(int(rng.integers(1, 4))))
    return Artifact("random", "value", "", bool(rng.random() < 0.5), inputs, members)


def random_rows(rng: np.random.Generator, artifact: Artifact, n: int) -> list[np.ndarray]:
    spread = [1.0, 100.0, 1e9][int(rng.integers(3))]
    return [np.round(rng.uniform(0, spread, size=n), int(rng.integers(0, 4))) for _ in artifact.inputs]


@CASES
@given(st.integers(0, 2**32 - 1))
def test_encoding_agrees_to_the_bit_and_values_to_rounding(library: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    artifact = random_artifact(rng)
    n = int(rng.choice([1, 2, 7, 300, 1500]))
    rows: list[np.ndarray | float] = list(random_rows(rng, artifact, n))
    if n > 1:  # what is the same for all rows takes another way in C
        rows[0] = float(np.asarray(rows[0])[0])
    data = artifact_bytes(artifact)
    native = NativeModel(library, data)
    try:
        for place, member in enumerate(artifact.members):
            expected = encode(member, rows)
            for mine, theirs in zip(expected, native.encode(place, len(member.features), rows, n), strict=True):
                wide = np.broadcast_to(mine, (n,))
                assert np.array_equal(np.isnan(wide), np.isnan(theirs))
                good = ~np.isnan(wide)
                assert np.array_equal(wide[good], theirs[good])
        expected_values, values = predict(artifact, rows, n), native.predict(rows, n)
    finally:
        native.close()
    assert np.array_equal(np.isnan(expected_values), np.isnan(values))
    good = np.isfinite(expected_values)
    # Members of either sign may cancel one another: what counts is relative to what was added.
    scale = sum(np.abs(added(member, rows, n)) for member in artifact.members)
    assert np.all(np.abs(values - expected_values)[good] <= 1e-9 * np.asarray(scale)[good])


@CASES
@given(st.integers(0, 2**32 - 1))
def test_reading_gives_back_what_was_written(seed: int) -> None:
    artifact = random_artifact(np.random.default_rng(seed))
    data = artifact_bytes(artifact)
    assert artifact_bytes(parse_artifact(data)) == data


@CASES
@given(st.integers(0, 2**32 - 1))
def test_the_runtime_finds_the_best_combination(library: ctypes.CDLL, seed: int) -> None:
    rng = np.random.default_rng(seed)
    artifact = random_artifact(rng)
    row = [float(column[0]) for column in random_rows(rng, artifact, 1)]
    tunables = [n for n, entry in enumerate(artifact.inputs) if entry.kind == TUNABLE]
    grid = list(itertools.product(*([s.number for s in artifact.inputs[n].values] for n in tunables)))
    rows: list[np.ndarray | float] = list(row)
    for place, column in zip(tunables, np.asarray(grid).reshape(len(grid), len(tunables)).T, strict=True):
        rows[place] = column
    predicted = predict(artifact, rows, len(grid))
    native = NativeModel(library, artifact_bytes(artifact))
    try:
        choice = native.choose(row)
    finally:
        native.close()
    assert choice.combinations == len(grid)
    finite = predicted[np.isfinite(predicted)]
    if len(finite) == 0:
        assert not choice.changed
        return
    if choice.changed:
        best = finite.max() if artifact.maximize else finite.min()
        assert choice.best == pytest.approx(best, rel=1e-9, abs=1e-12)
        for place in tunables:
            assert choice.values[place] in [s.number for s in artifact.inputs[place].values]
    else:
        assert [choice.values[place] for place in range(len(row))] == row


@pytest.mark.parametrize("name", ARTIFACTS)
def test_the_corpus_is_what_its_maker_makes(name: str) -> None:
    assert (FOLDER / name).read_bytes() == artifact_bytes(ARTIFACTS[name]())


def test_damage_is_refused_by_both(library: ctypes.CDLL) -> None:
    data = (FOLDER / "trees.swm").read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(len(data), size=60).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        with pytest.raises(UserError):
            parse_artifact(bytes(damaged))
        with pytest.raises(ValueError, match=r"it |its "):
            NativeModel(library, bytes(damaged))
    with pytest.raises(UserError, match="is not a model artifact"):
        parse_artifact(b"")


class Known(tuple[tuple[Op, float], ...]):
    """A rule that the writer finds a thousand times without going through its hundred thousand steps each time."""

    __slots__ = ()

    def __hash__(self) -> int:
        return len(self)


def test_no_program_is_held_up_by_a_model(library: ctypes.CDLL) -> None:
    # A small file can name a long rule, or a tree, as often as it likes.
    rule = Known((*constant(1.0), *((Op.ABS, 0.0),) * 99_999))
    trees = ARTIFACTS["trees.swm"]()
    with pytest.raises(ValueError, match="its predictions take too long"):
        NativeModel(library, artifact_bytes(replace(trees, constraints=(rule,) * 1000)))
    levels = tuple(InputValue(float(n), str(n)) for n in range(300))
    inputs = tuple(ArtifactInput(name, TUNABLE, values=levels, carrier="advice") for name in "ab")
    model = Artifact("slow", "value", "", True, inputs, (Member((read(0),)),), constraints=(rule,) * 100)
    native = NativeModel(library, artifact_bytes(model))
    try:
        with pytest.raises(ValueError, match="a decision takes too long"):
            native.choose([0.0, 0.0])
    finally:
        native.close()


def test_what_the_runtime_cannot_take_is_refused_with_advice(tmp_path: Path) -> None:
    inputs = tuple(ArtifactInput(f"c{i}", CONTEXT) for i in range(65))
    with pytest.raises(UserError, match="65 inputs, the runtime takes 64"):
        artifact_bytes(Artifact("wide", "value", "", True, inputs, (Member(()),)))
    with pytest.raises(UserError, match="cannot write"):
        save_artifact(Artifact("x", "value", "", True, (), (Member(()),)), tmp_path / "no" / "such" / "folder")
