"""Expressions of stack and experiment files, evaluated safely: ``cb_nodes <= nodes * processes_per_node``.

The text is parsed once with :mod:`ast` and only arithmetic, comparisons, boolean logic, ``in``, conditional
expressions, literals, names and four functions are let through, so a file from elsewhere can compute but not act. The
same expression evaluates one configuration (scalars) or many at once (arrays).
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import is_same
from stripewise.errors import UserError

LONGEST = 1000
"""Characters of an expression."""
_MAX_MAGNITUDE = 2.0**63
_LITERALS = {"true": True, "false": False}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _compare_equal(left: Any, right: Any) -> Any:
    """Compare values. Those of a parameter whose values are of several types are the same only as written."""
    equal = left == right
    if not any(isinstance(item, np.ndarray) and item.dtype == object for item in (left, right)):
        return equal
    equal, left, right = np.broadcast_arrays(np.asarray(equal, dtype=bool), left, right)
    found = equal.copy()
    found[equal] = [is_same(*both) for both in zip(left[equal], right[equal], strict=True)]
    return found


def _compare_unequal(left: Any, right: Any) -> Any:
    return np.logical_not(_compare_equal(left, right))


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: _compare_equal,
    ast.NotEq: _compare_unequal,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": lambda *a: reduce(np.minimum, a),
    "max": lambda *a: reduce(np.maximum, a),
    "abs": np.abs,
    "log2": np.log2,
}


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    Attributes
    ----------
    text : str
        As written in the file.
    names : frozenset of str
        The parameters and workload words it needs.
    reason : str
        Why it must hold, where it is a rule that says so.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    _body: ast.expr = field(compare=False, repr=False)
    reason: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Parse and check an expression.

        Raises
        ------
        UserError
            If it is not an expression, or uses anything beyond the allowed forms.
        """
        if len(text) > LONGEST:
            raise UserError(f"expression of {len(text)} characters", f"keep it under {LONGEST}")
        try:
            body = ast.parse(f"(\n{text}\n)", mode="eval").body  # in parentheses, so that it may span lines
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise UserError(f"'{text}' is not an expression ({error.__class__.__name__})") from error
        if isinstance(body, ast.Tuple | ast.List):
            raise UserError(f"'{text}' is empty or a list, not an expression")
        names: set[str] = set()
        _check(body, names, text)
        return cls(text, frozenset(names), body)

    @property
    def compared(self) -> tuple[tuple[str, Any], ...]:
        """The names that are compared with literals, each with one of them."""
        found: list[tuple[str, Any]] = []
        for node in ast.walk(self._body):
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                names = [part.id for part in parts if isinstance(part, ast.Name) and part.id not in _LITERALS]
                values = [one.value for part in parts for one in ast.walk(part) if isinstance(one, ast.Constant)]
                found += [(name, value) for name in names for value in values]
        return tuple(found)

    def fixed(self, values: Mapping[str, Any]) -> Expression:
        """Put values, or other expressions, in place of names, and leave out what they decide.

        Parameters
        ----------
        values : mapping of str to Value or Expression
            Names that the expression does not use are passed over.
        """
        return Expression.parse(ast.unparse(_Fixed(values).visit(copy.deepcopy(self._body))))

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """Evaluate with scalars or with equally long arrays.

        Raises
        ------
        UserError
            If a name is missing, or the arithmetic fails (division by zero, text times number).
        """
        missing = self.names - values.keys()
        if missing:
            raise UserError(
                f"'{self.text}' needs {', '.join(sorted(missing))}, which nothing declares",
                "declare it as a parameter or under [workload]",
            )
        try:
            with np.errstate(divide="raise", invalid="raise"):
                return _evaluate(self._body, values)
        except ArithmeticError as error:
            raise UserError(
                f"'{self.text}' cannot be computed: it divides by zero or takes the logarithm of zero or less",
                "keep it away from zero, as in max(x, 1)",
            ) from error
        except (TypeError, ValueError) as error:
            # NumPy's own message would not tell an author what to fix.
            raise UserError(
                f"'{self.text}' cannot be computed: it uses text where a number is needed",
                "compare texts with ==, != and in; numbers also with <, <=, >, >=",
            ) from error


