"""Lists of the commands that a site or a service allows: patterns, matched against every program that a command starts.

A pattern allows launchers and wrappers with their options, then a program with its arguments: see
``docs/reference/sites.md``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from stripewise.errors import UserError
from stripewise.runners.program.binary import is_starter
from stripewise.runners.program.command import (
    CONTAINERS,
    LAUNCHERS,
    SEARCHED_FOR,
    TOOLS,
    WRAPPERS,
    family,
    is_obeyed,
    placeholders,
    starts_others,
)
from stripewise.runners.program.grammar import Grammar
from stripewise.shell import SHELLS

_WILD = frozenset("*?")
_LAUNCHERS = {name: grammar for name, grammar in LAUNCHERS.items() if not (grammar.anywhere or grammar.hosts)}
"""Those that take no word behind their options as their own: what follows them is the program."""
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
        return PurePath(self.word).name in _LAUNCHERS

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
        if _is_there(here) and (found is None or _real(here) != found):
            return _real(here)
        return found

    def starts_others(self, word: str) -> bool:
        """Say whether a word names a program that starts those of its arguments, whatever its name is."""
        found = self.file(word)
        return starts_others(word) or (found is not None and is_starter(found, self.path))

    def shadowed(self, word: str) -> bool:
        """Say whether a bare word could mean a file of the folder in place of the one on ``PATH``."""
        here = self.folder / word
        return _is_there(here) and _real(here) != self._on_path(word)

    def _on_path(self, word: str) -> Path | None:
        for entry in self.path.split(os.pathsep):
            candidate = Path(entry) / word
            if entry.startswith("/") and _is_there(candidate) and candidate.is_file() and os.access(candidate, os.X_OK):
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
        free = self.rest or any(map(is_wild, [self.program, *wanted]))
        # A pattern of a shell or a tool says what it starts.
        if free and not starts_others(self.program) and place.starts_others(program):
            return False
        script = script_at(self.program, wanted)
        if script is not None and script < len(given):
            if placeholders([given[script]]) or not _same_program(given[script], wanted[script], place):
                return False
            del given[script], wanted[script]
        further = given[len(wanted) :]
        # A launcher that is not known as one divides its command at colons as well.
        if ":" in further or (self.launcher and any(map(is_obeyed, further))):
            return False
        enough = len(given) >= len(wanted) if self.rest else len(given) == len(wanted)
        return enough and all(_word_fits(word, pattern) for word, pattern in zip(given, wanted, strict=False))


def is_wild(text: str) -> bool:
    """Say whether a word of a pattern stands for more than itself."""
    return bool(_WILD & set(text))


def script_at(program: str, arguments: Sequence[str]) -> int | None:
    """Give the place of the path that an interpreter's arguments name after fixed options; None where there is none."""
    name = family(program)
    if not starts_others(program) or name in TOOLS:
        return None
    at = next((at for at, word in enumerate(arguments) if "/" in word), None)
    line = any(word.startswith("-") and "c" in word for word in arguments[:1])
    if at is None or line or arguments[at].startswith("-") or any(map(is_wild, arguments[:at])):
        return None
    if name in CONTAINERS:
        # What follows the image is started in it, unless the image says itself what it runs.
        inside = arguments[at + 1 : at + 2]
        fixed = bool(inside) and not is_wild(inside[0]) and not inside[0].startswith("-")
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
        fixed = next((at for at, part in enumerate(parts) if is_wild(part)), len(parts))
        wanted = _real(Path(*parts[:fixed])).joinpath(*parts[fixed:])
    return len(real.parts) == len(wanted.parts) and all(
        re.fullmatch(_expression(part), own, re.DOTALL) for own, part in zip(real.parts, wanted.parts, strict=True)
    )


def _word_fits(given: str, pattern: str, excluded: str = "") -> bool:
    if not is_wild(pattern):
        return given == pattern
    if placeholders([given]) or given == ":" or (given.startswith("-") and not pattern.startswith("-")):
        return False
    return re.fullmatch(_expression(pattern, excluded), given, re.DOTALL) is not None


def _expression(pattern: str, excluded: str = "") -> str:
    """Give the regular expression of a word, whose wildcards end at a slash."""
    one = f"[^/{re.escape(excluded)}]"
    return "".join({"*": f"{one}*", "?": one}.get(letter, re.escape(letter)) for letter in pattern)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long for a file
        return False


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


