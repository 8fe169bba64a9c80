"""A user's command line, taken apart: launcher and wrappers, then the program; nothing is looked up or started.

The options of launchers and wrappers, with the manuals that they are from, are in the tables of
:mod:`~stripewise.runners.program.grammar`. What a program behind them starts in turn, such as a shell or a container,
:mod:`~stripewise.runners.program.started` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from stripewise.errors import UserError
from stripewise.runners.program.grammar import Grammar, grammars_of
from stripewise.shell import SHELLS, is_plain


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAUNCHERS: Mapping[str, Grammar] = grammars_of("launcher")
"""Programs that start the ranks, by base name."""

WRAPPERS: Mapping[str, Grammar] = grammars_of("wrapper")
"""Programs that change something about the process and then start the program in it, by base name."""

SCHEDULERS: Mapping[str, Grammar] = grammars_of("scheduler")
"""Programs that take a job script, by base name."""

CONTAINERS: Mapping[str, Grammar] = grammars_of("container")
"""Programs that start the program in another root file system, by base name."""

INTERPRETERS = _names(
    "python pypy ipython perl ruby lua luajit R Rscript julia java node nodejs tclsh wish php guile octave"
)
"""Programs whose first argument is a script, which may start others, by base name without a version."""

TOOLS = _names(
    # Building, finding, editing, copying
    "make gmake ninja cmake ctest xargs parallel find fd awk gawk mawk nawk original-awk sed ed ex vi vim view nvim "
    "nano emacs less more man tar bsdtar cpio zip rsync ssh scp sftp git hg svn m4 gcc cc c++ g++ clang split sort tee "
    "dd socat nc ncat gnuplot sqlite3 psql mysql dc bc inotifywait openssl matlab meson bazel scons "
    # Debuggers, tracers and profilers
    "gdb gdbserver lldb dbx valgrind strace ltrace perf rr catchsegv ddt map forge totalview vtune amplxe-cl advixe-cl "
    "aps nsys ncu nvprof scalasca scan scorep tau_exec hpcrun likwid-perfctr likwid-pin likwid-mpirun heaptrack "
    "cuda-gdb uftrace gprofng rocprof rocprofv3 kernprof mprof memray scalene py-spy "
    # Other users, roots, limits and terminals
    "su runuser doas pkexec newgrp sg chroot unshare nsenter setpriv capsh prlimit cpulimit systemd-run "
    "start-stop-daemon bwrap proot fakeroot fakechroot firejail xvfb-run dbus-run-session script expect tmux screen "
    "watch flock lockf at batch crontab entr busybox toybox linux32 linux64 i386 x86_64 ld.so run-parts "
    "cgexec machinectl lxc-execute nerdctl runc crun dplace omplace hwloc-bind eatmydata faketime unbuffer rlwrap "
    "xjobs sem ts "
    # Jobs and workers
    "sbatch salloc qsub bsub torchrun accelerate deepspeed horovodrun dask pytest coverage jupyter "
    "pdsh clush lsrun lsgrun blaunch brun yod "
    "scrontab strigger oarsub msub pjsub llsubmit condor_submit condor_run irb jshell "
    "stripewise snakemake nextflow luigi tox nox "
    # Environments
    "conda mamba micromamba pixi spack guix nix nix-shell uv pipx poetry pdm hatch npm npx yarn deno bun"
)
"""Programs that start, load or overwrite what any of their arguments says, by base name without a version."""

_STARTERS = frozenset({*LAUNCHERS, *WRAPPERS, *CONTAINERS, *SHELLS, *INTERPRETERS, *TOOLS, *grammars_of("tool")})
_VERSION = re.compile(r"(?<![\d.])[-_.]?\d[\d.]*$")


def family(word: str) -> str:
    """Give the base name by which a program is known: without a folder and a version (``gdb-13``, ``python3.11``)."""
    name = PurePath(word).name
    if name.startswith("ld") and ".so" in name:
        return "ld.so"
    return name if name in _STARTERS else _VERSION.sub("", name)


def starts_others(word: str) -> bool:
    """Say whether a program is known to start the programs that its arguments name."""
    return family(word) in _STARTERS


def text_at(words: Sequence[str]) -> int | None:
    """Give the place of the commands among the words of a shell (``bash -lc '...'``); None where it reads a file."""
    if not words or PurePath(words[0]).name not in SHELLS:
        return None
    at = 1
    while at < len(words) and words[at].startswith(("-", "+")):
        if not words[at].startswith("--") and "c" in words[at]:
            return at + 1 if at + 1 < len(words) else None
        at += 2 if words[at] in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file") else 1
    return None


SEARCHED_FOR = _names("mca gmca omca gomca prtemca gprtemca pmixmca gpmixmca personality")
"""Options, without their dashes, that the launchers of Open MPI find and obey among the program's arguments too.

