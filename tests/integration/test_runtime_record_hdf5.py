"""Records of parallel HDF5 programs: a replay makes their calls, and what cannot be recorded is named."""

import zlib
from pathlib import Path

import pytest

from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.errors import UserError
from stripewise.observe.from_report import activity_of
from stripewise.observe.record import Record
from stripewise.observe.record_reading import read_record
from stripewise.observe.report import parse_report
from tests.integration.hdf5_support import Hdf5Bench, debian_mpi
from tests.integration.runtime_support import Outcome

RANKS = 2


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Hdf5Bench:
    return Hdf5Bench(debian_mpi("mpich"), tmp_path_factory)


def run(bench: Hdf5Bench, place: Path, program: Path, *words: object, **more: str) -> tuple[Record, Outcome]:
    outcome = bench.run(program, *words, ranks=RANKS, STRIPEWISE_RECORD=str(place), **more)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    return read_record(place), outcome


def replayed(bench: Hdf5Bench, tmp_path: Path) -> tuple[Record, Outcome]:
    """Replay program.record, and record that."""
    program = bench.library.parents[1] / "bin" / "stripewise-replay"
    words = [tmp_path / "program.record", "--directory", tmp_path / "replay"]
    prepared = bench.run(program, *words, "--only", "prepare", ranks=RANKS, preload=False)
    assert prepared.code == 0, prepared.stderr
    found = run(bench, tmp_path / "replay.record", program, *words, "--only", "calls", "--only", "clean")
    assert list((tmp_path / "replay").iterdir()) == []
    return found


def all_calls(record: Record) -> list[list[tuple[str, tuple[int, ...]]]]:
    """The calls of each rank; what was in a file has other names in a replay, so other numbers."""
    return [
        [(name, numbers if name != "h5dopen" else (*numbers[:2], *numbers[3:])) for name, numbers in record.calls(rank)]
        for rank in range(record.ranks)
    ]


@pytest.mark.parametrize("pattern", ["columns_all", "odd", "many", "own", "again", "apart", "reopened"])
def test_a_replay_makes_the_calls_of_the_program(bench: Hdf5Bench, tmp_path: Path, pattern: str) -> None:
    program = bench.hdf5_program("hdf5_patterns.c")
    record, _ = run(bench, tmp_path / "program.record", program, tmp_path / "a.h5", pattern, 6)
    assert record.gaps == () and record.uses_hdf5
    assert {name for name, _ in record.calls(0) if not name.startswith("h5")} == set(), "what lies beneath"
    again, outcome = replayed(bench, tmp_path)
    assert again.gaps == () and all_calls(again) == all_calls(record)
    assert [group.shapes for group in again.groups] == [group.shapes for group in record.groups]
    done = Done.by_activity(activity_of(parse_report(outcome.report or {}), "report"), record)
    compared = Faithfulness(Done.by_record(record), done, whole=True)
    assert compared.program.calls == compared.replay.calls
    assert (compared.program.read, compared.program.written) == (compared.replay.read, compared.replay.written)


@pytest.mark.parametrize("kind", ["small", "rows"])
def test_chunks_that_a_plan_makes_are_filled_as_in_the_program(bench: Hdf5Bench, tmp_path: Path, kind: str) -> None:
    """HDF5 fills chunks where it leaves a dataset in one piece alone: two programs that are alike without a plan."""
    words = (bench.hdf5_program("hdf5_phases.c"), tmp_path / "y", 2, kind, 8, 65536)
    plan = "stripewise-plan 1\nhdf5 chunk_size 16384\n"
    record, whole = run(bench, tmp_path / "program.record", *words)
    chunked = bench.run(*words, ranks=RANKS, plan=plan)
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    again = bench.run(replay, tmp_path / "program.record", "--directory", tmp_path / "replay", ranks=RANKS, plan=plan)
    assert record.gaps == () and (chunked.code, again.code) == (0, 0)
    assert data_written(chunked) > 1.5 * data_written(whole), "the plan costs the program fill values"
    assert data_written(again) == pytest.approx(data_written(chunked), rel=0.01)


def data_written(outcome: Outcome) -> int:
    """Bytes that collective and independent writes gave the file system, over all files."""
    assert outcome.report is not None
    return sum(int(file["posix"]["write"]["bytes"]) for file in outcome.report["files"])


def test_a_replay_closes_what_the_program_left_open(bench: Hdf5Bench, tmp_path: Path) -> None:
    program = bench.hdf5_program("hdf5_patterns.c")
    record, _ = run(bench, tmp_path / "program.record", program, tmp_path / "a.h5", "left")
    assert record.gaps == () and record.count("h5fclose", "h5dclose") == 0
    _, outcome = replayed(bench, tmp_path)
    done = Done.by_activity(activity_of(parse_report(outcome.report or {}), "report"), record)
    assert Done.by_record(record).calls == done.calls and done.calls["h5fclose"] == RANKS


def test_a_selection_before_a_loop_is_of_its_first_call(bench: Hdf5Bench, tmp_path: Path) -> None:
    program = bench.hdf5_program("hdf5_patterns.c")
    record, _ = run(bench, tmp_path / "program.record", program, tmp_path / "a.h5", "mixed")
    assert (record.count("h5select"), record.count("h5dwrite")) == (RANKS, 5 * RANKS)
    again, _ = replayed(bench, tmp_path)
    assert (again.count("h5dwrite"), again.moved) == (5 * RANKS, record.moved)


