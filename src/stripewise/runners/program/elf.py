"""ELF files: what a program is, and which libraries it will load by the rules of ld.so(8), without running it.

Layouts are those of the System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import errno
import functools
import mmap
import os
import platform
import stat
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
_MACHINES = {3: "i386", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MAX_ENTRIES = 1 << 16
_MAX_TEXT = 1 << 16
_MAX_NAMES = 1 << 24


class NotElf(ValueError):  # noqa: N818
    """The file is not an ELF file, or a broken one."""


@dataclass(frozen=True)
class Elf:
    """What an ELF file says of itself.

    Attributes
    ----------
    machine : str
        As ``uname -m`` names it.
    bits : int
        32 or 64.
    interpreter : str
        The dynamic loader that it asks for; empty for libraries and static programs.
    dynamic : bool
        Whether it has a dynamic section.
    needed : tuple of str
        Libraries that it asks for.
    rpath, runpath : tuple of str
        Folders to search, as written.
    names : bytes
        The names of its dynamic section, each between two zero bytes: libraries, and functions that it has or needs.
    """

    machine: str
    bits: int
    interpreter: str = ""
    dynamic: bool = False
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    names: bytes = b""

    @property
    def static(self) -> bool:
        """Whether, as a program, it starts without the dynamic loader, so that nothing can be preloaded."""
        return not self.interpreter

    @property
    def native(self) -> bool:
        """Whether this machine runs it."""
        host = platform.machine()
        return self.machine == host or (host == "x86_64" and self.machine == "i386")


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file; a pipe or a device could be waited for for ever.

    Raises
    ------
    OSError
        If it cannot be opened, or is something else.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        yield file


def read_elf(path: Path) -> Elf:
    """Read an ELF file.

    Raises
    ------
    NotElf
        If it is not an ELF file, or is cut off.
    OSError
        If it cannot be read.
    """
    with open_regular(path) as file:
        if file.read(4) != _MAGIC:
            raise NotElf(f"{path} is not an ELF file")
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _parse(data)
        except (struct.error, IndexError, ValueError, KeyError, OverflowError) as error:
            raise NotElf(f"{path} is a broken ELF file: {error}") from error


def contains(path: Path, text: bytes, most: int | None = None) -> bool:
    """Say whether a file, or its first ``most`` bytes (last if negative), holds some; False if it cannot be read."""
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            start = max(0, len(data) + most) if most is not None and most < 0 else 0
            return data.find(text, start, len(data) if start or most is None else abs(most)) >= 0
    except (OSError, ValueError):
        return False


def _parse(data: mmap.mmap) -> Elf:
    bits = {1: 32, 2: 64}[data[4]]
    order = {1: "<", 2: ">"}[data[5]]
    wide = bits == 64
    machine = struct.unpack_from(order + "H", data, 18)[0]
    name = _MACHINES.get(machine, f"machine {machine}")
    if machine == 21 and order == ">":
        name = "ppc64"
    table, size, count = (
        (*struct.unpack_from(order + "Q", data, 32), *struct.unpack_from(order + "HH", data, 54))
        if wide
        else (*struct.unpack_from(order + "I", data, 28), *struct.unpack_from(order + "HH", data, 42))
    )
    loads: list[tuple[int, int, int]] = []
    dynamic: tuple[int, int] | None = None
    interpreter = ""
    for index in range(count):
        at = table + index * size
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", data, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(order + "IIIII", data, at)
        if kind == _PT_LOAD:
            loads.append((address, offset, length))
        elif kind == _PT_DYNAMIC:
            dynamic = (offset, length)
        elif kind == _PT_INTERP:
            interpreter = data[offset : offset + length].split(b"\0")[0].decode("utf-8", "replace")
    if dynamic is None:
        return Elf(name, bits, interpreter)
    entries = _entries(data, order, wide, *dynamic)
    strings = next((_offset(loads, value) for tag, value in entries if tag == _DT_STRTAB), None)

    def text(value: int) -> str:
        if strings is None:
            return ""
        begin = strings + value
        return data[begin : data.find(b"\0", begin, begin + _MAX_TEXT)].decode("utf-8", "replace")

    def texts(wanted: int) -> tuple[str, ...]:
        return tuple(text(value) for tag, value in entries if tag == wanted)

    length = next((value for tag, value in entries if tag == _DT_STRSZ), 0)

    def folders(wanted: int) -> tuple[str, ...]:
        return tuple(folder for path in texts(wanted) for folder in path.split(":") if folder)

    return Elf(
        name,
        bits,
        interpreter,
        dynamic=True,
        needed=texts(_DT_NEEDED),
        rpath=folders(_DT_RPATH),
        runpath=folders(_DT_RUNPATH),
        names=b"" if strings is None else data[strings : strings + min(length, _MAX_NAMES)],
    )


def _entries(data: mmap.mmap, order: str, wide: bool, offset: int, length: int) -> list[tuple[int, int]]:
    step = 16 if wide else 8
    entries: list[tuple[int, int]] = []
    for index in range(min(length // step, _MAX_ENTRIES)):
        tag, value = struct.unpack_from(order + ("qQ" if wide else "iI"), data, offset + index * step)
        if tag == 0:
            break
        entries.append((tag, value))
    return entries


def _offset(loads: list[tuple[int, int, int]], address: int) -> int:
    for start, offset, length in loads:
        if start <= address < start + length:
            return address - start + offset
    raise ValueError(f"address {address:#x} is in no segment")


_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_MAX_LIBRARIES = 2000
_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_HEAD, _CACHE_ENTRY = 48, 24
"""Sizes of ``struct cache_file_new`` and ``struct file_entry_new`` of glibc's ``dl-cache.h``."""


def read_loader_cache(data: bytes) -> dict[str, tuple[str, ...]]:
    """Read the cache of the dynamic loader, as ``ldconfig -p`` lists it: paths of libraries by name.

    Older versions of glibc write their own format first; the one that is read here follows it. What is not such a
    cache, or is cut off, lists nothing.
    """
    start = data.find(_CACHE_MAGIC)
    found: dict[str, tuple[str, ...]] = {}
    if start < 0:
        return found

    def text(offset: int) -> str:
        begin = start + offset
        return data[begin : data.index(b"\0", begin)].decode("utf-8", "surrogateescape")

    try:
        (count,) = struct.unpack_from("=I", data, start + len(_CACHE_MAGIC))
        for number in range(count):
            name, path = struct.unpack_from("=4xII", data, start + _CACHE_HEAD + number * _CACHE_ENTRY)
            found[text(name)] = (*found.get(text(name), ()), text(path))
    except (struct.error, ValueError):
        return {}
    return found


@functools.lru_cache(maxsize=1)
def _loader_cache() -> Mapping[str, tuple[str, ...]]:
    """Libraries that the loader knows of, by name."""
    try:
        return read_loader_cache(_CACHE.read_bytes())
    except OSError:
        return {}


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
