"""The runtime's journal, as Python reads it and imports it."""

from __future__ import annotations

import csv
import json
import zlib
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.formats import JOURNAL_HEADER as HEADER
from stripewise.models.table import read_table
from stripewise.observe.journal import parse_journal

CORPUS = Path(__file__).resolve().parents[2] / "native" / "fuzz" / "corpus_journal"


def record(**fields: object) -> str:
    words = {
        "site": "/scratch/chk#",
        "operation": "write",
        "pattern": "C",
        "ranks": 8,
        "nodes": 2,
        "bytes": 2**30,
        "seconds": 2.0,
        "time": 1.7e9,
        "settings": "",
        "workload": "operation=write layout=strided nodes=2 file_size=1073741824 transfer_size=65536 collective=1",
        "program": "solver",
        "layout": "stripe_count=4 stripe_size=1048576",
    } | fields
    body = "".join(f"\t{key}={value}" for key, value in words.items())
    return f"{zlib.crc32(body.encode()):08x}{body}\n"


def test_records_are_read_as_the_runtime_writes_them() -> None:
    journal = parse_journal((CORPUS / "two.journal").read_text("utf-8"))
    assert journal.damaged == 0
    first, second = journal.phases
    assert (first.ranks, first.nodes, first.collective, first.strided) == (64, 4, True, True)
    assert first.settings == {"cb_nodes": "4", "lustre stripe_count": "8"}
    assert first.bandwidth == pytest.approx(4096 / 12.5)
    assert first.layout == {"stripe_count": "8", "stripe_size": "1048576"}
    assert (second.operation, second.program, second.settings) == ("read", "a\tb%", {})


def test_damaged_lines_are_counted_and_passed_over() -> None:
    cut = parse_journal((CORPUS / "cut.journal").read_text("utf-8"))
    assert (len(cut.phases), cut.damaged) == (2, 1)
    text = f"{HEADER}\n{record()}{record(operation='append')}{record(seconds=0)}{record(settings='hint x')}nonsense\n"
    found = parse_journal(text)
    assert (len(found.phases), found.damaged) == (1, 4)
    changed = record().replace("solver", "solved")
    assert parse_journal(changed).damaged == 1


def test_table_import_makes_trials_of_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "online.journal"
    runs = [("", 4.0), ("", 4.2), ("hint romio_cb_write disable;hint cb_nodes 2", 1.0), ("hint cb_nodes 4", 2.0)]
    journal.write_text(HEADER + "\n" + "".join(record(settings=s, seconds=t) for s, t in runs) + "cut", "utf-8")
    assert main(["site", "table", "import", str(journal), "--out", str(tmp_path / "learned"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == {"journal": 1} and document["rows"] == 4
    assert {"cb_nodes", "romio_cb_write"} <= set(document["parameters"])
    table = read_table(tmp_path / "learned")
    assert sorted(table.values) == pytest.approx(sorted(1024 / t for _, t in runs))
    with (tmp_path / "learned.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    default = [row for row in rows if row["romio_cb_write"] == "automatic" and row["cb_nodes"] == "1"]
    assert sorted(float(row["bandwidth"]) for row in default) == pytest.approx([1024 / 4.2, 256.0])
    assert set(table.repeats) == {0, 1}
