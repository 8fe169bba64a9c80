"""Build libstripewise.so and small programs, run them together, read the report."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.formats import faults
from tests.integration.building import ROOT, checked, native_parts, once
from tests.integration.conftest import Mpi

PROGRAMS = ROOT / "tests" / "fixtures" / "programs"
PRELOADS = ROOT / "tests" / "fixtures" / "preloads"
SLEEPY = PRELOADS / "sleepy_ucx.c"
"""Linked into programs of Debian's MPICH, whose ranks spin otherwise."""


@dataclass(frozen=True)
class Outcome:
    """What a run left behind; report is None where none was written."""

    code: int
    stdout: str
    stderr: str
    report: dict[str, Any] | None

    def file(self, name: str) -> dict[str, Any]:
        """The report's entry of the file of this base name; exactly one must exist."""
        assert self.report is not None, self.stderr
        (found,) = [entry for entry in self.report["files"] if Path(entry["path"]).name == name]
        return dict(found)

    def setting(self, name: str, key: str) -> dict[str, Any]:
        """What became of one setting at that file."""
        (found,) = [setting for setting in self.file(name)["settings"] if setting["key"] == key]
        return dict(found)

    @property
    def complaints(self) -> list[str]:
        """The runtime's own lines on standard error."""
        return [line for line in self.stderr.splitlines() if line.startswith("stripewise:")]


@dataclass
class Bench:
    """One MPI, the runtime built with it, and programs compiled on demand."""

    mpi: Mpi
    factory: pytest.TempPathFactory
    options: ClassVar[tuple[str, ...]] = ()
    folder: Path = field(init=False)
    library: Path = field(init=False)
    built: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.factory.mktemp(self.mpi.name)
        self.library = native_parts(self.factory, self.mpi.mpicc, *self.options) / "lib/libstripewise.so"

    @property
    def is_mpich(self) -> bool:
        return self.mpi.name != "openmpi"

    def has(self, symbol: str) -> bool:
        """Does this MPI declare the function?"""
        test = self.folder / "has.c"
        test.write_text(f"#include <mpi.h>\nvoid *probe(void) {{ return (void *){symbol}; }}\n")
        command = [str(self.mpi.mpicc), "-c", str(test), "-o", str(self.folder / "has.o")]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def program(self, source: str, *flags: str, compiler: str | None = None) -> Path:
        """The compiled program of tests/fixtures/programs."""
        sleepy = [str(SLEEPY)] if self.mpi.mpicc == Path("/usr/bin/mpicc.mpich") else []
        words = [compiler or str(self.mpi.mpicc), "-O1", *flags, str(PROGRAMS / source), *sleepy]
        return self._compiled(source, Path(source).stem, words, modules=compiler is not None)

    def preload(self, source: str) -> Path:
        """The compiled library of tests/fixtures/preloads."""
        words = [str(self.mpi.mpicc), "-O1", "-shared", "-fPIC", str(PRELOADS / source), "-ldl"]
        return self._compiled(source, f"{Path(source).stem}.so", words)

    def _compiled(self, source: str, name: str, words: list[str], *, modules: bool = False) -> Path:
        """What a compiler makes of a source: files of tests share it."""

        def make(folder: Path) -> None:
            checked([*words, *(["-J", str(folder)] if modules else []), "-o", str(folder / name)])

        if source not in self.built:
            key = hashlib.sha256("\n".join(words).encode()).hexdigest()[:12]
            self.built[source] = once(self.factory, f"compiled-{key}", make) / name
        return self.built[source]

    def command(self, words: list[str], ranks: int, environment: dict[str, str], preload: list[Path]) -> list[str]:
        """The whole command line, the environment given through env directly before the program."""
        settings = [f"{name}={value}" for name, value in environment.items()]
        if preload:
            settings.append("LD_PRELOAD=" + ":".join(map(str, preload)))
        return [*self.mpi.mpiexec(ranks), "env", *settings, *words]

    def run(
        self,
        program: Path,
        *arguments: object,
        ranks: int = 4,
        plan: str | None = None,
        report: Path | None = None,
        behind: tuple[Path, ...] = (),
        preload: bool = True,
        timeout: float = 120,
        **environment: str,
    ) -> Outcome:
        """Run the program with the runtime and, behind it, other libraries; plan is the plan's text."""
        target = report or self.folder / "report.json"
        if report is None:
            target.unlink(missing_ok=True)
        if preload:
            environment.setdefault("STRIPEWISE_REPORT", str(target))
        if plan is not None:
            (self.folder / "plan").write_text(plan)
            environment.setdefault("STRIPEWISE_PLAN", str(self.folder / "plan"))
            environment.setdefault("STRIPEWISE_MODE", "apply")
        libraries = [*([self.library] if preload else []), *behind]
        words = [str(program), *map(str, arguments)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE_")}
        done = subprocess.run(
            self.command(words, ranks, environment, libraries),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=clean,
            check=False,
        )
        found = json.loads(target.read_text()) if target.is_file() and target.stat().st_size else None
        assert found is None or faults(found) == []
        return Outcome(done.returncode, done.stdout, done.stderr, found)


HEADER = "stripewise-plan 1\n"
