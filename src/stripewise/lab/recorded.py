"""The parts of a recorded program: each phase of its files (open to close), as the engine takes it.

Exact are ranks, files, opens, calls, bytes, the sizes of calls and of their pieces, the gaps between pieces, whether
calls are collective, the hints that the program gives, and whether it synchronises a file. Of ranks that did the same,
the first and the last one are gone through; what lies between them changes by equal steps. Within a phase, calls of one
direction and mode become one part, with their mean sizes. Phases that are alike are simulated once and counted.

Memory grows with the phases, never with the calls or the ranks of a group; a record with more than `MOST_PHASES`
phases is refused, and so is one with too many calls to go through (`Record.check_length`).

Parts happen one after the other; each is a row of a batch for each configuration.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.formats import RECORD_BEFORE, RECORD_LINES
from stripewise.lab.batch import LAYOUTS, Access, RunBatch, of_hints
from stripewise.lab.engine import SimulatedOutcome, simulate
from stripewise.lab.site import Site
from stripewise.observe.record import DIGITS, OF_NO_OPEN_FILE, RankGroup, Record, is_collective, not_open
from stripewise.observe.record_hdf5 import OPENS, Pieces, Shape, is_hdf5, pieces_of
from stripewise.observe.record_reading import Position


@dataclass(frozen=True)
class SimulatedPart:
    """One access to files in one direction.

    Attributes
    ----------
    workload, access
        What runs, and what a simulation needs to know beyond.
    direction : {"write", "read"}
    columns : mapping
        Fields of the batch that are known more exactly than the workload says them.
    hints : mapping
        Settings that the program has; those of the run take their place.
    times : int
        How often it happens.
    opens, moves : bool
        Whether it opens and closes its files, and whether it moves bytes.
    """

    workload: Workload
    direction: str
    access: Access = field(default_factory=Access)
    columns: Mapping[str, Any] = field(default_factory=dict)
    hints: Mapping[str, Value] = field(default_factory=dict)
    times: int = 1
    opens: bool = True
    moves: bool = True

    def run(self, site: Site, settings: Mapping[str, Any]) -> SimulatedOutcome:
        """Simulate it once, with every configuration."""
        asked = {**self.hints, **settings}
        return simulate(site, RunBatch.make(self.workload, self.direction, asked, self.access, self.columns))


def run_parts(site: Site, parts: Sequence[SimulatedPart], settings: Mapping[str, Any]) -> SimulatedOutcome:
    """Simulate parts one after the other: seconds and bytes add up, the rest is that of the part with most bytes."""
    done = [(part, part.run(site, settings)) for part in parts]
    if len(done) == 1 and parts[0].times == 1 and parts[0].opens and parts[0].moves:
        return done[0][1]

    def total(name: str, counts: str) -> Any:
        return sum(part.times * getattr(part, counts) * getattr(outcome, name) for part, outcome in done)

    _, main = max(done, key=lambda one: one[0].times * one[0].moves * float(np.max(one[1].bytes)))
    bounds: dict[str, Any] = {
        name: sum(part.times * part.moves * outcome.bounds[name] for part, outcome in done)
        for name in main.bounds
        if name != "metadata"
    }
    opening, closing = total("open_seconds", "opens"), total("close_seconds", "opens")
    return SimulatedOutcome(
        opening,
        total("data_seconds", "moves"),
        closing,
        total("bytes", "moves"),
        {**bounds, "metadata": opening + closing},
        main.aggregated,
        main.aggregators,
        total("rounds", "moves"),
        main.stripe_count,
        main.stripe_size,
        main.sieved,
    )


MOST_PHASES = 100_000
_GRAIN = 64 << 10
"""Stripes are multiples of it: what begins elsewhere begins off their boundaries."""


@dataclass(slots=True)
class _Way:
    """Calls of one direction and mode in a phase; ranks count with what they stand for."""

    ranks: float = 0.0
    calls: float = 0.0
    bytes: float = 0.0
    pieces: float = 0.0
    gaps: float = 0.0
    follow: float = 0.0
    """Calls that begin where the rank's last one ended."""
    jump_back: float = 0.0
    off: float = 0.0
    """Calls that begin off the boundaries of stripes."""


@dataclass(slots=True)
class _Phase:
    """A file of a family, or the files that its ranks have open at the same place of their programs."""

    ranks: float = 0.0
    files: float = 0.0
    synced: bool = False
    hints: tuple[tuple[str, str], ...] = ()
    ways: dict[tuple[str, bool], _Way] = field(default_factory=dict)


