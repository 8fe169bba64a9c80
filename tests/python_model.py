"""The runtime's artifact, evaluated in Python: what the library in C is compared with.

Programs agree to the bit, values to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.formats import ARTIFACT_NONE, Op
from stripewise.models.artifact.content import Artifact, Layer, Member, TreeBlock
from stripewise.models.artifact.program import Program, log2

Numbers = NDArray[np.float64]


def _choose(first: NDArray[np.bool_], a: Any, b: Any) -> Any:
    return np.where(first | np.isnan(a), a, b)


_UNARY: dict[Op, Callable[[Any], Any]] = {
    Op.LOG2: log2,
    Op.EXP: np.exp,
    Op.SINGLE: lambda a: np.asarray(a, dtype=np.float32).astype(np.float64),
    Op.ABS: np.abs,
    Op.NEGATE: np.negative,
    Op.NOT: lambda a: np.asarray(a == 0, dtype=np.float64),
}


def _truth(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: np.asarray(function(a, b), dtype=np.float64)


_BINARY: dict[Op, Callable[[Any, Any], Any]] = {
    Op.ADD: np.add,
    Op.SUBTRACT: np.subtract,
    Op.MULTIPLY: np.multiply,
    Op.DIVIDE: np.divide,
    Op.FLOOR_DIVIDE: np.floor_divide,
    Op.MODULO: np.mod,
    Op.MINIMUM: lambda a, b: _choose(np.asarray(a < b), a, b),
    Op.MAXIMUM: lambda a, b: _choose(np.asarray(a > b), a, b),
    Op.EQUAL: _truth(np.equal),
    Op.NOT_EQUAL: _truth(np.not_equal),
    Op.LESS: _truth(np.less),
    Op.LESS_EQUAL: _truth(np.less_equal),
    Op.GREATER: _truth(np.greater),
    Op.GREATER_EQUAL: _truth(np.greater_equal),
    Op.AND: _truth(np.logical_and),
    Op.OR: _truth(np.logical_or),
}


def run(program: Program, inputs: Sequence[Any], output: Any = None) -> Numbers:
    """Run a program for scalars or for many rows at once.

    Parameters
    ----------
    program : Program
    inputs : sequence of float or ndarray, shape (n,)
        One for each input.
    output : float or ndarray, optional
        What ``OUTPUT`` pushes.

    Returns
    -------
    ndarray
        Of shape ``()`` or ``(n,)``.
    """
    stack: list[Any] = []
    with np.errstate(all="ignore"):
        for op, operand in program:
            if op is Op.INPUT:
                stack.append(np.asarray(inputs[int(operand)], dtype=np.float64))
            elif op is Op.CONSTANT:
                stack.append(np.float64(operand))
            elif op is Op.OUTPUT:
                stack.append(np.asarray(output, dtype=np.float64))
            elif op in _UNARY:
                stack.append(_UNARY[op](stack.pop()))
            elif op is Op.SELECT:
                b, a, test = stack.pop(), stack.pop(), stack.pop()
                stack.append(np.where(test != 0, a, b))
            else:
                b, a = stack.pop(), stack.pop()
                stack.append(_BINARY[op](a, b))
    return np.asarray(stack.pop(), dtype=np.float64)


def tree_values(tree: TreeBlock, features: Sequence[Numbers], n: int) -> Numbers:
    """Value of the leaf that each of ``n`` rows falls into."""
    node = np.zeros(n, dtype=np.int64)
    inner = tree.feature[node] != ARTIFACT_NONE
    columns = np.stack([np.broadcast_to(f, (n,)) for f in features], axis=1) if len(features) else np.zeros((n, 1))
    columns = np.where(np.isnan(columns), np.inf, columns)
    values = tree.value.astype(np.float64)
    while inner.any():
        rows = np.flatnonzero(inner)
        at = node[rows]
        left = columns[rows, tree.feature[at]] <= values[at]
        node[rows] = np.where(left, at + 1, tree.right[at])
        inner[rows] = tree.feature[node[rows]] != ARTIFACT_NONE
    return values[node]


def outputs(layer: Layer, x: Numbers) -> Numbers:
    """Outputs of a layer for rows ``x`` of shape (n, inputs)."""
    result = x @ layer.weights.astype(np.float64).T + layer.bias.astype(np.float64)
    return np.where(result < 0, 0.0, result) if layer.rectify else result


def encode(member: Member, inputs: Sequence[Any]) -> list[Numbers]:
    """The features of rows: one column for each input."""
    found = [run(program, inputs) for program in member.features]
    if member.float32:
        with np.errstate(all="ignore"):
            found = [feature.astype(np.float32).astype(np.float64) for feature in found]
    return found


def added(member: Member, inputs: Sequence[Any], n: int) -> Numbers:
    """What a member adds to the blend for ``n`` rows."""
    encoded = encode(member, inputs)
    if member.layers:
        x = np.stack([np.broadcast_to(f, (n,)) for f in encoded], axis=1)
        for layer in member.layers:
            x = outputs(layer, x)
        raw = x[:, 0]
    else:
        raw = np.zeros(n)
        for tree in member.trees:
            raw = raw + tree_values(tree, encoded, n)
    value = run(member.post, inputs, member.base + member.scale * raw)
    gate = np.float64(1.0) if member.gate is None else run(member.gate, inputs)
    return np.where(np.broadcast_to(gate, (n,)) != 0, member.weight * gate * value, 0.0)


def predict(artifact: Artifact, inputs: Sequence[Any], n: int) -> Numbers:
    """Predict the objective for ``n`` rows; ``inputs`` has a number or a column for each input."""
    blend = np.zeros(n)
    for member in artifact.members:
        blend = blend + added(member, inputs, n)
    return np.broadcast_to(run(artifact.result, inputs, blend), (n,))
