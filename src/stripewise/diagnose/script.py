"""I/O settings in the text of a job script: which line sets what, and how."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, MCA
from stripewise.catalogue.filesystems import FILE_SYSTEMS
from stripewise.catalogue.meaning import bare_names, knows_name, versions_in
from stripewise.diagnose.shell_text import (
    Command,
    HereDocument,
    number_lines,
    read_shell,
    without_comment,
    words_of_command,
)
from stripewise.errors import UserError

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSIGN = re.compile(rf"(?P<name>{_NAME})(?P<more>\+?)=(?P<value>.*)", re.DOTALL)
_INFO = re.compile(
    r"MPI_Info_set\s*\([^,]{0,200},\s{0,200}[\"'](?P<name>[^\"'\n]{1,200})[\"']\s{0,200},\s{0,200}[\"'](?P<value>[^\"'\n]{0,4000})[\"']",
    re.I,
)
_HINT_LINE = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z0-9_]+)\s+(?P<value>\S+)\s*")
_READ = re.compile(rf"\$\{{?({_NAME})")
_FILE_NAME = re.compile(r"[\w.+-]+")
_LAUNCHERS = frozenset(
    {
        "srun",
        "mpirun",
        "mpiexec",
        "mpiexec.hydra",
        "mpirun_rsh",
        "mpiexec_mpt",
        "aprun",
        "jsrun",
        "lrun",
        "ibrun",
        "orterun",
        "prun",
    }
)
_LOADING = [["load"], ["add"], ["swap"], ["switch"]]
_ALL_EXPORTED = frozenset({"-a", "allexport"})
_EXPORTERS = frozenset({"export", "declare", "typeset", "local", "readonly"})
_MCA_OPTIONS = frozenset({"-mca", "--mca", "-gmca", "--gmca"})
_FORWARDING = frozenset({"-x", "-e", "-E", "--env", "-env", "-genv", "--genv", "-v", "--export"})
"""Options of launchers and schedulers whose next word sets variables."""
_PAIRS = frozenset({"-env", "-genv", "--genv"})
"""Those that also take name and value as two words."""
_LISTED = re.compile(rf",(?={_NAME}(?:=|,|$))")
_DIRECTIVE = re.compile(r"#(?:SBATCH|PBS|BSUB|PJM|COBALT|MSUB|OAR|FLUX|\$)(?:\s|-)")
_INTERPRETERS = frozenset({"bash", "sh", "zsh", "ksh", "csh", "tcsh", "ssh", "sbatch", "qsub", "bsub", "msub", "pjsub"})
_BEFORE = frozenset({"time", "exec", "command", "builtin", "nohup", "!", "sudo", "env"})
_STARTS_NOTHING = frozenset(
    {
        *(
            "echo",
            "printf",
            "cd",
            "pushd",
            "popd",
            "export",
            "set",
            "unset",
            "setenv",
            "unsetenv",
            "declare",
            "typeset",
        ),
        *("local", "readonly", "alias", "module", "ml", "mkdir", "rmdir", "rm", "cp", "mv", "ln", "cat", "tee", "ls"),
        *(
            "date",
            "pwd",
            "test",
            "[",
            "[[",
            "true",
            "false",
            ":",
            "exit",
            "return",
            "break",
            "continue",
            "wait",
            "sleep",
        ),
        *("ulimit", "limit", "umask", "hostname", "whoami", "touch", "chmod", "head", "tail", "grep", "egrep", "sed"),
        *("sort", "uniq", "wc", "tr", "cut", "basename", "dirname", "readlink", "realpath", "shift", "trap", "type"),
        *("which", "printenv", "shopt", "let", "read", "lfs", "seq", "expr", "du", "df", "squeue", "scontrol", "sacct"),
        *("nvidia-smi", "sync", "tar", "gzip", "gunzip", "file", "id", "uname", "clear"),
    }
)
_SUBSTITUTED = re.compile(r"(?:\$\(|`)\s*([^\s()`]+)")
_WHOLE = re.compile(rf"\$\{{?({_NAME})\}}?")
_SHOWING = {"OMPI_MCA_": "openmpi", "MPICH_MPIIO_": "cray", "I_MPI_": "intel"}
"""How the variables of MPI libraries begin."""
_CRAY = "MPICH_MPIIO_HINTS"
_MOST = 1000
"""Settings of a script that are judged."""
_NESTED = 4
"""Scripts within scripts that are read."""


@dataclass(frozen=True)
class ScriptSetting:
    """A setting in a script.

    Attributes
    ----------
    line : int
        From 1.
    name, value : str
        As the carrier spells them.
    form : str
        How the script writes it, one of :data:`stripewise.diagnose.knobs.FORMS`.
    exported : bool
        Whether programs started later see it.
    file : str
        Where the line is, if not in the script.
    layer : str
        Of a layout the file system.
    variable : str
        The shell's variable that holds it; empty where none does.
    unset : int
        Line that removes the variable before anything is started; 0 where none does.
    target : str
        What it is for, if not for every file: the folder of a layout, the pattern of a Cray hint.
    bound : bool
        Whether it is a part of the command that it acts on, so that its place says nothing.
    again : int
        Line that replaces it before anything is started; 0 where none does.
    late : bool
        Whether nothing is started after it, although the script starts a parallel program before.
    block : tuple of int
        The branches in which it lies, outermost first; empty where it is always set.
    fault : str
        Why the library cannot read it as it is written; empty where it can.
    """

    line: int
    name: str
    value: str
    form: str
    exported: bool = True
    file: str = ""
    layer: str = ""
    variable: str = ""
    unset: int = 0
    target: str = ""
    bound: bool = False
    again: int = 0
    late: bool = False
    block: tuple[int, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Script:
    """What a script sets and starts.

    Attributes
    ----------
    settings : tuple of ScriptSetting
        In order.
    starts : tuple of int
        Lines that start programs, or may.
    hints_file : int or None
        Line that names a ROMIO hints file.
    hints_path : str
        As it names it.
    written : tuple of str
        Files that the script writes from its own text.
    launches : bool
        Whether one of them starts a parallel program for sure.
    mpi : str
        The MPI library whose commands or variables it uses; empty if none shows.
    nested : tuple of Script
        Scripts that it writes or feeds to a shell, with the line numbers of this one.
    versions : mapping
        Versions of I/O libraries, by the modules that it loads.
    """

    settings: tuple[ScriptSetting, ...] = ()
    starts: tuple[int, ...] = ()
    hints_file: int | None = None
    hints_path: str = ""
    written: tuple[str, ...] = ()
    launches: bool = False
    mpi: str = ""
    nested: tuple[Script, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def all(self) -> Iterator[Script]:
        """Give the script, and those in it."""
        yield self
        for one in self.nested:
            yield from one.all()


def parse_script(text: str) -> Script:
    """Find the I/O settings of a job script, of program text, or of a hints file.

    The time grows with the length of the text, whatever it holds.

    Raises
    ------
    UserError
        If it has more than a thousand.
    """
    lines = number_lines(text)
    hints = _pasted_hints(lines)
    if hints:
        _check_number(hints)
        return Script(tuple(hints), hints_file=1)
    script = _ScriptReader(lines, 0).script()
    _check_number([setting for one in script.all() for setting in one.settings])
    return script


def _check_number(settings: Sequence[ScriptSetting]) -> None:
    if len(settings) > _MOST:
        raise UserError(f"line {settings[_MOST].line}: more than {_MOST:,} settings", "paste the job script alone")


def _pasted_hints(lines: Sequence[tuple[int, str]]) -> list[ScriptSetting]:
    """Read text as a hints file if half of its lines are hints; give nothing otherwise."""
    if any(raw.startswith("#!") or _DIRECTIVE.match(raw) for _, raw in lines):
        return []
    bare = [(number, line) for number, raw in lines if (line := without_comment(raw)).strip()]
    pairs = [(number, found) for number, line in bare if (found := _HINT_LINE.fullmatch(line))]
    if not pairs or 2 * sum(knows_name(HINT, found["name"]) for _, found in pairs) < len(bare):
        return []
    return [ScriptSetting(number, found["name"], found["value"], "romio_file") for number, found in pairs]


def _is_script(document: HereDocument) -> bool:
    """Whether a here-document is a script: by what it begins with, or by what reads it."""
    first = next((raw for _, raw in document.lines if raw.strip()), "")
    if first.startswith("#!") or any(_DIRECTIVE.match(raw) for _, raw in document.lines):
        return True
    words = words_of_command(document.command.text.partition("<<")[0])
    return bool(words) and PurePosixPath(words[0]).name in _INTERPRETERS


@dataclass
class _Found:
    setting: ScriptSetting
    function: int = 0

    @property
    def moves(self) -> bool:
        """Whether its place in the script counts."""
        return not self.setting.bound and self.setting.form != "hint"

    @property
    def key(self) -> tuple[str, ...]:
        one = self.setting
        return (one.form, one.name, one.layer, one.target)


class _ScriptReader:
    """One pass over a script."""

    def __init__(self, lines: Sequence[tuple[int, str]], depth: int) -> None:
        shell = read_shell(lines)
        self._found: list[_Found] = []
        self._unexported: defaultdict[str, list[_Found]] = defaultdict(list)
        self._unseen: defaultdict[str, list[_Found]] = defaultdict(list)
        self._values: dict[str, str] = {}
        self._exported: set[str] = set()
        self._all_exported = self._launches = False
        self._starts: list[int] = []
        self._hints_line: int | None = None
        self._hints_path = ""
        self._shown: set[str] = set()
        self._modules: list[str] = []
        self._texts: list[tuple[str, Command, Sequence[tuple[int, str]]]] = []
        for number, comment in shell.comments:
            if _DIRECTIVE.match(comment):
                self._read_options(Command(number, comment), words_of_command(comment)[1:])
        for command in shell.commands:
            self._read_command(command)
        self._nested: list[Script] = []
        for document in shell.documents:
            if not _is_script(document):
                self._texts += [(target, document.command, document.lines) for target in _targets(document.command)]
            elif depth < _NESTED:
                self._nested.append(_ScriptReader(document.lines, depth + 1).script())
        for number, raw in lines:
            for found in _INFO.finditer(raw):
                self._add(Command(number, ""), ScriptSetting(number, found["name"], found["value"], "hint"))
        self._read_hints(lines)
        self._mark_places()
        self._read = {found[1] for _, raw in lines for found in _READ.finditer(raw)}

    def script(self) -> Script:
        """Give what was found."""
        settings = [found.setting for found in self._found if _is_meant(found.setting, self._read)]
        return Script(
            tuple(sorted(settings, key=lambda setting: setting.line)),
            tuple(self._starts),
            self._hints_line,
            self._hints_path,
            tuple(self._resolved(target) for target, _, _ in self._texts),
            self._launches,
            next((one for one in ("openmpi", "cray", "intel") if one in self._shown), ""),
            tuple(self._nested),
            versions_in(self._modules),
        )

    def _add(self, command: Command, setting: ScriptSetting) -> None:
        found = _Found(replace(setting, block=command.block), command.function)
        self._found.append(found)
        if setting.variable and not setting.bound:
            self._unseen[setting.variable].append(found)
            if not setting.exported:
                self._unexported[setting.variable].append(found)

    def _read_command(self, command: Command) -> None:
        assigned, words = _split_leading(words_of_command(command.text))
        for name, value, more in assigned:
            # Words before a command go into its environment; alone on a line they stay in the shell.
            self._set(command, name, value, exported=bool(words), bound=bool(words), more=more)
        if not words:
            if any(
                PurePosixPath(found[1]).name not in _STARTS_NOTHING for found in _SUBSTITUTED.finditer(command.text)
            ):
                self._starts.append(command.line)
            return
        first = PurePosixPath(words[0]).name
        if first in _EXPORTERS:
            self._read_export(command, first, words[1:])
        elif first == "setenv" and len(words) > 2:
            self._set(command, words[1], words[2], exported=True)
        elif first in ("unset", "unsetenv"):
            for name in words[1:]:
                self._unset(command, name)
        elif first in ("echo", "printf"):
            text = " ".join(words[1 : words.index(">")] if ">" in words else words[1:])
            self._texts += [(target, command, ((command.line, text),)) for target in _targets(command)]
        elif first == "ml" or (first == "module" and words[1:2] in _LOADING):
            self._modules += [word for word in words[1:] if not word.startswith("-")]
        elif first == "set" and _ALL_EXPORTED.intersection(words):
            self._all_exported = True
        else:
            self._read_options(command, words)
            for system in FILE_SYSTEMS:
                for name, value in system.in_script(words):
                    made = ScriptSetting(command.line, name, value, "commands", layer=system.name, target=words[-1])
                    self._add(command, made)
        if first not in _STARTS_NOTHING:
            self._starts.append(command.line)
            # Also behind other words: if, a wrapper, the name of an array.
            self._launches = self._launches or any(PurePosixPath(word).name in _LAUNCHERS for word in words)
        if first == "aprun":
            self._shown.add("cray")

    def _read_export(self, command: Command, first: str, words: Sequence[str]) -> None:
        if first != "export" and not any(word.startswith("-") and "x" in word for word in words):
            return
        for word in words:
            if (found := _ASSIGN.fullmatch(word)) is not None:
                self._set(command, found["name"], found["value"], exported=True, more=bool(found["more"]))
            elif not word.startswith("-"):
                self._export(word)

    def _export(self, name: str) -> None:
        """Export what a variable holds, and what it will."""
        self._exported.add(name)
        for found in self._unexported.pop(name, []):
            found.setting = replace(found.setting, exported=True)

    def _set(
        self, command: Command, name: str, value: str, *, exported: bool, bound: bool = False, more: bool = False
    ) -> None:
        """Note that a variable gets a value."""
        exported = exported or self._all_exported or name in self._exported
        if exported and not bound:
            self._export(name)
        if value in (f"${name}", f"${{{name}}}"):
            if exported:
                self._export(name)
            return
        value = self._resolved(value)
        if not bound and not more:
            self._values[name] = value
        if name == "ROMIO_HINTS":
            self._hints_line, self._hints_path = command.line, value
            return
        self._shown |= {mpi for begin, mpi in _SHOWING.items() if name.startswith(begin)}
        for setting in _of_variable(command.line, name, value, exported):
            self._add(command, replace(setting, bound=bound))

    def _resolved(self, value: str) -> str:
        """Give what a variable holds, where a value is nothing but the variable."""
        found = _WHOLE.fullmatch(value)
        return self._values.get(found[1], value) if found else value

    def _unset(self, command: Command, name: str) -> None:
        last = self._starts[-1] if self._starts else 0
        if name == "ROMIO_HINTS" and not command.block and not last > (self._hints_line or 0):
            self._hints_line, self._hints_path = None, ""
        self._exported.discard(name)
        self._unexported.pop(name, None)
        for found in self._unseen.pop(name, []):
            sure = found.function == command.function and found.setting.block[: len(command.block)] == command.block
            if sure and last < found.setting.line:
                found.setting = replace(found.setting, unset=command.line)

    def _read_options(self, command: Command, words: Sequence[str]) -> None:
        """Read the settings that options of launchers and schedulers make."""
        environment = False
        for place, word in enumerate(words):
            given = ""
            if word in _MCA_OPTIONS and place + 2 < len(words):
                self._shown.add("openmpi")
                if knows_name(MCA, words[place + 1]):
                    made = ScriptSetting(command.line, words[place + 1], words[place + 2], "openmpi", bound=True)
                    self._add(command, made)
            elif word.startswith(("--env=", "--export=")):
                given = word.partition("=")[2]
            elif word in _FORWARDING and place + 1 < len(words):
                given = words[place + 1]
                if word in _PAIRS and "=" not in given and place + 2 < len(words):
                    given = f"{given}={words[place + 2]}"
            elif word == "env":
                environment = True
            elif environment:
                given, environment = word, _ASSIGN.fullmatch(word) is not None
            for part in _LISTED.split(given):
                if (found := _ASSIGN.fullmatch(part)) is not None:
                    self._set(command, found["name"], found["value"], exported=True, bound=True)

    def _read_hints(self, lines: Sequence[tuple[int, str]]) -> None:
        """Read the hints files that the script writes; other text that it writes is an input of some program."""
        named = PurePosixPath(self._hints_path).name
        mentioned = Counter(word for _, raw in lines for word in _FILE_NAME.findall(raw))
        written = Counter(PurePosixPath(target).name for target, _, _ in self._texts)
        for target, command, text in self._texts:
            path = self._resolved(target)
            name = PurePosixPath(path).name
            filled = [(number, line) for number, line in text if line.strip() and not line.lstrip().startswith("#")]
            pairs = [(number, found) for number, line in filled if (found := _HINT_LINE.fullmatch(line))]
            if not (named and name == named):
                pairs = [(number, found) for number, found in pairs if knows_name(HINT, found["name"])]
                if 2 * len(pairs) < len(filled):
                    continue
            # Another line may pass it to a program.
            unread = self._hints_line is None and self._starts and mentioned[name] <= written[name] and "$" not in path
            fault = "no line sets ROMIO_HINTS to the file's path, so nothing reads it" if unread else ""
            for number, found in pairs:
                value = self._resolved(found["value"])
                made = ScriptSetting(number, found["name"], value, "romio_file", target=path, fault=fault)
                self._add(command, made)

    def _mark_places(self) -> None:
        """Mark what a later line replaces, and what comes too late."""
        later: dict[tuple[object, ...], int] = {}
        last = self._starts[-1] if self._starts else 0
        for found in reversed(self._found):
            if not found.moves:
                continue
            one, block = found.setting, found.setting.block
            # A command runs after this one for sure if it lies in this one's block, or in one around it.
            lines = [later.get((found.key, found.function, block[:depth]), 0) for depth in range(len(block) + 1)]
            again = min((line for line in lines if line > one.line), default=0)
            place = bisect_left(self._starts, one.line)
            if again and not (place < len(self._starts) and self._starts[place] < again):
                found.setting = one = replace(one, again=again)
            if self._launches and one.line > last and not block and one.form != "romio_file":
                found.setting = replace(one, late=True)
            later[found.key, found.function, block] = one.line


def _is_meant(setting: ScriptSetting, read: set[str]) -> bool:
    """Whether a setting is for a library: what the script itself reads may be its own variable."""
    own = setting.variable in read
    return not (own and (not setting.exported or (setting.form == "env" and setting.name in bare_names())))


def _split_leading(words: Sequence[str]) -> tuple[list[tuple[str, str, bool]], list[str]]:
    """Split a command into the variables that it sets for itself, and the rest."""
    assigned, place = [], 0
    while place < len(words):
        if (found := _ASSIGN.fullmatch(words[place])) is not None:
            assigned.append((found["name"], found["value"], bool(found["more"])))
        elif words[place] not in _BEFORE:
            break
        place += 1
    return assigned, list(words[place:])


def _targets(command: Command) -> list[str]:
    """Name the files that a command writes."""
    words = words_of_command(command.text)
    found = [word for before, word in zip(words, words[1:], strict=False) if before == ">" and word != ">"]
    if "tee" in words:
        found += [word for word in words[words.index("tee") + 1 :] if not word.startswith("-") and word not in "<>"][:1]
    return [word for word in dict.fromkeys(found) if not word.startswith("&")]


def _of_variable(line: int, name: str, value: str, exported: bool) -> list[ScriptSetting]:
    if name == _CRAY:
        return [
            ScriptSetting(line, key, word, "cray", exported, variable=name, target=pattern, fault=fault)
            for pattern, key, word, fault in _cray(value)
        ]
    pairs, form = [(name, value)], "env"
    if name == "PNETCDF_HINTS":
        parts = (part.partition("=") for part in value.split(";") if "=" in part)
        pairs, form = [(key.strip(), word.strip()) for key, _, word in parts], "pnetcdf"
    elif name.startswith("OMPI_MCA_"):
        if not knows_name(MCA, name.removeprefix("OMPI_MCA_")):
            return []
        pairs, form = [(name.removeprefix("OMPI_MCA_"), value)], "openmpi"
    elif name.startswith("I_MPI_") and knows_name(ENVIRONMENT, name):
        form = "intel"
    elif not knows_name(ENVIRONMENT, name) and not (exported and name in bare_names()):
        return []
    return [ScriptSetting(line, key, word, form, exported, variable=name) for key, word in pairs]


def _cray(value: str) -> Iterator[tuple[str, str, str, str]]:
    """``pattern:cb_nodes=8:romio_cb_write=enable,pattern2:...``: pattern, hint, value, and what is wrong with it."""
    for part in value.split(","):
        pattern, colon, hints = part.strip().partition(":")
        fault = ""
        if not colon and "=" in pattern:
            hints, pattern = pattern, ""
            fault = "a comma begins the next file pattern, so Cray MPICH takes this for a pattern, not for a hint"
        elif colon and not pattern:
            fault = "no file pattern stands before the first colon, so it holds for no file"
        for word in hints.split(":"):
            key, equal, setting = word.partition("=")
            if equal:
                yield pattern, key.strip(), setting.strip(), fault
