"""The record of a program as an activity: what was called, without the times of single calls.

What ranks that did the same did is summed up once. How far their calls reach, and which begin off the blocks of file
systems, is found beside.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from stripewise.formats import RECORD_BEFORE, RECORD_HEADER, RECORD_LINES
from stripewise.observe.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Beneath,
    Calls,
    Counted,
    DatasetTransfers,
    FileActivity,
    Level,
    Modes,
    RankLoads,
)
from stripewise.observe.from_report import DIRECTIONS, Direction, calls_of, modes_of, sum_of
from stripewise.observe.record import OF_NO_OPEN_FILE, RankGroup, Record, is_collective, not_open
from stripewise.observe.record_hdf5 import OPENS, Shape, is_hdf5, pieces_of
from stripewise.observe.record_reading import Position
from stripewise.observe.report import Operation

BLOCK = 4096
"""Bytes of a file system's block, where nothing else is known."""
_SIZES = 4
"""Sizes of a dataset's transfers that are listed."""
_MOST_FILES = 1000
_MOST_TOLD_APART = 100_000
"""Files by whose paths it is known which ranks share them; more count as files of one rank each."""
_SMALL = 1 << 20
_MOST_RANKS = 1_000_000
"""Ranks whose bytes are listed one by one."""
_UNSEEN = (
    "a record holds the calls of MPI-IO: other POSIX files and streams are not judged",
    "a record does not say what the MPI library made of the calls, nor how files lie on storage: these are not judged",
)
_HDF5 = (
    "the record holds the calls of HDF5. Each transfer of a dataset counts as one call of MPI-IO, and what HDF5 does "
    "with metadata is not judged"
)


