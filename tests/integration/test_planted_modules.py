"""Modules in the working folder are never run: every child that is a Python process is started among planted ones."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import stripewise
from stripewise.desk.server.app import Workers
from stripewise.interpreter import PROBING, python
from stripewise.observe.darshan_logs import read_log
from stripewise.observe.objectives.darshan import log_bandwidth
from stripewise.runners.local.supervision import OrphanGuard
from stripewise.runners.program import mpi
from tests.unit.reports import example_log

SOURCE = Path(stripewise.__file__).parent
COMMAND = str(Path(sys.executable).parent / "stripewise")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A working folder with a module of every name that can be imported here; each says that it was run."""
    folder, mark = tmp_path / "work", tmp_path / "executed"
    folder.mkdir()
    code = f"with open({str(mark)!r}, 'a') as mark:\n    mark.write(__name__ + '\\n')\nraise SystemExit(3)\n"
    for name in {*sys.stdlib_module_names, *packages_distributions(), "stripewise", "sitecustomize", "usercustomize"}:
        with contextlib.suppress(OSError):
            (folder / f"{name}.py").write_text(code)
    assert {"darshan.py", "numpy.py", "json.py", "stripewise.py"} <= {path.name for path in folder.iterdir()}
    monkeypatch.chdir(folder)
    yield folder
    assert not mark.exists(), mark.read_text()


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_attack_itself_works(planted, tmp_path):
    done = subprocess.run([sys.executable, "-c", "import darshan"], check=False)
    assert done.returncode == 3
    (tmp_path / "executed").unlink()


def test_diagnose_beside_a_log(planted):
    log = planted / "job.darshan"
    log.write_bytes(example_log().read_bytes())
    assert '"findings"' in run(COMMAND, "diagnose", "--json", log.name)


def test_readers_of_darshan_logs(planted):
    assert log_bandwidth(example_log()) > 0
    assert read_log(example_log()).files


def test_workers_of_a_service(planted, tmp_path):
    store = tmp_path / "store.db"
    with Workers(1, f"sqlite:///{store}", tmp_path):
        until = time.monotonic() + 60
        while not store.exists() and not (tmp_path / "executed").exists() and time.monotonic() < until:
            time.sleep(0.05)
    assert store.exists()


def test_the_guard_of_a_runner(planted):
    guard = OrphanGuard()
    guard.start()
    guard.began("planted", os.getpid() + 1)
    guard.over("planted")
    guard.close()


def test_the_search_for_an_mpi_library(planted, tmp_path):
    mpi._ask(tmp_path / "libmpi.so", ())
    mpi._of_mpi4py(sys.executable, dict(os.environ), planted, PROBING)


def test_commands_started_as_modules(planted):
    assert run(*python("-m", "stripewise", "--version")).startswith("stripewise")
    assert run(*python("-c", "import json, stripewise")) == ""
    assert run(*python("-c", "import json", alone=True)) == ""


def test_one_place_starts_python():
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"[\[(,*]\s*sys\.executable\s*,", path.read_text("utf-8"))
    }
    assert found <= {"interpreter.py"}
