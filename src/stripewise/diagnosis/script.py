"""I/O settings in the text of a job script: which line sets what, through which carrier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Carrier = Literal["hint", "cray", "romio_file", "pnetcdf", "openmpi", "intel", "lfs", "env"]

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_EXPORT = re.compile(r"^\s*(?:export|declare\s+-x|typeset\s+-x)\s+(?P<rest>.*)$")
_SETENV = re.compile(rf"^\s*setenv\s+(?P<name>{_NAME})\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_ASSIGN = re.compile(rf"(?P<name>{_NAME})=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]*)")
_UNSET = re.compile(rf"^\s*(?:unset|unsetenv)\s+(?P<name>{_NAME})")
_MCA = re.compile(r"(?:^|\s)--?(?:g?mca)\s+(?P<name>[A-Za-z0-9_]+)\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_GENV = re.compile(rf"(?:^|\s)-g?env\s+(?P<name>{_NAME})\s+(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_FORWARD = re.compile(rf"(?:^|\s)-x\s+(?P<name>{_NAME})=(?P<value>\"[^\"]*\"|'[^']*'|\S+)")
_INFO = re.compile(r"MPI_Info_set\s*\([^,]*,\s*[\"'](?P<name>[^\"']+)[\"']\s*,\s*[\"'](?P<value>[^\"']*)[\"']", re.I)
_SETSTRIPE = re.compile(r"\blfs\s+setstripe\b(?P<rest>.*)")
_STRIPE_OPTIONS = {
    "-c": "stripe_count", "--stripe-count": "stripe_count", "-S": "stripe_size", "--stripe-size": "stripe_size",
    "-i": "start_ost", "--stripe-index": "start_ost", "-C": "overstripe_count",
    "--overstripe-count": "overstripe_count",
}  # fmt: skip
_HERE = re.compile(r"<<-?\s*[\"']?(?P<end>\w+)[\"']?")
_INTO = re.compile(r">>?\s*(?P<file>\"[^\"]*\"|'[^']*'|[^\s<>;&|]+)")
_LAUNCHERS = r"(?:srun|mpirun|mpiexec(?:\.hydra)?|aprun|jsrun|ibrun)"
_LAUNCH = re.compile(rf"^\s*(?:(?:time|exec|env|{_NAME}=\S*)\s+)*{_LAUNCHERS}\b")
_HINT_LINE = re.compile(r"^\s*(?P<name>[a-z][a-z0-9_]+)\s+(?P<value>\S+)\s*$")
_CRAY = "MPICH_MPIIO_HINTS"
_PREFIXES = ("MPICH_MPIIO_", "OMPI_MCA_", "I_MPI_", "ROMIO_", "PNETCDF_", "H5FD_", "HDF5_", "LUSTRE_", "BFS_")


@dataclass(frozen=True)
class Knob:
    """A setting in a script.

    Attributes
    ----------
    line : int
        From 1.
    name, value : str
        As the carrier spells them.
    carrier : str
        ``hint`` (MPI_Info_set), ``cray``, ``romio_file``, ``pnetcdf``, ``openmpi``, ``intel``, ``lfs`` or ``env``.
    exported : bool
        Whether programs started later see it.
    file : str
        Where the line is, if not in the script.
    """

    line: int
    name: str
    value: str
    carrier: Carrier
    exported: bool = True
    file: str = ""


@dataclass(frozen=True)
class Script:
    """What a script sets and starts.

    Attributes
    ----------
    knobs : tuple of Knob
        In order.
    launches : tuple of int
        Lines that start parallel programs.
    unset : dict
        Variable to the line that takes it away.
    hints_file : int or None
        Line that names a ROMIO hints file.
    hints_path : str
        As it names it.
    written : tuple of str
        Files that the script writes from its own text.
    text : tuple of str
        The lines.
    """

    knobs: tuple[Knob, ...]
    launches: tuple[int, ...]
    unset: dict[str, int]
    hints_file: int | None
    text: tuple[str, ...]
    hints_path: str = ""
    written: tuple[str, ...] = ()


def parse_script(text: str) -> Script:
    """Find the I/O settings of a job script, of program text, or of a hints file."""
    lines = _joined(text)
    knobs: list[Knob] = []
    launches: list[int] = []
    unset: dict[str, int] = {}
    hints_file = None
    hints_path = ""
    written: list[str] = []
    end = ""
    for number, raw in lines:
        if end:
            if raw.strip() == end:
                end = ""
            elif found := _HINT_LINE.match(raw):
                knobs.append(Knob(number, found["name"], found["value"], "romio_file"))
            continue
        line = _without_comment(raw)
        if not line.strip():
            continue
        if here := _HERE.search(line):
            end = here["end"]
            written += [_bare(found["file"]) for found in _INTO.finditer(line)]
        if (gone := _UNSET.match(line)) is not None:
            unset[gone["name"]] = number
            continue
        launch = _LAUNCH.match(line) is not None
        if launch:
            launches.append(number)
        for name, value, exported in _variables(line, launch):
            if name == "ROMIO_HINTS":
                hints_file, hints_path = number, value
                continue
            knobs += _of_variable(number, name, value, exported)
        knobs += [_made(found, number, "openmpi") for found in _MCA.finditer(line)]
        knobs += [_made(found, number, "hint") for found in _INFO.finditer(line)]
        knobs += list(_stripes(line, number))
        # "export NAME" alone exports what was assigned before.
        if (export := _EXPORT.match(line)) is not None and "=" not in export["rest"]:
            names = set(export["rest"].split())
            knobs = [
                Knob(k.line, k.name, k.value, k.carrier)
                if not k.exported and (k.name in names or f"OMPI_MCA_{k.name}" in names or k.carrier == "cray")
                else k
                for k in knobs
            ]
    if not knobs and not launches:
        # A pasted hints file has little but names and values.
        bare = [(number, line) for number, raw in lines if (line := _without_comment(raw)).strip()]
        pairs = [(number, found) for number, line in bare if (found := _HINT_LINE.match(line))]
        if 2 * len(pairs) >= len(bare):
            knobs += [_made(found, number, "romio_file") for number, found in pairs]
        hints_file = 1 if knobs else None
    return Script(
        tuple(knobs), tuple(launches), unset, hints_file, tuple(text.splitlines()), hints_path, tuple(written)
    )


def _joined(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers; a backslash at the end goes on with the next."""
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


