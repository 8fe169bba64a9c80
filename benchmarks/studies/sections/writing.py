"""The form of a section: paragraphs, tables and aims, each said in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Aim:
    """What was to be reached.

    Attributes
    ----------
    words : str
    reached : bool
    source : str
        Who set it: the study, with the place of the figure, or we.
    headroom : str
        How far above or below the aim the result is.
    random : str
        What random choices, or guesses without a model, get instead.
    random_reaches : bool
        Whether that reaches the aim.
    kind : {"measured", "simulated", "fitted"}
        What the figure is; fitted if simulated on a site that was fitted to the study.
    done, of : int
        How much of how much is done; in part it is open.
    """

    words: str
    reached: bool
    source: str
    headroom: str
    random: str
    random_reaches: bool
    kind: str
    done: int = 1
    of: int = 1

    def __str__(self) -> str:
        open_still = self.done < self.of
        verdict = f"Open, {self.done} of {self.of} done" if open_still else "Reached" if self.reached else "Not reached"
        source = f"Aim: {self.source}. Headroom: {self.headroom}. Random choices: {self.random}."
        return f"- {verdict} ({self.kind}): {self.words}. {source}"


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

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Any]], *, text: bool = False) -> None:
        """A table, the first column to the left and figures to the right; of text, all to the left."""
        self._grid(head, ["---", *["---" if text else "---:"] * (len(head) - 1)], rows)

    def aims(self, *aims: Aim) -> None:
        """What was to be reached, and whether it was.

        Raises
        ------
        ValueError
            Where random choices reach an aim too: it would say nothing.
        """
        for aim in aims:
            if aim.random_reaches:
                raise ValueError(f"random choices reach this aim too, choose another: {aim.words} ({aim.random})")
        if aims:
            self._pieces.append("\n".join(map(str, aims)))

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
