"""Runs of I/O benchmarks, whatever program measured them: as activities, and as rows of a table.

Each benchmark has a module that reads its outputs and gives these.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from stripewise.formats import SIZE_LIMITS, SIZE_NAMES
from stripewise.observe.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Calls,
    Counted,
    FileActivity,
    Level,
    Modes,
)
from stripewise.observe.source import Row

Layout = Literal["segmented", "strided", "random"]
_NAMES = {"posix": "POSIX", "mpiio": "MPI-IO", "hdf5": "HDF5", "pnetcdf": "PnetCDF"}
_ON_MPI_IO = ("mpiio", "hdf5", "pnetcdf")
"""Interfaces through which each transfer of a benchmark becomes one call of MPI-IO."""


def read_options(command: str, flags: str) -> dict[str, str]:
    """Give the options of a benchmark's command line with their values.

    Parameters
    ----------
    command : str
        As the benchmark prints it; its first word is the program.
    flags : str
        Letters of the options without a value, which may be joined (``-wr``); their values are empty.
    """
    try:
        words = shlex.split(command)[1:]
    except ValueError:
        words = command.split()[1:]
    found: dict[str, str] = {}
    last = ""
    for word in words:
        if re.fullmatch(rf"-[{flags}]+", word):
            found |= dict.fromkeys([f"-{letter}" for letter in word[1:]], "")
            last = ""
        elif re.match(r"-[A-Za-z]", word):
            last, value = word[:2], word[2:].removeprefix("=")
            found[last] = value
            last = "" if value else last
        elif last:
            found[last] = word
            last = ""
    return found


@dataclass(frozen=True)
class BenchmarkRow:
    """One access of one repetition, or the mean of all where the output has no more.

    Attributes
    ----------
    access : {"write", "read"}
    bandwidth : float
        MiB/s.
    moved : int or None
        Bytes of all tasks. A test that ends at a deadline moves less than its sizes say.
    open, moving, close, total : float or None
        Seconds; None where the output does not tell them.
    calls : int or None
        Where the output tells them; else as many as the transfer size makes of the bytes.
    """

    access: str
    bandwidth: float
    moved: int | None = None
    open: float | None = None
    moving: float | None = None
    close: float | None = None
    total: float | None = None
    calls: int | None = None


@dataclass(frozen=True)
class BenchmarkRun:
    """One test of a benchmark: what it was asked to do, and what it measured. What the output does not tell is None.

    Attributes
    ----------
    version, command : str
        Empty where the form does not carry them.
    api : str or None
        ``posix``, ``mpiio``, ``hdf5``, ``pnetcdf``, or the benchmark's own name of another interface in lower case.
    path : str or None
        Of the file, without the number of a task.
    nodes, tasks, segments : int or None
    block, transfer : int or None
        Bytes.
    layout : {"segmented", "strided", "random"} or None
        Where one task's calls lie in a file. That tasks read what others wrote (``-C``, ``-Z`` of IOR) does not change
        it.
    collective, file_per_process : bool or None
    rows : tuple of BenchmarkRow
    apart : bool
        Whether reads and writes ran at the same time, or past the memory of the nodes: then each direction is a job of
        its own, for their times do not add up, and no read is answered by what was written.
    more : mapping
        Columns that only this benchmark has.
    """

    version: str = ""
    command: str = ""
    api: str | None = None
    path: str | None = None
    nodes: int | None = None
    tasks: int | None = None
    segments: int | None = None
    block: int | None = None
    transfer: int | None = None
    layout: Layout | None = None
    collective: bool | None = None
    file_per_process: bool | None = None
    rows: tuple[BenchmarkRow, ...] = ()
    apart: bool = False
    more: Mapping[str, bool | int | str | None] = field(default_factory=dict)


def rows_of(runs: Sequence[BenchmarkRun]) -> list[Row]:
    """Give one row for each access of each repetition; None where the output does not tell."""
    return [
        {
            "operation": row.access,
            "nodes": run.nodes,
            "processes": run.tasks,
            "api": run.api,
            "file_size": row.moved,
            "transfer_size": run.transfer,
            "layout": run.layout,
            "collective": run.collective,
            "file_per_process": run.file_per_process,
            **run.more,
            "bandwidth": row.bandwidth,
        }
        for run in runs
        for row in run.rows
    ]


def activities_of(runs: Sequence[BenchmarkRun], source: str, kind: str, title: str) -> list[Activity]:
    """Give each run as an activity.

    Parameters
    ----------
    runs : sequence of BenchmarkRun
    source : str
        Where they came from. Of several runs, each has its number behind it, and its direction if they are apart.
    kind, title : str
        The name of the benchmark, as activities have it and as people write it.
    """
    found = []
    for number, run in enumerate(runs, 1):
        name = source if len(runs) == 1 else f"{source} (run {number})"
        ways = list(dict.fromkeys(row.access for row in run.rows))
        if not run.apart or len(ways) == 1:
            found.append(_activity(run, name, kind, title))
            continue
        for way in ways:
            part = replace(run, rows=tuple(row for row in run.rows if row.access == way))
            found.append(_activity(part, f"{name} ({way}s)", kind, title))
    return found


def _calls(rows: Sequence[BenchmarkRow], run: BenchmarkRun) -> Calls:
    """All repetitions of one direction."""
    moved, transfer = sum(row.moved or 0 for row in rows), run.transfer
    told = [row.calls for row in rows if row.calls is not None]
    count = sum(told) if told else -(-moved // transfer) if transfer else 0
    sizes = [0] * len(SIZE_NAMES)
    if transfer:
        sizes[bisect_left(SIZE_LIMITS, transfer)] = count
    return Calls(
        count=count,
        bytes=moved,
        seconds=sum(row.moving or row.total or 0.0 for row in rows) * (run.tasks or 1),
        sizes=sizes if count else [],
        common=[(transfer, count)] if transfer and count else [],
        largest=transfer,
    )


def _activity(run: BenchmarkRun, source: str, kind: str, title: str) -> Activity:
    ranks, own = max(1, run.tasks or 1), bool(run.file_per_process)
    ways = {way: [row for row in run.rows if row.access == way] for way in ("write", "read")}
    read, write = _calls(ways["read"], run), _calls(ways["write"], run)
    level = Level(
        read=read,
        write=write,
        opens=max(map(len, ways.values())) * ranks,
        meta_seconds=sum((row.open or 0.0) + (row.close or 0.0) for row in run.rows) * ranks,
    )
    # What is listed is one file: of those that each task has for itself, one stands for all.
    listed = level.model_copy(update={"opens": level.opens // ranks}) if own else level
    mode = "collective" if run.collective else "independent"
    modes = Modes(**{f"{mode}_{way}s": calls.count for way, calls in (("read", read), ("write", write))})
    mpiio = run.api in _ON_MPI_IO
    unseen = [
        f"{title} prints sizes and times of a whole run: order, alignment and single ranks are not judged",
        f"the figures are {title}'s own; what the libraries below made of its calls is not known",
        f"{title} prints the time of its I/O only: its part of the whole run is not known",
    ]
    if run.api and run.api not in _NAMES:
        unseen.append(f"{title} used the interface {run.api}, whose calls are judged as POSIX calls")
    whole = max((row.moved or 0 for row in run.rows), default=0)
    file = FileActivity(
        path=run.path or f"{title}'s file",
        ranks=1 if own else ranks,
        nodes=run.nodes,
        mpiio=listed if mpiio else None,
        posix=None if mpiio else listed,
        hdf5=listed if run.api == "hdf5" else None,
        pnetcdf=listed if run.api == "pnetcdf" else None,
        modes=modes if mpiio else None,
        size=whole // (ranks if own else 1) or None,
    )
    files = ranks if own else 1
    return Activity(
        source=source,
        kind=kind,
        version=run.version,
        job=ActivityJob(executable=run.command or kind, ranks=ranks, nodes=run.nodes),
        seen=list(dict.fromkeys([_NAMES.get(run.api or "posix", "POSIX"), "MPI-IO" if mpiio else "POSIX"])),
        unseen=unseen,
        io_seconds=sum(row.total or 0.0 for row in run.rows),
        summed_seconds=file.seconds,
        totals=ActivityTotals(mpiio=level, modes=modes) if mpiio else ActivityTotals(posix=level),
        counted=Counted(
            files=files,
            shared=0 if own else 1,
            written_single=files if own and write.bytes else 0,
            writers=files if own and write.bytes else 0,
        ),
        files=[file],
    )
