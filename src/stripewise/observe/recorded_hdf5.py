"""What the ranks of a record did to datasets of HDF5, as a report says it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stripewise.observe.record_hdf5 import Shape

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
