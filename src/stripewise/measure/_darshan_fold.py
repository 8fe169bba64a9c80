"""Sums over the records of a Darshan log: files, ranks, OSTs, time."""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from darshan.backend import cffi_backend as backend
from numpy.typing import NDArray

from stripewise.measure._darshan_time import TimeGrid

MAX_BINS = 1 << 20
MAX_COMPONENTS = 1 << 12
MAX_STRIPES = 1 << 20
MAX_SEGMENTS = 1 << 28
_KEPT_FILES = 20_000
_LISTED_BY_TIME, _LISTED_BY_BYTES = 300, 100
_RANKS_LISTED = 1 << 17
_COMMON = 8
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class LogError(Exception):
    """A log that cannot be read, in words that follow the file's name."""


@cache
def _index(level: str) -> tuple[dict[str, int], dict[str, int]]:
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
def _largest(level: str) -> Ints:
    """Places of the counters whose maximum, not sum, holds over ranks."""
    names = _index(level)[0]
    wanted = [i for name, i in names.items() if name.startswith("MAX_BYTE_") or name.endswith("_ALIGNMENT")]
    return np.array(wanted, np.int64)


@dataclass
class _Sums:
    """One file at one level."""

    counters: Ints
    seconds: Floats
    records: int = 1
    reduced: bool = False
    common: dict[int, int] = field(default_factory=dict)
    starts: Floats = field(default_factory=lambda: np.zeros(0))
    ends: Floats = field(default_factory=lambda: np.zeros(0))
    spread: tuple[float, int, int, float, int, int] | None = None


@dataclass
class _File:
    levels: dict[str, _Sums] = field(default_factory=dict)
    layout: list[tuple[int, list[int], int, int, int]] = field(default_factory=list)
    syncs: dict[str, int] = field(default_factory=dict)
    meta: dict[str, float] = field(default_factory=dict)
    again: int | None = None
    writers: int = 0
    last_writer: int = -1
    traced: bool = False