def test_files_that_were_there_are_made_with_their_datasets(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_phases.c"), tmp_path / "y", 3, "tables", 3, 256)
    assert bench.run(*words, ranks=RANKS, preload=False).code == 0
    record, _ = run(bench, tmp_path / "program.record", *words)
    assert record.count("h5dread") == 3 * 3 * 64 and record.count("h5dcreate") == 0
    (shape,) = record.groups[0].shapes
    assert (shape.storage, shape.filters) == ("chunked", ("deflate",))
    again, _ = replayed(bench, tmp_path)
    assert all_calls(again) == all_calls(record)


def test_a_file_is_followed_until_its_last_identifier_is_closed(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_patterns.c"), tmp_path / "a.h5", "reopened")
    record, outcome = run(bench, tmp_path / "program.record", *words)
    calls = [name for name, _ in record.calls(0)]
    assert record.gaps == () and calls.count("h5dcreate") == 2 and "h5dwrite" in calls
    assert calls.count("h5fclose") == 1 and calls[-1] == "h5fclose"
    hdf5 = outcome.file("a.h5")["hdf5"]["operations"]
    assert hdf5["file_close"]["count"] == hdf5["file_create"]["count"]


def test_datasets_by_a_name_that_nobody_created_are_named(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_patterns.c"), tmp_path / "a.h5", "linked")
    record, _ = run(bench, tmp_path / "program.record", *words)
    (gap,) = record.gaps
    assert gap.startswith("HDF5 opened a dataset by another name than it was created by: record the program with")


def test_datasets_whose_open_is_not_recorded_are_named(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_patterns.c"), tmp_path / "a.h5", "nameless")
    record, _ = run(bench, tmp_path / "program.record", *words)
    (gap,) = record.gaps
    assert gap.startswith("HDF5 moved data of a dataset without a name, or that was opened by a reference: record")
    record, _ = run(bench, tmp_path / "program.record", *words, STRIPEWISE_RECORD_LEVEL="mpi-io")
    assert record.gaps == () and record.moved["write"] > RANKS * 64 * 8


def test_files_that_another_rank_made_are_refused(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_patterns.c"), tmp_path / "a.h5", "handed")
    run(bench, tmp_path / "program.record", *words)
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    refused = bench.run(replay, tmp_path / "program.record", "--directory", tmp_path / "replay", ranks=RANKS)
    assert refused.code != 0
    assert "opens a dataset of a file that another rank creates" in refused.stderr
    assert "record the program with --level mpi-io" in refused.stderr


def test_what_cannot_be_recorded_is_named_and_refused(bench: Hdf5Bench, tmp_path: Path) -> None:
    words = (bench.hdf5_program("hdf5_patterns.c"), tmp_path / "a.h5", "points")
    record, _ = run(bench, tmp_path / "program.record", *words)
    (gap,) = record.gaps
    assert gap == "HDF5 moved single points or an irregular selection: record the program with --level mpi-io"
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    refused = bench.run(replay, tmp_path / "program.record", "--directory", tmp_path / "replay", ranks=RANKS)
    assert refused.code != 0 and gap in refused.stderr
    record, _ = run(bench, tmp_path / "program.record", *words, STRIPEWISE_RECORD_LEVEL="mpi-io")
    assert record.gaps == () and not record.uses_hdf5 and record.count("open") > 0


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("h5dataset 0 8 1 0 0\nh5dim 1152921504606846976 -1 0\n", "a dataset of too many bytes"),
        ("h5dataset 5 1 1 0 0\n", "a dataset that cannot be"),
        ("h5select 0 1 1 1 1\n", "what belongs to a call stands without it"),
        ("h5size 1 1\nh5dwrite 1 1 0 1 1 1\n", "what belongs to a call stands without it"),
    ],
)
def test_a_replay_refuses_what_readers_of_records_refuse(bench: Hdf5Bench, tmp_path: Path, body: str, why: str) -> None:
    text = f"stripewise-record 1\njob 1 1 10 5\nranks 0 1\nfile - /a\ncomm 0 1 0\n{body}"
    place = tmp_path / "damaged.record"
    place.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    with pytest.raises(UserError):
        read_record(place)
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    refused = bench.run(replay, place, "--directory", tmp_path / "replay", ranks=1)
    assert refused.code != 0 and why in refused.stderr


@pytest.mark.parametrize(("calls", "size", "refused"), [(1, 1 << 52, False), (2, (1 << 63) - 1, True)])
def test_data_of_hdf5_have_memory_of_their_own(
    bench: Hdf5Bench, tmp_path: Path, calls: int, size: int, refused: bool
) -> None:
    text = "stripewise-record 1\njob 1 1 10 5\nranks 0 1\nfile - /a\ncomm 0 1 0\nh5access 1 1 2048 65536 1048576\n"
    text += "h5more 0 0 0 2\nh5dataset 0 1 1 0 2\nh5dim 8 8 0\nh5fcreate 0 0 0 0 2 1\nh5dcreate 1 0 0 0 1\n"
    # So many bytes would not fit into memory: what is moved are those of the selection.
    text += f"h5dwrite 1 0 0 1 {size} 1\n" * calls + "h5dclose 1 1\nh5fclose 0 1\n"
    place = tmp_path / "many.record"
    place.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    replay = bench.library.parents[1] / "bin" / "stripewise-replay"
    done = bench.run(replay, place, "--directory", tmp_path / "replay", ranks=1)
    assert (done.code != 0) == refused, done.stderr
    assert not refused or f"the record is damaged: a call of {size} bytes" in done.stderr
