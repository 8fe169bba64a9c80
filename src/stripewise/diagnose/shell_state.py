"""What is known of a running script: its variables, files and layouts on every way that leads to a place.

A value is a sequence of pieces, each with the line that it is from: what a script puts together keeps its lines. A
variable has alternatives, one for each way. Changes go through journals, so that a branch costs what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_ALTERNATIVES = 12
"""Values of one variable that are told apart."""
_LONGEST = 16_384
"""Characters of a value that is followed."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a value; ``known`` is false where the text is only how the script writes it."""

    text: str
    line: int
    known: bool = True


Value = tuple[Piece, ...]


def text_of(value: Value) -> str:
    """Give the text, with what is not known as the script writes it."""
    return "".join(piece.text for piece in value)


def is_known(value: Value) -> bool:
    """Whether all of it is known."""
    return all(piece.known for piece in value)


def base_name(text: str) -> str:
    """Give the last part of a path."""
    return text.rstrip("/").rpartition("/")[2]


def line_in(value: Value, offset: int) -> int:
    """Give the line from which the character at an offset is."""
    line = value[0].line if value else 0
    for piece in value:
        line = piece.line + piece.text.count("\n", 0, max(offset, 0))
        if offset < len(piece.text):
            break
        offset -= len(piece.text)
    return line


def is_known_between(value: Value, start: int, end: int) -> bool:
    """Whether what lies between two offsets is known."""
    place = 0
    for piece in value:
        if not piece.known and place < end and place + len(piece.text) > start:
            return False
        place += len(piece.text)
    return True


def shorten(value: Value) -> Value:
    """Give the value, or what stands for one that is too long to be followed."""
    if sum(len(piece.text) for piece in value) > _LONGEST or len(value) > _LONGEST:
        return (Piece(text_of(value[:1])[:100], value[0].line, known=False),)
    return value


def lines_of(value: Value) -> list[Value]:
    """Split a value into its lines."""
    found: list[Value] = []
    line: list[Piece] = []
    for piece in value:
        number = piece.line
        first, *more = piece.text.split("\n")
        if first:
            line.append(Piece(first, number, piece.known))
        for text in more:
            found.append(tuple(line))
            number += 1
            line = [Piece(text, number, piece.known)] if text else []
    if line:
        found.append(tuple(line))
    return found


def words_in(value: Value) -> list[Value]:
    """Split a value at white space, as a shell does with a variable without quotes."""
    found: list[Value] = []
    word: list[Piece] = []
    for piece in value:
        if not piece.known:
            word.append(piece)
            continue
        line = piece.line
        text = ""
        for char in piece.text:
            if not char.isspace():
                text += char
                continue
            if text:
                word.append(Piece(text, line))
                text = ""
            if word:
                found.append(tuple(word))
                word = []
            line += char == "\n"
        if text:
            word.append(Piece(text, line))
    if word:
        found.append(tuple(word))
    return found


@dataclass(frozen=True, slots=True)
class Alternative:
    """What a variable, a file or a folder's layout may hold where ways meet.

    Attributes
    ----------
    value : Value or None
        None where the script does not set it.
    items : tuple of Value or None
        Of an array.
    marks : tuple of int
        The settings that it makes.
    weak : bool
        Whether only a way leads to it that scripts take when something fails, or not at all.
    """

    value: Value | None = None
    items: tuple[Value, ...] | None = None
    exported: bool = False
    marks: tuple[int, ...] = ()
    weak: bool = False

    def __hash__(self) -> int:
        # Values are long, and alike ones rare: equality decides.
        sizes = (len(self.value or ()), len(self.items or ()))
        return hash((self.exported, self.weak, self.marks, sizes, self.value[0].text if self.value else None))

    def as_weak(self, weak: bool) -> Alternative:
        """Give the same with whether only a weak way leads to it."""
        # As replace does, in a fifth of its time.
        return Alternative(self.value, self.items, self.exported, self.marks, weak)


ABSENT = (Alternative(),)


@dataclass(frozen=True, slots=True)
class Reached:
    """Settings that every way so far has brought to a program.

    Attributes
    ----------
    marks : frozenset of int or None
        None where no way has started a program.
    some_without : bool
        Whether a way has started none.
    """

    marks: frozenset[int] | None = None
    some_without: bool = True

    def add(self, marks: frozenset[int]) -> Reached:
        """Note that all ways start a program that finds settings."""
        before = self.marks or frozenset()
        return Reached(marks if self.some_without else before | marks, some_without=False)


class State:
    """What holds at a place, by keys that begin with the kind of what they name."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._journals: list[dict[str, Any]] = []

    def get(self, key: str, otherwise: Any = None) -> Any:
        """Give what holds."""
        return self._values.get(key, otherwise)

    def put(self, key: str, value: Any) -> None:
        """Change what holds."""
        if self._journals and key not in self._journals[-1]:
            self._journals[-1][key] = self._values.get(key)
        self._values[key] = value

    def keys(self) -> Iterable[str]:
        """Name all that was ever set."""
        return self._values.keys()

    def begin(self) -> None:
        """Begin a way of its own."""
        self._journals.append({})

    def end(self) -> dict[str, Any]:
        """End it: give what it changed, and take the changes back."""
        journal = self._journals.pop()
        changed = {key: self._values.get(key) for key in journal}
        self._values.update(journal)
        return changed

    def put_all(self, changes: Mapping[str, Any]) -> None:
        """Let changes hold."""
        for key, value in changes.items():
            self.put(key, value)


def merge(ways: Sequence[tuple[Sequence[Alternative], bool]]) -> tuple[tuple[Alternative, ...], tuple[int, ...]]:
    """Join what some ways lead to, each with whether it is weak.

    Returns
    -------
    tuple of Alternative, tuple of int
        Also the settings of those for which there is no room.
    """
    first = ways[0][0]
    if isinstance(first, tuple) and all(alternatives is first for alternatives, _ in ways):
        # Most ways leave most things as they are.
        weak = all(weak for _, weak in ways)
        return (tuple(one.as_weak(True) for one in first) if weak else first), ()
    found: dict[Alternative, bool] = {}
    lost: list[int] = []
    for alternatives, weak in ways:
        for one in alternatives:
            bare = one.as_weak(False) if one.weak else one
            if bare in found:
                found[bare] = found[bare] and (weak or one.weak)
            elif len(found) < MOST_ALTERNATIVES:
                found[bare] = weak or one.weak
            else:
                lost += one.marks
    return tuple(one.as_weak(True) if weak else one for one, weak in found.items()), tuple(lost)


def merge_reached(ways: Sequence[Reached]) -> Reached:
    """Join what some ways have brought to programs."""
    known = [one.marks for one in ways if one.marks is not None]
    marks = frozenset.intersection(*known) if known else None
    return Reached(marks, any(one.some_without for one in ways))
