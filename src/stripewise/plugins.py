"""Classes by name: those that come with Stripewise, and those that other packages bring through entry points."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from stripewise.errors import UserError, choose


@dataclass(frozen=True)
class Plugins:
    """The implementations of one replaceable part."""

    noun: str
    """What one is, for messages: ``model``, ``sampler``."""
    group: str
    """The group of entry points in which other packages register theirs."""
    base: type
    """What each must derive from."""
    built_in: Mapping[str, str]
    """Name to ``module:class``, imported only when it is asked for."""

    def names(self) -> list[str]:
        """List all names: the built-in ones, then those of other packages."""
        return [*self.built_in, *sorted(self._foreign().keys() - self.built_in.keys())]

    def load(self, name: str, choices: Sequence[str] = ()) -> Any:
        """Import the class behind a name; ``choices`` are offered for an unknown one, by default all names.

        Raises
        ------
        UserError
            Unknown name, or a class of another package that cannot be loaded.
        """
        if name in self.built_in:
            return import_place(self.built_in[name])
        entry = self._foreign().get(name)
        if entry is None:
            raise UserError(f"unknown {self.noun} '{name}'", choose(name, choices or self.names()))
        found = _load_entry(self.noun, entry)
        if not (isinstance(found, type) and issubclass(found, self.base)):
            wanted = f"{self.base.__module__}.{self.base.__qualname__}"
            raise UserError(f"{self.noun} '{name}' ({entry.value}) is not a {wanted}")
        return found

    def _foreign(self) -> dict[str, EntryPoint]:
        return _list_installed(entry_points, self.group)


@functools.cache
def _list_installed(find: Callable[..., EntryPoints], group: str) -> dict[str, EntryPoint]:
    # Reading what is installed takes milliseconds, and every run asks.
    return {entry.name: entry for entry in find(group=group)}


def _load_entry(noun: str, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # whatever a foreign package raises while it is imported
        what = f"{noun} '{entry.name}' ({entry.value}) cannot be loaded: {error}"
        raise UserError(what, "fix or uninstall the package") from error


def import_all(noun: str, group: str) -> None:
    """Import every module that other packages register under a group: they register what they bring by themselves.

    Raises
    ------
    UserError
        If one cannot be loaded.
    """
    for entry in _list_installed(entry_points, group).values():
        _load_entry(noun, entry)


def import_place(place: str) -> Any:
    """Import what ``module:name`` says."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
