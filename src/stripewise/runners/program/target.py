"""What must be known of a program before its first run, and what would make every run fail."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from stripewise.catalogue.carriers import Program, own_files
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.interpreter import PROBING, Probing
from stripewise.runners.program.binary import Binary, FileKind, find_program, inspect
from stripewise.runners.program.command import CONTAINERS, CommandLine, placeholders, split_command, starts_others
from stripewise.runners.program.elf import contains
from stripewise.runners.program.mpi import WITH_LAUNCHER, Mpi, describe, find_mpi, library_of_launcher, script_of

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
    binary : Binary
        The (first) program's file.
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

    def workload(self) -> Workload:
        """What the command line says of the workload."""
        alone = not self.line.launcher and self.binary.kind is FileKind.ELF and self.mpi is not None
        return workload_of(self.line, 1 if alone else None)

    def fingerprint(self) -> dict[str, str]:
        """What must not change between runs that are compared."""
        found = {"the program": f"{self.binary.path} ({_digest(self.binary.path)})"}
        if self.script is not None:
            found["the script"] = f"{self.script} ({_digest(self.script)})"
        if self.mpi is not None:
            found |= {MPI_LIBRARY: str(self.mpi.path), MPI_VERSION: self.mpi.version}
        return found


def workload_of(line: CommandLine, ranks: int | None = None) -> Workload:
    """Give what a command line says of the workload; ``ranks`` are those of a program without a launcher."""
    ranks, nodes = line.ranks or ranks, line.nodes
    if ranks is None:
        return Workload(nodes=nodes)
    launcher = PurePath(line.launcher).name
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

    def executable(word: str) -> bool:
        try:
            find_program(word, environment, cwd)
        except UserError:
            return False
        return True

    line = split_command(words, executable)
    for name, number in (("ranks", line.ranks), ("nodes", line.nodes)):
        if number is not None and number < 1:
            raise UserError(f"the command asks {line.launcher} for {number} {name}", "ask for 1 or more")
    find_program(words[0], environment, cwd)
    launcher = find_program(line.launcher, environment, cwd) if line.launcher else None
    home = cwd / line.folder if line.folder else cwd
    binaries = [_inspect(segment.program[0], environment, cwd, home) for segment in line.segments if segment.program]
    if len(binaries) < len(line.segments):
        raise UserError(f"a part of the command has no program: {' '.join(words)}", "write one after each colon")
    mpi, missing = find_mpi(
        line.program,
        binaries[0],
        launcher,
        environment={**environment, **line.environment},
        cwd=home,
        mca=line.mca,
        probing=probing,
    )
    if missing:
        raise UserError(
            f"{line.program[0]} asks for {missing}, which is not found",
            "load its module (tune --setup does it for each run), or set LD_LIBRARY_PATH",
        )
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
    program = Program(
        abi=mpi.abi if mpi else "",
        io=mpi.io if mpi else None,
        cray=cray,
        obstacle=obstacle,
        environment={**environment, **line.environment},
        without_mpi=_without_mpi(binaries, line, mpi),
        version=mpi.version if mpi else "",
        own_files=own_files(words, cwd),
        hdf5_inside=inside is not None,
    )
    return Target(line, binaries[0], mpi, program, launcher, script_of(line.program, home), tuple(warnings))


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
    name = PurePath(word).name
    if name in CONTAINERS:
        raise UserError(
            f"the program is started in a container by {name}, into which this version brings no settings",
            "run stripewise inside the container",
        )
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