def _check(node: ast.expr, names: set[str], text: str) -> None:
    children: list[ast.expr] = []
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            if isinstance(node.value, int | float) and abs(node.value) > _MAX_MAGNITUDE:
                raise UserError(f"'{text}' has a number beyond 2^63")
        case ast.Name():
            if node.id not in _LITERALS:
                names.add(node.id)
        case ast.BoolOp():
            children = list(node.values)
        case ast.BinOp(op=op) if type(op) in _BINARY:
            children = [node.left, node.right]
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            children = [node.operand]
        case ast.Compare(ops=ops) if all(type(op) in _COMPARE or isinstance(op, ast.In | ast.NotIn) for op in ops):
            children = [node.left]
            for comparison, right in zip(ops, node.comparators, strict=True):
                if isinstance(comparison, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List):
                    children += right.elts
                else:
                    children.append(right)
        case ast.IfExp():
            children = [node.test, node.body, node.orelse]
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS and node.args:
            children = list(node.args)
        case _:
            raise UserError(
                f"'{text}' uses {ast.unparse(node)[:40]!r}, which expressions do not allow",
                "use arithmetic, comparisons, and, or, not, in, if-else, min, max, abs, log2",
            )
    for child in children:
        _check(child, names, text)


class _Fixed(ast.NodeTransformer):
    """Replaces names, and comparisons and conditions whose outcome is certain then."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._values:
            return node
        value = self._values[node.id]
        return copy.deepcopy(value._body) if isinstance(value, Expression) else ast.Constant(value)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return self._decided(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self._decided(node)
        self.generic_visit(node)
        return node

    def _decided(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - _LITERALS.keys()
        return node if names else ast.Constant(bool(Expression.parse(ast.unparse(node))({})))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        deciding = isinstance(node.op, ast.Or)  # the outcome of one part that decides the whole
        kept = []
        for part in map(self.visit, node.values):
            if not isinstance(part, ast.Constant):
                kept.append(part)
            elif bool(part.value) is deciding:
                return ast.Constant(deciding)
        if len(kept) > 1:
            return ast.BoolOp(node.op, kept)
        return kept[0] if kept else ast.Constant(not deciding)


def _is_array(*items: Any) -> bool:
    return any(isinstance(item, np.ndarray) for item in items)


def _is_text(item: Any) -> bool:
    return isinstance(item, str) or (isinstance(item, np.ndarray) and item.dtype.kind in "USO")


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _LITERALS[node.id] if node.id in _LITERALS else values[node.id]
        case ast.BoolOp():
            both = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            result = reduce(both, [_evaluate(part, values) for part in node.values])
            return result if _is_array(result) else bool(result)
        case ast.BinOp():
            left, right = _evaluate(node.left, values), _evaluate(node.right, values)
            if isinstance(left, str) or isinstance(right, str):
                # Python would repeat a text a billion times if asked to.
                raise TypeError("arithmetic with a text")
            return _BINARY[type(node.op)](left, right)
        case ast.UnaryOp():
            operand = _evaluate(node.operand, values)
            if isinstance(node.op, ast.Not):
                return np.logical_not(operand) if _is_array(operand) else not operand
            return -operand
        case ast.Compare():
            return _evaluate_comparison(node, values)
        case ast.IfExp():
            test = _evaluate(node.test, values)
            if _is_array(test):
                return np.where(test, _evaluate(node.body, values), _evaluate(node.orelse, values))
            return _evaluate(node.body if test else node.orelse, values)
        case ast.Tuple() | ast.List():
            return tuple(_evaluate(item, values) for item in node.elts)
        case ast.Call(func=ast.Name(id=name)):
            result = _FUNCTIONS[name](*(_evaluate(item, values) for item in node.args))
            return result if _is_array(result) else getattr(result, "item", lambda: result)()
    raise AssertionError(f"unchecked expression node {node!r}")


def _evaluate_comparison(node: ast.Compare, values: Mapping[str, Any]) -> Any:
    left = _evaluate(node.left, values)
    result: Any = True
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(comparator, values)
        if isinstance(op, ast.In | ast.NotIn):
            members = right if isinstance(right, tuple) else (right,)
            part = reduce(np.logical_or, [_compare_equal(left, member) for member in members]) if members else False
            if isinstance(op, ast.NotIn):
                part = np.logical_not(part)
        else:
            if not isinstance(op, ast.Eq | ast.NotEq) and (_is_text(left) or _is_text(right)):
                raise TypeError("order of texts")
            part = _COMPARE[type(op)](left, right)
        result = np.logical_and(result, part)
        left = right
    return result if _is_array(result) else bool(result)