class Folded:
    """The sums of one log.

    Parameters
    ----------
    ranks : int
    elapsed : float
        Seconds.
    mounts : list of (path, type)
        Longest first.
    """

    def __init__(self, ranks: int, elapsed: float, mounts: list[tuple[str, str]]) -> None:
        self._ranks, self._elapsed, self._mounts = ranks, elapsed, mounts
        self._files: dict[int, _File] = {}
        self._dropped = 0
        self._dropped_counts: Counter[str] = Counter()
        self._totals: dict[str, _Sums] = {}
        wide = min(ranks, _RANKS_LISTED)
        self._read, self._written = np.zeros(wide, np.int64), np.zeros(wide, np.int64)
        self._seconds = np.zeros(wide)
        self._trace = np.zeros((wide, 2), np.int64)
        self._trace_seconds = np.zeros(wide)
        self._reduced = 0
        self._shared_slowest = 0.0
        self._grid = TimeGrid(ranks, elapsed)
        self._osts: dict[int, list[float]] = {}
        self._owners: set[int] = set()

    # -- records ---------------------------------------------------------------------------------------------------

    def add(self, level: str, identifier: int, rank: int, counters: Ints, seconds: Floats) -> None:
        """Add one record of a module with counters; rank -1 stands for all."""
        if not -1 <= rank < self._ranks:
            raise LogError(f"it is damaged: a record of rank {rank} among {self._ranks}")
        if self._ranks == 1:
            rank = 0  # Darshan reduces over the ranks even where there is one
        seconds = np.where(np.isfinite(seconds), seconds, 0.0)
        file = self._file(identifier)
        place, fplace = _index(level)
        _merge(file.levels, level, counters, seconds, rank)
        _merge(self._totals, level, counters, seconds, rank)
        sums = file.levels[level]
        _common(sums.common, counters, place)
        if level not in ("posix", "stdio"):
            return
        moved = (int(counters[place["BYTES_READ"]]), int(counters[place["BYTES_WRITTEN"]]))
        spent = float(sum(seconds[fplace[name]] for name in ("READ_TIME", "WRITE_TIME", "META_TIME")))
        if rank < 0:
            self._reduced += sum(moved)
            self._shared_slowest += float(seconds[fplace["SLOWEST_RANK_TIME"]])
            _spread_reduced(sums, counters, seconds, place, fplace)
            return
        if rank < len(self._read):
            self._read[rank] += moved[0]
            self._written[rank] += moved[1]
            self._seconds[rank] += spent
        if moved[1] > 0 and file.last_writer != rank:
            file.writers += 1
            file.last_writer = rank
        _spread_single(sums, rank, spent, sum(moved))

    def add_hdf5_file(self, identifier: int, flushes: int, meta: float) -> None:
        """Add what the HDF5 library did to a file as a whole."""
        file = self._file(identifier)
        file.syncs["hdf5"] = file.syncs.get("hdf5", 0) + max(0, flushes)
        file.meta["hdf5"] = file.meta.get("hdf5", 0.0) + (max(0.0, meta) if np.isfinite(meta) else 0.0)

    def add_pnetcdf_file(self, identifier: int, syncs: int, meta: float) -> None:
        """Add what PnetCDF did to a file as a whole."""
        file = self._file(identifier)
        file.syncs["pnetcdf"] = file.syncs.get("pnetcdf", 0) + max(0, syncs)
        file.meta["pnetcdf"] = file.meta.get("pnetcdf", 0.0) + (max(0.0, meta) if np.isfinite(meta) else 0.0)

    def add_layout(self, identifier: int, components: list[tuple[int, list[int], int, int, int]]) -> None:
        """Add a file's stripes: size, targets, extent and count of each component."""
        self._file(identifier).layout = [c for c in components if c[0] > 0 and c[4] > 0]

    def add_heatmap(self, kind: str, rank: int, width: float, written: Ints, read: Ints) -> None:
        """Add the bytes over time of one rank; MPI-IO's are those of POSIX a second time."""
        if kind in ("POSIX", "STDIO") and 0 <= rank < self._ranks and np.isfinite(width) and width > 0:
            self._grid.add(rank, width, written, read)

    def add_trace(self, identifier: int, rank: int, segments: Any, written: bool) -> None:
        """Add the single requests of a rank to a file."""
        if not len(segments):
            return
        file = self._file(identifier)
        file.traced = True
        offset = np.maximum(segments["offset"], 0)
        length = np.maximum(segments["length"], 0)
        start = np.nan_to_num(segments["start"], nan=0.0, posinf=0.0, neginf=0.0)
        end = np.nan_to_num(segments["end"], nan=0.0, posinf=0.0, neginf=0.0)
        spent = np.maximum(end - start, 0.0)
        if 0 <= rank < len(self._trace):
            self._trace[rank, int(written)] += int(length.sum())
            self._trace_seconds[rank] += float(spent.sum())
        if not self._grid.native:
            self._grid.add_requests(rank, start, end, length, written)
        if not written:
            file.again = (file.again or 0) + _again(offset, length)
        stripes = self._stripes(file, None)
        if stripes is not None:
            self._carry(stripes[0], stripes[1], offset, length, spent)

    # -- results ---------------------------------------------------------------------------------------------------

    def activity(
        self,
        *,
        source: str,
        version: str,
        job: dict[str, Any],
        names: dict[int, str],
        seen: list[str],
        unseen: list[str],
        partial: list[str],
        hints: dict[str, str],
    ) -> dict[str, Any]:
        """Give all as an activity."""
        entries = {
            key: entry for key, file in self._files.items() if (entry := self._entry(key, file, names)) is not None
        }
        if self._dropped:
            unseen = [*unseen, f"{self._dropped} small files were only counted: the log names more than {_KEPT_FILES}"]
        spent = {key: _seconds(entry) for key, entry in entries.items()}
        by_time = sorted(entries, key=lambda key: -spent[key])
        by_bytes = sorted(entries, key=lambda key: -_bytes(entries[key]))
        listed = dict.fromkeys([*by_time[:_LISTED_BY_TIME], *by_bytes[:_LISTED_BY_BYTES]])
        for key, file in self._files.items():
            if file.layout and not file.traced and key in entries:
                self._carry_evenly(file, entries[key])
        slowest = float(self._seconds.max(initial=0.0)) + self._shared_slowest
        return {
            "source": source,
            "kind": "darshan",
            "version": version,
            "job": job,
            "seen": seen,
            "partial": partial,
            "unseen": unseen,
            "hints": hints,
            "io_seconds": slowest,
            "summed_seconds": sum(spent.values()),
            "totals": self._total_levels(),
            "counted": self._counted(entries, names),
            "files": [entries[key] for key in listed],
            "ranks": self._rank_loads(),
            "timeline": self._grid.timeline(),
            "osts": {
                key: {"bytes": int(v[0]), "seconds": v[1] or None, "files": int(v[2])} for key, v in self._osts.items()
            },
        }

    def _file(self, identifier: int) -> _File:
        file = self._files.get(identifier)
        if file is None:
            if len(self._files) >= _KEPT_FILES:
                self._drop()
            file = self._files[identifier] = _File()
        return file

    def _drop(self) -> None:
        """Forget the smaller half of the files; the totals have them."""
        kept = sorted(self._files.items(), key=lambda item: -_weight(item[1]))[: _KEPT_FILES // 2]
        self._dropped += len(self._files) - len(kept)
        left = dict(kept)
        for key, file in self._files.items():
            if key not in left:
                self._count(file)
        self._files = left

    def _count(self, file: _File) -> None:
        """Count a file that is forgotten by how it was used."""
        lower = file.levels.get("posix") or file.levels.get("stdio")
        if lower is None:
            return
        place = _index("posix" if "posix" in file.levels else "stdio")[0]
        values = lower.counters
        moved = int(values[place["BYTES_READ"]] + values[place["BYTES_WRITTEN"]])
        extent = 1 + max(int(values[place["MAX_BYTE_READ"]]), int(values[place["MAX_BYTE_WRITTEN"]]))
        own = not lower.reduced and lower.records == 1
        self._dropped_counts["single" if own else "shared"] += 1
        self._dropped_counts["small"] += moved > 0 and extent < 1 << 20
        if own and file.writers == 1:
            self._dropped_counts["written_single"] += 1
            self._owners.add(file.last_writer)

    def _entry(self, key: int, file: _File, names: dict[int, str]) -> dict[str, Any] | None:
        path = names.get(key, f"(record {key:x})")[:4096]
        if not file.levels or path.startswith("heatmap:"):
            return None
        if key not in names and not any(int(sums.counters.max(initial=0)) for sums in file.levels.values()):
            return None
        lower = file.levels.get("posix") or file.levels.get("stdio") or next(iter(file.levels.values()))
        ranks = self._ranks if any(sums.reduced for sums in file.levels.values()) else lower.records
        entry: dict[str, Any] = {"path": path, "file_system": self._file_system(path), "ranks": max(1, ranks)}
        for level, sums in file.levels.items():
            entry[level] = _level(level, sums, file)
        if "mpiio" in file.levels:
            entry["modes"] = _modes(file.levels["mpiio"])
        if lower.spread is not None:
            slow, fast = lower.spread[:3], lower.spread[3:]
            entry["spread"] = {
                "slowest_seconds": slow[0], "slowest_rank": slow[1], "slowest_bytes": slow[2],
                "fastest_seconds": fast[0], "fastest_rank": fast[1], "fastest_bytes": fast[2],
            }  # fmt: skip
        stripes = self._stripes(file, _extent(entry))
        if stripes is not None:
            entry["layout"] = {
                "file_system": "lustre",
                "stripe_count": stripes[2],
                "stripe_size": stripes[0],
                "osts": stripes[1],
            }
        entry["redundant_read"] = file.again
        return entry

    def _file_system(self, path: str) -> str | None:
        for mount, kind in self._mounts:
            if path == mount or path.startswith(mount.rstrip("/") + "/"):
                return kind
        return None

    def _stripes(self, file: _File, extent: int | None) -> tuple[int, list[int], int] | None:
        """Stripe size, targets and count of the component that holds most of the data."""
        if not file.layout:
            return None
        used = [c for c in file.layout if extent is None or c[2] < extent or c is file.layout[0]]
        size, targets, _, _, count = used[-1]
        return size, targets, count

    def _carry(self, size: int, targets: list[int], offset: Ints, length: Ints, spent: Floats) -> None:
        if not targets:
            return
        count = len(targets)
        first = offset // size
        spans = np.maximum((offset + np.maximum(length, 1) - 1) // size - first + 1, 1)
        parts = np.minimum(spans, count)
        moved, time = np.zeros(count), np.zeros(count)
        for step in range(int(parts.max(initial=0))):
            within = parts > step
            place = ((first[within] + step) % count).astype(np.int64)
            moved += np.bincount(place, length[within] / parts[within], count)
            time += np.bincount(place, spent[within] / parts[within], count)
        for i, target in enumerate(targets):
            entry = self._osts.setdefault(target, [0.0, 0.0, 0.0])
            entry[0] += float(moved[i])
            entry[1] += float(time[i])

    def _carry_evenly(self, file: _File, entry: dict[str, Any]) -> None:
        stripes = self._stripes(file, _extent(entry))
        if stripes is None or not stripes[1]:
            return
        level = entry.get("posix") or entry.get("mpiio")
        moved = level["read"]["bytes"] + level["write"]["bytes"] if level else 0
        # A file smaller than a whole row of stripes does not reach all its targets.
        extent = _extent(entry) or moved
        reached = stripes[1][: max(1, min(len(stripes[1]), -(-extent // stripes[0])))]
        for target in reached:
            known = self._osts.setdefault(target, [0.0, 0.0, 0.0])
            known[0] += moved / len(reached)
            known[2] += 1

    def _total_levels(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            level: _level(level, self._totals[level], _File())
            for level in ("posix", "mpiio", "stdio")
            if level in self._totals
        }
        if "mpiio" in self._totals:
            found["modes"] = _modes(self._totals["mpiio"])
        return found

    def _counted(self, entries: dict[int, dict[str, Any]], names: dict[int, str]) -> dict[str, int]:
        real = {key: e for key, e in entries.items() if names.get(key) not in _STREAMS}
        own = [key for key, entry in real.items() if entry["ranks"] == 1 and self._files[key].writers == 1]
        gone = self._dropped_counts
        return {
            "files": len(real) + self._dropped,
            "shared": gone["shared"] + sum(entry["ranks"] > 1 for entry in real.values()),
            "single": gone["single"] + sum(entry["ranks"] == 1 for entry in real.values()),
            "written_single": gone["written_single"] + len(own),
            "writers": len(self._owners | {self._files[key].last_writer for key in own}),
            "small": gone["small"]
            + sum(_bytes(entry) > 0 and (_extent(entry) or 0) < 1 << 20 for entry in real.values()),
            "folders": len({posixpath.dirname(entry["path"]) for entry in real.values()}),
        }

    def _rank_loads(self) -> dict[str, Any] | None:
        if self._ranks > _RANKS_LISTED:
            return None
        if not self._reduced:
            return {
                "source": "records", "read": self._read.tolist(), "written": self._written.tolist(),
                "seconds": self._seconds.tolist(),
            }  # fmt: skip
        if self._trace.any():
            return {
                "source": "trace", "read": self._trace[:, 0].tolist(), "written": self._trace[:, 1].tolist(),
                "seconds": self._trace_seconds.tolist(),
            }  # fmt: skip
        loads = self._grid.loads()
        return None if loads is None else {"source": "heatmap", "read": loads[0].tolist(), "written": loads[1].tolist()}


# -- one file at one level -----------------------------------------------------------------------------------------


def _merge(levels: dict[str, _Sums], level: str, counters: Ints, seconds: Floats, rank: int) -> None:
    place = [i for name, i in _index(level)[1].items() if name.endswith("_TIMESTAMP")]
    sums = levels.get(level)
    if sums is None:
        levels[level] = _Sums(counters.copy(), seconds.copy(), reduced=rank < 0)
        levels[level].starts = levels[level].ends = seconds[place].copy()
        return
    peaks = _largest(level)
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


def _common(common: dict[int, int], counters: Ints, place: dict[str, int]) -> None:
    for i in range(1, 5):
        size = place.get(f"ACCESS{i}_ACCESS")
        if size is not None and (count := int(counters[place[f"ACCESS{i}_COUNT"]])) > 0:
            key = int(counters[size])
            common[key] = common.get(key, 0) + count
    if len(common) > 8 * _COMMON:
        for key in sorted(common, key=lambda k: common[k])[: 4 * _COMMON]:
            del common[key]


def _spread_reduced(
    sums: _Sums, counters: Ints, seconds: Floats, place: dict[str, int], fplace: dict[str, int]
) -> None:
    sums.spread = (
        float(seconds[fplace["SLOWEST_RANK_TIME"]]), int(counters[place["SLOWEST_RANK"]]),
        int(counters[place["SLOWEST_RANK_BYTES"]]),
        float(seconds[fplace["FASTEST_RANK_TIME"]]), int(counters[place["FASTEST_RANK"]]),
        int(counters[place["FASTEST_RANK_BYTES"]]),
    )  # fmt: skip


def _spread_single(sums: _Sums, rank: int, spent: float, moved: int) -> None:
    mine = (spent, rank, moved)
    if sums.spread is None:
        sums.spread = (*mine, *mine)
        return
    slow = max(sums.spread[:3], mine)
    fast = min(sums.spread[3:], mine)
    sums.spread = (*slow, *fast)


def _level(level: str, sums: _Sums, file: _File) -> dict[str, Any]:
    place, fplace = _index(level)
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
        "seeks": count("SEEKS"),
        "stats": count("STATS"),
        "syncs": count(*syncs.get(level, ())) + file.syncs.get(level, 0),
        "meta_seconds": float(times[fplace["META_TIME"]]) + file.meta.get(level, 0.0),
    }
    if "RW_SWITCHES" in place:
        entry["switches"] = count("RW_SWITCHES")
    if level == "posix":
        entry |= {
            "unaligned_file": count("FILE_NOT_ALIGNED"),
            "unaligned_memory": count("MEM_NOT_ALIGNED"),
            "file_alignment": count("FILE_ALIGNMENT") or None,
        }
    return entry


def _calls(level: str, direction: str, sums: _Sums, values: Ints, times: Floats, count: Any) -> dict[str, Any]:
    place, fplace = _index(level)
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
        top = sorted(sums.common.items(), key=lambda item: -item[1])[:_COMMON]
        entry["common"] = [[size, times_] for size, times_ in top]
    return entry


def _modes(sums: _Sums) -> dict[str, int]:
    place = _index("mpiio")[0]
    values = np.maximum(sums.counters, 0)
    names = {
        "collective_reads": ("COLL_READS", "SPLIT_READS"), "collective_writes": ("COLL_WRITES", "SPLIT_WRITES"),
        "independent_reads": ("INDEP_READS",), "independent_writes": ("INDEP_WRITES",),
        "nonblocking_reads": ("NB_READS",), "nonblocking_writes": ("NB_WRITES",),
        "views": ("VIEWS",), "hints": ("HINTS",),
    }  # fmt: skip
    return {name: int(sum(values[place[one]] for one in parts)) for name, parts in names.items()}


def _again(offset: Ints, length: Ints) -> int:
    """Bytes that lie in more than one of a rank's requests, counted each further time."""
    order = np.argsort(offset, kind="stable")
    start, end = offset[order], (offset + length)[order]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([[0], reached[:-1]])
    return int((length.sum() - np.maximum(end - np.maximum(start, before), 0).sum()).item())


def _extent(entry: dict[str, Any]) -> int | None:
    found = [
        entry[level][way].get("extent") or 0
        for level in ("posix", "stdio")
        if level in entry
        for way in ("read", "write")
    ]
    return max(found, default=0) or None


def _upper(entry: dict[str, Any]) -> list[dict[str, Any]]:
    both = entry.get("mpiio") or entry.get("posix")
    return [level for level in (both, entry.get("stdio")) if level]


def _bytes(entry: dict[str, Any]) -> int:
    return sum(level["read"]["bytes"] + level["write"]["bytes"] for level in _upper(entry))


def _seconds(entry: dict[str, Any]) -> float:
    return float(
        sum(level["read"]["seconds"] + level["write"]["seconds"] + level["meta_seconds"] for level in _upper(entry))
    )


def _weight(file: _File) -> float:
    return max(
        (float(sums.seconds[-8:].sum()) + 1e-9 * float(sums.counters.max()) for sums in file.levels.values()),
        default=0.0,
    )
