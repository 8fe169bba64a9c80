"""File systems: one module each. Everything else asks `of_file` or `named`, and branches on no name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules
from typing import Any

from stripewise.filesystems.base import FileSystem, Key, LayoutFound
from stripewise.filesystems.generic import Generic

__all__ = [
    "FILE_SYSTEMS",
    "GENERIC",
    "USUAL",
    "FileSystem",
    "Key",
    "LayoutFound",
    "key_of",
    "named",
    "of_file",
    "of_role",
    "type_names",
]


def _all() -> tuple[FileSystem, ...]:
    found: dict[str, FileSystem] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for _, kind in getmembers(import_module(module.name), isclass):
            if issubclass(kind, FileSystem) and kind.name and kind.__module__ == module.name:
                found[kind.name] = kind()
    return tuple(found[name] for name in sorted(found) if name != Generic.name)


GENERIC = Generic()
FILE_SYSTEMS = _all()
"""Those whose files have a layout to choose."""

USUAL = next(system for system in FILE_SYSTEMS if system.name == "lustre")
"""What a table or a rule of thumb means that speaks of stripes and names no file system."""


def named(name: str) -> FileSystem:
    """The file system that a plan names; :data:`GENERIC` if there is none of this name."""
    return next((system for system in FILE_SYSTEMS if system.name == name), GENERIC)


def of_file(kind: str | None, driver: str | None = None) -> FileSystem:
    """The file system of a file, by the type of its mount and the driver that opened it.

    Returns
    -------
    FileSystem
        :data:`GENERIC` if it is unknown, or its files have no layout.
    """
    for system in FILE_SYSTEMS:
        if system.is_driver(driver or "") or system.is_type(kind or ""):
            return system
    return GENERIC


def key_of(name: str) -> Key | None:
    """The key of a layout that an MPI-IO hint or a parameter of Open MPI sets; None if there is none."""
    return next((key for system in FILE_SYSTEMS if (key := system.key(name)) is not None), None)


def of_role(layout: Mapping[str, Any], role: str) -> Any:
    """The value of a role in a layout as reports have it; None if it has none."""
    keys = (key.name for system in FILE_SYSTEMS for key in system.keys if key.role == role)
    return next((layout[key] for key in keys if key in layout), None)


def type_names() -> tuple[str, ...]:
    """Types of mounts, for people to choose from."""
    return (*(system.types[0] for system in FILE_SYSTEMS), *Generic.others)
