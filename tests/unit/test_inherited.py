"""Programs, hooks, setup lines, jobs and helpers inherit nothing that is secret and Stripewise's own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stripewise
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.interpreter import ask, for_others, inherit_environment
from stripewise.launch import Launch
from stripewise.requests.experiment import Batch, Experiment
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.trial import Phase

SECRETS = {
    "STRIPEWISE_TOKEN": "hush-hush",
    "STRIPEWISE_TOKEN_FILE": "/hush-hush/token",
    "STRIPEWISE_STORE": "postgresql://ada:hush-hush@host/db",
}
OF_SERVICE = {
    "PGPASSWORD": "hush-hush",
    "PGPASSFILE": "/hush-hush",
    "PGSERVICEFILE": "/hush-hush",
    "NOTIFY_SOCKET": "/hush-hush",
}
OWN = {"PGI": "/opt/pgi", "STRIPEWISE_HOME": "/home/x", "STRIPEWISE_MODE": "observe", "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("store", "kept"),
    [
        ("sqlite:///runs.db", True),
        ("postgresql://ada@host/db", True),
        ("postgresql://ada:x@host/db", False),
        ("postgresql:///db?host=h&password=x", False),
        ("postgresql://[broken", False),
    ],
)
def test_a_store_is_inherited_unless_it_has_a_password(store: str, kept: bool) -> None:
    """A program on the user's own command line may call stripewise itself."""
    assert ("STRIPEWISE_STORE" in inherit_environment({"STRIPEWISE_STORE": store})) == kept
    with for_others():
        assert inherit_environment({"STRIPEWISE_STORE": store}) == {}


def test_a_service_also_keeps_what_it_reaches_its_database_with() -> None:
    given = {**SECRETS, **OF_SERVICE, **OWN}
    assert inherit_environment(given) == {**OF_SERVICE, **OWN}, "they are the user's own"
    assert inherit_environment(given, service=True) == OWN
    with for_others():
        assert inherit_environment(given) == OWN


def test_programs_hooks_and_setup_lines_get_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers of a service see what a program prints."""
    for name, value in {**SECRETS, **OF_SERVICE}.items():
        monkeypatch.setenv(name, value)
    experiment = Experiment.model_validate(
        {
            "command": ["env"],
            "setup": [f"env > {tmp_path}/setup"],
            "hooks": {"before": [f"env > {tmp_path}/before"], "after": [f"env > {tmp_path}/after"]},
            "env": {"MINE": "1"},
        }
    )
    with for_others():
        runner = LocalRunner(experiment, tmp_path / "runs", Surroundings("none", tmp_path))
        try:
            runner.start(Launch("test", 0, Configuration({}), Plan(), Phase.SEARCH, timeout=60.0))
            (outcome,) = runner.poll(60.0)
        finally:
            runner.close()
    assert outcome.folder is not None
    for printed in (outcome.folder / "stdout", *(tmp_path / name for name in ("setup", "before", "after"))):
        said = printed.read_text()
        assert "STRIPEWISE_RUN" in said or printed.name == "setup"
        assert "PATH=" in said and "hush-hush" not in said, printed


def test_jobs_and_questions_get_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sbatch hands its own environment to the job."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    queue = JobQueue(Batch(scheduler="slurm"), tmp_path, os.environ)
    for said in (ask(["env"], 10).stdout, queue.call(["env"]).stdout):
        assert "PATH=" in said and "hush-hush" not in said


def test_run_hands_on_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    command = [str(Path(sys.executable).with_name("stripewise")), "run", "-q", "my.plan", "--", "env"]
    environment = {**os.environ, **SECRETS, "STRIPEWISE_HOME": str(tmp_path)}
    found = subprocess.run(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
    assert "PATH=" in found.stdout and "hush-hush" not in found.stdout


def test_whatever_is_started_says_what_it_inherits() -> None:
    """The demo and a service start Stripewise itself; what is for tests starts what it likes."""
    root = Path(stripewise.__file__).parent
    bare = []
    for path in root.rglob("*.py"):
        if path.is_relative_to(root / "testing") or path == root / "desk" / "cli" / "demo.py":
            continue
        text = path.read_text("utf-8")
        if not any(word in text for word in ("subprocess", "os.exec", "os.system")):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = ast.unparse(node.func)
            starts = called in ("subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.call")
            said = any(keyword.arg == "env" for keyword in node.keywords)
            if (starts and not said) or called in ("os.execv", "os.execvp", "os.execl", "os.execlp", "os.system"):
                bare.append(f"{path.relative_to(root)}:{node.lineno}: {called}")
    assert not bare
