"""A report of what a record says: the calls of a program without their times, for whoever reads reports.

What the ranks of a record did to datasets of HDF5, as a report says it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from stripewise.formats import RECORD_BEFORE, RECORD_LINES, REPORT_FORMAT, REPORT_VERSION
from stripewise.observe.activity import Counted
from stripewise.observe.record import RankGroup, Record, is_collective, not_open
from stripewise.observe.record_hdf5 import OPENS, OPERATIONS, Shape, is_hdf5, pieces_of
from stripewise.observe.report import FileReport, Report, parse_report

_COUNTS = ("calls", "bytes", "collective", "independent")
_SIZES = 4
"""Sizes of transfers that a report lists."""


@dataclass
class DatasetUse:
    """What one rank did to a dataset.

    Attributes
    ----------
    shape : Shape
    creates, opens : int
    ways : dict
        By direction ``calls``, ``bytes``, ``collective``, ``independent`` and the words for selections.
    sizes : dict
        By direction the calls of each size.
    """

    shape: Shape
    creates: int = 0
    opens: int = 0
    ways: dict[str, Counter[str]] = field(default_factory=dict)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)

    def add(self, way: str, collective: bool, selection: str, size: int) -> None:
        """Count a transfer."""
        made = self.ways.setdefault(way, Counter())
        made.update(("calls", "collective" if collective else "independent", selection))
        made["bytes"] += size
        self.sizes.setdefault(way, Counter())[size] += 1


def add_hdf5(
    file: dict[str, Any], operations: Mapping[str, int], datasets: Mapping[int, DatasetUse], ranks: int
) -> None:
    """Add to a file of a report what so many ranks did, each the same."""
    made = file.setdefault("hdf5", {"driver": "mpio", "operations": {}, "datasets": {}})
    for name, count in operations.items():
        made["operations"].setdefault(name, {"count": 0})["count"] += ranks * count
    for number, dataset in datasets.items():
        known = made["datasets"].setdefault(number, _new(number, dataset.shape))
        known["ranks"] += ranks
        known["creates"] += ranks * dataset.creates
        known["opens"] += ranks * dataset.opens
        for way, counts in dataset.ways.items():
            moved = known.setdefault(way, {"selections": {}, "top": Counter()})
            for word, count in counts.items():
                place = moved if word in _COUNTS else moved["selections"]
                place[word] = place.get(word, 0) + ranks * count
            for size, count in dataset.sizes[way].items():
                moved["top"][size] += ranks * count


def end_hdf5(made: dict[str, Any]) -> None:
    """Bring what was added into the report's form."""
    made["datasets"] = list(made["datasets"].values())
    for dataset in made["datasets"]:
        for moved in (dataset[way] for way in ("write", "read") if way in dataset):
            moved["top"] = [list(entry) for entry in moved["top"].most_common(_SIZES)]


def bytes_of(made: Mapping[str, Any]) -> int:
    """Bytes of all datasets that are known."""
    return sum(math.prod(dataset["size"]) * dataset["element_size"] for dataset in made["datasets"])


def _new(number: int, shape: Shape) -> dict[str, Any]:
    return {
        "name": f"/{number}",
        "creates": 0,
        "opens": 0,
        "ranks": 0,
        "nodes": 1,
        "storage": shape.storage,
        "element_size": shape.element_size,
        "size": list(shape.size),
        "chunk": list(shape.chunk),
        "filters": list(shape.filters),
    }


_MOST_FILES = 1000
_MOST_TOLD_APART = 100_000
"""Files by whose paths it is known which ranks share them; more count as files of one rank each."""
_SMALL = 1 << 20
_NEW = {"ranks": 0, "opens": 0.0}


@dataclass
class _File:
    """What one rank did to a file."""

    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    opens: float = 0.0
    """A collective open counts once over all ranks: here the rank's part of it."""
    views: Counter[int] = field(default_factory=Counter)
    """Bytes by the number of the view's type; -1 without a view."""
    hdf5: Counter[str] = field(default_factory=Counter)
    """Calls of HDF5 by the report's names."""
    datasets: dict[int, DatasetUse] = field(default_factory=dict)
    """By their numbers in the file."""

    def add(self, name: str, size: int, view: int) -> None:
        one = self.operations.setdefault(name, {"count": 0, "bytes": 0, "min_size": size, "max_size": size})
        one["count"] += 1
        one["bytes"] += size
        one["min_size"], one["max_size"] = min(one["min_size"], size), max(one["max_size"], size)
        self.views[view] += size

    @property
    def moved(self) -> int:
        return _bytes(self.operations)[0]

    @property
    def written(self) -> int:
        return _bytes(self.operations)[1]


