"""Ensembles of regression trees: made from those of scikit-learn or LightGBM, and evaluated fast.

Thresholds and features are float32, so that every evaluator takes the same turns. QuickScorer evaluates many rows where
the trees are small enough, and LightGBM's predictor all others.

That predictor reads the text format of ``Booster.save_model``: per tree the inner nodes, numbered from 0 with the root
first, children as inner numbers or, for leaves, as the complement of the leaf's number. Parents come before their
children in :class:`~stripewise.models.trees.ensemble.Trees`, so its own order will do.

QuickScorer follows Lucchese and others, "QuickScorer: a fast algorithm to rank documents with additive ensembles of
regression trees" (2015): each inner node that sends a row to the right strikes out the leaves of its left subtree; the
first leaf that is left in the tree's order is the row's. What all nodes of one feature strike out depends on the
feature's value alone: a row takes one table look-up per feature and an AND for all trees at once, and no walk at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix, at_least_one
from stripewise.threads import threads

KEYS = ("roots", "feature", "threshold", "left", "right", "value", "gain", "count")


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
    def of(cls, roots: Sequence[int], arrays: Mapping[str, NDArray[Any]], bias: float = 0.0) -> Self:
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
    def constant(cls, bias: float) -> Self:
        """Give an ensemble of no tree at all."""
        return cls.of([], {key: np.empty(0) for key in KEYS[1:]}, bias)

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Give the arrays by name, for a model file."""
        return {prefix + key: getattr(self, key) for key in KEYS}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]], width: int, bias: float = 0.0, prefix: str = "") -> Self:
        """Take back what :meth:`arrays` gave of trees over ``width`` features, and check that every walk ends.

        Raises
        ------
        UserError
            If the arrays are not trees.
        """
        try:
            trees = cls.of(arrays[prefix + "roots"].tolist(), {key: arrays[prefix + key] for key in KEYS[1:]}, bias)
        except KeyError as error:
            raise UserError(
                f"the model file lacks the array {error}", "it is damaged: train the model again"
            ) from error
        if {getattr(trees, key).shape for key in KEYS[1:]} != {(trees.nodes,)} or trees.roots.ndim != 1:
            raise UserError("the arrays of the trees of the model file do not fit", "train the model again")
        inner = trees.feature >= 0
        own = np.flatnonzero(inner)
        # Children come after their parent and before the next tree, so no walk can go round in a circle or astray.
        ends = np.append(trees.roots[1:], trees.nodes)
        sound = bool(np.array_equal(trees.roots[:1], [0][: trees.nodes]) and np.all(np.diff(trees.roots) > 0))
        sound = sound and int(trees.feature.max(initial=0)) < max(width, 1)
        if sound and len(trees):
            sound = bool(ends[-1] > trees.roots[-1])
            last = np.repeat(ends, ends - trees.roots)[own] if sound else ends
            for child in (trees.left[inner], trees.right[inner]):
                sound = bool(sound and np.all((child > own) & (child < last)))
            # Each node is a root or has one parent, so leaves are one more than splits, as LightGBM wants them.
            reached = np.concatenate([trees.roots, trees.left[inner], trees.right[inner]])
            sound = sound and np.array_equal(np.sort(reached), np.arange(trees.nodes))
        if not sound:
            raise UserError("the trees of the model file are damaged", "train the model again")
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

    def first(self, count: int) -> Self:
        """Give the first trees alone, with the same bias."""
        end = int(self.roots[count]) if count < len(self) else self.nodes
        return self.of(self.roots[:count].tolist(), {key: getattr(self, key)[:end] for key in KEYS[1:]}, self.bias)

    def scaled(self, factor: float) -> Self:
        """Give the trees with every value, and the bias, multiplied."""
        return type(self)(
            self.roots, self.feature, self.threshold, self.left, self.right,
            (self.value * np.float32(factor)).astype(np.float32), self.gain, self.count, self.bias * factor,
        )  # fmt: skip

    def with_values(self, value: Floats) -> Self:
        """Give the same splits with other values of the nodes, shape ``(m,)``."""
        arrays = self.arrays() | {"value": value}
        return self.of(self.roots.tolist(), arrays, 0.0)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Give the sum of several ensembles over the same features."""
        offsets = np.cumsum([0, *(part.nodes for part in parts)])
        arrays: dict[str, NDArray[Any]] = {}
        for key in KEYS[1:]:
            pieces = []
            for part, offset in zip(parts, offsets[:-1], strict=True):
                array = getattr(part, key)
                pieces.append(np.where(array >= 0, array + offset, -1) if key in ("left", "right") else array)
            arrays[key] = np.concatenate(pieces)
        roots = np.concatenate([part.roots + offset for part, offset in zip(parts, offsets[:-1], strict=True)])
        return cls.of(roots.tolist(), arrays, float(sum(part.bias for part in parts)))

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
            parts["threshold"].append(_round_down(np.where(inner, tree.threshold, 0.0)))
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
            parts["threshold"].append(_round_down(np.concatenate([numbers("threshold"), zeros])))
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

    def predict_each(self, x: Matrix) -> Floats:
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


_DECISION = 2
"""Numerical split, missing values treated as any number."""


def as_lightgbm(trees: Trees) -> str:
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


def _tree(trees: Trees, first: int, end: int) -> list[str]:
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


def _round_down(threshold: NDArray[Any]) -> NDArray[np.float32]:
    """Largest float32 that is not larger: float32 features then take the same turn as at the double."""
    exact = np.asarray(threshold, dtype=np.float64)
    rounded = exact.astype(np.float32)
    lower: NDArray[np.float32] = np.nextafter(rounded, np.float32(-np.inf), dtype=np.float32)
    return np.where(rounded.astype(np.float64) > exact, lower, rounded)


_PART = 32_768
_ROWS = 512
"""At a time: their masks of some hundred trees stay in the cache."""
_JOINT = 512
"""Features of few thresholds share a table of up to so many rows: a look-up for all of them."""


@dataclass(frozen=True, eq=False)
class _Group:
    """Features with a table of what their values strike out of each tree.

    ``parts`` has the number, the thresholds and the stride of each; ``table`` a row for each combination of the spans
    between thresholds and a column for each tree.
    """

    parts: tuple[tuple[int, NDArray[np.float32], int], ...]
    table: NDArray[np.unsignedinteger[Any]]

    def place(self, x: Matrix) -> NDArray[np.int64]:
        """Row of the table for each row of ``x``."""
        total = np.zeros(len(x), dtype=np.int64)
        for feature, thresholds, stride in self.parts:
            total += stride * np.searchsorted(thresholds, np.ascontiguousarray(x[:, feature]))
        return total

    def with_other(self, other: _Group) -> _Group:
        """Both together."""
        rows = len(other.table)
        parts = tuple((feature, thresholds, stride * rows) for feature, thresholds, stride in self.parts)
        joint = self.table[:, None, :] & other.table[None, :, :]
        return _Group(parts + other.parts, joint.reshape(-1, self.table.shape[1]))


def _join_small(groups: list[_Group]) -> list[_Group]:
    """Join the smallest with one another as long as they stay small."""
    waiting = sorted(groups, key=lambda group: len(group.table))
    done: list[_Group] = []
    while waiting:
        first = waiting.pop(0)
        if waiting and len(first.table) * len(waiting[0].table) <= _JOINT:
            waiting[0] = first.with_other(waiting[0])
            waiting.sort(key=lambda group: len(group.table))
        else:
            done.append(first)
    return done


class QuickScorer:
    """Evaluates trees of at most 64 leaves; exact, but for the order in which the leaves are added.

    Raises
    ------
    ValueError
        If a tree has more leaves; see :meth:`takes`.
    """

    def __init__(self, trees: Trees) -> None:
        walked = [_in_order(trees, int(root)) for root in trees.roots]
        most = max((len(leaves) for leaves, _ in walked), default=1)
        if most > 64:
            raise ValueError(f"a tree has {most} leaves")
        self._wide = most > 32
        kind = np.uint64 if self._wide else np.uint32
        self._bias = trees.bias
        self._values = np.zeros((len(walked), most))
        nodes: dict[int, list[tuple[float, int, int]]] = {}
        for tree, (leaves, inner) in enumerate(walked):
            self._values[tree, : len(leaves)] = trees.value[leaves]
            for node, first, end in inner:
                struck = ((1 << end) - 1) ^ ((1 << first) - 1)
                nodes.setdefault(int(trees.feature[node]), []).append((float(trees.threshold[node]), tree, struck))
        every = (1 << (64 if self._wide else 32)) - 1
        self._groups: list[_Group] = []
        for feature, own in nodes.items():
            thresholds = np.unique(np.asarray([threshold for threshold, _, _ in own], dtype=np.float32))
            place = np.searchsorted(thresholds, np.asarray([threshold for threshold, _, _ in own], dtype=np.float32))
            table = np.full((len(thresholds) + 1, len(walked)), every, dtype=kind)
            spared = np.asarray([every ^ struck for _, _, struck in own], dtype=kind)
            np.bitwise_and.at(table, (place + 1, np.asarray([tree for _, tree, _ in own])), spared)
            self._groups.append(_Group(((feature, thresholds, 1),), np.bitwise_and.accumulate(table, axis=0)))
        self._groups = _join_small(self._groups)
        self._start = np.full((1, len(walked)), every, dtype=kind)
        self._offsets = np.arange(len(walked), dtype=np.int64) * most

    @staticmethod
    def takes(trees: Trees) -> bool:
        """Whether all trees are small enough."""
        if len(trees) == 0:
            return False
        ends = np.append(np.sort(trees.roots), trees.nodes)
        leaves = np.cumsum(np.append(0, trees.feature < 0))
        return bool(np.max(np.diff(leaves[ends])) <= 64)

    def predict(self, x: Matrix) -> Floats:
        """Sum of all trees and the bias, shape ``(n,)``."""
        result = np.empty(len(x))
        parts = [slice(start, start + _PART) for start in range(0, len(x), _PART)]
        if len(parts) < 2:
            for part in parts:
                result[part] = self._some(x[part])
            return result
        # NumPy works outside of the interpreter's lock: threads share the processors.
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for part, values in zip(parts, pool.map(lambda part: self._some(x[part]), parts), strict=True):
                result[part] = values
        return result

    def _some(self, x: Matrix) -> Floats:
        bins = [group.place(x) for group in self._groups]
        result = np.empty(len(x))
        flat = self._values.reshape(-1)
        for start in range(0, len(x), _ROWS):
            part = slice(start, min(len(x), start + _ROWS))
            left = np.repeat(self._start, part.stop - part.start, axis=0)
            taken = np.empty_like(left)
            for own, group in zip(bins, self._groups, strict=True):
                np.take(group.table, own[part], axis=0, out=taken, mode="clip")  # all are inside: "raise" would copy
                np.bitwise_and(left, taken, out=left)
            np.bitwise_and(left, ~left + left.dtype.type(1), out=left)
            result[part] = np.take(flat, self._place(left) + self._offsets).sum(axis=1)
        return result + self._bias

    def _place(self, bit: NDArray[np.unsignedinteger]) -> NDArray[np.integer]:
        """Number of the only bit that is set: the exponent of the number as a float."""
        if self._wide:
            return (bit.astype(np.float64).view(np.int64) >> 52) - 1023
        return (bit.astype(np.float32).view(np.int32) >> 23) - 127


def _in_order(trees: Trees, root: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Leaves from left to right, and of each inner node the span of leaves in its left subtree."""
    leaves: list[int] = []
    inner: list[tuple[int, int, int]] = []
    # Nodes to visit, and inner nodes whose left subtree is done once they come up again.
    waiting: list[tuple[int, int]] = [(root, -1)]
    while waiting:
        node, first = waiting.pop()
        if first >= 0:
            inner.append((node, first, len(leaves)))
        elif trees.feature[node] < 0:
            leaves.append(node)
        else:
            waiting += [(int(trees.right[node]), -1), (node, len(leaves)), (int(trees.left[node]), -1)]
    return leaves, inner
