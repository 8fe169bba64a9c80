"""What a profile shows of a program in numbers that a model can learn from, whatever component is tuned.

Tables have a column for each trait, and the column's role is the trait's name. So a model that learned from the traits
of some programs answers for another program by its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the process that reads logs takes the sizes of blocks from here, and needs nothing else
    from stripewise.observe.activity import Activity, Calls

BLOCKS = {"256k": 256 << 10, "1m": 1 << 20, "4m": 4 << 20, "16m": 16 << 20, "64m": 64 << 20}
"""Sizes of the blocks of a file of which a trace tells how many were read."""

TRAITS: Mapping[str, str] = {
    "reads": "count",
    "writes": "count",
    "read_size": "B",
    "write_size": "B",
    "read_extent": "B",
    "consecutive_reads": "",
    "sequential_reads": "",
    **{f"read_blocks_{name}": "" for name in BLOCKS},
}
"""Unit of each trait. Calls, their mean sizes, and the end of what was read; then shares of the read calls: those that
begin where the last one ended or behind it, and the different blocks that they read."""


def traits_of(activity: Activity) -> dict[str, float]:
    """Give the traits that a log shows."""
    totals = activity.totals
    level = next((one for one in (totals.mpiio, totals.posix, totals.stdio) if one.bytes), totals.posix)
    found = _of_calls("read", level.read) | _of_calls("write", level.write)
    reads = level.read.count
    if reads:
        counted = {
            "consecutive_reads": level.read.consecutive,
            "sequential_reads": level.read.sequential,
            # A trace is of the calls below MPI-IO.
            **(_blocks(activity) if level is totals.posix else {}),
        }
        found |= {name: count / reads for name, count in counted.items() if count is not None}
        found |= {"read_extent": level.read.extent} if level.read.extent else {}
    return found


def _of_calls(word: str, calls: Calls) -> dict[str, float]:
    return {f"{word}s": calls.count, f"{word}_size": calls.mean}


def _blocks(activity: Activity) -> dict[str, int]:
    traced = [file.read_blocks for file in activity.files if file.read_blocks]
    return {f"read_blocks_{name}": sum(each[i] for each in traced) for i, name in enumerate(BLOCKS) if traced}
