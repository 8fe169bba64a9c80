"""Study 002 through the service on the test bed: a class of programs, every run a job of Slurm."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.studies.steps import StudyError, write_toml

if TYPE_CHECKING:
    from benchmarks.studies.on_bed import Site

KEPT = ("reference", "default", "best", "speedup", "speedup_ci95", "confirmed", "runs", "seconds")
FILE_SIZE, OPERATIONS = 128 << 20, 1000
"""At most, of a program's: the bed has 200 MB/s in all."""


def _call(words: Sequence[str | Path], environment: dict[str, str], folder: Path) -> str:
    """Run a command in a folder: the service takes experiments of folders below its root only."""
    command = [sys.executable, "-m", "stripewise", *map(str, words)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout


@contextlib.contextmanager
def served(site: Site, home: Path) -> Iterator[dict[str, str]]:
    """Start a service with one worker that submits to the bed, and give the environment of its user."""
    # The path of a socket may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="stripewise-") as short:
        socket = Path(short) / "sock"
        environment = {**site.environment, "STRIPEWISE_HOME": str(home), "STRIPEWISE_STORE": f"sqlite:///{home}/db"}
        _call(["service", "token", "create", "study", "--role", "operator", "--save"], environment, home)
        words = [sys.executable, "-m", "stripewise", "serve", "--socket", str(socket), "--root", str(home.parent)]
        with (home / "serve.log").open("w") as log:
            process = subprocess.Popen(words, env=environment, cwd=home, stdout=log, stderr=log)
        try:
            for _ in range(600):
                if socket.exists() or process.poll() is not None:
                    break
                time.sleep(0.1)
            if not socket.exists():
                raise StudyError(f"the service did not start: {(home / 'serve.log').read_text('utf-8')[-500:]}")
            yield {**environment, "STRIPEWISE_SERVER": f"unix:{socket}"}
        finally:
            process.terminate()
            process.wait(60)


def tuned(
    site: Site, work: Path, built: Path, stack: Path, members: Sequence[Any], budget: int, first: int = 0
) -> list[dict[str, Any]]:
    """Tune programs of a class, one after the other.

    Parameters
    ----------
    work : Path
        For the service's state and the runs.
    built : Path
        Folder of accelerator and program.
    stack : Path
        The accelerator's stack file with the library's place.
    members : sequence of programs.Program
    budget : int
        Launches of each.
    first : int
        Number of the first of them in its class.
    """
    home = work / "service"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    found = []
    with served(site, home) as environment:
        for number, program in enumerate(members, first):
            less = dataclasses.replace(
                program, file_size=min(program.file_size, FILE_SIZE), operations=min(program.operations, OPERATIONS)
            )
            arguments = [str(site.folder / f"data-{number}"), *less.arguments]
            # The first run makes the file.
            site.job([f"srun -N 1 -n 1 {built / 'synthetic'} {' '.join(arguments)}"])
            experiment = {
                "name": f"accelerated {number}",
                "command": [str(built / "synthetic"), *arguments],
                "runner": "batch",
                "stacks": [str(stack)],
                "objective": {"name": "regex:seconds: ([0-9.]+)", "direction": "minimize", "unit": "s"},
                "budget": {"runs": budget},
                "timeout": 120,
                "scratch": str(home / "runs"),
                "batch": {"nodes": 1},
                "workload": {"operation": "both"},
            }
            file = write_toml(home / "experiment.toml", experiment)
            told = json.loads(_call(["tune", file, "--json", "--yes"], environment, home))
            found.append({key: told[key] for key in KEPT} | {"program": arguments[1:]})
    return found