def activity_of(record: Record, source: str) -> Activity:
    """Give a record as an activity. Ranks that did the same are taken to have moved as much as the first of them.

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
    uses, rest, unlisted = _uses_of(record)
    moved = sum(record.moved.values())
    cost = record.io_time * record.ranks / moved if moved else 0.0
    places, sizes = places_of(record), {path: size for size, path in record.inputs}
    found = [use.activity(path, record, cost, sizes.get(path, 0), places.get(path)) for path, use in uses.items()]
    files = sorted(found, key=lambda file: -file.bytes)
    every = [*files, rest.activity("", record, cost, 0, None)] if rest.ranks else files
    counted = unlisted.counted(files, sizes, record.ranks)
    unseen = [_read_times(record), *_UNSEEN]
    if rest.ranks:
        unseen.append(
            f"findings that judge each file look at the first {len(files):,} files of the record: "
            f"{counted.files - len(files):,} others count in the sums only"
        )
    if record.uses_hdf5:
        unseen.append(_HDF5)
    ranks = None
    if record.ranks <= _MOST_RANKS:
        loads = record.rank_bytes()
        ranks = RankLoads(source="record", read=loads["read"], written=loads["write"])
    else:
        unseen.append(f"the bytes of each rank are listed for at most {_MOST_RANKS:,} ranks: balance is not judged")
    modes = [file.modes for file in every if file.modes is not None]
    return Activity(
        source=source,
        kind="record",
        version=RECORD_HEADER.rpartition(" ")[2],
        timed=False,
        counts_opens_once=True,
        job=ActivityJob(ranks=record.ranks, nodes=max(1, record.nodes), elapsed=record.elapsed, mpi_io="unknown"),
        seen=["MPI-IO"],
        unseen=[*unseen, *(f"the record is incomplete: {gap}" for gap in record.gaps)],
        io_seconds=record.io_time,
        moved=moved,
        summed_seconds=moved * cost,
        totals=ActivityTotals(
            mpiio=sum_of([file.mpiio for file in every if file.mpiio is not None]),
            modes=Modes(**{name: sum(getattr(one, name) or 0 for one in modes) for name in Modes.model_fields}),
        ),
        counted=counted,
        files=files,
        ranks=ranks,
    )


def _read_times(record: Record) -> str:
    pauses = f"{record.think_time:.3g} s of the {record.elapsed:.3g} s that the job ran"
    return (
        f"a record has no times but the pauses between calls (think time: {pauses}). Slow calls, ranks and servers are "
        "not judged, and a finding weighs by the part of the bytes that it concerns"
    )


# -- what was called -----------------------------------------------------------------------------------------------


@dataclass
class _Made:
    """Calls of one function."""

    count: int = 0
    bytes: int = 0
    smallest: int | None = None
    largest: int = 0

    def add(self, other: _Made, times: int) -> None:
        self.count += times * other.count
        self.bytes += times * other.bytes
        known = [size for size in (self.smallest, other.smallest) if size is not None]
        self.smallest, self.largest = min(known, default=None), max(self.largest, other.largest)


@dataclass
class _Dataset:
    """What was done to a dataset of HDF5, by direction: transfers by mode, by selection and by size."""

    shape: Shape
    modes: dict[Direction, Counter[str]] = field(default_factory=dict)
    selections: dict[Direction, Counter[str]] = field(default_factory=dict)
    sizes: dict[Direction, Counter[int]] = field(default_factory=dict)

    def add(self, other: _Dataset, times: int) -> None:
        for way in other.modes:
            for own, more in ((self.modes, other.modes), (self.selections, other.selections)):
                own.setdefault(way, Counter()).update({word: times * n for word, n in more[way].items()})
            self.sizes.setdefault(way, Counter()).update({size: times * n for size, n in other.sizes[way].items()})

    @property
    def bytes(self) -> int:
        return math.prod(self.shape.size) * self.shape.element_size


@dataclass
class _Use:
    """What one rank did to a file, or all ranks."""

    ranks: int = 0
    opens: float = 0.0
    """A collective open counts once over all ranks: of one rank, its part of it."""
    made: dict[str, _Made] = field(default_factory=dict)
    views: Counter[int] = field(default_factory=Counter)
    """Of one rank: bytes by the number of the view's type, -1 without a view."""
    view: tuple[int, bool, int | None] | None = None
    """Of all ranks: bytes that a turn of it shows, whether it is contiguous, and the bytes of its pieces."""
    hdf5: bool = False
    datasets: dict[int, _Dataset] = field(default_factory=dict)
    """By their numbers in the file."""

    def call(self, name: str, size: int, view: int) -> None:
        """Count a call of one rank."""
        made = self.made.get(name)
        if made is None:
            made = self.made[name] = _Made(smallest=size)
        made.count += 1
        made.bytes += size
        made.smallest = size if made.smallest is None or size < made.smallest else made.smallest
        made.largest = max(made.largest, size)
        self.views[view] += size

    def add(self, one: _Use, group: RankGroup, ranks: int) -> None:
        """Add what so many ranks of a group did, each the same."""
        self.ranks += ranks
        self.opens += ranks * one.opens
        self.hdf5 |= one.hdf5
        for name, made in one.made.items():
            self.made.setdefault(name, _Made()).add(made, ranks)
        for number, dataset in one.datasets.items():
            self.datasets.setdefault(number, _Dataset(dataset.shape)).add(dataset, ranks)
        main = max(one.views, key=lambda view: one.views[view], default=-1)
        if main >= 0:
            blocks = group.blocks[main]
            lengths = {length for length, _, _ in blocks}
            size = sum(length * count for length, count, _ in blocks)
            contiguous = sum(count for _, count, _ in blocks) == 1 and size == group.types[main][1].base
            self.view = size, contiguous, lengths.pop() if len(lengths) == 1 and not contiguous else None

    @property
    def moved(self) -> int:
        return sum(made.bytes for made in self.made.values())

    @property
    def written(self) -> int:
        return sum(made.bytes for name, made in self.made.items() if "write" in name)

    def activity(self, path: str, record: Record, cost: float, stored: int, places: Places | None) -> FileActivity:
        """Give it as a file of an activity; ``cost`` are the seconds of a byte."""
        operations = {
            name: Operation(count=made.count, bytes=made.bytes, min_size=made.smallest, max_size=made.largest)
            for name, made in self.made.items()
        }
        known = places is not None and not places.unknown
        length = max(self.written, stored, sum(dataset.bytes for dataset in self.datasets.values()))
        mpiio = Level(
            **{way: _calls(operations, way, cost, places, length) for way in DIRECTIONS},
            opens=round(self.opens),
            syncs=operations["sync"].count if "sync" in operations else 0,
            unaligned_file=round(places.unaligned) if places is not None and known else None,
            file_alignment=BLOCK if known else None,
        )
        size, contiguous, piece = self.view or (None, None, None)
        return FileActivity(
            path=path,
            ranks=max(1, self.ranks),
            nodes=min(record.nodes, self.ranks) or None,
            size=length,
            mpiio=mpiio,
            modes=modes_of(operations),
            beneath=Beneath(),
            calls={name: made.count for name, made in self.made.items() if made.count},
            view_contiguous=contiguous,
            view_bytes=size,
            view_piece=piece,
            hdf5_driver="mpio" if self.hdf5 else None,
            transfers={way: found for way in DIRECTIONS if (found := self._transfers(way)) is not None},
        )

    def _transfers(self, way: Direction) -> DatasetTransfers | None:
        used = [dataset for dataset in self.datasets.values() if way in dataset.modes]
        if not used:
            return None
        return DatasetTransfers(
            collective=sum(dataset.modes[way]["collective"] for dataset in used),
            independent=sum(dataset.modes[way]["independent"] for dataset in used),
            bytes=sum(dataset.bytes for dataset in used),
            selections=sorted({name for dataset in used for name in dataset.selections[way]}),
            common=[entry for dataset in used for entry in dataset.sizes[way].most_common(_SIZES)],
            flat=all(len(dataset.shape.size) == 1 for dataset in used),
        )


