"""Records: what each rank of a job did in MPI-IO and HDF5, as the runtime wrote it, with repeated calls as loops.

``native/include/formats.toml`` defines the lines; :mod:`stripewise.observe.record_reading` reads them.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
import secrets
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stripewise.errors import UserError
from stripewise.formats import RECORD_BEFORE
from stripewise.formats import RECORD_LINES as LINES
from stripewise.observe.record_hdf5 import OPENS, Shape

POSIX = "posix_"
_ESCAPE = re.compile(r"%([0-9a-f]{2})")
DIGITS = re.compile(r"[0-9]+")
OF_NO_OPEN_FILE = frozenset({"delete", "failed_delete", "failed_open", *RECORD_BEFORE})
"""Lines of MPI-IO that are on no file that is open."""
NO_CALLS = frozenset({"posix_hold", "tell", "await", *RECORD_BEFORE})
"""Lines that are not calls of the program."""
MOST_CALLS = 10_000_000
"""Calls that are gone through one by one; loops can stand for as many as nobody waits for."""


@dataclass(frozen=True)
class Number:
    """A number of a line: where it starts, and its steps.

    Attributes
    ----------
    base : int
    steps : tuple of int
        From turn to turn of the loops around the line, the innermost first; missing ones are 0.
    rank : int
        From rank to rank of the group.
    """

    base: int
    steps: tuple[int, ...] = ()
    rank: int = 0

    def at(self, turns: Sequence[int], rank: int) -> int:
        """Give its value in these turns, the innermost loop's first, of a rank counted from the group's first."""
        return self.base + sum(s * t for s, t in zip(self.steps, turns, strict=False)) + self.rank * rank

    def bounds(self, times: Sequence[int], ranks: int) -> tuple[int, int]:
        """Give its least and largest value over all turns and ranks."""
        spans = [s * (t - 1) for s, t in zip(self.steps, times, strict=False)] + [self.rank * (ranks - 1)]
        return self.base + sum(min(span, 0) for span in spans), self.base + sum(max(span, 0) for span in spans)

    def total(self, times: Sequence[int], ranks: int) -> int:
        """Give its sum over all turns and ranks."""
        low, high = self.bounds(times, ranks)
        return (low + high) * math.prod(times) * ranks // 2


@dataclass(frozen=True)
class Call:
    """A line that is a call: its function, its numbers in the format's order, and the mean pause before it (ns)."""

    name: str
    numbers: tuple[Number, ...]
    pause: int

    def number(self, name: str) -> Number:
        """Give the number of this name."""
        return self.numbers[LINES[self.name].index(name)]


@dataclass(frozen=True)
class Loop:
    """Lines that are repeated."""

    times: int
    body: tuple[Call | Loop, ...]


@dataclass(frozen=True)
class RankGroup:
    """Ranks next to each other that did the same, but for steps.

    Attributes
    ----------
    first, count : int
    comms : tuple of (Number, Number)
        Leader, size, and how far its members are from one another; see the format.
    files : tuple of (str, tuple of int)
        Path, and for each run of digits in it what a rank more adds.
    hints : tuple of tuple of (str, str)
        Of each file the hints that the program gives when it opens it.
    types : tuple of tuple of Number
        Lower bound and extent.
    blocks : tuple of tuple of (int, int, int)
        Of each type the length of each block on the first rank, how often it is there, and how many bytes apart in its
        innermost dimension; 0 without one.
    body : tuple of Call or Loop
    shapes : tuple of Shape
        Of HDF5's datasets.
    nearest : int
        How many of the types are irregular, and kept in their nearest regular form.
    """

    first: int
    count: int
    comms: tuple[tuple[Number, ...], ...] = ()
    files: tuple[tuple[str, tuple[int, ...]], ...] = ()
    hints: tuple[tuple[tuple[str, str], ...], ...] = ()
    types: tuple[tuple[Number, ...], ...] = ()
    blocks: tuple[tuple[tuple[int, int, int], ...], ...] = ()
    body: tuple[Call | Loop, ...] = ()
    shapes: tuple[Shape, ...] = ()
    nearest: int = 0

    @property
    def calls_of_a_rank(self) -> int:
        """How many calls one of these ranks made."""
        return sum(math.prod(times) for _, times in flatten_body(self.body))

    def path(self, file: int, rank: int) -> str:
        """Give the path of a file for a rank of the job."""
        text, steps = self.files[file]
        left = iter(steps)

        def moved(found: re.Match[str]) -> str:
            step = next(left) * (rank - self.first)
            return f"{int(found[0]) + step:0{len(found[0])}d}" if step else found[0]

        return DIGITS.sub(moved, text)


