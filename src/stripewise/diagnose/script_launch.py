"""What a script starts and where: launchers, the variables that their options set, MPI library, file system.

Which options set variables is in the tables of :mod:`stripewise.runners.program.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from stripewise.catalogue.carriers import MCA
from stripewise.catalogue.meaning import knows_name
from stripewise.diagnose.script_setting import NAME
from stripewise.diagnose.shell_run import behind
from stripewise.diagnose.shell_state import Piece, Value, base_name, text_of, words_in
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
    name = base_name(given.launcher)
    differing = _find_differing(texts, given.launcher) if ":" in texts and name else frozenset()
    library, shown_by = LAUNCHERS[name].library_of(name) if name else "", name
    if name and not library and given.mca:
        option = next((word for word in texts if _is_option(word, _ANY.mca)), "")
        library, shown_by = "openmpi", f"{name} {option}".strip()
    variables = [
        (one, value)
        for one, text in given.environment.items()
        if one not in differing
        and re.fullmatch(NAME, one)
        and (value := _find_value(words, texts, one, text)) is not None
    ]
    mca = [
        (one, value)
        for one, text in given.mca.items()
        if one not in differing and knows_name(MCA, one) and (value := _find_value(words, texts, one, text)) is not None
    ]
    return Launch(given.launcher, library, shown_by, tuple(variables), tuple(mca))


def _find_differing(texts: Sequence[str], launcher: str) -> frozenset[str]:
    """Give the names that parts of a launch set to values of their own: ``mpirun --mca io A ./a : --mca io B ./b``."""
    values: dict[str, set[str]] = {}
    colons = [place for place, word in enumerate(texts) if word == ":"]
    for begin, end in pairwise([-1, *colons, len(texts)]):
        part = texts[begin + 1 : end]
        given = _read_given(tuple(part if begin < 0 else (launcher, *part)))
        for name, value in (*given.environment.items(), *given.mca.items()):
            values.setdefault(name, set()).add(value)
    return frozenset(name for name, found in values.items() if len(found) > 1)


def read_options(value: Value) -> Launch | None:
    """Say what options of a launcher set that a variable holds; None where it holds none."""
    words = words_in(value) if any("-" in piece.text for piece in value) else []
    if not any(_is_option(text_of(word), _ANY.environment | _ANY.mca) for word in words):
        return None
    return read_launch([(Piece("$LAUNCHER", value[0].line, known=False),), *words])


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
        grammar = LAUNCHERS.get(base_name(word))
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


_VARIABLES = {"OMPI_MCA_": "openmpi", "MPICH_MPIIO_": "cray", "I_MPI_": "intel"}
"""How the variables of MPI libraries begin."""
_MODULES = (
    (re.compile(r"(?:.*[-/_])?(?:impi|intel-?mpi|intel-oneapi-mpi)(?:[-/_.].*)?|mpi/intel.*", re.I), "intel"),
    (re.compile(r"(?:.*[-/_])?(?:openmpi|ompi|spectrum-mpi|hpcx(?:-.*)?)(?:[-/_.].*)?", re.I), "openmpi"),
    (re.compile(r"(?:cray-mpich|PrgEnv-|craype|cce(?:/|$)).*", re.I), "cray"),
    (re.compile(r"(?:.*[-/_])?(?:mvapich2?|mpich2?)(?:[-/_.].*)?", re.I), "mpich"),
)
_FOLDERS = {"lustre": "lustre", "lus": "lustre", "gpfs": "gpfs", "beegfs": "beegfs"}
_LABELS = {"mpi": "MPI library", "file_system": "file system"}


@dataclass(frozen=True)
class Fact:
    """What a line of a script shows.

    Attributes
    ----------
    kind : str
        ``mpi`` or ``file_system``.
    value : str
        As the command line names it.
    what : str
        The word of the script.
    strong : bool
        Whether it is there for this alone: a module or an option, not a variable.
    always : bool
        Whether every way through the script comes by it.
    """

    kind: str
    value: str
    line: int
    what: str
    strong: bool
    always: bool


class Facts:
    """Collects facts in the order of the script."""

    def __init__(self) -> None:
        self.found: list[Fact] = []
        self.modules: list[str] = []

    def _add(self, kind: str, value: str, line: int, what: str, *, strong: bool, always: bool) -> None:
        if len(self.found) < 1000:
            self.found.append(Fact(kind, value, line, what, strong, always))

    def read_variable(self, name: str, text: str, line: int, *, always: bool) -> None:
        """Note what the name of a variable shows."""
        for begin, mpi in _VARIABLES.items():
            if name.startswith(begin):
                self._add("mpi", mpi, line, name, strong=False, always=always)
        if name == "ROMIO_FSTYPE_FORCE" and (kind := text.rstrip(":").lower()) in _FOLDERS.values():
            self._add("file_system", kind, line, f"{name}={text}", strong=True, always=always)

    def read_module(self, name: str, line: int, *, always: bool) -> None:
        """Note a module that the script loads."""
        self.modules.append(name)
        mpi = next((mpi for pattern, mpi in _MODULES if pattern.fullmatch(name)), "")
        if mpi:
            self._add("mpi", mpi, line, name, strong=True, always=always)

    def read_command(self, words: Sequence[str], launch: Launch, line: int, *, always: bool) -> None:
        """Note what the words of a command show."""
        if launch.library:
            self._add("mpi", launch.library, line, launch.shown_by, strong=True, always=always)
        if "/" in launch.launcher:
            parts = launch.launcher.lower().split("/")
            mpi = next((mpi for pattern, mpi in _MODULES[:2] if any(map(pattern.fullmatch, parts))), "")
            if mpi:
                self._add("mpi", mpi, line, launch.launcher, strong=True, always=always)
        name = base_name(words[0])
        if name == "lfs":
            self._add("file_system", "lustre", line, "lfs", strong=True, always=always)
        elif name == "beegfs-ctl":
            self._add("file_system", "beegfs", line, "beegfs-ctl", strong=True, always=always)

    def values(self, kind: str) -> tuple[str, ...]:
        """Give all that shows of a kind, of the strongest sort that shows."""
        strong = any(one.strong for one in self.found if one.kind == kind)
        return tuple(dict.fromkeys(one.value for one in self.found if one.kind == kind and one.strong is strong))

    def shown(self, kind: str) -> tuple[str, Fact | None, str]:
        """Say what the script shows of a kind.

        Returns
        -------
        str, Fact or None, str
            The value, empty where nothing or several things show; the fact that shows it; why it is not clear.
        """
        for strong in (True, False):
            among = [one for one in self.found if one.kind == kind and one.strong is strong]
            values = dict.fromkeys(one.value for one in among)
            if len(values) == 1:
                return among[0].value, among[0], ""
            if len(values) > 1:
                first, *others = [next(one for one in among if one.value == value) for value in values]
                told = " and ".join(f"{one.what} in line {one.line}" for one in (first, *others))
                return "", None, f"the script names more than one {_LABELS[kind]}: {told}"
        return "", None, ""
