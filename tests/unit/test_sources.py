"""All commands take the same inputs: one registry tells them apart, and makes activities of them."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.importing import read_sources
from stripewise.errors import UserError
from stripewise.observe.activity import Activity
from stripewise.observe.sources import SOURCES, find, observe, open_all, open_one, source_of
from tests.unit.reports import recorded

FIXTURES = Path(__file__).parent.parent / "fixtures"
COPIED = {
    "record": "records/steps.record",
    "ior": "ior/issue-102.json",
    "mdtest": "results/mdtest-4.txt",
    "fio": "results/fio-3.json",
    "elbencho": "results/elbencho-3.csv",
    "h5bench": "results/h5bench-1.txt",
    "io500": "results/io500/result.txt",
    "io500-summary": "results/io500/result_summary.txt",
    "io500-configuration": "results/io500/config.ini",
}
WRITTEN = {
    "ior-ranks": "access,rank,runtime-with-openclose,runtime\nwrite,0,1,1\n",
    "mdtest-ranks": "rank,items,rate-Directory creation\nall,1,2\n",
    "fio-text": "a: (g=0): rw=read, bs=(R) 4096B\nfio-3.33\nStarting 1 process\n",
    "elbencho-text": "OPERATION RESULT TYPE        FIRST DONE  LAST DONE\nWRITE\n",
    "elbencho-live": "Label,Phase,RuntimeMS,Rank,MixType\n",
    "h5bench-log": "2026-11-02 10:00:00,000 h5bench - INFO - Starting h5bench Suite\n",
    "h5bench-iotest": "steps,arrays,rows,cols,scaling,proc-rows\n1,2\n",
}
ONE_JOB = ["report", "record", "journal", "ior"]
"""Kinds of which the folder has one job each."""


def journal(*launches: float) -> str:
    """A journal of a phase for each start of a program."""
    lines = ["stripewise-journal 1"]
    for number, launch in enumerate(launches, 1):
        fields = (
            f"site=/out.#\toperation=write\tpattern=C\tranks=4\tnodes=2\tbytes={number << 20}\tseconds=0.5"
            f"\ttime={launch + 2}\tprogram=app\tlaunch={launch}\tlayout=stripe_count=4 stripe_size=1048576"
        )
        lines.append(f"{zlib.crc32(chr(9).encode() + fields.encode()):08x}\t{fields}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One input of each kind, by its name and without the usual ending, and what is none."""
    (tmp_path / "report").write_text(json.dumps(recorded("romio_strided_write")["default"]))
    (tmp_path / "journal").write_text(journal(100, 100))
    for name, source in COPIED.items():
        shutil.copy(FIXTURES / source, tmp_path / name)
    for name, text in WRITTEN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data.bin").write_bytes(b"\0" * 9000)
    (tmp_path / "notes.txt").write_text("nothing to see")
    return tmp_path


def test_a_walk_tells_of_each_file_that_it_looks_at(folder: Path) -> None:
    looked_at: list[None] = []
    assert list(find([folder], on_file=lambda: looked_at.append(None)))
    assert len(looked_at) == sum(path.is_file() for path in folder.rglob("*"))


def test_each_kind_is_told_by_its_content(folder: Path) -> None:
    kinds = {path.name: source.name for path in folder.iterdir() if (source := source_of(path)) is not None}
    names = {source.name for source in SOURCES}
    assert kinds == {name: name for name in names}


def test_a_folder_takes_what_a_file_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    together: dict[str, list[Activity]] = {}
    for one in open_all([folder]):
        assert one.activity is not None
        together.setdefault(one.path.name, []).append(one.activity)
    assert set(together) == {source.name for source in SOURCES if source.read is not None}
    for name, activities in together.items():
        assert [one.activity for one in open_all([folder / name])] == activities
        assert {one.kind for one in activities} == {name}
    assert main(["diagnose", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["site"]["jobs"] == sum(map(len, together.values()))


@pytest.mark.parametrize("name", ONE_JOB)
def test_every_kind_describes_a_workload(folder: Path, name: str) -> None:
    seen = observe(folder / name)
    assert seen.workload.operation is not None and seen.processes == open_one(folder / name).job.ranks


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.darshan")
    for name in ("pipe", "pipe.darshan"):
        assert main(["diagnose", str(folder / name)]) != 0
        assert "is not a regular file" in capsys.readouterr().err
    read = {found.path.name for found in open_all([folder]) if found.activity}
    assert read >= {"ior", "report"} and "pipe" not in read
    assert source_of(folder / "pipe") is None


def test_tables_are_imported_from_the_same_folder(folder: Path) -> None:
    found = read_sources([folder])
    kinds = ("report", "journal", "IOR json", "mdtest", "fio", "elbencho", "h5bench", "IO500")
    assert found.kinds.keys() == set(kinds)
    assert len(found.unreadable) == 1 and "record shows no time in reads or writes" in found.unreadable[0]


def test_a_journal_is_a_job_for_each_start_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(journal(100, 100))
    (tmp_path / "two").write_text(journal(100, 200))
    one = open_one(tmp_path / "one")
    assert (one.job.executable, one.job.ranks, one.job.nodes, one.job.elapsed) == ("app", 4, 2, 2)
    assert (one.bytes, one.io_seconds, [file.path for file in one.files]) == (3 << 20, 1.0, ["/out.#"])
    seen = observe(tmp_path / "one")
    assert (seen.workload.collective, seen.workload.api, seen.layout["stripe_count"]) == (True, "mpiio", 4)
    with pytest.raises(UserError, match="holds 2 runs, and one is asked for"):
        open_one(tmp_path / "two")
