"""The diagnosis of a record: it judges how the program calls MPI-IO, and says that it has no times."""

import json
import os
import time
import zlib
from pathlib import Path

import pytest

from stripewise import interpreter
from stripewise.desk.cli.main import main
from stripewise.diagnose.site import Diagnosis, diagnose
from stripewise.errors import UserError
from stripewise.observe import from_record, record_reading
from stripewise.observe.from_record import activity_of
from stripewise.observe.record_reading import parse_record

STEPS = Path(__file__).resolve().parents[1] / "fixtures" / "records" / "steps.record"
HEAD = "stripewise-record 1\njob 4 1 10000000000 5000000000\n"


def diagnosed(body: str, ranks: int = 4) -> Diagnosis:
    text = HEAD.replace("job 4", f"job {ranks}") + body
    return diagnose(activity_of(parse_record(f"{text}checksum {zlib.crc32(text.encode()):08x}\n", "x"), "x.record"))


def test_the_command_judges_calls_and_says_that_there_are_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(STEPS), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "record" and document["job"]["ranks"] == 4
    found = {one["code"]: one for one in document["findings"]}
    assert "2,000 independent read calls" in found["independent-reads"]["says"]
    # The reads are 3% of the bytes, and most writes are collective: what became of these is not in a record.
    assert found["small-reads"]["io_time_share"] == pytest.approx(0.0295, abs=1e-3)
    assert document["io_seconds"] == pytest.approx(5.2, rel=0.1)
    assert "has no times but the pauses between calls (think time: 0.12" in document["unseen"][0]


