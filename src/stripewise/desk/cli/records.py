"""``stripewise lab record`` and ``lab replay``."""

from __future__ import annotations

import contextlib
import json
import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.help import ProgramCommand, shown_as
from stripewise.desk.cli.options import JsonOption, check_place
from stripewise.desk.cli.output import escape, notes, number, print_json, prose, remark, write_text
from stripewise.desk.cli.plan_run import ended_as, started_as_by_shell
from stripewise.documents import read_document
from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.engine.folders import make_applied_folder
from stripewise.errors import StripewiseError, UserError
from stripewise.formats import MAX_RECORD_BYTES
from stripewise.observe.left import calls_in, parts_in
from stripewise.observe.record import Record, with_hashed_paths
from stripewise.observe.record_joining import join_threads
from stripewise.observe.record_reading import parse_record, read_record
from stripewise.observe.sources import open_one
from stripewise.ownership import make_folder, written_whole
from stripewise.requests.experiment import Replay
from stripewise.runners.injection import OWN_CALLS, Guidance, prepare
from stripewise.runners.local.foreground import attend
from stripewise.runners.native.replaying import make_replayer
from stripewise.runners.program.mpi import mpiexec
from stripewise.sizes import count_of, format_size


class _ReplayCommand(ProgramCommand):
    """``replay``, which a launcher follows."""

    def collect_usage_pieces(self, ctx: object) -> list[str]:
        """Give the parts of the usage line."""
        return [piece.replace("COMMAND", "LAUNCHER") for piece in super().collect_usage_pieces(ctx)]


_RANKS_A_CORE = 64


