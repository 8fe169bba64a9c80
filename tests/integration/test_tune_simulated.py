"""``stripewise tune --runner sim:...`` from the command line to the report: quick, repeatable, and called simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stripewise.desk.cli.main import main

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "simulated-kay.toml"


def tune(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, store: str = "a.db") -> dict[str, Any]:
    """One session with random search, which asks quickly; its result."""
    where = ["--store", f"sqlite:///{folder / store}", "--sampler", "random", "--budget", "20", "--json"]
    assert main(["tune", str(EXAMPLE), *where, *words]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def shown(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--store", f"sqlite:///{folder / 'a.db'}"]) == 0
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.mark.slow
def test_everything_says_that_it_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tune(tmp_path, capsys, "--report", str(tmp_path / "page.html"))
    identifier = result["experiment"]
    assert result["simulated"] is True
    assert result["confirmed"] is True
    assert "simulated" in result["validity"]["warning"]
    assert any("simulated" in missed for missed in result["confirmation"]["limits"])
    assert "ROMIO (simulated)" in json.dumps(result["environment"])
    assert result["default"]["configuration"]["stripe_size"] == 1 << 20, "the site's, not the stack file's"
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "these runs were computed, not measured" in page
    assert "The top layer of each bar is the bound that acted" in page
    assert "(simulated)" in shown(tmp_path, capsys, "list")
    assert "(simulated)" in shown(tmp_path, capsys, "show", identifier)
    assert "simulated runs, not from measurements" in shown(tmp_path, capsys, "export", identifier, "--to", "hints")


@pytest.mark.slow
def test_the_same_seed_has_the_same_history_and_another_has_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again, other = (
        tune(tmp_path, capsys, "--seed", seed, store=store)
        for seed, store in (("1", "a.db"), ("1", "b.db"), ("2", "c.db"))
    )
    for key in ("default", "best", "speedup", "seconds", "node_hours"):
        assert first[key] == again[key]
    assert other["default"] != first["default"]


@pytest.mark.parametrize(("budget", "small"), [("12", True), ("13", False)])
def test_a_budget_too_small_for_a_proof_is_told_before_it_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, small: bool
) -> None:
    told = "note: a proof needs at least 13 launches; these 12 only search"
    assert main(["tune", str(EXAMPLE), "--dry-run", "--budget", budget]) == 0
    assert (told in " ".join(capsys.readouterr().out.split())) is small
    assert main(["tune", str(EXAMPLE), "--budget", budget, "--store", str(tmp_path / "store.db")]) == 0
    assert (told in " ".join(capsys.readouterr().err.split())) is small


def test_an_experiment_with_a_command_is_simulated_from_its_workload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "real.toml"
    text = EXAMPLE.read_text("utf-8").replace('runner = "sim:kay"', 'command = "mpiexec -n 128 ./not_there"')
    path.write_text(text)
    words = ["tune", str(path), "--runner", "sim:kay@noise.enabled=false", "--dry-run", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulated"] is True
    assert "simulated kay" in json.dumps(document)
    assert main(["tune", str(EXAMPLE), "--", "mpiexec", "app"]) == 2
    assert "launches no command" in capsys.readouterr().err
