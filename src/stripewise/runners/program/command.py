"""A user's command line, taken apart: launcher and wrappers, then the program; nothing is looked up or started."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from stripewise.errors import UserError
from stripewise.runners.program.launchers import LAUNCHERS, SEARCHED_FOR, WRAPPERS, Grammar
from stripewise.shell import is_plain

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOLDER = ("wdir", "wd", "chdir")
_PER_NODE_MAP = re.compile(r"ppr:(\d+):node")


@dataclass(frozen=True)
class Segment:
    """One program of a command line.

    Attributes
    ----------
    before : tuple of str
        Launcher, wrappers and their options.
    program : tuple of str
        The program and its arguments.
    """

    before: tuple[str, ...]
    program: tuple[str, ...]


@dataclass(frozen=True)
class CommandLine:
    """A command line whose parts are known.

    Attributes
    ----------
    segments : tuple of Segment
        One; several where a launcher starts different programs, divided by colons.
    launcher : str
        The launcher as it is written, or empty.
    launcher_at : int
        Its place in the first segment's ``before``, or -1.
    ranks, nodes : int or None
        As far as the launcher's options say.
    per_node : int or None
        Ranks a node, likewise.
    environment : mapping
        Variables that the command line itself sets for the program.
    mca : mapping
        Parameters of Open MPI that the command line sets.
    folder : str
        The working folder that the command line sets for the program, or empty.
    """

    segments: tuple[Segment, ...]
    launcher: str = ""
    launcher_at: int = -1
    ranks: int | None = None
    nodes: int | None = None
    per_node: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    mca: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def program(self) -> tuple[str, ...]:
        """The first program and its arguments."""
        return self.segments[0].program

    def words(self, assignments: Mapping[str, str] | None = None, unset: Sequence[str] = ()) -> list[str]:
        """Put the command line together again.

        Parameters
        ----------
        assignments : mapping, optional
            Variables set by ``env`` directly before each program, so that launcher and wrappers never see them.
        unset : sequence of str
            Variables taken away there.
        """
        changes = [word for name in unset for word in ("-u", name)]
        changes += [f"{name}={value}" for name, value in (assignments or {}).items()]
        carrier = ["env", *changes] if changes else []
        words: list[str] = []
        for segment in self.segments:
            words += [":"] if words else []
            words += [*segment.before, *carrier, *segment.program]
        return words


@dataclass
class _Found:
    """What the options of launchers and wrappers have said so far."""

    launcher: str = ""
    launcher_at: int = -1
    ranks: int | None = None
    factor: int = 1
    nodes: int | None = None
    per_node: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    mca: dict[str, str] = field(default_factory=dict)
    folder: str = ""


def split(words: Sequence[str], executable: Callable[[str], bool] = lambda word: False) -> CommandLine:
    """Take a command line apart.

    Parameters
    ----------
    words : sequence of str
        Not empty.
    executable : callable
        Says whether a word can be executed; asked only where an option of a launcher is unknown.

    Examples
    --------
    >>> line = split(["env", "A=b", "mpiexec", "-n", "4", "./app", "-x"])
    >>> line.program, line.ranks
    (('./app', '-x'), 4)
    >>> line.words({"LD_PRELOAD": "/lib.so"})[5:]
    ['env', 'LD_PRELOAD=/lib.so', './app', '-x']
    """
    found = _Found()
    at = _program_at(words, 0, found, executable)
    rest = list(words[at:])
    segments: list[Segment] = []
    before = tuple(words[:at])
    ranks = found.ranks
    while found.launcher and ":" in rest:
        colon = rest.index(":")
        segments.append(Segment(before, tuple(rest[:colon])))
        rest = rest[colon + 1 :]
        found.ranks = None
        at = _options_end(rest, 0, LAUNCHERS[PurePath(found.launcher).name], found, executable)
        at = _program_at(rest, at, found, executable)
        ranks = None if ranks is None or found.ranks is None else ranks + found.ranks
        before, rest = tuple(rest[:at]), rest[at:]
    segments.append(Segment(before, tuple(rest)))
    if ranks is None and found.nodes and found.per_node:
        ranks = found.nodes * found.per_node
    ranks = None if ranks is None else ranks * found.factor
    nodes = found.nodes
    if nodes is None and ranks and found.per_node:
        nodes = -(-ranks // found.per_node)
    return CommandLine(
        tuple(segments),
        found.launcher,
        found.launcher_at,
        ranks,
        nodes,
        found.per_node,
        found.environment,
        found.mca,
        found.folder,
    )


def _program_at(words: Sequence[str], at: int, found: _Found, executable: Callable[[str], bool]) -> int:
    """Give the place of the program's word, past launchers and wrappers."""
    while at < len(words):
        name = PurePath(words[at]).name
        grammar = WRAPPERS.get(name) or (LAUNCHERS.get(name) if not found.launcher else None)
        if grammar is None:
            return at
        begin = at + 1
        if grammar.subcommands:
            if begin >= len(words) or words[begin] not in grammar.subcommands:
                return at
            begin += 1
        if name in LAUNCHERS:
            found.launcher, found.launcher_at = words[at], at
        after = _options_end(words, begin, grammar, found, executable)
        if after >= len(words):
            # Nothing follows (`env`, `mpiexec --version`): then this is itself the program.
            if name in LAUNCHERS:
                found.launcher, found.launcher_at = "", -1
            return at
        at = after
    return at


