"""Records of programs without MPI: the calls that each thread kept, in the form of ``native/observer/thread_calls.h``.

Threads and processes of which one waited while the other called become one rank of the record, in their order; what
called at the same time becomes ranks of its own. Where a rank uses a file that another one had made or closed before,
it waits for that.
"""

from __future__ import annotations

import math
import posixpath
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stripewise.formats import MAX_RECORD_ITEMS, RECORD_HEADER, RECORD_LINES
from stripewise.observe.record import DIGITS, Call, Loop, Number, flatten_body

_MAGIC = b"SWCALL1"
_HEAD = struct.Struct("=8s13Q")
_CUTS, _FILES, _TEXT = 512, 4096, 262144
_CUT = struct.Struct("=3Q")
_FILE = struct.Struct("=3Qq")
_ITEM = struct.Struct("=II5q20qq")
_ITEMS_AT = -(-(_HEAD.size + _CUTS * _CUT.size + _FILES * _FILE.size + _TEXT) // 4096) * 4096
_NAMES = tuple(RECORD_LINES)
_SLOTS = 1024
_ASKED = -2
"""In place of a file's bytes: a call only asked for it."""
_ACCESS = 3
"""Bits of an open's flags: 0 where it only reads."""
_MOST_THREADS = 4096
_GAPS = (
    "calls that do not repeat took more than the memory for a record",
    f"a process had more than {_SLOTS} files open",
    "a handler of signals made calls amid another one",
    "a process had more threads than are recorded",
)

Body = tuple[Call | Loop, ...]
Waits = dict[tuple[int, int], list[int]]
"""Ranks, by rank and place of a segment there."""


@dataclass(frozen=True)
class Segment:
    """Calls of a thread between two pauses.

    Attributes
    ----------
    thread : int
        Its number in the run.
    first, end : int
        Its calls, counted from the thread's first.
    began, ended : int
        Nanoseconds since 1970.
    """

    thread: int
    first: int
    end: int
    began: int
    ended: int


@dataclass(frozen=True)
class Thread:
    """What one thread did.

    Attributes
    ----------
    body : tuple of Call or Loop
    paths : tuple of str
    met : tuple of (int, int)
        Of each file when it was met, and its bytes then; -1: it was not there.
    segments : tuple of Segment
    spent : int
        Nanoseconds inside calls.
    gaps : tuple of str
    """

    body: Body
    paths: tuple[str, ...]
    met: tuple[tuple[int, int], ...]
    segments: tuple[Segment, ...]
    spent: int
    gaps: tuple[str, ...] = ()


@dataclass
class _Lane:
    """Threads of which never two called at the same time: a rank of the record.

    Attributes
    ----------
    segments : list of Segment
    bases, tops : dict
        Of each thread: its first slot, and one beyond its last one.
    files : list of int
        The threads, in the order in which their files are numbered.
    """

    segments: list[Segment] = field(default_factory=list)
    bases: dict[int, int] = field(default_factory=dict)
    tops: dict[int, int] = field(default_factory=dict)
    files: list[int] = field(default_factory=list)


def join_threads(paths: Sequence[Path]) -> str:
    """Give the record of a run, as a text, from the files that its threads left.

    Raises
    ------
    ValueError
        If none of them holds a call.
    """
    threads = [thread for number, path in enumerate(paths[:_MOST_THREADS]) if (thread := read_thread(path, number))]
    gaps = [_GAPS[3]] if len(paths) > _MOST_THREADS else []
    return write_threads([_renumber(thread, number) for number, thread in enumerate(threads)], gaps)


def read_thread(path: Path, number: int) -> Thread | None:
    """Read what a thread left; None where that is nothing, or another version's."""
    with path.open("rb") as file:
        data = file.read(_ITEMS_AT)  # the rest is mostly empty
        if len(data) < _ITEMS_AT:
            return None
        magic, size, count, _, _, real, start, began, ended, spent, gaps, files, cuts, text = _HEAD.unpack_from(data)
        if not magic.startswith(_MAGIC) or size != _ITEM.size or count > MAX_RECORD_ITEMS or files > _FILES:
            return None
        body = _read_body(file.read(count * _ITEM.size))
    if not body or not _is_sound(body, files):
        return None
    at = _HEAD.size
    marks = [_CUT.unpack_from(data, at + i * _CUT.size) for i in range(min(cuts, _CUTS))]
    at += _CUTS * _CUT.size
    entries = [_FILE.unpack_from(data, at + i * _FILE.size) for i in range(files)]
    at += _FILES * _FILE.size
    names = data[at : at + min(text, _TEXT)]
    texts = (names[begin : names.index(b"\0", begin)] for _, begin, _, _ in entries)
    found = tuple(text.decode("utf-8", "surrogateescape") for text in texts)
    met = tuple((real + first - start, bytes_then) for _, _, first, bytes_then in entries)
    total = sum(map(_size, body))
    segments, first, since = [], 0, began
    for calls, before, after in marks:
        if first < calls < total:
            segments.append(Segment(number, first, calls, real + since - start, real + before - start))
            first, since = calls, after
    segments.append(Segment(number, first, total, real + since - start, real + max(ended, since) - start))
    why = tuple(reason for bit, reason in enumerate(_GAPS) if gaps & 1 << bit)
    return Thread(body, found, met, tuple(segments), spent, why)


def _is_sound(body: Body, files: int) -> bool:
    """Whether calls name what is there, also where a thread was killed amid one."""
    most = {"slot": _SLOTS, "file": files, "to": files}
    for call, times in flatten_body(body):
        for label, number in zip(RECORD_LINES[call.name], call.numbers, strict=True):
            low, high = number.bounds(times, 1)
            if low < 0 or high >= most.get(label, 1 << 63):
                return False
    return True


def _renumber(thread: Thread, number: int) -> Thread:
    return replace(thread, segments=tuple(replace(segment, thread=number) for segment in thread.segments))


def _read_body(data: bytes) -> Body:
    """The lines of a thread; of loops that it was amid when it ended, those that are whole."""
    stack: list[tuple[int, list[Call | Loop]]] = [(1, [])]
    for line, _, *numbers in _ITEM.iter_unpack(data[: len(data) // _ITEM.size * _ITEM.size]):
        name = _NAMES[line] if line < len(_NAMES) else ""
        if name == "loop":
            stack.append((numbers[0], []))
        elif name == "end" and len(stack) > 1:
            times, lines = stack.pop()
            stack[-1][1].append(Loop(times, tuple(lines)))
        elif name.startswith("posix_"):
            steps = [numbers[5 + loop * 5 : 10 + loop * 5] for loop in range(len(stack) - 1)]
            made = tuple(
                Number(numbers[at], tuple(step[at] for step in steps)) for at in range(len(RECORD_LINES[name]))
            )
            stack[-1][1].append(Call(name, made, numbers[-1] // math.prod(times for times, _ in stack)))
    return tuple(stack[0][1])


# ---- parts of bodies ----


def _size(line: Call | Loop) -> int:
    """How many calls a line stands for."""
    return 1 if isinstance(line, Call) else line.times * sum(map(_size, line.body))


def _moved(body: Body, turns: int, depth: int = 0, *, out: bool = False) -> Body:
    """Lines of a loop as they are so many turns later; out: of that turn alone, without the loop around them."""
    found: list[Call | Loop] = []
    for line in body:
        if isinstance(line, Loop):
            found.append(Loop(line.times, _moved(line.body, turns, depth + 1, out=out)))
            continue
        numbers = []
        for number in line.numbers:
            step = number.steps[depth] if depth < len(number.steps) else 0
            steps = (*number.steps[:depth], *number.steps[depth + 1 :]) if out else number.steps
            numbers.append(Number(number.base + step * turns, steps, number.rank))
        found.append(replace(line, numbers=tuple(numbers)))
    return tuple(found)


def _repeat(body: Body, turns: int) -> Body:
    return _moved(body, 0, out=True) if turns == 1 else (Loop(turns, body),) if turns else ()


def split_body(body: Body, count: int) -> tuple[Body, Body]:
    """Give the first so many calls, and the others."""
    for at, line in enumerate(body):
        size = _size(line)
        if count >= size:
            count -= size
            continue
        if count == 0 or isinstance(line, Call):
            return body[:at], body[at:]
        turns, rest = divmod(count, sum(map(_size, line.body)))
        before = _repeat(line.body, turns)
        after: Body = ()
        if rest:
            head, after = split_body(_moved(line.body, turns, out=True), rest)
            before += head
            turns += 1
        after += _repeat(_moved(line.body, turns), line.times - turns)
        return body[:at] + before, after + body[at + 1 :]
    return body, ()


def _values(number: Number, times: Sequence[int]) -> set[int]:
    """The values that a number takes in the loops around it: few, as they are numbers of files or slots."""
    found = {number.base}
    for step, turns in zip(number.steps, times, strict=False):
        if step:
            found = {value + step * turn for value in found for turn in range(min(turns, _FILES))}
    return found


# ---- ranks, and who waits for whom ----


def _lanes(threads: Sequence[Thread]) -> list[_Lane]:
    lanes: list[_Lane] = []
    for number in sorted(range(len(threads)), key=lambda one: threads[one].segments[0].began):
        own = threads[number]
        most = 1 + max(_slots(own), default=0)
        for lane in lanes:
            live = [one for one in lane.bases if threads[one].segments[-1].ended > own.segments[0].began]
            base = max((lane.tops[one] for one in live), default=0)
            if base + most <= _SLOTS and not _overlap(lane.segments, own.segments):
                break
        else:
            base, lane = 0, _Lane()
            lanes.append(lane)
        lane.bases[number], lane.tops[number] = base, base + most
        lane.files.append(number)
        lane.segments = sorted([*lane.segments, *own.segments], key=lambda one: (one.began, one.ended, one.first))
    return lanes


def _slots(thread: Thread) -> Iterator[int]:
    for call, times in flatten_body(thread.body):
        if "slot" in RECORD_LINES[call.name]:
            yield call.number("slot").bounds(times, 1)[1]


def _overlap(ours: Sequence[Segment], theirs: Sequence[Segment]) -> bool:
    """Whether two called at the same time; ours never do among themselves, and are in their order."""
    for segment in theirs:
        before = bisect_left(ours, segment.ended, key=lambda one: one.began)
        if before and ours[before - 1].ended > segment.began:
            return True
    return False


def _order(threads: Sequence[Thread], lanes: Sequence[_Lane]) -> tuple[Waits, Waits]:
    """Of each segment, by its rank and its place there: the ranks to be told behind it, and waited for before it."""
    tells: Waits = defaultdict(list)
    awaits: Waits = defaultdict(list)
    if len(lanes) == 1:
        return tells, awaits
    touched = {segment: paths for thread in threads for segment, paths in zip(
        thread.segments, _touched(thread), strict=True)}  # fmt: skip
    makers: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    users = []
    for rank, lane in enumerate(lanes):
        for place, segment in enumerate(lane.segments):
            made, used = touched[segment]
            for path in made:
                makers[path].append((segment.ended, rank, place))
            users.append((segment.began, rank, place, made | used))
    for times in makers.values():
        times.sort()
    seen: dict[tuple[int, int], int] = {}
    for began, rank, place, paths in sorted(users, key=lambda user: user[:3]):
        latest: dict[int, int] = {}
        for path in paths:
            known = makers.get(path, [])
            for _, other, at in known[: bisect_right(known, (began, len(lanes), 0))]:
                latest[other] = max(latest.get(other, -1), at)
        for other, at in sorted(latest.items()):
            if other != rank and at > seen.get((rank, other), -1):
                seen[rank, other] = at
                tells[other, at].append(rank)
                awaits[rank, place].append(other)
    return tells, awaits


def _touched(thread: Thread) -> Iterator[tuple[set[str], set[str]]]:
    """Of each segment the paths that it has open for writing, makes or changes, and those that it uses besides."""
    slots: dict[int, str] = {}
    body, before = thread.body, 0
    for segment in thread.segments:
        part, body = split_body(body, segment.end - before)
        before = segment.end
        made, used, closed = set(slots.values()), set[str](), set[int]()
        for call, times in flatten_body(part):
            labels = RECORD_LINES[call.name]
            files = [_values(call.number(label), times) for label in ("file", "to") if label in labels]
            paths = {thread.paths[number] for numbers in files for number in numbers}
            if call.name == "posix_close":
                closed |= _values(call.number("slot"), times)
            elif "flags" not in labels or _fails(call):
                (used if call.name == "posix_stat" or "flags" in labels else made).update(paths)
            elif call.number("flags").base & _ACCESS:
                made |= paths
                slots |= dict.fromkeys(_values(call.number("slot"), times), "") | {
                    call.number("slot").base: thread.paths[call.number("file").base]
                }
                closed -= slots.keys()
            else:
                used |= paths
        for slot in closed:
            slots.pop(slot, None)
        yield made - {""}, used


# ---- as text ----


def write_threads(threads: Sequence[Thread], gaps: Sequence[str] = ()) -> str:
    """Give the text of a record of some threads.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not threads:
        raise ValueError("no thread made a call")
    lanes = _lanes(threads)
    folder = _folder(threads)
    tells, awaits = _order(threads, lanes)
    written = [_write_lane(threads, lane, rank, tells, awaits, folder) for rank, lane in enumerate(lanes)]
    reasons = dict.fromkeys([*gaps, *(gap for thread in threads for gap in thread.gaps)])
    if any(len(lines) > MAX_RECORD_ITEMS for lines in written):
        reasons[_GAPS[0]] = None
    began = min(thread.segments[0].began for thread in threads)
    ended = max(thread.segments[-1].ended for thread in threads)
    spent = max(sum(threads[one].spent for one in lane.bases) for lane in lanes)
    lines = [RECORD_HEADER, f"job {len(lanes)} 1 {ended - began} {spent}", *(f"incomplete {why}" for why in reasons)]
    for rank, lane in enumerate(lanes):
        lines.append(f"ranks {rank} 1")
        for path in (threads[one].paths[number] for one in lane.files for number in _kept(threads[one], folder)):
            name = path if _lies_in(path, folder) else f"{folder.rstrip('/')}/elsewhere{path}"
            lines.append(f"file {','.join('0' for _ in DIGITS.findall(name)) or '-'} {_encode(name)}")
        lines += written[rank]
    lines += [f"input {size} {_encode(path)}" for path, size in sorted(_inputs(threads).items())]
    text = "".join(f"{line}\n" for line in lines)
    return f"{text}checksum {zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}\n"


def _write_lane(
    threads: Sequence[Thread], lane: _Lane, rank: int, tells: Waits, awaits: Waits, folder: str
) -> list[str]:
    lines: list[str] = []
    files: dict[int, dict[int, int]] = {}
    count = 0
    for one in lane.files:
        files[one] = {number: count + at for at, number in enumerate(_kept(threads[one], folder))}
        count += len(files[one])
    rest = {one: threads[one].body for one in lane.bases}
    given = dict.fromkeys(rest, 0)
    for place, segment in enumerate(lane.segments):
        one = segment.thread
        lines += [f"await {other} 0" for other in awaits.get((rank, place), ())]
        after = lane.segments[place + 1] if place + 1 < len(lane.segments) else None
        told = tells.get((rank, place), ())
        if after and after.thread == one and not told and not awaits.get((rank, place + 1)):
            continue  # it goes on: loops stay whole
        body, rest[one] = split_body(rest[one], segment.end - given[one])
        given[one] = segment.end
        lines += _write_body(body, lane.bases[one], files[one])
        lines += [f"tell {other} 0" for other in told]
    return lines


def _write_body(body: Body, slot: int, files: Mapping[int, int]) -> list[str]:
    lines: list[str] = []
    for line in body:
        if isinstance(line, Loop):
            inner = _write_body(line.body, slot, files)
            lines += [f"loop {line.times}", *inner, "end"] if inner else []
            continue
        words = [line.name]
        for label, number in zip(RECORD_LINES[line.name], line.numbers, strict=True):
            steps = list(number.steps)
            while steps and not steps[-1]:
                steps.pop()
            base = number.base
            if label in ("file", "to"):
                if base not in files:
                    break  # a call that only asked for what is elsewhere
                base = files[base]
            elif label == "slot" and not _fails(line):
                base += slot
            words.append(",".join(map(str, [base, *steps])))
        else:
            lines.append(f"{' '.join(words)} {line.pause}")
    return lines


def _fails(call: Call) -> bool:
    return call.name == "posix_open" and call.number("failed").base == 1


def _folder(threads: Sequence[Thread]) -> str:
    """The folder of all files that are opened, made or changed."""
    kept = {path for thread in threads for path in _opened(thread)}
    return posixpath.commonpath([posixpath.dirname(path) for path in kept]) if kept else "/"


def _lies_in(path: str, folder: str) -> bool:
    return posixpath.commonpath([folder, path]) == folder


def _kept(thread: Thread, folder: str) -> list[int]:
    """The numbers of the files that the record names: not those elsewhere, which calls only asked for."""
    found = set[int]()
    for call, times in flatten_body(thread.body):
        for label in {"file", "to"} & set(RECORD_LINES[call.name]):
            low, high = call.number(label).bounds(times, 1)
            asked = call.name == "posix_stat" or _fails(call)
            if not asked or _lies_in(thread.paths[low], folder):
                found |= {*range(low, high + 1)}  # with those between, so that steps stay
    return sorted(found)


def _opened(thread: Thread) -> Iterator[str]:
    for call, times in flatten_body(thread.body):
        if call.name != "posix_stat" and not _fails(call):
            for label in {"file", "to"} & set(RECORD_LINES[call.name]):
                yield from (thread.paths[number] for number in _values(call.number(label), times))


def _inputs(threads: Sequence[Thread]) -> dict[str, int]:
    """The files that were there before the run, with their bytes: what is known of each when it was first met."""
    first: dict[str, tuple[int, int]] = {}
    for thread in threads:
        opened = set(_opened(thread))
        for path, met in zip(thread.paths, thread.met, strict=True):
            if path in opened and met[1] != _ASKED:
                first[path] = min(first.get(path, met), met)
    return {path: size for path, (_, size) in first.items() if size >= 0}


def _encode(path: str) -> str:
    return "".join(f"%{ord(c):02x}" if c < " " or c in "%\x7f" else c for c in path)