@dataclass(frozen=True)
class Recorded:
    """What a record says.

    Attributes
    ----------
    report : Report
        It lists the first files only, where there are many.
    rest : FileReport or None
        What was done to the files that are not listed, in sum; it has no path.
    counted : Counted or None
        All files; None where all are listed.
    """

    report: Report
    rest: FileReport | None = None
    counted: Counted | None = None


def report_of(record: Record) -> Report:
    """Give the report of a record, as :func:`summed` makes it."""
    return summed(record).report


def summed(record: Record) -> Recorded:
    """Sum up a record. Ranks that did the same are taken to have moved as much as the first of them.

    Raises
    ------
    UserError
        If it has too many calls to go through, or is damaged.
    """
    record.check_length(1)
    files: dict[str, dict[str, Any]] = {}
    sizes = {path: size for size, path in record.inputs}
    rest: dict[str, Any] = {**_NEW, "path": "", "operations": {}}
    unlisted, told = _Unlisted(), 0
    for group in record.groups:
        for number, one in _files_of(record, group).items():
            left = group.count
            for path, ranks in islice(_paths(group, number), max(_MOST_FILES, _MOST_TOLD_APART - told)):
                left -= ranks
                told += 1
                if path in files or len(files) < _MOST_FILES:
                    _add(files.setdefault(path, {**_NEW, "path": path, "operations": {}}), one, group, ranks)
                else:
                    unlisted.add(path, one, ranks)
                    _add(rest, one, group, ranks)
            if left:
                unlisted.further.append((left, one))
                _add(rest, one, group, left)
    made = _report(record, {**files, **({"": rest} if rest["ranks"] else {})}, sizes)
    if not rest["ranks"]:
        return Recorded(made)
    kept = made.model_copy(update={"files": made.files[:-1]})
    return Recorded(kept, made.files[-1], unlisted.counted(files, sizes, record.ranks))


@dataclass
class _Unlisted:
    """Files that a report does not list: those that are told apart, and how many more there are of each kind."""

    known: dict[str, list[int]] = field(default_factory=dict)
    """By path the ranks, the bytes moved and the bytes written."""
    further: list[tuple[int, _File]] = field(default_factory=list)

    def add(self, path: str, one: _File, ranks: int) -> None:
        known = self.known.setdefault(path, [0, 0, 0])
        for place, number in enumerate((1, one.moved, one.written)):
            known[place] += ranks * number

    def counted(self, files: Mapping[str, Mapping[str, Any]], sizes: Mapping[str, int], ranks: int) -> Counted:
        """Count all files, those that are listed included."""
        found: Counter[str] = Counter()
        for path, file in files.items():
            found += _count(1, file["ranks"], *_bytes(file["operations"]), sizes.get(path, 0))
        for path, (users, moved, written) in self.known.items():
            found += _count(1, users, moved, written, sizes.get(path, 0))
        for times, one in self.further:
            found += _count(times, 1, one.moved, one.written, 0)
        folders = len({path.rpartition("/")[0] for path in (*files, *self.known)})
        return Counted(**found, writers=min(found["written_single"], ranks), folders=folders)


def _count(times: int, ranks: int, moved: int, written: int, size: int) -> Counter[str]:
    """Count files that are alike."""
    small = moved > 0 and 0 < max(written, size) < _SMALL
    kinds = {"files": True, "shared": ranks > 1, "written_single": ranks == 1 and written > 0, "small": small}
    return Counter({kind: times for kind, so in kinds.items() if so})


def _bytes(operations: Mapping[str, Mapping[str, int]]) -> tuple[int, int]:
    """Bytes moved, and those of them that were written."""
    written = sum(one["bytes"] for name, one in operations.items() if "write" in name)
    return sum(one["bytes"] for one in operations.values()), written


def _report(record: Record, files: Mapping[str, dict[str, Any]], sizes: Mapping[str, int]) -> Report:
    for path, file in files.items():
        stored = 0
        if "hdf5" in file:
            end_hdf5(file["hdf5"])
            stored = bytes_of(file["hdf5"])
        file["size"] = max(_bytes(file["operations"])[1], sizes.get(path, 0), stored)
        file["opens"] = round(file["opens"])
        file["nodes"] = min(record.nodes, file["ranks"])
        for mode in ("collective", "independent"):
            own = [op for n, op in file["operations"].items() if is_collective(n) == (mode == "collective")]
            moving = [op for op in own if op["bytes"]]
            file[mode] = {"calls": sum(op["count"] for op in moving), "bytes": sum(op["bytes"] for op in moving)}
    moved = record.moved
    return parse_report(
        {
            "format": REPORT_FORMAT,
            "version": REPORT_VERSION,
            "job": {
                "ranks": record.ranks, "nodes": max(1, record.nodes), "elapsed": record.elapsed,
                "io_time": record.io_time,
            },
            "totals": {"bytes_read": moved["read"], "bytes_written": moved["write"]},
            "files": list(files.values()),
        }
    )  # fmt: skip


