"""The runtime library for a program's MPI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stripewise.errors import UserError
from stripewise.runner.native.build import RUNTIME, build, find_built
from stripewise.runner.native.compiler import find_compiler
from stripewise.runner.program.mpi import Mpi


def runtime_for(mpi: Mpi, launcher: Path | None, environment: Mapping[str, str]) -> Path:
    """Give the runtime for an MPI, built if it is not in the cache.

    Parameters
    ----------
    mpi : Mpi
    launcher : Path or None
        The program's launcher: a compiler may be installed with it.
    environment : mapping
        The program's.

    Raises
    ------
    UserError
        If there is no compiler for this MPI and nobody has built the library elsewhere.
    StripewiseError
        If the build fails.
    """
    try:
        compiler = find_compiler(mpi, launcher, environment)
    except UserError:
        # Compute nodes have no compiler: what a login node built with the same sources serves here as well.
        found = find_built(RUNTIME, mpi.abi)
        if found is None:
            raise
        return found
    return build(RUNTIME, compiler, environment).path
