"""What is found in a script: its settings, and how variables and files hold them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from stripewise.catalogue.carriers import ADIOS2, ENVIRONMENT, HINT, MCA
from stripewise.catalogue.filesystems import FILE_SYSTEMS
from stripewise.catalogue.meaning import bare_names, knows_exactly, knows_name, names_of
from stripewise.diagnose.shell_state import Piece, Value, is_known_between, line_in, text_of

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_INFO = re.compile(
    r"MPI_Info_set\s*\([^,]{0,200},\s{0,200}[\"'](?P<name>[^\"'\n]{1,200})[\"']\s{0,200},\s{0,200}[\"'](?P<value>[^\"'\n]{0,4000})[\"']",
    re.I,
)
_HINT_LINE = re.compile(r"\s*(?P<name>[A-Za-z][A-Za-z0-9_]+)[ \t]+(?P<value>[^\s#]\S*)\s*")
_EQUALS_LINE = re.compile(r"\s*(\w{1,99})\s{0,9}=\s{0,9}([^\s=#]{1,99})\s*")
_IOR_LINE = re.compile(r"\s*(?:setenv\s+)?IOR_HINT__(?:MPI|GPFS)__(?P<name>\w+)(?:\s*=\s*|\s+)(?P<value>\S+)\s*")
_IOR = re.compile(r"IOR_HINT__(?:MPI|GPFS)__(\w+)")
_ADIOS = re.compile(
    r"key\s{0,9}=\s{0,9}[\"'](\w{1,99})[\"']\s{1,9}value\s{0,9}=\s{0,9}[\"']([^\"'\n]{0,200})[\"']|^\s*(\w{1,99}):\s+(\S{1,200})\s*$"
)
_CRAY = "MPICH_MPIIO_HINTS"
_COMMON = frozenset({"io", "fs"})
"""Names of parameters that are words of any script; ``mca`` stands before them."""
_PART = re.compile(r"[^,]+")
_TEMPLATE = re.compile(r"\{\{|\}\}|^!\w+$|@\w+@|%\w+%|^<[\w -]+>$|\$")
"""What stands for a value that is put in before the script runs."""
_TYPOGRAPHIC = re.compile("[\u2018-\u201f\u00ab\u00bb]")


def _commands_of_layouts() -> Iterator[str]:
    for system in FILE_SYSTEMS:
        yield from system.command[:1]


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
    file : str
        Where the line is, if not in the script.
    layer : str
        Of a layout the file system.
    variable : str
        The shell's variable that holds it; empty where none does.
    target : str
        What it is for, if not for every file: the folder of a layout, the pattern of a Cray hint.
    known : bool
        Whether the value is known before the script runs.
    fault : str
        Why the library cannot read it as it is written; empty where it can.
    cure : str
        What to do about the fault.
    component : int
        Of a composite layout, from 1; 0 for a layout of one component, and for what is no layout.
    bound : bool
        Whether it is a part of the command that it acts on.
    gone : str
        Why no program finds it, on every way through the script; empty where one does.
    partly : bool
        Whether some ways through the script start programs without it.
    unsure : str
        Why it cannot be told whether a program finds it; empty where it can.
    mark : int
        Its number among the settings of the script, for the scenes.
    scenes : tuple of int
        Places of those scenes of the script in which it is.
    """

    line: int
    name: str
    value: str
    form: str
    file: str = ""
    layer: str = ""
    variable: str = ""
    target: str = ""
    known: bool = True
    fault: str = ""
    cure: str = ""
    component: int = 0
    bound: bool = False
    gone: str = ""
    partly: bool = False
    unsure: str = ""
    mark: int = -1
    scenes: tuple[int, ...] = ()


Scene = tuple[tuple[tuple[int, ...], ...], ...]
"""What programs find together: for each variable, file or folder the settings of each of its alternatives."""


