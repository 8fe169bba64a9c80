"""What a pattern of commands allows: launchers and wrappers with their options, then a program with its arguments.

:mod:`stripewise.runners.allow_list` reads patterns from their text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from stripewise.runners.program.command import obeyed, placeholders
from stripewise.runners.program.launchers import CONTAINERS, LAUNCHERS, SHELLS, TOOLS, Grammar, family, starts_others

_WILD = frozenset("*?")
_FLAGS = {
    **dict.fromkeys(SHELLS, ("-e", "-l", "-u", "-x")),
    "python": ("-B", "-E", "-I", "-O", "-P", "-S", "-s", "-u"),
    "java": ("-jar",),
}
"""Options of interpreters after which the next word is the script, not the option's value."""


@dataclass(frozen=True)
class Option:
    """An option that a pattern names.

    Attributes
    ----------
    key : str
        As it is written.
    joined : bool
        Whether its value follows an equals sign.
    values : tuple of str
    listed : bool
        Whether the launcher divides its value at commas, so that a wildcard may not reach past one.
    """

    key: str
    joined: bool
    values: tuple[str, ...]
    listed: bool = False

    def taken(self, words: Sequence[str], at: int, attached: str) -> int:
        """Give how many words of a command are this option with an allowed value; 0 where they are not."""
        word = words[at]
        if self.joined or (self.key.startswith("--") and word.startswith(f"{self.key}=")):
            name, equals, value = word.partition("=")
            return int(bool(equals) and name == self.key and len(self.values) == 1 and self._fits([value]))
        if word == self.key:
            values = words[at + 1 : at + 1 + len(self.values)]
            return 1 + len(self.values) if len(values) == len(self.values) and self._fits(values) else 0
        letter = len(self.key) == 2 and self.key[1] in attached and len(self.values) == 1
        return int(letter and word.startswith(self.key) and self._fits([word[2:]]))

    def _fits(self, values: Sequence[str]) -> bool:
        return all(
            _word_fits(value, pattern, ",;" if self.listed else "")
            for value, pattern in zip(values, self.values, strict=True)
        )


@dataclass(frozen=True)
class Step:
    """A launcher or a wrapper in a pattern, with its options and operands."""

    word: str
    grammar: Grammar
    options: tuple[Option, ...]
    operands: tuple[str, ...]

    @property
    def launches(self) -> bool:
        """Whether it starts the ranks."""
        return PurePath(self.word).name in LAUNCHERS

    def past(self, words: Sequence[str], at: int) -> int | None:
        """Give the place after this step's options and operands; None where the words say anything else."""
        left = list(self.options)
        operands = list(self.operands)
        if self.grammar.subcommands:
            if words[at : at + 1] != operands[:1]:
                return None
            at, operands = at + 1, operands[1:]
        while at < len(words) and (words[at].startswith("-") or (self.grammar.assignments and "=" in words[at])):
            found = next((o for o in left if o.taken(words, at, self.grammar.attached)), None)
            if found is None:
                return None
            at += found.taken(words, at, self.grammar.attached)
            left.remove(found)
        for operand in operands:
            if at >= len(words) or not _word_fits(words[at], operand):
                return None
            at += 1
        return None if left else at


@dataclass(frozen=True)
class Place:
    """Where a command starts: what its relative and its bare words name."""

    folder: Path
    path: str

    def file(self, word: str) -> Path | None:
        """Give the file that a word names, without links; None for a bare word that ``PATH`` does not find."""
        if "/" in word:
            return _real(self.folder / word)
        found = self._on_path(word)
        # Some launchers look into the folder first.
        here = self.folder / word
        if _exists(here) and (found is None or _real(here) != found):
            return _real(here)
        return found

    def shadowed(self, word: str) -> bool:
        """Say whether a bare word could mean a file of the folder in place of the one on ``PATH``."""
        here = self.folder / word
        return _exists(here) and _real(here) != self._on_path(word)

    def _on_path(self, word: str) -> Path | None:
        for entry in self.path.split(os.pathsep):
            candidate = Path(entry) / word
            if entry.startswith("/") and _exists(candidate) and candidate.is_file() and os.access(candidate, os.X_OK):
                return _real(candidate)
        return None


