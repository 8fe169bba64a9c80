"""Settings in files of the program's own, of which a changed copy stands in for the file.

Its configuration (TOML, YAML, JSON, INI, Fortran namelists or AMReX's inputs), and ADIOS2's (XML or YAML).
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import redirect_stdout
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any
from xml.etree import ElementTree

from stripewise.catalogue.carriers.base import LOST, Carried, Carrier, Expressed, Form, LaunchSettings, Setting
from stripewise.errors import StripewiseError, import_optional

LARGEST = 1 << 20
"""Bytes of a file that is still read."""


class CopiedFile(Carrier):
    """The launcher writes the copy into the run's folder; the command has ``{NAME:FILE}`` in place of the file's path.

    Attributes
    ----------
    by, wins : str
        As in :class:`~stripewise.catalogue.carriers.base.Carried`.
    file_is : str
        What the file is, in words.
    no_place : str
        Why a setting is lost for which no file has a place.
    """

    acts = ("launch",)
    needs_mpi = False
    names_files = True
    proofs = frozenset({"parts"})
    by = ""
    wins = ""
    file_is = ""
    no_place = ""

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Keep the setting for the copy."""
        if not any(carrier == self.name for carrier, _ in launch.program.own_files):
            return Carried(
                setting, LOST, f"write {{{self.name}:FILE}} in the command where it has the path of {self.file_is}"
            )
        launch.pending.setdefault(self.name, {})[setting.key] = setting.value
        return Carried(setting, self.by, self.wins)

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Write the copies; a setting that no file has a place for is lost."""
        wanted = launch.pending.get(self.name)
        if not wanted:
            return carried
        met: set[str] = set()
        why = self.no_place
        for carrier, file in launch.program.own_files:
            if carrier == self.name:
                try:
                    text, found = self.changed(file, wanted)
                except (OSError, ValueError) as error:
                    why = f"{file} cannot be changed: {getattr(error, 'strerror', None) or error}"
                    continue
                met |= found
                copy = f"{hashlib.sha256(str(file).encode()).hexdigest()[:8]}-{file.name}"
                launch.files[copy] = text
                launch.stand_in[carrier, file] = launch.folder / copy
        return [
            Carried(c.setting, LOST, why)
            if c.setting.carrier is self and c.by != LOST and c.setting.key not in met
            else c
            for c in carried
        ]

    @abstractmethod
    def changed(self, file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
        """Give a file's text with settings changed, and the keys for which it has a place.

        Raises
        ------
        OSError
            If it cannot be read.
        ValueError
            If it is too large or of another form.
        """

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Name all as lost: only the file can hold them."""
        if form is not Form.VARIABLES:
            return None
        return Expressed(cannot=[s.but(f"belongs into {self.file_is}") for s in settings])


def text_of(file: Path) -> str:
    """Read a file of bounded size.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is not a file, too large, or not a text in UTF-8.
    """
    if not file.is_file() and file.exists():  # a pipe would keep its reader waiting
        raise ValueError("it is not a file")
    with file.open("rb") as opened:
        read = opened.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    try:
        return read.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not a text in UTF-8 (byte {error.start + 1})") from error


_MARK = "\ufeff"
"""Byte order mark, with which some editors begin a file."""

_SEPARATOR = re.compile(r"[=:]\s*+")
_COMMENT = re.compile(r"\s[;#]")

Edit = Callable[[str, Mapping[str, str]], tuple[str, set[str]]]
"""From a text and the wanted value of each entry, by its path, to the new text and the paths that it has."""