def _calls(operations: Mapping[str, Operation], way: str, cost: float, places: Places | None, size: int) -> Calls:
    found = calls_of(operations, way)
    # Of ranks that did the same only the ends are gone through: the files of the others are written from their start.
    reached = places.extent(way) if places is not None else size if way == "write" and found.bytes else None
    return found.model_copy(update={"seconds": found.bytes * cost, "extent": reached})


@dataclass
class _Unlisted:
    """Files that are not listed: those that are told apart, and how many more there are of each kind."""

    known: dict[str, list[int]] = field(default_factory=dict)
    """By path the ranks, the bytes moved and the bytes written."""
    further: list[tuple[int, _Use]] = field(default_factory=list)

    def add(self, path: str, one: _Use, ranks: int) -> None:
        known = self.known.setdefault(path, [0, 0, 0])
        for place, number in enumerate((1, one.moved, one.written)):
            known[place] += ranks * number

    def counted(self, files: Sequence[FileActivity], sizes: Mapping[str, int], ranks: int) -> Counted:
        """Count all files, those that are listed included."""
        found: Counter[str] = Counter()
        for file in files:
            found += _count(1, file.ranks, file.bytes, file.upper.write.bytes, file.size or 0)
        for path, (users, moved, written) in self.known.items():
            found += _count(1, users, moved, written, sizes.get(path, 0))
        for times, one in self.further:
            found += _count(times, 1, one.moved, one.written, 0)
        folders = len({path.rpartition("/")[0] for path in (*(file.path for file in files), *self.known)})
        return Counted(**found, writers=min(found["written_single"], ranks), folders=folders)


def _count(times: int, ranks: int, moved: int, written: int, size: int) -> Counter[str]:
    """Count files that are alike."""
    small = moved > 0 and 0 < max(written, size) < _SMALL
    kinds = {"files": True, "shared": ranks > 1, "written_single": ranks == 1 and written > 0, "small": small}
    return Counter({kind: times for kind, so in kinds.items() if so})


def _uses_of(record: Record) -> tuple[dict[str, _Use], _Use, _Unlisted]:
    """Sum up the files of a record by their paths; of those beyond the first, all together."""
    record.check_length(1)
    files: dict[str, _Use] = {}
    rest, unlisted, told = _Use(), _Unlisted(), 0
    for group in record.groups:
        for number, one in _of_rank(record, group).items():
            left = group.count
            for path, ranks in islice(_paths(group, number), max(_MOST_FILES, _MOST_TOLD_APART - told)):
                left -= ranks
                told += 1
                if path in files or len(files) < _MOST_FILES:
                    files.setdefault(path, _Use()).add(one, group, ranks)
                else:
                    unlisted.add(path, one, ranks)
                    rest.add(one, group, ranks)
            if left:
                unlisted.further.append((left, one))
                rest.add(one, group, left)
    return files, rest, unlisted


def _paths(group: RankGroup, number: int) -> Iterator[tuple[str, int]]:
    """A file's paths, each with the number of ranks that use it."""
    first, last = (group.path(number, rank) for rank in (group.first, group.first + group.count - 1))
    if first == last:
        yield first, group.count
    else:
        for rank in range(group.first, group.first + group.count):
            yield group.path(number, rank), 1


def _of_rank(record: Record, group: RankGroup) -> dict[int, _Use]:
    """What the first rank of a group did to each of its files."""
    files: dict[int, _Use] = {}
    slots: dict[int, tuple[_Use, int]] = {}
    hdf5 = _Hdf5(group, files)
    for name, numbers in record.calls(group.first):
        if is_hdf5(name):
            hdf5.take(name, numbers)
            continue
        if name in OF_NO_OPEN_FILE:
            continue
        if name == "open":
            slots[numbers[0]] = files.setdefault(numbers[1], _Use()), -1
            slots[numbers[0]][0].opens += 1 / group.comms[numbers[2]][1].base
        if numbers[0] not in slots:
            raise not_open(name)
        file, view = slots[numbers[0]]
        if name == "set_view":
            slots[numbers[0]] = file, numbers[-1]
        place = RECORD_LINES[name].index("bytes") if "bytes" in RECORD_LINES[name] else None
        file.call(name, 0 if place is None else numbers[place], view)
    return files


