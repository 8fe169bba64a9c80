"""Debian's parallel HDF5, for each of its two MPIs, with the runtime and programs built for it."""

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from tests.conftest import require
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench

HDF5 = Path("/usr/lib/x86_64-linux-gnu/hdf5")
HDF5_PARTS = ("-DSTRIPEWISE_HDF5=ON",)
"""Options of CMake for the native parts of these MPIs."""


@dataclass
class Hdf5Bench(Bench):
    """As :class:`Bench`; programs are linked with the parallel HDF5 of that MPI."""

    options: ClassVar[tuple[str, ...]] = HDF5_PARTS

    def hdf5_program(self, source: str) -> Path:
        """The compiled program of tests/fixtures/programs."""
        return self.program(source, *hdf5_options(self.mpi))


def system_bench(mpi: Mpi, factory: pytest.TempPathFactory) -> Bench:
    """One of the system's MPIs, with the build that tests of its parallel HDF5 need too where that is installed."""
    return (Hdf5Bench if (HDF5 / mpi.name / "libhdf5.so").exists() else Bench)(mpi, factory)


@dataclass
class BuiltHdf5Bench(Bench):
    """As :class:`Bench`; programs are linked with an HDF5 that HDF5_ROOT names."""

    hdf5: Path = field(default=Path())

    def hdf5_program(self, source: str) -> Path:
        """The compiled program of tests/fixtures/programs."""
        libraries = self.hdf5 / "lib"
        flags = f"-I{self.hdf5 / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lhdf5"
        return self.program(source, *flags[:1], "-Wl,--no-as-needed", *flags[1:])


def built_hdf5() -> list[tuple[tuple[int, int], Path]]:
    """Versions and folders of the parallel libraries that HDF5_ROOT names, between colons.

    No package of Debian 12 or of PyPI is one with headers, so that continuous integration cannot have it either: a test
    that needs one is skipped there.
    """
    roots = [Path(root) for root in os.environ.get("HDF5_ROOT", "").split(os.pathsep) if root]
    return [(found, root) for root in roots if (found := _version(root)) is not None]


def _version(root: Path) -> tuple[int, int] | None:
    header, configured = root / "include" / "H5public.h", root / "include" / "H5pubconf.h"
    if not header.is_file() or not re.search("#define H5_HAVE_PARALLEL( 1)?$", configured.read_text(), re.M):
        return None
    words = [line.split() for line in header.read_text().splitlines() if line.startswith("#define H5_VERS_M")]
    numbers = {line[1]: int(line[2]) for line in words if len(line) > 2 and line[2].isdigit()}
    return numbers["H5_VERS_MAJOR"], numbers["H5_VERS_MINOR"]


def hdf5_options(mpi: Mpi) -> list[str]:
    """Options of its compiler for programs with the parallel HDF5 of that MPI."""
    return [f"-I/usr/include/hdf5/{mpi.name}", f"-L{HDF5 / mpi.name}", "-Wl,--no-as-needed", "-lhdf5"]


def debian_mpi(name: str) -> Mpi:
    """Debian's own MPI, which its HDF5 is linked with."""
    compiler, launcher = Path(f"/usr/bin/mpicc.{name}"), f"/usr/bin/mpiexec.{name}"
    installed = compiler.exists() and (HDF5 / name / "libhdf5.so").exists()
    require(installed, f"no parallel HDF5: apt install libhdf5-{name}-dev")
    options = []
    if name == "openmpi":
        options = ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    return Mpi(name, compiler, (launcher, *options))


def contents(path: Path) -> str:
    """Objects and values of a file, without where and how they are stored."""
    require(Path("/usr/bin/h5dump").exists(), "no h5dump: apt install hdf5-tools")
    done = subprocess.run(["h5dump", str(path)], capture_output=True, text=True, check=True)
    return re.sub(r'HDF5 ".*" ', "", done.stdout, count=1)


def differences(one: Path, other: Path, *options: str) -> str:
    """What h5diff finds; empty if the files hold the same objects and values."""
    require(Path("/usr/bin/h5diff").exists(), "no h5diff: apt install hdf5-tools")
    done = subprocess.run(["h5diff", *options, str(one), str(other)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr or "they differ"
