"""The bandwidth that a program prints by itself: found in its output, compared with ours, offered as the objective."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stripewise.observe.objectives.number import complete_number, parse_printed_number
from stripewise.observe.objectives.registry import kind_of

OUTPUTS = ("stdout", "stderr")
"""Files of a run's folder that hold what it printed, in the order in which they are searched."""
_READ_OUTPUT = 1 << 20
_BESIDE = 60
_MIB = 2**20
_APART = 1.2
"""Factor between the program's figure and ours from which the program's is proposed."""

_UNIT = r"[KMGT]i?B(?:ytes)?(?:/s(?:ec(?:ond)?)?|ps)?|[KMGT]bytes/s(?:ec)?"
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANK = r"^[ \t]*(?:\w+\[\d+\]:?[ \t]+|\d+:[ \t]+)?"
"""A line may begin with the rank that printed it, as launchers mark it."""
_FIGURE = re.compile(
    rf"{_RANK}(?P<label>[A-Za-z][A-Za-z /_()-]{{2,60}}?)[ \t]*(?P<sign>[:=])[ \t]*"
    rf"(?P<number>{_NUMBER})(?:[ \t]*[\[(]?(?P<unit>{_UNIT}))?",
    re.MULTILINE,
)
_PLAIN = re.compile(
    rf"{_RANK}(?P<label>[A-Za-z][A-Za-z /_()-]{{2,60}}?)[ \t]+(?P<number>{_NUMBER})[ \t]*(?P<unit>[KMGT]i?B/s)",
    re.MULTILINE,
)
"""Without a sign between label and number, only the unit tells a rate."""
_FIO = re.compile(rf"^[ \t]*(?P<label>WRITE|READ): bw=(?P<number>{_NUMBER})(?P<unit>[KMGT]i?B/s)", re.MULTILINE)
_DD = re.compile(rf"^\d+ bytes .*copied, .*?, (?P<number>{_NUMBER}) (?P<unit>[kKMGT]i?B/s)$", re.MULTILINE)
_TABLE = re.compile(r"^access[ \t]+bw\(MiB/s\)", re.MULTILINE)
_NAMES = re.compile(r"bandwidth|perf|throughput|rate\b|write|read", re.IGNORECASE)
_SURE = re.compile(r"bandwidth|throughput", re.IGNORECASE)
_OTHER = re.compile(r"ping|ring\b|latency|memory|stream|triad|network", re.IGNORECASE)
"""Words of labels whose rates are of other things than files."""


@dataclass(frozen=True)
class OwnFigure:
    """A bandwidth that a program printed.

    Attributes
    ----------
    line : str
        As it was printed.
    objective : str
        The name of the objective that uses its number.
    rate : float or None
        In MiB/s; None where the line names no unit.
    """

    line: str
    objective: str
    rate: float | None

    def compare(self, ours: str, value: float | None, unit: str) -> str:
        """Say in a sentence or two how it stands beside ours, and propose it where the two are more than 20% apart."""
        printed = f"('{self.line[:100]}')"
        use = f"--objective {shlex.quote(self.objective)} --direction maximize uses the program's"
        if self.rate is None or value is None or unit != "MiB/s":
            differ = f"{ours} is timed {kind_of(ours).timed}, so the two may differ"
            return f"the program prints a figure of its own {printed}; {differ}. {use}"
        both = f"is {self.rate:.4g} MiB/s {printed}; {ours} of the same run is {value:.4g} MiB/s"
        beside = f"the program's own figure {both}"
        return beside if 1 / _APART <= self.rate / value <= _APART else f"{beside}: more than 20% apart. {use}"


def find_own_figure(output: str, objective: str) -> OwnFigure | None:
    """Find the bandwidth that a program prints by itself; None if it prints none.

    Parameters
    ----------
    output : str
        What a run printed.
    objective : str
        The present objective: of several figures, the one of the same direction is taken.
    """
    way = "read" if objective.startswith("read") else "write"
    other = "write" if way == "read" else "read"
    found = [match for match in _FIGURE.finditer(output) if _is_rate(match)]
    found += [match for match in _PLAIN.finditer(output) if _is_rate(match)]
    same = [match for match in found if way in match["label"].lower()]
    neutral = [match for match in found if other not in match["label"].lower()]
    for match in reversed(same or neutral):
        sign = rf"\s*{match['sign']}\s*" if "sign" in match.groupdict() else r"\s+"
        words = r"\s+".join(re.escape(word) for word in match["label"].split())
        unit = re.search(_UNIT, match["label"])
        return _make_figure(output, rf"{words}{sign}([0-9.eE+-]+)", unit[0] if unit else None)
    for match in _FIO.finditer(output):
        if match["label"].lower() == way:
            return _make_figure(output, rf"{match['label']}: bw=([0-9.]+)", match["unit"])
    if (copied := _DD.search(output)) is not None:
        return _make_figure(output, r"copied, .*, ([0-9.]+) [kKMGT]i?B/s", copied["unit"])
    if _TABLE.search(output) and re.search(rf"^{way}[ \t]+\d", output, re.MULTILINE):
        # IOR 4 prints a table, with a row for each direction.
        return _make_figure(output, rf"^{way}\s+([0-9.eE+-]+)", "MiB/s", words=2)
    return None


def compare_own_figure(objective: str, folder: str | None, value: float | None, unit: str) -> str:
    """Say how an objective stands beside the figure that the program prints itself; empty if it prints none.

    Parameters
    ----------
    folder : str or None
        Of a finished run.
    value : float or None
        The objective's of this run.
    """
    if not kind_of(objective).leaves_room or folder is None:
        return ""
    for printed in _read_outputs(Path(folder)):
        if (found := find_own_figure(printed, objective)) is not None:
            return found.compare(objective, value, unit)
    return ""


def _read_outputs(folder: Path) -> Iterator[str]:
    for name in OUTPUTS:
        try:
            with (folder / name).open("rb") as stream:
                yield stream.read(_READ_OUTPUT).decode("utf-8", "replace")
        except OSError:
            continue


def _is_rate(match: re.Match[str]) -> bool:
    label = match["label"]
    known = match["unit"] or _SURE.search(label) or re.search(_UNIT, label)
    return bool(_NAMES.search(label) and known and float(match["number"]) > 0 and not _OTHER.search(label))


def _make_figure(output: str, pattern: str, unit: str | None, words: int = 0) -> OwnFigure | None:
    """Read the number that an objective with this pattern would use, the last one, with the unit behind it, if any."""
    last = _last(re.finditer(pattern, output, re.MULTILINE))
    if last is None:
        return None
    start, end = last.span(1)
    try:
        number = parse_printed_number(
            complete_number(output[max(0, start - _BESIDE) : start], last[1], output[end:][:_BESIDE])
        )
    except ValueError:
        return None
    start = output.rfind("\n", 0, last.start()) + 1
    behind = re.compile(rf"[ \t]*[\[(]?({_UNIT})").match(output, last.end(1))
    unit = behind[1] if behind else unit
    line = output[start:].partition("\n")[0].strip()
    line = " ".join(line.split()[:words]) if words else line
    return OwnFigure(line, f"regex:{pattern}", None if unit is None else number * _in_mib(unit))


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    last = None
    for last in matches:  # noqa: B007  only the last counts
        pass
    return last


def _in_mib(unit: str) -> float:
    """MiB in a unit such as ``GB/s``."""
    base = 1024.0 if unit[1] == "i" else 1000.0
    return float(base ** ("kmgt".index(unit[0].lower()) + 1) / _MIB)
