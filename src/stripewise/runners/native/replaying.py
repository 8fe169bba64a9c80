"""Building stripewise-replay, which carries out a record, for a program's MPI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.errors import UserError
from stripewise.observe.record import Record
from stripewise.requests.experiment import Replay
from stripewise.runners.native.build import REPLAYER, REPLAYER_HDF5, build
from stripewise.runners.native.compiler import compiler_of_launcher, find_compiler
from stripewise.runners.program.command import CommandLine, split_command
from stripewise.runners.program.mpi import Mpi
from stripewise.runners.replayer import Replayer

_FOLDER = "stripewise-replay"


def make_replayer(
    replay: Replay, record: Record, command: Sequence[str], environment: Mapping[str, str], mpi: Mpi | None = None
) -> Replayer:
    """Build the program for an MPI, and check that the launcher starts as many ranks as recorded.

    Parameters
    ----------
    replay : Replay
    record : Record
        Which it names.
    command : sequence of str
        A launcher, and the program that the replay stands for.
    environment : mapping
    mpi : Mpi, optional
        The program's; by default the launcher's.

    Raises
    ------
    UserError
        If the record cannot be replayed with this launcher.
    """
    line, folder = check_replayable(replay, record, command)
    compiler = compiler_of_launcher(line.launcher or None, environment) if mpi is None else None
    compiler = compiler or find_compiler(mpi, None, environment)
    program = build(REPLAYER_HDF5 if record.uses_hdf5 else REPLAYER, compiler, environment).path
    placed = replay.model_copy(update={"record": str(Path(replay.record).absolute()), "folder": folder})
    return Replayer(line.segments[0].before, program, placed, record)


def check_replayable(replay: Replay, record: Record, command: Sequence[str]) -> tuple[CommandLine, str]:
    """Check a record and the command that its replays take the place of; nothing is built.

    Returns
    -------
    tuple of (CommandLine, str)
        The command, taken apart, and the folder for the files of replays.

    Raises
    ------
    UserError
        If the record cannot be replayed with this launcher.
    """
    if record.gaps:
        raise UserError(f"{replay.record} is incomplete and cannot be replayed: {record.gaps[0]}", "record it again")
    if replay.folder and Path(replay.folder).resolve() == Path(record.folder).resolve():
        raise UserError(
            f"a replay in {replay.folder} would overwrite and delete the program's own files, which lie there",
            "name another folder",
        )
    line = split_command(command)
    if len(line.segments) != 1:
        raise UserError("a replay takes the place of one program, and the command starts several", "name one")
    if line.ranks not in (None, record.ranks):
        raise UserError(
            f"{replay.record} is of {record.ranks} ranks, and the launcher starts {line.ranks}",
            f"start {record.ranks}, or record the program with {line.ranks}",
        )
    return line, replay.folder or str(_make_folder_beside(record))


def _make_folder_beside(record: Record) -> Path:
    """A folder beside the program's own files, on the same file system."""
    folder = Path(record.folder)
    if not folder.is_dir():
        raise UserError(
            f"the record's files were in {folder}, which does not exist here",
            "name a folder on the file system that is to be measured with --directory",
        )
    return folder / _FOLDER
