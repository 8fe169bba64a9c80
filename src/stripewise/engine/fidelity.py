"""How faithful a replay is to the program that was recorded: time, bytes and calls of both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from stripewise.formats import RECORD_CALLS, RECORD_LINES
from stripewise.observe.activity import Activity
from stripewise.observe.record import NO_CALLS, POSIX, Record
from stripewise.observe.record_hdf5 import OPERATIONS, is_hdf5

MOST_APART = 1.5
"""A replay whose I/O takes more than so many times as long as the program's, or less than its part, is not faithful."""

_POSIX = frozenset(name for name in RECORD_CALLS if name.startswith(POSIX)) - NO_CALLS
_MPI = frozenset(name for name in RECORD_CALLS if not is_hdf5(name) and name not in _POSIX) - {
    "seek", "seek_shared", "failed_open", "failed_delete", *NO_CALLS,
}  # fmt: skip
"""Functions of MPI-IO that both the record and the report count."""
_MOVING = frozenset(name for name in _MPI if "bytes" in RECORD_LINES[name])
"""Those that count where HDF5 is used too: what else it does to its files with MPI-IO is not in the record."""
_ENDS = {"h5fclose": ("h5fcreate", "h5fopen"), "h5dclose": ("h5dcreate", "h5dopen")}
"""What a program leaves open HDF5 ends at the end of MPI without a call; a replay closes it."""


@dataclass(frozen=True)
class Done:
    """What a job did in MPI-IO.

    Attributes
    ----------
    calls : mapping
        By function as a record names it, over all ranks.
    read, written : int
        Bytes.
    io_time : float
        Seconds inside MPI-IO calls, of the rank that spent most.
    """

    calls: Mapping[str, int]
    read: int
    written: int
    io_time: float

    @classmethod
    def by_record(cls, record: Record) -> Self:
        """Give what a record says, with a close for each open of HDF5."""
        names = _POSIX if record.is_posix else _MOVING | OPERATIONS.keys() if record.uses_hdf5 else _MPI
        counts = {name: record.count(*_ENDS.get(name, (name, f"failed_{name}"))) for name in sorted(names)}
        moved = record.moved
        return cls({n: c for n, c in counts.items() if c}, moved["read"], moved["write"], record.io_time)

    @classmethod
    def by_counts(cls, counts: Mapping[str, Any]) -> Self:
        """Give what a replay of calls of the C library counted itself."""
        made = {name: count for name, count in counts["calls"].items() if name in _POSIX}
        return cls(made, counts["read"], counts["written"], counts["io_time"] / 1e9)

    @classmethod
    def by_activity(cls, activity: Activity, like: Record) -> Self:
        """Give what a report of all files shows, at the levels that a record holds."""
        # What a job did beside MPI-IO counts in sums over all files, and a replay reads its record.
        files, calls = activity.through, _MPI
        if like.uses_hdf5:
            # What HDF5 did to its files counts in place of what MPI-IO did beneath.
            files, calls = [file for file in files if not file.through_hdf5], _MOVING
        counts = _sum([file.calls for file in files], calls)
        read, written = (sum(getattr(file.upper, way).bytes for file in files) for way in ("read", "write"))
        if like.uses_hdf5:
            ours = [file for file in activity.through if file.hdf5_driver == "mpio"]
            made = _sum([file.hdf5_calls for file in ours], OPERATIONS.values())
            counts |= {line: made[name] for line, name in OPERATIONS.items() if name in made}
            moved = [(way, transfers.moved) for file in ours for way, transfers in file.transfers.items()]
            read += sum(amount for way, amount in moved if way == "read")
            written += sum(amount for way, amount in moved if way == "write")
        return cls(counts, read, written, activity.io_seconds)


def _sum(made: Sequence[Mapping[str, int]], names: Iterable[str]) -> dict[str, int]:
    """Sum up calls by name, of those that are to be counted and were made."""
    counts = {name: sum(calls.get(name, 0) for calls in made) for name in sorted(names)}
    return {name: count for name, count in counts.items() if count}


def _function(name: str) -> str:
    """A line's function by its full name."""
    if name in _POSIX:
        return name.removeprefix(POSIX)
    return f"H5{name[2:3].upper()}{name[3:]}" if name in OPERATIONS else f"MPI_File_{name}"


@dataclass(frozen=True)
class Faithfulness:
    """A program and its replay side by side.

    Attributes
    ----------
    whole : bool
        Whether the replay was to make all calls; else only times are compared, by the bytes that were moved.
    """

    program: Done
    replay: Done
    whole: bool

    @property
    def ratio(self) -> float | None:
        """The time of the replay's I/O, by that of the program's for as many bytes; None where nothing was timed."""
        share = 1.0
        if not self.whole:
            moved = self.program.read + self.program.written
            share = (self.replay.read + self.replay.written) / moved if moved else 0.0
        return self.replay.io_time / (share * self.program.io_time) if share * self.program.io_time > 0 else None

    @property
    def differences(self) -> list[str]:
        """Why the replay is not faithful; empty if it is."""
        found = []
        if self.whole:
            for name in sorted({*self.program.calls, *self.replay.calls}):
                ours, theirs = self.replay.calls.get(name, 0), self.program.calls.get(name, 0)
                if ours != theirs:
                    found.append(f"it made {ours:,} calls of {_function(name)}, and the program {theirs:,}")
            for word, ours, theirs in (
                ("read", self.replay.read, self.program.read),
                ("wrote", self.replay.written, self.program.written),
            ):
                if ours != theirs:
                    found.append(f"it {word} {ours:,} bytes, and the program {theirs:,}")
        if self.ratio is None:
            found.append("times cannot be compared: it or the program spent none in such calls")
        elif not 1 / MOST_APART <= self.ratio <= MOST_APART:
            per = "" if self.whole else " for as many bytes"
            found.append(f"its I/O took {self.ratio:.2f} times as long as the program's{per}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Give it as JSON."""

        def both(name: str) -> dict[str, Any]:
            return {"program": getattr(self.program, name), "replay": getattr(self.replay, name)}

        counts = {"program": sum(self.program.calls.values()), "replay": sum(self.replay.calls.values())}
        return {
            "faithful": not self.differences,
            "differences": self.differences,
            "whole": self.whole,
            "calls": counts,
            "bytes_read": both("read"),
            "bytes_written": both("written"),
            "io_time": {**both("io_time"), "ratio": self.ratio},
        }
