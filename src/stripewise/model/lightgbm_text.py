"""Trees in LightGBM's text format, so that its fast predictor evaluates forests too.

The format is that of ``Booster.save_model``: per tree the inner nodes, numbered from 0 with the root first, children
as inner numbers or, for leaves, as the complement of the leaf's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stripewise.model.trees import Trees

_DECISION = 2
"""Numerical split, missing values treated as any number."""


def _walk(trees: Trees, root: int) -> tuple[list[int], list[int]]:
    """Inner nodes and leaves of a tree, parents first."""
    inner, leaves, waiting = [], [], [root]
    while waiting:
        node = waiting.pop()
        if trees.feature[node] < 0:
            leaves.append(node)
        else:
            inner.append(node)
            waiting += [int(trees.right[node]), int(trees.left[node])]
    return inner, leaves


def leaf_order(trees: Trees, root: int) -> NDArray[np.int64]:
    """Nodes of a tree's leaves in the order in which :func:`as_lightgbm` numbers them."""
    return np.asarray(_walk(trees, root)[1], dtype=np.int64)


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
    for number, root in enumerate(trees.roots):
        lines += [f"Tree={number}", *_tree(trees, int(root)), "", ""]
    return "\n".join([*lines, "end of trees", ""])


def _tree(trees: Trees, root: int) -> list[str]:
    inner, leaves = _walk(trees, root)
    values = " ".join(repr(float(trees.value[leaf])) for leaf in leaves)
    if not inner:
        return ["num_leaves=1", "num_cat=0", f"leaf_value={values}", "is_linear=0", "shrinkage=1"]
    number = {node: place for place, node in enumerate(inner)} | {node: ~place for place, node in enumerate(leaves)}

    def row(name: str, items: list[str]) -> str:
        return f"{name}=" + " ".join(items)

    return [
        f"num_leaves={len(leaves)}",
        "num_cat=0",
        row("split_feature", [str(int(trees.feature[node])) for node in inner]),
        row("split_gain", ["0"] * len(inner)),
        row("threshold", [repr(float(trees.threshold[node])) for node in inner]),
        row("decision_type", [str(_DECISION)] * len(inner)),
        row("left_child", [str(number[int(trees.left[node])]) for node in inner]),
        row("right_child", [str(number[int(trees.right[node])]) for node in inner]),
        f"leaf_value={values}",
        row("leaf_weight", ["1"] * len(leaves)),
        row("leaf_count", ["1"] * len(leaves)),
        row("internal_value", ["0"] * len(inner)),
        row("internal_weight", ["1"] * len(inner)),
        row("internal_count", ["1"] * len(inner)),
        "is_linear=0",
        "shrinkage=1",
    ]
