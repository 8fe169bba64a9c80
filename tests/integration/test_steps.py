"""Steps in an allocation: which nodes a run gets, and what happens when nodes or the tuner go; Slurm is a stand-in."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError, UserError
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Batch, Experiment
from stripewise.runners.batch.steps import StepsRunner
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.trial import Phase, State


class Slurm(JobQueue):
    """Answers what the runner asks of an allocation."""

    def __init__(self) -> None:
        super().__init__(Batch(), Path("/nowhere"), {})
        self.nodes = ["n1", "n2", "n3", "n4", "n5"]
        self.steps: list[str] = []
        self.calls: list[list[str]] = []
        self.over = False
        self.down = False
        self.suspended = "None"

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.calls.append(list(words))
        if self.down:
            return subprocess.CompletedProcess(words, 1, "", "Unable to contact slurm controller")
        told = ""
        if words[:4] == ["scontrol", "--oneliner", "show", "job"]:
            told = f"JobId=7 JobState=RUNNING SuspendTime={self.suspended} SecsPreSuspend=0"
        elif words[0] == "scontrol":
            told = "\n".join(words[-1].split(","))
        elif words[0] == "scancel":
            self.steps = []
        elif "--steps" in words:
            told = "\n".join(f"7.{at}|RUNNING||{name}" for at, name in enumerate(self.steps))
        elif "--format=%N" in words:
            told = ",".join(self.nodes)
        else:
            told = "" if self.over else "7|RUNNING|None|x"
        return subprocess.CompletedProcess(words, 0, told + "\n", "")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(
        '#!/bin/sh\necho "$@" >> "$SEEN"\nwhile case "$1" in -*) true;; *) false;; esac; do shift; done\nexec "$@"\n'
    )
    srun.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SEEN": str(tmp_path / "seen"),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n1,n2,n3,n4,n5",
    }


def runner_of(tmp_path: Path, environment: dict[str, str], slurm: Slurm, *command: str, **batch: Any) -> StepsRunner:
    experiment = Experiment.model_validate(
        {"command": list(command or ("srun", "true")), "runner": "steps", "batch": {"nodes": 2, **batch}}
    )
    return StepsRunner(experiment, tmp_path / "runs", Surroundings(cwd=tmp_path, environment=environment), queue=slurm)


def launch(number: int, pair: int | None = None, attempt: int = 0) -> Launch:
    phase = Phase.SEARCH if pair is None else Phase.CONFIRMATION
    return Launch("x", number, Configuration({}), Plan(), phase, timeout=20.0, pair=pair, attempt=attempt)


def collect(runner: StepsRunner, count: int) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline
        found |= {outcome.number: outcome for outcome in runner.poll(1.0)}
    return found


def test_runs_side_by_side_have_nodes_of_their_own(tmp_path: Path, environment: dict[str, str]) -> None:
    slurm = Slurm()
    with runner_of(tmp_path, environment, slurm) as runner:
        preflight = runner.prepare()
        assert runner.capacity == 2, "five nodes hold two runs of two"
        assert preflight.workload.nodes == 2
        assert (preflight.occupied(60), preflight.nodes) == (60, 2)
        runner.start(launch(0))
        runner.start(launch(1))
        with pytest.raises(StripewiseError, match="no nodes are free"):
            runner.start(launch(2))
        ended = collect(runner, 2)
    assert [ended[n].facts.node_list for n in (0, 1)] == ["n1,n2", "n3,n4"]
    assert all(outcome.facts.nodes == 2 for outcome in ended.values())
    seen = (tmp_path / "seen").read_text()
    assert "--nodes=2 --nodelist=n1,n2 --job-name=stripewise-x.0.0." in seen


def test_both_of_a_pair_get_the_same_nodes(tmp_path: Path, environment: dict[str, str]) -> None:
    with runner_of(tmp_path, environment, Slurm()) as runner:
        runner.prepare()
        nodes = []
        for number, pair in enumerate((0, 0, 1, 1, 2)):
            runner.start(launch(number, pair))
            nodes.append(collect(runner, 1)[number].facts.node_list)
    assert nodes == ["n1,n2", "n1,n2", "n3,n4", "n3,n4", "n1,n2"]


def test_a_run_whose_node_left_is_started_again_on_others(tmp_path: Path, environment: dict[str, str]) -> None:
    slurm = Slurm()
    command = ("srun", "sh", "-c", "[ -e again ] && exit 0; touch again; exit 1")
    with runner_of(tmp_path, environment, slurm, *command) as runner:
        runner.prepare()
        slurm.nodes.remove("n2")
        runner.start(launch(0))
        outcome = collect(runner, 1)[0]
        assert runner.capacity == 1
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.facts.node_list == "n3,n4"
    assert outcome.facts["resubmissions"] == 1
    assert outcome.facts.notes == ["node n2 went down: the run was started again on others"]


@pytest.mark.parametrize("retries", [2, 0])
def test_the_time_of_a_run_whose_allocation_was_suspended_is_not_counted(
    tmp_path: Path, environment: dict[str, str], retries: int
) -> None:
    slurm = Slurm()
    with runner_of(tmp_path, environment, slurm, "srun", "sh", "-c", "echo >> ran", retries=retries) as runner:
        runner.prepare()
        for number in range(2):
            runner.start(launch(number))
            if number == 0:
                slurm.suspended = "2026-11-30T20:05:00"
            outcome = collect(runner, 1)[number]
            assert (outcome.state is State.FAILED) == (number == 0 and retries == 0), outcome.reason
            if number == 0 and retries:
                assert outcome.facts.notes[0] == "the scheduler suspended the allocation: the run was started again"
    assert (tmp_path / "ran").read_text() == "\n" * (3 if retries else 2)


def test_a_program_that_fails_is_not_blamed_on_its_nodes(tmp_path: Path, environment: dict[str, str]) -> None:
    slurm = Slurm()
    with runner_of(tmp_path, environment, slurm, "srun", "false") as runner:
        runner.prepare()
        slurm.steps = [f"stripewise-{_marker(runner, launch(0))}"]
        runner.start(launch(0))
        outcome = collect(runner, 1)[0]
    assert outcome.state is State.FAILED
    assert "resubmissions" not in outcome.facts
    assert ["scancel", "--quiet", "7.0"] in slurm.calls, "a step that a failed launcher left is ended"


def test_without_nodes_the_session_ends_and_can_be_resumed(tmp_path: Path, environment: dict[str, str]) -> None:
    slurm = Slurm()
    with runner_of(tmp_path, environment, slurm, "srun", "false", nodes=5) as runner:
        runner.prepare()
        slurm.nodes = ["n1"]
        runner.start(launch(0))
        with pytest.raises(StripewiseError, match="all nodes of the allocation are down"):
            collect(runner, 1)


def test_reaping_ends_steps_by_their_names_and_trusts_an_allocation_that_is_over(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    slurm = Slurm()
    with runner_of(tmp_path, environment, slurm) as runner:
        runner.start(launch(0))
        collect(runner, 1)
        slurm.steps = [f"stripewise-{_marker(runner, launch(0))}", "another"]
        runner.reap(launch(0, attempt=1))
        assert ["scancel", "--quiet", "7.0"] in slurm.calls
        slurm.over = True
        record = tmp_path / "runs" / "0" / "process.json"
        record.write_text(record.read_text().replace('"host": "', '"host": "another-'))
        runner.reap(launch(0, attempt=1))
        slurm.over = False
        with pytest.raises(StripewiseError, match="was started on host another-"):
            runner.reap(launch(0, attempt=1))
        slurm.down = True
        with pytest.raises(StripewiseError, match="Unable to contact"):
            runner.reap(launch(0, attempt=1))


@pytest.mark.parametrize(
    "changes, command, batch, said",
    [
        ({"SLURM_JOB_ID": ""}, ("srun", "true"), {}, "this process is not in one"),
        ({}, ("true",), {}, "the command has neither"),
        ({}, ("srun", "true"), {"nodes": 6}, "a run takes 6 nodes, and the allocation has 5"),
    ],
)
def test_what_cannot_run_in_the_allocation_is_refused(
    tmp_path: Path,
    environment: dict[str, str],
    changes: dict[str, str],
    command: tuple[str, ...],
    batch: Any,
    said: str,
) -> None:
    runner = runner_of(tmp_path, {**environment, **changes}, Slurm(), *command, **batch)
    with runner, pytest.raises(UserError, match=said):
        runner.prepare()


def _marker(runner: StepsRunner, planned: Launch) -> str:
    from stripewise.runners.local.scratch import run_id

    return run_id(runner.folder, planned)