@dataclass(frozen=True)
class Script:
    """What a script sets and starts.

    Attributes
    ----------
    settings : tuple of ScriptSetting
        In order.
    scenes : tuple of Scene
        With the marks of the settings.
    hints_file : int or None
        Line that names a ROMIO hints file.
    hints_path : str
        As it names it.
    hints_gone : str
        Why no program finds that name; empty where one does.
    written : tuple of str
        Files that the script writes from its own text.
    mpi, file_system : str
        The MPI library and the file system that it shows, as the command line names them; empty if none shows.
    shown_by : mapping
        ``mpi`` or ``file_system`` to the words and the line that show it.
    unclear : mapping
        ``mpi`` or ``file_system`` to why it is not clear, where several show.
    several : mapping
        ``mpi`` or ``file_system`` to those that show, where it is not clear.
    nested : tuple of Script
        Scripts that it writes or feeds to a shell, with the line numbers of this one.
    versions : mapping
        Versions of I/O libraries, by the modules that it loads.
    """

    settings: tuple[ScriptSetting, ...] = ()
    scenes: tuple[Scene, ...] = ()
    hints_file: int | None = None
    hints_path: str = ""
    hints_gone: str = ""
    written: tuple[str, ...] = ()
    mpi: str = ""
    file_system: str = ""
    shown_by: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    unclear: Mapping[str, str] = field(default_factory=dict)
    several: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    nested: tuple[Script, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def all(self) -> Iterator[Script]:
        """Give the script, and those in it."""
        yield self
        for one in self.nested:
            yield from one.all()


_TOKEN = re.compile(r"[A-Za-z_][\w-]*")
_TELLING = frozenset({"adios-config", "RunTimeConfig", _CRAY, "mca", "gmca", "omca", *_commands_of_layouts()})


def may_set_something(text: str) -> bool:
    """Whether a text has a word of some setting."""
    return any(map(_is_telling, set(_TOKEN.findall(text))))


@lru_cache(maxsize=1 << 15)
def _is_telling(word: str) -> bool:
    begins = word.lower() == "mpi_info_set" or word.startswith(("OMPI_MCA_", "IOR_HINT__"))
    known = knows_name(HINT, word) or knows_name(ENVIRONMENT, word) or (word not in _COMMON and knows_name(MCA, word))
    return begins or known or word in _TELLING


def read_variable(name: str, value: Value, line: int = 0, *, exported: bool) -> Iterator[ScriptSetting]:
    """Give the settings that a variable with a value makes.

    Parameters
    ----------
    line : int
        Of the assignment; 0 for that of the value.
    """
    text = text_of(value)
    typographic = _TYPOGRAPHIC.search(text)
    if typographic:
        value = tuple(Piece(_TYPOGRAPHIC.sub("", piece.text), piece.line, piece.known) for piece in value)
        text = text_of(value)
    for key, start, end, form, target, refused, remedy in _split_variable(name, text, exported=exported):
        fault, cure = refused, remedy
        if typographic and not refused:
            fault = f"the typographic quote {typographic[0]} is a character of the value, not a quote"
            cure = "write straight quotes"
        word = text[start:end]
        known = is_known_between(value, start, end) and not _TEMPLATE.search(word)
        number = line if line and not start else line_in(value, max(start - 1, 0))
        yield ScriptSetting(number, key, word, form, variable=name, target=target, known=known, fault=fault, cure=cure)


_Found = tuple[str, int, int, str, str, str, str]


def _split_variable(name: str, text: str, *, exported: bool) -> Iterator[_Found]:
    whole = (0, len(text))
    if name == _CRAY:
        yield from _split_cray(text)
    elif name == "PNETCDF_HINTS":
        for found in re.finditer(r"([^;=]+)=([^;]*)", text):
            begin, end = _stripped(text, *found.span(2))
            yield found[1].strip(), begin, end, "pnetcdf", "", "", ""
    elif name.startswith("OMPI_MCA_"):
        if knows_name(MCA, name.removeprefix("OMPI_MCA_")):
            yield name.removeprefix("OMPI_MCA_"), *whole, "openmpi", "", "", ""
    elif of_ior := _IOR.fullmatch(name):
        yield of_ior[1], *whole, "ior", "", "", ""
    elif name.startswith("I_MPI_") and knows_name(ENVIRONMENT, name):
        yield name, *whole, "intel", "", "", ""
    elif name not in ("ROMIO_HINTS", "ROMIO_PRINT_HINTS") and (
        knows_name(ENVIRONMENT, name) or (exported and name in bare_names())
    ):
        yield name, *whole, "env", "", "", ""


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _split_cray(text: str) -> Iterator[_Found]:
    """``pattern:cb_nodes=8:romio_cb_write=enable,pattern2:...``: pattern, hint, value, and what is wrong with it."""
    cure = "begin with a file pattern, as in *:NAME=VALUE"
    for part in _PART.finditer(text):
        begin, end = _stripped(text, *part.span())
        colon = text.find(":", begin, end)
        fault = pattern = ""
        if colon < 0 and "=" in text[begin:end]:
            fault = "a comma begins the next file pattern, so Cray MPICH takes this for a pattern, not for a hint"
            place = begin
        elif colon < 0:
            continue
        else:
            pattern, place = text[begin:colon], colon + 1
            if not pattern:
                fault = "no file pattern stands before the first colon, so it holds for no file"
            elif "=" in pattern and "$" not in pattern:
                fault = f"'{pattern[:60]}' is taken for the file pattern, so it holds for no file"
                yield from _split_pair(text, begin, colon, "", fault, cure)
        for found in re.finditer(r"[^:]+", text[place:end]):
            yield from _split_pair(text, place + found.start(), place + found.end(), pattern, fault, cure)


def _split_pair(text: str, begin: int, end: int, pattern: str, fault: str, cure: str) -> Iterator[_Found]:
    equal = text.find("=", begin, end)
    if equal >= 0:
        first, last = _stripped(text, equal + 1, end)
        yield text[begin:equal].strip(), first, last, "cray", pattern, fault, cure if fault else ""


def find_hint_line(line: Value, path: str) -> ScriptSetting | None:
    """Give the hint that a line of a hints file holds: one of ROMIO, or one of IOR."""
    # What a command gives is one word, whatever blanks the command has.
    text = "".join(piece.text if piece.known else re.sub(r"[\s#]", "_", piece.text) for piece in line)
    form = "ior" if "IOR_HINT__" in text else "romio_file"
    found = (_IOR_LINE if form == "ior" else _HINT_LINE).fullmatch(text)
    if found is None:
        return None
    value = text_of(line)[slice(*found.span("value"))]
    known = is_known_between(line, *found.span("value")) and not _TEMPLATE.search(found["value"])
    return ScriptSetting(line_in(line, found.start("name")), found["name"], value, form, target=path, known=known)


def find_passed_over(line: Value, path: str) -> ScriptSetting | None:
    """Give the hint that a line of a hints file would hold if it were written as ROMIO reads it."""
    found = _EQUALS_LINE.fullmatch(text_of(line))
    if found is None or not knows_exactly(HINT, found[1]):
        return None
    why = "ROMIO passes over lines that are not a name and a value with a blank between them"
    cure = f"write {found[1]} {found[2]}"
    return ScriptSetting(
        line_in(line, found.start(1)), found[1], found[2], "romio_file", target=path, fault=why, cure=cure
    )


def find_adios_settings(line: Value, path: str) -> Iterator[ScriptSetting]:
    """Give the settings of a line of ADIOS2's configuration."""
    for found in _ADIOS.finditer(text_of(line)):
        name, value = (found[1], found[2]) if found[1] else (found[3], found[4])
        if name in names_of(ADIOS2):
            known = not _TEMPLATE.search(value)
            yield ScriptSetting(line_in(line, found.start()), name, value, "adios2", target=path, known=known)


def find_hints(lines: Sequence[tuple[int, str]]) -> Iterator[ScriptSetting]:
    """Give the hints that program text sets by ``MPI_Info_set``."""
    for number, text in lines:
        for found in _INFO.finditer(text):
            yield ScriptSetting(number, found["name"], found["value"], "hint", bound=True)


def is_hint(setting: ScriptSetting) -> bool:
    """Whether a line that looks like a hint has the name of one."""
    return setting.form == "ior" or knows_name(HINT, setting.name)


def is_own(setting: ScriptSetting, read: set[str], *, hidden: bool) -> bool:
    """Whether a setting is a variable of the script itself, which it reads."""
    if setting.bound or not setting.variable:
        return False
    bare = setting.form == "env" and setting.name in bare_names()
    return (hidden and (bare or setting.variable in read)) or (bare and setting.variable in read)
