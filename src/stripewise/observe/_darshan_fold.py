"""Sums over the records of a Darshan log, or of a trace: files, ranks, OSTs, time.

Bytes and seconds of each storage target, from the stripes of the files of a log.

Bytes over time, from Darshan's heatmap or, without one, from a trace.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.filesystems import of_darshan
from stripewise.observe._darshan_sums import (
    FileSums,
    Floats,
    Ints,
    SlowestRank,
    Sums,
    add_common,
    blocks_touched,
    bytes_of,
    chunk_of,
    extent_of,
    level_entry,
    merge,
    modes_entry,
    moved_again,
    places,
    seconds_of,
    spread_reduced,
    spread_single,
    weight_of,
)
from stripewise.observe.profile_features import BLOCKS

_ROWS = 64
_BINS = 200


@dataclass(frozen=True)
class LogHead:
    """What a log says of itself; fields as those of :class:`stripewise.observe.activity.Activity`."""

    kind: str
    source: str
    unseen: list[str]
    version: str = ""
    seen: list[str] = field(default_factory=lambda: ["POSIX", "STDIO"])
    partial: list[str] = field(default_factory=list)
    hints: dict[str, str] = field(default_factory=dict)


class TimeGrid:
    """A grid of bins that all ranks share.

    Heatmaps of ranks may have bins of different widths; these are powers of two of one width, so that the finer ones
    fold into the coarser.

    Attributes
    ----------
    native : bool
        Whether a heatmap filled it.
    """

    def __init__(self, ranks: int, elapsed: float) -> None:
        self._ranks, self._elapsed = ranks, elapsed
        self._a_row = -(-ranks // _ROWS)
        self._width = 0.0
        self._read: NDArray[np.float64] = np.zeros(0)
        self._written: NDArray[np.float64] = np.zeros(0)
        self._heat: NDArray[np.float64] = np.zeros((-(-ranks // self._a_row), 0))
        self._loads: dict[int, list[int]] = {}
        self.native = False

    def add(self, rank: int, width: float, written: NDArray[np.int64], read: NDArray[np.int64]) -> None:
        """Add the bins of one rank."""
        self.native = True
        written, read = np.maximum(written, 0), np.maximum(read, 0)
        load = self._loads.setdefault(rank, [0, 0])
        load[0] += int(read.sum())
        load[1] += int(written.sum())
        if not self._width:
            self._width = width
        if width > self._width * 1.5:
            self._coarsen(round(width / self._width))
            self._width = width
        factor = max(1, round(self._width / width))
        self._deposit(rank, _fold_values(read, factor), _fold_values(written, factor))

    def add_requests(
        self,
        rank: int,
        start: NDArray[np.float64],
        end: NDArray[np.float64],
        length: NDArray[np.int64],
        written: bool,
    ) -> None:
        """Add single requests, each at its middle."""
        if self._elapsed <= 0:
            return
        self._width = self._elapsed / _BINS
        place = np.clip(((start + end) / 2 / self._width).astype(np.int64), 0, _BINS - 1)
        bins = np.bincount(place, length, _BINS)
        nothing = np.zeros(_BINS)
        self._deposit(rank, nothing if written else bins, bins if written else nothing)

    def _deposit(self, rank: int, read: NDArray[Any], written: NDArray[Any]) -> None:
        wide = max(len(read), len(self._read))
        self._read = _widen_values(self._read, wide) + _widen_values(read, wide)
        self._written = _widen_values(self._written, wide) + _widen_values(written, wide)
        if self._heat.shape[1] < wide:
            self._heat = np.pad(self._heat, ((0, 0), (0, wide - self._heat.shape[1])))
        if 0 <= rank < self._ranks:
            self._heat[rank // self._a_row, : len(read)] += read + written

    def _coarsen(self, factor: int) -> None:
        self._read, self._written = _fold_values(self._read, factor), _fold_values(self._written, factor)
        self._heat = np.array([_fold_values(row, factor) for row in self._heat])

    def loads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Bytes read and written by each rank, None without a heatmap."""
        if not self._loads:
            return None
        both = np.zeros((2, self._ranks), np.int64)
        for rank, (read, written) in self._loads.items():
            both[:, rank] = read, written
        return both[0], both[1]

    def timeline(self) -> dict[str, Any] | None:
        """All as part of an activity."""
        used = np.flatnonzero(self._read + self._written)
        if not len(used) or self._width <= 0:
            return None
        last = int(used[-1]) + 1
        return {
            "width": self._width,
            "read": self._read[:last].astype(np.int64).tolist(),
            "written": self._written[:last].astype(np.int64).tolist(),
            "heat": self._heat[:, :last].astype(np.int64).tolist(),
            "ranks_a_row": self._a_row,
        }


