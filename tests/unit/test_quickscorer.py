"""QuickScorer gives what walking down the trees gives."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.models.trees.ensemble import QuickScorer, Trees


def random_trees(rng: np.random.Generator, count: int, leaves: int, features: int) -> Trees:
    columns: dict[str, list[float]] = {key: [] for key in ("feature", "threshold", "left", "right", "value")}
    roots = []

    def grow(size: int) -> int:
        place = len(columns["feature"])
        split = size > 1
        columns["feature"].append(int(rng.integers(features)) if split else -1)
        # Few thresholds, so that rows meet them exactly.
        columns["threshold"].append(float(rng.integers(0, 8)) / 2)
        columns["value"].append(float(rng.normal()))
        columns["left"].append(-1)
        columns["right"].append(-1)
        if split:
            first = int(rng.integers(1, size))
            columns["left"][place] = grow(first)
            columns["right"][place] = grow(size - first)
        return place

    for _ in range(count):
        roots.append(grow(int(rng.integers(1, leaves + 1))))
    arrays = {key: np.asarray(values) for key, values in columns.items()}
    zeros = np.zeros(len(arrays["feature"]))
    return Trees.of(roots, {**arrays, "gain": zeros, "count": zeros}, bias=0.25)


@pytest.mark.parametrize("leaves", [1, 2, 31, 32, 33, 64])
@pytest.mark.parametrize("rows", [1, 700, 40_000])
def test_it_agrees_with_walking_down(leaves: int, rows: int) -> None:
    rng = np.random.default_rng(leaves)
    trees = random_trees(rng, 13, leaves, 4)
    assert QuickScorer.takes(trees)
    x = (rng.integers(-1, 10, size=(rows, 4)) / 2).astype(np.float32)
    expected = trees.value[trees.walk(x)].astype(np.float64).sum(axis=1) + trees.bias
    assert np.allclose(QuickScorer(trees).predict(x), expected, rtol=1e-12, atol=1e-12)


def test_large_trees_are_left_to_others() -> None:
    rng = np.random.default_rng(0)
    trees = random_trees(rng, 1, 1, 2)
    while max(len(trees.feature[trees.feature < 0]), 0) <= 64:
        trees = random_trees(rng, 1, 200, 2)
    assert not QuickScorer.takes(trees)
    with pytest.raises(ValueError, match="leaves"):
        QuickScorer(trees)


def test_no_rows() -> None:
    trees = random_trees(np.random.default_rng(1), 3, 5, 2)
    assert len(QuickScorer(trees).predict(np.zeros((0, 2), dtype=np.float32))) == 0


@pytest.mark.slow
def test_the_first_trees_alone() -> None:
    rng = np.random.default_rng(2)
    trees = random_trees(rng, 6, 20, 3)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    each = trees.value[trees.walk(x)].astype(np.float64)
    for count in (1, 4, 6):
        assert np.allclose(trees.first(count).predict(x), each[:, :count].sum(axis=1) + trees.bias)


def test_features_of_few_thresholds_share_a_table() -> None:
    trees = random_trees(np.random.default_rng(3), 8, 16, 4)
    scorer = QuickScorer(trees)
    # Eight thresholds at most each: nine spans, and 9 x 9 but not 9 x 9 x 9 are few enough.
    assert len(scorer._groups) == 2
    assert sorted(feature for group in scorer._groups for feature, _, _ in group.parts) == [0, 1, 2, 3]