``mpirun ./app --mca mca_base_env_list LD_PRELOAD=/x.so`` preloads a library with versions 4 and 5.
"""


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_NEXT_VARIABLE = re.compile(r",\s*(?=[A-Za-z_][A-Za-z0-9_]*(?:=|,|$))")
"""The comma between two variables."""
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOLDER = ("wdir", "wd", "chdir", "cwd")
_PER_NODE_MAP = re.compile(r"ppr:(\d+):node")
_EXPANDED = re.compile(r"[$`{}]")
"""Marks of what a shell, or a template, replaces by another text."""


@dataclass(frozen=True)
class Segment:
    """One program of a command line.

    Attributes
    ----------
    before : tuple of str
        Launcher, wrappers and their options.
    program : tuple of str
        The program and its arguments.
    ranks : int or None
        As far as the launcher's options say.
    ranks_as : str
        Their number as it is written, such as ``$NP``; empty where no option says it.
    """

    before: tuple[str, ...]
    program: tuple[str, ...]
    ranks: int | None = None
    ranks_as: str = ""


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
    wrappers : tuple of str
        The wrappers before the first program, by base name.
    image : str
        The image in which the launcher itself starts the program (``--container-image``); empty for none.
    listing : str
        The file that lists the programs (``--multi-prog``); empty for none.
    remarks : tuple of str
        What is not certain, in words.
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
    wrappers: tuple[str, ...] = ()
    image: str = ""
    listing: str = ""
    remarks: tuple[str, ...] = ()

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
class Found:
    """What the options of launchers and wrappers have said so far.

    Attributes
    ----------
    counts : dict
        Numbers by what they count, one of ``ranks``, ``nodes``, ``per_node``, ``sets`` and ``per_set``, as written.
    options : set of str
        Names of the options of the launcher.
    """

    launcher: str = ""
    launcher_at: int = -1
    counts: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    mca: dict[str, str] = field(default_factory=dict)
    folder: str = ""
    wrappers: list[str] = field(default_factory=list)
    image: str = ""
    listing: str = ""
    listed: bool = False
    options: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)

    def number(self, name: str) -> int | None:
        """Give one of the counts where it is a number."""
        text = self.counts.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None

    def ranks(self) -> tuple[int | None, str]:
        """Give the number of ranks, and how it is written."""
        counts = self.counts
        if "ranks" in counts:
            return self.number("ranks"), counts["ranks"]
        if "sets" in counts:
            sets, each = self.number("sets"), self.number("per_set") if "per_set" in counts else 1
            written = f"{counts['sets']} * {counts['per_set']}" if "per_set" in counts else counts["sets"]
            return None if sets is None or each is None else sets * each, written
        nodes, each = self.number("nodes"), self.number("per_node")
        if "nodes" in counts and "per_node" in counts:
            product = None if nodes is None or each is None else nodes * each
            return product, f"{counts['nodes']} * {counts['per_node']}"
        return None, ""


def split_command(words: Sequence[str], executable: Callable[[str], bool] = lambda word: False) -> CommandLine:
    """Take a command line apart.

    Parameters
    ----------
    words : sequence of str
        Not empty.
    executable : callable
        Says whether a word can be executed; asked only where an option of a launcher is unknown.

    Examples
    --------
    >>> line = split_command(["env", "A=b", "mpiexec", "-n", "4", "./app", "-x"])
    >>> line.program, line.ranks
    (('./app', '-x'), 4)
    >>> line.words({"LD_PRELOAD": "/lib.so"})[5:]
    ['env', 'LD_PRELOAD=/lib.so', './app', '-x']
    """
    found = Found()
    at = skip_to_program(words, 0, found, executable)
    wrappers = tuple(found.wrappers)
    begin = 0
    grammar = LAUNCHERS.get(PurePath(found.launcher).name)
    segments: list[Segment] = []
    nodes, per_node = found.number("nodes"), found.number("per_node")
    divided = grammar is not None and grammar.divides
    colons = [place for place, word in enumerate(words) if word == ":"] if divided else []
    for colon in colons:
        if grammar is None or colon < at:
            continue
        segments.append(Segment(tuple(words[begin:at]), tuple(words[at:colon]), *found.ranks()))
        begin = colon + 1
        found.counts = {}
        at = skip_options(words, begin, grammar, found, executable)
        at = skip_to_program(words, at, found, executable)
    rest = words[at:]
    if grammar is not None and grammar.anywhere:
        _read_behind(rest, grammar, found)
        nodes, per_node = found.number("nodes"), found.number("per_node")
    elif grammar is not None and grammar.mca:
        _search(rest, grammar, found)
    segments.append(Segment(tuple(words[begin:at]), tuple(rest), *found.ranks()))
    if found.listed and rest:
        found.listing = rest[0]
    counted = [segment.ranks for segment in segments if segment.ranks is not None]
    ranks = sum(counted) if len(counted) == len(segments) else None
    if nodes is None and ranks and per_node:
        nodes = -(-ranks // per_node)
    return CommandLine(
        tuple(segments),
        found.launcher,
        found.launcher_at,
        ranks,
        nodes,
        per_node,
        found.environment,
        found.mca,
        found.folder,
        wrappers,
        found.image,
        found.listing,
        tuple(dict.fromkeys(found.remarks)),
    )


def _read_behind(words: Sequence[str], grammar: Grammar, found: Found) -> None:
    """Note the launcher's options among the program's arguments, where it obeys them."""
    for at, word in enumerate(words):
        name, equals, attached = word.lstrip(grammar.mark).partition("=")
        if not word.startswith(grammar.mark) or not name:
            continue
        if name in grammar.values:
            note_option(grammar, name, [attached] if equals else list(words[at + 1 : at + 2]), found)
        elif name[0] in grammar.attached and (name[1:].isdecimal() or name[1:].startswith("$")):
            note_option(grammar, name[0], [name[1:]], found)


def _search(words: Sequence[str], grammar: Grammar, found: Found) -> None:
    """Note the parameters of Open MPI that stand among the program's arguments, see :data:`SEARCHED_FOR`."""
    for at, word in enumerate(words):
        name = word.lstrip("-")
        if word.startswith("-") and name in grammar.mca & grammar.pairs & SEARCHED_FOR:
            note_option(grammar, name, list(words[at + 1 : at + 3]), found)


