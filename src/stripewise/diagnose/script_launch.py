"""The launchers that a script starts, and the variables that options of launchers and schedulers set.

Which options set variables is in the tables of :mod:`stripewise.runners.program.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from stripewise.catalogue.carriers import MCA
from stripewise.catalogue.meaning import knows_name
from stripewise.diagnose.script_setting import NAME
from stripewise.diagnose.shell_run import behind
from stripewise.diagnose.shell_state import Piece, Value, text_of
from stripewise.runners.program.command import (
    LAUNCHERS,
    Found,
    note_option,
    skip_options,
    skip_subcommand,
    starts_others,
)
from stripewise.runners.program.grammar import Grammar, read_grammars
from stripewise.runners.program.started import Files, understand

_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+")
_FARTHEST = 40
"""Words of a command among which the launcher is."""
_MOST_WORDS = 1000
"""Words of a command that are read."""


DIRECTIVES = {mark: grammar for grammar in read_grammars().values() for mark in grammar.directives}
"""How lines begin that hold options of a scheduler, with these options."""
_DIRECTIVE = re.compile(rf"({'|'.join(map(re.escape, DIRECTIVES))})(?:\s|:|(?=-))")
_ALL = tuple(read_grammars().values())
_ANY = Grammar(
    environment=frozenset().union(*(one.environment for one in _ALL)),
    assigning=frozenset().union(*(one.assigning for one in _ALL)),
    mca=frozenset().union(*(one.mca & one.pairs for one in _ALL)),
)
"""Options of all launchers, containers and schedulers that set something."""


@dataclass(frozen=True)
class Launch:
    """What the options of a command say.

    Attributes
    ----------
    launcher : str
        As it is written; empty for none.
    library : str
        The MPI library that the launcher shows; empty where it shows none.
    shown_by : str
        The words that show it.
    variables, mca : tuple
        Variables and parameters of Open MPI that the options set, with their values.
    """

    launcher: str = ""
    library: str = ""
    shown_by: str = ""
    variables: tuple[tuple[str, Value], ...] = ()
    mca: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True)
class _Given:
    launcher: str
    environment: Mapping[str, str]
    mca: Mapping[str, str]


def read_launch(words: Sequence[Value]) -> Launch:
    """Say what the options of a command set, and which launcher it is."""
    texts = tuple(text_of(word) for word in words[:_MOST_WORDS])
    given = _read_given(texts)
    name = PurePosixPath(given.launcher).name
    library, shown_by = LAUNCHERS[name].library_of(name) if name else "", name
    if name and not library and given.mca:
        option = next((word for word in texts if _is_option(word, _ANY.mca)), "")
        library, shown_by = "openmpi", f"{name} {option}".strip()
    variables = [
        (one, value)
        for one, text in given.environment.items()
        if re.fullmatch(NAME, one) and (value := _find_value(words, texts, one, text)) is not None
    ]
    mca = [
        (one, value)
        for one, text in given.mca.items()
        if knows_name(MCA, one) and (value := _find_value(words, texts, one, text)) is not None
    ]
    return Launch(given.launcher, library, shown_by, tuple(variables), tuple(mca))


def is_directive(line: str) -> bool:
    """Whether a line of a script holds options of a scheduler."""
    return _DIRECTIVE.match(line) is not None


def is_script(lines: Sequence[str]) -> bool:
    """Whether lines begin as a script does, or hold options of a scheduler."""
    first = next((line for line in lines if line.strip()), "")
    return first.startswith("#!") or any(is_directive(line) for line in lines)


def read_directive(line: str, number: int) -> Iterator[tuple[str, Value]]:
    """Give the variables that a line with options of a scheduler sets."""
    mark = _DIRECTIVE.match(line)
    if mark is None:
        return
    texts = [re.sub("[\"']", "", word) for word in _WORD.findall(line[mark.end() :])[:60]]
    found = Found()
    skip_options(texts, 0, DIRECTIVES[mark[1]], found, lambda word: False)
    for name, text in found.environment.items():
        if re.fullmatch(NAME, name):
            yield name, (Piece(text, number),)


@lru_cache(maxsize=2048)
def _read_given(words: tuple[str, ...]) -> _Given:
    files = Files(templates=False)
    found = understand(words, files)
    launcher = next((one.launcher for one in found.programs if one.launcher), "")
    if not launcher and (place := _find_launcher(words)) is not None:
        # What stands before it is not known, or starts what it is told on another machine.
        launcher = words[place]
        found = understand(words[place:], files)
    if launcher or starts_others(words[0]):
        known = not any(one.program[:1] and one.program[0].startswith(("$", "`")) for one in found.programs)
        if known:
            return _Given(launcher, found.environment, found.mca)
    # A launcher, or options, whose name is not known (`$MPIRUN`): those of all launchers are looked for.
    anywhere = Found(environment=dict(found.environment), mca=dict(found.mca))
    for place, word in enumerate(words):
        name, equals, attached = word.lstrip("-").partition("=")
        if _is_option(word, _ANY.environment | _ANY.mca):
            values = list(words[place + 1 : place + 3])
            pair = name in _ANY.mca or (name in _ANY.assigning and "=" not in "".join(values[:1]))
            note_option(_ANY, name, [attached] if equals else values[: 1 + pair], anywhere)
    return _Given(launcher, anywhere.environment, anywhere.mca)


def _find_launcher(words: Sequence[str]) -> int | None:
    for place, word in enumerate(words[:_FARTHEST]):
        grammar = LAUNCHERS.get(PurePosixPath(word).name)
        if grammar is not None and skip_subcommand(words, place + 1, grammar) is not None:
            return place
    return None


def _find_value(words: Sequence[Value], texts: Sequence[str], name: str, text: str) -> Value | None:
    """Give the part of the words that is the value of a name: its lines, and what of it is known, are kept."""
    written = re.compile(rf"(?<!\w){re.escape(name)}=(?={re.escape(text)})")
    for place, word in enumerate(texts):
        if found := written.search(word):
            part = _first(behind(words[place], found.end()), len(text))
        elif word == name and texts[place + 1 : place + 2] == (text,):
            part = words[place + 1]
        else:
            continue
        line = words[place][0].line
        return tuple(replace(piece, line=line) for piece in part)
    return None


def _first(value: Value, count: int) -> Value:
    """Give the first characters of a value."""
    found: list[Piece] = []
    for piece in value:
        if count <= 0:
            break
        found.append(replace(piece, text=piece.text[:count]))
        count -= len(piece.text)
    return tuple(found)


def _is_option(word: str, names: frozenset[str]) -> bool:
    return word.startswith("-") and word.lstrip("-").partition("=")[0] in names
