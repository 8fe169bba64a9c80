"""Objectives that any program has: its wall time, and a number that it prints."""

from __future__ import annotations

import json
import re
import subprocess

from stripewise.errors import RunFailed, UserError
from stripewise.interpreter import python
from stripewise.objectives.base import ObjectiveKind, Phases
from stripewise.spec.launch import Outcome

_MOST_OUTPUT = 64 << 20
_MOST_MEMORY = 4 << 30
_SECONDS = 20.0
# A pattern may come from a request, and one such as (a+)+$ can take for ever.
_SEARCH = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MOST_MEMORY}, {_MOST_MEMORY}))
match = None
for match in re.finditer(json.loads(sys.argv[1]), sys.stdin.buffer.read().decode("utf-8", "replace"), re.MULTILINE):
    pass
print(json.dumps(match and [match[1]]))
"""


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
            groups = re.compile(given, re.MULTILINE).groups
        except re.error as error:
            raise UserError(f"objective {self.title}: the pattern is broken: {error}") from error
        if groups < 1:
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
        command = python("-c", _SEARCH, json.dumps(self.given), alone=True)
        try:
            with path.open("rb", buffering=0) as stream:
                stream.seek(max(0, stream.seek(0, 2) - _MOST_OUTPUT))
                done = subprocess.run(command, stdin=stream, capture_output=True, timeout=_SECONDS, check=False)
        except OSError as error:
            raise RunFailed(f"the run's output {path} cannot be read: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise RunFailed(
                f"the pattern '{self.given}' was not found in the output within {_SECONDS:g} s",
                "write it without a repeat in a repeat, such as (a+)+",
            ) from None
        if done.returncode:
            raise RunFailed(f"the pattern '{self.given}' needs more than {_MOST_MEMORY >> 30} GiB on this output")
        if (found := json.loads(done.stdout)) is None:
            raise RunFailed(
                f"the output has nothing that matches '{self.given}'", "check the pattern against the output"
            )
        (word,) = found
        try:
            return float(word)
        except (TypeError, ValueError):
            raise RunFailed(f"'{word}' in the output matches '{self.given}' but is not a number") from None
