"""Programs of the artifact: straight-line arithmetic on a stack, the same bits in Python as in the runtime.

A program computes a feature, a rule between settings, or what becomes of a model's output. It is a tuple of
instructions; the stack starts empty and ends with one number. ``native/core/model_program.c`` runs the same programs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.model.artifact.arithmetic import log2
from stripewise.spec.expression import Expression
from stripewise.spec.formats import ARTIFACT_STACK, Op

Numbers = NDArray[np.float64]

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
        What :data:`OUTPUT` pushes.

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
    expression : Expression
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
