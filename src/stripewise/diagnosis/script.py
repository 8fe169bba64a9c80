"""I/O settings in the text of a job script: which line sets what, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from stripewise.carriers import HINT, MCA
from stripewise.errors import UserError
from stripewise.filesystems import FILE_SYSTEMS
from stripewise.spec.stack import every_stack

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPORT = re.compile(r"^\s*(?:export|declare\s+-x|typeset\s+-x)\s+(?P<rest>.*)$")
_SETENV = re.compile(rf"^\s*setenv\s+(?P<name>{_NAME})\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_ASSIGN = re.compile(rf"(?<!\w)(?P<name>{_NAME})=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]*)")
_UNSET = re.compile(rf"^\s*(?:unset|unsetenv)\s+(?P<name>{_NAME})")
_MCA = re.compile(r"(?:^|\s)--?(?:g?mca)\s+(?P<name>[A-Za-z0-9_]+)\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_GENV = re.compile(rf"(?:^|\s)-g?env\s+(?P<name>{_NAME})\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_FORWARD = re.compile(rf"(?:^|\s)-x\s+(?P<name>{_NAME})=(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_INFO = re.compile(
    r"MPI_Info_set\s*\([^,]{0,200},\s*[\"'](?P<name>[^\"']+)[\"']\s*,\s*[\"'](?P<value>[^\"']*)[\"']", re.I
)
_HERE = re.compile(r"<<-?\s*[\"']?(?P<end>\w+)[\"']?")
_INTO = re.compile(r">>?\s*(?P<file>\"[^\"]*\"|'[^']*'|[^\s<>;&|]+)")
_LAUNCHERS = r"(?:srun|mpirun|mpiexec(?:\.hydra)?|aprun|jsrun|ibrun)"
_LAUNCH = re.compile(rf"^\s*(?:(?:time|exec|env|{_NAME}=\S*)\s+)*{_LAUNCHERS}\b")
_HINT_LINE = re.compile(r"^\s*(?P<name>[a-z][a-z0-9_]+)\s+(?P<value>\S+)\s*$")
_CRAY = "MPICH_MPIIO_HINTS"
_MOST = 1000
"""Settings of a script: to judge them takes time with the square of their number."""
_PREFIXES = ("MPICH_MPIIO_", "OMPI_MCA_", "I_MPI_", "ROMIO_", "PNETCDF_", "H5FD_", "HDF5_", "LUSTRE_", "BFS_")


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
        How the script writes it, one of :data:`stripewise.diagnosis.surroundings.FORMS`.
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


@dataclass(frozen=True)
class Script:
    """What a script sets and starts.

    Attributes
    ----------
    settings : tuple of ScriptSetting
        In order.
    launches : tuple of int
        Lines that start parallel programs.
    hints_file : int or None
        Line that names a ROMIO hints file.
    hints_path : str
        As it names it.
    written : tuple of str
        Files that the script writes from its own text.
    """

    settings: tuple[ScriptSetting, ...]
    launches: tuple[int, ...]
    hints_file: int | None
    hints_path: str = ""
    written: tuple[str, ...] = ()


def parse_script(text: str) -> Script:
    """Find the I/O settings of a job script, of program text, or of a hints file.

    Raises
    ------
    UserError
        If it has more than a thousand.
    """
    lines = _joined(text)
    settings: list[ScriptSetting] = []
    launches: list[int] = []
    hints_file = None
    hints_path = ""
    written: list[str] = []
    end = ""
    for number, raw in lines:
        _check_number(settings)
        if end:
            if raw.strip() == end:
                end = ""
            elif found := _HINT_LINE.match(raw):
                settings.append(ScriptSetting(number, found["name"], found["value"], "romio_file"))
            continue
        line = _without_comment(raw)
        if not line.strip():
            continue
        if here := _HERE.search(line):
            end = here["end"]
            written += [_bare(found["file"]) for found in _INTO.finditer(line)]
        if (gone := _UNSET.match(line)) is not None:
            if gone["name"] == "ROMIO_HINTS" and not (launches and launches[-1] > (hints_file or 0)):
                hints_file, hints_path = None, ""
            settings = [
                replace(k, unset=number)
                if k.variable == gone["name"] and not (launches and launches[-1] >= k.line)
                else k
                for k in settings
            ]
            continue
        launch = _LAUNCH.match(line) is not None
        if launch:
            launches.append(number)
        for name, value, exported in _variables(line, launch):
            if name == "ROMIO_HINTS":
                hints_file, hints_path = number, value
                continue
            settings += _of_variable(number, name, value, exported)
        settings += [_made(found, number, "openmpi") for found in _MCA.finditer(line)]
        settings += [_made(found, number, "hint") for found in _INFO.finditer(line)]
        settings += list(_layouts(line, number))
        # "export NAME" alone exports what was assigned before.
        if (export := _EXPORT.match(line)) is not None and "=" not in export["rest"]:
            names = set(export["rest"].split())
            settings = [replace(k, exported=True) if k.variable in names else k for k in settings]
    # A variable that the script itself reads, as where it writes a hints file, is not meant for a library.
    settings = [k for k in settings if k.form != "env" or k.name not in bare_names() or not _read(k.name, text)]
    if not settings and not launches:
        # A pasted hints file has little but names and values.
        bare = [(number, line) for number, raw in lines if (line := _without_comment(raw)).strip()]
        pairs = [(number, found) for number, line in bare if (found := _HINT_LINE.match(line))]
        if 2 * len(pairs) >= len(bare):
            settings += [_made(found, number, "romio_file") for number, found in pairs]
        hints_file = 1 if settings else None
    _check_number(settings)
    return Script(tuple(settings), tuple(launches), hints_file, hints_path, tuple(written))


def _check_number(settings: list[ScriptSetting]) -> None:
    if len(settings) > _MOST:
        raise UserError(f"line {settings[_MOST].line}: more than {_MOST:,} settings", "paste the job script alone")


def _read(name: str, text: str) -> bool:
    return re.search(rf"\$(?:{name}\b|\{{{name}\b)", text) is not None


def _joined(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers; a backslash at the end joins a line with the next."""
    lines: list[tuple[int, str]] = []
    open_ = False
    for number, raw in enumerate(text.splitlines(), start=1):
        body = raw[:-1] if raw.endswith("\\") else raw
        if open_:
            lines[-1] = (lines[-1][0], f"{lines[-1][1]} {body.strip()}")
        else:
            lines.append((number, body))
        open_ = raw.endswith("\\")
    return lines