def skip_to_program(words: Sequence[str], at: int, found: Found, executable: Callable[[str], bool]) -> int:
    """Give the place of the program's word, past launchers and wrappers, and note what their options say."""
    while at < len(words):
        name = PurePath(words[at]).name
        grammar = WRAPPERS.get(name) or (LAUNCHERS.get(name) if not found.launcher else None)
        if grammar is None:
            return at
        begin = skip_subcommand(words, at + 1, grammar)
        if begin is None:
            found.remarks.append(f"'{' '.join(words[at : at + 2])}' is not known to start a program")
            return at
        if grammar.kind == "launcher":
            found.launcher, found.launcher_at = words[at], at
        after = skip_options(words, begin, grammar, found, executable)
        if after >= len(words) and not found.listing:
            # Nothing follows (`env`, `mpiexec --version`): then this is itself the program.
            if grammar.kind == "launcher":
                found.remarks.append(f"{found.launcher} is not given a program here")
                found.launcher, found.launcher_at = "", -1
            return at
        if grammar.kind == "wrapper":
            found.wrappers.append(name)
        at = after
    return at


def skip_subcommand(words: Sequence[str], at: int, grammar: Grammar) -> int | None:
    """Give the place behind the subcommand (``flux run``); None where there is none of those that start programs."""
    if not grammar.subcommands:
        return at
    if at >= len(words) or words[at] not in grammar.subcommands:
        return None
    # Flux of before 0.49 says `flux mini run`.
    return at + 2 if words[at] == "mini" else at + 1


def skip_options(
    words: Sequence[str], at: int, grammar: Grammar, found: Found, executable: Callable[[str], bool]
) -> int:
    """Give the place behind the options of a command and the words that belong to them, and note what they say."""
    operands = grammar.operands
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1 + operands
            break
        if word == grammar.opens:
            at += 1
            break
        if grammar.assignments and _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            found.environment[name] = value
            at += 1
        elif word.startswith(grammar.mark) and len(word) > 1:
            at = _option(words, at, grammar, found, executable)
        elif operands:
            operands -= 1
            at += 1
        elif grammar.hosts and not grammar.hosts & found.options and not found.options & {"hosts"}:
            found.options.add("hosts")
            at += _count_hosts(words, at, found)
        elif grammar.kind == "launcher" and grammar.style == "long" and word.isdecimal():
            # MPT's mpirun: no program has a number as its name.
            found.counts["ranks"] = word
            found.remarks.append(f"{found.launcher}: {word} before the program is read as the number of ranks")
            at += 1
        else:
            break
    return at


def _count_hosts(words: Sequence[str], begin: int, found: Found) -> int:
    """Say how many hosts stand before the program of mpirun_rsh: one for each rank."""
    ranks = found.number("ranks")
    if ranks is not None and begin + ranks < len(words):
        return ranks
    # The number is not known here; paths and variables are no hosts.
    ends = (at for at, word in enumerate(words[begin:]) if "/" in word or "=" in word)
    hosts = next(ends, 0)
    found.remarks.append(f"{found.launcher}: the first {hosts} words behind its options are read as hosts")
    return hosts


