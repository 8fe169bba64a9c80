"""Records: what is read of them, and that damaged ones are refused."""

import itertools
import zlib
from pathlib import Path

import pytest

from stripewise.desk.cli import records
from stripewise.desk.cli.main import main
from stripewise.engine.fidelity import Done, Faithfulness
from stripewise.errors import UserError
from stripewise.formats import RECORD_LINES
from stripewise.observe.record import Number, with_hashed_paths
from stripewise.observe.record_reading import parse_record, read_record
from stripewise.requests.experiment import Replay
from stripewise.runners.injection import Foreground, Guidance, Injection
from stripewise.runners.native.replaying import make_replayer

STEPS = Path(__file__).resolve().parents[1] / "fixtures" / "records" / "steps.record"
HEAD = "stripewise-record 1\njob 4 1 10 5\n"
BODY = "ranks 0 4\nfile - /a\ncomm 0 4 1\n"


def sealed(body: str) -> str:
    return f"{body}checksum {zlib.crc32(body.encode()):08x}\n"


def test_a_record_says_what_each_rank_did() -> None:
    record = read_record(STEPS)
    assert (record.ranks, record.nodes, record.gaps) == (4, 1, ())
    assert record.elapsed == pytest.approx(6.307946813)
    (group,) = record.groups
    assert group.path(3, 2) == "/scratch/run1/own.2.1" and group.path(0, 2) == "/scratch/run1/ck.0000"
    assert record.inputs == ((4096, "/scratch/run1/ck.0000"),)
    calls = list(record.calls(3))
    assert len(calls) == 590
    assert calls[:3] == [("open", (0, 0, 0, 9)), ("set_view", (0, 0, 8, 0)), ("write_all", (0, 32768))]
    assert calls[14] == ("read_at", (0, 3 * 4096 + 100, 100))
    assert calls[114:117] == [("close", (0,)), ("open", (0, 1, 1, 5)), ("iwrite", (0, 1000))]


def test_totals_are_those_of_the_calls_one_by_one() -> None:
    record = read_record(STEPS)
    moved, count = {"read": 0, "write": 0}, 0
    for rank in range(record.ranks):
        for name, numbers in record.calls(rank):
            count += 1
            if "bytes" in RECORD_LINES[name]:
                moved["write" if "write" in name else "read"] += numbers[RECORD_LINES[name].index("bytes")]
    assert record.moved == moved and record.count() == count
    assert record.count("write_all", "read_at") == 4 * 5 * 110