def test_a_folder_of_records_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one.record", "other.record"):
        (tmp_path / name).write_bytes(STEPS.read_bytes())
    (tmp_path / "notes.record").write_text("not a record")
    assert main(["diagnose", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["jobs"]) == 2


def test_a_damaged_record_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "cut.record"
    place.write_bytes(STEPS.read_bytes()[:-20])
    assert main(["diagnose", str(place)]) == 2
    assert "is damaged or not complete" in capsys.readouterr().err


def test_unequal_ranks_are_found() -> None:
    body = "ranks {} {}\nfile - /a\ncomm 0 {} 1\nopen 0 0 0 9 0\nloop 8\nwrite_at 0 0,1048576 {} 0\nend\nclose 0 0\n"
    text = "".join(body.format(*one) for one in ((0, 1, 4, 4 << 20), (1, 3, 4, 1 << 20)))
    (found,) = [one for one in diagnosed(text).findings if one.code == "rank-imbalance"]
    assert found.ranks == (0,) and "rank 0 moved 32 MiB" in found.says


def test_many_opens_are_told_without_a_time() -> None:
    body = "ranks 0 4\nfile - /a\ncomm 0 4 1\nloop 2000\nopen 0 0 0 9 0\nclose 0 0\nend\n"
    found = {one.code: one for one in diagnosed(body).findings}
    assert "opened 1,999 times more than needed" in found["reopens"].says
    assert found["metadata-storm"].says == (
        "2,000 opens, stats and flushes of 1 file are nearly all that the job did; how long they took was not recorded"
    )


def test_what_an_incomplete_record_lacks_is_said() -> None:
    found = diagnosed("incomplete calls failed\nranks 0 4\nfile - /a\ncomm 0 4 1\nopen 0 0 0 9 0\nclose 0 0\n")
    assert "the record is incomplete: calls failed" in found.activity.unseen


@pytest.mark.parametrize(("told_apart", "counts"), [(100_000, (3000, 1, 2999)), (10, (3001, 0, 3000))])
def test_files_that_are_not_listed_count_in_the_sums(
    monkeypatch: pytest.MonkeyPatch, told_apart: int, counts: tuple[int, int, int]
) -> None:
    monkeypatch.setattr(from_record, "_MOST_TOLD_APART", told_apart)
    # Rank 0 writes more, and reads the file of the last rank; each of the others writes a file of its own.
    first = "ranks 0 1\nfile 0 /d/out.0000\nfile 0 /d/out.2999\ncomm 0 1 1\nopen 0 0 0 9 0\nwrite_at 0 0 4096 0\n"
    first += "close 0 0\nopen 0 1 0 9 0\nread_at 0 0 1024 0\nclose 0 0\n"
    others = "ranks 1 2999\nfile 1 /d/out.0001\ncomm 0~1 1 0\nopen 0 0 0 9 0\nwrite_at 0 0 1024 0\nclose 0 0\n"
    found = diagnosed(first + others, ranks=3000)
    seen = found.activity
    moved = 4096 + 1024 + 2999 * 1024
    assert seen.bytes == sum((seen.totals.mpiio.read.bytes, seen.totals.mpiio.write.bytes)) == moved
    assert seen.totals.mpiio.count == seen.totals.modes.independent_reads + 3000 == 3001
    assert sum(file.bytes for file in seen.files) < moved and len(seen.files) == 1000
    assert "" not in {file.path for file in seen.files}
    assert seen.totals.mpiio.seconds == pytest.approx(seen.summed_seconds) == pytest.approx(5.0 * 3000)
    counted = seen.counted
    assert (counted.files, counted.shared, counted.written_single, counted.folders) == (*counts, 1)
    (own,) = [one for one in found.findings if one.code == "file-per-process"]
    assert own.evidence["files"] >= 2998
    assert any(f"{counts[0] - 1000:,} others count in the sums only" in gap for gap in seen.unseen)


def test_a_record_without_end_and_one_of_very_many_ranks_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "ranks 0 {}\nfile - /a\ncomm 0 4 1\nopen 0 0 0 9 0\nloop {}\nwrite_at 0 0 8 0\nend\nclose 0 0\n"
    with pytest.raises(UserError, match="has 281,474,976,710,658 different calls, and 10,000,000 can be gone through"):
        diagnosed(body.format(4, 1 << 48))
    with pytest.raises(UserError, match="a loop without calls"):
        diagnosed("ranks 0 4\nloop 9\nloop 9\nend\nend\n")
    monkeypatch.setattr(from_record, "_MOST_TOLD_APART", 2000)
    most = (1 << 31) - 1
    found = diagnosed(body.format(most, 3).replace("file - /a", "file 1 /a.0"), ranks=most).activity
    assert found.ranks is None and any("at most 1,000,000 ranks" in gap for gap in found.unseen)
    assert found.bytes == 3 * 8 * most and found.counted.written_single == most
    monkeypatch.setattr(from_record, "_MOST_RANKS", 4)
    assert diagnosed(body.format(4, 3)).activity.ranks is not None


def test_what_is_read_more_than_once_is_found() -> None:
    whole = "ranks 0 4\nfile - /a\ncomm 0 4 1\nopen 0 0 0 2 0\nloop 64\nread_at 0 0,1048576 1048576 0\nend\nclose 0 0\n"
    (found,) = [one for one in diagnosed(whole).findings if one.code == "redundant-reads"]
    assert "192 MiB of 256 MiB were read more than once" in found.says
    apart = whole.replace("read_at 0 0,1048576", "read_at 0 0,1048576~67108864")
    shared = whole.replace("read_at 0 0,1048576 ", "read_shared 0 ")
    for other in (apart, shared):
        assert "redundant-reads" not in {one.code for one in diagnosed(other).findings}


def test_requests_off_blocks_are_found() -> None:
    text = "ranks 0 4\nfile - /a\ncomm 0 4 1\nopen 0 0 0 9 0\nloop 1000\n"
    text += "write_at 0 {},8192~8192000 8192 0\nend\nclose 0 0\n"
    (found,) = [one for one in diagnosed(text.format(100)).findings if one.code == "unaligned-file"]
    assert "100% of 4,000 requests do not begin at a multiple of 4 KiB" in found.says
    assert "unaligned-file" not in {one.code for one in diagnosed(text.format(4096)).findings}


@pytest.mark.parametrize("command", ["diagnose FILE", "site table import FILE --out OUT"])
def test_a_record_of_few_bytes_and_many_calls_ends_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(interpreter, "_SECONDS_A_FILE", 1)
    body = "stripewise-record 1\njob 1 1 1 1\nranks 0 1\nfile - /a\ncomm 0 1 0\nopen 0 0 0 0 0\n"
    body += "loop 9999990\nwrite_at 0 0,1 1 0\nend\n"
    small = tmp_path / "small.record"
    small.write_text(f"{body}checksum {zlib.crc32(body.encode()):08x}\n")
    began = time.process_time()
    assert main(command.replace("OUT", str(tmp_path / "table")).replace("FILE", str(small)).split()) != 0
    told = capsys.readouterr().err
    assert "more than 1 s of processor time" in told and "Traceback" not in told and time.process_time() - began < 20


@pytest.mark.parametrize("command", ["lab replay", "lab simulate run laptop", "prescribe --from"])
def test_a_record_that_takes_long_to_read_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def parse_for_ever(text: str, origin: str) -> None:
        while True:
            pass

    monkeypatch.setattr(interpreter, "_SECONDS_A_FILE", 1)
    monkeypatch.setattr(record_reading, "parse_record", parse_for_ever)
    assert main([*command.split(), str(STEPS)]) == 2
    told = capsys.readouterr().err
    assert "more than 1 s of processor time" in told and told.count("\n") == 1


def test_reading_that_takes_memory_or_fails_is_told_in_the_process_that_asked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert interpreter.run_bounded(lambda: [os.getpid()], path) != [os.getpid()]
    with pytest.raises(UserError, match="needs more than 1024 MiB of memory"):
        interpreter.run_bounded(lambda: bytearray(2 << 30), path)
    with pytest.raises(UserError, match="ended with code -9"):
        interpreter.run_bounded(lambda: os.kill(os.getpid(), 9), path)

    def refuse() -> None:
        raise UserError("what", "fix")

    with pytest.raises(UserError) as raised:
        interpreter.run_bounded(refuse, path)
    assert (raised.value.what, raised.value.fix) == ("what", "fix")
