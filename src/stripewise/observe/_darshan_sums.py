"""What a Darshan log says of one file: sums over the records of its ranks, a level each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from darshan.backend import cffi_backend as backend
from numpy.typing import NDArray

from stripewise.observe.profile_features import BLOCKS

_COMMON = 8

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@cache
def places(level: str) -> tuple[dict[str, int], dict[str, int]]:
    """Places of counters and floating-point counters by name, without the module's prefix."""
    module, prefix = {
        "posix": ("POSIX", "POSIX_"),
        "mpiio": ("MPI-IO", "MPIIO_"),
        "stdio": ("STDIO", "STDIO_"),
        "hdf5": ("H5D", "H5D_"),
        "pnetcdf": ("PNETCDF_VAR", "PNETCDF_VAR_"),
    }[level]
    return (
        {name.removeprefix(prefix): i for i, name in enumerate(backend.counter_names(module))},
        {name.removeprefix(prefix + "F_"): i for i, name in enumerate(backend.fcounter_names(module))},
    )


@cache
def _find_largest(level: str) -> Ints:
    """Places of the counters whose maximum, not sum, holds over ranks."""
    names = places(level)[0]
    wanted = [i for name, i in names.items() if name.startswith("MAX_BYTE_") or name.endswith("_ALIGNMENT")]
    return np.array(wanted, np.int64)


_MOST = 1 << 53
"""Calls or bytes of a record that can be: more would take a machine of a million calls a second three centuries."""
_NEVER = -1
"""What Darshan writes for a counter that it does not keep."""
_COUNTING = ("OPENS", "READS", "WRITES", "STATS", "SEEKS", "SYNCS", "FLUSHES", "BYTES_", "SIZE_", "COUNT")


@cache
def _counting(level: str) -> dict[str, int]:
    """Places of the counters that count calls or bytes."""
    return {name: i for name, i in places(level)[0].items() if any(part in name for part in _COUNTING)}


@dataclass(frozen=True)
class Damage:
    """A figure of a record that cannot be one.

    Attributes
    ----------
    hopeless : bool
        Whether it is so far off that nothing else in the log can be trusted.
    """

    says: str
    hopeless: bool


def find_damage(level: str, counters: Ints, seconds: Floats) -> Damage | None:
    """Find a figure of a record that cannot be one.

    Parameters
    ----------
    level : str
        As in :func:`places`.
    """
    own = _counting(level)
    for name, place in own.items():
        value = int(counters[place])
        if not _NEVER <= value <= _MOST:
            return Damage(f"{value:,} as {name}", abs(value) > _MOST)
    for way, past in (("READ", "READ"), ("WRITE", "WRITTEN")):
        sizes = [int(counters[place]) for name, place in own.items() if name.startswith(f"SIZE_{way}_")]
        moved = int(counters[own[f"BYTES_{past}"]]) if f"BYTES_{past}" in own else 0
        if moved > 0 and len(sizes) == 10 and not sum(sizes):
            return Damage(f"{moved:,} bytes {past.lower()} by no call", hopeless=False)
        if level == "posix" and sizes and sum(sizes) != int(counters[own[f"{way}S"]]):
            calls = int(counters[own[f"{way}S"]])
            return Damage(f"{sum(sizes):,} sizes of {calls:,} {way.lower()}s", hopeless=False)
    if any(abs(float(seconds[place])) > _MOST for name, place in places(level)[1].items() if name.endswith("_TIME")):
        return Damage("times of more than a hundred million years", hopeless=True)
    return None


@dataclass
class Sums:
    """One file at one level."""

    counters: Ints
    seconds: Floats
    records: int = 1
    reduced: bool = False
    common: dict[int, int] = field(default_factory=dict)
    starts: Floats = field(default_factory=lambda: np.zeros(0))
    ends: Floats = field(default_factory=lambda: np.zeros(0))
    spread: tuple[float, int, int, float, int, int] | None = None


