"""A dry run starts nothing: no setup line, no probe, no compiler, no library, whoever asks for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stripewise.desk.cli.main import main
from stripewise.runners.program.elf import read_loader_cache
from stripewise.testing.runners import refused_starts
from tests.conftest import require
from tests.unit.service import running

PLANTED = (
    "bash",
    "sh",
    "mpiexec",
    "mpirun",
    "srun",
    "sbatch",
    "scontrol",
    "squeue",
    "ldconfig",
    "ldd",
    "python9",
    "lfs",
)
PLANTED += ("mpicc", "mpicc.mpich", "cc", "gcc", "clang", "cmake", "make", "mpichversion", "ompi_info", "ldd")
LIBRARY = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
const char *marker = "MPIR_CVAR_";
__attribute__((constructor)) static void loaded(void) { close(open(getenv("MARKER"), O_CREAT | O_WRONLY, 0600)); }
int MPI_Init(int *count, char ***words) { return count == 0 && words == 0; }
"""


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of programs that leave a file when they start, the first in PATH; gives that file."""
    marker = tmp_path / "started"
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PLANTED:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MARKER", str(marker))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    monkeypatch.chdir(tmp_path)
    yield marker


@pytest.fixture(scope="module")
def own_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an MPI library of its own, which leaves a file when it is loaded."""
    gcc = shutil.which("gcc")
    require(gcc is not None, "no gcc")
    folder = tmp_path_factory.mktemp("own")
    (folder / "mpi.c").write_text(LIBRARY)
    (folder / "app.c").write_text("int MPI_Init(int *, char ***);\nint main(void) { return MPI_Init(0, 0); }\n")
    library = folder / "libmpi.so.12"
    for words in (
        ["-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o", str(library), "mpi.c"],
        ["-o", "app", "app.c", str(library), f"-Wl,-rpath,{folder}"],
    ):
        subprocess.run([str(gcc), *words], cwd=folder, check=True)
    return folder / "app"


