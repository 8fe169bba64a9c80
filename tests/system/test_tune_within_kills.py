"""Kill -9 of the tuner and of the program in the middle of trials within one launch."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stripewise.facts import Facts
from stripewise.observe.journal import parse_journal
from stripewise.store.opening import open_store
from tests.conftest import require
from tests.integration.building import ROOT
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench
from tests.integration.test_tune_within import answers, experiment


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = Path(sys.prefix) / "bin"
    require((folder / "mpicc").exists(), f"no MPICH in {folder}: pip install 'stripewise[mpich]'")
    return Bench(Mpi("mpich", folder / "mpicc", (str(folder / "mpiexec"),)), tmp_path_factory)


SESSION = """
import sys
from pathlib import Path
from stripewise.errors import Stopped
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.within.runner import WithinRunner
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.store.opening import open_store
from stripewise.engine.session import Session
store, identifier, folder, library = sys.argv[1:]
with open_store(store) as opened:
    runner = WithinRunner(opened.record(identifier).experiment, Path(folder), Surroundings(library))
    try:
        print(Session(opened, identifier, runner, "killed").run().verdict)
    except Stopped as stopped:
        print(stopped)
"""


def test_killed_tuners_and_programs_lose_nothing(bench: Bench, tmp_path: Path) -> None:
    wanted = experiment(bench, tmp_path, 300, 40)
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url) as store:
        identifier = store.create(wanted, Facts(folder=str(tmp_path)))
    words = [sys.executable, "-c", SESSION, url, identifier, str(tmp_path / "runs"), str(bench.library)]
    said = tmp_path / "said"
    with said.open("w") as out:
        tuner = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=out)
    _wait(lambda: sum(phase.order > 0 for phase in answers(tmp_path / "runs")) >= 3 or tuner.poll() is not None)
    assert tuner.poll() is None, said.read_text()
    tuner.send_signal(signal.SIGKILL)
    tuner.wait()
    seen = len(answers(tmp_path / "runs"))
    _wait(lambda: len(answers(tmp_path / "runs")) > seen + 2)  # the program goes on
    joined = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL)
    with open_store(url) as store:
        _wait(lambda: _ended(store, identifier) >= 6 or joined.poll() is not None)
    job = json.loads((tmp_path / "runs" / "launch-0" / "job.json").read_text())
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job["pid"], signal.SIGKILL)
    joined.wait(60)
    for _ in range(4):
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
        if "Proven" in done.stdout:
            break
    assert "Proven within one launch" in done.stdout, done.stdout + done.stderr
    with open_store(url) as store:
        record = store.record(identifier)
        runs = [run for trial in store.trials(identifier) for run in trial.runs]
    assert record.state == "finished" and all(run.state.ended for run in runs)
    for folder in (tmp_path / "runs").glob("launch-*"):
        orders = [phase.order for phase in parse_journal((folder / "answers").read_text()).phases if phase.order]
        assert len(orders) == len(set(orders))
    # Each phase counts once: no two runs have the same start.
    starts = [(run.started, run.elapsed) for run in runs]
    assert len(starts) == len(set(starts))


def _ended(store: Any, identifier: str) -> int:
    return sum(run.state.ended for trial in store.trials(identifier) for run in trial.runs)


def _wait(holds: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
