"""What this machine has for tuning, and what is missing and how to get it.

Where runs take place: what a result is valid for, and what must not change between its runs.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stripewise.catalogue.filesystems import of_file
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.errors import StripewiseError, pip_install
from stripewise.interpreter import ask
from stripewise.requests.policy import Policy, load_policy
from stripewise.requests.site_file import PATH, VARIABLE
from stripewise.runners.native.build import RUNTIME, find_built
from stripewise.runners.native.compiler import Compiler, find_compiler
from stripewise.runners.program.mpi import describe, library_of_launcher, list_drivers


def modules(environment: Mapping[str, str]) -> list[str]:
    """Give the environment modules that are loaded (Lmod and Environment Modules list them in the same variable)."""
    return [name for name in environment.get("LOADEDMODULES", "").split(":") if name]


def cpus() -> int:
    """Give the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def record(environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Describe this machine as far as runs depend on it.

    Parameters
    ----------
    environment : mapping
        The program's, after the setup lines.
    folder : Path
        The program's working folder.
    """
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": cpus(),
        "file_system": mount_type(folder),
        "modules": modules(environment),
    }


_SECONDS = 10.0

Status = Literal["ok", "missing", "note"]


@dataclass(frozen=True)
class Check:
    """One part of the machine.

    Attributes
    ----------
    part : str
    status : str
        ``ok``, ``missing`` (needed for tuning) or ``note`` (useful where it is wanted).
    found : str
        What was found, or what is missing.
    fix : str
        How to get it; empty where nothing is missing.
    """

    part: str
    status: Status
    found: str
    fix: str = ""


def checkup(path: Path, environment: Mapping[str, str]) -> list[Check]:
    """Look at everything that tuning uses.

    Parameters
    ----------
    path : Path
        A file or folder whose file system and layout are of interest.
    environment : mapping
    """
    return [
        Check("machine", "ok", f"{platform.node()}, {cpus()} cores, Linux {platform.release()} {platform.machine()}"),
        Check("python", "ok", f"{platform.python_version()} ({sys.executable})"),
        *_tools(environment),
        *_mpi(environment),
        _native(),
        *_storage(path, environment),
        *_site(environment),
        *_schedulers(environment),
        _darshan(environment),
        _postgresql(),
    ]


def _site(environment: Mapping[str, str]) -> list[Check]:
    """Say what the file of the computing centre allows and knows; nothing where there is none."""
    policy = load_policy(environment)
    if policy == Policy():
        return []
    known = [f"forbids {' '.join(one.condition.split())} ({one.basis}: {one.reason})" for one in policy.forbidden]
    known += [f"starts with {one.settings} ({one.basis}: {one.reason})" for one in policy.start]
    where = PATH if PATH.exists() else environment.get(VARIABLE, "")
    return [Check("site file", "ok", "; ".join([str(where), *known]))]


def _tools(environment: Mapping[str, str]) -> list[Check]:
    found = []
    for name, why in (
        ("gcc", "the runtime is built once for each MPI"),
        ("cmake", "it configures the build"),
        ("make", ""),
    ):
        where = shutil.which(name, path=environment.get("PATH"))
        if where is None and name == "gcc":
            where = shutil.which("cc", path=environment.get("PATH"))
        fix = f"install {name} with the system's packages or load its module" + (f": {why}" if why else "")
        found.append(Check(name, "ok", where) if where else Check(name, "missing", "not in PATH", fix))
    return found


def _mpi(environment: Mapping[str, str]) -> list[Check]:
    """Look at the MPI whose launcher is in PATH, as the user's commands do; else at the one of a compiler wrapper."""
    launcher = _launcher_in_path(environment)
    library = library_of_launcher(launcher) if launcher else None
    mpi = describe(library, environment) if library else None
    compiler: Compiler | None = None
    try:
        compiler = find_compiler(mpi, launcher, environment)
        found = [Check("mpi compiler", "ok", f"{compiler.path}: {compiler.abi} interface, MPI {compiler.standard}")]
    except StripewiseError as error:
        fix = f"load your MPI's module, or get one {pip_install('mpich')}"
        found = [Check("mpi compiler" if mpi else "mpi", "missing", error.what, fix)]
    if launcher is None and compiler is not None and (beside := compiler.path.parent / "mpiexec").is_file():
        launcher, library = beside, library_of_launcher(beside)
        mpi = describe(library, environment) if library else None
    if launcher is None:
        if compiler is not None:
            what = "no mpiexec beside the compiler or in PATH"
            found.append(Check("mpi launcher", "missing", what, "load the MPI's module"))
        return found
    found.append(Check("mpi launcher", "ok", str(launcher)))
    if mpi is None:
        found.append(Check("mpi library", "note", "not found beside the launcher", "tune finds it from your program"))
        return found
    found.append(Check("mpi library", "ok", f"{mpi.version or mpi.abi} ({mpi.path})"))
    drivers = list_drivers(mpi.path)
    implementation = {"romio": "ROMIO", "ompio": "OMPIO"}.get(mpi.io or "", "unknown")
    listed = f", drivers {', '.join(drivers)}" if drivers else ""
    if mpi.told.components:
        listed += f"; {mpi.told.romio or 'no ROMIO'} besides" if mpi.io == "ompio" else ""
    found.append(Check("mpi-io", "ok", f"{implementation}{listed}"))
    return found


def _launcher_in_path(environment: Mapping[str, str]) -> Path | None:
    for name in ("mpiexec", "mpirun", "srun"):
        if where := shutil.which(name, path=environment.get("PATH")):
            return Path(where)
    return None


def _native() -> Check:
    built = [path for abi in ("mpich", "openmpi", "standard") if (path := find_built(RUNTIME, abi))]
    if not built:
        return Check(
            "runtime", "note", "not built yet", "tune builds it on first use; or: stripewise site native build"
        )
    return Check("runtime", "ok", f"built: {', '.join(str(path) for path in built)}")


def _storage(path: Path, environment: Mapping[str, str]) -> list[Check]:
    kind = mount_type(path)
    found = [Check("file system", "ok", f"{path.absolute()}: {kind or 'unknown'}")]
    system = of_file(kind)
    layout = system.look(path, shutil.which(system.tool, path=environment.get("PATH")), _ask)
    return [*found, Check("layout", layout.status, layout.text, layout.fix)] if layout is not None else found


def _schedulers(environment: Mapping[str, str]) -> list[Check]:
    from stripewise.runners.schedulers.registry import list_installed  # noqa: PLC0415  of all that look, doctor alone asks

    found = []
    for scheduler in list_installed(environment.get("PATH")):
        said = next((line.strip() for line in _ask(list(scheduler.overview)).splitlines() if line.strip()), "")
        state = said or "its daemon does not answer"
        found.append(Check(scheduler.name, "ok" if said else "note", f"{scheduler.title}: {state}"))
    if found:
        return found
    return [Check("scheduler", "note", "not on this machine", "only needed to launch runs on a cluster")]


def _darshan(environment: Mapping[str, str]) -> Check:
    reader = importlib.util.find_spec("darshan") is not None
    config = shutil.which("darshan-config", path=environment.get("PATH"))
    library = find_library("darshan") or (config and "by darshan-config")
    if library:
        return Check("darshan", "ok", f"libdarshan {library}" + ("; logs can be read" if reader else ""))
    return Check(
        "darshan",
        "note",
        "no libdarshan" + ("; logs can be read" if reader else ""),
        "only needed for darshan_bandwidth",
    )


def _postgresql() -> Check:
    if importlib.util.find_spec("psycopg") is not None:
        return Check("postgresql", "ok", "psycopg is installed")
    return Check("postgresql", "note", "no psycopg", f"only for a shared store; {pip_install('postgresql')}")


def _ask(command: list[str]) -> str:
    try:
        done = ask(command, _SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