def definitions(app: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """Experiments of which some part would be started to find out more."""
    script = folder / "app.py"
    script.write_text("#!/usr/bin/env python9\nimport mpi4py\n")
    script.chmod(0o755)
    job = folder / "job.sh"
    job.write_text(f"#!/bin/bash\n#SBATCH --nodes=2\nsrun {app}\n")
    job.chmod(0o755)
    romio = {"stacks": ["romio"]}
    own = {"parameters": {"t": {"carrier": "argument", "values": [0, 1], "default": 0}}}
    mine = {"env": {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "CC": "gcc"}}
    return {
        "setup lines": {**romio, "command": [str(app)], "setup": [f"touch {folder / 'started'}"]},
        "a program behind setup lines": {**romio, "command": ["its-module-has-it"], "setup": ["module load x"]},
        "hooks": {**own, "command": ["sleep", "{t}"], "hooks": {"before": ["bash -c true"], "after": ["gcc"]}},
        "its own MPI library": {**romio, "command": ["mpiexec", "-n", "2", str(app)]},
        "a compiler of env": {**romio, **mine, "command": ["mpiexec", "-n", "2", str(app)]},
        "a Python": {**romio, "command": ["mpiexec", "-n", "2", str(script)]},
        "a Python without a launcher": {**romio, "command": [str(script)]},
        "a shell script": {**romio, "command": ["/bin/bash", str(job)]},
        "no MPI": {**own, "command": ["sleep", "{t}"], "objective": "energy:gcc"},
        "jobs": {**romio, "runner": "batch", "command": [str(job)]},
        "steps": {**romio, "runner": "steps", "command": ["srun", "-N", "2", "-n", "4", str(app)]},
        "phases": {**romio, "runner": "within", "objective": "phase_bandwidth", "command": [str(app)]},
        "a simulation": {
            "runner": "sim:kay",
            "stacks": ["lustre"],
            "objective": "write_bandwidth",
            "workload": {"operation": "write", "nodes": 2, "processes_per_node": 4, "file_size": "1 GiB"},
        },
    }


CASES = (
    "setup lines",
    "a program behind setup lines",
    "hooks",
    "its own MPI library",
    "a compiler of env",
    "a Python",
    "a Python without a launcher",
    "a shell script",
    "no MPI",
    "jobs",
    "steps",
    "phases",
    "a simulation",
)
KNOWN = ("hooks", "no MPI", "jobs", "a simulation")
"""Those of which files tell everything."""


def written(definition: dict[str, Any], path: Path) -> Path:
    """Write an experiment file."""

    def spelt(value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(f"{json.dumps(name)} = {spelt(one)}" for name, one in value.items()) + " }"
        return json.dumps(value)

    path.write_text("".join(f"{name} = {spelt(value)}\n" for name, value in definition.items()))
    return path


def test_every_definition_is_tried(own_mpi: Path, tmp_path: Path) -> None:
    assert tuple(definitions(own_mpi, tmp_path)) == CASES


@pytest.mark.parametrize("case", CASES)
def test_a_dry_run_starts_nothing(
    case: str, trap: Path, own_mpi: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(definitions(own_mpi, tmp_path)[case], tmp_path / "experiment.toml")
    with refused_starts() as started:
        code = main(["tune", "--dry-run", str(file)])
    printed = capfd.readouterr()
    assert (code, started) == (0, []), printed.err
    assert not trap.exists(), trap.read_text()
    assert printed.out.endswith("nothing was started; the same command without --dry-run starts it\n")
    said = printed.out.count("note: not looked at, because a dry run starts nothing: ")
    assert said == (0 if case in KNOWN else 1), printed.out


def test_the_command_itself_starts_nothing(trap: Path, own_mpi: Path, tmp_path: Path) -> None:
    """As a process of its own, with every call of the kernel that starts a program in view."""
    strace = shutil.which("strace")
    kinds = definitions(own_mpi, tmp_path)
    both = {**kinds["its own MPI library"], "setup": kinds["setup lines"]["setup"]}
    file, log = written(both, tmp_path / "experiment.toml"), tmp_path / "calls"
    watched = [strace, "-f", "-qq", "-e", "trace=execve,fork,vfork", "-o", str(log)] if strace else []
    if watched and subprocess.run([*watched, "/bin/true"], capture_output=True, check=False).returncode:
        watched = []  # a container may forbid it; the planted programs still tell
    words = [*watched, sys.executable, "-m", "stripewise", "tune", "--dry-run", str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not trap.exists(), trap.read_text()
    if watched:
        calls = [line for line in log.read_text().splitlines() if "execve(" in line or "fork(" in line]
        assert len(calls) == 1, calls


@pytest.mark.parametrize("case", CASES)
def test_an_assistant_starts_nothing_before_the_person_agreed(
    case: str, trap: Path, own_mpi: Path, tmp_path: Path
) -> None:
    # Loads the Model Context Protocol, which takes a second of each worker that only collects this file.
    from tests.integration.test_assistant import Person, call, tools

    given = definitions(own_mpi, tmp_path)[case]
    arguments = {name: given[name] for name in ("stacks", "objective") if name in given}
    more = {name: value for name, value in given.items() if name not in (*arguments, "command")}
    more.pop("hooks", None)
    asked = {**arguments, "command": given.get("command", []), "folder": str(tmp_path), "budget": 12, "more": more}
    (tmp_path / "service").mkdir()
    with running(tmp_path / "service", roots=(tmp_path, own_mpi.parent)) as served:
        with refused_starts() as started:
            server, person = tools(served), Person()
            dry = call(server, None, "dry_run", **asked)
            answer = call(server, person, "tune", **asked)
        assert started == [] and not trap.exists()
        if case == "phases":
            assert "within" in dry and "within" in answer, "a service refuses them"
            return
        assert dry["worst_case"]["runs"] == 12, dry
        assert case in KNOWN or any(note.startswith("not looked at") for note in dry["notes"])
        if case != "a simulation":
            assert "did not agree" in answer and len(person.asked) == 1
            assert served.service.store.count() == 0


def test_the_cache_of_the_loader_is_read_as_ldconfig_lists_it() -> None:
    ldconfig, cache = shutil.which("ldconfig", path="/sbin:/usr/sbin"), Path("/etc/ld.so.cache")
    require(ldconfig is not None and cache.is_file(), "no cache of the loader here")
    listed = subprocess.run([str(ldconfig), "-p"], capture_output=True, text=True, check=True).stdout
    wanted: dict[str, tuple[str, ...]] = {}
    for line in listed.splitlines()[1:]:
        if " => " in line:
            name, path = line.split()[0], line.split(" => ")[1]
            wanted[name] = (*wanted.get(name, ()), path)
    data = cache.read_bytes()
    assert read_loader_cache(data) == wanted
    assert read_loader_cache(b"ld.so-1.7.0\0\0\0\0\0" + data) == wanted, "behind the format of older versions"
    for broken in (b"", b"x" * 99, data[:60], data[: len(data) // 2]):
        assert read_loader_cache(broken) == {}
