"""Objectives that any program has: its wall time, and a number that it prints."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from stripewise.errors import RunFailed, UserError
from stripewise.interpreter import inherit_environment, python
from stripewise.launch import Outcome
from stripewise.observe.objectives.base import ObjectiveKind, Phases
from stripewise.observe.objectives.number import complete_number, find_unit, is_part_of_clock, parse_printed_number

_MOST_OUTPUT = 64 << 20
_MOST_MEMORY = 4 << 30
_LONGEST = 1000
"""Characters of a pattern, which is compiled before it is used."""
_SECONDS = 20.0
_BESIDE = 60
"""Characters before and behind a match that may belong to its number."""
_LINE = 200
"""Characters before it among which its unit may be."""
# A pattern may come from a request, and one such as (a+)+$ can take for ever. It asks for what stands beside its group
# if the group no longer matches with another character in that place, as "rate,([0-9]+)," asks for both commas.
_SEARCH = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MOST_MEMORY}, {_MOST_MEMORY}))
pattern = re.compile(json.loads(sys.argv[1]), re.MULTILINE)
text = sys.stdin.buffer.read().decode("utf-8", "replace")
match = None
for match in pattern.finditer(text):
    pass
def asks(place):
    again = pattern.match(text[:place] + chr(0) + text[place + 1:], match.start())
    return again is None or again.span(1) != match.span(1)
if match is None or match.start(1) < 0:
    print(json.dumps(match and [""] * 5))
else:
    start, end = match.span(1)
    before = "" if start == 0 or asks(start - 1) else text[max(0, start - {_BESIDE}):start]
    behind = "" if end == len(text) or asks(end) else text[end:end + {_BESIDE}]
    beside = text[end:end + {_BESIDE}], text[max(0, start - {_LINE}):start]
    print(json.dumps([before, match[1], behind, *beside]))
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
    """The first group of the last match of a pattern in standard output, else in standard error."""

    name = "regex"
    about = "a number that the program prints: the first group of the pattern's last match"
    direction = None
    text = "PATTERN"
    example = "rate: ([0-9.]+)"

    def __init__(self, given: str = "") -> None:
        super().__init__(given)
        if len(given) > _LONGEST:
            raise UserError(f"objective regex: the pattern has more than {_LONGEST} characters", "write a shorter one")
        try:
            groups = re.compile(given, re.MULTILINE).groups
        except (re.error, RecursionError, OverflowError) as error:
            raise UserError(f"objective {self.title}: the pattern is broken: {error}") from error
        if groups < 1:
            raise UserError(f"objective {self.title}: the pattern has no group", "put the number in parentheses")

    @property
    def column(self) -> str:
        """See :attr:`ObjectiveKind.column`."""
        return "objective"

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        return self.read(outcome)[0]

    def read(self, outcome: Outcome) -> tuple[float, str]:
        """See :meth:`ObjectiveKind.read`."""
        if outcome.folder is None:
            raise RunFailed("the run left no output to search", "use another objective with this runner")
        found = self._search(outcome.folder / "stdout")
        if found is None and (outcome.folder / "stderr").exists():
            found = self._search(outcome.folder / "stderr")
        if found is None:
            raise RunFailed(
                f"the output has nothing that matches '{self.given}'", "check the pattern against the output"
            )
        before, word, behind, *beside = found
        if not word.strip():
            raise RunFailed(
                f"the group of '{self.given}' matches no character of the output{_shown(behind)}",
                "let the group ask for at least one digit",
            )
        whole = complete_number(before, word, behind)
        if is_part_of_clock(before, word, behind):
            raise RunFailed(
                f"'{word}' in the output matches '{self.given}' but is a part of a time in minutes and seconds",
                "let the program print seconds",
            )
        try:
            return parse_printed_number(whole), find_unit(*beside)
        except ValueError:
            part = f"'{word}' in the output matches '{self.given}'"
            if whole == word:
                raise RunFailed(f"{part} but is not a number") from None
            raise RunFailed(
                f"{part} but is a part of '{whole}', which is not a number in one sense only",
                "let the program print it without separators",
            ) from None

    def _search(self, path: Path) -> tuple[str, str, str, str, str] | None:
        """Give the group of the last match in a file, with what stands before and behind it; None without a match.

        What the pattern itself asks for beside the group is left out. The last two texts hold it: what stands behind,
        and before.

        Raises
        ------
        RunFailed
            If the file cannot be read, or the search takes too much.
        """
        command = python("-c", _SEARCH, json.dumps(self.given), alone=True)
        try:
            with path.open("rb", buffering=0) as stream:
                stream.seek(max(0, stream.seek(0, 2) - _MOST_OUTPUT))
                done = subprocess.run(
                    command, env=inherit_environment(), stdin=stream, capture_output=True, timeout=_SECONDS, check=False
                )
        except OSError as error:
            raise RunFailed(f"the run's output {path} cannot be read: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise RunFailed(
                f"the pattern '{self.given}' was not found in the output within {_SECONDS:g} s",
                "write it without a repeat in a repeat, such as (a+)+",
            ) from None
        if done.returncode:
            raise RunFailed(f"the pattern '{self.given}' needs more than {_MOST_MEMORY >> 30} GiB on this output")
        return json.loads(done.stdout)  # type: ignore[no-any-return]


def _shown(behind: str) -> str:
    """Say what stands where a number was looked for."""
    first = next(iter(behind.split()), "")
    return f", where '{first}' stands" if first else ""
