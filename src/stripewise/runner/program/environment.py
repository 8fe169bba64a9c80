"""Where runs take place: what a result is valid for, and what must not change between its runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\"}


def modules(environment: Mapping[str, str]) -> list[str]:
    """Give the environment modules that are loaded (Lmod and Environment Modules list them in the same variable)."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


def file_system(path: Path) -> str:
    """Give the type of the file system that a path is on, as ``ext4``, ``lustre``; empty if unknown.

    The path itself need not exist.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    wanted = path.resolve()
    best, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        mount = fields[4]
        for escape, character in _ESCAPES.items():
            mount = mount.replace(escape, character)
        # Of two mounts on one point the later one covers the earlier.
        if wanted.is_relative_to(mount) and len(mount) >= best:
            best, kind = len(mount), right.split()[0]
    return kind


def cpus() -> int:
    """Give the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def record(environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Describe this machine as far as runs depend on it.

    Parameters
    ----------
    environment : mapping
        The program's, after the setup lines.
    folder : Path
        The program's working folder.
    """
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": cpus(),
        "file_system": file_system(folder),
        "modules": modules(environment),
    }