_REST = "..."
"""Ends a pattern: any further arguments of the program."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

_STARTING = {
    # Hydra; Open MPI; Slurm; jsrun
    *("configfile", "launcher-exec", "bootstrap-exec", "path", "demux", "env-file"),
    *("app", "am", "tune", "prefix", "launch-agent", "xterm", "preload-files", "dvm", "dvm-uri", "ompi-server"),
    *("multi-prog", "prolog", "epilog", "task-prolog", "task-epilog", "bcast", "export-file"),
    *("erf_input", "appfile"),
}
"""Options that start other programs, or read files that name programs, libraries or variables."""

_NAMING = re.compile(r"agent|path|file|env|prefix|rc$")
"""In names of Open MPI's parameters and options of Flux's shell: their values lead to programs or libraries."""

_FOLDERS = frozenset(("wdir", "wd", "chdir", "cwd", "D"))
"""Options of launchers that set the program's folder."""


class AllowList:
    """Patterns of commands that may be launched.

    Parameters
    ----------
    patterns : sequence of str

    Raises
    ------
    UserError
        If a pattern names no program, or would allow any program.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._read = tuple(part for text in patterns for part in _read(text))

    def allows(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
        """Say whether every program that a command starts is allowed, as it is started.

        Parameters
        ----------
        command : sequence of str
            Before its placeholders are replaced.
        folder : Path
            Where it starts: what relative paths begin at.
        environment : mapping
            Its ``PATH`` says what bare words name.
        """
        if not command or any("\0" in word for word in command):
            return False
        place = Place(Path(os.path.realpath(folder)), environment.get("PATH", os.defpath))
        parts = _parts(command)
        for pattern in self._read:
            if not pattern.launcher:
                if pattern.fits(command, place, first=True):
                    return True
            elif pattern.fits(parts[0], place, first=True):
                others = [other for other in self._read if other.launcher == pattern.launcher]
                if all(any(other.fits(part, place, first=False) for other in others) for part in parts[1:]):
                    return True
        return False


def reads_commands(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> bool:
    """Say whether a command starts a shell or the like, which takes commands from its standard input."""
    place = Place(Path(os.path.realpath(folder)), environment.get("PATH", os.defpath))
    return any(family(word) not in _LAUNCHERS and place.starts_others(word) for word in command if "\0" not in word)


def check_application(
    patterns: Sequence[str] | None,
    command: Sequence[str],
    program: Path,
    folder: Path,
    environment: Mapping[str, str],
    *,
    reads: bool = False,
) -> None:
    """Refuse a command that the site does not allow.

    Parameters
    ----------
    patterns : sequence of str or None
        The site file's ``applications``; None allows everything.
    command, folder, environment
        See :meth:`AllowList.allows`.
    program : Path
        What the command starts, for the message.
    reads : bool
        Whether the experiment gives it standard input.

    Raises
    ------
    UserError
        With what is allowed.
    """
    if patterns is None:
        return
    if AllowList(patterns).allows(command, folder, environment):
        if reads and reads_commands(command, folder, environment):
            raise UserError(
                f"the site does not allow standard input for {program}, which can start what it reads there",
                "tune without standard input (< /dev/null), or ask your site's staff",
            )
        return
    shown = ", ".join(patterns) or "none"
    raise UserError(f"the site does not allow {program} to be tuned so", f"allowed: {shown}; ask your site's staff")


def _read(text: str) -> list[Pattern]:
    """Read a pattern; one with colons allows each of its parts."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _make_error(text, f"cannot be read: {error}") from error
    found: list[Pattern] = []
    before: list[Step] = []
    for part in _parts(words):
        steps, at = _steps(text, part, next((step for step in before if step.launches), None))
        found.append(_pattern(text, [*(s for s in before if not s.launches), *steps], part[at:]))
        if not before and found[0].launcher:
            launcher = next(i for i, step in enumerate(steps) if step.launches)
            before = steps[: launcher + 1]
        elif not before and len(_parts(words)) > 1:
            raise _make_error(text, "has a colon but no launcher")
    return found


def _steps(text: str, words: Sequence[str], launcher: Step | None) -> tuple[list[Step], int]:
    """Read launchers and wrappers; a part after a colon begins with the launcher's options."""
    steps: list[Step] = []
    at = 0
    if launcher is not None:
        options, operands, at = _options(text, words, 0, launcher.grammar, subcommand=False)
        steps.append(Step(launcher.word, launcher.grammar, options, operands))
    while at < len(words):
        name = PurePath(words[at]).name
        launched = any(step.launches for step in steps)
        grammar = WRAPPERS.get(name) or (None if launched else _LAUNCHERS.get(name))
        if grammar is None:
            break
        word = words[at]
        options, operands, at = _options(text, words, at + 1, grammar)
        steps.append(Step(word, grammar, options, operands))
    return steps, at


