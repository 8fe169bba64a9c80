"""What a launch with a plan costs: what is loaded before the program starts, and that a plan is checked once."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from stripewise.catalogue import meaning
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli import plan_run
from stripewise.desk.cli.plan_run import PlanRun, check_once, folder_name
from stripewise.errors import UserError
from stripewise.runners.injection import Foreground, Injection

SLOW = {"numpy", "pydantic", "rich", "scipy", "sqlalchemy", "typer"}
MOST_MODULES = 240
FORBIDDEN = """
[[forbidden]]
condition = "romio_cb_write == 'disable' and romio_ds_write == 'disable'"
reason = "takes hours"
basis = "verified"
"""
LOADED = """
import json, os, sys
def start(*_): print(json.dumps(sorted(sys.modules)), flush=True); os._exit(0)
os.execvpe = start
from stripewise.desk.cli import main
main(["run", "my.plan", "--", "true"])
"""


def test_a_program_with_a_checked_plan_starts_before_anything_slow_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 2\nenv A b\n")
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    for checked in (False, True):
        words = [sys.executable, "-c", LOADED]
        made = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "cb_nodes=2" in made.stderr
        loaded = json.loads(made.stdout)
        assert bool(SLOW & set(loaded)) is not checked, "only the first launch of a plan checks it"
    assert len(loaded) < MOST_MODULES


def test_a_plan_is_checked_again_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    misspelt = Plan.parse("stripewise-plan 1\nhint cb_node 2\n", "my.plan")
    found = check_once(misspelt, "my.plan", tmp_path)
    assert "cb_node is not a known hint" in found[0]
    with monkeypatch.context() as again:
        again.setattr(meaning, "check_plan", lambda *_: pytest.fail("it was checked before"))
        assert check_once(misspelt, "my.plan", tmp_path) == found
    wrong = Plan.parse("stripewise-plan 1\nhint cb_nodes many\n", "my.plan")
    for _ in range(2):
        with pytest.raises(UserError, match="cb_nodes"):
            check_once(wrong, "my.plan", tmp_path)
    (tmp_path / "site.toml").write_text(FORBIDDEN)
    fine = Plan.parse("stripewise-plan 1\nhint romio_cb_write disable\nhint romio_ds_write disable\n", "my.plan")
    assert check_once(fine, "my.plan", tmp_path) == []
    monkeypatch.setenv("STRIPEWISE_SITE", str(tmp_path / "site.toml"))
    with pytest.raises(UserError, match="takes hours"):
        check_once(fine, "my.plan", tmp_path)
    monkeypatch.delenv("STRIPEWISE_SITE")
    (tmp_path / "checked.json").write_text("[]")
    assert check_once(misspelt, "my.plan", tmp_path / "nowhere" / "to keep it") == found


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("run ./my.plan", True),
        ("run -q ./my.plan", True),
        ("run ./my.plan --quiet", True),
        ("run 0123abcd", False),
        ("run ./my.plan --json", False),
        ("run ./my.plan --mode online", False),
        ("run --help", False),
        ("export ./my.plan", False),
        ("", False),
    ],
)
def test_all_but_a_plan_alone_needs_the_whole_command_line(words: str, plain: bool) -> None:
    read = PlanRun.read(words.split(), ["true"])
    assert (read is not None) is plain
    assert read is None or read.quiet is ("q" in words)
    assert PlanRun.read(words.split(), []) is None


@pytest.mark.parametrize("name", ["..", ".", "../x", "/etc", "...", "a" * 4000, "é" * 90, "\udcff", ".hidden", "a b"])
def test_an_identifier_names_a_folder_among_those_of_plans(name: str, tmp_path: Path) -> None:
    found = folder_name(Plan(identifier=name), "my.plan")
    assert (tmp_path / found).resolve().parent == tmp_path
    (tmp_path / f"{found}-123").mkdir()
    assert not found.startswith(".")


def test_long_identifiers_that_begin_alike_have_folders_of_their_own() -> None:
    first, second = (folder_name(Plan(identifier="a" * 400 + end), "my.plan") for end in "xy")
    assert first != second
    assert folder_name(Plan(identifier="aeff6f74"), "x") == "aeff6f74"
    assert folder_name(Plan(), "folder/my.plan") == "my.plan"


def test_a_program_that_leaves_nothing_to_read_does_not_wait_for_what_would_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "stripewise.observe.processes", None)  # loading it fails
    monkeypatch.setattr(plan_run, "_load_what_reads_reports", lambda *_: None)
    for command, left in (("true", False), (f"echo > {tmp_path}/process-1-2", True)):
        ready = Foreground(("sh", "-c", command), Injection({}, {}, ()), (), True)
        with pytest.raises(ModuleNotFoundError) if left else nullcontext():
            assert plan_run.launch(ready, tmp_path / "report.json", None, quiet=False) == 0
            assert "there is no report" in capsys.readouterr().err
