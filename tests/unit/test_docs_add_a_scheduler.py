"""The guide to a scheduler of one's own works as written: its code is run, held to the contract, registered, used."""

from __future__ import annotations

import re
import sys
import time
import tomllib
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stripewise import plugins
from stripewise.desk.server.resources.new_experiment import form
from stripewise.requests.experiment import parse_experiment
from stripewise.runners.schedulers import registry
from stripewise.runners.schedulers.job import JobPhase, JobRequest
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import make_scheduler, scheduler_names
from stripewise.testing.schedulers import SchedulerContract

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-scheduler.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)


def entry():
    points = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]
    assert list(points) == [registry.ENTRY_POINTS]
    ((name, target),) = points[registry.ENTRY_POINTS].items()
    return name, target


@pytest.fixture
def package(monkeypatch):
    """A module made of the guide's Python, under the name that the guide gives it, and registered."""
    name, target = entry()
    module = types.ModuleType(target.partition(":")[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks("python"):
        exec(compile(block, str(GUIDE), "exec"), module.__dict__)
    point = EntryPoint(name, target, registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == registry.ENTRY_POINTS else [])
    return module


def test_code_keeps_the_contract(package):
    suite = package.TestAbacus()
    assert isinstance(suite, SchedulerContract)
    tests = [name for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 10
    for name in tests:
        getattr(suite, name)()


def test_the_name_is_known_to_experiments_and_to_the_page(package):
    assert "abacus" in scheduler_names()
    (text,) = re.findall(r'```toml title="experiment.toml"\n(.*?)```', GUIDE.read_text("utf-8"), flags=re.DOTALL)
    experiment = parse_experiment(text, "the guide")
    assert type(make_scheduler(experiment.batch.scheduler)).__name__ == "Abacus"
    (choice,) = [one for one in form({})["batch"] if one.name == "batch.scheduler"]
    assert choice.choices == tuple(scheduler_names())


@pytest.mark.slow
def test_its_jobs_run(package, tmp_path):
    """Over commands of its own that start a job at once."""
    (tmp_path / "bin").mkdir()
    for program, text in {
        "absub": 'bash "$1" > /dev/null; echo queued as 7',
        "abstat": "[ -e {0}/ran ] && echo 7 done || echo 7 waits",
        "abdel": 'echo "no such job: $1" >&2; exit 1',
    }.items():
        (tmp_path / "bin" / program).write_text(f"#!/bin/bash\n{text.format(tmp_path)}\n")
        (tmp_path / "bin" / program).chmod(0o755)
    (tmp_path / "job.sh").write_text(f"touch {tmp_path}/ran\n")
    experiment = parse_experiment('[batch]\nscheduler = "abacus"\nnodes = 2\npoll = 1\n', "test")
    queue = JobQueue(experiment.batch, tmp_path / "scripts", {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    queue.check()
    try:
        ticket = queue.submit(JobRequest("stripewise-x.1", tmp_path / "job.sh", tmp_path, 60.0, queue.batch))
        assert ticket.identifier == "7"
        deadline = time.monotonic() + 60
        while queue.standing(ticket).phase is not JobPhase.OVER:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert (tmp_path / "ran").exists()
        queue.cancel(ticket)
        assert queue.gone(ticket) is True
    finally:
        queue.close()
