"""A report of what a record says: the calls of a program without their times, for whoever reads reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stripewise.spec.formats import RECORD_LINES, REPORT_FORMAT, REPORT_VERSION
from stripewise.spec.record import RankGroup, Record, is_collective, not_open
from stripewise.spec.report import Report, parse_report

_MOST_FILES = 1000
_NEW = {"ranks": 0, "opens": 0.0}


@dataclass
class _File:
    """What one rank did to a file."""

    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    opens: float = 0.0
    """A collective open counts once over all ranks: here the rank's part of it."""
    views: Counter[int] = field(default_factory=Counter)
    """Bytes by the number of the view's type; -1 without a view."""

    def add(self, name: str, size: int, view: int) -> None:
        one = self.operations.setdefault(name, {"count": 0, "bytes": 0, "min_size": size, "max_size": size})
        one["count"] += 1
        one["bytes"] += size
        one["min_size"], one["max_size"] = min(one["min_size"], size), max(one["max_size"], size)
        self.views[view] += size


def report_of(record: Record) -> Report:
    """Give the report of a record. Ranks that did the same are taken to have moved as much as the first of them."""
    files: dict[str, dict[str, Any]] = {}
    sizes = {path: size for size, path in record.inputs}
    for group in record.groups:
        for number, one in _files_of(record, group).items():
            for path, ranks in _paths(group, number):
                if path in files or len(files) < _MOST_FILES:
                    _add(files.setdefault(path, {**_NEW, "path": path, "operations": {}}), one, group, ranks)
    for path, file in files.items():
        written = sum(op["bytes"] for name, op in file["operations"].items() if "write" in name)
        file["size"] = max(written, sizes.get(path, 0))
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
        for rank in range(group.first, group.first + min(group.count, _MOST_FILES)):
            yield group.path(number, rank), 1


def _files_of(record: Record, group: RankGroup) -> dict[int, _File]:
    """What the first rank of a group did to each of its files."""
    files: dict[int, _File] = {}
    slots: dict[int, tuple[_File, int]] = {}
    for name, numbers in record.calls(group.first):
        if name == "delete":
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


def _add(file: dict[str, Any], one: _File, group: RankGroup, ranks: int) -> None:
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
