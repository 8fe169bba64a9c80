"""What a launch with a plan costs: what is loaded before the program starts, and that a plan is checked once."""

import json
import logging
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue import meaning
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli import main, plan_run
from stripewise.desk.cli.plan_run import PlanRun, check_once, folder_name
from stripewise.engine.folders import command_digest
from stripewise.errors import UserError
from stripewise.runners.injection import Foreground, Guidance, Injection

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
        ("run --mode observe", True),
        ("run -q --mode=observe", True),
        ("run --mode observe --where", False),
        ("run --mode online", False),
        ("run --help", False),
        ("export ./my.plan", False),
        ("", False),
    ],
)
def test_all_but_a_plan_alone_and_observing_needs_the_whole_command_line(words: str, plain: bool) -> None:
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
    monkeypatch.setattr(plan_run.LoadingAhead, "_load", lambda _: None)
    for command, left in (("true", False), (f"echo > {tmp_path}/process-1-2", True)):
        ready = Foreground(("sh", "-c", command), Injection({}, {}, ()), (), True)
        with pytest.raises(ModuleNotFoundError) if left else nullcontext():
            assert plan_run.launch(ready, tmp_path / "report.json", None, quiet=False) == 0
            assert "there is no report" in capsys.readouterr().err


def test_a_program_that_ends_waits_for_one_piece_alone_of_what_was_loaded_meanwhile() -> None:
    begun, go_on, loaded = threading.Event(), threading.Event(), list[str]()

    def first() -> None:
        begun.set()
        go_on.wait(60)
        loaded.append("first")

    ahead = plan_run.LoadingAhead([first, lambda: loaded.append("second")])
    ahead.begin()
    assert begun.wait(60)
    ahead.end()
    go_on.set()
    ahead._thread.join(60)
    assert loaded == ["first"]


def test_a_python_ends_after_the_present_piece() -> None:
    """Ended amid an import of a library in C, it can abort: the program's exit code was lost."""
    program = (
        "import time; from stripewise.desk.cli import plan_run\n"
        "ahead = plan_run.LoadingAhead([lambda: (time.sleep(0.3), print('loaded')), lambda: print('more')])\n"
        "ahead.begin(); time.sleep(0.25); ahead.end()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "loaded\n"


def test_what_says_which_settings_acted_is_loaded_by_pieces() -> None:
    """Each in a new Python: all that the last step needs is there, and nothing is built again."""
    program = (
        "import sys; from stripewise.desk.cli import plan_run\n"
        "for piece in plan_run._reads_reports(['romio_cb_write']): piece()\n"
        "before = set(sys.modules)\n"
        "from stripewise.observe.activity import Activity; from stripewise.observe.report import Report\n"
        "import stripewise.observe.from_report, stripewise.engine.effects\n"
        "assert Activity.__pydantic_complete__ and Report.__pydantic_complete__\n"
        "print([name for name in set(sys.modules) - before if name.startswith(('stripewise', 'numpy', 'pydantic'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_merging_what_processes_left_loads_no_schemas() -> None:
    program = "import sys, stripewise.observe.places, stripewise.observe.processes; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_observing_takes_the_short_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = dict[str, Any]()

    def prepared(plan: Plan, command: list[str], folder: Path, *, guidance: Guidance) -> Foreground:
        asked.update(plan=plan, command=command, folder=folder, guidance=guidance)
        folder.mkdir(parents=True)
        return Foreground(("true",), Injection({}, {}, ()), (), True)

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr(plan_run, "prepare", prepared)
    assert main(["run", "--mode", "observe", "--", "true"]) == 0
    assert asked["guidance"].mode == "observe" and asked["guidance"].own_calls and not asked["plan"].settings
    said = capsys.readouterr().err
    assert f"stripewise: mode observe; the report will be {asked['folder']}/report.json" in said
    assert asked["folder"].name.startswith(f"observe-{command_digest(['true'], Path.cwd())}-")


def test_quiet_holds_for_what_is_said_of_a_first_build_too(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("stripewise")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(sys.modules["stripewise.desk.cli.main"], "_carry_out", lambda *_: 0)
    assert main(["run", "-q", "my.plan"]) == 0 and log.handlers == []
    assert main(["run", "my.plan"]) == 0 and log.handlers


def test_the_first_process_of_a_container_gives_the_exit_code_of_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own signals do not end it: a program that was killed had the exit code 247."""
    sent: list[int] = []
    monkeypatch.setattr(plan_run, "end_by_signal", sent.append)
    assert (plan_run.ended_as(-9), sent) == (137, [9])