@shown_as(_ReplayCommand)
def replay(
    context: typer.Context,
    record: Annotated[Path, typer.Argument(help="A record, as the command record writes it.", metavar="RECORD")],
    directory: Annotated[
        Path | None,
        typer.Option(help="Folder for the files of the replay. Default: one beside the program's.", metavar="FOLDER"),
    ] = None,
    think: Annotated[bool, typer.Option("--think", help="Pause before each call as long as the program did.")] = False,
    steps: Annotated[
        int | None, typer.Option(help="Open at most so many of files whose names differ in numbers only.", min=1)
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(help="Make each call at most so many times on an open file.", min=1)
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Carry out what a program did to its files, by its record, and say how faithful that is.

    As many ranks as were recorded make the same calls, with data of their own, on files of their own that are deleted
    in the end. A launcher may follow two dashes: stripewise lab replay my_app.record -- srun -N 4 -n 64
    """
    found = read_record(record)
    if not context.obj["command"] and found.ranks > (most := _RANKS_A_CORE * len(os.sched_getaffinity(0))):
        raise UserError(
            f"{record} has {found.ranks:,} ranks, and this machine alone replays at most {most}",
            f"start them by a launcher: replay {record} -- srun -n {found.ranks}",
        )
    launcher = context.obj["command"] or [mpiexec(os.environ), "-n", str(found.ranks)]
    options = Replay(
        record=str(record),
        folder=str(directory.absolute()) if directory is not None else "",
        think=think,
        steps=steps,
        repetitions=repetitions,
    )
    replayer = make_replayer(options, found, [*launcher, "stripewise-replay"], os.environ)
    files = Path(replayer.replay.folder)
    made = not files.exists()
    folder = make_applied_folder()[0] / f"replay-{time.time_ns():x}"
    ended = attend(replayer.words("prepare"))  # apart: HDF5 makes its files with calls that are not the program's
    counts = folder / "counts.json"
    if not ended and found.is_posix:
        make_folder(folder)
        ended = attend([*replayer.words("calls", "clean"), "--counts", str(counts)])
    elif not ended:
        ready = prepare(Plan(), replayer.words("calls", "clean"), folder, guidance=Guidance("observe"))
        ended = attend(ready.words)
    if made:
        with contextlib.suppress(OSError):  # after a failure there are files in it
            files.rmdir()
    if ended:
        raise typer.Exit(ended_as(ended))
    if found.is_posix:
        done = Done.by_counts(json.loads(counts.read_text("utf-8")))
    else:
        done = Done.by_activity(open_one(folder / "report.json"), found)
    compared = Faithfulness(Done.by_record(found), done, options.whole)
    document = compared.as_json()
    if json_output:
        print_json({"record": str(record), "directory": replayer.replay.folder, "ranks": found.ranks, **document})
        return
    own, theirs = compared.replay, compared.program
    prose(
        f"replayed {count_of(sum(own.calls.values()), 'call')} of {count_of(found.ranks, 'rank')}, "
        f"{format_size(own.written)} written, "
        f"{format_size(own.read)} read, in {number(own.io_time, 's')} of I/O; the program: "
        f"{count_of(sum(theirs.calls.values()), 'call')}, "
        f"{format_size(theirs.written)} written, {format_size(theirs.read)} read, {number(theirs.io_time, 's')}"
    )
    for difference in compared.differences:
        prose(f"not faithful: {difference}")
    if not compared.differences:
        prose(f"faithful: {number(compared.ratio)} times the program's I/O time" + ("" if options.whole else " a byte"))


class Level(StrEnum):
    """At which calls a program is recorded."""

    HDF5 = "hdf5"
    MPI_IO = "mpi-io"


@shown_as(ProgramCommand)
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
    """Record what a program does to its files, as in: stripewise lab record -- mpiexec -n 4 ./my_app.

    The record says which files each rank opened, and which calls it made with which views, offsets and sizes, in which
    order and after which pauses: calls of MPI-IO and HDF5, or of the C library where the program has no MPI. It holds
    no data. Output, signals and exit code are the program's.
    """
    command: list[str] = context.obj["command"]
    if not command:
        raise UserError("the command names no program", "write it after two dashes: record -- mpiexec -n 4 ./my_app")
    check_place("--output", output, replaced=False)
    applied, elsewhere = make_applied_folder()
    if elsewhere:
        notes.print(f"stripewise: {escape(elsewhere)}")
    folder = applied / f"record-{time.time_ns():x}"
    place = folder / "record"
    with started_as_by_shell():
        ready = prepare(Plan(), command, folder, guidance=Guidance("observe", record=place, level=level.value))
        ended = attend(ready.words)
    try:
        if not place.exists():
            _join(folder, place)
        remarks = _keep(place, output, hash_paths=hash_paths)
    except (StripewiseError, OSError) as error:
        # The program may have done all that it should: its exit code stays.
        remarks, quiet = [f"there is no record in {output}: {error}"], False
    for line in () if quiet else remarks:
        remark(f"stripewise: {line}")
    raise typer.Exit(ended_as(ended))


_NOTHING = "the program neither called MPI_Init with the preloaded runtime nor used files without MPI, or was killed"


def _join(folder: Path, place: Path) -> None:
    """Write the record of a program without MPI from what its threads left.

    Raises
    ------
    StripewiseError
        If they left nothing.
    """
    paths = calls_in(folder)
    try:
        text = join_threads(paths)
    except ValueError as error:
        raise StripewiseError(_NOTHING) from error
    with written_whole(place) as part:
        part.write_text(text, "utf-8", "surrogateescape")
    for path in (*paths, *parts_in(folder)):
        path.unlink()


def _keep(place: Path, output: Path, *, hash_paths: bool) -> list[str]:
    """Write the record where it was asked for, and give what is to be said about it.

    Raises
    ------
    StripewiseError
        If there is none, or it is damaged or cannot be written.
    """
    text = read_document(place, "record", most=MAX_RECORD_BYTES, errors="surrogateescape")
    found = parse_record(text, str(place))
    write_text(output, with_hashed_paths(text) if hash_paths else text, f"make room; the whole record is kept: {place}")
    place.unlink()
    return _list_remarks(found, output, len(text))


def _list_remarks(found: Record, output: Path, size: int) -> list[str]:
    moved = found.moved
    whose = f", at most {found.ranks} at a time" if found.is_posix else f" of {count_of(found.ranks, 'rank')}"
    did = (
        f"{count_of(found.count(), 'call')}{whose}, {format_size(moved['write'])} "
        f"written, {format_size(moved['read'])} read"
    )
    if nearest := sum(group.nearest for group in found.groups):
        types = count_of(sum(len(group.types) for group in found.groups), "datatype")
        did += f"; {nearest} of {types} irregular, so their nearest regular form is kept"
    gaps = [f"the record is incomplete: {gap}" for gap in found.gaps]
    if not found.count() and not gaps:
        gaps = [f"the program called neither MPI-IO nor parallel HDF5, so nothing can be replayed; {OWN_CALLS}"]
    return [f"{did}; {format_size(size)} in {output}", *gaps]
