"""Many rows through many small trees by table look-ups and bit operations: QuickScorer.

Lucchese and others, "QuickScorer: a fast algorithm to rank documents with additive ensembles of regression trees"
(2015): each inner node that sends a row to the right strikes out the leaves of its left subtree; the first leaf that is
left in the tree's order is the row's. What all nodes of one feature strike out depends on the feature's value alone, so
a row takes one table look-up per feature and an AND for all trees at once, and no walk at all.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import Floats
from stripewise.models.features import Matrix
from stripewise.models.trees.arrays import TreeArrays

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


def _joined(groups: list[_Group]) -> list[_Group]:
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

    Parameters
    ----------
    trees : TreeArrays

    Raises
    ------
    ValueError
        If a tree has more leaves; see :meth:`takes`.
    """

    def __init__(self, trees: TreeArrays) -> None:
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
        self._groups = _joined(self._groups)
        self._start = np.full((1, len(walked)), every, dtype=kind)
        self._offsets = np.arange(len(walked), dtype=np.int64) * most

    @staticmethod
    def takes(trees: TreeArrays) -> bool:
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


def _in_order(trees: TreeArrays, root: int) -> tuple[list[int], list[tuple[int, int, int]]]:
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
