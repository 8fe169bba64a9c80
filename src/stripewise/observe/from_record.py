"""The record of a program as an activity: what was called, without the times of single calls.

Where the calls of a record lie in its files: how far they reach, and which begin off the blocks of file systems.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stripewise.formats import RECORD_LINES
from stripewise.observe import from_report
from stripewise.observe.activity import Activity, Calls, FileActivity, Level, RankLoads
from stripewise.observe.record import RankGroup, Record, is_collective, not_open
from stripewise.observe.record_hdf5 import OPENS, is_hdf5
from stripewise.observe.record_reading import Position
from stripewise.observe.recorded import summed

BLOCK = 4096
"""Bytes of a file system's block, where nothing else is known."""


@dataclass
class Places:
    """Where the calls on a file lie.

    Attributes
    ----------
    spans : dict
        By direction the first byte and the one after the last.
    unknown : set of str
        Directions with calls whose place a record does not tell: by shared pointers, or beneath HDF5.
    unaligned : float
        Independent calls in one piece that begin off the blocks.
    """

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    unaligned: float = 0.0

    def extent(self, way: str) -> int | None:
        """Bytes from the first to the last that calls of a direction reach; None where that is not known."""
        if way in self.unknown or way not in self.spans:
            return None
        low, high = self.spans[way]
        return high - low


@dataclass
class _Handle:
    places: Places
    at: Position = field(default_factory=Position)


def places_of(record: Record) -> dict[str, Places]:
    """Find where the calls on each file lie, by its path.

    Of ranks that did the same the first and the last are gone through, since what lies between them changes by equal
    steps.

    Raises
    ------
    UserError
        If the record has too many calls to go through, or is damaged.
    """
    record.check_length(2)
    found: dict[str, Places] = {}
    for group in record.groups:
        ends = {group.first, group.first + group.count - 1}
        for rank in ends:
            _walk(record, group, rank, group.count / len(ends), found)
    return found


def _walk(record: Record, group: RankGroup, rank: int, weight: float, found: dict[str, Places]) -> None:
    handles: dict[int, _Handle] = {}
    for name, numbers in record.calls(rank):
        if name == "open" or name in OPENS:
            places = found.setdefault(group.path(numbers[1], rank), Places())
            handles[numbers[0]] = _Handle(places)
            if name in OPENS:
                places.unknown |= {"read", "write"}
        if is_hdf5(name) or name in ("delete", "open"):
            continue
        handle = handles.get(numbers[0])
        if handle is None:
            raise not_open(name)
        handle.at.follow(name, numbers)
        if "bytes" in RECORD_LINES[name] and numbers[-1]:
            _move(group, handle, name, numbers, weight)


def _move(group: RankGroup, handle: _Handle, name: str, numbers: tuple[int, ...], weight: float) -> None:
    way, size, places = "write" if "write" in name else "read", numbers[-1], handle.places
    if "_shared" in name or "_ordered" in name:
        places.unknown.add(way)
        return
    low, high, in_one_piece = _reach(group, handle.at, handle.at.start(name, numbers), size)
    known = places.spans.get(way, (low, high))
    places.spans[way] = min(low, known[0]), max(high, known[1])
    if in_one_piece and not is_collective(name) and low % BLOCK:
        places.unaligned += weight


def _reach(group: RankGroup, at: Position, start: int, size: int) -> tuple[int, int, bool]:
    """Bytes of the file that a call of so many bytes of the view reaches at most, and whether it is one piece."""
    shown = sum(length * copies for length, copies, _ in group.blocks[at.type]) if at.type >= 0 else 0
    extent = group.types[at.type][1].base if at.type >= 0 else 0
    if not shown or shown >= extent:
        return at.displacement + start, at.displacement + start + size, True
    turns = start // shown, (start + size - 1) // shown + 1
    return at.displacement + turns[0] * extent, at.displacement + turns[1] * extent, False


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
