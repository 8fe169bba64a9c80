"""Reading records, strictly: a damaged one, or one whose calls name what it does not define, is refused.

Where a rank of a record stands in an open file: its view and its own pointer.
"""

from __future__ import annotations

import math
import re
import zlib
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from stripewise.documents import read_document
from stripewise.errors import UserError
from stripewise.formats import (
    MAX_RECORD_BYTES,
    MAX_RECORD_ITEMS,
    RECORD_BEFORE,
    RECORD_DEPTH,
    RECORD_HEADER,
    RECORD_LINES,
)
from stripewise.formats import RECORD_CALLS as CALLS
from stripewise.formats import RECORD_LINES as LINES
from stripewise.interpreter import run_bounded
from stripewise.observe.record import DIGITS, Call, Loop, Number, RankGroup, Record, decode_text
from stripewise.observe.record_hdf5 import HDF5_NAMES, Hdf5Names

_NUMBER = re.compile(r"(-?\d{1,19}(?:,-?\d{1,19}){0,4})(?:~(-?\d{1,19}))?", re.ASCII)
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_MOST_CALLS = 1 << 48
_MOST = 1 << 63
_CURE = "record the program again"


@dataclass
class _Group:
    """A group while it is read."""

    first: int
    count: int
    comms: list[tuple[Number, ...]] = field(default_factory=list)
    files: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    hints: list[list[tuple[str, str]]] = field(default_factory=list)
    types: list[tuple[Number, ...]] = field(default_factory=list)
    blocks: list[list[tuple[int, int, int]]] = field(default_factory=list)
    nearest: int = 0
    hdf5: Hdf5Names = field(default_factory=Hdf5Names)
    open: list[tuple[int, list[Call | Loop]]] = field(default_factory=lambda: [(1, [])])
    last: str = "ranks"
    lines: int = 0

    @property
    def times(self) -> tuple[int, ...]:
        """Of the loops that are open, the innermost first."""
        return tuple(times for times, _ in reversed(self.open[1:]))

    def end(self, whole: bool) -> RankGroup:
        """Give it as read; where it is not whole, its last call may be missing."""
        if len(self.open) > 1:
            raise ValueError("a loop has no end")
        if whole and self.last in RECORD_BEFORE:
            raise ValueError(f"{self.last} without the call that it belongs to")
        body = tuple(self.open[0][1])
        blocks = tuple(map(tuple, self.blocks))
        named = tuple(self.comms), tuple(self.files), tuple(map(tuple, self.hints)), tuple(self.types), blocks
        return RankGroup(self.first, self.count, *named, body, tuple(self.hdf5.shapes), self.nearest)


def parse_record(text: str, origin: str) -> Record:
    """Read a record.

    Raises
    ------
    UserError
        If it is none, is damaged, or its calls name what it does not define.
    """
    head, sep, last = text.removesuffix("\n").rpartition("\nchecksum ")
    if not text.startswith(f"{RECORD_HEADER}\n"):
        raise UserError(f"{origin} is not a record of this version of Stripewise", "record the program with: record")
    crc = zlib.crc32(f"{head}\n".encode("utf-8", "surrogateescape"))
    if not sep or last != f"{crc:08x}":
        raise UserError(f"{origin} is damaged or not complete: its checksum does not fit", _CURE)
    reader = _Reader()
    for number, line in enumerate(head.split("\n")[1:], 2):
        try:
            reader.take(line)
        except ValueError as error:
            raise UserError(f"{origin}: line {number}: {error}", _CURE) from error
    try:
        return reader.end()
    except ValueError as error:
        raise UserError(f"{origin}: {error}", _CURE) from error


def read_record(path: Path) -> Record:
    """Read the file of a record.

    Raises
    ------
    UserError
        As :func:`parse_record`, or if the file cannot be read.
    """
    text = read_document(path, "record", most=MAX_RECORD_BYTES, errors="surrogateescape")
    return run_bounded(lambda: parse_record(text, str(path)), path)