def _of_variable(line: int, name: str, value: str, exported: bool) -> list[Knob]:
    if name == _CRAY:
        return [Knob(line, key, word, "cray", exported) for key, word in _cray(value)]
    if name == "PNETCDF_HINTS":
        pairs = [part.partition("=") for part in value.split(";") if "=" in part]
        return [Knob(line, key.strip(), word.strip(), "pnetcdf", exported) for key, _, word in pairs]
    if name.startswith("OMPI_MCA_"):
        return [Knob(line, name.removeprefix("OMPI_MCA_"), value, "openmpi", exported)]
    if name.startswith("I_MPI_"):
        return [Knob(line, name, value, "intel", exported)]
    if name.startswith(_PREFIXES):
        return [Knob(line, name, value, "env", exported)]
    return []


def _cray(value: str) -> Iterator[tuple[str, str]]:
    """``*:cb_nodes=8:romio_cb_write=enable,pattern2:...``."""
    for part in value.split(","):
        for word in part.split(":"):
            key, equal, setting = word.partition("=")
            if equal:
                yield key.strip(), setting.strip()


def _stripes(line: str, number: int) -> Iterator[Knob]:
    found = _SETSTRIPE.search(line)
    if found is None:
        return
    words = found["rest"].split()
    for place, word in enumerate(words):
        option, equal, value = word.partition("=")
        if option in _STRIPE_OPTIONS:
            given = value if equal else (words[place + 1] if place + 1 < len(words) else "")
            yield Knob(number, _STRIPE_OPTIONS[option], given, "lfs")
        elif len(word) > 2 and word[:2] in _STRIPE_OPTIONS and not word.startswith("--"):
            yield Knob(number, _STRIPE_OPTIONS[word[:2]], word[2:], "lfs")


def _made(found: re.Match[str], line: int, carrier: Carrier) -> Knob:
    return Knob(line, found["name"], _bare(found["value"]), carrier)


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'" else word