class SlowestRank:
    """Bytes of all ranks, and the time in calls of the slowest one.

    A record that Darshan reduced over the ranks tells only how long its slowest rank took, not which records took long
    on the same rank: those times add up. Records of single ranks add up a rank each.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._shared = 0.0
        self._ranks: dict[int, float] = {}

    def add(self, rank: int, moved: int, seconds: float) -> None:
        """Add a record; rank -1 stands for all, whose slowest took ``seconds``."""
        self.bytes += max(0, moved)
        if rank < 0:
            self._shared += max(0.0, seconds)
        else:
            self._ranks[rank] = self._ranks.get(rank, 0.0) + max(0.0, seconds)

    @property
    def seconds(self) -> float:
        """Seconds of the slowest rank."""
        return self._shared + max(self._ranks.values(), default=0.0)


@dataclass
class FileSums:
    """One file: its levels, its stripes, and what libraries did to it as a whole."""

    levels: dict[str, Sums] = field(default_factory=dict)
    layout: list[tuple[int, list[int], int, int, int]] = field(default_factory=list)
    layout_system: str = ""
    syncs: dict[str, int] = field(default_factory=dict)
    meta: dict[str, float] = field(default_factory=dict)
    again: int | None = None
    blocks: Ints = field(default_factory=lambda: np.zeros(len(BLOCKS), np.int64))
    chunk: int = 0
    writers: int = 0
    last_writer: int = -1
    traced: bool = False


def merge(levels: dict[str, Sums], level: str, counters: Ints, seconds: Floats, rank: int) -> None:
    """Add a record to the sums of its level."""
    place = [i for name, i in places(level)[1].items() if name.endswith("_TIMESTAMP")]
    sums = levels.get(level)
    if sums is None:
        levels[level] = Sums(counters.copy(), seconds.copy(), reduced=rank < 0)
        levels[level].starts = levels[level].ends = seconds[place].copy()
        return
    peaks = _find_largest(level)
    top = np.maximum(sums.counters[peaks], counters[peaks])
    sums.counters += counters
    sums.counters[peaks] = top
    sums.seconds += seconds
    times = seconds[place]
    sums.starts = np.where((sums.starts > 0) & (times > 0), np.minimum(sums.starts, times), sums.starts + times)
    sums.starts = np.where((sums.starts > 0) | (times <= 0), sums.starts, times)
    sums.ends = np.maximum(sums.ends, times)
    sums.records += 1
    sums.reduced = sums.reduced or rank < 0


def add_common(common: dict[int, int], counters: Ints, place: dict[str, int]) -> None:
    """Count the access sizes that a record names; rare ones are forgotten."""
    for i in range(1, 5):
        size = place.get(f"ACCESS{i}_ACCESS")
        if size is not None and (count := int(counters[place[f"ACCESS{i}_COUNT"]])) > 0:
            key = int(counters[size])
            common[key] = common.get(key, 0) + count
    if len(common) > 8 * _COMMON:
        for key in sorted(common, key=lambda k: common[k])[: 4 * _COMMON]:
            del common[key]


def spread_reduced(sums: Sums, counters: Ints, seconds: Floats, place: dict[str, int], fplace: dict[str, int]) -> None:
    """Take slowest and fastest rank from a record that Darshan reduced."""
    sums.spread = (
        float(seconds[fplace["SLOWEST_RANK_TIME"]]), int(counters[place["SLOWEST_RANK"]]),
        int(counters[place["SLOWEST_RANK_BYTES"]]),
        float(seconds[fplace["FASTEST_RANK_TIME"]]), int(counters[place["FASTEST_RANK"]]),
        int(counters[place["FASTEST_RANK_BYTES"]]),
    )  # fmt: skip


def spread_single(sums: Sums, rank: int, spent: float, moved: int) -> None:
    """Compare a rank with the slowest and the fastest so far."""
    mine = (spent, rank, moved)
    if sums.spread is None:
        sums.spread = (*mine, *mine)
        return
    slow = max(sums.spread[:3], mine)
    fast = min(sums.spread[3:], mine)
    sums.spread = (*slow, *fast)


def level_entry(level: str, sums: Sums, file: FileSums) -> dict[str, Any]:
    """Give the sums of one level as the fields of :class:`stripewise.observe.activity.Level`."""
    place, fplace = places(level)
    values = np.maximum(sums.counters, 0)
    times = np.maximum(sums.seconds, 0.0)

    def count(*names: str) -> int:
        return int(sum(int(values[place[name]]) for name in names if name in place))

    syncs = {"posix": ("FSYNCS", "FDSYNCS"), "mpiio": ("SYNCS",), "stdio": ("FLUSHES",), "hdf5": ("FLUSHES",)}
    entry: dict[str, Any] = {
        direction: _calls(level, direction, sums, values, times, count) for direction in ("read", "write")
    }
    entry |= {
        "opens": count("OPENS") if level != "mpiio" else count("INDEP_OPENS", "COLL_OPENS"),
        "stats": count("STATS"),
        "syncs": count(*syncs.get(level, ())) + file.syncs.get(level, 0),
        "meta_seconds": float(times[fplace["META_TIME"]]) + file.meta.get(level, 0.0),
    }
    if sums.common:
        entry["common"] = _list_common(sums)
    if level == "posix":
        entry |= {
            "unaligned_file": count("FILE_NOT_ALIGNED"),
            "unaligned_memory": count("MEM_NOT_ALIGNED"),
            "file_alignment": count("FILE_ALIGNMENT") or None,
        }
    return entry


def _calls(level: str, direction: str, sums: Sums, values: Ints, times: Floats, count: Any) -> dict[str, Any]:
    place, fplace = places(level)
    verb = direction.upper() + "S"
    past = "READ" if direction == "read" else "WRITTEN"
    if level == "mpiio":
        calls = count(f"INDEP_{verb}", f"COLL_{verb}", f"SPLIT_{verb}", f"NB_{verb}")
    elif level == "pnetcdf":
        calls = count(f"INDEP_{verb}", f"COLL_{verb}", f"NB_{verb}")
    else:
        calls = count(verb)
    stem = f"SIZE_{direction.upper()}_"
    sizes = [int(values[i]) for name, i in place.items() if name.startswith(stem)]
    entry: dict[str, Any] = {
        "count": calls,
        "bytes": count(f"BYTES_{past}"),
        "seconds": float(times[fplace[f"{direction.upper()}_TIME"]]),
        "sizes": sizes if len(sizes) == 10 else [],
    }
    if f"MAX_BYTE_{past}" in place and entry["bytes"]:
        entry["extent"] = count(f"MAX_BYTE_{past}") + 1
    if level == "posix":
        entry |= {"consecutive": count(f"CONSEC_{verb}"), "sequential": count(f"SEQ_{verb}")}
    stamps = [name for name in fplace if name.endswith("_TIMESTAMP")]
    for name, source in (("start", sums.starts), ("end", sums.ends)):
        where = stamps.index(f"{direction.upper()}_{name.upper()}_TIMESTAMP")
        if len(source) and source[where] > 0:
            entry[name] = float(source[where])
    other = count("BYTES_WRITTEN" if direction == "read" else "BYTES_READ")
    if sums.common and not other:
        # Darshan keeps the common sizes of both directions together: they are known where there is only one.
        entry["common"] = _list_common(sums)
    return entry


def _list_common(sums: Sums) -> list[list[int]]:
    top = sorted(sums.common.items(), key=lambda item: -item[1])[:_COMMON]
    return [[size, times] for size, times in top]


def chunk_of(counters: Ints) -> int:
    """Give the bytes of a dataset's chunk, of a record of HDF5's datasets; 0 where it has none."""
    place = places("hdf5")[0]
    lengths = [int(counters[place[f"CHUNK_SIZE_D{i}"]]) for i in range(1, 6)]
    lengths = [length for length in lengths if length > 0]
    return math.prod(lengths) * max(0, int(counters[place["DATATYPE_SIZE"]])) if lengths else 0


def modes_entry(sums: Sums) -> dict[str, int]:
    """Give how MPI-IO was called, as the fields of :class:`stripewise.observe.activity.Modes`."""
    place = places("mpiio")[0]
    values = np.maximum(sums.counters, 0)
    names = {
        "collective_reads": ("COLL_READS", "SPLIT_READS"), "collective_writes": ("COLL_WRITES", "SPLIT_WRITES"),
        "independent_reads": ("INDEP_READS",), "independent_writes": ("INDEP_WRITES",),
        "nonblocking_reads": ("NB_READS",), "nonblocking_writes": ("NB_WRITES",),
        "views": ("VIEWS",),
    }  # fmt: skip
    return {name: int(sum(values[place[one]] for one in parts)) for name, parts in names.items()}


def moved_again(offset: Ints, length: Ints) -> int:
    """Bytes that lie in more than one of a rank's requests, counted each further time."""
    order = np.argsort(offset, kind="stable")
    start, end = offset[order], (offset + length)[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[0], reached[:-1]])
    return int((length.sum() - np.maximum(end - np.maximum(start, before), 0).sum()).item())