class _Reader:
    """The lines of a record, one after the other."""

    def __init__(self) -> None:
        self.job: tuple[int, ...] = ()
        self.gaps: list[str] = []
        self.groups: list[RankGroup] = []
        self.inputs: list[tuple[int, str]] = []
        self.group: _Group | None = None

    def take(self, line: str) -> None:
        """Read a line.

        Raises
        ------
        ValueError
            With what is wrong.
        """
        name, _, rest = line.partition(" ")
        if name not in LINES or name == "checksum":
            raise ValueError(f"{name[:40]!r} is not a line of a record")
        if name == "job":
            self._job(rest)
        elif not self.job:
            raise ValueError("the line about the job is missing")
        elif name == "incomplete" and self.group is None and not self.groups:
            self.gaps.append(decode_text(rest))
        elif name == "ranks" and not self.inputs:
            self._ranks(rest)
        elif name == "input":
            self._close()
            size, _, path = rest.partition(" ")
            self.inputs.append((_parse_wholes([size], 1)[0], _decode_path(path)))
        elif self.group is None:
            raise ValueError(f"{name} stands outside of the ranks")
        else:
            _take_of_ranks(self.group, name, rest)

    def end(self) -> Record:
        """Give all that was read."""
        self._close()
        if not self.job:
            raise ValueError("the line about the job is missing")
        ranks, nodes, elapsed, io_time = self.job
        parts = tuple(self.gaps), tuple(self.groups), tuple(self.inputs)
        return Record(ranks, nodes, elapsed / 1e9, io_time / 1e9, *parts)

    def _job(self, rest: str) -> None:
        if self.job:
            raise ValueError("a second line about the job")
        self.job = _parse_wholes(rest.split(" "), 4)
        if not 0 < self.job[0] < 1 << 31:
            raise ValueError("the job has no ranks, or too many")

    def _ranks(self, rest: str) -> None:
        self._close()
        first, count = _parse_wholes(rest.split(" "), 2)
        next_rank = self.groups[-1].first + self.groups[-1].count if self.groups else 0
        if first < next_rank or count < 1 or first + count > self.job[0]:
            raise ValueError(f"{count} ranks from {first} on do not follow on rank {next_rank - 1} of {self.job[0]}")
        self.group = _Group(first, count)

    def _close(self) -> None:
        if self.group is not None:
            self.groups.append(self.group.end(not self.gaps))
            self.group = None


def _take_of_ranks(group: _Group, name: str, rest: str) -> None:
    group.lines += 1
    if group.lines > 2 * MAX_RECORD_ITEMS:
        raise ValueError("more lines of a rank than the runtime writes")
    body = group.open[-1][1]
    if name not in ("loop", *RECORD_BEFORE.get(group.last, (name,))):  # the call may be the first of a loop
        raise ValueError(f"{group.last} without the call that it belongs to")
    if name == "file":
        steps, _, path = rest.partition(" ")
        group.files.append(_file(steps, _decode_path(path), group.count))
        group.hints.append([])
    elif name == "hint":
        if group.last not in ("file", "hint") or "=" not in rest:
            raise ValueError("a hint without a file, a key or a value")
        key, _, value = decode_text(rest).partition("=")
        group.hints[-1].append((key, value))
    elif name == "loop":
        (times,) = _parse_wholes([rest], 1)
        if len(group.open) > RECORD_DEPTH or times < 1 or math.prod(group.times) * times > _MOST_CALLS:
            raise ValueError("loops that are too deep or too long")
        group.open.append((times, []))
    elif name == "end":
        if len(group.open) == 1 or rest:
            raise ValueError("the end of no loop")
        times, lines = group.open.pop()
        if not lines:
            raise ValueError("a loop without calls")
        group.open[-1][1].append(Loop(times, tuple(lines)))
    elif name in HDF5_NAMES:
        group.hdf5.take(name, [_of_first(group, number) for number in _numbers(rest.split(" "), len(LINES[name]), 0)])
    elif name in CALLS:
        body.append(_call(group, name, rest.split(" ")))
    elif name in ("comm", "type", "nearest", "block", "dim"):
        _take_shape(group, name, rest)
    else:
        raise ValueError(f"{name} stands among the lines of ranks")
    if name != "loop" or group.last not in RECORD_BEFORE:
        group.last = name


def _take_shape(group: _Group, name: str, rest: str) -> None:
    """Read a communicator, or a line of a datatype."""
    numbers = _numbers(rest.split(" "), len(LINES[name]), 0)
    if name == "comm":
        group.comms.append(_in_job(numbers))
    elif name == "type":
        group.types.append(numbers)
        group.blocks.append([])
    elif name == "nearest":
        if group.last != "type":
            raise ValueError("nearest without a type")
        group.nearest += 1
    elif group.last not in (("type", "nearest", "block", "dim") if name == "block" else ("block", "dim")):
        raise ValueError(f"{name} without what it belongs to")
    elif name == "block":
        group.blocks[-1].append((numbers[1].base, 1, 0))
    else:
        length, copies, stride = group.blocks[-1][-1]
        copies *= numbers[0].base
        if not 0 <= length * copies < _MOST:
            raise ValueError("a datatype that is too large")
        group.blocks[-1][-1] = (length, copies, stride or numbers[1].base)


