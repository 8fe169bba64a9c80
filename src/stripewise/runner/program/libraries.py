"""Finding the libraries that a program will load, by the rules of ld.so(8), without running it."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stripewise.runner.program.elf import Elf, NotElf, read_elf

_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_CACHE_LINE = re.compile(r"^\s+(\S+) \(([^)]*)\) => (\S+)$", re.MULTILINE)
_MAX_LIBRARIES = 2000


@functools.lru_cache(maxsize=1)
def _loader_cache() -> Mapping[str, tuple[str, ...]]:
    """Libraries that ``ldconfig -p`` lists, by name."""
    tool = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
    if tool is None:
        return {}
    try:
        done = subprocess.run([tool, "-p"], capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for name, _, path in _CACHE_LINE.findall(done.stdout):
        found[name] = (*found.get(name, ()), path)
    return found


def find_library(
    program: Path,
    wanted: Callable[[str], bool],
    environment: Mapping[str, str],
) -> tuple[Path | None, str]:
    """Search a program's libraries, and theirs in turn, for one whose name is wanted.

    Parameters
    ----------
    program : Path
    wanted : callable
        Says whether the name of a library (``libmpi.so.12``) is the one.
    environment : mapping
        The program's; ``LD_LIBRARY_PATH`` counts.

    Returns
    -------
    tuple of (Path or None, str)
        The library's path, None where it was not found; and its name, empty where none is asked for.
    """
    preferred = [Path(folder or ".") for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    missing = ""
    seen: set[str] = set()
    pending: deque[tuple[Path, tuple[Path, ...]]] = deque([(program, ())])
    while pending and len(seen) < _MAX_LIBRARIES:
        path, inherited = pending.popleft()
        try:
            elf = read_elf(path)
        except (OSError, NotElf):
            continue
        own = _folders(elf.rpath, path) if not elf.runpath else ()
        rpath = (*own, *inherited)
        for name in elf.needed:
            if name in seen:
                continue
            seen.add(name)
            found = _locate(name, elf, [*(rpath if not elf.runpath else ()), *preferred, *_folders(elf.runpath, path)])
            if wanted(name):
                if found is not None:
                    return found, name
                missing = missing or name
            elif found is not None:
                pending.append((found, rpath))
    return None, missing


def _folders(entries: Sequence[str], origin: Path) -> tuple[Path, ...]:
    home = str(origin.resolve().parent)
    return tuple(
        Path(entry.replace("$ORIGIN", home).replace("${ORIGIN}", home).replace("$LIB", "lib64")) for entry in entries
    )


def _locate(name: str, asking: Elf, folders: Sequence[Path]) -> Path | None:
    if "/" in name:
        candidates = [Path(name)]
    else:
        cached = [Path(path) for path in _loader_cache().get(name, ())]
        candidates = [*(folder / name for folder in folders), *cached, *(Path(d) / name for d in _DEFAULT)]
    for candidate in candidates:
        try:
            elf = read_elf(candidate)
        except (OSError, NotElf):
            continue
        if (elf.machine, elf.bits) == (asking.machine, asking.bits):
            return candidate
    return None
