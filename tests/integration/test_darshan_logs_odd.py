"""Darshan logs as they lie around: of old versions, with a gap, with damaged figures, with pipes and other modules."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from stripewise.desk.cli.main import main
from stripewise.diagnose.site import diagnose
from stripewise.observe.darshan_logs import UnreadableLogError, read_log
from tests.unit.reports import EXAMPLE_LOGS

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "darshan"
MAGIC, HEADER, NAMES_AT, MODULES_AT, VERSIONS_AT = 6567223, 1328, 32, 48, 1072
POSIX, DFS = 1, 16
DATA, STDERR = 7, 8


def log_of(path: Path, counters: dict[str, int], *, gap: int = 0, dfs: dict[str, int] | None = None) -> Path:
    """Write a log in format 3.41 with one record of POSIX, and maybe one of DFS."""
    from darshan.backend import cffi_backend as backend

    ffi = backend.ffi
    job = ffi.new("struct darshan_job *")
    job.nprocs, job.jobid, job.start_time_sec, job.end_time_sec = 4, 42, 1_725_935_242, 1_725_935_252
    parts = [bytes(ffi.buffer(job)) + b"/apps/io500\nlustre\t/mnt/lustre\0"]
    parts.append(struct.pack("<Q", DATA) + b"/mnt/lustre/data\0")
    for module, given in (("POSIX", counters), ("DFS", dfs)):
        if given is None:
            continue
        record = ffi.new(backend._structdefs[module].replace("**", "*"))
        record.base_rec.id, record.base_rec.rank = DATA, -1
        values = np.frombuffer(ffi.buffer(record.counters), np.int64)
        for name, value in given.items():
            values[backend.counter_names(module).index(f"{module}_{name}")] = value
        parts.append(bytes(ffi.buffer(record)))
    packed = [zlib.compress(part) for part in parts]
    head = bytearray(HEADER)
    struct.pack_into("<8sq", head, 0, b"3.41", MAGIC)
    place = HEADER + gap + len(packed[0])
    for at, part in zip((NAMES_AT, MODULES_AT + 16 * POSIX, MODULES_AT + 16 * DFS), packed[1:], strict=False):
        struct.pack_into("<QQ", head, at, place, len(part))
        place += len(part)
    struct.pack_into("<I", head, VERSIONS_AT + 4 * POSIX, 4)
    struct.pack_into("<I", head, VERSIONS_AT + 4 * DFS, 1)
    path.write_bytes(bytes(head) + bytes(gap) + b"".join(packed))
    return path


WRITES = {"OPENS": 4, "WRITES": 8, "BYTES_WRITTEN": 8 << 20, "SIZE_WRITE_100K_1M": 8, "MAX_BYTE_WRITTEN": (8 << 20) - 1}


def test_a_gap_behind_the_header_is_skipped_and_named(tmp_path: Path) -> None:
    whole = read_log(log_of(tmp_path / "whole.darshan", WRITES))
    found = read_log(log_of(tmp_path / "gap.darshan", WRITES, gap=8192))
    assert found.unseen[-1] == "the log has a gap of 8,192 bytes behind its header, which was skipped"
    assert found.job == whole.job and found.job.executable == "/apps/io500" and found.job.elapsed == 10.0
    assert found.files == whole.files and found.files[0].file_system == "lustre"
    assert found.bytes == 8 << 20


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OPENS", 4_650_217_816_615_000_026, "4,650,217,816,615,000,026 as OPENS"),
        ("STATS", -3_041_839_212_686_888_055, "-3,041,839,212,686,888,055 as STATS"),
    ],
)
def test_figures_that_cannot_be_make_a_damaged_log(tmp_path: Path, name: str, value: int, says: str) -> None:
    path = log_of(tmp_path / "mad.darshan", {**WRITES, name: value})
    with pytest.raises(UnreadableLogError, match=f"it is damaged: module POSIX holds {says}"):
        read_log(path)


def test_a_damaged_record_is_left_out_and_the_rest_is_read(tmp_path: Path) -> None:
    # MPI-IO says that -27,262 bytes were read; its requests to the file system read 8.1 GiB.
    found = read_log(FIXTURES / "tmatch-reorganised.darshan")
    assert "1 damaged record of module MPI-IO is left out: -27,262 as BYTES_READ" in found.unseen
    assert found.bytes > 8 << 30
    lost = read_log(log_of(tmp_path / "lost.darshan", {**WRITES, "WRITES": 9}))
    assert lost.unseen[-1] == "1 damaged record of module POSIX is left out: 8 sizes of 9 writes"
    assert lost.bytes == 0 and not lost.files


def test_modules_that_are_not_judged_are_named_with_their_bytes(tmp_path: Path) -> None:
    path = log_of(tmp_path / "dfs.darshan", WRITES, dfs={"BYTES_READ": 16 << 20, "BYTES_WRITTEN": 32 << 20})
    said = "module DFS is in the log and is not judged: it holds 16 MiB read and 32 MiB written"
    assert said in read_log(path).unseen


def test_a_log_of_darshan_2_is_named_and_converted_where_the_tool_is_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old.darshan.gz"
    old.write_bytes(gzip.compress(b"2.06\0\0\0\0" + bytes(2000)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(UnreadableLogError, match=r"is a log of Darshan 2 \(format 2\.06\).*darshan-convert"):
        read_log(old)
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "darshan-convert"
    tool.write_text(f'#!/bin/sh\ncp {log_of(tmp_path / "new.darshan", WRITES)} "$2"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    found = read_log(old)
    assert found.source == str(old) and found.bytes == 8 << 20
    assert "converted by darshan-convert from format 2.06, which has fewer counters" in found.unseen
    tool.write_text("#!/bin/sh\necho 'Error: incompatible log file version.' >&2; exit 1\n")
    with pytest.raises(UnreadableLogError, match=r"nor does .*: Error: incompatible log file version\."):
        read_log(old)


def test_named_pipes_and_streams_are_no_data_files() -> None:
    # Its 128 pipes wait 11,218 s for partners, in several threads; reads and writes of files take less than a second.
    found = read_log(EXAMPLE_LOGS / "dxt.darshan")
    assert any(line.startswith("128 named pipes are left out") for line in found.unseen)
    assert found.io_time is not None and found.io_time < 1
    assert "metadata-storm" not in {finding.code for finding in diagnose(found).problems if finding.severity > 2}


def test_a_folder_of_old_and_new_logs_is_diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old.darshan.gz").write_bytes(gzip.compress(b"1.23\0\0\0\0" + bytes(2000)))
    log_of(tmp_path / "new.darshan", WRITES)
    assert main(["diagnose", str(tmp_path)]) == 0
    assert "is a log of Darshan 1 (format 1.23)" in capsys.readouterr().err


def test_a_program_before_and_after_its_pieces_were_merged() -> None:
    # 72 s and 0.4 s for the same data: nothing in the log limits a gain.
    before, after = (diagnose(read_log(FIXTURES / f"netcdf-{name}.darshan")) for name in ("pieces", "merged"))
    found = {finding.code: finding for finding in before.problems}
    assert {"strided-without-buffering", "small-writes", "one-stripe"} <= found.keys()
    assert (
        found["strided-without-buffering"].says == "768 collective writes became 655,384 requests of 256 B on average"
    )
    assert "collective-writes" not in {finding.code for finding in before.findings}
    assert after.problems == ()