def _option(words: Sequence[str], at: int, grammar: Grammar, found: Found, executable: Callable[[str], bool]) -> int:
    """Take the option at a place, with its values; give the place after it."""
    word = words[at]
    name, equals, attached = word.lstrip(grammar.mark).partition("=")
    double = word.startswith(2 * grammar.mark)
    if double:
        name = grammar.complete(name)
    if equals and (double or name in grammar.known):
        note_option(grammar, name, [attached], found)
        return at + 1
    if not double and name not in grammar.known and (grammar.style == "short" or grammar.mark != "-"):
        return _letters(words, at, grammar, found, executable)
    count = grammar.count_values(name, words[at + 1 : at + 2])
    if count is None:
        return _guess(words, at, grammar, found, executable)
    note_option(grammar, name, list(words[at + 1 : at + 1 + count]), found)
    return at + 1 + count


def _letters(words: Sequence[str], at: int, grammar: Grammar, found: Found, executable: Callable[[str], bool]) -> int:
    """Take options of one letter in one word: ``-lu``, ``-n4``, ``-ln4``."""
    letters = words[at].lstrip(grammar.mark)
    if letters.isdecimal():  # nice -5
        return at + 1
    for place, letter in enumerate(letters):
        rest = letters[place + 1 :].removeprefix("=")
        count = grammar.count_values(letter, words[at + 1 : at + 2])
        if count is None:
            return _guess(words, at, grammar, found, executable)
        if rest and (count or letter in grammar.optional):
            note_option(grammar, letter, [rest], found)
            return at + 1
        if count:
            note_option(grammar, letter, list(words[at + 1 : at + 1 + count]), found)
            return at + 1 + count
        note_option(grammar, letter, [], found)
    return at + 1


def _guess(words: Sequence[str], at: int, grammar: Grammar, found: Found, executable: Callable[[str], bool]) -> int:
    """Take an unknown option: the next word is its value, unless it can be executed or is an option."""
    following = words[at + 1] if at + 1 < len(words) else grammar.mark
    program = following.startswith((grammar.mark, "./")) or executable(following)
    taken = "it stands alone" if program else f"'{following}' is its value"
    found.remarks.append(f"{_unknown(grammar, found, words[at])}: read as if {taken}")
    return at + 1 if program else at + 2


def _unknown(grammar: Grammar, found: Found, word: str) -> str:
    named = found.launcher if grammar.kind == "launcher" else min(grammar.names)
    return f"{word.partition('=')[0]} is not a known option of {PurePath(named).name}"


def note_option(grammar: Grammar, name: str, values: list[str], found: Found) -> None:
    """Keep what an option says of ranks, nodes, variables, folders, images and files of programs."""
    found.options.add(name)
    if name in grammar.single:
        found.counts["per_node"] = "1"
    elif name in grammar.alone:
        found.counts["ranks"] = "1"
    elif name in grammar.listed:
        found.listed = True
    if not values:
        return
    value = values[0]
    counted = next((kind for kind in _COUNTED if name in getattr(grammar, kind)), "")
    if counted:
        _note_count(counted, name, value, found)
    elif name in grammar.programs:
        found.listing = value
    elif name in grammar.container:
        found.image = found.image or value
    elif name in _FOLDER:
        found.folder = value
    elif name in grammar.mca and len(values) == 2:
        found.mca[value] = values[1]
    elif name in grammar.environment:
        # Hints have commas in their values.
        for entry in [f"{value}={values[1]}"] if len(values) == 2 else _NEXT_VARIABLE.split(value):
            key, equals, text = entry.partition("=")
            if equals:
                found.environment[key] = text
    elif match := _PER_NODE_MAP.match(value):
        found.counts["per_node"] = match[1]


_COUNTED = ("ranks", "nodes", "per_node", "sets", "per_set")


def _note_count(counted: str, name: str, value: str, found: Found) -> None:
    found.counts[counted] = value
    if counted == "nodes" and not value.isdecimal():
        return  # a range, a list or a file of nodes
    if not (value.isdecimal() or _EXPANDED.search(value)):
        what = counted.replace("_", " ").replace("per set", "ranks per set").replace("per node", "ranks per node")
        found.remarks.append(f"{found.launcher}: '{value}' behind -{name} is not a number of {what}")


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{name}`` by its value; other braces, and the shell's ``${name}``, stay as they are."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)


def fill(words: Sequence[str], values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Give the words of a command with the names in braces replaced, and how each was written.

    A word that is a name alone is left out where its value is empty, as a flag that is not given.
    """
    alone = ((_PLACEHOLDER.fullmatch(word), word) for word in words)
    return [(substitute(word, values), word) for match, word in alone if match is None or values.get(match[1]) != ""]


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


def is_obeyed(word: str) -> bool:
    """Say whether a launcher may read a word as its own wherever it stands, after the program as well."""
    return word == ":" or (word.startswith("-") and word.lstrip("-").partition("=")[0] in SEARCHED_FOR)
