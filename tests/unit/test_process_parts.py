"""Parts that processes left damaged or with what cannot be looked up are merged, or passed over, without an error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from ctypes import sizeof
from pathlib import Path

import pytest

from stripewise.errors import UserError
from stripewise.formats import REPORT_VERSION
from stripewise.observe.left import PREFIX, reports_of
from stripewise.observe.process_part import _FILES, _MAGIC, OPERATIONS, Calls, FileRecord, Head
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file, sum_reports


def part(path: bytes, least: int) -> bytes:
    """What a process leaves that wrote ten bytes into one file."""
    content = bytearray(sizeof(Head) + _FILES * sizeof(FileRecord))
    head, file = fields_of(content)
    head.magic, head.record_size, head.rank = _MAGIC, sizeof(FileRecord), -1
    file.state, file.path = 2, path
    file.calls[OPERATIONS.index("write")] = Calls(1, 10, 5, least, least)
    return bytes(content)


def fields_of(content: bytearray) -> tuple[Head, FileRecord]:
    """The head of a part and its first file, to be changed in place."""
    return Head.from_buffer(content), FileRecord.from_buffer(content, sizeof(Head))


@pytest.mark.parametrize(
    ("path", "least", "shown"),
    [
        (b"/" + b"n" * 250 + b" (deleted)", 11, "/" + "n" * 250 + " (deleted)"),  # longer than names may be
        (b"/a\0b", 11, "/a"),
        (b"/killed", 0, "/killed"),  # before it noted the size
        (b"/caf\xe9", 11, "/caf\udce9"),
    ],
)
def test_what_is_odd_in_a_part_does_not_lose_the_report(tmp_path: Path, path: bytes, least: int, shown: str) -> None:
    (tmp_path / f"{PREFIX}1-1").write_bytes(part(path, least))
    os.mkfifo(tmp_path / f"{PREFIX}2-1")
    (tmp_path / f"{PREFIX}3-1").write_bytes(part(path, least)[:-1])
    assert merge_parts(tmp_path, tmp_path / "report.json")
    (file,) = read_report_file(tmp_path / "report.json").files
    assert (file.path, file.size, file.operations["write"].bytes) == (shown, None, 10)
    assert file.operations["write"].min_size == (10 if least else None)


def test_a_layout_that_the_part_does_not_have_is_left_out(tmp_path: Path) -> None:
    content = bytearray(part(b"/out", 10))
    fields_of(content)[1].place = 255
    (tmp_path / f"{PREFIX}1-1").write_bytes(content)
    assert merge_parts(tmp_path, tmp_path / "report.json")
    (file,) = read_report_file(tmp_path / "report.json").files
    assert file.operations["write"].bytes == 10


def run_by(executable: bytes, start: int, size: int) -> bytes:
    """What a process of an executable leaves that wrote so many bytes."""
    content = bytearray(part(b"/out", size + 1))
    head, file = fields_of(content)
    head.executable, head.real = executable, start
    file.calls[OPERATIONS.index("write")].bytes = size
    return bytes(content)


def test_scripts_of_one_interpreter_are_programs_with_the_workers_that_they_start(tmp_path: Path) -> None:
    python = b"/usr/bin/python3.11"
    for number, (pid, parent, script) in enumerate(
        [(5, 1, b"shard.py"), (6, 1, b"train.py"), (7, 6, b""), (8, 7, b"")]
    ):
        content = bytearray(run_by(python, 10 + number, 100))
        head, _ = fields_of(content)
        head.pid, head.parent, head.script = pid, parent, script
        (tmp_path / f"{PREFIX}{pid}-1").write_bytes(content)
    assert merge_parts(tmp_path, tmp_path / "report.json", "train.py")
    report = read_report_file(tmp_path / "report.json")
    assert [(one.name, one.processes) for one in report.programs] == [("shard.py", 1), ("train.py", 3)]
    assert [(one.pid, one.script) for one in report.processes] == [(6, "train.py"), (7, "train.py"), (8, "train.py")]
    # A run reads the report by the program's name once more.
    assert sum_reports([report], "train.py") == report
    with pytest.raises(UserError, match="other"):
        sum_reports([report], "other.py")


def test_each_program_of_a_command_is_listed_and_one_can_be_chosen(tmp_path: Path) -> None:
    parts = [run_by(b"/bin/sort", 20, 300), run_by(b"/bin/bash", 10, 5), run_by(b"/bin/sort", 30, 400)]

    def merged(program: str) -> Report:
        for number, content in enumerate(parts):
            (tmp_path / f"{PREFIX}{number}-1").write_bytes(content)
        assert merge_parts(tmp_path, tmp_path / "report.json", program)
        return read_report_file(tmp_path / "report.json")

    whole = merged("")
    assert [(one.name, one.processes, one.bytes_written) for one in whole.programs] == [
        ("bash", 1, 5),
        ("sort", 2, 700),
    ]
    assert whole.totals.bytes_written == 705
    for name in ("sort", "/bin/sort"):
        one = merged(name)
        assert (one.job.executable, one.totals.bytes_written, len(one.processes)) == ("/bin/sort", 700, 2)
        assert sum_reports([one], name) is one and len(one.programs) == 2
    with pytest.raises(UserError, match="no program of the command is called awk: it started bash, sort"):
        merged("awk")


SECOND = 10**9


def runtime_report(executable: str, start: float, written: int) -> str:
    return json.dumps(
        {
            "format": "stripewise-report",
            "version": REPORT_VERSION,
            "job": {"executable": executable, "ranks": 1, "nodes": 1, "start": start, "elapsed": 2.0, "io_time": 1.0,
                    "complete": True, "ranks_reported": 1},
            "totals": {"bytes_read": 0, "bytes_written": written, "write_bandwidth": written / 2**20 or None,
                       "read_time": 0.0, "write_time": 1.0},
            "files": [],
        }
    )  # fmt: skip


def test_own_calls_of_several_mpi_programs_are_each_in_the_report_of_its_own(tmp_path: Path) -> None:
    """A shell copies before; twice the same program, the first of which starts a helper; then another program."""
    report = tmp_path / "report.json"

    def merged(program: str, before: int = 0) -> list[Report]:
        """Merge; so many reports had their part before a session was killed."""
        programs = [("/app", 10.5), ("/app", 20.5), ("/other", 30.5)]
        for number, (executable, start) in list(enumerate(programs))[before:]:
            path = report if number == 0 else tmp_path / f"report.json.{number + 1}"
            path.write_text(runtime_report(executable, start, 2**20 if number else 0))
        for pid, parent, ran, start, size in [
            (2, 1, b"/bin/cp", 5, 7), (3, 1, b"/app", 10, 100), (4, 3, b"/bin/gzip", 11, 30),
            (5, 1, b"/app", 20, 200), (6, 1, b"/other", 30, 300),
        ]:  # fmt: skip
            content = bytearray(run_by(ran, start * SECOND, size))
            head, file = fields_of(content)
            head.pid, head.parent, head.end = pid, parent, 3 * SECOND
            file.way[1].first, file.way[1].last = 1, SECOND
            (tmp_path / f"{PREFIX}{pid}-1").write_bytes(content)
        assert merge_parts(tmp_path, report, program)
        return [read_report_file(path) for path in reports_of(report)]

    reports = merged("")
    assert [[one.pid for one in found.processes] for found in reports] == [[2, 3, 4], [5], [6]]
    assert [found.totals.bytes_written for found in reports] == [137, 2**20 + 200, 2**20 + 300]
    assert sum_reports(reports).totals.bytes_written == 2 * 2**20 + 637
    kept = reports[0].model_copy(update={"posix_files": reports[0].posix_files * 3}).as_json(2)
    assert (len(kept["posix_files"]), kept["files_left_out"]) == (2, 1)
    # Alone they make the bandwidth; beside a mebibyte they do not matter.
    assert reports[0].totals.write_bandwidth == pytest.approx(137 / 2**20 / 3, rel=0.01)
    assert reports[1].totals.write_bandwidth == 1.0
    assert merged("", before=2) == reports
    assert [[one.pid for one in found.processes] for found in merged("app")] == [[3, 4], [5], [6]]


def test_what_was_merged_is_not_merged_again_from_the_parts_that_are_left(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    left = tmp_path / f"{PREFIX}2-1"
    for number in (1, 2):
        (tmp_path / f"{PREFIX}{number}-1").write_bytes(run_by(b"/bin/app", number * SECOND + 7, 100))
    content = left.read_bytes()
    assert merge_parts(tmp_path, report)
    whole = report.read_text()
    left.write_bytes(content)  # the session was killed before it removed this one
    assert merge_parts(tmp_path, report) and not left.exists() and report.read_text() == whole


def test_a_report_of_the_runtime_is_added_to_once_and_never_replaced(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(runtime_report("/app", 10.5, 2**20))
    for _ in range(2):
        (tmp_path / f"{PREFIX}1-1").write_bytes(run_by(b"/app", 10 * SECOND, 100))
        assert merge_parts(tmp_path, report)
    assert read_report_file(report).totals.bytes_written == 2**20 + 100


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:40],
        lambda text: text.replace('"bytes_written": 0', '"bytes_written": "many"'),
        lambda text: text.replace('"start": 10.5', '"start": "soon"'),
        lambda text: text.replace('"totals": {', '"totals": 5, "others": {'),
        lambda text: text.replace('"files"', '"processes": [1], "files"'),
        lambda text: text.replace(f'"version": {REPORT_VERSION}', '"version": 0'),
        lambda _: "[" * 100_000,
    ],
)
def test_a_damaged_report_stays_as_it_is(tmp_path: Path, change: Callable[[str], str]) -> None:
    report = tmp_path / "report.json"
    report.write_text(damaged := change(runtime_report("/app", 10.5, 0)))
    (tmp_path / f"{PREFIX}1-1").write_bytes(run_by(b"/app", 10 * SECOND, 100))
    assert merge_parts(tmp_path, report)
    assert report.read_text() == damaged
    with pytest.raises(UserError):
        read_report_file(report)


@pytest.mark.parametrize(
    ("declared", "used", "ranks"), [(8, (0, 3), 8), (8, (0,), 1), (-1, (-1, -1), 1), (2, (0, 1), 2)]
)
def test_ranks_without_files_count_where_the_launcher_started_several(
    tmp_path: Path, declared: int, used: tuple[int, ...], ranks: int
) -> None:
    for number, rank in enumerate(used):
        content = bytearray(run_by(b"/bin/app", 10 + number, 100))
        head, _ = fields_of(content)
        head.rank, head.ranks = rank, declared
        (tmp_path / f"{PREFIX}{number}-1").write_bytes(content)
    assert merge_parts(tmp_path, tmp_path / "report.json")
    job = read_report_file(tmp_path / "report.json").job
    assert (job.ranks, job.ranks_reported) == (ranks, len(set(used)))
