"""Where the calls of a record lie in its files: how far they reach, and which begin off the blocks of file systems."""

from __future__ import annotations

from dataclasses import dataclass, field

from stripewise.formats import RECORD_LINES
from stripewise.observe.record import RankGroup, Record, is_collective, not_open
from stripewise.observe.record_hdf5 import OPENS, is_hdf5
from stripewise.observe.record_position import Position

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