@dataclass(slots=True)
class _Handle:
    """An open file of a rank, with its view: offsets are bytes of what the view shows."""

    phase: _Phase
    at: Position = field(default_factory=Position)
    ends: dict[tuple[str, bool], int] = field(default_factory=dict)


def parts_of(record: Record, access: Access) -> tuple[list[SimulatedPart], list[str]]:
    """Give the parts of a record, and sentences about what of it cannot be simulated as it is.

    Parameters
    ----------
    access : Access
        What memory holds of reads; the rest of it is taken from the record.

    Raises
    ------
    UserError
        If it moves no bytes, or has more phases or calls than can be gone through.
    """
    phases: dict[tuple[str, int], _Phase] = {}
    record.check_length(2)
    for group in record.groups:
        ends = {group.first, group.first + group.count - 1}
        for rank in sorted(ends):
            _walk(record, group, rank, group.count / len(ends), phases)
    parts = Counter(part for phase in phases.values() for part in _parts(record, phase))
    moved = {way: sum(part.bytes * times for part, times in parts.items() if part.direction == way) for way in _WAYS}
    if not sum(moved.values()):
        raise UserError("the record moves no bytes", "record a program that reads or writes through MPI-IO")
    main = max(_WAYS, key=lambda way: moved[way])
    notes = [f"the record is incomplete: {gap}" for gap in record.gaps]
    if any(1 < round(phase.files) < round(phase.ranks) for phase in phases.values()):
        notes.append("files that some of the ranks share are simulated as one file of all of them")
    return [part.simulated(record, times, access, main) for part, times in parts.items()], notes


_WAYS = ("write", "read")


@dataclass(frozen=True)
class _Part:
    """What makes two parts the same; empty direction: the files are opened and closed only."""

    direction: str
    bytes: float
    nodes: int
    ranks: float
    opens: bool
    phase: tuple[bool, tuple[tuple[str, str], ...]]
    """Whether the program synchronises the file, and its hints."""
    columns: tuple[tuple[str, Any], ...]

    def simulated(self, record: Record, times: int, access: Access, otherwise: str) -> SimulatedPart:
        """Give it as the engine takes it."""
        a_node = self.ranks / self.nodes
        fsync, hints = self.phase
        return SimulatedPart(
            Workload(nodes=self.nodes, processes_per_node=max(1, math.ceil(a_node)), api="mpiio"),
            self.direction or otherwise,
            access.model_copy(update={"fsync": fsync}),
            {"processes_per_node": a_node, **dict(self.columns)},
            of_hints(hints),
            times,
            self.opens,
            bool(self.direction),
        )


def _parts(record: Record, phase: _Phase) -> Iterator[_Part]:
    """One part for each direction and mode; the one with most bytes opens and closes the files."""
    own_files = phase.files > 1 and phase.files > phase.ranks - 0.5
    ways = sorted(phase.ways.items(), key=lambda one: -one[1].bytes)
    if not ways:
        nodes = _nodes(record, phase.ranks)
        columns = {"file_per_process": own_files, "file_size": 1.0, "transfer_size": 1.0, "piece_size": 1.0}
        yield _Part("", 0.0, nodes, phase.ranks, True, (False, phase.hints), tuple(columns.items()))
    for place, ((direction, collective), way) in enumerate(ways):
        ranks = phase.ranks if collective else way.ranks
        transfer = way.bytes / way.calls
        columns = {
            "file_size": way.bytes / (ranks if own_files else 1.0),
            "transfer_size": transfer,
            "piece_size": way.bytes / max(way.calls, way.pieces),
            "hole_size": way.gaps / way.pieces if way.gaps else -1.0,
            "layout": LAYOUTS.index(_layout(way)),
            "collective": collective,
            "file_per_process": own_files,
            "misaligned": 2 * way.off > way.calls,
        }
        nodes = _nodes(record, ranks)
        yield _Part(direction, way.bytes, nodes, ranks, place == 0, (phase.synced, phase.hints), tuple(columns.items()))


def _nodes(record: Record, ranks: float) -> int:
    return max(1, min(record.nodes, math.floor(ranks)))


def _layout(way: _Way) -> str:
    """Where the calls of a rank lie: in pieces, one behind the other, in steps forward, or anywhere."""
    if way.gaps:
        return "strided"
    later = way.calls - way.ranks
    if later <= 0 or 2 * way.follow >= later:
        return "segmented"
    return "random" if 2 * way.jump_back >= later else "strided"


