"""What must be known of a program before its first run, and what would make every run fail."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from stripewise.catalogue.carriers import Program, own_files
from stripewise.errors import UserError
from stripewise.interpreter import PROBING, Probing
from stripewise.runners.program.binary import Binary, FileKind, find_program, inspect
from stripewise.runners.program.command import CONTAINERS, CommandLine, placeholders, starts_others
from stripewise.runners.program.elf import contains
from stripewise.runners.program.mpi import (
    WITH_LAUNCHER,
    Mpi,
    describe,
    find_mpi,
    library_of_launcher,
    script_of,
    why_children_isolated,
    why_isolated,
)
from stripewise.runners.program.started import Files, Started, Understood, understand

if TYPE_CHECKING:
    from stripewise.catalogue.workload import Workload

_SHELL_SIGNS = {">", ">>", "<", "|", "&&", "||", ";", "2>&1", "&>", "&"}
_HASHED = 1 << 30
_NAMES = {"mpich": "MPICH", "openmpi": "Open MPI"}
MPI_LIBRARY, MPI_VERSION = "the MPI library", "the MPI version"
_WHY = {
    "static": "it is linked statically",
    "setuid": "it is setuid",
    "setgid": "it is setgid",
    "capabilities": "it has file capabilities",
}


@dataclass(frozen=True)
class Target:
    """A command whose program and MPI are known.

    Attributes
    ----------
    line : CommandLine
    started : tuple of Started
        The programs that it starts in the end.
    binary : Binary
        The file of the first of them, where it is found; else of the program of the line.
    mpi : Mpi or None
    program : Program
        What the injection needs to know.
    launcher : Path or None
        The launcher's file.
    script : Path or None
        What the program, a shell or Python, is asked to run.
    warnings : tuple of str
    """

    line: CommandLine
    started: tuple[Started, ...]
    binary: Binary
    mpi: Mpi | None
    program: Program
    launcher: Path | None
    script: Path | None
    warnings: tuple[str, ...]

    @property
    def why_not_preloaded(self) -> str:
        """Why the runtime cannot be preloaded, in words; empty if it can."""
        return _WHY.get(self.program.obstacle, "")

    @property
    def name(self) -> str:
        """The program as the command names it."""
        inside = len(self.started) == 1 and self.started[0].program
        return inside[0] if inside else self.line.program[0]

    @property
    def ranks(self) -> int | None:
        """The ranks of all its programs, as far as launchers say."""
        counted = [one.ranks for one in self.started if one.ranks is not None]
        return sum(counted) if len(counted) == len(self.started) else None

    def workload(self) -> Workload:
        """What the command line says of the workload."""
        launched = any(one.launcher for one in self.started)
        alone = not launched and self.binary.kind is FileKind.ELF and self.mpi is not None
        return workload_of(self.started, 1 if alone else None)

    def fingerprint(self) -> dict[str, str]:
        """What must not change between runs that are compared."""
        found = {"the program": f"{self.binary.path} ({_digest(self.binary.path)})"}
        if self.script is not None:
            found["the script"] = f"{self.script} ({_digest(self.script)})"
        if self.mpi is not None:
            found |= {MPI_LIBRARY: str(self.mpi.path), MPI_VERSION: self.mpi.version}
        return found


def workload_of(started: Sequence[Started], alone: int | None = None) -> Workload:
    """Give what a command's programs say of the workload; ``alone`` are the ranks of a program without a launcher."""
    from stripewise.catalogue.workload import Workload  # noqa: PLC0415  schemas are slow to load

    if len(started) > 1 and any(one.in_shell for one in started):
        return Workload()
    counted = [one.ranks for one in started if one.ranks is not None]
    ranks = sum(counted) if counted and len(counted) == len(started) else alone
    nodes, launcher = started[0].nodes, PurePath(started[0].launcher).name
    if ranks is None:
        return Workload(nodes=nodes)
    if nodes is None and (not launcher or launcher.startswith(("mpi", "prte", "prun", "orte"))):
        # What else starts ranks (srun) spreads them over an allocation that its options need not tell.
        nodes = 1
    if nodes is None or ranks % nodes:
        return Workload(nodes=nodes)
    return Workload(nodes=nodes, processes_per_node=ranks // nodes)


def look(words: Sequence[str], environment: Mapping[str, str], cwd: Path, probing: Probing = PROBING) -> Target:
    """Take a command apart and find its program and its MPI.

    Parameters
    ----------
    words : sequence of str
    environment : mapping
        The program's, after the setup lines.
    cwd : Path
    probing : Probing
        Whether the MPI library and the program's Python may be asked.

    Raises
    ------
    UserError
        For everything because of which no run could succeed.
    """
    if not words or not words[0]:
        raise UserError("the command names no program", "write it after two dashes: tune -- mpiexec -n 4 ./my_app")
    warnings = []
    signs = [word for word in words if word in _SHELL_SIGNS]
    if signs:
        warnings.append(f"no shell reads the command, so its '{signs[0]}' is passed on as a word; use bash -c '...'")

    found = understand_here(words, environment, cwd)
    line, started = found.line, found.programs
    _check_counts(line)
    find_program(words[0], environment, cwd)
    launcher = find_program(line.launcher, environment, cwd) if line.launcher else None
    home = cwd / line.folder if line.folder else cwd
    _refuse_unreachable(found)
    if any(not segment.program for segment in line.segments):
        raise UserError(f"a part of the command has no program: {' '.join(words)}", "write one after each colon")
    try:
        binaries = [_inspect(segment.program[0], environment, cwd, home) for segment in line.segments]
    except UserError as error:
        doubt = f" ({found.remarks[0]})" if found.remarks else ""
        raise type(error)(f"{error.what}{doubt}", error.fix) from error
    launcher = launcher or _find_launcher(started, environment, home)
    known = {**environment, **line.environment}
    candidates = _list_candidates(started, line, environment, home) or [(line.program, binaries[0])]
    if any(one.in_shell for one in started):
        # What the text of a shell starts may be there only when it runs: then the text itself tells.
        candidates.append((line.program, binaries[0]))
    looks = [
        (*one, *find_mpi(*one, launcher, environment=known, cwd=home, mca=line.mca, probing=probing))
        for one in candidates
    ]
    sure = (look for look in looks if look[2] is not None and not look[2].found_by.startswith(WITH_LAUNCHER))
    inner, binary, mpi, missing = next(sure, None) or next((look for look in looks if look[3]), looks[0])
    binaries = [binary, *binaries] if inner != line.program else binaries
    warnings += found.remarks
    if missing:
        raise UserError(
            f"{inner[0]} asks for {missing}, which is not found",
            "load its module (tune --setup does it for each run), or set LD_LIBRARY_PATH",
        )
    if hidden := next((one for one in started if one.container), None):
        warnings.append(f"{hidden.describe()}: the runtime is not brought into it")
    obstacle = next((binary.obstacle for binary in binaries if binary.obstacle), "")
    if mpi is not None and launcher is not None and not obstacle:
        _check_family(mpi, launcher, environment, probing)
    cray = mpi is not None and ("cray" in mpi.path.name.lower() or "CRAY" in mpi.version)
    inside = next((binary.path for binary in binaries if _has_hdf5(binary)), None)
    if inside is not None:
        warnings.append(
            f"HDF5 is linked into {inside}: the runtime sees the MPI-IO below it, but neither datasets nor properties "
            "of HDF5; link the shared library (h5pcc -shlib)"
        )
    script = script_of(inner, home)
    program = Program(
        abi=mpi.abi if mpi else "",
        io=mpi.io if mpi else None,
        cray=cray,
        obstacle=obstacle,
        environment={**environment, **line.environment},
        without_mpi=_without_mpi(binaries[-len(line.segments) :], line, mpi),
        version=mpi.version if mpi else "",
        own_files=own_files(words, cwd),
        hdf5_inside=inside is not None,
        romio=mpi.told.romio if mpi else "",
        isolated=why_isolated(inner, binary),
        isolated_child=why_children_isolated(line.program, _script_of(line.program, home, environment)),
    )
    return Target(line, started, binary, mpi, program, launcher, script, tuple(dict.fromkeys(warnings)))


def _script_of(program: Sequence[str], home: Path, environment: Mapping[str, str]) -> Path | None:
    """Give the script that a program is, or that its interpreter is asked to run."""
    path = script_of(program, home) or _find(program[0], environment, home)
    return path if path is not None and path.suffix in _SCRIPTS else None


_SCRIPTS = (".sh", ".bash", ".py", ".pyw")
_LARGEST_TEXT = 1 << 20


def understand_here(words: Sequence[str], environment: Mapping[str, str], cwd: Path) -> Understood:
    """Say which programs a command starts in the end, with what files of this machine tell of them."""

    def executable(word: str) -> bool:
        return _find(word, environment, cwd) is not None

    def read(word: str) -> str | None:
        path = cwd / word if "/" in word or (cwd / word).is_file() else _find(word, environment, cwd)
        try:
            if path is None or path.stat().st_size > _LARGEST_TEXT:
                return None
            content = path.read_bytes()
        except (OSError, ValueError):
            return None
        return None if b"\0" in content else content.decode("utf-8", "replace")

    return understand(words, Files(executable, read, templates=False))


def _find(word: str, environment: Mapping[str, str], cwd: Path) -> Path | None:
    try:
        return find_program(word, environment, cwd)
    except UserError:
        return None


def _check_counts(line: CommandLine) -> None:
    for name, number in (("ranks", line.ranks), ("nodes", line.nodes)):
        if number is not None and number < 1:
            raise UserError(f"the command asks {line.launcher} for {number} {name}", "ask for 1 or more")


def _refuse_unreachable(found: Understood) -> None:
    """Refuse programs into which no settings can be brought: those of a container, and those that a file lists."""
    line = found.line
    for segment, one in zip(line.segments, found.programs, strict=False):
        starter = PurePath(segment.program[0]).name if segment.program else ""
        if line.image or starter in CONTAINERS:
            by = starter if starter in CONTAINERS else line.launcher
            shown = shlex.join(one.program) or "what the image says"
            raise UserError(
                f"the program {shown} is started in a container by {by} ({one.container}), into which this version "
                "brings no settings",
                "run stripewise inside the container",
            )
    if line.listing:
        shown = "; ".join(one.describe() for one in found.programs)
        raise UserError(
            f"{line.launcher} reads its programs from {line.listing}, into which this version brings no settings: "
            f"{shown}",
            "start one script that chooses its program by its rank",
        )


def _find_launcher(started: Sequence[Started], environment: Mapping[str, str], home: Path) -> Path | None:
    """Find the launcher that stands behind a shell or a wrapper; None where there is none."""
    name = next((one.launcher for one in started if one.launcher), "")
    return _find(name, environment, home) if name else None


def _list_candidates(
    started: Sequence[Started], line: CommandLine, environment: Mapping[str, str], home: Path
) -> list[tuple[tuple[str, ...], Binary]]:
    """Give the programs behind shells, tools and wrappers of the line whose files are found."""
    found = []
    for one in started:
        path = _find(one.program[0], environment, home) if one.program and not one.container else None
        if path is not None and one.program != line.program:
            with suppress(UserError):
                found.append((one.program, inspect(path, environment, home)))
    return found


def _has_hdf5(binary: Binary) -> bool:
    """Say whether HDF5 is part of a program's file, and not a shared library."""
    shared = binary.elf is None or any("hdf5" in library for library in binary.elf.needed)
    return not shared and binary.kind is FileKind.ELF and contains(binary.path, b"HDF5 library version: ")


def _without_mpi(binaries: Sequence[Binary], line: CommandLine, mpi: Mpi | None) -> str:
    """Say of programs that can do no MPI-IO why; empty where they do, or may start others that do."""
    if mpi is not None and not mpi.found_by.startswith(WITH_LAUNCHER):
        return ""
    for segment, binary in zip(line.segments, binaries, strict=True):
        others = binary.kind is FileKind.SCRIPT or starts_others(segment.program[0])
        if others or binary.elf is None or contains(binary.path, b"MPI_"):
            return ""
    return f"{line.program[0]} uses no MPI library"


def check_placeholders(words: Sequence[str], arguments: Mapping[str, str], known: Mapping[str, str]) -> list[str]:
    """Check that every parameter passed as an argument has its place in the command.

    Parameters
    ----------
    words : sequence of str
    arguments : mapping
        Parameter name to the placeholder that stands for it.
    known : mapping
        All placeholders that will be replaced.

    Returns
    -------
    list of str
        Warnings: braces that will not be replaced.

    Raises
    ------
    UserError
        If a parameter has no place: its values would all run the same program.
    """
    written = placeholders(words)
    for name, key in arguments.items():
        if not {name, key} & written:
            raise UserError(
                f"parameter {name} is passed as an argument, but {{{key}}} does not stand in the command",
                f"write {{{key}}} where its value belongs, or set 'carrier' for it",
            )
    return [
        f"{{{name}}} in the command is not a parameter and is passed on as it is"
        for name in sorted(written - known.keys())
    ]


def _inspect(word: str, environment: Mapping[str, str], cwd: Path, home: Path) -> Binary:
    try:
        path = find_program(word, environment, home)
    except UserError:
        if home == cwd:
            raise
        path = find_program(word, environment, cwd)
    return inspect(path, environment, cwd)


def _check_family(mpi: Mpi, launcher: Path, environment: Mapping[str, str], probing: Probing) -> None:
    library = library_of_launcher(launcher)
    if library is None:
        return
    theirs = describe(library, environment, probing=probing)
    if {theirs.abi, mpi.abi} == {"mpich", "openmpi"}:
        raise UserError(
            f"{launcher} belongs to {_NAMES[theirs.abi]}, but the program is built with {_NAMES[mpi.abi]} "
            f"({mpi.path}): each rank would run as a job of its own",
            f"use the launcher of {_NAMES[mpi.abi]}",
        )


def _digest(path: Path) -> str:
    try:
        state = path.stat()
        if state.st_size > _HASHED:
            return f"{state.st_size} bytes of {state.st_mtime_ns}"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]
    except OSError:
        return "not readable"
