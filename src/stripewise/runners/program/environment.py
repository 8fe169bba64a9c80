"""Where runs take place: what a result is valid for, and what must not change between its runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.catalogue.filesystems.mounts import mount_type


def modules(environment: Mapping[str, str]) -> list[str]:
    """Give the environment modules that are loaded (Lmod and Environment Modules list them in the same variable)."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


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
        "file_system": mount_type(folder),
        "modules": modules(environment),
    }
