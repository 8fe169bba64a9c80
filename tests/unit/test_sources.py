"""All commands take the same inputs: one registry tells them apart, and makes activities of them."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.importing import read_sources
from stripewise.errors import UserError
from stripewise.observe.sources import SOURCES, observe, open_all, open_one, source_of
from tests.unit.reports import recorded

FIXTURES = Path(__file__).parent.parent / "fixtures"


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
    """One input of each kind, without the usual endings, and what is none."""
    (tmp_path / "a").write_text(json.dumps(recorded("romio_strided_write")["default"]))
    shutil.copy(FIXTURES / "records" / "steps.record", tmp_path / "b")
    (tmp_path / "c").write_text(journal(100, 100))
    shutil.copy(FIXTURES / "ior" / "issue-102.json", tmp_path / "d")
    shutil.copy(FIXTURES / "results" / "mdtest-4.txt", tmp_path / "e")
    (tmp_path / "data.bin").write_bytes(b"\0" * 9000)
    (tmp_path / "notes.txt").write_text("nothing to see")
    return tmp_path


def test_each_kind_is_told_by_its_content(folder: Path) -> None:
    kinds = {path.name: source.name for path in folder.iterdir() if (source := source_of(path)) is not None}
    assert kinds == {"a": "report", "b": "record", "c": "journal", "d": "ior", "e": "mdtest"}
    assert set(kinds.values()) < {source.name for source in SOURCES}


def test_a_folder_takes_what_a_file_takes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = [open_one(folder / name) for name in "abcd"]
    assert [one.kind for one in alone] == ["report", "record", "journal", "ior"]
    together = {one.path.name: one.activity for one in open_all([folder])}
    assert set(together) == set("abcd")
    assert [together[name] for name in "abcd"] == alone
    assert main(["diagnose", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["site"]["jobs"] == 4


@pytest.mark.parametrize("name", "abcd")
def test_every_kind_describes_a_workload(folder: Path, name: str) -> None:
    seen = observe(folder / name)
    assert seen.workload.operation is not None and seen.processes == open_one(folder / name).job.ranks


def test_tables_are_imported_from_the_same_folder(folder: Path) -> None:
    found = read_sources([folder])
    assert found.kinds == {"report": 1, "journal": 1, "IOR json": 1, "mdtest": 1}
    assert len(found.unreadable) == 1 and "b shows no time in reads or writes" in found.unreadable[0]


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