class File(CopiedFile):
    """A key is the path of the entry (``io.buffer_size``), after the file's path and a colon if there are several."""

    name = "file"
    verb = "entry"
    undecided = "programs read their configuration when they start"
    by = "file"
    wins = "the plan wins over the file"
    file_is = "the program's configuration file"
    no_place = "the program's configuration file has no such entry: add it with the value that acts today"

    def changed(self, file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
        """Change the entries that belong to this file."""
        paths = {_path_in(file, key): key for key in wanted}
        edit, given = _edit_of(file), text_of(file)
        plain = given.removeprefix(_MARK).replace("\r\n", "\n")
        text, met = edit(plain, {path: wanted[key] for path, key in paths.items() if path})
        if not met:
            return given, set()
        text = (_MARK if given.startswith(_MARK) else "") + text
        return text.replace("\n", "\r\n") if "\r\n" in given else text, {paths[path] for path in met}


def named_in(words: Sequence[str], keys: Iterable[str]) -> list[str]:
    """Write ``{file:FILE}`` for the words of a command that are the paths of configuration files.

    Parameters
    ----------
    keys : iterable of str
        Of settings that this carrier brings.
    """
    files = {file for file, colon, _ in (key.partition(":") for key in keys) if colon}

    def mark(word: str) -> str:
        option, equals, value = word.rpartition("=")
        return f"{option}{equals}{{file:{value}}}" if value in files else word

    return [mark(word) for word in words]


def _path_in(file: Path, key: str) -> str:
    """The path of an entry if it is in a file, else an empty text."""
    named, colon, path = key.rpartition(":")
    if not colon:
        return key
    parts = PurePath(named).parts
    return path if file.parts[-len(parts) :] == parts else ""


def _edit_of(file: Path) -> Edit:
    ending = file.suffix.lower()
    if ending not in _EDITS and file.name.startswith("inputs"):
        ending = ".inputs"
    if ending not in _EDITS:
        known = ", ".join(_EDITS)
        raise ValueError(f"the form of '{file.name}' is not known by its ending; known are {known}")
    return _EDITS[ending]


def _place(tree: Any, parts: Sequence[str]) -> tuple[Any, Any] | None:
    """Find the container and the key of an entry; names may have dots of their own."""
    if isinstance(tree, MutableSequence):
        if parts[0].isdigit() and int(parts[0]) < len(tree):
            at = int(parts[0])
            return (tree, at) if len(parts) == 1 else _place(tree[at], parts[1:])
        return None
    if not isinstance(tree, MutableMapping):
        return None
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in tree:
            found = (tree, name) if count == len(parts) else _place(tree[name], parts[count:])
            if found is not None:
                return found
    return None


def _parse_as(text: str, old: Any, path: str) -> Any:
    """Read a value as the type that the entry has."""
    if isinstance(old, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{path} is true or false there, and '{text}' is neither")
        return text == "true"
    if isinstance(old, int | float):
        try:
            return int(text) if isinstance(old, int) and text.lstrip("+-").isdigit() else float(text)
        except ValueError:
            raise ValueError(f"{path} is a number there, and '{text}' is not") from None
    if old is None:
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return text if isinstance(value, list | dict) else value
    if not isinstance(old, str):
        raise ValueError(f"{path} is neither a number, a text, nor true or false there")
    return text


def _set_all(
    tree: Any, wanted: Mapping[str, str], write: Callable[[Any, Any], Any] = lambda value, old: value
) -> set[str]:
    """Set entries; ``write`` gives a value the form that the file needs, by the old one."""
    met = set()
    for path, text in wanted.items():
        place = _place(tree, path.split("."))
        if place is not None:
            container, key = place
            container[key] = write(_parse_as(text, container[key], path), container[key])
            met.add(path)
    return met


_MOST = 2000
_MOST_DOTTED = 500
_MOST_REPEATED = 1_000_000
_DEEPEST = 100


def _bound(count: int, noun: str, most: int = _MOST) -> None:
    """Refuse a text of many parts: the time of these readers grows with the square of their number, or faster."""
    if count > most:
        raise ValueError(f"it has more than {most} {noun}")


_TO_BASE_60 = re.compile(r"(?:\d++:){20}")
"""A number of YAML 1.1, whose reading takes time as the square of its parts."""


def _depth(text: str) -> int:
    """Count how many brackets of a text are open at once, at most."""
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _toml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    with import_optional("files"):
        import tomlkit  # noqa: PLC0415  slow to load, and few programs have such a file

    lines = [line.strip() for line in text.splitlines()]
    _bound(sum(line.startswith("[") and line.endswith("]") for line in lines), "tables")
    _bound(sum("." in line.partition("=")[0] for line in lines if "=" in line), "keys with dots", _MOST_DOTTED)
    tree = tomlkit.parse(text)
    met = _set_all(tree, wanted)
    return tomlkit.dumps(tree), met


_OTHER_IN_YAML = re.compile(r"(?i:y|n|yes|no|on|off)|[-+]?[0-9][0-9_]*+(:[0-5]?[0-9])++(\.[0-9_]*)?")
"""Texts that YAML 1.1 takes for something else, and YAML 1.2 does not."""


def _quote(value: Any, old: Any) -> Any:
    """Quote what is a text in YAML 1.2 alone, unless the old value is such a word: its reader means the other thing."""
    from ruamel.yaml.scalarstring import SingleQuotedScalarString  # noqa: PLC0415  as for TOML

    plain = old is None or (type(old) is str and not _OTHER_IN_YAML.fullmatch(old))
    return SingleQuotedScalarString(value) if plain and _OTHER_IN_YAML.fullmatch(str(value)) else value


def _yaml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    with import_optional("files"):
        from ruamel.yaml import YAML  # noqa: PLC0415  as above

    reader = YAML()
    reader.preserve_quotes = True
    reader.width = 1 << 20
    out = io.StringIO()
    if _depth(text) > _DEEPEST:
        raise ValueError("it is nested too deeply")
    if _TO_BASE_60.search(text):
        raise ValueError("a number of it has too many parts between colons")
    tree = reader.load(text)
    met = _set_all(tree, wanted, _quote)
    reader.dump(tree, out)
    return out.getvalue(), met


def _json(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    tree = json.loads(text, object_pairs_hook=_each_once)
    met = _set_all(tree, wanted)
    return json.dumps(tree, indent=2, ensure_ascii=text.isascii()) + "\n", met


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse names that an object has twice: the copy would have one of them."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an object has two entries of the same name")
    return entries


def _namelist(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    with import_optional("files"):
        import f90nml  # noqa: PLC0415  as above

    out = io.StringIO()
    _bound(text.count("="), "entries")
    # The reader keeps each value that n*value stands for.
    _bound(sum(map(int, re.findall(r"(\d++)\s*+\*", text))), "repeated values", _MOST_REPEATED)
    # Its reader prints a table where a text ends early, and what Stripewise prints may be JSON.
    with redirect_stdout(io.StringIO()):
        tree = f90nml.Parser().reads(text)
        lower = {path.lower(): path for path in wanted}
        met = _set_all(tree, {path: wanted[lower[path]] for path in lower})
        patch: dict[str, Any] = {}
        for path in met:
            *groups, name = path.split(".")
            place = _place(tree, path.split("."))
            inner = patch
            for group in groups:
                inner = inner.setdefault(group, {})
            inner[name] = place and place[0][place[1]]
        f90nml.Parser().read(io.StringIO(text), f90nml.Namelist(patch), out)
        written = f90nml.Parser().reads(out.getvalue())
    if written != tree:
        raise ValueError(
            f"{', '.join(sorted(met))} stands in a form that cannot be changed; write it on a line of its own"
        )
    return out.getvalue(), {lower[path] for path in met}


def _ini(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    """Change lines of the form ``name = value`` below ``[section]``; all others stay as they are.

    As for Python's ``configparser``, lines that are indented deeper than an entry continue its value.
    """
    paths, lines = {path.lower(): path for path in wanted}, text.split("\n")
    section, deepest, met = "", len(text), set[str]()
    path: str | None = None
    for at, line in enumerate(lines):
        body = line.strip()
        indent = len(line) - len(line.lstrip())
        if not body or body[0] in ";#":
            continue
        if indent > deepest:
            if path:
                raise ValueError(f"{path} has a value of several lines")
            continue
        path, deepest = None, len(text)
        if body[0] == "[":
            section = body[1:].partition("]")[0].strip()
        elif separator := _SEPARATOR.search(line):
            name, deepest = line[: separator.start()].strip(), indent
            path = paths.get((f"{section}.{name}" if section else name).lower())
            if path:
                comment = _COMMENT.search(line, separator.start())
                behind = line[len(line[: comment.start()].rstrip()) :] if comment else ""
                lines[at] = f"{line[: separator.end()]}{wanted[path]}{behind}"
                met.add(path)
    return "\n".join(lines), met


_DEFINITION = re.compile(r"[A-Za-z][\w.\[\]+-]*+\s*+=")


def _inputs(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    """Add lines to what AMReX's ``ParmParse`` reads: of several definitions of a name, the last one counts."""
    continued = False
    for number, line in enumerate(text.splitlines(), 1):
        body = line.partition("#")[0].strip()
        if body and not continued and _DEFINITION.match(body) is None:
            raise ValueError(f"line {number} is not `name = value`, as AMReX reads it")
        continued = body.endswith("\\")
    added = "".join(f"{path} = {value}\n" for path, value in wanted.items())
    return text + "\n" * (not text.endswith("\n")) + added, set(wanted)


def _edit_safely(edit: Edit, text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    try:
        new, met = edit(text, wanted)
        new.encode()  # escapes in a text may name characters that no file has
    except (ValueError, StripewiseError):
        raise
    except Exception as error:
        # What the readers of these forms raise for a damaged file is of many kinds, and not documented.
        said = str(error).splitlines()
        raise ValueError(f"it cannot be read: {said[0] if said else type(error).__name__}") from error
    return new, met


_EDITS: Mapping[str, Edit] = {
    ending: partial(_edit_safely, edit)
    for edit, endings in (
        (_toml, (".toml",)),
        (_yaml, (".yaml", ".yml")),
        (_json, (".json",)),
        (_ini, (".ini", ".cfg", ".conf")),
        (_namelist, (".nml", ".namelist", ".f90nml")),
        (_inputs, (".inputs", ".inp", ".in", ".i")),
    )
    for ending in endings
}

FILE = File()


_ENGINES = ("bp5", "bpfile", "bp", "file", "")
"""Types under which ADIOS2 writes BP5 files, in lower case; without a type it does so as well."""

# Each run of blanks is taken whole and only from its beginning: the time grows with the length of the line.
_END = r"(?:(?<!\s)\s++)?+(?:#.*)?$"
_ITEM = re.compile(rf"""-(\s++)IO\s*+:\s*+(["']?)(.*?)\2{_END}""")
_PAIR = re.compile(rf"""(\s*+)(["']?)([\w-]+)\2\s*+:\s*+(["']?)(.*?)\4{_END}""")


class Adios2(CopiedFile):
    """The file is XML or YAML, as ADIOS2's own manual describes it."""

    name = verb = "adios2"
    undecided = "ADIOS2 reads its file when the program starts"
    by = "adios2 file"
    wins = "parameters that the program sets in its code win"
    file_is = "its ADIOS2 file"
    no_place = "no IO of the program's ADIOS2 file writes BP5 files, or none has this name"

    def changed(self, file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
        """Change the engine's parameters, of all IOs or, by keys with IO and slash before them, of one.

        A file whose name ends so is read as XML, and any other as YAML, as ADIOS2 does.
        """
        text = text_of(file)
        return _in_xml(text, wanted) if file.suffix.lower() == ".xml" else _in_yaml(text, wanted)


def _of_io(name: str, engine: str, wanted: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Give key, parameter and value of what is wanted of an IO: first for all of them, then for this one."""
    if engine.lower() in _ENGINES:
        for key, value in sorted(wanted.items(), key=lambda pair: "/" in pair[0]):
            io, slash, parameter = key.rpartition("/")
            if not slash or io == name:
                yield key, parameter, value


def _in_xml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    if "<!DOCTYPE" in text:  # ADIOS2's reader passes over it, and expands no entities
        raise ValueError("it declares a type of document, which ADIOS2 does not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not valid XML: {error}") from error
    met: set[str] = set()
    for one in root.iter("io"):
        engine = one.find("engine")
        kind = engine.get("type", "") if engine is not None else ""
        for key, parameter, value in _of_io(one.get("name", ""), kind, wanted):
            if engine is None:
                engine = ElementTree.SubElement(one, "engine", type="File")
            # ADIOS2 compares names without regard to case, and would take one of two at random.
            for old in [p for p in engine.findall("parameter") if p.get("key", "").lower() == parameter.lower()]:
                engine.remove(old)
            ElementTree.SubElement(engine, "parameter", key=parameter, value=value)
            met.add(key)
    try:
        return ElementTree.tostring(root, "unicode") + "\n", met
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _in_yaml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    """Change lines of the form that ADIOS2's manual has: a list of ``- IO: NAME``, in each a block ``Engine:``."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("-")]
    done, met = lines[: starts[0] if starts else None], set[str]()
    for start, end in pairwise((*starts, len(lines))):
        item = lines[start:end]
        done += _changed_item(item, wanted, met) if (named := _ITEM.match(item[0])) and named[3] else item
    return "\n".join(done) + "\n", met


def _changed_item(item: list[str], wanted: Mapping[str, str], met: set[str]) -> list[str]:
    named = _ITEM.match(item[0])
    assert named is not None
    margin = " " * (1 + len(named[1]))
    pairs = [(at, pair) for at, line in enumerate(item) if at and (pair := _PAIR.match(line))]
    head = next(((at, p) for at, p in pairs if p[3] == "Engine" and p[1] == margin), None)
    if head is not None and head[1][5]:
        raise ValueError("Engine is written in one line: write its parameters as lines of their own")
    inside: list[tuple[int, re.Match[str]]] = []
    for at, pair in pairs:
        if head is not None and at > head[0]:
            if len(pair[1]) <= len(margin):
                break
            inside.append((at, pair))
    kind = next((pair[5] for _, pair in inside if pair[3].lower() == "type"), "")
    deeper = inside[0][1][1] if inside else margin + "  "
    new: dict[str, str] = {}
    for key, parameter, value in _of_io(named[3], kind, wanted):
        new[parameter] = value
        met.add(key)
    if not new:
        return item
    old = {at for at, pair in inside if pair[3].lower() in {parameter.lower() for parameter in new}}
    added = [f"{deeper}{json.dumps(parameter)}: {json.dumps(value)}" for parameter, value in new.items()]
    if head is None:
        return [item[0], f"{margin}Engine:", *added, *item[1:]]
    kept = [line for at, line in enumerate(item) if at not in old and at > head[0]]
    return [*item[: head[0] + 1], *added, *kept]


ADIOS2 = Adios2()