def _options_end(
    words: Sequence[str], at: int, grammar: Grammar, found: _Found, executable: Callable[[str], bool]
) -> int:
    operands = grammar.operands
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1 + operands
            break
        if grammar.assignments and _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            found.environment[name] = value
            at += 1
        elif word.startswith("-") and len(word) > 1:
            at = _option(words, at, grammar, found, executable)
        elif operands:
            operands -= 1
            at += 1
        else:
            break
    return at


def _option(words: Sequence[str], at: int, grammar: Grammar, found: _Found, executable: Callable[[str], bool]) -> int:
    """Take the option at a place, with its values; give the place after it."""
    word = words[at]
    name, equals, attached = word.lstrip("-").partition("=")
    if equals and (name in grammar.values or name in grammar.flags or word.startswith("--")):
        _note(grammar, name, [attached], found)
        return at + 1
    short = not word.startswith("--") and len(word) > 2
    if short and word[1] in grammar.attached and not _known(grammar, name):
        _note(grammar, word[1], [word[2:].removeprefix("=")], found)
        return at + 1
    count = grammar.values.get(name)
    if count is None:
        count = 0 if name in grammar.flags or equals else None
    if count is None:
        following = words[at + 1] if at + 1 < len(words) else "-"
        numeric = name in grammar.ranks | grammar.nodes | grammar.per_node | grammar.ranks_factor
        takes = numeric or name in grammar.attached or not (following.startswith("-") or executable(following))
        count = 1 if takes else 0
    _note(grammar, name, list(words[at + 1 : at + 1 + count]), found)
    return at + 1 + count


def _known(grammar: Grammar, name: str) -> bool:
    return name in grammar.values or name in grammar.flags


def _note(grammar: Grammar, name: str, values: list[str], found: _Found) -> None:
    if not values:
        return
    number = int(values[0]) if values[0].isdigit() else None
    if name in _FOLDER:
        found.folder = values[0]
    if name in grammar.ranks:
        found.ranks = number
    elif name in grammar.nodes:
        found.nodes = number
    elif name in grammar.per_node:
        found.per_node = number
    elif name in grammar.ranks_factor:
        found.factor = number or 1
    elif name in grammar.mca and len(values) == 2:
        found.mca[values[0]] = values[1]
    elif name in grammar.environment:
        for entry in [f"{values[0]}={values[1]}"] if len(values) == 2 else values[0].split(","):
            key, equals, value = entry.partition("=")
            if equals:
                found.environment[key] = value
    elif match := _PER_NODE_MAP.match(values[0]):
        found.per_node = int(match[1])


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value; other braces, and the shell's ``${name}``, stay as they are."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def shell_line(line: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` in a line that a shell will read.

    Raises
    ------
    UserError
        If a value has characters that the shell would read: no quoting of ours fits whatever stands around it.
    """
    for name in placeholders([line]):
        if not is_plain(values.get(name, "")):
            raise UserError(
                f"the hook '{line}' uses {{{name}}}, and its value {values[name]!r} has characters that a shell reads",
                "take the value from a variable, as STRIPEWISE_RUN_FOLDER, or use plain values and folders",
            )
    return substitute(line, values)


def placeholders(words: Sequence[str]) -> set[str]:
    """Give the names that stand in braces somewhere."""
    return {name for word in words for name in _PLACEHOLDER.findall(word)}


def obeyed(word: str) -> bool:
    """Say whether a launcher may read a word as its own wherever it stands, after the program as well."""
    return word == ":" or (word.startswith("-") and word.lstrip("-").partition("=")[0] in SEARCHED_FOR)
