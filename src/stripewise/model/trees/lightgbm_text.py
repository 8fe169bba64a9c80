"""Trees in LightGBM's text format, so that its fast predictor evaluates forests too.

The format is that of ``Booster.save_model``: per tree the inner nodes, numbered from 0 with the root first, children
as inner numbers or, for leaves, as the complement of the leaf's number. Parents come before their children in
:class:`~stripewise.model.trees.arrays.TreeArrays`, so its own order will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.trees.arrays import TreeArrays

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
