"""Ensembles of regression trees: made from those of scikit-learn or LightGBM, and evaluated fast.

Thresholds and features are float32, so that every evaluator takes the same turns. QuickScorer evaluates many rows where
the trees are small enough, and LightGBM's predictor all others.

That predictor reads the text format of ``Booster.save_model``: per tree the inner nodes, numbered from 0 with the root
first, children as inner numbers or, for leaves, as the complement of the leaf's number. Parents come before their
children in :class:`~stripewise.models.trees.arrays.TreeArrays`, so its own order will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import Floats
from stripewise.models.features import Matrix, at_least_one
from stripewise.models.trees.arrays import KEYS, TreeArrays
from stripewise.models.trees.quickscorer import QuickScorer
from stripewise.threads import threads

_DECISION = 2
"""Numerical split, missing values treated as any number."""


def as_lightgbm(trees: TreeArrays) -> str:
    """Write trees in LightGBM's text format (the bias is left out)."""
    features = int(trees.feature.max(initial=0)) + 1
    lines = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        "label_index=0",
        f"max_feature_idx={features - 1}",
        "objective=regression",
        "feature_names=" + " ".join(f"f{i}" for i in range(features)),
        "feature_infos=" + " ".join(["[-1e300:1e300]"] * features),
        "",
    ]
    ends = np.append(trees.roots[1:], trees.nodes)
    for number, (first, end) in enumerate(zip(trees.roots.tolist(), ends.tolist(), strict=True)):
        lines += [f"Tree={number}", *_tree(trees, first, end), "", ""]
    return "\n".join([*lines, "end of trees", ""])


def _tree(trees: TreeArrays, first: int, end: int) -> list[str]:
    """Lines of the tree of these nodes; inner nodes, and leaves, are numbered in the order of the arrays."""
    feature = trees.feature[first:end]
    inner = feature >= 0
    count, leaves = int(inner.sum()), int((~inner).sum())
    values = " ".join(map(repr, trees.value[first:end][~inner].astype(np.float64).tolist()))
    if count == 0:
        return ["num_leaves=1", "num_cat=0", f"leaf_value={values}", "is_linear=0", "shrinkage=1"]
    number = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))

    def row(name: str, items: NDArray[Any]) -> str:
        return f"{name}=" + " ".join(map(repr, items.tolist()))

    def same(name: str, value: int, times: int) -> str:
        return f"{name}=" + " ".join([str(value)] * times)

    return [
        f"num_leaves={leaves}",
        "num_cat=0",
        row("split_feature", feature[inner]),
        same("split_gain", 0, count),
        row("threshold", trees.threshold[first:end][inner].astype(np.float64)),
        same("decision_type", _DECISION, count),
        row("left_child", number[trees.left[first:end][inner] - first]),
        row("right_child", number[trees.right[first:end][inner] - first]),
        f"leaf_value={values}",
        same("leaf_weight", 1, leaves),
        same("leaf_count", 1, leaves),
        same("internal_value", 0, count),
        same("internal_weight", 1, count),
        same("internal_count", 1, count),
        "is_linear=0",
        "shrinkage=1",
    ]


_SCORED = 2000


@dataclass(frozen=True, eq=False)
class Trees(TreeArrays):
    """A sum of trees that predicts; see :class:`~stripewise.models.trees.arrays.TreeArrays`."""

    @classmethod
    def from_sklearn(cls, members: Sequence[Any], factor: float = 1.0) -> Self:
        """Take fitted scikit-learn trees; each leaf's value is multiplied by ``factor`` (1/t for their mean)."""
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in KEYS[1:]}
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
    def from_lightgbm(cls, booster: Any) -> Self:
        """Take a LightGBM booster without categorical splits and without missing values."""
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in KEYS[1:]}
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
            parts["value"].append(np.concatenate([numbers("internal_value"), numbers("leaf_value")]))
            parts["gain"].append(np.concatenate([numbers("split_gain"), zeros]))
            counts = numbers("leaf_count") if inner else zeros
            parts["count"].append(np.concatenate([numbers("internal_count"), counts]))
            start += inner + leaves
        if not roots:
            return cls.constant(0.0)
        return cls.of(roots, {key: np.concatenate(arrays) for key, arrays in parts.items()})

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
        """A faster evaluator for many rows; None where the trees are too large for it."""
        return QuickScorer(self) if QuickScorer.takes(self) else None

    @cached_property
    def _booster(self) -> Any:
        import lightgbm  # noqa: PLC0415  slow import

        return lightgbm.Booster(model_str=as_lightgbm(self))

    def importance(self, features: int) -> Floats:
        """Total gain of each feature, shape ``(features,)``."""
        inner = self.feature >= 0
        total = np.bincount(self.feature[inner], self.gain[inner].astype(np.float64), minlength=features)
        return np.asarray(total, dtype=np.float64)


def _down(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """Largest float32 that is not larger: float32 features then take the same turn as at the double."""
    exact = np.asarray(threshold, dtype=np.float64)
    rounded = exact.astype(np.float32)
    lower: NDArray[np.float32] = np.nextafter(rounded, np.float32(-np.inf), dtype=np.float32)
    return np.where(rounded.astype(np.float64) > exact, lower, rounded)
