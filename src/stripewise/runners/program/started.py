"""What a command line starts in the end: its programs with their ranks, behind launchers, wrappers, containers, shells.

Whatever is not certain becomes a remark. Nothing is started, and files are read only through what the caller gives.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from stripewise.runners.program.command import (
    CONTAINERS,
    INTERPRETERS,
    LAUNCHERS,
    SCHEDULERS,
    TOOLS,
    WRAPPERS,
    CommandLine,
    Found,
    family,
    skip_options,
    skip_subcommand,
    split_command,
    text_at,
)
from stripewise.runners.program.grammar import Grammar, grammars_of
from stripewise.runners.program.shell_commands import list_commands
from stripewise.shell import SHELLS


@dataclass(frozen=True)
class Started:
    """A program that a command line starts in the end.

    Attributes
    ----------
    program : tuple of str
        The program and its arguments; empty where it is not known.
    ranks : int or None
        As far as the launcher's options say.
    ranks_as : str
        Their number as it is written, such as ``$NP``; empty where no option says it.
    launcher : str
        As it is written; empty for none.
    wrappers : tuple of str
        What stands between the launcher and the program, by base name; a shell as ``bash -c``.
    container : str
        The image, with what starts it: ``apptainer image.sif``; empty for none.
    nodes, per_node : int or None
        Nodes, and ranks per node, as far as the launcher's options say.
    """

    program: tuple[str, ...]
    ranks: int | None = None
    ranks_as: str = ""
    launcher: str = ""
    wrappers: tuple[str, ...] = ()
    container: str = ""
    nodes: int | None = None
    per_node: int | None = None

    @property
    def in_shell(self) -> bool:
        """Whether the text of a shell starts it, where others may come before and after it."""
        return any(name.endswith(" -c") for name in self.wrappers)

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "program": list(self.program),
            "ranks": self.ranks,
            "launcher": self.launcher,
            "wrappers": list(self.wrappers),
            "container": self.container,
        }

    def describe(self) -> str:
        """Say it in a line."""
        shown = shlex.join(self.program) if self.program else "an unknown program"
        if self.launcher:
            many = self.ranks_as if self.ranks is None else f"{self.ranks:,}"
            unit = "rank" if self.ranks == 1 else "ranks"
            shown += f", {many} {unit} by" if many else ", by"
            shown += f" {PurePath(self.launcher).name}"
        if self.wrappers:
            shown += f", behind {', '.join(self.wrappers)}"
        return shown + (f", in the container {self.container}" if self.container else "")


def describe_command(programs: Sequence[Started]) -> list[str]:
    """Say what a command starts, one program a line."""
    return [f"{'command' if at == 0 else 'and':<9} {one.describe()}" for at, one in enumerate(programs)]


@dataclass(frozen=True)
class Understood:
    """What a command line says.

    Attributes
    ----------
    line : CommandLine
        Its parts, from which it can be put together again.
    programs : tuple of Started
        At least one.
    remarks : tuple of str
        What is not certain, or not understood.
    environment, mca : mapping
        Variables and parameters of Open MPI that launchers, wrappers, containers and schedulers set.
    """

    line: CommandLine
    programs: tuple[Started, ...]
    remarks: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mca: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """What may be asked of the machine.

    Attributes
    ----------
    executable : callable
        Whether a word can be executed.
    read : callable
        Gives the text of a file that a word names; None where there is none.
    templates : bool
        Whether ``{{ name }}`` stands for a word that is filled in later, as in the template of a script.
    """

    executable: Callable[[str], bool] = lambda word: False
    read: Callable[[str], str | None] = lambda word: None
    templates: bool = True


def understand(words: Sequence[str], files: Files | None = None) -> Understood:
    """Say which programs a command starts in the end, and with how many ranks.

    Parameters
    ----------
    words : sequence of str
        Not empty, without redirections. Words that a shell would replace may stand in them as they are written
        (``$NP``).
    files : Files, optional
        By default, nothing is looked up.

    Examples
    --------
    >>> found = understand(["srun", "-n", "4", "apptainer", "exec", "image.sif", "./app"])
    >>> found.programs[0].program, found.programs[0].ranks, found.programs[0].container
    (('./app',), 4, 'apptainer image.sif')
    """
    return _understand(words, files or Files(), 0)


def _understand(words: Sequence[str], files: Files, depth: int) -> Understood:
    """Understand a command that stands behind so many others."""
    line = split_command(_join_templates(words) if files.templates else words, files.executable)
    sight = _Sight(files, list(line.remarks), dict(line.environment), dict(line.mca))
    if line.launcher and (odd := next((word for word in words if word.startswith(": ")), "")):
        sight.remarks.append(f"'{odd}' is one word, so it divides nothing: take the backslash before the space away")
    programs: list[Started] = []
    for segment in line.segments:
        outer = Started(
            *((), segment.ranks, segment.ranks_as, line.launcher, line.wrappers, line.image, line.nodes, line.per_node)
        )
        if line.launcher and line.listing and (not segment.program or segment.program[0] == line.listing):
            programs += sight.read_listing(line, outer, depth)
        else:
            programs += sight.look_behind(segment.program, outer, depth)
    return Understood(line, tuple(programs), tuple(dict.fromkeys(sight.remarks)), sight.environment, sight.mca)


def _join_templates(words: Sequence[str]) -> list[str]:
    """Make one word of each ``{{ name }}``."""
    joined: list[str] = []
    inside = 0
    for word in words:
        inside_before, depth = inside, word.count("{{") - word.count("}}")
        if inside_before:
            joined[-1] += f" {word}"
        else:
            joined.append(word)
        inside = inside_before + 1 if (inside_before > 0) + depth > 0 else 0
        if inside > _LONGEST_PLACE:
            break
    # Without its end it is something else.
    return list(words) if inside else joined


_LONGEST_PLACE = 20
"""Words between two braces and the next two."""


_DEEPEST = 8
"""Programs within programs that are looked into."""
_TOOLS: Mapping[str, Grammar] = grammars_of("tool")
_KNOWN = frozenset({*INTERPRETERS, *SHELLS, *_TOOLS, *CONTAINERS, *WRAPPERS})
"""Programs that are no inputs of others."""
_ARGUMENTS = frozenset({"$@", "$*", "${@}", "${*}", "$argv:q", "$argv"})
"""How a shell script names all its arguments."""
_ARGUMENTS_OF_PYTHON = re.compile(r"(exec[lv]\w*|call|run|Popen|system|spawn\w*)\(.*argv\[1:\]")
_EXPANDED = re.compile(r"\$\w+|\$\{[^}]*\}|\$\[[^\]]*\]|\$\(.*\)|`.*`", re.DOTALL)
_OPTIONS = re.compile(r"opt|flag|arg|map|bind|host|node|param|pin|mca|env|prefix|launch|numa|aff|wrap|srun", re.I)
_SURELY_OPTIONS = re.compile(
    r"((opts?|options?|flags?|args?|wrapper|profiler)\W*$)|singularity|apptainer|container", re.I
)
_WHICH = re.compile(r"(\$\(|`)\s*(which|command -v|type -p)\s")
_PROGRAM = re.compile(r"exe|bin(?!d)|prog|app|python|script|cmd|command|solver|code|driver|binary|main", re.I)
_WRAPPER = re.compile(
    r"wrap|select|choose|pick|bind|affin|gpu|device|numa|launch|(?<![a-z])pin|local_?rank|helper|tracer|mps", re.I
)
_SUFFIX = re.compile(r"\.(x|exe|out|bin|mpi|py|sh|bash|pl|R|jl|sif|cuda|omp|gnu|intel)$")
_SPAWNING = {"torchrun", "deepspeed", "accelerate", "horovodrun", "dask", "ray"}
_SPAWNING_MODULES = re.compile(r"torch\.distributed\.(launch|run)|accelerate\.commands")


@dataclass
class _Sight:
    """A look behind what starts other programs."""

    files: Files
    remarks: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    mca: dict[str, str] = field(default_factory=dict)

    def look_behind(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Give the programs that some words start in the end; ``outer`` is what stands before them."""
        plain = [replace(outer, program=tuple(words))]
        if not words or depth > _DEEPEST:
            return plain
        name = family(words[0])
        if words[0] in _ARGUMENTS:
            return plain
        if _EXPANDED.fullmatch(words[0]):
            return self._look_behind_variable(words, outer, depth)
        if name in SHELLS:
            return self._look_into_shell(words, outer, depth)
        if depth == _DEEPEST:
            self.remarks.append(f"more than {_DEEPEST} programs stand behind one another")
            return plain
        grammar = WRAPPERS.get(name) or LAUNCHERS.get(name) or CONTAINERS.get(name) or _TOOLS.get(name)
        if grammar is not None:
            return self._skip(words, grammar, outer, depth)
        if name in INTERPRETERS:
            if any(_SPAWNING_MODULES.search(word) for word in words[1:4]):
                self.remarks.append(f"{words[0]} starts processes of its own: the ranks are not only the launcher's")
            return plain
        if scheduler := SCHEDULERS.get(name):
            found = Found()
            skip_options(words, 1, scheduler, found, self.files.executable)
            self.environment |= found.environment
        if name in TOOLS and PurePath(words[0]).name in (name, words[0]) and not re.fullmatch(r"[a-z]+\d+", words[0]):
            more = (
                "starts processes of its own"
                if name in _SPAWNING
                else "may start what its arguments say, which is not read"
            )
            self.remarks.append(f"{name} {more}")
            return plain
        return self._look_behind_unknown(words, outer, depth)

    def _skip(self, words: Sequence[str], grammar: Grammar, outer: Started, depth: int) -> list[Started]:
        """Look behind a known wrapper, tool, container or second launcher."""
        name = PurePath(words[0]).name
        plain = [replace(outer, program=tuple(words))]
        if grammar.kind == "launcher":
            return self._look_behind_launcher(words, outer, depth)
        begin = skip_subcommand(words, 1, grammar)
        if begin is None:
            if grammar.kind == "container":
                self.remarks.append(f"{' '.join(words[:2])} is not known to start a program")
            return plain
        found = Found()
        at = skip_options(words, begin, grammar, found, self.files.executable)
        self.remarks += found.remarks
        self.environment |= found.environment
        container = outer.container
        if grammar.kind == "container":
            image = found.image
            if grammar.image:
                if self._stands_before_image(words[at : at + 2]):
                    self.remarks.append(f"{words[at]}, whose value is not known, is read as options of {name}")
                    at += 1
                image, at = "".join(words[at : at + 1]), at + 1
                at += tuple(words[at : at + 1]) == ("--",)
            # Shifter takes the image of the launcher's option.
            container = f"{name} {image or outer.container}".strip()
            if at >= len(words):
                self.remarks.append(f"the container {container} starts what its image says, which is not known here")
                return [replace(outer, program=(), container=container)]
            return self.look_behind(words[at:], replace(outer, container=container), depth + 1)
        if at >= len(words):
            return plain
        return self.look_behind(words[at:], replace(outer, wrappers=(*outer.wrappers, name)), depth + 1)

    def _stands_before_image(self, words: Sequence[str]) -> bool:
        """Say whether a variable at the image's place is options before it, as ``$BINDINGS $IMAGE``."""
        two = len(words) == 2 and all(_EXPANDED.fullmatch(word) for word in words)
        return two and _OPTIONS.search(words[0]) is not None

    def _look_behind_launcher(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Look behind a launcher that stands behind wrappers, in a container, or behind another launcher."""
        inner = _understand(words, self.files, depth + 1)
        if not inner.line.launcher:
            return [replace(outer, program=tuple(words))]
        self.remarks += inner.remarks
        self.environment |= inner.environment
        self.mca |= inner.mca
        found = []
        for one in inner.programs:
            ranks, written = (one.ranks, one.ranks_as) if one.ranks_as else (outer.ranks, outer.ranks_as)
            if outer.launcher:
                self.remarks.append(
                    f"{outer.launcher} starts {words[0]}, which is a launcher, too: each of its ranks starts one"
                )
                ranks, written = _multiply(outer, one)
            wrappers = (*outer.wrappers, *one.wrappers)
            container = one.container or outer.container
            found.append(replace(one, ranks=ranks, ranks_as=written, wrappers=wrappers, container=container))
        return found

    def _look_into_shell(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Look into ``bash -c '...'``, and behind a script that starts its arguments."""
        name = PurePath(words[0]).name
        plain = [replace(outer, program=tuple(words))]
        if (at := text_at(words)) is not None:
            return self._read_text(words[at], plain[0], f"{name} -c", depth)
        at = next((at for at, word in enumerate(words) if at and not word.startswith(("-", "+"))), len(words))
        if at == len(words):
            self.remarks.append(f"{name} reads its commands from its standard input, which is not read here")
            return plain
        script = words[at:]
        behind = self._look_behind_unknown(script, outer, depth)
        return plain if behind[0].program == tuple(script) else behind

    def _read_text(self, text: str, outer: Started, shell: str, depth: int) -> list[Started]:
        commands, unread = list_commands(text)
        inside = replace(outer, wrappers=(*outer.wrappers, shell))
        if unread:
            self.remarks.append(f"in the text of {shell}, {unread} is not read")
        found = [one for words in commands for one in self.look_behind(words, inside, depth + 1)]
        if not found:
            self.remarks.append(f"no program is found in the text of {shell}")
            return [outer]
        if len(found) > 1:
            self.remarks.append(f"the text of {shell} starts {len(found)} programs")
        return found

    def _look_behind_variable(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Decide whether a variable at the program's place is the program, or options or a wrapper before it."""
        name, following = words[0], words[1:2]
        if not following:
            self.remarks.append(f"{name} stands at the program's place, and its value is not known")
            return [replace(outer, program=tuple(words))]
        option = following[0].startswith("-") and outer.launcher
        grammar = LAUNCHERS.get(PurePath(outer.launcher).name) if option else None
        if grammar is not None and not _PROGRAM.search(name):
            named = following[0].lstrip("-").partition("=")[0]
            counts = named in grammar.counting and not outer.ranks_as
            # A long name among the next words is the launcher's, a letter may be the program's.
            counts = counts or any(word.partition("=")[0].lstrip("-") in _long(grammar) for word in words[1:6])
            if counts or (named in grammar.known and _OPTIONS.search(name)):
                self.remarks.append(f"{name}, whose value is not known, is read as options of {outer.launcher}")
                return self._look_behind_launcher([outer.launcher, *words[1:]], replace(outer, launcher=""), depth)
        dashes = "--" in words[1:]
        behind = list(words[words.index("--") + 1 :] if dashes else words[1:])
        if behind and self._stands_before(name, behind[0], dashes=dashes):
            self.remarks.append(f"{name}, whose value is not known, is read as options or a wrapper")
            return self.look_behind(behind, replace(outer, wrappers=(*outer.wrappers, name)), depth + 1)
        self.remarks.append(f"{name} is read as the program, and its value is not known")
        return [replace(outer, program=tuple(words))]

    def _stands_before(self, name: str, behind: str, *, dashes: bool) -> bool:
        """Say whether a variable is options or a wrapper of the word behind it rather than a program with an input."""
        if _SURELY_OPTIONS.search(name) and not behind.startswith("-"):
            return True
        if not (self._is_program(behind) or _EXPANDED.fullmatch(behind)):
            return False
        if _WHICH.match(behind):
            return True
        options = _OPTIONS.search(name) is not None
        if _PROGRAM.search(name):
            return options and "/" in behind
        return options or dashes or ":-}" in name or behind.startswith("./")

    def _look_behind_unknown(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Decide whether a program is a wrapper of the program that its arguments name."""
        plain = [replace(outer, program=tuple(words))]
        wrapped = replace(outer, wrappers=(*outer.wrappers, PurePath(words[0]).name))
        if self._starts_arguments(words[0]):
            return self._look_behind_first(words, wrapped, depth) or plain
        rest = words[words.index("--") + 1 :] if "--" in words[1:] else words[1:]
        name = PurePath(words[0]).name
        if not rest or not self._is_program(rest[0]):
            hinted = rest and _WRAPPER.search(name) and re.fullmatch(r"[A-Za-z]\w*", rest[0])
            if hinted or (rest and _EXPANDED.fullmatch(rest[0]) and _PROGRAM.search(rest[0])):
                self.remarks.append(f"{words[0]} is read as the program, not as a wrapper of {rest[0]}")
            return plain
        script = name.endswith((".sh", ".bash")) and (rest[0].startswith("./") or _SUFFIX.search(rest[0]))
        # A bare word may be a subcommand, as of "samtools sort", whatever else is called so.
        bare = "/" not in rest[0] and self.files.executable(rest[0])
        named = not bare and self.files.executable(rest[0])
        if named or family(rest[0]) in _KNOWN or _WRAPPER.search(name) or script:
            self.remarks.append(f"{words[0]} is not known, and read as a wrapper of {rest[0]}")
            return self.look_behind(rest, wrapped, depth + 1)
        if bare or (not _SUFFIX.search(rest[0]) and (rest[0].startswith("./") or name.endswith((".sh", ".bash")))):
            self.remarks.append(f"{words[0]} is read as the program, not as a wrapper of {rest[0]}")
        return plain

    def _look_behind_first(self, words: Sequence[str], outer: Started, depth: int) -> list[Started]:
        """Look behind the first argument of a script that starts its arguments."""
        rest = list(words[words.index("--") + 1 :] if "--" in words[1:] else words[1:])
        while rest and rest[0].startswith("-"):
            rest = rest[1:]
        at = next((at for at, word in enumerate(rest) if self._is_program(word)), 0)
        return self.look_behind(rest[at:], outer, depth + 1) if rest else []

    def _starts_arguments(self, word: str) -> bool:
        """Say whether a script at hand starts what its arguments name."""
        text = self.files.read(word)
        if text is None or not text.startswith("#!"):
            return False
        if _ARGUMENTS_OF_PYTHON.search(text):
            return True
        rows = [
            row for row in text.replace("\\\n", " ").splitlines() if "$" in row and not row.lstrip().startswith("#")
        ]
        # A row of the script counts by itself: what is around it decides whether it runs, not what it starts.
        found = (words for row in rows for words in list_commands(row)[0])
        return any(one.program[:1] and one.program[0] in _ARGUMENTS for words in found for one in _plainly(words))

    def _is_program(self, word: str) -> bool:
        """Say whether a word looks like a program, not like an input."""
        if word.startswith("-") or "=" in word:
            return False
        name = PurePath(word).name
        if self.files.executable(word) or family(word) in _KNOWN:
            return True
        return "/" in word and not word.endswith("/") and ("." not in name or _SUFFIX.search(name) is not None)

    # -- files that list programs ----------------------------------------------------------------------------------

    def read_listing(self, line: CommandLine, outer: Started, depth: int) -> list[Started]:
        """Read the file that lists the programs, where it is at hand and its form is known."""
        launcher, text = PurePath(line.launcher).name, self.files.read(line.listing)
        grammar = LAUNCHERS[launcher]
        if text is None or depth > _DEEPEST:
            self.remarks.append(f"{launcher} reads its programs from {line.listing}, which is not at hand")
            return [outer]
        reader = _read_multi_prog if grammar.listed else _read_arguments if grammar.divides else None
        if reader is None:
            self.remarks.append(f"{launcher} reads its programs from {line.listing}, whose form is not read here")
            return [outer]
        found: list[Started] = []
        for row in text.replace("\\\n", " ").splitlines():
            if row.strip() and not row.lstrip().startswith("#"):
                found += reader(self, row, outer, depth)
        if not found:
            self.remarks.append(f"{line.listing} names no program")
        return found or [outer]


def _long(grammar: Grammar) -> frozenset[str]:
    """Give the long names of options that count ranks or nodes."""
    return frozenset(name for name in grammar.counting if len(name) > 3)


def _multiply(outer: Started, inner: Started) -> tuple[int | None, str]:
    """Give the ranks of a launcher that each rank of another one starts."""
    if outer.ranks in (None, 1):
        return inner.ranks, inner.ranks_as
    ranks = None if inner.ranks is None or outer.ranks is None else inner.ranks * outer.ranks
    return ranks, f"{outer.ranks} * {inner.ranks_as}" if inner.ranks_as else ""


def _plainly(words: Sequence[str]) -> tuple[Started, ...]:
    """Understand a command of a script without looking at files."""
    return understand(words).programs


def _read_multi_prog(sight: _Sight, row: str, outer: Started, depth: int) -> list[Started]:
    """Read a line of the file of ``srun --multi-prog``: ranks, program, arguments."""
    try:
        words = shlex.split(row)
    except ValueError:
        words = row.split()
    if len(words) < 2:
        return []
    return sight.look_behind(words[1:], replace(outer, ranks=_count_ranks(words[0]), ranks_as=words[0]), depth + 1)


def _count_ranks(text: str) -> int | None:
    """Count the ranks of a list such as ``0-3,8``; None for ``*``, which is all others."""
    many = 0
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not (low.isdecimal() and (not dash or high.isdecimal())):
            return None
        many += int(high) - int(low) + 1 if dash else 1
    return many


def _read_arguments(sight: _Sight, row: str, outer: Started, depth: int) -> list[Started]:
    """Read a line of ``mpiexec -configfile`` or ``mpirun --app``: the words between two colons of a command line."""
    try:
        words = shlex.split(row)
    except ValueError:
        words = row.split()
    inner = _understand([outer.launcher, *words], sight.files, depth + 1)
    sight.remarks += inner.remarks
    return [replace(one, launcher=outer.launcher) for one in inner.programs]