def _paths(group: RankGroup, number: int) -> Iterator[tuple[str, int]]:
    """A file's paths, each with the number of ranks that use it."""
    first, last = (group.path(number, rank) for rank in (group.first, group.first + group.count - 1))
    if first == last:
        yield first, group.count
    else:
        for rank in range(group.first, group.first + group.count):
            yield group.path(number, rank), 1


def _files_of(record: Record, group: RankGroup) -> dict[int, _File]:
    """What the first rank of a group did to each of its files."""
    files: dict[int, _File] = {}
    slots: dict[int, tuple[_File, int]] = {}
    hdf5 = _Hdf5(group, files)
    for name, numbers in record.calls(group.first):
        if is_hdf5(name):
            hdf5.take(name, numbers)
            continue
        if name == "delete" or name in RECORD_BEFORE:
            continue
        if name == "open":
            slots[numbers[0]] = files.setdefault(numbers[1], _File()), -1
            slots[numbers[0]][0].opens += 1 / group.comms[numbers[2]][1].base
        if numbers[0] not in slots:
            raise not_open(name)
        file, view = slots[numbers[0]]
        if name == "set_view":
            slots[numbers[0]] = file, numbers[-1]
        place = RECORD_LINES[name].index("bytes") if "bytes" in RECORD_LINES[name] else None
        file.add(name, 0 if place is None else numbers[place], view)
    return files


_BENEATH = {
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
    files: dict[int, _File]
    open: dict[int, tuple[_File, DatasetUse | None]] = field(default_factory=dict)
    selected: list[tuple[int, ...]] = field(default_factory=list)

    def take(self, name: str, numbers: tuple[int, ...]) -> None:
        if name in RECORD_BEFORE:
            self.selected += [numbers] if name == "h5select" else []
            return
        if name in OPENS:
            file = self.files.setdefault(numbers[1], _File())
            file.opens += 1 / self.group.comms[numbers[2]][1].base
            file.add("open", 0, -1)
            self.open[numbers[0]] = file, None
        elif name in ("h5dcreate", "h5dopen"):
            file, _ = self._at(name, numbers[1])
            dataset = file.datasets.setdefault(numbers[2], DatasetUse(self.group.shapes[numbers[3]]))
            dataset.creates += name == "h5dcreate"
            dataset.opens += name == "h5dopen"
            self.open[numbers[0]] = file, dataset
        file, opened = self._at(name, numbers[0])
        file.hdf5[OPERATIONS[name]] += 1
        if name == "h5fclose":
            file.add("close", 0, -1)
        if name in ("h5dwrite", "h5dread"):
            if opened is None:
                raise not_open(name)
            way, collective = name.removeprefix("h5d"), numbers[1] != 0
            opened.add(way, collective, pieces_of(opened.shape, self.selected).selection, numbers[4])
            file.add(_BENEATH[way, collective], numbers[4], -1)
            self.selected.clear()

    def _at(self, name: str, slot: int) -> tuple[_File, DatasetUse | None]:
        if slot not in self.open:
            raise not_open(name)
        return self.open[slot]


def _add(file: dict[str, Any], one: _File, group: RankGroup, ranks: int) -> None:
    if one.hdf5:
        add_hdf5(file, one.hdf5, one.datasets, ranks)
    file["ranks"] += ranks
    file["opens"] += ranks * one.opens
    for name, calls in one.operations.items():
        known = file["operations"].setdefault(name, {**calls, "count": 0, "bytes": 0})
        known["count"] += ranks * calls["count"]
        known["bytes"] += ranks * calls["bytes"]
        known["max_size"] = max(known["max_size"], calls["max_size"])
        known["min_size"] = min(known["min_size"], calls["min_size"])
    main = max(one.views, key=lambda view: one.views[view], default=-1)
    if main >= 0:
        blocks = group.blocks[main]
        lengths = {length for length, _, _ in blocks}
        copies = sum(count for _, count, _ in blocks)
        size = sum(length * count for length, count, _ in blocks)
        contiguous = copies == 1 and size == group.types[main][1].base
        piece = lengths.pop() if len(lengths) == 1 and not contiguous else None
        file["view"] = {"filetype_size": size, "contiguous": contiguous, "piece_size": piece}
