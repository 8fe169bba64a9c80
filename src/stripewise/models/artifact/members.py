"""The parts of an artifact that compute: trees, layers, and the members of its blend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.models.artifact.program import OUTPUT, Program


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """A tree in preorder.

    Attributes
    ----------
    value : ndarray of float32
        Threshold of an inner node, value of a leaf.
    feature : ndarray of uint32
        :data:`~stripewise.formats.ARTIFACT_NONE` for a leaf.
    right : ndarray of uint32
        Place of the right child; the left one follows its parent.
    """

    value: NDArray[np.float32]
    feature: NDArray[np.uint32]
    right: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Layer:
    """A fully connected layer; ``weights`` of shape (outputs, inputs) and ``bias`` are float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    rectify: bool


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
