"""Output of IOR as activities, one per run: sizes and times, as far as IOR prints them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

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
from stripewise.observe.ior import IorOutput, IorRow, IorRun

_UNSEEN = (
    "IOR prints sizes and times of a whole run: order, alignment and single ranks are not judged",
    "IOR's figures are its own; what the MPI library made of its calls is not known",
    "IOR prints the time of its I/O only: its part of the whole run is not known",
)
_NAMES = {"posix": "POSIX", "mpiio": "MPI-IO", "hdf5": "HDF5", "pnetcdf": "PnetCDF"}
_ON_MPI_IO = ("mpiio", "hdf5", "pnetcdf")
"""Interfaces through which each of IOR's transfers becomes one call of MPI-IO."""


def activities_of(output: IorOutput, source: str) -> list[Activity]:
    """Give each run of an output as an activity.

    Parameters
    ----------
    output : IorOutput
    source : str
        Where it came from. Of several runs, each has its number behind it.
    """
    if len(output.runs) == 1:
        return [_activity(output.runs[0], source)]
    return [_activity(run, f"{source} (run {number})") for number, run in enumerate(output.runs, 1)]


def _calls(rows: Sequence[IorRow], run: IorRun) -> Calls:
    """All repetitions of one direction."""
    moved, transfer = sum(row.moved or 0 for row in rows), run.transfer
    count = -(-moved // transfer) if transfer else 0
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


def _activity(run: IorRun, source: str) -> Activity:
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
    unseen = list(_UNSEEN)
    if run.api and run.api not in _NAMES:
        unseen.append(f"IOR used the interface {run.api}, whose calls are judged as POSIX calls")
    whole = max((row.moved or 0 for row in run.rows), default=0)
    file = FileActivity(
        path=run.path or "IOR's file",
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
        kind="ior",
        version=run.version,
        job=ActivityJob(executable=run.command or "ior", ranks=ranks, nodes=run.nodes),
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
