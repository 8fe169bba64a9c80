"""Programs of the artifact: straight-line arithmetic on a stack, which ``native/core/model_predict.c`` runs.

A program computes a feature, a rule between settings, or what becomes of a model's output. It is a tuple of
instructions; the stack starts empty and ends with one number.

Arithmetic that Python and the runtime in C carry out to the very same bits.

Additions, multiplications and divisions of IEEE 754 doubles are exact to the last bit everywhere; the logarithms of C
libraries and of NumPy are not. So the features' logarithm is spelled out here in such steps, and
``native/core/model_predict.c`` takes the same steps in the same order.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.expression import Expression
from stripewise.errors import UserError
from stripewise.formats import ARTIFACT_STACK, Op

Instruction = tuple[Op, float]
"""An instruction with its operand: the input's number, the constant, else 0."""

Program = tuple[Instruction, ...]


def read(number: int) -> Program:
    """Push an input."""
    return ((Op.INPUT, float(number)),)


def constant(value: float) -> Program:
    """Push a number."""
    return ((Op.CONSTANT, float(value)),)


OUTPUT: Program = ((Op.OUTPUT, 0.0),)
"""Push what the model gave."""


def apply(op: Op, *parts: Program) -> Program:
    """Compute the parts, then combine them."""
    return (*(instruction for part in parts for instruction in part), (op, 0.0))


def depth(program: Program) -> int:
    """Most numbers on the stack at once."""
    most = now = 0
    for op, _ in program:
        now += 1 if op <= Op.OUTPUT else (0 if op <= Op.NOT else (-2 if op is Op.SELECT else -1))
        most = max(most, now)
    return most


_BINARY_NODES: dict[type[ast.operator], Op] = {
    ast.Add: Op.ADD,
    ast.Sub: Op.SUBTRACT,
    ast.Mult: Op.MULTIPLY,
    ast.Div: Op.DIVIDE,
    ast.FloorDiv: Op.FLOOR_DIVIDE,
    ast.Mod: Op.MODULO,
}
_COMPARE_NODES: dict[type[ast.cmpop], Op] = {
    ast.Eq: Op.EQUAL,
    ast.NotEq: Op.NOT_EQUAL,
    ast.Lt: Op.LESS,
    ast.LtE: Op.LESS_EQUAL,
    ast.Gt: Op.GREATER,
    ast.GtE: Op.GREATER_EQUAL,
}
_CALLS = {"min": Op.MINIMUM, "max": Op.MAXIMUM, "abs": Op.ABS, "log2": Op.LOG2}


def compile_expression(expression: Expression, names: Mapping[str, Program], code: Callable[[str], float]) -> Program:
    """Turn an expression of a stack or table into a program.

    Parameters
    ----------
    names : mapping
        The program that computes each name it uses.
    code : callable
        The number that stands for a text.

    Raises
    ------
    UserError
        If a name is missing, or the expression needs a deeper stack than the runtime has.
    """
    body = ast.parse(f"(\n{expression.text}\n)", mode="eval").body
    program = _Compiler(expression.text, names, code).of(body)
    if depth(program) > ARTIFACT_STACK:
        raise UserError(f"'{expression.text}' is nested too deeply for the runtime", "split it")
    return program


class _Compiler:
    def __init__(self, text: str, names: Mapping[str, Program], code: Callable[[str], float]) -> None:
        self._text = text
        self._names = names
        self._code = code

    def of(self, node: ast.expr) -> Program:
        match node:
            case ast.Constant(value=str() as text):
                return constant(self._code(text))
            case ast.Constant(value=bool() | int() | float() as number):
                return constant(float(number))
            case ast.Name(id="true" | "false" as word):
                return constant(float(word == "true"))
            case ast.Name(id=name):
                if name not in self._names:
                    raise UserError(f"'{self._text}' needs {name}, which the model does not know")
                return self._names[name]
            case ast.BoolOp(op=op, values=values):
                return self._fold(Op.AND if isinstance(op, ast.And) else Op.OR, [self.of(value) for value in values])
            case ast.BinOp(op=op, left=left, right=right):
                return apply(_BINARY_NODES[type(op)], self.of(left), self.of(right))
            case ast.UnaryOp(op=op, operand=operand):
                return apply(Op.NOT if isinstance(op, ast.Not) else Op.NEGATE, self.of(operand))
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare(left, ops, rights)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return apply(Op.SELECT, self.of(test), self.of(body), self.of(orelse))
            case ast.Call(func=ast.Name(id=name), args=args):
                parts = [self.of(item) for item in args]
                return apply(_CALLS[name], parts[0]) if name in ("abs", "log2") else self._fold(_CALLS[name], parts)
        raise AssertionError(f"unchecked expression node {node!r}")

    def _fold(self, op: Op, parts: Sequence[Program]) -> Program:
        result = parts[0]
        for part in parts[1:]:
            result = apply(op, result, part)
        return result

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], rights: Sequence[ast.expr]) -> Program:
        parts = []
        for op, right in zip(ops, rights, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                members = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
                equal = [apply(Op.EQUAL, self.of(left), self.of(member)) for member in members]
                found = self._fold(Op.OR, equal) if equal else constant(0.0)
                parts.append(apply(Op.NOT, found) if isinstance(op, ast.NotIn) else found)
            else:
                parts.append(apply(_COMPARE_NODES[type(op)], self.of(left), self.of(right)))
            left = right
        return self._fold(Op.AND, parts)


_SQRT_HALF = 0.7071067811865476
_TERMS = 11
_COEFFICIENTS = tuple(2.8853900817779268 / (2 * k + 1) for k in range(_TERMS))
"""2 / ln 2 / (2k + 1): log2(m) = sum of these times t^(2k+1), where t = (m - 1) / (m + 1)."""


def log2(x: Any) -> NDArray[np.float64]:
    """Binary logarithm, the same bits on every machine and as in the runtime.

    Exact for powers of two, otherwise within 3 units in the last place. Zero gives -inf, negative numbers NaN.

    Parameters
    ----------
    x : array_like
        Numbers.

    Returns
    -------
    ndarray of float64
        Of the same shape.
    """
    number = np.asarray(x, dtype=np.float64)
    mantissa, exponent = np.frexp(number)
    low = mantissa < _SQRT_HALF
    mantissa = np.where(low, mantissa + mantissa, mantissa)
    power = exponent.astype(np.float64) - low
    with np.errstate(all="ignore"):  # results of zero, infinity and not-a-number are dropped
        t = (mantissa - 1.0) / (mantissa + 1.0)
    square = t * t
    series = np.full_like(square, _COEFFICIENTS[-1])
    for coefficient in _COEFFICIENTS[-2::-1]:
        series = series * square + coefficient
    usual = power + t * series
    special = np.where(number == 0, -np.inf, np.where(number > 0, number, np.nan))
    result: NDArray[np.float64] = np.where((number > 0) & np.isfinite(number), usual, special)
    return result
