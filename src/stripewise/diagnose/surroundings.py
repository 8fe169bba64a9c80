"""Where a script runs: what decides whether a setting in it is read at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, LAYOUT, MCA, PNETCDF, Carrier
from stripewise.catalogue.workload import Workload

MPI = {
    "mpich": "MPICH",
    "openmpi": "Open MPI with OMPIO",
    "openmpi-romio": "Open MPI with ROMIO",
    "cray": "Cray MPICH",
    "intel": "Intel MPI",
}
"""The MPI libraries that verdicts are given for, each with the name that people know."""
_ROMIO = frozenset({"mpich", "cray", "intel", "openmpi-romio"})


@dataclass(frozen=True)
class ScriptForm:
    """How a script writes a setting.

    Attributes
    ----------
    carrier : Carrier
        That the setting is of.
    readers : frozenset of str
        The libraries of :data:`MPI` that read it.
    why : str
        Why the others do not.
    """

    carrier: Carrier
    readers: frozenset[str] = frozenset(MPI)
    why: str = ""


FORMS = {
    "hint": ScriptForm(HINT),
    "cray": ScriptForm(HINT, frozenset({"cray"}), "only Cray MPICH reads MPICH_MPIIO_HINTS"),
    "romio_file": ScriptForm(HINT, _ROMIO, "only ROMIO reads a hints file"),
    "pnetcdf": ScriptForm(PNETCDF),
    "openmpi": ScriptForm(MCA, frozenset({"openmpi", "openmpi-romio"}), "only Open MPI reads MCA parameters"),
    "intel": ScriptForm(ENVIRONMENT, frozenset({"intel"}), "only Intel MPI reads I_MPI_ variables"),
    "commands": ScriptForm(LAYOUT),
    "env": ScriptForm(ENVIRONMENT),
}
"""Forms by name: ``hint`` is ``MPI_Info_set`` in program text, ``commands`` those of file systems."""


@dataclass(frozen=True)
class Surroundings:
    """Where a script runs.

    Attributes
    ----------
    mpi : str
        One of :data:`MPI`; empty for the one that the script itself uses, MPICH where none shows.
    file_system : str
        ``lustre``, ``ceph``, ``gpfs``, ``nfs``, ``ext4`` ...; empty if unknown.
    version : str
        Of the MPI library, as ``4.2.1``; empty if unknown.
    workload : Workload
        What the program does, as far as it is known.
    effects : mapping
        Parameter to what an experiment with this program has shown: ``(status, evidence)``.
    """

    mpi: str = "mpich"
    file_system: str = ""
    version: str = ""
    workload: Workload = field(default_factory=Workload)
    effects: Mapping[str, tuple[str, str]] = field(default_factory=dict)