def _without_comment(line: str) -> str:
    quote = ""
    for place, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (place == 0 or line[place - 1].isspace()):
            return line[:place]
    return line


def _variables(line: str, launch: bool) -> Iterator[tuple[str, str, bool]]:
    """Variables that a line sets, and whether programs started later see them."""
    if (found := _SETENV.match(line)) is not None:
        yield found["name"], _bare(found["value"]), True
        return
    export = _EXPORT.match(line)
    if export is not None:
        for found in _ASSIGN.finditer(export["rest"]):
            yield found["name"], _bare(found["value"]), True
        return
    for pattern in (_GENV, _FORWARD):
        for found in pattern.finditer(line):
            yield found["name"], _bare(found["value"]), True
    place = 0
    words = line.strip()
    leading = []
    while found := _ASSIGN.match(words, place):
        leading.append((found["name"], _bare(found["value"])))
        place = found.end()
        while place < len(words) and words[place].isspace():
            place += 1
    # Words before a command go into its environment; alone on a line they stay in the shell.
    for name, value in leading:
        yield name, value, place < len(words)
    if launch and not leading and " env " in f" {line}":
        for found in _ASSIGN.finditer(line):
            yield found["name"], _bare(found["value"]), True


def _of_variable(line: int, name: str, value: str, exported: bool) -> list[ScriptSetting]:
    pairs, form = [(name, value)], "env"
    if name == _CRAY:
        pairs, form = list(_cray(value)), "cray"
    elif name == "PNETCDF_HINTS":
        parts = (part.partition("=") for part in value.split(";") if "=" in part)
        pairs, form = [(key.strip(), word.strip()) for key, _, word in parts], "pnetcdf"
    elif name.startswith("OMPI_MCA_"):
        pairs, form = [(name.removeprefix("OMPI_MCA_"), value)], "openmpi"
    elif name.startswith("I_MPI_"):
        form = "intel"
    elif not name.startswith(_PREFIXES) and not (exported and name in bare_names()):
        return []
    return [ScriptSetting(line, key, word, form, exported, variable=name) for key, word in pairs]


@cache
def bare_names() -> dict[str, str]:
    """Names of hints and MCA parameters, which no library reads as variables; with the carrier's name."""
    parameters = (parameter for stack in every_stack() for parameter in stack.parameters)
    return {p.setting: p.carrier.name for p in parameters if p.carrier in (HINT, MCA)}


def _cray(value: str) -> Iterator[tuple[str, str]]:
    """``*:cb_nodes=8:romio_cb_write=enable,pattern2:...``."""
    for part in value.split(","):
        for word in part.split(":"):
            key, equal, setting = word.partition("=")
            if equal:
                yield key.strip(), setting.strip()


def _layouts(line: str, number: int) -> Iterator[ScriptSetting]:
    for system in FILE_SYSTEMS:
        for name, value in system.in_script(line):
            yield ScriptSetting(number, name, value, "commands", layer=system.name)


def _made(found: re.Match[str], line: int, form: str) -> ScriptSetting:
    return ScriptSetting(line, found["name"], _bare(found["value"]), form)


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word