def test_a_number_has_its_values_and_their_sum() -> None:
    number, times, ranks = Number(7, (-3, 0, 10), 2), (4, 3, 2), 5
    values = [number.at(turns, rank) for turns in itertools.product(*map(range, times)) for rank in range(ranks)]
    assert number.bounds(times, ranks) == (min(values), max(values))
    assert number.total(times, ranks) == sum(values)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (HEAD.replace("job", "jobs"), "'jobs' is not a line"),
        ("stripewise-record 1\nranks 0 4\n", "line about the job is missing"),
        ("stripewise-record 1\n", "line about the job is missing"),
        (HEAD + "job 4 1 1 1\n", "a second line about the job"),
        (HEAD + "close 0 0\n", "outside of the ranks"),
        (HEAD + "ranks 0 5\n", "5 ranks from 0 on"),
        (HEAD + "ranks 1 2\nranks 2 1\n", "do not follow"),
        (HEAD + BODY + "open 0 1 0 9 0\n", "file 1, which is not defined"),
        (HEAD + BODY + "loop 3\nopen 0 0,1 0 9 0\nend\n", "file 2, which is not defined"),
        (HEAD + BODY + "open 0 0~1 0 9 0\n", "file 3, which is not defined"),
        (HEAD + BODY + "write_at 0 0~-1 10 0\n", "offset leaves the range"),
        (HEAD + BODY + "write_at 0 0,5 10 0\n", "steps of the 0 loops"),
        (HEAD + BODY + "write_at 0 0x10 10 0\n", "is not a number"),
        (HEAD + BODY + "write_at 0 0 10\n", "2 numbers where 3 belong"),
        (HEAD + BODY + "loop 2\nclose 0 0\n", "a loop has no end"),
        (HEAD + BODY + "end\n", "the end of no loop"),
        (HEAD + BODY + "loop 2\n" * 5, "too deep"),
        (HEAD + BODY + "loop 999999999999999\n", "too long"),
        (HEAD + BODY + "dim 2 8\n", "without what it belongs to"),
        (HEAD + BODY + "type 0 8\nblock 0 4\n" + "dim 2147483647 8\n" * 3, "a datatype that is too large"),
        (HEAD + BODY + "type 0 8\nblock 0 4\ndim -2 8\n", "a datatype that is too large"),
        (HEAD + BODY + "memory 7 0\nwrite_at 0 0 8 0\n", "type 7, which is not defined"),
        (HEAD + BODY + "type 0 8\nblock 0 4\nmemory 0 0\nclose 0 0\n", "memory without the call"),
        (HEAD + "ranks 0 2\nhint a=b\n", "a hint without a file"),
        (HEAD + "ranks 0 2\nfile 1 /a1/b2\n", "do not fit its digits"),
        (HEAD + "ranks 0 3\nfile -1 /a1\n", "does not count up"),
        (HEAD + "ranks 0 3\nfile - /a%00b\n", "holds a NUL"),
        (HEAD + "ranks 0 3\nfile - /a\nfile - b\n", "does not begin with /"),
        (HEAD + "ranks 0 4\ninput 3 b\n", "does not begin with /"),
        (HEAD + "ranks 0 2\ninput 3 /a\nranks 2 1\n", "among the lines of ranks|outside of the ranks"),
    ],
)
def test_what_is_not_a_record_is_refused(body: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        parse_record(sealed(body), "x.record")


def test_a_record_that_was_cut_off_or_changed_is_refused() -> None:
    text = STEPS.read_text()
    for damaged in (text[: len(text) // 2], text.replace("4096", "4097", 1), text.rpartition("checksum")[0]):
        with pytest.raises(UserError, match="damaged or not complete"):
            parse_record(damaged, "x.record")
    with pytest.raises(UserError, match="not a record"):
        parse_record("stripewise-journal 1\n", "x.record")


def test_hashed_paths_tell_nothing_and_stay_apart() -> None:
    text = STEPS.read_text()
    hashed = with_hashed_paths(text)
    assert "scratch" not in hashed and "own" not in hashed.replace("unknown", "")
    one, other = parse_record(text, "a"), parse_record(hashed, "b")
    assert other.groups[0].body == one.groups[0].body
    paths = {other.groups[0].path(file, rank) for file in range(10) for rank in range(4)}
    assert len(paths) == 5 + 5 * 4
    assert other.inputs[0][1] == other.groups[0].path(0, 1)
    assert with_hashed_paths(text) != hashed


@pytest.mark.parametrize(
    ("launcher", "why"),
    [("mpiexec -n 3 x", "4 ranks, and the launcher starts 3"), ("mpiexec -n 2 x : -n 2 y", "starts several")],
)
def test_a_launcher_that_does_not_fit_the_record_is_refused(launcher: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        make_replayer(Replay(record=str(STEPS)), read_record(STEPS), launcher.split(), {})


def test_a_replay_does_not_take_the_place_of_the_program_s_files() -> None:
    with pytest.raises(UserError, match="delete the program's own files"):
        make_replayer(Replay(record=str(STEPS), folder="/scratch/x/../run1/"), read_record(STEPS), ["mpiexec", "x"], {})


def test_an_incomplete_record_is_not_replayed() -> None:
    record = parse_record(sealed(HEAD + "incomplete calls failed\n"), "x.record")
    with pytest.raises(UserError, match="calls failed"):
        make_replayer(Replay(record="x.record"), record, ["mpiexec", "-n", "4", "x"], {})


def test_what_a_replay_did_otherwise_is_said() -> None:
    program = Done({"write_at_all": 100}, 0, 1000, 2.0)
    assert Faithfulness(program, Done({"write_at_all": 100}, 0, 1000, 2.2), whole=True).differences == []
    half = Done({"write_at_all": 50}, 0, 500, 1.1)
    assert Faithfulness(program, half, whole=False).differences == []
    said = " ".join(Faithfulness(program, half, whole=True).differences)
    assert "50 calls of MPI_File_write_at_all, and the program 100" in said and "wrote 500 bytes" in said
    slow = Faithfulness(program, Done({"write_at_all": 100}, 0, 1000, 9.0), whole=True)
    assert "4.50 times" in " ".join(slow.differences)


def test_the_folder_of_a_record_holds_all_its_files() -> None:
    assert read_record(STEPS).folder == "/scratch/run1"


@pytest.mark.parametrize("ended", [0, 7])
@pytest.mark.parametrize("left", [None, "damaged", "whole"])
def test_a_record_that_fails_leaves_the_exit_code_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: int, left: str | None
) -> None:
    places: list[Path] = []

    def prepare(*_: object, guidance: Guidance, **__: object) -> Foreground:
        assert guidance.record is not None
        places.append(guidance.record)
        return Foreground(("true",), Injection({}, {}, ()), (), True)

    def attend(_words: object) -> int:
        places[0].parent.mkdir(parents=True)
        if left is not None:
            text = STEPS.read_text()
            places[0].write_text(text if left == "whole" else text[:-100])
        return ended

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("stripewise.desk.cli.records.prepare", prepare)
    monkeypatch.setattr("stripewise.desk.cli.records.attend", attend)
    output = tmp_path / "a.record"
    assert main(["lab", "record", "-q", "--output", str(output), "--", "true"]) == ended
    told = " ".join(capsys.readouterr().err.split())
    assert ("there is no record in" in told) == (left != "whole") == (not output.exists())
    assert left != "damaged" or places[0].exists(), "what there is is kept"


def test_a_record_without_calls_says_that_nothing_can_be_replayed() -> None:
    """As of IOR 4.1 with its POSIX interface, which MPI alone starts."""
    empty = parse_record("stripewise-record 1\njob 4 1 1621488891 0\nchecksum 97d4b3ec\n", "ior.record")
    first, second = records._list_remarks(empty, Path("ior.record"), 59)
    assert first.startswith("0 calls of 4 ranks")
    assert "called neither MPI-IO nor parallel HDF5" in second and "run --mode observe counts" in second
    steps = read_record(STEPS)
    assert len(records._list_remarks(steps, STEPS, 1)) == 1
