"""Joining what threads left of their calls: which become one rank, who waits for whom, and nothing else changes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from stripewise.engine.fidelity import Done
from stripewise.errors import UserError
from stripewise.observe.record import Call, Loop, Number, RankGroup, Record
from stripewise.observe.record_joining import Body, Segment, Thread, join_threads, split_body, write_threads
from stripewise.observe.record_reading import parse_record


def calls_of(body: Body) -> list[tuple[str, tuple[int, ...]]]:
    return list(Record(1, 1, 0, 0, (), (RankGroup(0, 1, body=body),)).calls(0))


def some_body(shuffle: random.Random, depth: int = 0) -> Body:
    found: list[Call | Loop] = []
    for _ in range(shuffle.randint(1, 3)):
        if depth < 3 and shuffle.random() < 0.5:
            found.append(Loop(shuffle.randint(1, 3), some_body(shuffle, depth + 1)))
        else:
            steps = tuple(shuffle.randint(0, 9) for _ in range(shuffle.randint(0, depth)))
            found.append(Call("posix_write", (Number(3), Number(shuffle.randint(0, 99), steps)), 1))
    return tuple(found)


@pytest.mark.parametrize("seed", range(20))
def test_a_body_is_split_at_any_call(seed: int) -> None:
    body = some_body(random.Random(seed))
    whole = calls_of(body)
    for count in range(len(whole) + 1):
        before, after = split_body(body, count)
        assert calls_of(before) == whole[:count] and calls_of(after) == whole[count:]


def call(name: str, *numbers: int) -> Call:
    return Call(name, tuple(map(Number, numbers)), 5)


def thread(number: int, body: Body, paths: Sequence[str], *times: tuple[int, int, int], size: int = -1) -> Thread:
    """times: of each segment its calls, and when it began and ended."""
    segments, first = [], 0
    for calls, began, ended in times:
        segments.append(Segment(number, first, first + calls, began, ended))
        first += calls
    return Thread(body, tuple(paths), tuple((times[0][1], size) for _ in paths), tuple(segments), 7)


WRITES = (call("posix_open", 3, 0, 21, 0), Loop(10, (call("posix_write", 3, 8),)), call("posix_close", 3))
READS = (call("posix_open", 3, 0, 0, 0), call("posix_read", 3, 80), call("posix_close", 3))


def test_what_runs_while_another_waits_is_of_its_rank() -> None:
    parent = thread(0, WRITES, ["/d/a"], (6, 10, 20), (6, 90, 99))
    child = thread(1, READS, ["/d/b1"], (3, 30, 80), size=80)
    record = parse_record(write_threads([parent, child]), "x")
    assert record.ranks == 1 and record.gaps == () and record.inputs == ((80, "/d/b1"),)
    names = [(name, numbers[0]) for name, numbers in record.calls(0)]
    assert names == [
        ("posix_open", 3), *[("posix_write", 3)] * 5,
        ("posix_open", 7), ("posix_read", 7), ("posix_close", 7),
        *[("posix_write", 3)] * 5, ("posix_close", 3),
    ]  # fmt: skip
    assert record.io_time == pytest.approx(14e-9) and record.elapsed == pytest.approx(89e-9)
    assert record.moved == {"read": 80, "write": 80} and record.count() == 15
    assert Done.by_record(record).calls["posix_write"] == 10
    with pytest.raises(UserError, match="of a program without MPI"):
        record.need_mpi_io("x")


def test_what_runs_at_a_time_are_ranks_that_wait_for_the_files_they_use() -> None:
    writer = thread(0, WRITES, ["/d/a"], (6, 10, 20), (6, 21, 40))
    reader = thread(1, (call("posix_stat", 0, 0), *READS), ["/d/a"], (1, 15, 16), (3, 45, 60))
    other = thread(2, READS, ["/d/c"], (3, 12, 70), size=80)
    record = parse_record(write_threads([writer, reader, other]), "x")
    assert record.ranks == 3 and record.gaps == ()
    told = [
        [(name, *numbers) for name, numbers in record.calls(rank) if name in ("tell", "await")] for rank in range(3)
    ]
    assert told == [[("tell", 2)], [], [("await", 0)]]
    assert [name for name, _ in record.calls(2)][:3] == ["posix_stat", "await", "posix_open"]
    assert record.count() == 12 + 3 + 4


def test_what_is_only_asked_for_elsewhere_is_left_out() -> None:
    asked = (call("posix_stat", 1, 1), call("posix_stat", 2, 1))
    record = parse_record(write_threads([thread(0, (*asked, *READS), ["/d/a", "/e/f", "/d/x"], (5, 1, 2))]), "x")
    assert record.folder == "/d"
    name, numbers = next(record.calls(0))
    assert (name, record.groups[0].path(numbers[0], 0)) == ("posix_stat", "/d/x")
    assert record.count() == 4


def test_what_is_damaged_or_of_another_version_is_no_part(tmp_path: Path) -> None:
    (tmp_path / "a.calls").write_bytes(b"SWCALL1" + bytes(600_000))
    (tmp_path / "b.calls").write_bytes(b"")
    with pytest.raises(ValueError, match="no thread"):
        join_threads(sorted(tmp_path.iterdir()))
