"""Parameters of ADIOS2's engine for BP5 files, in a changed copy of the program's own ADIOS2 file (XML or YAML)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from stripewise.carriers.base import LOST, Carried, Carrier, Expressed, Form, LaunchSettings, Setting

_LARGEST = 1 << 20
_ENGINES = ("bp5", "bpfile", "bp", "file", "")
"""Types under which ADIOS2 writes BP5 files, in lower case; without a type it does so as well."""

_ITEM = re.compile(r"""-(\s+)IO\s*:\s*(["']?)(.*?)\2\s*(?:#.*)?$""")
_PAIR = re.compile(r"""(\s*)(["']?)([\w-]+)\2\s*:\s*(["']?)(.*?)\4\s*(?:#.*)?$""")


class Adios2(Carrier):
    """The launcher writes the copy into the run's folder; the command has ``{adios2:FILE}`` in place of its path."""

    name = verb = "adios2"
    acts = ("launch",)
    undecided = "ADIOS2 reads its file when the program starts"
    needs_mpi = False
    names_files = True
    unproven = "ADIOS2 writes its files past MPI-IO, and no report has them"
    proofs = frozenset()

    def bring(self, setting: Setting, launch: LaunchSettings) -> Carried:
        """Keep the parameter for the copy."""
        if not any(carrier == self.name for carrier, _ in launch.program.own_files):
            return Carried(setting, LOST, "write {adios2:FILE} in the command where it has the path of its ADIOS2 file")
        launch.pending.setdefault(self.name, {})[setting.key] = setting.value
        return Carried(setting, "adios2 file", "parameters that the program sets in its code win")

    def finish(self, launch: LaunchSettings, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Write the copies; a parameter that no file has a place for is lost."""
        wanted = launch.pending.get(self.name)
        if not wanted:
            return carried
        met: set[str] = set()
        why = "no IO of the program's ADIOS2 file writes BP5 files, or none has this name"
        for carrier, file in launch.program.own_files:
            if carrier == self.name:
                try:
                    text, found = changed(file, wanted)
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

    def express(self, form: Form, settings: Sequence[Setting], *, mpi: str = "", place: str = "") -> Expressed | None:
        """Name all as lost: ADIOS2 reads no variable for them."""
        if form is not Form.VARIABLES:
            return None
        why = "belongs to the parameters of the engine in the program's ADIOS2 file"
        return Expressed(cannot=[s.but(why) for s in settings])


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
    with file.open("rb") as opened:
        read = opened.read(_LARGEST + 1)
    if len(read) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    text = read.decode("utf-8")
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
