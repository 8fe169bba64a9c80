"""Parameters of ADIOS2's engine for BP5 files, in a changed copy of the program's own ADIOS2 file (XML or YAML)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from stripewise.catalogue.carriers.copied import CopiedFile, text_of

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
    unproven = "ADIOS2 writes its files past MPI-IO, and no report has them"
    by = "adios2 file"
    wins = "parameters that the program sets in its code win"
    file_is = "its ADIOS2 file"
    no_place = "no IO of the program's ADIOS2 file writes BP5 files, or none has this name"

    def changed(self, file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
        """Change the engine's parameters."""
        return changed(file, wanted)


def changed(file: Path, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    """Give an ADIOS2 file's text with parameters changed, and the keys for which it has a place.

    Parameters
    ----------
    file : Path
        Read as XML if its name ends so, else as YAML, as ADIOS2 does.
    wanted : mapping
        Parameter, or IO and parameter with a slash between them, to value.

    Raises
    ------
    OSError
        If it cannot be read.
    ValueError
        If it is too large or of another form.
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
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not valid XML: {error}") from error
    met: set[str] = set()
    for io in root.iter("io"):
        engine = io.find("engine")
        kind = engine.get("type", "") if engine is not None else ""
        for key, parameter, value in _of_io(io.get("name", ""), kind, wanted):
            if engine is None:
                engine = ElementTree.SubElement(io, "engine", type="File")
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
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
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