def _options(
    text: str, words: Sequence[str], at: int, grammar: Grammar, *, subcommand: bool = True
) -> tuple[tuple[Option, ...], tuple[str, ...], int]:
    options: list[Option] = []
    operands: list[str] = []
    if grammar.subcommands and subcommand:
        operands, at = list(words[at : at + 1]), at + 1
    while at < len(words):
        word = words[at]
        if grammar.assignments and (_ASSIGNMENT.match(word) or (is_wild(word) and "=" in word)):
            option = Option(word.partition("=")[0], True, (word.partition("=")[2],))
            at += 1
        elif word.startswith("-") and len(word) > 1:
            option = _option(words, at, grammar)
            inside = len(option.values) if not option.joined and word == option.key else 0
            at += 1 + inside
        else:
            break
        _check_option(text, option, grammar)
        options.append(option)
    count = grammar.operands
    return tuple(options), (*operands, *words[at : at + count]), at + count


def _option(words: Sequence[str], at: int, grammar: Grammar) -> Option:
    word = words[at]
    key, equals, value = word.partition("=")
    name = key.lstrip("-")
    listed = name in grammar.environment
    if equals and word.startswith("--"):
        return Option(key, True, (value,), listed)
    if not word.startswith("--") and len(word) > 2 and word[1] in grammar.attached and name not in grammar.known:
        return Option(word[:2], False, (word[2:],), word[1] in grammar.environment)
    count = grammar.count_values(name, words[at + 1 :])
    if count is None:
        following = words[at + 1] if at + 1 < len(words) else "-"
        count = 0 if following.startswith("-") else 1
    return Option(word, False, tuple(words[at + 1 : at + 1 + count]), listed)


def _check_option(text: str, option: Option, grammar: Grammar) -> None:
    """Refuse a pattern that leaves open which programs, libraries or variables an option brings in."""
    name = option.key.lstrip("-")
    if is_wild(option.key):
        raise _make_error(text, f"has a wildcard in the name '{option.key}': name each option and variable")
    parameter = name in grammar.mca or name in SEARCHED_FOR
    named = name in grammar.environment or parameter
    subject = option.values[0].partition("=")[0] if named and option.values else ""
    if is_wild(subject):
        raise _make_error(text, f"lets {option.key} set any variable: name the variable")
    splits = grammar.assignments and name in ("S", "split-string")
    naming = parameter and bool(_NAMING.search(subject))
    files = grammar.programs | grammar.container
    starting = splits or naming or name in _STARTING or name in _FOLDERS or name in files
    if starting and any(is_wild(value) for value in option.values):
        raise _make_error(text, f"leaves open what {option.key} reads or starts: write its value out")


def _pattern(text: str, steps: Sequence[Step], words: Sequence[str]) -> Pattern:
    rest = bool(words) and words[-1] == _REST
    words = words[:-1] if rest else words
    if not words:
        raise _make_error(text, "names no program")
    program, arguments = words[0], tuple(words[1:])
    names = {option.key.lstrip("-") for step in steps for option in step.options}
    moved = bool(names & _FOLDERS) or any(
        option.key in ("-C", "--chdir") for step in steps if step.grammar.assignments for option in step.options
    )
    if program.startswith("-"):
        raise _make_error(text, "names no program")
    if is_wild(program) and ("/" not in program or "multi-prog" in names):
        raise _make_error(text, f"allows any program: '{program}' needs a folder, as in /opt/codes/*")
    if moved and "/" in program and not program.startswith("/"):
        raise _make_error(text, f"sets the program's folder: give an absolute path in place of '{program}'")
    fixed = not rest and not any(map(is_wild, arguments))
    if starts_others(program) and not fixed and script_at(program, arguments) is None:
        raise _make_error(
            text, f"allows any program, since {program} starts what its arguments name: write all of them out"
        )
    return Pattern(tuple(steps), program, arguments, rest, moved)


def _make_error(text: str, why: str) -> UserError:
    return UserError(f"the pattern of commands '{text}' {why}", "see the reference of sites, applications")


def _parts(words: Sequence[str]) -> list[list[str]]:
    """Divide a command at its colons."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts
