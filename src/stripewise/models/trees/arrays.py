"""Regression trees as plain arrays, whatever grew them: stored, checked, combined and walked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix

KEYS = ("roots", "feature", "threshold", "left", "right", "value", "gain", "count")


@dataclass(frozen=True, eq=False)
class TreeArrays:
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
    def restored(cls, arrays: Mapping[str, NDArray[Any]], bias: float = 0.0, prefix: str = "") -> Self:
        """Take back what :meth:`arrays` gave, and check that every walk ends.

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
        sizes = {len(getattr(trees, key)) for key in KEYS[1:]}
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
