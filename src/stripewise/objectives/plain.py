"""Objectives that any program has: its wall time, and a number that it prints."""

from __future__ import annotations

import collections
import re

from stripewise.errors import RunFailed, UserError
from stripewise.objectives.base import ObjectiveKind, Phases
from stripewise.spec.launch import Outcome

_MOST_OUTPUT = 64 << 20


class Elapsed(ObjectiveKind):
    """Wall time of the program, without its time in a queue."""

    name = "elapsed"
    about = "wall time of the run (s, smaller is better)"
    direction = "minimize"
    unit = "s"
    wall_time = True

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        return outcome.elapsed

    def simulated(self, phases: Phases) -> float:
        """See :meth:`ObjectiveKind.simulated`."""
        return sum(seconds for _, seconds in phases.values())


class Printed(ObjectiveKind):
    """The first group of the last match of a pattern in standard output."""

    name = "regex"
    about = "a number that the program prints: the first group of the pattern's last match"
    direction = None
    text = "PATTERN"
    example = "rate: ([0-9.]+)"

    def __init__(self, given: str = "") -> None:
        super().__init__(given)
        try:
            self._pattern = re.compile(given, re.MULTILINE)
        except re.error as error:
            raise UserError(f"objective {self.title}: the pattern is broken: {error}") from error
        if self._pattern.groups < 1:
            raise UserError(f"objective {self.title}: the pattern has no group", "put the number in parentheses")

    @property
    def column(self) -> str:
        """See :attr:`ObjectiveKind.column`."""
        return "objective"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        if outcome.folder is None:
            raise RunFailed("the run left no output to search", "use another objective with this runner")
        path = outcome.folder / "stdout"
        try:
            with path.open("rb") as stream:
                size = stream.seek(0, 2)
                stream.seek(max(0, size - _MOST_OUTPUT))
                text = stream.read().decode("utf-8", "replace")
        except OSError as error:
            raise RunFailed(f"the run's output {path} cannot be read: {error.strerror}") from error
        matches = collections.deque(self._pattern.finditer(text), maxlen=1)
        if not matches:
            raise RunFailed(
                f"the output has nothing that matches '{self.given}'", "check the pattern against the output"
            )
        word = matches[0].group(1)
        try:
            return float(word)
        except (TypeError, ValueError):
            raise RunFailed(f"'{word}' in the output matches '{self.given}' but is not a number") from None
