"""Carriers: the ways in which a setting reaches a program. Everything else asks the carrier."""

from __future__ import annotations

from collections.abc import Iterable

from stripewise.catalogue.carriers.base import (
    INTERPRETER,
    LOST,
    OBSERVER,
    OVER_MPI_IO,
    RUNTIME,
    Carried,
    Carrier,
    Expressed,
    Form,
    LaunchSettings,
    Program,
    Setting,
    carrier_named,
    own_files,
    with_files,
)
from stripewise.catalogue.carriers.environment import ARGUMENT, ENVIRONMENT, MCA, PYTHON
from stripewise.catalogue.carriers.file import ADIOS2, FILE, named_in
from stripewise.catalogue.carriers.hint import HINT, HINTS_FILE, HINTS_LIMIT, PNETCDF, hint_lines
from stripewise.catalogue.carriers.runtime import HDF5, LAYOUT, POSIX

__all__ = [
    "ADIOS2",
    "ARGUMENT",
    "ENVIRONMENT",
    "FILE",
    "HDF5",
    "HINT",
    "HINTS_FILE",
    "HINTS_LIMIT",
    "INTERPRETER",
    "LAYOUT",
    "LOST",
    "MCA",
    "OBSERVER",
    "OVER_MPI_IO",
    "PNETCDF",
    "POSIX",
    "PYTHON",
    "RUNTIME",
    "Carried",
    "Carrier",
    "Expressed",
    "Form",
    "LaunchSettings",
    "Program",
    "Setting",
    "carrier_named",
    "hint_lines",
    "named_in",
    "need_observer",
    "objects_of",
    "own_files",
    "read_setting",
    "verbs",
    "with_files",
]


def need_observer(carriers: Iterable[Carrier]) -> bool:
    """Whether the accelerator is preloaded for settings of these carriers, beside the runtime where that is there.

    A search and a run of what it found ask the same, so that both act on the same files.
    """
    return any(carrier.on_calls for carrier in carriers)


def objects_of(keys: Iterable[tuple[Carrier, str]]) -> tuple[str, ...]:
    """Give the objects of Python that arguments belong to; where there are any, a module is put into its Python."""
    return tuple(dict.fromkeys(key.rpartition(".")[0] for carrier, key in keys if carrier.of_objects))


def verbs() -> dict[str, int]:
    """Give the first words of a plan's settings, each with how many words follow.

    They are ``[carriers]`` of ``native/include/formats.toml``.
    """
    return {carrier.verb: 3 if carrier.of_file_system else 2 for carrier in Carrier.known.values()}


def read_setting(verb: str, words: list[str]) -> Setting:
    """Make a setting of a plan's line.

    Parameters
    ----------
    verb : str
        One of :func:`verbs`.
    words : list of str
        As many as the verb wants.
    """
    *layer, key, value = words
    carrier = next(c for c in Carrier.known.values() if c.verb == verb)
    return Setting(carrier, key, value, *layer)
