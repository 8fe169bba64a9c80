"""The record of a real program: what it says is what the report counts, and what a replay does."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.formats import RECORD_IRREGULAR, REPLAY_MARK
from stripewise.observe import from_record
from stripewise.observe.from_report import activity_of
from stripewise.observe.record import Record
from stripewise.observe.record_reading import read_record
from stripewise.observe.report import parse_report
from stripewise.observe.workload import workload_of
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench, Outcome

RANKS, PHASES, PIECES, BYTES = 4, 6, 4, 256
MOVED = ("open", "close", "write_at_all", "iwrite_at", "read_at")


@pytest.fixture(scope="module")
def bench(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(mpich, tmp_path_factory)


def recorded(bench: Bench, tmp_path: Path, scenario: str) -> tuple[Record, Outcome]:
    words = (tmp_path / "chk", PHASES, PIECES, BYTES, scenario)
    record, outcome = run(bench, tmp_path / "program.record", bench.program("phases.c"), *words)
    assert [path.name for path in tmp_path.glob("*.record*")] == ["program.record"]
    return record, outcome


def run(bench: Bench, place: Path, program: Path, *words: object) -> tuple[Record, Outcome]:
    outcome = bench.run(program, *words, ranks=RANKS, STRIPEWISE_RECORD=str(place))
    assert outcome.code == 0, outcome.stderr
    assert outcome.complaints == []
    return read_record(place), outcome


def replayed(bench: Bench, tmp_path: Path, *options: object) -> tuple[Record, Outcome]:
    """Replay program.record, and record that."""
    words = (tmp_path / "program.record", "--directory", tmp_path / "replay", *options)
    found = run(bench, tmp_path / "replay.record", bench.library.parents[1] / "bin" / "stripewise-replay", *words)
    assert list((tmp_path / "replay").iterdir()) == []
    return found


def all_calls(record: Record) -> list[list[tuple[object, ...]]]:
    """What each rank does, with what its calls name in place of the numbers of these, and without folders."""
    found = []
    for rank in range(record.ranks):
        (group,) = [group for group in record.groups if group.first <= rank < group.first + group.count]
        told: list[tuple[object, ...]] = []
        for name, numbers in record.calls(rank):
            if name == "open":
                slot, file, comm, amode = numbers
                members = [number.at((), rank - group.first) for number in group.comms[comm]]
                told.append((name, slot, Path(group.path(file, rank)).name, *members, amode))
            elif name in ("delete", "failed_delete", "failed_open"):
                told.append((name, Path(group.path(numbers[0], rank)).name, *numbers[1:]))
            else:
                told.append((name, *numbers))
        told += [tuple(number.at((), rank - group.first) for number in shape) for shape in group.types]
        told += group.blocks
        found.append(told)
    return found


def counted(outcome: Outcome, name: str) -> int:
    assert outcome.report is not None
    return sum(int(file["operations"].get(name, {"count": 0})["count"]) for file in outcome.report["files"])


@pytest.mark.parametrize("scenario", ["read", "split", "self"])
def test_the_record_holds_every_call(bench: Bench, tmp_path: Path, scenario: str) -> None:
    record, outcome = recorded(bench, tmp_path, scenario)
    assert outcome.report is not None and record.gaps == () and (record.ranks, record.nodes) == (RANKS, 1)
    for name in ("set_view", "write_at_all", "read_at_all", "close"):
        assert record.count(name) == counted(outcome, name)
    totals = outcome.report["totals"]
    assert record.moved == {"read": totals["bytes_read"], "write": totals["bytes_written"]}
    seen, told = (
        workload_of(activity_of(parse_report(outcome.report), "report.json")),
        workload_of(from_record.activity_of(record, "x.record")),
    )
    # How the MPI library carried the calls out is not in the record: the layout hangs on that.
    assert told == seen.model_copy(update={"layout": None, "driver": None, "file_system": None})
    assert record.io_time == pytest.approx(outcome.report["job"]["io_time"], rel=1e-6)
    opened = {
        group.path(numbers[1], rank)
        for group in record.groups
        for rank in range(group.first, group.first + group.count)
        for name, numbers in record.calls(rank)
        if name == "open"
    }
    assert opened == {file["path"] for file in outcome.report["files"]}
    sizes = {
        group.comms[numbers[2]][1].base
        for group in record.groups
        for name, numbers in record.calls(group.first)
        if name == "open"
    }
    assert sizes == {"read": {RANKS}, "split": {RANKS // 2, RANKS}, "self": {1}}[scenario]


@pytest.mark.parametrize("source", ["phases.c", "every_call.c"])
def test_a_replay_makes_the_calls_of_the_program(bench: Bench, tmp_path: Path, source: str) -> None:
    if source == "phases.c":
        record, _ = recorded(bench, tmp_path, "split")
    else:
        record, _ = run(bench, tmp_path / "program.record", bench.program(source), tmp_path / "a.7", "own")
    again, outcome = replayed(bench, tmp_path)
    assert again.gaps == () and all_calls(again) == all_calls(record)
    done = Done.by_activity(activity_of(parse_report(outcome.report or {}), "report"), record)
    compared = Faithfulness(Done.by_record(record), done, whole=True)
    assert compared.program.calls == compared.replay.calls
    assert (compared.program.read, compared.program.written) == (compared.replay.read, compared.replay.written)


def test_opens_and_deletes_end_as_they_did(bench: Bench, tmp_path: Path) -> None:
    """Replays aborted where the program deleted what another call made, or created again what one had deleted."""
    record, _ = run(bench, tmp_path / "program.record", bench.program("outcomes.c"), tmp_path / "f")
    names = ("failed_open", "failed_delete", "open", "close", "delete")
    assert record.gaps == () and [record.count(name) for name in names] == [3 * RANKS, 1, 2 * RANKS, 2 * RANKS, 1]
    beside = tmp_path / "beside"
    beside.write_text("mine")
    again, outcome = replayed(bench, tmp_path)
    assert again.gaps == () and all_calls(again) == all_calls(record) and beside.read_text() == "mine"
    done = Done.by_activity(activity_of(parse_report(outcome.report or {}), "report"), record)
    assert done.calls == Done.by_record(record).calls


def test_data_lie_in_memory_as_the_programs_did(bench: Bench, tmp_path: Path) -> None:
    """How the MPI library carries a call out hangs on that: ROMIO took seven times as long for one cell many times."""
    words = (bench.program("memory_types.c"), tmp_path / "f")
    record, outcome = run(bench, tmp_path / "program.record", *words)
    assert record.gaps == ()
    assert record.count() == sum(counted(outcome, name) for name in MOVED), "the types are no calls"
    types = [{number for name, (number, *_) in record.calls(rank) if name == "memory"} for rank in range(RANKS)]
    assert types == [set(range(8))] * RANKS, "each but that in one piece"
    again, _ = replayed(bench, tmp_path)
    assert again.gaps == () and all_calls(again) == all_calls(record) and again.moved == record.moved
    record, _ = run(bench, tmp_path / "program.record", *words, "irregular")
    assert record.gaps == () and [group.nearest for group in record.groups] == [1]
    again, _ = replayed(bench, tmp_path)
    assert again.moved == record.moved


def places(block: list[list[int]]) -> Iterator[int]:
    """Where the integers of a block lie, in their order."""
    (offset, length), *dims = block
    for turn in product(*(range(count) for count, _ in reversed(dims))):
        start = offset + sum(at * stride for at, (_, stride) in zip(reversed(turn), dims, strict=True))
        yield from range(start, start + length, 4)


def test_views_of_every_constructor_are_recorded_as_they_lie(bench: Bench, tmp_path: Path) -> None:
    """A record failed where it met a distributed array, large counts, or more blocks than it holds."""
    place = tmp_path / "program.record"
    outcome = bench.run(bench.program("types.c"), tmp_path / "f", ranks=1, STRIPEWISE_RECORD=str(place))
    assert outcome.code == 0 and read_record(place).gaps == ()
    types: list[dict[str, Any]] = []
    views = []
    for word, *numbers in map(str.split, place.read_text().splitlines()):
        if word == "type":
            types.append({"extent": int(numbers[1]), "blocks": [], "nearest": 0})
        elif word == "nearest":
            types[-1]["nearest"] = int(numbers[0])
        elif word == "block":
            types[-1]["blocks"].append([list(map(int, numbers))])
        elif word == "dim":
            types[-1]["blocks"][-1].append(list(map(int, numbers)))
        elif word == "set_view":
            views.append(int(numbers[3]))
    count = int(outcome.stdout.split()[0])
    assert len(views) == count + 1
    for number, view in enumerate(views[:count]):
        shape = types[view]
        found = [at for block in shape["blocks"] for at in places(block)]
        data = np.fromfile(tmp_path / f"f.{number}", np.int32)
        if number == count - 1:
            assert shape["nearest"] and max(found) < shape["extent"]
            assert 2 * len(found) == data.max() and all(at % 4 == 0 for at in found)
        else:
            assert not shape["nearest"]
            again = [at + shape["extent"] for at in found]
            assert [int(data[at // 4]) for at in found + again] == list(range(1, 2 * len(found) + 1)), number
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    assert bench.run(replay, place, "--directory", tmp_path / "replay", ranks=1).code == 0
    calls = list(read_record(place).calls(0))
    assert [numbers[1] for name, numbers in calls if name == "seek_shared"] == [2, 1]
    assert [after for (name, _), (after, _) in pairwise(calls) if name == "external"] == ["set_view"]


def test_rows_and_columns_of_a_grid_of_ranks_are_replayed(bench: Bench, tmp_path: Path) -> None:
    record, _ = run(bench, tmp_path / "program.record", bench.program("grid_comms.c"), tmp_path / "f")
    told = {
        (Path(group.path(numbers[1], rank)).name, *(one.at((), rank - group.first) for one in group.comms[numbers[2]]))
        for group in record.groups
        for rank in range(group.first, group.first + group.count)
        for name, numbers in record.calls(rank)
        if name == "open"
    }
    irregular = RECORD_IRREGULAR + zlib.crc32(struct.pack("<3i", 0, 2, 3))
    assert told == {
        ("f.row.0", 0, 2, 1),
        ("f.row.1", 2, 2, 1),
        ("f.column.0", 0, 2, 2),
        ("f.column.1", 1, 2, 2),
        ("f.most.0", 0, 3, irregular),
        ("f.opposite.0", 3, 4, -1),
    }
    again, _ = replayed(bench, tmp_path)
    assert again.gaps == () and all_calls(again) == all_calls(record)


def test_an_order_of_ranks_that_a_record_does_not_tell_is_replayed_ascending(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "program.record"
    run(bench, place, bench.program("grid_comms.c"), tmp_path / "f", "swapped")
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    outcome = bench.run(replay, place, "--directory", tmp_path / "replay", ranks=RANKS)
    assert outcome.code == 0, outcome.stderr


def test_a_replay_of_fewer_steps_leaves_out_whole_files(bench: Bench, tmp_path: Path) -> None:
    record, _ = recorded(bench, tmp_path, "self")
    again, _ = replayed(bench, tmp_path, "--steps", 2)
    assert again.count() * PHASES == record.count() * 2
    assert all(calls == whole[: len(calls)] for calls, whole in zip(ops(again), ops(record), strict=True))


def ops(record: Record) -> list[list[tuple[object, ...]]]:
    return [list(record.calls(rank)) for rank in range(record.ranks)]


def sealed(folder: str, *inputs: str) -> str:
    """A record of one rank that writes the file ``mine``."""
    calls = ("open 0 0 0 9 1", "write_at 0 0 4 1", "close 0 1")
    lines = ["stripewise-record 1", "job 1 1 5 5", "ranks 0 1", f"file - {folder}/mine", "comm 0 1 0", *calls, *inputs]
    text = "\n".join([*lines, ""])
    return f"{text}checksum {zlib.crc32(text.encode()):08x}\n"


def test_a_replay_touches_no_file_that_no_replay_made(bench: Bench, tmp_path: Path) -> None:
    """Whoever made the record chose the names of the files that a replay overwrites and deletes."""
    program = bench.library.parents[1] / "bin" / "stripewise-replay"
    record, folder = tmp_path / "hostile.record", tmp_path / "folder"

    def replay(text: str, *options: str) -> Outcome:
        record.write_text(text)
        return bench.run(program, record, "--directory", folder, *options, ranks=1, preload=False)

    folder.mkdir()
    (folder / "mine").write_text("data of years")
    (folder / "found").write_text("more")
    folder.chmod(0o775)
    hostile = sealed("/none", "input 3 /none/found")
    for options in ((), ("--only", "prepare"), ("--only", "calls"), ("--only", "clean")):
        refused = replay(hostile, *options)
        assert refused.code != 0 and "files that no replay made" in refused.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["found", "mine"]
        assert folder.stat().st_mode & 0o777 == 0o775, "a team could not write into its folder any more"
        assert (folder / "mine").read_text() == "data of years" and (folder / "found").read_text() == "more"
    for own in folder.iterdir():
        own.unlink()
    up = replay(sealed("/none", "input 3 /none/../found"))
    assert up.code != 0 and "has '..'" in up.stderr and list(folder.iterdir()) == []
    large = replay(sealed("/none", f"input {1 << 60} /none/found"))
    assert large.code != 0 and "has room for" in large.stderr
    assert [path.name for path in folder.iterdir()] == [REPLAY_MARK], "it goes on in its own folder"
    folder.chmod(0o777)
    assert replay(hostile, "--keep").code == 0
    assert folder.stat().st_mode & 0o777 == 0o755, "others could put links under the names of its files"
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == {REPLAY_MARK: 0, "mine": 4, "found": 3}
    folder.chmod(0o775)
    assert replay(hostile).code == 0 and list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o775
    if os.geteuid() == 0:
        os.chown(folder, 1, 1)
        other = replay(hostile)
        assert other.code != 0 and "belongs to another user" in other.stderr and list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("block", "memory", "why"),
    [
        ("block 0 3", 0, "a call of 4 bytes in pieces of 3"),
        ("block 4611686018427387904 4", 0, "data that no memory holds"),
        ("block 0 4", 1, "a type that is not defined"),
    ],
)
def test_data_that_cannot_lie_so_in_memory_are_refused(
    bench: Bench, tmp_path: Path, block: str, memory: int, why: str
) -> None:
    text = sealed("/none").rpartition("checksum ")[0]
    text = text.replace("open", f"type 0 8\n{block}\nopen", 1).replace("write_at", f"memory {memory} 0\nwrite_at", 1)
    record = tmp_path / "hostile.record"
    record.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    program = bench.library.parents[1] / "bin" / "stripewise-replay"
    outcome = bench.run(program, record, "--directory", tmp_path / "replay", ranks=1, preload=False)
    assert outcome.code != 0 and why in outcome.stderr, outcome.stderr


def test_ranks_that_wait_for_one_another_end(bench: Bench, tmp_path: Path) -> None:
    """A record whose ranks do not make the same collective calls: rank 1 never takes part in the write."""
    named = "file - /none/x\ncomm 0 2 1\nopen 0 0 0 9 1\n"
    text = f"stripewise-record 1\njob 2 1 5 5\nranks 0 1\n{named}write_all 0 4 1\nclose 0 1\n"
    text += f"ranks 1 1\n{named}"
    record = tmp_path / "hostile.record"
    record.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    program = bench.library.parents[1] / "bin" / "stripewise-replay"
    words = (record, "--directory", tmp_path / "replay", "--patience", "1")
    outcome = bench.run(program, *words, ranks=2, preload=False, timeout=60)
    assert outcome.code != 0 and "seem to wait for one another" in outcome.stderr


def test_waiting_for_what_others_do_before_is_no_time_of_an_open(bench: Bench, tmp_path: Path) -> None:
    """Rank 0 writes a file of its own before both open another: the program's rank 1 waits for that outside MPI-IO."""
    written = 64 << 20
    alone = f"file - /none/own\nfile - /none/both\ncomm 0 1 1\ncomm 0 2 1\nopen 0 0 0 5 1\nwrite_at 0 0 {written} 1\n"
    alone += "close 0 1\nopen 0 1 1 5 1\nclose 0 1\n"
    text = f"stripewise-record 1\njob 2 1 5 5\nranks 0 1\n{alone}"
    text += "ranks 1 1\nfile - /none/both\ncomm 0 2 1\nopen 0 0 0 5 1\nclose 0 1\n"
    record = tmp_path / "uneven.record"
    record.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    program = bench.library.parents[1] / "bin" / "stripewise-replay"
    outcome = bench.run(program, record, "--directory", tmp_path / "replay", ranks=2)
    assert outcome.code == 0 and outcome.report is not None, outcome.stderr
    files = {Path(file["path"]).name: file["operations"] for file in outcome.report["files"]}
    assert files["own"]["write_at"]["bytes"] == written
    assert files["both"]["open"]["time_max"] < files["own"]["write_at"]["time_max"] / 2
