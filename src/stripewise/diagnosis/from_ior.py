"""Output of IOR as an activity: sizes and times, as far as IOR prints them."""

from __future__ import annotations

from bisect import bisect_left

from stripewise.measure.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Calls,
    Counted,
    FileActivity,
    Level,
    Modes,
)
from stripewise.measure.ior import IorOutput, IorRow
from stripewise.spec.formats import SIZE_LIMITS, SIZE_NAMES

_UNSEEN = (
    "IOR prints sizes and times of a whole run: order, alignment and single ranks are not judged",
    "IOR's figures are its own; what the MPI library made of its calls is not known",
    "IOR prints the time of its I/O only: its part of the whole run is not known",
)
_YES = ("1", "true", "yes", "collective")


def _option(output: IorOutput, *names: str) -> str:
    found = {name.lower(): value for name, value in output.options.items()}
    return next((str(found[name]) for name in names if name in found), "")


def _number(output: IorOutput, *names: str) -> int | None:
    digits = _option(output, *names).split(" ")[0]
    return int(digits) if digits.isdigit() else None


def _calls(rows: list[IorRow], ranks: int) -> Calls:
    """All repetitions of one direction; the bytes follow from bandwidth and time."""
    moved = round(sum(row.bandwidth * 2**20 * (row.total or 0.0) for row in rows))
    transfer = next((row.transfer for row in rows if row.transfer), None)
    count = round(moved / transfer) if transfer else 0
    sizes = [0] * len(SIZE_NAMES)
    if transfer:
        sizes[bisect_left(SIZE_LIMITS, transfer)] = count
    return Calls(
        count=count,
        bytes=moved,
        seconds=sum(row.moving or row.total or 0.0 for row in rows) * ranks,
        sizes=sizes if count else [],
        common=[(transfer, count)] if transfer and count else [],
        largest=transfer,
    )


def activity_of(output: IorOutput, source: str) -> Activity:
    """Give the output of IOR as an activity.

    Parameters
    ----------
    output : IorOutput
    source : str
        Where it came from.
    """
    ranks = max(1, _number(output, "tasks", "clients", "numtasks") or 1)
    nodes = _number(output, "nodes", "numnodes")
    rows = {way: [row for row in output.rows if row.access == way] for way in ("write", "read")}
    read, write = _calls(rows["read"], ranks), _calls(rows["write"], ranks)
    repeats = max(1, len(rows["write"]), len(rows["read"]))
    own = _option(output, "access") == "file-per-process" or _option(output, "fileperproc").lower() in _YES
    meta = [row for way in rows.values() for row in way]
    level = Level(
        read=read,
        write=write,
        opens=repeats * ranks,
        meta_seconds=sum((row.open or 0.0) + (row.close or 0.0) for row in meta) * ranks,
    )
    api = _option(output, "api").lower()
    mpiio = api.startswith("mpiio")
    collective = _option(output, "type", "collective").lower() in _YES
    counts = {
        f"{'collective' if collective else 'independent'}_{way}s": calls.count
        for way, calls in (("read", read), ("write", write))
    }
    path = _option(output, "test filename", "testfilename") or "IOR's file"
    size = next((row.block for row in meta if row.block), None)
    file = FileActivity(
        path=path,
        ranks=1 if own else ranks,
        nodes=nodes,
        mpiio=level if mpiio else None,
        posix=None if mpiio else level,
        modes=Modes(**counts) if mpiio else None,
        size=size * (1 if own else ranks) if size else None,
    )
    elapsed = sum(row.total or 0.0 for row in meta)
    files = ranks if own else 1
    return Activity(
        source=source,
        kind="ior",
        version=output.version,
        job=ActivityJob(executable=output.command or "ior", ranks=ranks, nodes=nodes),
        seen=["MPI-IO" if mpiio else "POSIX"],
        unseen=list(_UNSEEN),
        io_seconds=elapsed,
        summed_seconds=file.seconds,
        totals=ActivityTotals(mpiio=level, modes=Modes(**counts)) if mpiio else ActivityTotals(posix=level),
        counted=Counted(
            files=files,
            shared=0 if own else 1,
            written_single=files if own and write.bytes else 0,
            writers=files if own and write.bytes else 0,
        ),
        files=[file],
    )
