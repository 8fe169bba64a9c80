"""The parts of an artifact that compute: trees, layers, and the members of its blend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.artifact.program import OUTPUT, Numbers, Program, run
from stripewise.spec.formats import ARTIFACT_NONE


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """A tree in preorder.

    Attributes
    ----------
    value : ndarray of float32
        Threshold of an inner node, value of a leaf.
    feature : ndarray of uint32
        :data:`~stripewise.spec.formats.ARTIFACT_NONE` for a leaf.
    right : ndarray of uint32
        Place of the right child; the left one follows its parent.
    """

    value: NDArray[np.float32]
    feature: NDArray[np.uint32]
    right: NDArray[np.uint32]

    def predict(self, features: Sequence[Numbers], n: int) -> Numbers:
        """Value of the leaf that each of ``n`` rows falls into."""
        node = np.zeros(n, dtype=np.int64)
        inner = self.feature[node] != ARTIFACT_NONE
        columns = np.stack([np.broadcast_to(f, (n,)) for f in features], axis=1) if len(features) else np.zeros((n, 1))
        columns = np.where(np.isnan(columns), np.inf, columns)
        values = self.value.astype(np.float64)
        while inner.any():
            rows = np.flatnonzero(inner)
            at = node[rows]
            left = columns[rows, self.feature[at]] <= values[at]
            node[rows] = np.where(left, at + 1, self.right[at])
            inner[rows] = self.feature[node[rows]] != ARTIFACT_NONE
        return values[node]


@dataclass(frozen=True, eq=False)
class Layer:
    """A fully connected layer; ``weights`` of shape (outputs, inputs) and ``bias`` are float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    rectify: bool

    def predict(self, x: Numbers) -> Numbers:
        """Outputs for rows ``x`` of shape (n, inputs)."""
        result = x @ self.weights.astype(np.float64).T + self.bias.astype(np.float64)
        return np.where(result < 0, 0.0, result) if self.rectify else result


@dataclass(frozen=True, eq=False)
class Member:
    """One of the models that are blended: either trees or layers.

    Its value is ``weight * gate * post(base + scale * raw)``, where raw is the sum of the trees or the output of the
    network.
    """

    features: tuple[Program, ...]
    trees: tuple[TreeBlock, ...] = ()
    layers: tuple[Layer, ...] = ()
    weight: float = 1.0
    base: float = 0.0
    scale: float = 1.0
    gate: Program | None = None
    post: Program = OUTPUT
    float32: bool = False

    def encode(self, inputs: Sequence[Any]) -> list[Numbers]:
        """The features of rows: one column for each input."""
        found = [run(program, inputs) for program in self.features]
        if self.float32:
            with np.errstate(all="ignore"):
                found = [feature.astype(np.float32).astype(np.float64) for feature in found]
        return found

    def predict(self, inputs: Sequence[Any], n: int) -> Numbers:
        """What the member adds to the blend for ``n`` rows."""
        encoded = self.encode(inputs)
        if self.layers:
            x = np.stack([np.broadcast_to(f, (n,)) for f in encoded], axis=1)
            for layer in self.layers:
                x = layer.predict(x)
            raw = x[:, 0]
        else:
            raw = np.zeros(n)
            for tree in self.trees:
                raw = raw + tree.predict(encoded, n)
        value = run(self.post, inputs, self.base + self.scale * raw)
        gate = np.float64(1.0) if self.gate is None else run(self.gate, inputs)
        return np.where(np.broadcast_to(gate, (n,)) != 0, self.weight * gate * value, 0.0)
