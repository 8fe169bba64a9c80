"""What an experiment improves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stripewise.errors import UserError

Direction = Literal["minimize", "maximize"]

_KNOWN: dict[str, tuple[Direction, str]] = {
    "elapsed": ("minimize", "s"),
    "io_time": ("minimize", "s"),
    "write_bandwidth": ("maximize", "MiB/s"),
    "read_bandwidth": ("maximize", "MiB/s"),
    "bandwidth": ("maximize", "MiB/s"),
    "darshan_bandwidth": ("maximize", "MiB/s"),
}


@dataclass(frozen=True)
class Objective:
    """A measured quantity and the direction in which it is better.

    Attributes
    ----------
    name : str
        ``elapsed``, ``io_time``, ``write_bandwidth``, ``read_bandwidth``, ``bandwidth``, ``darshan_bandwidth``, or
        ``regex:PATTERN``, whose first group is read from the program's output (the last match counts).
    direction : {"minimize", "maximize"}
    unit : str
    """

    name: str
    direction: Direction
    unit: str

    @classmethod
    def parse(cls, name: str, direction: str | None = None, unit: str | None = None) -> Objective:
        """Make an objective from its name.

        Raises
        ------
        UserError
            Unknown name, broken pattern, or a pattern without direction.
        """
        if direction not in (None, "minimize", "maximize"):
            raise UserError(f"direction '{direction}' is unknown", "use minimize or maximize")
        if name.startswith("regex:"):
            try:
                pattern = re.compile(name.removeprefix("regex:"))
            except re.error as error:
                raise UserError(f"objective {name}: the pattern is broken: {error}") from error
            if pattern.groups < 1:
                raise UserError(f"objective {name}: the pattern has no group", "put the number in parentheses")
            if direction is None:
                raise UserError(f"objective {name} has no direction", "add --direction minimize or maximize")
            return cls(name, "minimize" if direction == "minimize" else "maximize", unit or "")
        if name not in _KNOWN:
            raise UserError(
                f"objective '{name}' is unknown",
                f"choose from {', '.join(_KNOWN)} or regex:PATTERN with --direction",
            )
        known, known_unit = _KNOWN[name]
        if direction is not None and direction != known:
            raise UserError(f"objective {name} is to be {known}d, not {direction}d", "leave --direction out")
        return cls(name, known, unit or known_unit)

    @property
    def maximize(self) -> bool:
        """Whether larger is better."""
        return self.direction == "maximize"

    def speedup(self, value: float, baseline: float) -> float:
        """Give the ratio by which ``value`` is better than ``baseline``; above 1 is better."""
        return value / baseline if self.maximize else baseline / value

    def better(self, a: float, b: float) -> bool:
        """Say whether ``a`` is better than ``b``."""
        return a > b if self.maximize else a < b
