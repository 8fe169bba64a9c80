"""Building the native parts for a program's MPI, once, and keeping them for all later experiments."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import stripewise
from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import PROBING, Probing, inherit_environment
from stripewise.ownership import check_above, check_own, make_folder, take_from_others
from stripewise.runners.native.compiler import PLAIN, Compiler, find_compiler, find_plain_compiler
from stripewise.runners.program.kept import cache_folder
from stripewise.runners.program.mpi import Mpi

_log = logging.getLogger(__name__)
_SECONDS = 900.0
_SHOWN_LINES = 12


@dataclass(frozen=True)
class BuildTarget:
    """One thing to build.

    Attributes
    ----------
    name : str
    parts : tuple of str
        Source folders whose change makes another build.
    file : str
        The result, within the build folder.
    component : str
        Of :data:`_COMPONENTS`, the only one that is switched on.
    hdf5 : bool
        Whether a program is linked with a parallel HDF5 of its MPI, which only those need who measure or replay HDF5.
    """

    name: str
    parts: tuple[str, ...]
    file: str
    component: str
    hdf5: bool = False

    @property
    def shared(self) -> bool:
        """Whether one build serves all MPI libraries of one binary interface.

        The libraries look symbols up as they run; a program is linked to one MPI library.
        """
        return self.component != "KERNEL"

    @property
    def options(self) -> tuple[str, ...]:
        """Options of CMake."""
        switches = dict.fromkeys(_COMPONENTS, False) | ({} if self.shared else {"HDF5": self.hdf5})
        del switches[self.component]
        return tuple(f"-DSTRIPEWISE_{name}={'ON' if on else 'OFF'}" for name, on in switches.items())

    @property
    def variables(self) -> tuple[str, ...]:
        """Environment variables that say where libraries are: other values make another build."""
        return ("HDF5_ROOT", "HDF5_DIR", "HDF5_HOME", "CPATH", "LIBRARY_PATH") if self.hdf5 else ()


_COMPONENTS = ("RUNTIME", "OBSERVER", "ACCELERATOR", "KERNEL")
_PARTS_OF_RUNTIME = ("native/include", "native/core", "native/shim", "native/vol")
_PARTS_OF_KERNEL = ("native/include", "native/kernel")
_PARTS_OF_OBSERVER = ("native/include", "native/core", "native/observer")
RUNTIME = BuildTarget("runtime", _PARTS_OF_RUNTIME, "lib/libstripewise.so", "RUNTIME")
OBSERVER = BuildTarget("observer", _PARTS_OF_OBSERVER, "lib/libstripewise-observer.so", "OBSERVER")
"""What is preloaded into programs without MPI. It changes nothing."""
ACCELERATOR = BuildTarget(
    "accelerator", (*_PARTS_OF_OBSERVER, "native/accelerator"), "lib/libstripewise-accelerator.so", "ACCELERATOR"
)
"""What is preloaded in the observer's place where settings ask for acts on files."""
KERNEL = BuildTarget("kernel", _PARTS_OF_KERNEL, "bin/stripewise-kernel", "KERNEL")
KERNEL_HDF5 = replace(KERNEL, name="kernel-hdf5", hdf5=True)
REPLAYER = BuildTarget("replayer", (*_PARTS_OF_KERNEL, "native/core"), "bin/stripewise-replay", "KERNEL")
REPLAYER_HDF5 = replace(REPLAYER, name="replayer-hdf5", hdf5=True)


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes
    ----------
    path : Path
        The library or program.
    compiler : Compiler
    reused : bool
        Whether it had been built before.
    """

    path: Path
    compiler: Compiler
    reused: bool

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""
        return {
            "path": str(self.path),
            "mpicc": str(self.compiler.path),
            "compiler": self.compiler.identity,
            "abi": self.compiler.abi,
            "standard": self.compiler.standard,
            "reused": self.reused,
        }


def build(
    target: BuildTarget,
    compiler: Compiler,
    environment: Mapping[str, str],
    cache: Path | None = None,
    sources: Path | None = None,
) -> Built:
    """Build a part, unless it is in the cache already.

    Two processes that need the same part build it once; an interrupted build leaves nothing that looks finished.

    Parameters
    ----------
    target : BuildTarget
    compiler : Compiler
    environment : mapping
        In which the compiler works (modules).
    cache, sources : Path, optional
        By default :func:`cache_folder` and :func:`~stripewise.runners.native.build.source_folder`.

    Raises
    ------
    UserError
        If CMake or make is missing.
    StripewiseError
        If the build fails, with the compiler's last lines, or cannot be kept.
    """
    sources = sources or source_folder()
    cache = _place_of(target, cache)
    final = cache / f"{target.name}-{compiler.abi}-{_key(target, compiler, environment, sources)}"
    result = final / target.file
    if _is_intact(target, final):
        return Built(result, compiler, reused=True)
    try:
        make_folder(cache)
        check_own(cache, "the folder of built libraries")
        check_above(cache, "the folder of built libraries")
        with _lock_path(cache / f".{final.name}.lock"):
            if _is_intact(target, final):
                return Built(result, compiler, reused=True)
            _log.info("building the %s with %s, once: it is kept in %s", target.name, compiler.path, cache)
            with tempfile.TemporaryDirectory(prefix=".building-", dir=cache) as temporary:
                _make(target, compiler, environment, sources, Path(temporary))
                _install(target, compiler, Path(temporary), final, source_hash(sources, target.parts))
    except OSError as error:
        raise StripewiseError(
            f"cannot keep the built {target.name} in {cache}: {error.strerror or error}",
            "make room, or set STRIPEWISE_HOME to a folder that can be written",
        ) from error
    return Built(result, compiler, reused=False)


def find_built(
    target: BuildTarget,
    abi: str,
    cache: Path | None = None,
    sources: Path | None = None,
    exactly: str = "",
    at_most: str = "",
) -> Path | None:
    """Find a build of the present sources for a binary interface, whichever compiler made it.

    For places without a compiler, as compute nodes are; programs linked to one library are not looked for.

    Parameters
    ----------
    exactly : str
        A version of the MPI standard: only what was built here, with headers of the same major version, is found.
    at_most : str
        A version of the MPI standard: what was built with headers of a later major version is not found. Programs that
        look which calls there are would find some that their library lacks.
    """
    if not target.shared:
        return None
    wanted = source_hash(sources or source_folder(), target.parts)
    for about in sorted(_place_of(target, cache).glob(f"{target.name}-{abi}-*/build.json")):
        try:
            found = json.loads(about.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if not isinstance(found, dict) or found.get("sources") != wanted:
            continue
        major, same = str(found.get("standard")).partition(".")[0], found.get("platform") == _platform()
        if exactly and not (same and major == exactly.partition(".")[0]):
            continue
        if at_most and major.isdecimal() and int(major) > int(at_most.partition(".")[0]):
            continue
        if _is_intact(target, about.parent):
            return about.parent / target.file
    return None


def _place_of(target: BuildTarget, cache: Path | None) -> Path:
    """Give the folder of built libraries without links, which others may be able to exchange.

    Raises
    ------
    UserError
        If the loader would take a part of its path for a library, which anybody may have put there.
    """
    folder = (cache or cache_folder()).resolve()
    if target.shared and any(sign in str(folder) for sign in " :$"):
        raise UserError(
            f"no library can be preloaded from {folder}: LD_PRELOAD holds no path with a space, a colon or a $",
            "set STRIPEWISE_HOME to a folder without them",
        )
    return folder


def _is_intact(target: BuildTarget, folder: Path) -> bool:
    """Whether a folder holds a finished build whose file is as it was built.

    Raises
    ------
    UserError
        If others could have changed it: what it holds would be loaded into every program.
    """
    path = folder / target.file
    try:
        about = json.loads((folder / "build.json").read_text("utf-8"))
        for place in (folder.parent, folder, path.parent, path):
            check_own(place, "the built library's")
        # It is loaded hours after this check.
        check_above(folder, "the built library's")
        return isinstance(about, dict) and about.get("digest") == file_digest(path)
    except (OSError, ValueError):
        return False


def file_digest(path: Path) -> str:
    """Digest the content of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _key(target: BuildTarget, compiler: Compiler, environment: Mapping[str, str], sources: Path) -> str:
    # Libraries of one interface share a build; but headers of MPI 4 declare calls that those of MPI 3 lack.
    identity = [compiler.identity, compiler.standard.split(".")[0], _platform()]
    if not target.shared:
        identity.append(str(compiler.path.resolve()))
    identity += [environment.get(name, "") for name in target.variables]
    text = "\0".join([source_hash(sources, target.parts), *identity])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _platform() -> str:
    return "\0".join([platform.machine(), "-".join(platform.libc_ver())])