_BENEATH: dict[tuple[Direction, bool], str] = {
    ("write", False): "write_at",
    ("write", True): "write_at_all",
    ("read", False): "read_at",
    ("read", True): "read_at_all",
}
"""A call of MPI-IO that stands for what HDF5 does beneath a transfer: a record does not hold that."""


@dataclass
class _Hdf5:
    """Goes through the calls of HDF5 of a rank."""

    group: RankGroup
    files: dict[int, _Use]
    open: dict[int, tuple[_Use, _Dataset | None]] = field(default_factory=dict)
    selected: list[tuple[int, ...]] = field(default_factory=list)

    def take(self, name: str, numbers: tuple[int, ...]) -> None:
        if name in RECORD_BEFORE:
            self.selected += [numbers] if name == "h5select" else []
            return
        if name in OPENS:
            file = self.files.setdefault(numbers[1], _Use())
            file.opens += 1 / self.group.comms[numbers[2]][1].base
            file.call("open", 0, -1)
            self.open[numbers[0]] = file, None
        elif name in ("h5dcreate", "h5dopen"):
            file, _ = self._at(name, numbers[1])
            dataset = file.datasets.setdefault(numbers[2], _Dataset(self.group.shapes[numbers[3]]))
            self.open[numbers[0]] = file, dataset
        file, opened = self._at(name, numbers[0])
        file.hdf5 = True
        if name == "h5fclose":
            file.call("close", 0, -1)
        if name in ("h5dwrite", "h5dread"):
            if opened is None:
                raise not_open(name)
            way: Direction = "write" if name == "h5dwrite" else "read"
            collective, selection = numbers[1] != 0, pieces_of(opened.shape, self.selected).selection
            opened.modes.setdefault(way, Counter())["collective" if collective else "independent"] += 1
            opened.selections.setdefault(way, Counter())[selection] += 1
            opened.sizes.setdefault(way, Counter())[numbers[4]] += 1
            file.call(_BENEATH[way, collective], numbers[4], -1)
            self.selected.clear()

    def _at(self, name: str, slot: int) -> tuple[_Use, _Dataset | None]:
        if slot not in self.open:
            raise not_open(name)
        return self.open[slot]


# -- where calls lie -----------------------------------------------------------------------------------------------


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
    # Once for each type: a call that added up its blocks would make the time grow with the product of both.
    shows = [sum(length * copies for length, copies, _ in blocks) for blocks in group.blocks]
    for name, numbers in record.calls(rank):
        if name == "open" or name in OPENS:
            places = found.setdefault(group.path(numbers[1], rank), Places())
            handles[numbers[0]] = _Handle(places)
            if name in OPENS:
                places.unknown |= {"read", "write"}
        if is_hdf5(name) or name == "open" or name in OF_NO_OPEN_FILE:
            continue
        handle = handles.get(numbers[0])
        if handle is None:
            raise not_open(name)
        handle.at.follow(name, numbers)
        if "bytes" in RECORD_LINES[name] and numbers[-1]:
            _move(group, shows, handle, name, numbers, weight)


def _move(
    group: RankGroup, shows: Sequence[int], handle: _Handle, name: str, numbers: tuple[int, ...], weight: float
) -> None:
    way, size, places = "write" if "write" in name else "read", numbers[-1], handle.places
    if "_shared" in name or "_ordered" in name:
        places.unknown.add(way)
        return
    low, high, in_one_piece = _compute_reach(group, shows, handle.at, handle.at.start(name, numbers), size)
    known = places.spans.get(way, (low, high))
    places.spans[way] = min(low, known[0]), max(high, known[1])
    if in_one_piece and not is_collective(name) and low % BLOCK:
        places.unaligned += weight


def _compute_reach(
    group: RankGroup, shows: Sequence[int], at: Position, start: int, size: int
) -> tuple[int, int, bool]:
    """Bytes of the file that a call of so many bytes of the view reaches at most, and whether it is one piece."""
    shown = shows[at.type] if at.type >= 0 else 0
    extent = group.types[at.type][1].base if at.type >= 0 else 0
    if not shown or shown >= extent:
        return at.displacement + start, at.displacement + start + size, True
    turns = start // shown, (start + size - 1) // shown + 1
    return at.displacement + turns[0] * extent, at.displacement + turns[1] * extent, False