def _call(group: _Group, name: str, words: list[str]) -> Call:
    numbers = _numbers(words[:-1], len(LINES[name]), len(group.open) - 1)
    call = Call(name, numbers, _parse_wholes(words[-1:], 1)[0])
    counts = {"file": len(group.files), "comm": len(group.comms), "type": len(group.types)}
    counts |= {"access": group.hdf5.accesses, "dataset": len(group.hdf5.shapes), "to": len(group.files)}
    for label, number in zip(LINES[name], numbers, strict=True):
        low, high = number.bounds(group.times, group.count)
        if low < 0 or high >= _MOST:
            raise ValueError(f"{name}: {label} leaves the range of what MPI can carry out")
        if label == "stride" and low < 1:
            raise ValueError(f"{name}: a stride of 0")
        if label in counts and high >= counts[label]:
            raise ValueError(f"{name} names {label} {high}, which is not defined")
    return call


def _of_first(group: _Group, number: Number) -> int:
    """Give a number as it is on a group's first rank; it must be one on all others."""
    low, high = number.bounds((), group.count)
    if low < -_MOST or high >= _MOST:
        raise ValueError("a number that is too large on some ranks")
    return number.base


def _in_job(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
    if numbers[0].base < 0 or numbers[1].base < 1:
        raise ValueError("a communicator without ranks")
    return numbers


def _decode_path(text: str) -> str:
    path = decode_text(text)
    if not path.startswith("/"):
        raise ValueError("a file whose path does not begin with /")
    return path


def _file(steps: str, path: str, ranks: int) -> tuple[str, tuple[int, ...]]:
    runs = DIGITS.findall(path)
    words = steps.split(",") if steps != "-" else []
    numbers = [_numbers([word], 1, 0)[0].base for word in words]
    if len(numbers) != len(runs):
        raise ValueError("a file whose steps do not fit its digits")
    if any(step and (len(run) > 18 or int(run) + step * (ranks - 1) < 0) for step, run in zip_longest(numbers, runs)):
        raise ValueError("a file whose name does not count up")
    return path, tuple(numbers)


def _numbers(words: list[str], count: int, depth: int) -> tuple[Number, ...]:
    if len(words) != count:
        raise ValueError(f"{len(words)} numbers where {count} belong")
    found = []
    for word in words:
        match = _NUMBER.fullmatch(word)
        base, *steps = map(int, match[1].split(",")) if match else (0,)
        rank = int(match[2] or 0) if match else 0
        if match is None or len(steps) > depth or not all(-_MOST <= value < _MOST for value in (base, *steps, rank)):
            raise ValueError(f"{word[:40]!r} is not a number with steps of the {depth} loops around it")
        found.append(Number(base, tuple(steps), rank))
    return tuple(found)


def _parse_wholes(words: list[str], count: int) -> tuple[int, ...]:
    if len(words) != count or not all(_WHOLE.fullmatch(word) for word in words):
        raise ValueError(f"not {count} whole numbers")
    return tuple(map(int, words))


@dataclass
class Position:
    """Where a rank stands in a file, from the open on.

    Attributes
    ----------
    displacement : int
        Bytes of the file before the view.
    etype : int
        Bytes of the unit in which the program counts offsets.
    type : int
        Number of the view's type in the group; -1 without one.
    pointer : int
        Bytes of the view before the rank's own pointer.
    """

    displacement: int = 0
    etype: int = 1
    type: int = -1
    pointer: int = 0

    def follow(self, name: str, numbers: tuple[int, ...]) -> None:
        """Take a call that changes the view or the pointer, and moves no bytes; others change nothing."""
        if name == "set_view":
            _, self.displacement, self.etype, self.type = numbers
            self.pointer = 0
        elif name == "seek":
            self.pointer = numbers[1] * self.etype

    def start(self, name: str, numbers: tuple[int, ...]) -> int:
        """Give the first byte of the view that a call moves, and go on behind the last if it moves the pointer."""
        if "offset" in RECORD_LINES[name]:
            return numbers[1] * self.etype
        start = self.pointer
        self.pointer += numbers[-1]
        return start
