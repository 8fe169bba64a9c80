"""How faithful a replay is to the program that was recorded: time, bytes and calls of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from stripewise.spec.formats import RECORD_CALLS
from stripewise.spec.record import Record
from stripewise.spec.report import Report

MOST_APART = 1.5
"""A replay whose I/O takes more than so many times as long as the program's, or less than its part, is not faithful."""

_COUNTED = frozenset(RECORD_CALLS) - {"seek"}
"""Functions that both the record and the report count."""


@dataclass(frozen=True)
class Done:
    """What a job did in MPI-IO.

    Attributes
    ----------
    calls : mapping
        By function, over all ranks.
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
        """Give what a record says."""
        counts = {name: record.count(name) for name in sorted(_COUNTED)}
        moved = record.moved
        return cls({n: c for n, c in counts.items() if c}, moved["read"], moved["write"], record.io_time)

    @classmethod
    def by_report(cls, report: Report) -> Self:
        """Give what a report of all files says."""
        counts = dict.fromkeys(sorted(_COUNTED), 0)
        for file in report.files:
            for name in _COUNTED & file.operations.keys():
                counts[name] += file.operations[name].count
        totals = report.totals
        calls = {name: count for name, count in counts.items() if count}
        return cls(calls, totals.bytes_read, totals.bytes_written, report.job.io_time)


@dataclass(frozen=True)
class Faithfulness:
    """A program and its replay side by side.

    Attributes
    ----------
    program, replay : Done
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
                    found.append(f"it made {ours:,} calls of MPI_File_{name}, and the program {theirs:,}")
            for word, ours, theirs in (
                ("read", self.replay.read, self.program.read),
                ("wrote", self.replay.written, self.program.written),
            ):
                if ours != theirs:
                    found.append(f"it {word} {ours:,} bytes, and the program {theirs:,}")
        if self.ratio is None:
            found.append("times cannot be compared: it or the program spent none in MPI-IO")
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
