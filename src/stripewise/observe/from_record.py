"""The record of a program as an activity: what was called, without the times of single calls."""

from __future__ import annotations

from stripewise.observe import from_report
from stripewise.observe.activity import Activity, Calls, FileActivity, Level, RankLoads
from stripewise.observe.record import Record
from stripewise.observe.recorded import summed
from stripewise.observe.recorded_places import BLOCK, Places, places_of

_WAYS = ("read", "write")
_MOST_RANKS = 1_000_000
"""Ranks whose bytes are listed one by one."""
_UNSEEN = (
    "a record holds the calls of MPI-IO: other POSIX files and streams are not judged",
    "a record does not say what the MPI library made of the calls, nor how files lie on storage: these are not judged",
)
_HDF5 = (
    "the record holds the calls of HDF5: each transfer of a dataset counts as one call of MPI-IO, and what HDF5 does "
    "with metadata is not judged"
)


def activity_of(record: Record, source: str) -> Activity:
    """Give a record as an activity.

    A record has no times of calls. Its job's time in I/O is shared out over the bytes, so that findings weigh by the
    part of the bytes that they concern; what only times can tell is not found.

    Parameters
    ----------
    record : Record
    source : str
        Where it came from.

    Raises
    ------
    UserError
        If it has too many calls to go through, or is damaged.
    """
    found = summed(record)
    made = from_report.activity_of(found.report, source)
    unseen = [_times(record), *_UNSEEN]
    if found.rest is not None and found.counted is not None:
        whole = found.report.model_copy(update={"files": [*found.report.files, found.rest]})
        made = made.model_copy(
            update={"totals": from_report.activity_of(whole, source).totals, "counted": found.counted}
        )
        listed = len(found.report.files)
        unseen.append(
            f"findings that judge each file look at the first {listed:,} files of the record: "
            f"{found.counted.files - listed:,} others count in the sums only"
        )
    if record.uses_hdf5:
        unseen.append(_HDF5)
    moved = sum(record.moved.values())
    cost = record.io_time * record.ranks / moved if moved else 0.0
    places = places_of(record)
    files = sorted((_file(file, cost, places.get(file.path)) for file in made.files), key=lambda file: -file.bytes)
    ranks = None
    if record.ranks <= _MOST_RANKS:
        loads = record.rank_bytes()
        ranks = RankLoads(source="record", read=loads["read"], written=loads["write"])
    else:
        unseen.append(f"the bytes of each rank are listed for at most {_MOST_RANKS:,} ranks: balance is not judged")
    return made.model_copy(
        update={
            "kind": "record",
            "timed": False,
            "unseen": [*unseen, *(f"the record is incomplete: {gap}" for gap in record.gaps)],
            "files": files,
            "moved": moved,
            "summed_seconds": moved * cost,
            "ranks": ranks,
            "totals": made.totals.model_copy(update={"mpiio": _level(made.totals.mpiio, cost)}),
        }
    )


def _times(record: Record) -> str:
    pauses = f"{record.think_time:.3g} s of the {record.elapsed:.3g} s that the job ran"
    return (
        f"a record has no times but the pauses between calls (think time: {pauses}): slow calls, ranks and servers are "
        "not judged, and a finding weighs by the part of the bytes that it concerns"
    )


def _file(file: FileActivity, cost: float, places: Places | None) -> FileActivity:
    if file.mpiio is None:
        return file
    level = _level(file.mpiio, cost)
    if places is not None:
        reached = {way: getattr(level, way).model_copy(update={"extent": places.extent(way)}) for way in _WAYS}
        known = not places.unknown
        off = {"unaligned_file": round(places.unaligned), "file_alignment": BLOCK} if known else {}
        level = level.model_copy(update={**reached, **off})
    return file.model_copy(update={"mpiio": level})


def _level(level: Level, cost: float) -> Level:
    def timed(calls: Calls) -> Calls:
        return calls.model_copy(update={"seconds": calls.bytes * cost})

    return level.model_copy(update={"read": timed(level.read), "write": timed(level.write)})
