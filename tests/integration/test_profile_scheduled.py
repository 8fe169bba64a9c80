"""Campaigns whose runs are jobs of a scheduler, or steps of an allocation: over stand-ins for Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models.table import read_table
from stripewise.requests.campaign import parse_campaign
from tests.fixtures import fake_slurm

pytestmark = pytest.mark.slow

CAMPAIGN = """
name = "jobs"
runner = "RUNNER"
program = "command"
launcher = LAUNCHER
command = ["sh", "PROGRAM", "{nodes}", "{cb_nodes}", "{file}"]
objective = 'regex:value ([0-9.]+)'
direction = "maximize"
operations = ["write"]
repeats = 1
warmup = 0
timeout = 60.0
[files]
folder = "FOLDER"
[batch]
poll = 1
jobs = JOBS
[[workload]]
name = "nodes"
values = [1, 2]
[[workload]]
name = "file_size"
values = ["2 MiB"]
[[tunable]]
name = "cb_nodes"
values = [1, 2]
"""
PROGRAM = """
[ ! -e "$3" ] || { echo "$3 is another run's" >&2; exit 1; }
touch "$3"; echo "$3 $SLURM_JOB_ID" >> SEEN; echo "value $1$2"
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "data").mkdir()
    programs = fake_slurm.install(tmp_path / "slurm")
    (programs / "srun").write_text(
        '#!/bin/sh\necho "$*" >> "$SEEN"\nwhile case "$1" in -*) true;; *) false;; esac; do shift; done\nexec "$@"\n'
    )
    (programs / "srun").chmod(0o755)
    (tmp_path / "program").write_text(PROGRAM.replace("SEEN", str(tmp_path / "ran")))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path / "slurm" / "state"))
    monkeypatch.setenv("SEEN", str(tmp_path / "steps"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for job in (tmp_path / "slurm" / "state").iterdir():
        fake_slurm.end(job, "CANCELLED")


def campaign(folder: Path, runner: str, jobs: int, launcher: str) -> str:
    words = {"RUNNER": runner, "PROGRAM": str(folder / "program"), "FOLDER": str(folder / "data"), "JOBS": str(jobs)}
    text = CAMPAIGN.replace("LAUNCHER", launcher)
    for name, value in words.items():
        text = text.replace(name, value)
    (folder / "jobs.toml").write_text(text, "utf-8")
    return str(folder / "jobs.toml")


def profiled(folder: Path, file: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    words = [
        "site",
        "profile",
        file,
        "--journal",
        str(folder / "journal"),
        "--out",
        str(folder / "out"),
        "--yes",
        "--json",
    ]
    code = main(words)
    told = capsys.readouterr()
    assert code == 0, told.err
    document: dict[str, object] = json.loads(told.out)
    return document


def test_each_run_is_a_job_with_the_nodes_of_its_workload(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = campaign(written, "batch", 2, '["env", "RANKS={processes}"]')
    document = profiled(written, file, capsys)
    assert document["runs"] == {"planned": 4, "finished": 4, "failed": 0, "left": 0}
    assert sorted(read_table(written / "out").values) == [11.0, 12.0, 21.0, 22.0]
    scripts = [path.read_text() for path in sorted((written / "slurm" / "state").glob("*/script"))]
    assert len(scripts) == 4
    assert sorted(text.count("--nodes=2") for text in scripts) == [0, 0, 1, 1]
    # Runs side by side have files of their own, and leave none.
    names = [line.split()[0] for line in (written / "ran").read_text().splitlines()]
    assert len(set(names)) == 4
    assert not list((written / "data").iterdir())
    # What has a result is not made again.
    assert profiled(written, file, capsys)["runs"] == document["runs"]
    assert len((written / "ran").read_text().splitlines()) == 4


def test_steps_get_nodes_of_the_allocation_one_at_a_time(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol = written / "slurm" / "bin" / "scontrol"
    scontrol.write_text("#!/bin/sh\nprintf 'n1\\nn2\\nn3\\nn4\\n'\n")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-4]")
    file = campaign(written, "steps", 1, '["srun", "-N{nodes}", "-n{processes}"]')
    document = profiled(written, file, capsys)
    assert document["runs"] == {"planned": 4, "finished": 4, "failed": 0, "left": 0}
    assert sorted(read_table(written / "out").values) == [11.0, 12.0, 21.0, 22.0]
    steps = (written / "steps").read_text()
    assert steps.count("--nodelist=n1,n2 ") == 2 and steps.count("--nodelist=n1 ") == 2
    (name,) = {line.split()[0] for line in (written / "ran").read_text().splitlines()}
    assert name.startswith(f"{written}/data/stripewise-profile.dat."), "one after the other, runs share the file"


def test_outside_an_allocation_steps_say_so(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = campaign(written, "steps", 1, '["srun", "-N{nodes}", "-n{processes}"]')
    assert main(["site", "profile", file, "--journal", str(written / "journal"), "--yes"]) == 2
    assert "runner steps works inside a Slurm allocation" in capsys.readouterr().err


def test_the_nodes_of_a_run_are_its_workloads() -> None:
    text = CAMPAIGN.replace("LAUNCHER", "[]").replace("JOBS", "1\nnodes = 4").replace("RUNNER", "batch")
    with pytest.raises(UserError, match="nodes and processes_per_node of a run are those of its workload"):
        parse_campaign(text, "x")
