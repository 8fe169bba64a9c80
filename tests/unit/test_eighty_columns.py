"""A terminal of 80 columns: help of all commands and typical outputs fit, and only a path may be longer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.desk.cli import manage, output
from stripewise.desk.cli.commands import COMMANDS
from stripewise.desk.cli.main import main
from stripewise.desk.cli.result import print_result
from stripewise.requests.experiment import Experiment
from stripewise.store.opening import open_store
from tests.system.pages_service import put
from tests.unit.finished_experiment import finished

ROOT = Path(__file__).resolve().parents[2]
GROUPS = {"table": "site", "native": "site", "simulate": "lab", "token": "service"}
WIDTH = 80


def commands() -> Iterator[list[str]]:
    for group, own in COMMANDS.items():
        above = [] if group == "stripewise" else [GROUPS[group], group] if group in GROUPS else [group]
        yield from ([*above, name] for name in own)
    yield from ([], ["tune", "--within"])


def fits(text: str) -> list[str]:
    """List the lines that are too long although they could have been broken."""
    lines = text.splitlines()
    return [line for line in lines if len(line) > WIDTH and not re.fullmatch(r"\s*(?:file: )?\S{60,}.{0,20}", line)]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (output.console, output.notes):
        monkeypatch.setattr(one, "_force_terminal", True)
        monkeypatch.setattr(one, "_width", WIDTH)


def test_help_of_all_commands_fits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    long = {}
    for words in commands():
        assert main([*words, "--help"]) == 0, words
        text = capsys.readouterr().out
        assert "Usage:" in text
        long[" ".join(words)] = fits(text)
        assert not re.search(r"Default: (\.\.|\d+\.0\b|None|Posix|\[)", text), words
    assert {command: lines for command, lines in long.items() if lines} == {}


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "tests/fixtures/darshan/netcdf-pieces.darshan"],
        ["diagnose", "tests/fixtures/darshan", "--files"],
        ["diagnose", "tests/fixtures/ior/two-runs.txt"],
        ["knobs", "cb_nodes"],
        ["prescribe", "--from", "tests/fixtures/darshan/netcdf-pieces.darshan"],
        ["tune", "--dry-run", "examples/simulated-kay.toml"],
        ["site", "summarize", "benchmarks/data/tables/ior_vast_scaling.csv"],
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("terminal")
def test_what_commands_print_fits(
    words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("STRIPEWISE_STORE", f"sqlite:///{tmp_path}/s.db")
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out
    assert fits(said.out + said.err) == []


@pytest.mark.usefixtures("terminal")
def test_experiments_fit_and_words_of_their_names_stay_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    monkeypatch.setenv("STRIPEWISE_STORE", url)
    record, trials = finished()
    assert record.result is not None
    simulated = record.result.model_copy(update={"simulated": True})
    with open_store(url) as store:
        named = record.experiment.model_copy(update={"name": "simulated checkpoint on kay"})
        first = put(store, named, record.facts, trials, "finished", simulated)
        store.annotate(first, tags=["demo"])
        put(store, Experiment(command=["true"]), {}, (), "created")
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert {"simulated", "checkpoint", "(simulated),", "demo"} <= set(listed.split())
    assert main(["show", first, "--runs"]) == 0
    assert fits(listed + capsys.readouterr().out) == []


def test_a_size_is_written_alike_in_settings_and_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    record, trials = finished()
    assert record.result is not None
    manage.print_runs(tuple(replace(trial) for trial in trials), record.result)
    shown = capsys.readouterr().out
    assert re.search(r"=\d+[KM]\b", shown) and not re.search(r"=\d+ [KM]iB|=\d{5,}", shown)


def test_a_cheaper_alternative_names_only_what_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    record, _ = finished()
    assert record.result is not None and record.result.cheapest is not None
    default = {one.name: one.default for one in record.result.space.parameters}
    other = record.result.cheapest.model_copy(update={"configuration": {**default, "cb_nodes": 3}})
    print_result(record.result.model_copy(update={"cheapest": other}))
    (line,) = re.findall("cheaper for other users.*", " ".join(capsys.readouterr().out.split()))
    assert line.startswith("cheaper for other users, and within 5% of the best in the search: cb_nodes=3 Limits")
