"""A space as a Python program writes it: names with lists or ranges of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Value, sizes
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.errors import UserError


def integers(low: int, high: int, step: int = 1, *, log: bool = False) -> Sequence[int]:
    """Give the whole numbers from ``low`` to ``high``, both included, as the values of a parameter.

    Parameters
    ----------
    step : int
        Between neighbours; not with ``log``.
    log : bool
        Evenly spread by factors: powers of two times ``low``, then ``high``.

    Raises
    ------
    UserError
        If the range is empty, or ``log`` is given for a range that begins below 1.

    Examples
    --------
    >>> integers(1, 100, log=True)
    [1, 2, 4, 8, 16, 32, 64, 100]
    """
    if high < low or step < 1 or (log and low < 1):
        raise UserError(
            f"integers({low}, {high}, {step}, log={log}) has no values", "give low <= high, and low >= 1 for log"
        )
    if not log:
        return range(low, high + 1, step)
    powers = [low << place for place in range((high // low).bit_length())]
    return powers if powers[-1] == high else [*powers, high]


def floats(low: float, high: float, points: int = 33, *, log: bool = False) -> list[float]:
    """Give evenly spread numbers from ``low`` to ``high``, both included, as the values of a parameter.

    Parameters
    ----------
    points : int
        How many.
    log : bool
        Evenly spread by factors.

    Raises
    ------
    UserError
        If the range is empty, or ``log`` is given for a range that does not begin above 0.

    Examples
    --------
    >>> floats(0.01, 1, 3, log=True)
    [0.01, 0.1, 1.0]
    """
    if not low < high or points < 2 or (log and low <= 0):
        raise UserError(
            f"floats({low:g}, {high:g}, {points}, log={log}) has no values", "give low < high, and low > 0 for log"
        )
    spread = np.geomspace if log else np.linspace
    return [float(value) for value in spread(low, high, points).round(12)]


def space_of(
    space: Space | Mapping[str, Sequence[Value]] | str, default: Mapping[str, Value], constraints: Sequence[str]
) -> Space:
    """Make a space of what :func:`stripewise.tune` takes for one.

    Raises
    ------
    UserError
        If it is not one.
    """
    if isinstance(space, Space):
        return space
    if isinstance(space, str):
        stack = load_stack(space)
        return Space.bind(stack.parameters, stack.constraints, stack.derived, {}, stack.knowledge)
    if not space:
        raise UserError("the space has no parameters", "give a mapping from parameter name to its values")
    unknown = default.keys() - space.keys()
    if unknown:
        raise UserError(
            f"default names {sorted(unknown)[0]}, which is not a parameter", f"parameters: {', '.join(space)}"
        )
    parameters = [_parameter(name, values, default) for name, values in space.items()]
    texts = [constraints] if isinstance(constraints, str) else constraints
    return Space.bind(parameters, [Expression.parse(text) for text in texts])


def _parameter(name: str, values: Sequence[Value], default: Mapping[str, Value]) -> Parameter:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"parameter {name} has {values!r} in place of its values", "give a list of them")
    listed = values if isinstance(values, range) else tuple(_make_plain(name, value) for value in values)
    if len(listed) == 0:
        raise UserError(f"parameter {name} has no values", "list at least one")
    first = _make_plain(name, default.get(name, listed[0]))
    if set(listed) == {False, True} and all(isinstance(value, bool) for value in listed):
        return Parameter(name, Kind.BOOLEAN, (False, True), first)
    if sizes(listed):
        ordered = listed if isinstance(listed, range) and listed.step > 0 else tuple(sorted(listed, key=float))
        return Parameter(name, Kind.ORDINAL, ordered, first, scale=_scale([float(v) for v in ordered]))
    return Parameter(name, Kind.CATEGORICAL, listed, first)


def _make_plain(name: str, value: Any) -> Value:
    """A value as the store keeps it: arrays have number types of their own."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float | str) or (isinstance(plain, float) and not math.isfinite(plain)):
        raise UserError(f"parameter {name}: {value!r} is not a value", "use numbers, texts, True and False")
    return plain


def _scale(values: list[float]) -> Scale:
    """Values that grow by factors lie on a log axis: 1, 2, 4, 8 are evenly spaced there."""
    if len(values) < 3 or values[0] <= 0:
        return Scale.LINEAR
    return (
        Scale.LOG2
        if values[-1] / values[0] >= 8 and values[1] - values[0] < (values[-1] - values[-2]) / 2
        else Scale.LINEAR
    )
