"""Which modules a Python program imports, as its source says; nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOST_FILES = 500
_MOST_BYTES = 1 << 20
_INSTALLED = ("site-packages", "dist-packages")


def names_module(program: Sequence[str], script: Path | None, folders: Sequence[Path], module: str) -> bool:
    """Say whether a Python program imports a module, itself or through modules of its own.

    Imports are followed through the program's folder and all others in which its Python finds modules. Of installed
    packages only the modules that the program itself imports are read: much of what they can do is optional.

    Parameters
    ----------
    program : sequence of str
        The interpreter, or the script, and its arguments.
    script : Path or None
        The program's source, where it is a file.
    folders : sequence of Path
        ``sys.path`` of the program's Python.
    module : str
    """
    options = [] if script is not None and Path(program[0]).name == script.name else list(program[1:])
    option = next((word for word in options if word in ("-c", "-m")), None)
    if script is None and option is None:
        return False
    places = [*([script.parent] if script is not None else []), *folders]
    waiting: list[tuple[str, Path | None]] = []
    if script is not None:
        waiting.append((_text(script), script))
    elif option == "-c":
        waiting.append((" ".join(options[options.index("-c") + 1 :][:1]), None))
    else:
        name = " ".join(options[options.index("-m") + 1 :][:1])
        if name.partition(".")[0] == module:
            return True
        waiting += [(_text(path), path) for path in _files(f"{name}.__main__", places)]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        text, path = waiting.pop()
        names = _imports(text, path, places)
        if any(name.partition(".")[0] == module for name in names):
            return True
        if path is not None and path != script and any(part in _INSTALLED for part in path.parts):
            continue
        for name in names:
            for file in _files(name, places):
                if file not in seen:
                    seen.add(file)
                    waiting.append((_text(file), file))
    return False


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _imports(text: str, path: Path | None, places: Sequence[Path]) -> set[str]:
    """The full names that a source imports; of a relative import as its place in the folders says."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level and path is not None:
                base = ".".join([*_package(path, node.level, places), *([base] if base else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)} - {""}
    return found


def _package(path: Path, level: int, places: Sequence[Path]) -> tuple[str, ...]:
    """The package that is ``level`` dots above a module."""
    folder = path.parents[level - 1] if level <= len(path.parents) else path.parent
    return next((folder.relative_to(place).parts for place in places if folder.is_relative_to(place)), ())


def _files(name: str, places: Sequence[Path]) -> Iterator[Path]:
    """The files that are run to import a module: its packages' and its own."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        place = Path(*parts[:end])
        found = (folder / file for folder in places for file in (place / "__init__.py", place.with_suffix(".py")))
        if (first := next((path for path in found if path.is_file()), None)) is not None:
            yield first