def _widen_values(values: NDArray[Any], wide: int) -> NDArray[np.float64]:
    return np.pad(values.astype(np.float64), (0, wide - len(values)))


def _fold_values(values: NDArray[Any], factor: int) -> NDArray[np.float64]:
    if factor <= 1:
        return values.astype(np.float64)
    padded = np.pad(values.astype(np.float64), (0, -len(values) % factor))
    folded: NDArray[np.float64] = padded.reshape(-1, factor).sum(axis=1)
    return folded


class TargetLoads:
    """What each target carried; nothing at first."""

    def __init__(self) -> None:
        self._loads: dict[int, list[float]] = {}

    def add_requests(self, size: int, targets: list[int], offset: Ints, length: Ints, spent: Floats) -> None:
        """Add requests one by one: each stripe that one touches gets its part of bytes and time."""
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
            entry = self._loads.setdefault(target, [0.0, 0.0])
            entry[0] += float(moved[i])
            entry[1] += float(time[i])

    def add_evenly(self, size: int, targets: list[int], moved: int, extent: int) -> None:
        """Add a file of which only the sum is known: its stripes get equal parts."""
        # A file smaller than a whole row of stripes does not reach all its targets.
        reached = targets[: max(1, min(len(targets), -(-extent // size)))]
        for target in reached:
            self._loads.setdefault(target, [0.0, 0.0])[0] += moved / len(reached)

    def entries(self) -> dict[int, dict[str, Any]]:
        """Give them as the fields of :class:`stripewise.observe.activity.OstLoad`."""
        return {target: {"bytes": int(moved), "seconds": time or None} for target, (moved, time) in self._loads.items()}


_KEPT_FILES = 20_000
_LISTED_BY_TIME, _LISTED_BY_BYTES = 3000, 1000
_RANKS_LISTED = 1 << 17
STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")


class LogError(Exception):
    """A log that cannot be read, in words that follow the file's name."""


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
        self._files: dict[int, FileSums] = {}
        self._dropped = 0
        self._dropped_counts: Counter[str] = Counter()
        self._totals: dict[str, Sums] = {}
        wide = min(ranks, _RANKS_LISTED)
        self._read, self._written = np.zeros(wide, np.int64), np.zeros(wide, np.int64)
        self._seconds = np.zeros(wide)
        self._trace = np.zeros((wide, 2), np.int64)
        self._trace_seconds = np.zeros(wide)
        self._reduced = 0
        self._slowest = SlowestRank()
        self._modules = {level: SlowestRank() for level in ("mpiio", "posix", "stdio")}
        self._grid = TimeGrid(ranks, elapsed)
        self._osts = TargetLoads()
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
        place, fplace = places(level)
        merge(file.levels, level, counters, seconds, rank)
        merge(self._totals, level, counters, seconds, rank)
        sums = file.levels[level]
        add_common(sums.common, counters, place)
        if level == "hdf5":
            file.chunk = max(file.chunk, chunk_of(counters))
        if level not in self._modules:
            return
        moved, spent, slowest = self._count_module(level, rank, counters, seconds)
        if level != "posix" or "mpiio" not in file.levels:
            self._slowest.add(rank, sum(moved), slowest)
        if level == "mpiio":
            return
        if rank < 0:
            self._reduced += sum(moved)
            spread_reduced(sums, counters, seconds, place, fplace)
            return
        if rank < len(self._read):
            self._read[rank] += moved[0]
            self._written[rank] += moved[1]
            self._seconds[rank] += spent
        if moved[1] > 0 and file.last_writer != rank:
            file.writers += 1
            file.last_writer = rank
        spread_single(sums, rank, spent, sum(moved))

    def add_aside(self, level: str, rank: int, counters: Ints, seconds: Floats) -> None:
        """Add a record of what is no data file: it counts only in Darshan's own estimate of the bandwidth."""
        if level in self._modules and -1 <= rank < self._ranks:
            self._count_module(level, 0 if self._ranks == 1 else rank, counters, seconds)

    def _count_module(
        self, level: str, rank: int, counters: Ints, seconds: Floats
    ) -> tuple[tuple[int, int], float, float]:
        """Count a record in its module: bytes read and written, seconds of all ranks and of the slowest."""
        place, fplace = places(level)
        moved = (int(counters[place["BYTES_READ"]]), int(counters[place["BYTES_WRITTEN"]]))
        spent = float(sum(seconds[fplace[name]] for name in ("READ_TIME", "WRITE_TIME", "META_TIME")))
        slowest = float(seconds[fplace["SLOWEST_RANK_TIME"]]) if rank < 0 else spent
        self._modules[level].add(rank, sum(moved), slowest)
        return moved, spent, slowest

    def add_file(self, level: str, identifier: int, syncs: int, meta: float) -> None:
        """Add what a library (``hdf5``, ``pnetcdf``) did to a file as a whole."""
        file = self._file(identifier)
        file.syncs[level] = file.syncs.get(level, 0) + max(0, syncs)
        file.meta[level] = file.meta.get(level, 0.0) + (max(0.0, meta) if np.isfinite(meta) else 0.0)

    def add_layout(self, identifier: int, module: str, components: list[tuple[int, list[int], int, int, int]]) -> None:
        """Add a file's stripes from a module: size, targets, extent and count of each component."""
        file = self._file(identifier)
        file.layout = [c for c in components if c[0] > 0 and c[4] > 0]
        file.layout_system = of_darshan(module).name

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
            file.again = (file.again or 0) + moved_again(offset, length)
            file.blocks += [blocks_touched(offset, length, size) for size in BLOCKS.values()]
        stripes = self._stripes(file, None)
        if stripes is not None:
            self._osts.add_requests(stripes[0], stripes[1], offset, length, spent)

    # -- results ---------------------------------------------------------------------------------------------------

    def activity(self, head: LogHead, job: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
        """Give all as an activity."""
        unseen = head.unseen
        entries = {
            key: entry for key, file in self._files.items() if (entry := self._entry(key, file, names)) is not None
        }
        if self._dropped:
            unseen = [*unseen, f"{self._dropped} small files were only counted: the log names more than {_KEPT_FILES}"]
        spent = {key: seconds_of(entry) for key, entry in entries.items()}
        by_time = sorted(entries, key=lambda key: -spent[key])
        by_bytes = sorted(entries, key=lambda key: -bytes_of(entries[key]))
        listed = dict.fromkeys([*by_time[:_LISTED_BY_TIME], *by_bytes[:_LISTED_BY_BYTES]])
        counted = self._counted(entries, names)
        if len(listed) < len(entries):
            most = f"the {len(listed):,} files with most time and bytes, of {counted['files']:,}"
            unseen = [*unseen, f"findings that judge each file look at {most}: their sums are lower bounds"]
        for key, file in self._files.items():
            if file.layout and not file.traced and key in entries:
                self._carry_evenly(file, entries[key])
        return {
            **vars(head),
            "job": job,
            "unseen": unseen,
            "io_seconds": self._slowest.seconds,
            "moved": self._slowest.bytes,
            "modules": {
                level: {"bytes": found.bytes, "seconds": found.seconds}
                for level, found in self._modules.items()
                if found.bytes
            },
            "summed_seconds": sum(spent.values()),
            "totals": self._total_levels(),
            "counted": counted,
            "files": [entries[key] for key in listed],
            "ranks": self._rank_loads(),
            "timeline": self._grid.timeline(),
            "osts": self._osts.entries(),
        }

    def _file(self, identifier: int) -> FileSums:
        file = self._files.get(identifier)
        if file is None:
            if len(self._files) >= _KEPT_FILES:
                self._drop()
            file = self._files[identifier] = FileSums()
        return file

    def _drop(self) -> None:
        """Forget the smaller half of the files; the totals have them."""
        kept = sorted(self._files.items(), key=lambda item: -weight_of(item[1]))[: _KEPT_FILES // 2]
        self._dropped += len(self._files) - len(kept)
        left = dict(kept)
        for key, file in self._files.items():
            if key not in left:
                self._count(file)
        self._files = left

    def _count(self, file: FileSums) -> None:
        """Count a file that is forgotten by how it was used."""
        lower = file.levels.get("posix") or file.levels.get("stdio")
        if lower is None:
            return
        place = places("posix" if "posix" in file.levels else "stdio")[0]
        values = lower.counters
        moved = int(values[place["BYTES_READ"]] + values[place["BYTES_WRITTEN"]])
        extent = 1 + max(int(values[place["MAX_BYTE_READ"]]), int(values[place["MAX_BYTE_WRITTEN"]]))
        own = not lower.reduced and lower.records == 1
        self._dropped_counts["shared"] += not own
        self._dropped_counts["small"] += moved > 0 and extent < 1 << 20
        if own and file.writers == 1:
            self._dropped_counts["written_single"] += 1
            self._owners.add(file.last_writer)

    def _entry(self, key: int, file: FileSums, names: dict[int, str]) -> dict[str, Any] | None:
        path = names.get(key, f"(record {key:x})")[:4096]
        if not file.levels or path.startswith("heatmap:"):
            return None
        if key not in names and not any(int(sums.counters.max(initial=0)) for sums in file.levels.values()):
            return None
        lower = file.levels.get("posix") or file.levels.get("stdio") or next(iter(file.levels.values()))
        ranks = self._ranks if any(sums.reduced for sums in file.levels.values()) else lower.records
        entry: dict[str, Any] = {"path": path, "file_system": self._file_system(path), "ranks": max(1, ranks)}
        for level, sums in file.levels.items():
            entry[level] = level_entry(level, sums, file)
        if "mpiio" in file.levels:
            entry["modes"] = modes_entry(file.levels["mpiio"])
        if lower.spread is not None:
            slow, fast = lower.spread[:3], lower.spread[3:]
            entry["spread"] = {
                "slowest_seconds": slow[0], "slowest_rank": slow[1], "slowest_bytes": slow[2],
                "fastest_seconds": fast[0], "fastest_bytes": fast[2],
            }  # fmt: skip
        stripes = self._stripes(file, extent_of(entry))
        if stripes is not None:
            entry["layout"] = {
                "file_system": file.layout_system,
                "stripe_count": stripes[2],
                "stripe_size": stripes[0],
                "osts": stripes[1],
            }
        entry["redundant_read"] = file.again
        entry["chunk_bytes"] = file.chunk or None
        entry["read_blocks"] = file.blocks.tolist() if file.blocks.any() else []
        return entry

    def _file_system(self, path: str) -> str | None:
        for mount, kind in self._mounts:
            if path == mount or path.startswith(mount.rstrip("/") + "/"):
                return kind
        return None

    def _stripes(self, file: FileSums, extent: int | None) -> tuple[int, list[int], int] | None:
        """Stripe size, targets and count of the component that holds most of the data."""
        if not file.layout:
            return None
        used = [c for c in file.layout if extent is None or c[2] < extent or c is file.layout[0]]
        size, targets, _, _, count = used[-1]
        return size, targets, count

    def _carry_evenly(self, file: FileSums, entry: dict[str, Any]) -> None:
        stripes = self._stripes(file, extent_of(entry))
        if stripes is None or not stripes[1]:
            return
        level = entry.get("posix") or entry.get("mpiio")
        moved = level["read"]["bytes"] + level["write"]["bytes"] if level else 0
        self._osts.add_evenly(stripes[0], stripes[1], moved, extent_of(entry) or moved)

    def _total_levels(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            level: level_entry(level, self._totals[level], FileSums())
            for level in ("posix", "mpiio", "stdio")
            if level in self._totals
        }
        if "mpiio" in self._totals:
            found["modes"] = modes_entry(self._totals["mpiio"])
        return found

    def _counted(self, entries: dict[int, dict[str, Any]], names: dict[int, str]) -> dict[str, int]:
        # Datasets and variables have records of their own, which are not files.
        calls = {"posix", "mpiio", "stdio"}
        real = {key: e for key, e in entries.items() if names.get(key) not in STREAMS and calls & e.keys()}
        own = [key for key, entry in real.items() if entry["ranks"] == 1 and self._files[key].writers == 1]
        gone = self._dropped_counts
        return {
            "files": len(real) + self._dropped,
            "shared": gone["shared"] + sum(entry["ranks"] > 1 for entry in real.values()),
            "written_single": gone["written_single"] + len(own),
            "writers": len(self._owners | {self._files[key].last_writer for key in own}),
            "small": gone["small"]
            + sum(bytes_of(entry) > 0 and (extent_of(entry) or 0) < 1 << 20 for entry in real.values()),
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
