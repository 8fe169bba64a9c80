"""File systems: one module each. All other code asks `of_file` or `named` instead of comparing names."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules
from typing import Any

from stripewise.catalogue.filesystems.base import FileSystem, Generic, Key, LayoutFound

__all__ = [
    "CRAYS",
    "FILE_SYSTEMS",
    "GENERIC",
    "OMPIO",
    "USUAL",
    "FileSystem",
    "Key",
    "LayoutFound",
    "has_driver",
    "key_of",
    "named",
    "network_label",
    "of_darshan",
    "of_file",
    "of_role",
    "type_names",
]


def _list_file_systems() -> tuple[FileSystem, ...]:
    found: dict[str, FileSystem] = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for _, kind in getmembers(import_module(module.name), isclass):
            if issubclass(kind, FileSystem) and kind.name and kind.__module__ == module.name:
                found[kind.name] = kind()
    return tuple(found[name] for name in sorted(found) if name != Generic.name)


GENERIC = Generic()
FILE_SYSTEMS = _list_file_systems()
"""All but :data:`GENERIC`; those with keys have a layout to choose."""

USUAL = next(system for system in FILE_SYSTEMS if system.name == "lustre")
"""The file system meant by tables and rules of thumb that speak of stripes without naming one."""

OMPIO = "OMPIO"
"""The driver that reports name for files of Open MPI's own MPI-IO."""

CRAYS = "CRAY ADIO"
"""The driver that Cray MPICH names for files of every file system."""


def find_file_system(name: str) -> FileSystem:
    """Return the file system that a plan names, or :data:`GENERIC` if none has this name."""
    return next((system for system in FILE_SYSTEMS if system.name == name), GENERIC)


def has_driver(driver: str | None, names: str | tuple[str, ...]) -> bool:
    """Whether a file was opened by one of some drivers, which begin so; not where it is unknown."""
    return (driver or "").upper().startswith(names)


def of_file(kind: str | None, driver: str | None = None) -> FileSystem:
    """The file system of a file, by the type of its mount and the driver that opened it.

    Returns
    -------
    FileSystem
        :data:`GENERIC` if it is unknown, or its files have no layout.
    """
    mount = (kind or "").removeprefix("fuse.")
    for system in FILE_SYSTEMS:
        if has_driver(driver, system.drivers) or mount.startswith(system.types):
            return system
    return GENERIC


def of_darshan(module: str) -> FileSystem:
    """Return the file system whose layouts a module of Darshan's logs records, or :data:`GENERIC`."""
    return next((system for system in FILE_SYSTEMS if system.darshan_module == module), GENERIC)


def network_label(magic: int) -> str:
    """Return the name of the network file system that statfs(2) gives this type for; empty for a local one."""
    own = {system.magic: system.label for system in FILE_SYSTEMS if system.magic}
    return own.get(magic) or Generic.network.get(magic, "")


def key_of(name: str) -> Key | None:
    """Return the key of a layout that an MPI-IO hint or a parameter of Open MPI sets, or None."""
    return next((key for system in FILE_SYSTEMS if (key := system.key(name)) is not None), None)


def of_role(layout: Mapping[str, Any], role: str) -> Any:
    """Return the value of a role in the layout of a report, or None if it has none."""
    keys = (key.name for system in FILE_SYSTEMS for key in system.keys if key.role == role)
    return next((layout[key] for key in keys if key in layout), None)


def type_names() -> tuple[str, ...]:
    """List the types of mounts that people can choose from."""
    return (*(system.types[0] for system in FILE_SYSTEMS), *Generic.others)
