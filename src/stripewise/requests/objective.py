"""What an experiment improves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Direction = Literal["minimize", "maximize"]


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
    """

    name: str
    direction: Direction
    unit: str
    program: str = ""

    def as_json(self) -> dict[str, str]:
        """Give it as JSON."""
        said = {"name": self.name, "direction": self.direction, "unit": self.unit}
        return {**said, "program": self.program} if self.program else said

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
