"""A configuration: one value for every parameter of a space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Number
from typing import Any, TypeVar

T = TypeVar("T")
Value = int | float | str | bool
"""A parameter's value. Byte sizes are integers."""


def plain_number(value: T) -> T | int:
    """Give a float without a fraction as an integer, and any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def identity(value: object) -> tuple[str, str]:
    """Give what tells a value from every other: its type and its text.

    Python's ``==`` takes ``1``, ``1.0`` and ``True`` for one value. Programs read three words.
    """
    plain = _plain(value)
    return type(plain).__name__, str(plain)


def _plain(value: Any) -> Any:
    # NumPy is slow to load, and a program that only applies a plan needs none of it.
    return value.item() if hasattr(value, "dtype") and value.ndim == 0 else value


def is_same(first: object, second: object) -> bool:
    """Say whether two values are one, by :func:`identity`."""
    return identity(first) == identity(second)


def place_of(value: object, values: Sequence[object]) -> int | None:
    """Give the index of a value among others, None if it is not there.

    A number that is not there as written stands for an equal one: ``1`` for ``1.0``, but not for ``True``.
    """
    if isinstance(values, range):
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        return values.index(int(value)) if whole and value in values else None  # type: ignore[call-overload]
    equal = [index for index, candidate in enumerate(values) if candidate == value]
    for index in equal:
        if is_same(values[index], value):
            return index
    if isinstance(_plain(value), bool) or not isinstance(value, Number):
        return None
    return next((index for index in equal if not isinstance(_plain(values[index]), bool)), None)


def sizes(values: Sequence[object]) -> bool:
    """Say whether values are numbers that lie apart, so that they can be put in order."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) == len(set(numbers))


def find_changes(values: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """Give the values that differ from the default's, also those for which it has none."""
    return {name: value for name, value in values.items() if name not in default or not is_same(default[name], value)}


class Configuration(Mapping[str, Value]):
    """An immutable, hashable mapping from parameter name to value.

    Two configurations are equal if they give every parameter the same value, whatever the order.
    """

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        self._hash: int | None = None

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._values.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        # Equality of dictionaries is quick and tells most apart, but it takes 1 and True for one value.
        return (
            isinstance(other, Mapping)
            and self._values == dict(other)
            and all(is_same(value, other[name]) for name, value in self._values.items())
        )

    def __repr__(self) -> str:
        return f"Configuration({self._values!r})"

    def with_values(self, **values: Value) -> Configuration:
        """Give a copy with some values replaced."""
        return Configuration({**self._values, **values})

    @property
    def key(self) -> str:
        """A short stable identifier of the content (the first 12 hex digits of a SHA-256)."""
        text = json.dumps(self._values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def describe(self, default: Mapping[str, Value] | None = None) -> str:
        """Write the values that differ from ``default`` (all, if none is given) as ``name=value`` words."""
        shown = [
            # As carriers spell it, and as `stripewise run` says it.
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in (self if default is None else find_changes(self, default)).items()
        ]
        return " ".join(shown) or "(defaults)"