@dataclass(frozen=True)
class Pattern:
    """One program that may be started, and how.

    Attributes
    ----------
    steps : tuple of Step
        Launchers and wrappers before it.
    program : str
    arguments : tuple of str
    rest : bool
        Whether any further arguments may follow.
    moved : bool
        Whether an option sets the program's folder, so that only an absolute path says what is started.
    """

    steps: tuple[Step, ...]
    program: str
    arguments: tuple[str, ...]
    rest: bool
    moved: bool

    @property
    def launcher(self) -> str:
        """The launcher's word; empty if there is none."""
        return next((step.word for step in self.steps if step.launches), "")

    def fits(self, words: Sequence[str], place: Place, *, first: bool) -> bool:
        """Say whether a part of a command is what the pattern allows; later parts begin after the launcher's name."""
        at = 0
        steps = list(self.steps)
        while not first and not steps[0].launches:
            steps.pop(0)
        for step in steps:
            if first or not step.launches:
                if at >= len(words) or not _same_program(words[at], step.word, place):
                    return False
                at += 1
            after = step.past(words, at)
            if after is None:
                return False
            at = after
        # What these words become in a run is not known yet.
        return at < len(words) and not placeholders(words[: at + 1]) and self._starts(words[at:], place)

    def _starts(self, words: Sequence[str], place: Place) -> bool:
        program, given, wanted = words[0], list(words[1:]), list(self.arguments)
        if program.startswith("-") or (self.moved and "/" in program and not program.startswith("/")):
            return False
        if not _same_program(program, self.program, place):
            return False
        if wild(self.program) and starts_others(str(place.file(program))):
            return False
        script = script_at(self.program, wanted)
        if script is not None and script < len(given):
            if placeholders([given[script]]) or not _same_program(given[script], wanted[script], place):
                return False
            del given[script], wanted[script]
        free = given[len(wanted) :]
        # A launcher that is not known as one divides its command at colons as well.
        if ":" in free or (self.launcher and any(map(obeyed, free))):
            return False
        enough = len(given) >= len(wanted) if self.rest else len(given) == len(wanted)
        return enough and all(_word_fits(word, pattern) for word, pattern in zip(given, wanted, strict=False))


def wild(text: str) -> bool:
    """Say whether a word of a pattern stands for more than itself."""
    return bool(_WILD & set(text))


def script_at(program: str, arguments: Sequence[str]) -> int | None:
    """Give the place of the path that an interpreter's arguments name after fixed options; None where there is none."""
    name = family(program)
    if not starts_others(program) or name in TOOLS:
        return None
    at = next((at for at, word in enumerate(arguments) if "/" in word), None)
    line = any(word.startswith("-") and "c" in word for word in arguments[:1])
    if at is None or line or arguments[at].startswith("-") or any(map(wild, arguments[:at])):
        return None
    if name in CONTAINERS:
        # What follows the image is started in it, unless the image says itself what it runs.
        inside = arguments[at + 1 : at + 2]
        fixed = bool(inside) and not wild(inside[0]) and not inside[0].startswith("-")
        return at if fixed or (name in ("apptainer", "singularity") and arguments[0] == "run") else None
    flags = _FLAGS.get(name, ())
    return None if at and arguments[at - 1].startswith("-") and arguments[at - 1] not in flags else at


def _same_program(given: str, pattern: str, place: Place) -> bool:
    """Say whether a command's word names a file that the pattern's word allows."""
    if "/" not in pattern:
        if "/" not in given:
            return given == pattern and not place.shadowed(given)
        found = place.file(pattern)
        return found is not None and place.file(given) == found
    real = place.file(given)
    if real is None:
        return False
    if not pattern.startswith("/"):
        # A link in the folder leads to another program: the owner of the folder may have made it.
        wanted = Path(os.path.normpath(place.folder / pattern))
    else:
        parts = Path(pattern).parts
        fixed = next((at for at, part in enumerate(parts) if wild(part)), len(parts))
        wanted = _real(Path(*parts[:fixed])).joinpath(*parts[fixed:])
    return len(real.parts) == len(wanted.parts) and all(
        re.fullmatch(_expression(part), own, re.DOTALL) for own, part in zip(real.parts, wanted.parts, strict=True)
    )


def _word_fits(given: str, pattern: str, excluded: str = "") -> bool:
    if not wild(pattern):
        return given == pattern
    if placeholders([given]) or given == ":" or (given.startswith("-") and not pattern.startswith("-")):
        return False
    return re.fullmatch(_expression(pattern, excluded), given, re.DOTALL) is not None


def _expression(pattern: str, excluded: str = "") -> str:
    """Give the regular expression of a word, whose wildcards end at a slash."""
    one = f"[^/{re.escape(excluded)}]"
    return "".join({"*": f"{one}*", "?": one}.get(letter, re.escape(letter)) for letter in pattern)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for a file
        return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
