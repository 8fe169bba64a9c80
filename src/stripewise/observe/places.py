"""Where in a program's code data moves: from the return addresses that the observer sampled to source lines.

``native/observer/places.h`` defines the files that processes leave.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath

import numpy as np

from stripewise.interpreter import inherit_environment
from stripewise.observe.left import places_in, reports_of
from stripewise.observe.process_part import decode_field
from stripewise.ownership import written_whole

_MAGIC = b"SWPLAC1"
_MODULES, _PLACES, _FRAMES = 64, 1024, 16
_MODULE = np.dtype([("base", "u8"), ("path", "S512")])
_PLACE = np.dtype(
    [
        ("key", "u8"),
        ("calls", "u8"),
        ("bytes", "u8"),
        ("ready", "u4"),
        ("writes", "u4"),
        ("frames", "u8", _FRAMES),
        ("modules", "u4", _FRAMES),
        ("path", "S512"),
    ]
)
_HEAD = np.dtype([("magic", "S8"), ("place_size", "u8"), ("modules", _MODULE, _MODULES)])
_TOOLS = ("addr2line", "llvm-addr2line")
_SECONDS = 60
"""After which a module's lines are left out: the debug information of some programs takes gigabytes."""
_SHOWN, _LINES = 10, 3
_ET_EXEC = 2
_OF_LANGUAGE = re.compile(
    r"(ld-|libc\.|libc-|libstdc\+\+|libgfortran|libpython|libpthread|libnetcdf|libpnetcdf|libadios2)"
)
"""Libraries of which users do not change the source."""

_Frame = tuple[str, int]
_Stack = tuple[_Frame, ...]


def add_places(report: Path) -> str:
    """Add the source lines from which data moved to the reports of a run, and remove what processes left of them.

    Returns
    -------
    str
        Why no line is known; empty if one is.
    """
    left = places_in(report.parent)
    counted = _count(left)
    for path in left:
        path.unlink(missing_ok=True)
    lines = _find_lines({frame for stack, _, _ in counted for frame in stack})
    by_file: dict[str, Counter[tuple[str, tuple[str, ...]]]] = defaultdict(Counter)
    moved: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for (stack, moved_file, way), (calls, size) in counted.items():
        if known := tuple(lines[frame] for frame in stack if frame in lines)[:_LINES]:
            by_file[moved_file][way, known] += calls
            moved[moved_file, way, known] += size
    for path in reports_of(report) if by_file else ():
        found = json.loads(path.read_text("utf-8"))
        for file in (*found.get("files", ()), *found.get("posix_files", ())):
            if places := by_file.get(file["path"]):
                file["places"] = [
                    {"direction": way, "calls": calls, "bytes": moved[file["path"], way, known], "lines": list(known)}
                    for (way, known), calls in places.most_common(_SHOWN)
                ]
        with written_whole(path) as part:
            part.write_text(json.dumps(found) + "\n", "utf-8")
    if by_file:
        return ""
    if _tool() is None:
        return "no source line is known: this machine has no addr2line (install binutils)"
    return "no source line is known: build the program with -g (lines of scripts, as in Python, cannot be found)"


def _count(paths: Iterable[Path]) -> dict[tuple[_Stack, str, str], tuple[int, int]]:
    """Sum calls and bytes over processes, by stack, file and direction. A frame is a module and an address in it."""
    found: dict[tuple[_Stack, str, str], tuple[int, int]] = {}
    for path in paths:
        for key, calls, size in _read(path):
            before = found.get(key, (0, 0))
            found[key] = before[0] + calls, before[1] + size
    return found


def _read(path: Path) -> Iterator[tuple[tuple[_Stack, str, str], int, int]]:
    content = path.read_bytes()
    if len(content) != _HEAD.itemsize + _PLACES * _PLACE.itemsize:
        return
    head = np.frombuffer(content, _HEAD, 1)[0]
    if head["magic"] != _MAGIC or head["place_size"] != _PLACE.itemsize:
        return
    modules = [(decode_field(one["path"]), int(one["base"])) for one in head["modules"]]
    bases = {path: 0 if _is_fixed(path) else base for path, base in modules if path}
    for one in np.frombuffer(content, _PLACE, _PLACES, _HEAD.itemsize):
        if one["ready"]:
            frames = [
                (modules[module][0], int(address) - bases[modules[module][0]] - 1)
                for module, address in zip(one["modules"], one["frames"], strict=True)
                if address and modules[module][0] in bases
            ]
            way = "write" if one["writes"] else "read"
            yield (tuple(frames), decode_field(one["path"]), way), int(one["calls"]), int(one["bytes"])


def _is_fixed(module: str) -> bool:
    """Whether a program was linked for one address: its addresses are those of its debug information."""
    try:
        with Path(module).open("rb") as stream:
            head = stream.read(18)
    except OSError:
        return False
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], "little") == _ET_EXEC


def _tool() -> str | None:
    return next((path for name in _TOOLS if (path := shutil.which(name))), None)


def _find_lines(frames: Iterable[_Frame]) -> Mapping[_Frame, str]:
    """Give the source line of each frame that has one, as ``FILE:LINE in FUNCTION``."""
    tool = _tool()
    by_module: dict[str, list[int]] = defaultdict(list)
    for module, address in frames:
        if not _OF_LANGUAGE.match(PurePath(module).name):
            by_module[module].append(address)
    found: dict[_Frame, str] = {}
    for module, addresses in by_module.items() if tool else ():
        words = [str(tool), "-f", "-C", "-e", module]
        asked = "".join(f"{address:#x}\n" for address in addresses)
        try:
            ended = subprocess.run(
                words,
                input=asked,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                env=inherit_environment(),
            )
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            continue
        said = ended.stdout.splitlines()
        for address, function, place in zip(addresses, said[::2], said[1::2], strict=False):
            file, _, line = place.split(" (")[0].rpartition(":")
            if file not in ("", "??") and line.isdigit() and int(line):
                found[module, address] = f"{file}:{line}" + (f" in {function}" if function != "??" else "")
    return found
