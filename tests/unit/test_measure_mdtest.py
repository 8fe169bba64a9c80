"""mdtest's output: the rates of each phase, in the forms of its versions. The figures are of our own making."""

from __future__ import annotations

from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.campaign.importing import read_sources
from stripewise.errors import UserError
from stripewise.models.table import read_table
from stripewise.observe.mdtest import is_mdtest, parse_mdtest, rows_of
from stripewise.observe.sources import source_of

RESULTS = Path(__file__).resolve().parents[1] / "fixtures" / "results"


def test_version_4_has_the_rates_of_what_ran() -> None:
    (run,) = parse_mdtest((RESULTS / "mdtest-4.txt").read_text())
    assert (run.version, run.tasks, run.nodes, run.api, run.items) == ("4.1.0+dev", 8, 2, "posix", 1000)
    assert run.rates == {
        "file creation": 12450.5,
        "file stat": 99000.0,
        "file read": 33000.25,
        "tree creation": 320.0,
    }
    assert rows_of([run])[0] == {
        "metadata_operation": "file creation",
        "nodes": 2,
        "processes": 8,
        "api": "posix",
        "items": 1000,
        "file_bytes": 3901,
        "rate": 12450.5,
    }


def test_version_1_with_labels_of_the_launcher_and_several_repetitions() -> None:
    (run,) = parse_mdtest((RESULTS / "mdtest-1.txt").read_text())
    assert (run.version, run.tasks, run.nodes, run.items, run.written) == ("1.9.3", 12, 3, 500, 0)
    assert run.rates == {
        "directory creation": 1100.0,
        "directory stat": 39000.0,
        "directory removal": 850.0,
        "file creation": 2100.0,
        "file stat": 49000.0,
        "file removal": 1850.0,
    }


def test_several_launches_of_one_file_keep_their_options() -> None:
    text = (RESULTS / "mdtest-4.txt").read_text()
    first, second = parse_mdtest(text + text.replace("with 8 total", "with 16 total").replace("'POSIX'", "'DFS'"))
    assert (first.tasks, first.api, second.tasks, second.api) == (8, "posix", 16, "dfs")


def test_a_prologue_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("create qp: 22\n" * 200_000 + (RESULTS / "mdtest-4.txt").read_text())
    source = source_of(tmp_path / "out")
    assert source is not None and source.name == "mdtest"


def test_what_measured_nothing_is_refused_as_what_it_is() -> None:
    text = (RESULTS / "mdtest-4.txt").read_text().partition("SUMMARY")[0]
    assert is_mdtest(text)
    with pytest.raises(UserError, match=r"^x.txt: mdtest's output without a rate;"):
        parse_mdtest(text, "x.txt")


def test_a_table_of_rates(tmp_path: Path) -> None:
    words = [str(RESULTS / "mdtest-4.txt"), "--parameter", "items", "--out", str(tmp_path / "t")]
    assert main(["site", "table", "import", *words]) == 0
    table = read_table(tmp_path / "t")
    assert (table.objective.name, table.objective.unit, table.objective.direction) == ("rate", "1/s", "maximize")
    assert sorted(table.values) == [320.0, 12450.5, 33000.25, 99000.0]


def test_diagnose_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(RESULTS / "mdtest-4.txt")]) == 2
    error = capsys.readouterr().err
    assert "mdtest-4.txt: mdtest's output" in error and "site table import" in error and error.count("\n") == 1


def test_one_bad_file_does_not_end_an_import(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text((RESULTS / "mdtest-4.txt").read_text().partition("SUMMARY")[0])
    (tmp_path / "good").write_text((RESULTS / "mdtest-4.txt").read_text())
    found = read_sources([tmp_path])
    assert len(found.rows) == 4 and found.kinds == {"mdtest": 1}
    (line,) = found.unreadable
    assert line.startswith(f"{tmp_path / 'bad'}: mdtest's output without a rate")
