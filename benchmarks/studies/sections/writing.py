"""The form of a section: paragraphs, tables and aims, each said in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Steps = Mapping[str, Any]
"""The steps of a study by name, as its results keep them."""


def result(steps: Steps, name: str) -> Any:
    """Result of a step, or None."""
    return steps[name]["result"] if name in steps else None


def results(steps: Steps, start: str) -> dict[str, Any]:
    """Results of all steps whose names start so, by the rest of their names."""
    return {name.removeprefix(start): step["result"] for name, step in steps.items() if name.startswith(start)}


def percent(value: float | None) -> str:
    """A percentage, or that there is none."""
    return "none" if value is None else f"{value:.1f}%"


def middle(values: Sequence[int | None]) -> str:
    """The lower median of numbers of runs, of which None is more than any."""
    found = sorted(float("inf") if value is None else value for value in values)[(len(values) - 1) // 2]
    return "not reached" if found == float("inf") else f"{found}"


def settings(configuration: Mapping[str, Any]) -> str:
    """A configuration in words."""
    known = {name: value for name, value in configuration.items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in known.items()) or "the defaults"


class Section:
    """A section of the page, piece by piece.

    Parameters
    ----------
    about : str
        What the study did.
    *differences : tuple of str
        What differs, what was published, what it is here, and what kind of figure that is.
    """

    def __init__(self, about: str, *differences: tuple[str, str, str, str]) -> None:
        self._pieces = [about]
        if differences:
            self._grid(("", "published", "here", "label"), ["---"] * 4, differences)

    def say(self, text: str) -> None:
        """A paragraph."""
        self._pieces.append(text)

    def heading(self, title: str, text: str = "") -> None:
        """A new part, with its first paragraph."""
        self._pieces.append(f"### {title}")
        if text:
            self.say(text)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """A table, the first column to the left and figures to the right."""
        self._grid(head, ["---", *["---:"] * (len(head) - 1)], rows)

    def aims(self, *aims: tuple[str, bool] | tuple[str, bool, int, int]) -> None:
        """What was to be reached: words, whether it was, and how much of how much is done; in part it is open."""
        lines = []
        for words, reached, *part in aims:
            done, of = part or (1, 1)
            verdict = f"Open, {done} of {of} done" if done < of else "Reached" if reached else "Not reached"
            lines.append(f"- {verdict}: {words}.")
        self._pieces.append("\n".join(lines))

    def missing(self, steps: Steps, parts: Mapping[str, str]) -> None:
        """Name what has not been done."""
        left = [words for name, words in parts.items() if name not in steps]
        if left:
            self.say("Not done yet: " + "; ".join(left) + ".")

    def text(self) -> str:
        """The section in Markdown."""
        return "\n\n".join(self._pieces) + "\n"

    def _grid(self, head: Sequence[str], rule: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        cells = [head, rule, *rows]
        self._pieces.append("\n".join("| " + " | ".join(map(str, row)) + " |" for row in cells))
