"""Lists of the commands that a site or a service allows: patterns, matched against every program that a command starts.

See ``docs/reference/sites.md`` for what a pattern says.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from stripewise.errors import UserError
from stripewise.runners.command_pattern import Option, Pattern, Place, Step, script_at, wild
from stripewise.runners.program.launchers import LAUNCHERS, SEARCHED_FOR, WRAPPERS, Grammar, family, starts_others

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


def reads_commands(command: Sequence[str]) -> bool:
    """Say whether a command starts a shell or the like, which takes commands from its standard input."""
    return any(starts_others(word) and family(word) not in LAUNCHERS for word in command)


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
        if reads and reads_commands(command):
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
        raise _wrong(text, f"cannot be read: {error}") from error
    found: list[Pattern] = []
    before: list[Step] = []
    for part in _parts(words):
        steps, at = _steps(text, part, next((step for step in before if step.launches), None))
        found.append(_pattern(text, [*(s for s in before if not s.launches), *steps], part[at:]))
        if not before and found[0].launcher:
            launcher = next(i for i, step in enumerate(steps) if step.launches)
            before = steps[: launcher + 1]
        elif not before and len(_parts(words)) > 1:
            raise _wrong(text, "has a colon but no launcher")
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
        grammar = WRAPPERS.get(name) or (None if launched else LAUNCHERS.get(name))
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
        if grammar.assignments and (_ASSIGNMENT.match(word) or (wild(word) and "=" in word)):
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
    known = name in grammar.values or name in grammar.flags
    if not word.startswith("--") and len(word) > 2 and word[1] in grammar.attached and not known:
        return Option(word[:2], False, (word[2:],), word[1] in grammar.environment)
    count = grammar.values.get(name)
    if count is None:
        following = words[at + 1] if at + 1 < len(words) else "-"
        count = 0 if name in grammar.flags or following.startswith("-") else 1
    return Option(word, False, tuple(words[at + 1 : at + 1 + count]), listed)


def _check_option(text: str, option: Option, grammar: Grammar) -> None:
    """Refuse a pattern that leaves open which programs, libraries or variables an option brings in."""
    name = option.key.lstrip("-")
    if wild(option.key):
        raise _wrong(text, f"has a wildcard in the name '{option.key}': name each option and variable")
    parameter = name in grammar.mca or name in SEARCHED_FOR
    named = name in grammar.environment or parameter
    subject = option.values[0].partition("=")[0] if named and option.values else ""
    if wild(subject):
        raise _wrong(text, f"lets {option.key} set any variable: name the variable")
    splits = grammar.assignments and name in ("S", "split-string")
    naming = parameter and bool(_NAMING.search(subject))
    starting = splits or naming or name in _STARTING or name in _FOLDERS
    if starting and any(wild(value) for value in option.values):
        raise _wrong(text, f"leaves open what {option.key} reads or starts: write its value out")


def _pattern(text: str, steps: Sequence[Step], words: Sequence[str]) -> Pattern:
    rest = bool(words) and words[-1] == _REST
    words = words[:-1] if rest else words
    if not words:
        raise _wrong(text, "names no program")
    program, arguments = words[0], tuple(words[1:])
    names = {option.key.lstrip("-") for step in steps for option in step.options}
    moved = bool(names & _FOLDERS) or any(
        option.key in ("-C", "--chdir") for step in steps if step.grammar.assignments for option in step.options
    )
    if program.startswith("-"):
        raise _wrong(text, "names no program")
    if wild(program) and ("/" not in program or "multi-prog" in names):
        raise _wrong(text, f"allows any program: '{program}' needs a folder, as in /opt/codes/*")
    if moved and "/" in program and not program.startswith("/"):
        raise _wrong(text, f"sets the program's folder: give an absolute path in place of '{program}'")
    fixed = not rest and not any(map(wild, arguments))
    if starts_others(program) and not fixed and script_at(program, arguments) is None:
        raise _wrong(text, f"allows any program, since {program} starts what its arguments name: write all of them out")
    return Pattern(tuple(steps), program, arguments, rest, moved)


def _wrong(text: str, why: str) -> UserError:
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