def _walk(record: Record, group: RankGroup, rank: int, weight: float, phases: dict[tuple[str, int], _Phase]) -> None:
    """Go through the calls of a rank, which stands for others."""
    handles: dict[int, _Handle] = {}
    opened: Counter[str] = Counter()
    datasets = _Datasets(group, handles)
    for name, numbers in record.calls(rank):
        if is_hdf5(name) and name not in OPENS:
            datasets.take(name, numbers, weight)
            continue
        if name in OF_NO_OPEN_FILE:
            continue
        if name == "open" or name in OPENS:
            family = DIGITS.sub("#", group.files[numbers[1]][0])
            phase = phases.setdefault((family, opened[family]), _Phase())
            if len(phases) > MOST_PHASES:
                what = f"the record opens files more than {MOST_PHASES:,} times, which is more than can be simulated"
                raise UserError(what, "record fewer steps of the program")
            opened[family] += 1
            phase.ranks += weight
            phase.hints = group.hints[numbers[1]]
            phase.files += weight / max(1, group.comms[numbers[2]][1].at((), rank - group.first))
            handles[numbers[0]] = _Handle(phase)
            continue
        handle = handles.get(numbers[0])
        if handle is None:
            raise not_open(name)
        handle.at.follow(name, numbers)
        if name == "set_view":
            handle.ends.clear()
        elif name == "sync":
            handle.phase.synced = True
        elif "bytes" in RECORD_LINES[name] and numbers[-1]:
            _transfer(group, handle, name, handle.at.start(name, numbers), numbers[-1], weight)


@dataclass(slots=True)
class _Datasets:
    """Datasets of HDF5 that a rank has open: as parts of their files, one behind the other."""

    group: RankGroup
    handles: dict[int, _Handle]
    places: dict[tuple[int, int], int] = field(default_factory=dict)
    """Where a dataset begins, by its file's slot and its number."""
    ends: Counter[int] = field(default_factory=Counter)
    open: dict[int, tuple[_Handle, Shape, int]] = field(default_factory=dict)
    selected: list[tuple[int, ...]] = field(default_factory=list)

    def take(self, name: str, numbers: tuple[int, ...], weight: float) -> None:
        if name in RECORD_BEFORE:
            self.selected += [numbers] if name == "h5select" else []
        elif name in ("h5dcreate", "h5dopen"):
            slot, parent, number, kind = numbers
            if parent not in self.handles:
                raise not_open(name)
            shape, key = self.group.shapes[kind], (parent, number)
            if key not in self.places:
                self.places[key] = self.ends[parent]
                self.ends[parent] += shape.element_size * math.prod(shape.size)
            self.open[slot] = self.handles[parent], shape, self.places[key]
        elif name in ("h5dwrite", "h5dread"):
            if numbers[0] not in self.open:
                raise not_open(name)
            self._move(name, numbers, weight)
            self.selected.clear()

    def _move(self, name: str, numbers: tuple[int, ...], weight: float) -> None:
        handle, shape, place = self.open[numbers[0]]
        found: Pieces = pieces_of(shape, self.selected)
        if numbers[4]:
            key = name.removeprefix("h5d"), numbers[1] != 0
            _count(handle, key, place + found.start, numbers[4], (float(max(1, found.count)), found.gap), weight)


def _transfer(group: RankGroup, handle: _Handle, name: str, start: int, size: int, weight: float) -> None:
    key = "write" if "write" in name else "read", is_collective(name)
    piece, gap = _piece(group, handle.at.type)
    _count(handle, key, start, size, (max(1.0, size / piece) if piece else 1.0, gap), weight)


def _count(
    handle: _Handle, key: tuple[str, bool], start: int, size: int, pieces: tuple[float, float], weight: float
) -> None:
    """Count a call with its pieces: how many, and the bytes between two."""
    way = handle.phase.ways.setdefault(key, _Way())
    last = handle.ends.get(key)
    if last is None:
        way.ranks += weight
    else:
        way.follow += weight * (start == last)
        way.jump_back += weight * (start < last)
    handle.ends[key] = start + size
    count, gap = pieces
    way.calls += weight
    way.bytes += weight * size
    way.pieces += weight * count
    way.gaps += weight * count * gap
    way.off += weight * ((handle.at.displacement + start) % _GRAIN != 0)


def _piece(group: RankGroup, number: int) -> tuple[float, float]:
    """Mean bytes of a piece that a view shows, and of the gap behind it; 0 and 0 where nothing lies between."""
    if number < 0:
        return 0.0, 0.0
    blocks = group.blocks[number]
    count = sum(copies for _, copies, _ in blocks)
    size = sum(length * copies for length, copies, _ in blocks)
    extent = group.types[number][1].base
    if not size or size >= extent:
        return 0.0, 0.0
    strides = sum((stride - length) * copies for length, copies, stride in blocks if stride)
    gaps = strides if all(stride for *_, stride in blocks) else extent - size
    return size / count, max(0.0, gaps / count)
