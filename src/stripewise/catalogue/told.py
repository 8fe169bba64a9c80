"""What an MPI library says of its own settings: which it has, with which defaults, and which components.

The tools interface (``MPI_T``) lists them: parameters of Open MPI's components, and MPICH's variables ``MPIR_CVAR_*``.
What a library says of itself goes before what stack files say of its versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from stripewise.catalogue.carriers import ENVIRONMENT, MCA, Carrier

_COMPONENT = re.compile(r"([a-z]+)_(\w+)_major_version")
_ROMIO = re.compile(r"romio(\d+)")
_CVAR = "MPIR_CVAR_"


@dataclass(frozen=True)
class Told:
    """The settings that a library lists.

    Attributes
    ----------
    library : str
        As it names itself, with its version.
    values : mapping
        Name, as its variable has it without ``OMPI_MCA_``, to the value that acts where nobody sets it.
    """

    library: str = ""
    values: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def components(self) -> Mapping[str, tuple[str, ...]]:
        """Frameworks of Open MPI with the names of their components, as ``io`` with ``ompio`` and ``romio341``."""
        found: dict[str, list[str]] = {}
        for name in self.values:
            if one := _COMPONENT.fullmatch(name):
                found.setdefault(one[1], []).append(one[2])
        return {framework: tuple(sorted(names)) for framework, names in found.items() if framework in self.values}

    def lists(self, carrier: Carrier, key: str) -> bool:
        """Whether the library would list a setting if it had it."""
        return bool(self.components) if carrier is MCA else carrier is ENVIRONMENT and self._has_cvars(key)

    def _has_cvars(self, key: str) -> bool:
        return key.startswith(_CVAR) and any(name.startswith(_CVAR) for name in self.values)

    def default(self, carrier: Carrier, key: str) -> str:
        """Give the value that acts where nobody sets a setting; empty where the library does not say it."""
        return self.values.get(key, "") if self.lists(carrier, key) else ""

    @property
    def romio(self) -> str:
        """The io component that is ROMIO; empty where there is none, or the library has not said."""
        return next((name for name in self.components.get("io", ()) if _ROMIO.fullmatch(name)), "")


def version_of_component(name: str) -> str:
    """Give the version of the MPICH that a component of ROMIO is from, by its name; empty for other components."""
    found = _ROMIO.fullmatch(name)
    return ".".join(found[1]) if found else ""