def blocks_touched(offset: Ints, length: Ints, size: int) -> int:
    """Count the blocks of a size that hold the first or the last byte of any request."""
    last = offset + np.maximum(length, 1) - 1
    return len(np.unique(np.concatenate([offset // size, last // size])))


def extent_of(entry: dict[str, Any]) -> int | None:
    """Give one beyond the last byte of a file that was touched, None where it is not known."""
    found = [
        entry[level][way].get("extent") or 0
        for level in ("posix", "stdio")
        if level in entry
        for way in ("read", "write")
    ]
    return max(found, default=0) or None


def _list_upper(entry: dict[str, Any]) -> list[dict[str, Any]]:
    both = entry.get("mpiio") or entry.get("posix")
    return [level for level in (both, entry.get("stdio")) if level]


def bytes_of(entry: dict[str, Any]) -> int:
    """Give the bytes that the program moved to and from a file."""
    return sum(level["read"]["bytes"] + level["write"]["bytes"] for level in _list_upper(entry))


def seconds_of(entry: dict[str, Any]) -> float:
    """Give the time in calls on a file, summed over ranks."""
    return float(
        sum(
            level["read"]["seconds"] + level["write"]["seconds"] + level["meta_seconds"] for level in _list_upper(entry)
        )
    )


def weight_of(file: FileSums) -> float:
    """Say how much a file matters: by its time, then by its counts."""
    return max(
        (float(sums.seconds[-8:].sum()) + 1e-9 * float(sums.counters.max()) for sums in file.levels.values()),
        default=0.0,
    )
