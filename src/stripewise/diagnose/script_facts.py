"""What a script says about where it runs: its MPI library, its MPI-IO, its file system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stripewise.diagnose.script_launch import Launch

_VARIABLES = {"OMPI_MCA_": "openmpi", "MPICH_MPIIO_": "cray", "I_MPI_": "intel"}
"""How the variables of MPI libraries begin."""
_MODULES = (
    (re.compile(r"(?:.*[-/_])?(?:impi|intel-?mpi|intel-oneapi-mpi)(?:[-/_.].*)?|mpi/intel.*", re.I), "intel"),
    (re.compile(r"(?:.*[-/_])?(?:openmpi|ompi|spectrum-mpi|hpcx(?:-.*)?)(?:[-/_.].*)?", re.I), "openmpi"),
    (re.compile(r"(?:cray-mpich|PrgEnv-|craype|cce(?:/|$)).*", re.I), "cray"),
    (re.compile(r"(?:.*[-/_])?(?:mvapich2?|mpich2?)(?:[-/_.].*)?", re.I), "mpich"),
)
_FOLDERS = {"lustre": "lustre", "lus": "lustre", "gpfs": "gpfs", "beegfs": "beegfs"}
_LABELS = {"mpi": "MPI library", "file_system": "file system"}


@dataclass(frozen=True)
class Fact:
    """What a line of a script shows.

    Attributes
    ----------
    kind : str
        ``mpi`` or ``file_system``.
    value : str
        As the command line names it.
    what : str
        The word of the script.
    strong : bool
        Whether it is there for this alone: a module or an option, not a variable.
    always : bool
        Whether every way through the script comes by it.
    """

    kind: str
    value: str
    line: int
    what: str
    strong: bool
    always: bool


class Facts:
    """Collects facts in the order of the script."""

    def __init__(self) -> None:
        self.found: list[Fact] = []
        self.modules: list[str] = []

    def _add(self, kind: str, value: str, line: int, what: str, *, strong: bool, always: bool) -> None:
        if len(self.found) < 1000:
            self.found.append(Fact(kind, value, line, what, strong, always))

    def read_variable(self, name: str, text: str, line: int, *, always: bool) -> None:
        """Note what the name of a variable shows."""
        for begin, mpi in _VARIABLES.items():
            if name.startswith(begin):
                self._add("mpi", mpi, line, name, strong=False, always=always)
        if name == "ROMIO_FSTYPE_FORCE" and (kind := text.rstrip(":").lower()) in _FOLDERS.values():
            self._add("file_system", kind, line, f"{name}={text}", strong=True, always=always)

    def read_module(self, name: str, line: int, *, always: bool) -> None:
        """Note a module that the script loads."""
        self.modules.append(name)
        mpi = next((mpi for pattern, mpi in _MODULES if pattern.fullmatch(name)), "")
        if mpi:
            self._add("mpi", mpi, line, name, strong=True, always=always)

    def read_command(self, words: Sequence[str], launch: Launch, line: int, *, always: bool) -> None:
        """Note what the words of a command show."""
        if launch.library:
            self._add("mpi", launch.library, line, launch.shown_by, strong=True, always=always)
        if "/" in launch.launcher:
            parts = launch.launcher.lower().split("/")
            mpi = next((mpi for pattern, mpi in _MODULES[:2] if any(map(pattern.fullmatch, parts))), "")
            if mpi:
                self._add("mpi", mpi, line, launch.launcher, strong=True, always=always)
        name = PurePosixPath(words[0]).name
        if name == "lfs":
            self._add("file_system", "lustre", line, "lfs", strong=True, always=always)
        elif name == "beegfs-ctl":
            self._add("file_system", "beegfs", line, "beegfs-ctl", strong=True, always=always)

    def values(self, kind: str) -> tuple[str, ...]:
        """Give all that shows of a kind, of the strongest sort that shows."""
        strong = any(one.strong for one in self.found if one.kind == kind)
        return tuple(dict.fromkeys(one.value for one in self.found if one.kind == kind and one.strong is strong))

    def shown(self, kind: str) -> tuple[str, Fact | None, str]:
        """Say what the script shows of a kind.

        Returns
        -------
        str, Fact or None, str
            The value, empty where nothing or several things show; the fact that shows it; why it is not clear.
        """
        for strong in (True, False):
            among = [one for one in self.found if one.kind == kind and one.strong is strong]
            values = dict.fromkeys(one.value for one in among)
            if len(values) == 1:
                return among[0].value, among[0], ""
            if len(values) > 1:
                first, *others = [next(one for one in among if one.value == value) for value in values]
                told = " and ".join(f"{one.what} in line {one.line}" for one in (first, *others))
                return "", None, f"the script names more than one {_LABELS[kind]}: {told}"
        return "", None, ""
