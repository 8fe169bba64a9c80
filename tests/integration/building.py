"""Builds that all workers of a test run share: what a file's tests only use is compiled once."""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def checked(command: Sequence[str | Path], cwd: Path | None = None) -> None:
    """Run a build step, its output in the failure."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def shared(factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a run that all of its workers see."""
    run = factory.getbasetemp()
    return run.parent if "PYTEST_XDIST_WORKER" in os.environ else run


def fresh_home(factory: pytest.TempPathFactory) -> Path:
    """Give an empty STRIPEWISE_HOME but for what stripewise itself has built in this run."""
    builds = shared(factory) / "builds"
    builds.mkdir(exist_ok=True)
    home = factory.mktemp("home")
    (home / "native").symlink_to(builds)
    return home


def native_parts(factory: pytest.TempPathFactory, mpicc: Path, *options: str) -> Path:
    """Give a folder with the native parts built by this compiler and these options of CMake, warnings being errors."""
    run = shared(factory)
    key = hashlib.sha256("\n".join([str(mpicc), *options]).encode()).hexdigest()[:12]
    folder = run / f"native-{key}"
    with (run / f"native-{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            configure = ["cmake", "-S", ROOT, "-B", folder, f"-DCMAKE_C_COMPILER={mpicc}", "-DSTRIPEWISE_WERROR=ON"]
            checked([*configure, *options])
            checked(["cmake", "--build", folder, "-j2"])
            (folder / "done").touch()
    return folder
