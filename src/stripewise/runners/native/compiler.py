"""Finding the compiler wrapper that belongs to a program's MPI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import ask
from stripewise.runners.program.mpi import Mpi, describe, library_of_launcher

_SECONDS = 60.0
_MACRO = re.compile(r"^#define (\w+) (.*)$", re.MULTILINE)
PLAIN = "plain"
"""Stands for the interface of an MPI where none is used."""
_ABI_NAMES = {"mpich": "MPICH", "openmpi": "Open MPI", "standard": "the MPI 5 standard ABI", "other": "another MPI"}


@dataclass(frozen=True)
class Compiler:
    """A compiler wrapper and the MPI that it builds for.

    Attributes
    ----------
    path : Path
    abi : str
        As in :class:`~stripewise.runners.program.mpi.Mpi`.
    standard : str
        Version of the MPI standard that its header follows, as ``4.1``.
    identity : str
        The compiler behind it, in one line.
    """

    path: Path
    abi: str
    standard: str
    identity: str


def ask_compiler(named: Path, environment: Mapping[str, str]) -> Compiler:
    """Find out what a compiler wrapper builds for.

    Parameters
    ----------
    named : Path
        A path, or a name to be searched.
    environment : mapping
        In which it works.

    Raises
    ------
    UserError
        If there is none, it cannot compile a file that includes ``mpi.h``, or it is not a compiler at all.
    """
    found = shutil.which(named, path=environment.get("PATH", os.defpath))
    if found is None:
        raise UserError(f"no compiler {named}", "give the path of an MPI compiler wrapper, as .../bin/mpicc")
    # Links are not followed: wrappers know by the name they are called what to do.
    path = Path(found).absolute()
    answer = _run([str(path), "-dM", "-E", "-x", "c", "-include", "mpi.h", os.devnull], environment)
    if answer.returncode != 0:
        lines = [line for line in answer.stderr.splitlines() if line.strip()]
        raise UserError(
            f"{path} cannot compile an MPI program: {lines[0] if lines else f'exit code {answer.returncode}'}",
            "name a working one with --mpicc, or install a C compiler (gcc)",
        )
    macros = dict(_MACRO.findall(answer.stdout))
    if "MPI_VERSION" not in macros:
        # Every mpi.h says which MPI it declares; a program that takes any options and ends well does not.
        raise UserError(
            f"{path} is not an MPI compiler: it shows nothing of mpi.h when it is asked to preprocess it",
            "give the path of an MPI compiler wrapper, as .../bin/mpicc",
        )
    if "OMPI_MAJOR_VERSION" in macros:
        abi = "openmpi"
    elif {"MPICH_VERSION", "MPICH_NUMVERSION", "I_MPI_VERSION", "MVAPICH2_VERSION"} & macros.keys():
        abi = "mpich"
    else:
        abi = "standard" if "MPI_ABI_VERSION" in macros else "other"
    standard = f"{macros['MPI_VERSION']}.{macros.get('MPI_SUBVERSION', '?')}"
    version = _run([str(path), "--version"], environment).stdout.splitlines()
    return Compiler(path, abi, standard, version[0].strip() if version else "unknown")


def find_compiler(mpi: Mpi | None, launcher: Path | None, environment: Mapping[str, str]) -> Compiler:
    """Find a compiler wrapper for a program's MPI.

    Tried in turn: the one installed with the MPI library, with the launcher, the one that is loaded (``PATH``; Cray's
    ``cc``), and the one of an MPI package in the running Python's environment.

    Parameters
    ----------
    mpi : Mpi or None
        None takes that of the running Python's environment, else the first that works.
    launcher : Path or None
    environment : mapping
        The program's.

    Raises
    ------
    UserError
        If there is none for this MPI.
    """
    rejected: list[str] = []
    for path in dict.fromkeys(_candidates(mpi, launcher, environment)):
        if not (path.is_file() and os.access(path, os.X_OK)):
            continue
        try:
            compiler = ask_compiler(path, environment)
        except StripewiseError as error:
            rejected.append(error.what)
            continue
        if mpi is None or compiler.abi == mpi.abi:
            return compiler
        rejected.append(f"{path} builds for {_ABI_NAMES[compiler.abi]}")
    wanted = f"{mpi.version or _ABI_NAMES[mpi.abi]} ({mpi.path})" if mpi else "any MPI"
    reason = f": {'; '.join(rejected[:3])}" if rejected else ""
    raise UserError(
        f"no compiler wrapper found for {wanted}{reason}",
        "load the module that has its mpicc, or run stripewise site native build --mpicc PATH where there is one",
    )


def compiler_of_launcher(launcher: str | None, environment: Mapping[str, str]) -> Compiler:
    """Find a compiler wrapper for what a launcher starts; without one, as :func:`find_compiler` does.

    Raises
    ------
    UserError
        If there is none.
    """
    named = shutil.which(launcher, path=environment.get("PATH")) if launcher else None
    # Debian's mpiexec.mpich stands beside an mpicc of whichever MPI was chosen as the system's.
    library = library_of_launcher(Path(named)) if named else None
    mpi = describe(library, environment) if library is not None else None
    beside = Path(named).parent / "mpicc" if named else None
    if mpi is None and beside is not None and beside.is_file():
        return ask_compiler(beside, environment)
    return find_compiler(mpi, Path(named) if named else None, environment)


def find_plain_compiler(environment: Mapping[str, str]) -> Compiler:
    """Find a C compiler for what needs no MPI.

    Raises
    ------
    UserError
        If there is none.
    """
    found = next(
        (path for name in ("cc", "gcc", "clang") if (path := shutil.which(name, path=environment.get("PATH")))), ""
    )
    if not found:
        raise UserError("no C compiler was found", "install gcc, or load the module of a compiler")
    version = _run([found, "--version"], environment).stdout.splitlines()
    return Compiler(Path(found).absolute(), PLAIN, "", version[0].strip() if version else "unknown")


def _candidates(mpi: Mpi | None, launcher: Path | None, environment: Mapping[str, str]) -> Iterator[Path]:
    abi = mpi.abi if mpi else ""
    names = {"mpich": ["mpicc.mpich", "mpicc", "mpiicc", "mpiicx"], "openmpi": ["mpicc.openmpi", "mpicc"]}.get(
        abi, ["mpicc_abi", "mpicc"] if abi == "standard" else ["mpicc"]
    )
    folders: list[Path] = []
    if mpi is not None:
        folders += [parent / "bin" for parent in list(mpi.path.parents)[:5] if parent != parent.parent]
    if launcher is not None:
        folders += [launcher.parent, launcher.resolve().parent]
    yield from (folder / name for folder in folders for name in names)
    if "CRAYPE_VERSION" in environment or "PE_ENV" in environment:
        names = ["cc", *names]
    loaded = [Path(found) for name in names if (found := shutil.which(name, path=environment.get("PATH", "")))]
    wheel = [Path(sys.prefix) / "bin" / name for name in names if name != "cc"]
    # An MPI that was installed with Stripewise was meant for it; but a program's own MPI counts more.
    yield from [*loaded, *wheel] if mpi is not None else [*wheel, *loaded]


def _run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        # An mpi.h of the working folder would be taken for the compiler's.
        return ask(command, _SECONDS, environment, Path("/"))
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}", "check that it is a program") from error
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{command[0]} did not answer within {_SECONDS:g} s", "try it by hand") from error
