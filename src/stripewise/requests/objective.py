"""What an experiment improves."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from stripewise.errors import UserError

Direction = Literal["minimize", "maximize"]
_LIMIT = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Bound:
    """What another measured quantity of each run must be, for the run to count at all.

    Attributes
    ----------
    name : str
        As of an objective.
    least : bool
        Whether ``limit`` is the least value, and not the largest.
    """

    name: str
    least: bool
    limit: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Read ``NAME >= NUMBER`` or ``NAME <= NUMBER``; what stands before the last sign is the name.

        Raises
        ------
        UserError
            If it is neither.
        """
        sign = max(">=", "<=", key=text.rfind)
        name, _, limit = (part.strip() for part in text.rpartition(sign))
        if not name or _LIMIT.fullmatch(limit) is None:
            raise UserError(f"subject to '{text}' is not understood", "write NAME >= NUMBER or NAME <= NUMBER")
        return cls(name, sign == ">=", float(limit))

    def holds(self, value: float) -> bool:
        """Say whether a value keeps to it."""
        return value >= self.limit if self.least else value <= self.limit


@dataclass(frozen=True)
class Objective:
    """A measured quantity and the direction in which it is better.

    Attributes
    ----------
    name : str
        That of a kind of :mod:`stripewise.observe.objectives`, of a table's column, or ``value`` of a function.
    direction : {"minimize", "maximize"}
    program : str
        Of the programs that a command starts, the one that is measured; empty where all of them are.
    subject_to : tuple of str
        What must hold of each run besides (:class:`Bound`): one that breaks it has failed.
    """

    name: str
    direction: Direction
    unit: str
    program: str = ""
    subject_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Take a list from JSON."""
        object.__setattr__(self, "subject_to", tuple(self.subject_to))

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        said: dict[str, Any] = {"name": self.name, "direction": self.direction, "unit": self.unit}
        said |= {"program": self.program} if self.program else {}
        return said | ({"subject_to": list(self.subject_to)} if self.subject_to else {})

    @property
    def maximize(self) -> bool:
        """Whether larger is better."""
        return self.direction == "maximize"

    def speedup(self, value: float, baseline: float) -> float:
        """Give the ratio by which ``value`` is better than ``baseline``; above 1 is better.

        Infinite where the worse of a pair is 0, and 1 where both are.
        """
        above, below = (value, baseline) if self.maximize else (baseline, value)
        if below == 0:
            return 1.0 if above == 0 else math.copysign(math.inf, above)
        return above / below

    def better(self, a: float, b: float) -> bool:
        """Say whether ``a`` is better than ``b``."""
        return a > b if self.maximize else a < b