@contextmanager
def _lock_path(path: Path) -> Iterator[None]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)  # who can read it can hold it
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _make(target: BuildTarget, compiler: Compiler, environment: Mapping[str, str], sources: Path, folder: Path) -> None:
    cmake = shutil.which("cmake", path=environment.get("PATH", "")) or shutil.which("cmake")
    if cmake is None:
        raise UserError("cmake is not installed", "install it with the system's packages, or pip install cmake")
    tree = folder / "build"
    # One configuration whatever the caller's shell says: flags of another project must not get into a cached build.
    clean = {name: value for name, value in environment.items() if name not in ("CFLAGS", "LDFLAGS", "CPPFLAGS", "CC")}
    _step(
        target,
        compiler,
        clean,
        [
            cmake,
            "-S",
            str(sources),
            "-B",
            str(tree),
            f"-DCMAKE_C_COMPILER={compiler.path}",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            *target.options,
        ],
    )
    _step(target, compiler, clean, [cmake, "--build", str(tree), "--parallel", str(len(os.sched_getaffinity(0)))])
    if not (tree / target.file).is_file():
        raise StripewiseError(
            f"the build of the {target.name} left no {target.file}", f"try it by hand: cmake -S {sources} -B build"
        )


def _step(target: BuildTarget, compiler: Compiler, environment: Mapping[str, str], command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=inherit_environment(environment),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StripewiseError(f"building the {target.name} took more than {_SECONDS:g} s", "try it by hand") from error
    if done.returncode != 0:
        raise BuildFailed(target.name, compiler.path, done.stdout)


class BuildFailed(StripewiseError):  # noqa: N818
    """The compiler refused; :attr:`lines` holds the last lines that it wrote."""

    def __init__(self, name: str, compiler: Path, output: str) -> None:
        lines = [line.rstrip() for line in output.splitlines() if line.strip()]
        self.lines = tuple(lines[-_SHOWN_LINES:])
        super().__init__(
            f"building the {name} with {compiler} failed: {_first_error(lines)}",
            "check that this compiler builds MPI programs, or name another with stripewise site native build --mpicc",
        )


def _first_error(lines: Sequence[str]) -> str:
    for index, line in enumerate(lines):
        if line.startswith("CMake Error"):
            # CMake says where on one line and what on the next ones, which it folds and indents.
            said = list(itertools.takewhile(lambda text: text.startswith("  "), lines[index + 1 :]))
            return " ".join(part.strip() for part in said)
        if re.search(r"\berror\b|undefined reference|cannot find", line, re.IGNORECASE):
            return line.strip()
    return lines[-1].strip() if lines else "no output"


def _install(target: BuildTarget, compiler: Compiler, temporary: Path, final: Path, sources: str) -> None:
    ready = temporary / "ready"
    (ready / target.file).parent.mkdir(parents=True)
    shutil.copy2(temporary / "build" / target.file, ready / target.file)
    built = ready / target.file
    for place in (ready, built.parent, built):
        take_from_others(place)
    about = {
        **Built(final / target.file, compiler, reused=False).as_json(),
        "sources": sources,
        "platform": _platform(),
    }
    about["digest"] = file_digest(built)
    (ready / "build.json").write_text(json.dumps(about, indent=1) + "\n", "utf-8")
    if final.exists():
        # Only a folder without its result, or with another one, gets here.
        shutil.rmtree(final)
    ready.rename(final)


def source_folder() -> Path:
    """Give the folder that holds ``CMakeLists.txt`` and ``native/``.

    Raises
    ------
    StripewiseError
        If the installation lacks them.
    """
    package = Path(stripewise.__file__).resolve().parent
    for folder in (package / "_native", package.parent.parent):
        if (folder / "CMakeLists.txt").is_file() and (folder / "native" / "include").is_dir():
            return folder
    raise StripewiseError(
        f"the native sources are missing beside {package}", "install Stripewise again: its packages contain them"
    )


def source_hash(folder: Path, parts: Sequence[str]) -> str:
    """Digest the sources of some parts, names and content; 16 hex digits."""
    digest = hashlib.sha256()
    files = [folder / "CMakeLists.txt"]
    for part in parts:
        files += sorted(path for path in (folder / part).rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _name_unbuilt(target: BuildTarget, probing: Probing) -> Path:
    """Name a build that is still to be made, and that nobody has tried."""
    probing.allows("whether a compiler builds what is preloaded")
    return cache_folder() / target.name / target.file


def observer_for(environment: Mapping[str, str], probing: Probing = PROBING) -> Path:
    """Give the observer of programs without MPI, built if it is not in the cache.

    Where nothing may be started, it is the build in the cache, or the place of one that is still to be made.

    Raises
    ------
    UserError
        If there is no C compiler, and nobody has built it elsewhere.
    StripewiseError
        If the build fails.
    """
    return _build_plain(OBSERVER, environment, probing)


def accelerator_for(environment: Mapping[str, str], probing: Probing = PROBING) -> Path:
    """Give the observer that also acts on files as settings ask; see :func:`observer_for`."""
    return _build_plain(ACCELERATOR, environment, probing)


def _build_plain(target: BuildTarget, environment: Mapping[str, str], probing: Probing) -> Path:
    found = find_built(target, PLAIN)
    if found is None and not probing.allowed:
        return _name_unbuilt(target, probing)
    return found or build(target, find_plain_compiler(environment), environment).path


def runtime_for(mpi: Mpi, launcher: Path | None, environment: Mapping[str, str], probing: Probing = PROBING) -> Path:
    """Give the runtime for an MPI, built if it is not in the cache.

    Where nothing may be started, it is a build in the cache, or the place of one that is still to be made.

    Parameters
    ----------
    mpi : Mpi
    launcher : Path or None
        The program's launcher: a compiler may be installed with it.
    environment : mapping
        The program's.
    probing : Probing
        Whether a compiler may be started.

    Raises
    ------
    UserError
        If this MPI has no compiler and nobody has built the library elsewhere.
    StripewiseError
        If the build fails.
    """
    if not probing.allowed:
        return find_built(RUNTIME, mpi.abi) or _name_unbuilt(RUNTIME, probing)
    if mpi.standard and (made := find_built(RUNTIME, mpi.abi, exactly=mpi.standard)) is not None:
        # To ask a compiler for its version takes longer than many a program.
        return made
    try:
        compiler = find_compiler(mpi, launcher, environment)
    except UserError:
        # Compute nodes have no compiler: what a login node built with the same sources serves here as well.
        found = find_built(RUNTIME, mpi.abi, at_most=mpi.standard)
        if found is None:
            raise
        return found
    return build(RUNTIME, compiler, environment).path
