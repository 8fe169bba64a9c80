"""Entries of a program's own configuration file: TOML, YAML, JSON, INI or Fortran namelists."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from stripewise.catalogue.carriers.copied import CopiedFile, text_of
from stripewise.errors import StripewiseError, optional

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
    unproven = "no report shows what the program does with an entry"
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
    words : sequence of str
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


def _typed(text: str, old: Any, path: str) -> Any:
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


def _set_all(tree: Any, wanted: Mapping[str, str]) -> set[str]:
    met = set()
    for path, text in wanted.items():
        place = _place(tree, path.split("."))
        if place is not None:
            container, key = place
            container[key] = _typed(text, container[key], path)
            met.add(path)
    return met


def _toml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    with optional("files"):
        import tomlkit  # noqa: PLC0415  slow to load, and few programs have such a file

    tree = tomlkit.parse(text)
    met = _set_all(tree, wanted)
    return tomlkit.dumps(tree), met


def _yaml(text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
    with optional("files"):
        from ruamel.yaml import YAML  # noqa: PLC0415  as above

    reader = YAML()
    reader.preserve_quotes = True
    reader.width = 1 << 20
    out = io.StringIO()
    tree = reader.load(text)
    met = _set_all(tree, wanted)
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
    with optional("files"):
        import f90nml  # noqa: PLC0415  as above

    out = io.StringIO()
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


def _guarded(edit: Edit, text: str, wanted: Mapping[str, str]) -> tuple[str, set[str]]:
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
    ending: partial(_guarded, edit)
    for edit, endings in (
        (_toml, (".toml",)),
        (_yaml, (".yaml", ".yml")),
        (_json, (".json",)),
        (_ini, (".ini", ".cfg", ".conf")),
        (_namelist, (".nml", ".namelist", ".f90nml")),
    )
    for ending in endings
}

FILE = File()