@dataclass(frozen=True)
class Record:
    """What a job did.

    Attributes
    ----------
    ranks, nodes : int
    elapsed, io_time : float
        Seconds, as in the report.
    gaps : tuple of str
        Why it does not hold everything; empty if it does.
    groups : tuple of RankGroup
    inputs : tuple of (int, str)
        Bytes and paths of files that were there before the job opened them.
    """

    ranks: int
    nodes: int
    elapsed: float
    io_time: float
    gaps: tuple[str, ...] = ()
    groups: tuple[RankGroup, ...] = ()
    inputs: tuple[tuple[int, str], ...] = ()

    @property
    def folder(self) -> str:
        """The folder in which all its files lie, however deep."""
        ends = {0, -1}
        paths = {path for _, path in self.inputs}
        for group in self.groups:
            ranks = [range(group.first, group.first + group.count)[end] for end in ends]
            paths |= {group.path(file, rank) for file in range(len(group.files)) for rank in ranks}
        return posixpath.commonpath([posixpath.dirname(path) for path in paths]) if paths else "/"

    def calls(self, rank: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Give the calls of a rank in their order, each with its numbers."""
        for group in self.groups:
            if group.first <= rank < group.first + group.count:
                yield from _unroll_body(group.body, (), rank - group.first)

    def count(self, *names: str) -> int:
        """Count calls of these functions over all ranks; without names all calls."""
        return sum(
            math.prod(times) * group.count
            for group in self.groups
            for call, times in flatten_body(group.body)
            if (call.name in names if names else call.name not in NO_CALLS)
        )

    @property
    def uses_hdf5(self) -> bool:
        """Whether it holds calls of HDF5."""
        return any(call.name in OPENS for group in self.groups for call, _ in flatten_body(group.body))

    @property
    def is_posix(self) -> bool:
        """Whether it holds calls of the C library, of a program without MPI."""
        return any(call.name.startswith(POSIX) for group in self.groups for call, _ in flatten_body(group.body))

    def need_mpi_io(self, origin: str) -> Record:
        """Give it, or refuse what holds no calls of MPI-IO.

        Parameters
        ----------
        origin : str
            Where it was read.

        Raises
        ------
        UserError
            If it is of a program without MPI.
        """
        if self.is_posix:
            what = f"{origin} is of a program without MPI, and such records are only replayed"
            raise UserError(what, "run the program with: run --mode observe")
        return self

    def check_length(self, of_a_group: int) -> None:
        """Refuse a record with too many calls to go through.

        Parameters
        ----------
        of_a_group : int
            Ranks of each group whose calls are gone through.

        Raises
        ------
        UserError
            If they have more than :data:`MOST_CALLS`.
        """
        calls = sum(min(group.count, of_a_group) * group.calls_of_a_rank for group in self.groups)
        if calls > MOST_CALLS:
            what = f"the record has {calls:,} different calls, and {MOST_CALLS:,} can be gone through"
            raise UserError(what, "record fewer steps of the program")

    @property
    def moved(self) -> dict[str, int]:
        """Bytes by operation (``read``, ``write``), over all ranks."""
        found = {"read": 0, "write": 0}
        for group in self.groups:
            for operation, size, times in _transfers(group):
                found[operation] += size.total(times, group.count)
        return found

    def rank_bytes(self) -> dict[str, list[int]]:
        """Bytes of each rank, by operation (``read``, ``write``)."""
        found = {operation: [0] * self.ranks for operation in ("read", "write")}
        for group in self.groups:
            first, step = dict.fromkeys(found, 0), dict.fromkeys(found, 0)
            for operation, size, times in _transfers(group):
                first[operation] += size.total(times, 1)
                step[operation] += math.prod(times) * size.rank
            for operation, ranks in found.items():
                for distance in range(group.count):
                    ranks[group.first + distance] = first[operation] + step[operation] * distance
        return found

    @property
    def think_time(self) -> float:
        """Seconds between the calls of the rank that paused longest; of ranks that did the same, their mean."""
        return max(
            (
                sum(call.pause * math.prod(times) for call, times in flatten_body(group.body))
                for group in self.groups
            ),
            default=0,
        ) / 1e9  # fmt: skip


def _unroll_body(
    body: Sequence[Call | Loop], turns: tuple[int, ...], rank: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for line in body:
        if isinstance(line, Call):
            yield line.name, tuple(number.at(turns, rank) for number in line.numbers)
        elif all(isinstance(inner, Call) for inner in line.body):
            yield from _unroll_calls(line, turns, rank)
        else:
            for turn in range(line.times):
                yield from _unroll_body(line.body, (turn, *turns), rank)


def _unroll_calls(loop: Loop, turns: tuple[int, ...], rank: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Unroll an innermost loop, in which most calls of a record are: what changes from turn to turn is found once."""
    lines = []
    for call in loop.body:
        assert isinstance(call, Call)
        first = tuple(number.at((0, *turns), rank) for number in call.numbers)
        steps = tuple(number.steps[0] if number.steps else 0 for number in call.numbers)
        lines.append((call.name, first, steps if any(steps) else ()))
    for turn in range(loop.times):
        for name, first, steps in lines:
            yield name, tuple([a + b * turn for a, b in zip(first, steps, strict=True)]) if steps else first


def flatten_body(body: Sequence[Call | Loop], times: tuple[int, ...] = ()) -> Iterator[tuple[Call, tuple[int, ...]]]:
    """Each call with how often the loops around it turn, the innermost first."""
    for line in body:
        if isinstance(line, Call):
            yield line, times
        else:
            yield from flatten_body(line.body, (line.times, *times))


def is_collective(name: str) -> bool:
    """Whether all ranks of a file make this call together."""
    return "_all" in name or "_ordered" in name


def not_open(call: str) -> UserError:
    """Say that a record has a call on a file that is not open."""
    return UserError(f"the record is damaged: it has {call} on a file that is not open", "record the program again")


def _transfers(group: RankGroup) -> Iterator[tuple[str, Number, tuple[int, ...]]]:
    """Each call that moves bytes: its operation, its bytes, and how often the loops around it turn."""
    for call, times in flatten_body(group.body):
        if "bytes" in LINES[call.name]:
            yield "write" if "write" in call.name else "read", call.number("bytes"), times


def decode_text(text: str) -> str:
    """Read a text that ends a line: %XX stands for a character.

    Raises
    ------
    ValueError
        If it holds a NUL, which no path, hint or remark can.
    """
    if "%00" in text:
        raise ValueError("a text that holds a NUL")
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def with_hashed_paths(text: str) -> str:
    """Replace the names in the paths of a record by hashes; runs of digits stay, since ranks count by them.

    The hashes are keyed with a random number that is kept nowhere, so names cannot be guessed from them. Equal names
    have equal hashes within the record.
    """
    key = secrets.token_bytes(16)
    lines = []
    for line in text.split("\n")[:-2]:
        words = line.split(" ", 2)
        if words[0] in ("file", "input"):
            words[2] = "/".join(_hash_name(part, key) for part in decode_text(words[2]).split("/"))
        lines.append(" ".join(words))
    body = "".join(f"{line}\n" for line in lines)
    return f"{body}checksum {zlib.crc32(body.encode('utf-8', 'surrogateescape')):08x}\n"


def _hash_name(name: str, key: bytes) -> str:
    if not name:
        return ""
    shape = DIGITS.sub("#", name).encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(shape, key=key, digest_size=6).hexdigest()
    letters = "".join(chr(ord("a") + int(digit, 16)) for digit in digest)
    return ".".join([letters, *DIGITS.findall(name)])
