"""A configuration: one value for every parameter of a space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")
Value = int | float | str | bool
"""A parameter's value. Byte sizes are integers."""


def plain_number(value: T) -> T | int:
    """Give a float without a fraction as an integer, and any other value as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
        return isinstance(other, Mapping) and self._values == dict(other)

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
        changed = [
            # As carriers spell it, and as `stripewise run` says it.
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.items()
            if default is None or default.get(name) != value
        ]
        return " ".join(changed) or "(defaults)"
