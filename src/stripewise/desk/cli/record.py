"""``stripewise lab record``."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.apply import end_as, started_as_by_shell
from stripewise.desk.cli.help import Commands, ProgramCommand
from stripewise.desk.cli.options import check_place
from stripewise.desk.cli.output import notes, write_text
from stripewise.documents import read_document
from stripewise.engine.folders import state_folder
from stripewise.errors import UserError
from stripewise.formats import MAX_RECORD_BYTES
from stripewise.observe.record import Record, with_hashed_paths
from stripewise.observe.record_reading import parse_record
from stripewise.runners.injection import Guidance, prepare
from stripewise.runners.local.foreground import attend


class Level(StrEnum):
    """At which calls a program is recorded."""

    HDF5 = "hdf5"
    MPI_IO = "mpi-io"


def register(app: Commands) -> None:
    """Add the command."""
    app.command("record", cls=ProgramCommand)(record)


def record(
    context: typer.Context,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the record to this file.", metavar="FILE")
    ] = Path("program.record"),
    hash_paths: Annotated[
        bool, typer.Option("--hash-paths", help="Replace the names in paths by hashes, to send the record on.")
    ] = False,
    level: Annotated[
        Level,
        typer.Option(help="What is recorded of programs that use HDF5: their calls of HDF5, or of MPI-IO beneath."),
    ] = Level.HDF5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the output of the program.")] = False,
) -> None:
    """Record what a program does in MPI-IO and HDF5, as in: stripewise lab record -- mpiexec -n 4 ./my_app.

    The record says which files each rank opened, and which calls it made with which views, offsets and sizes, in which
    order and after which pauses. It holds no data. Output, signals and exit code are the program's.
    """
    command: list[str] = context.obj["command"]
    if not command:
        raise UserError("the command names no program", "write it after two dashes: record -- mpiexec -n 4 ./my_app")
    check_place("--output", output)
    folder = state_folder() / "applied" / f"record-{time.time_ns():x}"
    place = folder / "record"
    with started_as_by_shell():
        ready = prepare(Plan(), command, folder, guidance=Guidance("observe", record=place, level=level.value))
        ended = attend(ready.words)
    if not place.exists():
        notes.print(
            "stripewise: nothing was recorded: the program called no MPI_Init with the preloaded runtime, or was killed"
        )
        end_as(ended or 1)
    text = read_document(place, "record", most=MAX_RECORD_BYTES)
    found = parse_record(text, str(place))
    write_text(output, with_hashed_paths(text) if hash_paths else text, f"make room; the whole record is kept: {place}")
    place.unlink()
    if not quiet:
        for line in _said(found, output, len(text)):
            notes.print(f"stripewise: {escape(line)}")
    end_as(ended)


def _said(found: Record, output: Path, size: int) -> list[str]:
    moved = found.moved
    did = f"{found.count():,} calls of {found.ranks} ranks, {moved['write']:,} bytes written, {moved['read']:,} read"
    return [f"{did}; {size:,} bytes in {output}", *(f"the record is incomplete: {gap}" for gap in found.gaps)]
