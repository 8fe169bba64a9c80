"""Ensembles of regression trees as plain arrays: stored, explained, exported, and evaluated by LightGBM's predictor.

Whatever grew the trees (scikit-learn, LightGBM), they end up here. Thresholds are float32 and features are float32, so
that every evaluator takes the same turns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.model.domain import Floats
from stripewise.model.features import Matrix, at_least_one

if TYPE_CHECKING:
    from stripewise.model.trees.quickscorer import QuickScorer

_MANY_ROWS = 8000
_SCORED = 2000
_KEYS = ("roots", "feature", "threshold", "left", "right", "value", "gain", "count")


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of trees.

    A point starts at each root and goes left where its feature is at most the threshold, until a leaf (feature -1)
    gives its value. The prediction is ``bias`` plus the values of all trees.

    Attributes
    ----------
    roots : ndarray of int32, shape (t,)
    feature : ndarray of int32, shape (m,)
        Of each node; -1 at leaves. The nodes of a tree follow its root, up to the next one.
    threshold : ndarray of float32, shape (m,)
    left, right : ndarray of int32, shape (m,)
        Absolute numbers of the children; -1 at leaves.
    value : ndarray of float32, shape (m,)
        What a leaf adds; inner nodes hold the mean of their rows, in the same unit, where known.
    gain : ndarray of float32, shape (m,)
        How much a split reduced the loss.
    count : ndarray of int32, shape (m,)
        Training rows.
    bias : float
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    gain: NDArray[np.float32]
    count: NDArray[np.int32]
    bias: float = 0.0

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def nodes(self) -> int:
        """Number of nodes of all trees."""
        return len(self.feature)

    @classmethod
    def from_sklearn(cls, members: Sequence[Any], factor: float = 1.0) -> Trees:
        """Take fitted scikit-learn trees; each leaf's value is multiplied by ``factor`` (1/t for their mean)."""
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in _KEYS[1:]}
        roots, start = [], 0
        for member in members:
            tree = member.tree_
            inner = tree.children_left >= 0
            roots.append(start)
            parts["feature"].append(np.where(inner, tree.feature, -1))
            parts["threshold"].append(_down(np.where(inner, tree.threshold, 0.0)))
            parts["left"].append(np.where(inner, tree.children_left + start, -1))
            parts["right"].append(np.where(inner, tree.children_right + start, -1))
            parts["value"].append(tree.value[:, 0, 0] * factor)
            weight, impurity = tree.weighted_n_node_samples, tree.impurity
            children = (
                weight[tree.children_left] * impurity[tree.children_left]
                + weight[tree.children_right] * impurity[tree.children_right]
            )
            parts["gain"].append(np.where(inner, weight * impurity - children, 0.0))
            parts["count"].append(tree.n_node_samples)
            start += tree.node_count
        return cls.of(roots, {key: np.concatenate(arrays) for key, arrays in parts.items()})

    @classmethod
    def from_lightgbm(cls, booster: Any, factor: float = 1.0) -> Trees:
        """Take a LightGBM booster without categorical splits and without missing values."""
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in _KEYS[1:]}
        roots, start = [], 0
        for block in booster.model_to_string().split("\nTree=")[1:]:
            lines = dict(line.split("=", 1) for line in block.split("\n") if "=" in line)

            def numbers(name: str, lines: dict[str, str] = lines) -> Floats:
                return np.array(lines.get(name, "").split(), dtype=np.float64)

            leaves = int(lines["num_leaves"])
            inner = leaves - 1
            # Inner nodes come first, in LightGBM's order, in which children follow their parents; then the leaves.
            zeros, none = np.zeros(leaves), np.full(leaves, -1.0)
            children = [numbers(side).astype(np.int64) for side in ("left_child", "right_child")]
            left, right = (np.where(c >= 0, c, inner + ~c) + start for c in children)
            roots.append(start)
            parts["feature"].append(np.concatenate([numbers("split_feature"), none]))
            parts["threshold"].append(_down(np.concatenate([numbers("threshold"), zeros])))
            parts["left"].append(np.concatenate([left, none]))
            parts["right"].append(np.concatenate([right, none]))
            parts["value"].append(factor * np.concatenate([numbers("internal_value"), numbers("leaf_value")]))
            parts["gain"].append(np.concatenate([numbers("split_gain"), zeros]))
            counts = numbers("leaf_count") if inner else zeros
            parts["count"].append(np.concatenate([numbers("internal_count"), counts]))
            start += inner + leaves
        if not roots:
            return cls.constant(0.0)
        return cls.of(roots, {key: np.concatenate(arrays) for key, arrays in parts.items()})

    @classmethod
    def of(cls, roots: Sequence[int], arrays: Mapping[str, NDArray[Any]], bias: float = 0.0) -> Trees:
        """Make trees of arrays of any numeric type."""
        return cls(
            np.asarray(roots, dtype=np.int32),
            np.asarray(arrays["feature"], dtype=np.int32),
            np.asarray(arrays["threshold"], dtype=np.float32),
            np.asarray(arrays["left"], dtype=np.int32),
            np.asarray(arrays["right"], dtype=np.int32),
            np.asarray(arrays["value"], dtype=np.float32),
            np.asarray(arrays["gain"], dtype=np.float32),
            np.asarray(arrays["count"], dtype=np.int32),
            bias,
        )

    @classmethod
    def constant(cls, bias: float) -> Trees:
        """Give an ensemble of no tree at all."""
        return cls.of([], {key: np.empty(0) for key in _KEYS[1:]}, bias)

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Give the arrays by name, for a model file."""
        return {prefix + key: getattr(self, key) for key in _KEYS}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], bias: float = 0.0, prefix: str = "") -> Trees:
        """Take back what :meth:`arrays` gave, and check that every walk ends.

        Raises
        ------
        UserError
            If the arrays are no trees.
        """
        try:
            trees = cls.of(arrays[prefix + "roots"].tolist(), {key: arrays[prefix + key] for key in _KEYS[1:]}, bias)
        except KeyError as error:
            raise UserError(f"the model file has no array {error}", "it is damaged: train the model again") from error
        sizes = {len(getattr(trees, key)) for key in _KEYS[1:]}
        inner = trees.feature >= 0
        own = np.flatnonzero(inner)
        # Children come after their parent and before the next tree, so no walk can go round in a circle or astray.
        ends = np.append(trees.roots[1:], trees.nodes)
        sound = bool(
            len(sizes) == 1 and np.array_equal(trees.roots[:1], [0][: trees.nodes]) and np.all(np.diff(trees.roots) > 0)
        )
        if sound and len(trees):
            sound = bool(ends[-1] > trees.roots[-1])
            last = np.repeat(ends, ends - trees.roots)[own] if sound else ends
            for child in (trees.left[inner], trees.right[inner]):
                sound = bool(sound and np.all((child > own) & (child < last)))
        if not sound:
            raise UserError("the model file holds no proper trees", "it is damaged: train the model again")
        return trees

    def walk(self, x: Matrix) -> NDArray[np.int64]:
        """Leaf that each row reaches in each tree, shape ``(n, t)``; for few trees."""
        nodes = np.tile(self.roots.astype(np.int64), (len(x), 1))
        rows = np.arange(len(x))[:, None]
        while True:
            feature = self.feature[nodes]
            inner = feature >= 0
            if not inner.any():
                return nodes
            left = x[rows, np.maximum(feature, 0)] <= self.threshold[nodes] if x.shape[1] else inner
            nodes = np.where(inner, np.where(left, self.left[nodes], self.right[nodes]), nodes)

    def first(self, count: int) -> Trees:
        """Give the first trees alone, with the same bias."""
        end = int(self.roots[count]) if count < len(self) else self.nodes
        return Trees.of(self.roots[:count].tolist(), {key: getattr(self, key)[:end] for key in _KEYS[1:]}, self.bias)

    def scaled(self, factor: float) -> Trees:
        """Give the trees with every value, and the bias, multiplied."""
        return Trees(
            self.roots, self.feature, self.threshold, self.left, self.right,
            (self.value * np.float32(factor)).astype(np.float32), self.gain, self.count, self.bias * factor,
        )  # fmt: skip

    def with_values(self, value: Floats) -> Trees:
        """Give the same splits with other values of the nodes, shape ``(m,)``."""
        arrays = self.arrays() | {"value": value}
        return Trees.of(self.roots.tolist(), arrays, 0.0)

    @staticmethod
    def joined(parts: Sequence[Trees]) -> Trees:
        """Give the sum of several ensembles over the same features."""
        offsets = np.cumsum([0, *(part.nodes for part in parts)])
        arrays: dict[str, NDArray[Any]] = {}
        for key in _KEYS[1:]:
            pieces = []
            for part, offset in zip(parts, offsets[:-1], strict=True):
                array = getattr(part, key)
                pieces.append(np.where(array >= 0, array + offset, -1) if key in ("left", "right") else array)
            arrays[key] = np.concatenate(pieces)
        roots = np.concatenate([part.roots + offset for part, offset in zip(parts, offsets[:-1], strict=True)])
        return Trees.of(roots.tolist(), arrays, float(sum(part.bias for part in parts)))

    def predict(self, x: Matrix) -> Floats:
        """Sum of all trees, shape ``(n,)``."""
        if len(x) == 0 or len(self) == 0:
            return np.full(len(x), self.bias)
        if len(x) >= _SCORED and self._scorer is not None:
            return self._scorer.predict(x)
        values: Floats = self._booster.predict(
            at_least_one(x), num_threads=threads(len(x)), predict_disable_shape_check=True
        )
        return values + self.bias

    def members(self, x: Matrix) -> Floats:
        """Value of each tree, shape ``(n, t)``, without the bias."""
        if len(x) == 0 or len(self) == 0:
            return np.zeros((len(x), len(self)))
        leaves = self._booster.predict(
            at_least_one(x), pred_leaf=True, num_threads=threads(len(x)), predict_disable_shape_check=True
        ).reshape(len(x), -1)
        offsets, flat = self._leaves
        values: Floats = flat[offsets[None, :] + leaves.astype(np.int64)]
        return values

    @cached_property
    def _leaves(self) -> tuple[NDArray[np.int64], Floats]:
        """Where each tree's leaves begin among all leaves, and the values of all leaves in LightGBM's order."""
        leaf = self.feature < 0
        before: NDArray[np.int64] = np.cumsum(leaf) - leaf
        return before[self.roots].astype(np.int64), self.value[leaf].astype(np.float64)

    @cached_property
    def _scorer(self) -> QuickScorer | None:
        """What many rows are faster with, where the trees are small enough."""
        from stripewise.model.trees.quickscorer import QuickScorer  # noqa: PLC0415  they name each other

        return QuickScorer(self) if QuickScorer.takes(self) else None

    @cached_property
    def _booster(self) -> Any:
        import lightgbm  # noqa: PLC0415  slow import

        from stripewise.model.trees.lightgbm_text import as_lightgbm  # noqa: PLC0415

        return lightgbm.Booster(model_str=as_lightgbm(self))

    def importance(self, features: int) -> Floats:
        """Total gain of each feature, shape ``(features,)``."""
        inner = self.feature >= 0
        total = np.bincount(self.feature[inner], self.gain[inner].astype(np.float64), minlength=features)
        return np.asarray(total, dtype=np.float64)


def _down(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """Largest float32 that is no larger: float32 features then take the same turn as at the double."""
    exact = np.asarray(threshold, dtype=np.float64)
    rounded = exact.astype(np.float32)
    lower: NDArray[np.float32] = np.nextafter(rounded, np.float32(-np.inf), dtype=np.float32)
    return np.where(rounded.astype(np.float64) > exact, lower, rounded)


def threads(rows: int) -> int:
    """Threads for so many rows: one for few, for which threads would mostly wait for one another."""
    return 1 if rows < _MANY_ROWS else len(os.sched_getaffinity(0))
