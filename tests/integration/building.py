"""Builds that all workers share: compiled once, and in later runs only what has changed since (``build/tests``)."""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import pytest

from stripewise.interpreter import ask
from stripewise.runners.native import build as own
from stripewise.runners.native.compiler import Compiler, ask_compiler, find_plain_compiler
from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]
OPTIMISED, UNOPTIMISED = (f"-DCMAKE_C_FLAGS_RELWITHDEBINFO={level}" for level in ("-O2", "-O0"))
"""Options of CMake. Nothing looks into what is built with a debugger."""


def checked(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Run a build step, its output in the failure."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def shared(factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a run that all of its workers see."""
    run = factory.getbasetemp()
    return run.parent if "PYTEST_XDIST_WORKER" in os.environ else run


def fresh_home(factory: pytest.TempPathFactory) -> Path:
    """Give an empty STRIPEWISE_HOME, except for what was built in this run."""
    home = factory.mktemp("home")
    (home / "native").symlink_to(_builds(factory))
    return home


def cache_home(factory: pytest.TempPathFactory) -> Path:
    """Give an XDG_CACHE_HOME with nothing in it but what was built in this run."""
    cache = factory.mktemp("cache")
    (cache / "stripewise").mkdir()
    (cache / "stripewise" / "native").symlink_to(fresh_home(factory).joinpath("native").resolve())
    return cache


def _builds(factory: pytest.TempPathFactory) -> Path:
    folder = shared(factory) / "builds"
    folder.mkdir(exist_ok=True)
    return folder


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Give a folder of the run that whoever asks first has filled."""
    run = shared(factory)
    folder = run / name
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / "done").touch()
    return folder


def native_parts(factory: pytest.TempPathFactory, mpicc: Path, *options: str) -> Path:
    """Give a folder with the native parts built by this compiler and these options of CMake, warnings being errors."""
    # One build is optimised as users have it, which some warnings need too. The others take a third of the time.
    usual = not options and mpicc.parent == Path(sys.prefix) / "bin"
    # The observer is the same for every MPI: see observer_library.
    given = [OPTIMISED if usual else UNOPTIMISED, "-DSTRIPEWISE_OBSERVER=OFF", "-DSTRIPEWISE_ACCELERATOR=OFF"]
    given += ["-DSTRIPEWISE_TESTS=OFF"]
    targets = [own.RUNTIME] if options else [own.RUNTIME, own.KERNEL, own.REPLAYER]
    return _built(factory, _asked(mpicc), [*given, *options], targets, "\n".join(options))


@functools.cache
def _asked(mpicc: Path) -> Compiler:
    """Ask a compiler once: it preprocesses mpi.h for the answer, and each test of the kernel wants a build."""
    return ask_compiler(mpicc, os.environ)


def _built(
    factory: pytest.TempPathFactory,
    compiler: Compiler,
    options: Sequence[str],
    targets: Sequence[own.BuildTarget],
    kind: str,
) -> Path:
    """Build what has changed since an earlier run of the tests, and put it where homes of this run have it."""
    key = hashlib.sha256(f"{compiler.path}\n{compiler.identity}\n{kind}".encode()).hexdigest()[:12]
    folder = ROOT / "build" / "tests" / key

    def make(_: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            configure = ["cmake", "-S", ROOT, "-B", folder, f"-DCMAKE_C_COMPILER={compiler.path}"]
            checked([*configure, "-DSTRIPEWISE_WERROR=ON", *options])
            if UNOPTIMISED in options:
                _share_core(factory, folder)
            checked(["cmake", "--build", folder, "-j2"])
            _keep(_builds(factory), compiler, folder, targets)

    once(factory, f"native-{key}", make)
    return folder


def _share_core(factory: pytest.TempPathFactory, tree: Path) -> None:
    """Put the core's objects, which know no MPI, into a tree that has none: those of the first tree without them."""
    place = Path("native") / "core"

    def objects(folder: Path) -> list[Path]:
        return sorted(path for path in (folder / place).rglob("*.o*") if path.is_file())

    if objects(tree):
        return

    def make(folder: Path) -> None:
        checked(["cmake", "--build", tree, "-j2", "--target", "stripewise_core"])
        for path in objects(tree):
            copy = folder / path.relative_to(tree)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)

    made = once(factory, "core-objects", make)
    for path in objects(made):
        # Newer than what was configured: nothing is left to compile.
        shutil.copy(path, tree / path.relative_to(made))


def _keep(cache: Path, compiler: Compiler, tree: Path, targets: Sequence[own.BuildTarget]) -> None:
    """Put what was built where stripewise keeps its own builds, so that it does not build the same again."""

    def copied(target: own.BuildTarget, _compiler: object, _environment: object, _sources: Path, folder: Path) -> None:
        result = folder / "build" / target.file
        result.parent.mkdir(parents=True)
        shutil.copy2(tree / target.file, result)

    with mock.patch.object(own, "_make", copied):
        for target in targets:
            own.build(target, compiler, os.environ, cache, ROOT)


def observer_library(factory: pytest.TempPathFactory) -> Path:
    """Give the observer as users have it, warnings being errors; homes of this run have it too."""
    return _preloaded(factory, own.OBSERVER)


def accelerator_library(factory: pytest.TempPathFactory) -> Path:
    """Give the accelerator as users have it."""
    return _preloaded(factory, own.ACCELERATOR)


def _preloaded(factory: pytest.TempPathFactory, target: own.BuildTarget) -> Path:
    require(shutil.which("cmake"), "no cmake: apt install cmake")
    tree = _built(factory, find_plain_compiler(os.environ), [OPTIMISED, *target.options], [target], target.name)
    return tree / target.file


def core_library(factory: pytest.TempPathFactory) -> Path:
    """Give a library of the runtime's core alone, by the system's compiler, in which every function can be called."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    require(compiler is not None, "no C compiler")
    native = ROOT / "native"
    sources = sorted((native / "core").glob("*.c"))
    command = [str(compiler), "-std=gnu11", "-O2", "-ffp-contract=off", "-fPIC", "-shared", f"-I{native / 'include'}"]
    command += [*map(str, sources), "-lm", "-lpthread", "-o"]

    def make(folder: Path) -> None:
        kept = ROOT / "build" / "tests" / "core"
        kept.mkdir(parents=True, exist_ok=True)
        read = [path for part in ("core", "include") for path in sorted((native / part).iterdir()) if path.is_file()]
        parts = [repr(command).encode(), ask([str(compiler), "--version"], 60).stdout.encode()]
        parts += [path.read_bytes() for path in read]
        key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        with (kept / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (kept / "key").exists() or (kept / "key").read_text() != key:
                checked([*command, str(kept / "libcore.so")])
                (kept / "key").write_text(key)
            shutil.copy2(kept / "libcore.so", folder)

    return once(factory, "core", make) / "libcore.so"
