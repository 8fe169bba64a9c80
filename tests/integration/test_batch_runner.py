"""Runs as jobs, over a fake Slurm whose jobs really run: what goes wrong between tuner and job is accounted for."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Batch, Experiment
from stripewise.runners.batch.runner import BatchRunner
from stripewise.runners.batch.script import give_up_run
from stripewise.runners.local.scratch import Scratch
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.registry import make_runner
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.trial import Phase, State
from tests.conftest import require
from tests.fixtures import fake_slurm


class Slurm:
    """The fake scheduler and what tests do to it."""

    def __init__(self, folder: Path) -> None:
        self.bin = fake_slurm.install(folder)
        self.home = folder / "state"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "FAKE_SLURM": str(self.home)}

    def fault(self, name: str, text: str = "") -> None:
        (self.home / name).write_text(text)

    def fix(self, name: str) -> None:
        (self.home / name).unlink()
        (self.home / "unheard").unlink(missing_ok=True)

    def job(self, number: int) -> Path:
        return self.home / str(number)

    def state(self, number: int) -> str:
        return fake_slurm.read(self.job(number), "state")

    def end(self, number: int, state: str) -> None:
        fake_slurm.end(self.job(number), state)

    def unheard(self) -> bool:
        """Whether a command has found the scheduler down since it went down."""
        return (self.home / "unheard").exists()

    @property
    def count(self) -> int:
        return sum(entry.is_dir() for entry in self.home.iterdir())


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    fake = Slurm(tmp_path / "slurm")
    yield fake
    for entry in fake.home.iterdir():
        if entry.is_dir():
            fake_slurm.end(entry, "CANCELLED")


pytestmark = pytest.mark.slow


def runner_of(slurm: Slurm, tmp_path: Path, command: Any, grace: float = 0.5, **fields: Any) -> BatchRunner:
    batch = {"poll": 1, "patience": 20, **fields.pop("batch", {})}
    experiment = Experiment.model_validate({"command": command, "runner": "batch", "batch": batch, **fields})
    return BatchRunner(
        experiment, tmp_path / "runs", Surroundings(cwd=tmp_path, environment=slurm.environment), grace=grace
    )


def launch(number: int = 0, **fields: Any) -> Launch:
    return Launch("x", number, Configuration({}), Plan(identifier=f"x.{number}"), Phase.SEARCH, **fields)


def wait(runner: BatchRunner, seconds: float = 60.0) -> Outcome:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for outcome in runner.poll(0.2):
            return outcome
    raise AssertionError("no outcome")


def until(runner: BatchRunner, condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        assert runner.poll(0.1) == []


def nothing_ends(runner: BatchRunner, seconds: float) -> None:
    """Poll for so long, in which no run may end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert runner.poll(0.2) == []


def test_queue_time_is_apart_from_run_time_and_no_limit_counts_it(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("hold")
    with runner_of(slurm, tmp_path, ["sh", "-c", "sleep 0.3; echo done"]) as runner:
        runner.start(launch(timeout=4.0, bound=3.0))
        until(runner, lambda: slurm.count == 1)
        nothing_ends(runner, 5)
        slurm.fix("hold")
        outcome = wait(runner)
        assert outcome.state is State.FINISHED, outcome.reason
        assert 0.3 <= outcome.elapsed < 3
        assert outcome.facts["queue_seconds"] > 4.5
        assert runner.queued_seconds > 4.5
        assert outcome.folder is not None
        assert (outcome.folder / "stdout").read_text() == "done\n"
        assert outcome.elapsed <= outcome.facts.node_hours * 3600 < 4.5


def test_a_script_of_the_users_own_keeps_its_directives_and_gets_the_environment(slurm: Slurm, tmp_path: Path) -> None:
    script = tmp_path / "my.sbatch"
    script.write_text(
        "#!/bin/bash\n#SBATCH --account=abc\n#SBATCH -N 2\n#SBATCH --time=00:30:00\n#SBATCH --job-name=mine\n"
        '#SBATCH --export=NONE\necho "$CHOSEN $1 $STRIPEWISE_RUN"\n'
    )
    with runner_of(slurm, tmp_path, ["my.sbatch", "word"], env={"CHOSEN": "a b"}) as runner:
        preflight = runner.prepare()
        assert preflight.workload.nodes == 2
        assert (preflight.occupied(100), preflight.nodes) == (1800, 2)
        runner.start(launch(3))
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.folder is not None
    assert (outcome.folder / "stdout").read_text() == "a b word 3\n"
    submitted = (slurm.job(1) / "script").read_text().splitlines()
    directives = [line for line in submitted if line.startswith("#SBATCH")]
    assert "#SBATCH --account=abc" in directives
    assert directives[-1] == "#SBATCH --export=ALL"
    assert not any(word in line for line in directives for word in ("--ntasks", "--exclusive", "--nodes"))
    assert directives.count("#SBATCH --time=00:30:00") == 1
    assert sum("--time" in line for line in directives) == 1


def test_a_plain_command_gets_nodes_limit_and_further_directives(slurm: Slurm, tmp_path: Path) -> None:
    batch = {"nodes": 2, "processes_per_node": 4, "queue": "debug", "account": "p1", "directives": ["--constraint=x"]}
    with runner_of(slurm, tmp_path, ["true"], batch=batch) as runner:
        runner.start(launch(timeout=120.0))
        assert wait(runner).state is State.FINISHED
        text = (slurm.job(1) / "script").read_text()
    for line in ("--nodes=2", "--ntasks-per-node=4", "--partition=debug", "--account=p1", "--constraint=x"):
        assert f"#SBATCH {line}" in text
    assert "#SBATCH --exclusive" in text
    assert "#SBATCH --time=0:03:00" in text, "the run's limit of 120 s and a minute around it"


def test_setup_hooks_and_deletions_run_in_the_job(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "out.1").write_text("old")
    (tmp_path / "target").write_text("old")
    (tmp_path / "out.2").symlink_to("target")
    fields = {
        "setup": ["WORD=set", "export WORD"],
        "hooks": {"before": ["ls out.* > seen; echo $WORD >> seen"], "after": ["cat made"], "delete": ["out.*"]},
    }
    with runner_of(slurm, tmp_path, ["sh", "-c", "echo $WORD > made"], **fields) as runner:
        runner.start(launch())
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert (tmp_path / "made").read_text() == "set\n"
    assert (tmp_path / "seen").read_text() == "out.2\nset\n", "the link stays, what it pointed to is gone"
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"hooks": {"before": ["echo no luck >&2; false"]}}, "the before hook .* exit code 1: no luck"),
        ({"hooks": {"after": ["exit 3"]}}, "the after hook 'exit 3' ended with exit code 3"),
        ({"setup": ["[ ! -e broken ]"]}, "setup line 1 ended with exit code 1"),
    ],
)
def test_what_fails_around_the_program_is_named(
    slurm: Slurm, tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    with runner_of(slurm, tmp_path, ["true"], **fields) as runner:
        runner.prepare()
        (tmp_path / "broken").touch()
        runner.start(launch())
        outcome = wait(runner)
    assert outcome.state is State.FAILED
    assert re.search(reason, outcome.reason), outcome.reason


def test_a_program_that_fails_is_told_with_what_it_said(slurm: Slurm, tmp_path: Path) -> None:
    with runner_of(slurm, tmp_path, ["sh", "-c", "echo out of luck >&2; exit 7"]) as runner:
        runner.start(launch(timeout=30.0))
        outcome = wait(runner)
    assert (outcome.state, outcome.exit_code) == (State.FAILED, 7)
    assert "out of luck" in outcome.reason


def test_a_node_that_fails_costs_a_second_job_and_no_run(slurm: Slurm, tmp_path: Path) -> None:
    command = ["sh", "-c", "[ -e again ] && exit 0; touch again; sleep 60"]
    with runner_of(slurm, tmp_path, command) as runner:
        runner.start(launch())
        until(runner, (tmp_path / "again").exists)
        slurm.end(1, "NODE_FAIL")
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.facts["resubmissions"] == 1
    assert "a node of its job failed (job 1): submitted again" in outcome.facts.notes
    assert outcome.elapsed < 10
    assert slurm.count == 2


@pytest.mark.parametrize(
    "state, reason",
    [
        ("NODE_FAIL", "a node of its job failed"),
        ("TIMEOUT", "reached the walltime"),
        ("CANCELLED", "was cancelled in the scheduler"),
        ("OUT_OF_MEMORY", "out of memory"),
        ("COMPLETED", "ended without leaving a result"),
    ],
)
def test_a_job_without_a_record_fails_its_run_with_what_is_known(
    slurm: Slurm, tmp_path: Path, state: str, reason: str
) -> None:
    with runner_of(slurm, tmp_path, ["sleep", "60"], batch={"retries": 0}) as runner:
        runner.start(launch())
        until(runner, lambda: slurm.state(1) == "RUNNING" and (tmp_path / "runs/0/began").exists())
        slurm.end(1, state)
        outcome = wait(runner)
    assert outcome.state is State.FAILED
    assert reason in outcome.reason
    assert outcome.facts.node_hours > 0, "a job that brought nothing was charged all the same"


def test_a_job_that_the_scheduler_forgot_without_accounting_is_lost_and_submitted_again(
    slurm: Slurm, tmp_path: Path
) -> None:
    command = ["sh", "-c", "[ -e again ] && exit 0; touch again; sleep 60"]
    with runner_of(slurm, tmp_path, command) as runner:
        runner.start(launch())
        until(runner, (tmp_path / "again").exists)
        slurm.fault("forget")
        slurm.fault("no-accounting")
        slurm.end(1, "FAILED")
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert "no longer knows its job" in outcome.facts.notes[0]


def test_what_the_controller_forgot_the_accounting_may_know(slurm: Slurm, tmp_path: Path) -> None:
    with runner_of(slurm, tmp_path, ["sleep", "60"]) as runner:
        runner.start(launch())
        until(runner, lambda: slurm.state(1) == "RUNNING")
        slurm.fault("forget")
        slurm.end(1, "TIMEOUT")
        assert "reached the walltime" in wait(runner).reason


def test_a_job_that_ends_unseen_gives_its_result(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("forget")
    slurm.fault("no-accounting")
    with runner_of(slurm, tmp_path, ["true"]) as runner:
        runner.start(launch())
        assert wait(runner).state is State.FINISHED


def test_a_requeued_job_starts_anew_and_counts_once(slurm: Slurm, tmp_path: Path) -> None:
    command = ["sh", "-c", "[ -e again ] && exit 0; touch again; sleep 60"]
    with runner_of(slurm, tmp_path, command) as runner:
        runner.start(launch())
        until(runner, (tmp_path / "again").exists)
        slurm.end(1, "REQUEUED")
        (slurm.job(1) / "started").rmdir()
        fake_slurm.say(slurm.job(1), "restarts", "1")
        fake_slurm.say(slurm.job(1), "state", "PENDING")
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.facts["requeues"] == 1
    assert outcome.elapsed < 10
    assert slurm.count == 1


def test_a_scheduler_that_restarts_loses_nothing(slurm: Slurm, tmp_path: Path) -> None:
    with runner_of(slurm, tmp_path, ["sh", "-c", "until [ -e enough ]; do sleep 0.1; done; echo x"]) as runner:
        slurm.fault("down")
        runner.start(launch())
        until(runner, slurm.unheard)
        slurm.fix("down")
        until(runner, lambda: slurm.count == 1)
        slurm.fault("down")
        until(runner, slurm.unheard)
        slurm.fix("down")
        (tmp_path / "enough").touch()
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason


def test_the_record_is_believed_while_the_scheduler_is_away(slurm: Slurm, tmp_path: Path) -> None:
    with runner_of(slurm, tmp_path, ["true"]) as runner:
        runner.start(launch())
        runner.poll(0.0)
        deadline = time.monotonic() + 60
        while not any(slurm.home.glob("*/exit")):  # the queue asks for the job, which the stand-in starts then
            assert time.monotonic() < deadline
            time.sleep(0.05)
        slurm.fault("down")
        assert wait(runner).state is State.FINISHED
        slurm.fix("down")


@pytest.mark.parametrize(
    ("objective", "limit", "code"),
    [("regex:([0-9]+)", 4.0, "sleep 30"), ("elapsed", 60.0, "until [ -e enough ]; do sleep 0.1; done")],
)
def test_a_run_that_may_have_waited_for_the_scheduler_is_made_again(
    slurm: Slurm, tmp_path: Path, objective: str, limit: float, code: str
) -> None:
    command = ["sh", "-c", f"[ -e ran ] || {{ touch ran; {code}; }}; echo 1"]
    with runner_of(slurm, tmp_path, command, objective=objective) as runner:
        runner.start(launch(timeout=limit))
        until(runner, (tmp_path / "ran").exists)
        slurm.fault("down")
        until(runner, slurm.unheard)
        slurm.fix("down")
        (tmp_path / "enough").touch()
        outcome = wait(runner)
    assert outcome.facts["resubmissions"] == 1
    assert "the scheduler did not answer while it ran" in outcome.facts.notes[0]
    assert outcome.elapsed < 2, "of the second job"
    assert slurm.count == 2


@pytest.mark.parametrize("often", [1, 2])
def test_the_time_of_a_job_that_was_suspended_is_not_counted(slurm: Slurm, tmp_path: Path, often: int) -> None:
    command = [
        "sh",
        "-c",
        "touch ran.$STRIPEWISE_RUN.$SLURM_JOB_ID; until [ -e enough.$SLURM_JOB_ID ]; do sleep 0.1; done",
    ]
    (tmp_path / "enough.2").touch() if often == 1 else None
    with runner_of(slurm, tmp_path, command, batch={"poll": 1}) as runner:
        runner.start(launch())
        for job in range(1, often + 1):
            until(runner, (tmp_path / f"ran.0.{job}").exists)
            fake_slurm.say(slurm.job(job), "state", "SUSPENDED")
            nothing_ends(runner, 2.5)
            fake_slurm.say(slurm.job(job), "state", "RUNNING")
            (tmp_path / f"enough.{job}").touch()
        outcome = wait(runner)
    assert "the scheduler suspended its job, so its time says nothing (job 1): submitted again" in outcome.facts.notes
    assert slurm.count == 2
    if often == 1:
        assert outcome.state is State.FINISHED
        assert outcome.elapsed < 2, "of the second job"
    else:
        assert (outcome.state, outcome.reason) == (
            State.FAILED,
            "the scheduler suspended its job, so its time says nothing",
        )


@pytest.mark.parametrize(("mark", "word"), [("SuspendTime", "suspended"), ("PreemptTime", "preempted")])
def test_a_job_that_was_interrupted_between_two_looks_is_submitted_again(
    slurm: Slurm, tmp_path: Path, mark: str, word: str
) -> None:
    """A preempted program that ends well when it is asked to was taken for a fast one."""
    with runner_of(slurm, tmp_path, ["sh", "-c", "[ -e ran ] || { touch ran; sleep 1; }"]) as runner:
        runner.start(launch())
        until(runner, (tmp_path / "ran").exists)
        fake_slurm.say(slurm.job(1), mark, "2026-11-30T19:49:38")
        outcome = wait(runner)
    note = f"the scheduler {word} its job, so its time says nothing (job 1): submitted again"
    assert outcome.state is State.FINISHED and note in outcome.facts.notes
    assert slurm.count == 2


def test_a_job_that_is_through_is_not_taken_for_the_next_one(slurm: Slurm, tmp_path: Path) -> None:
    """The scheduler is away beyond the run's end, and then tells of it as if it still ran."""
    with runner_of(slurm, tmp_path, ["sh", "-c", "[ -e ran ] || { touch ran; sleep 3; }"]) as runner:
        runner.start(launch(timeout=20.0))
        until(runner, (tmp_path / "ran").exists)
        slurm.fault("down")
        slurm.fault("stale")
        nothing_ends(runner, 6)
        slurm.fix("down")
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert (outcome.facts["resubmissions"], slurm.count) == (1, 2)
    assert outcome.elapsed < 2


def test_a_scheduler_that_stays_away_is_named_in_the_end(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("down")
    runner = runner_of(slurm, tmp_path, ["true"], batch={"patience": 0.5})
    runner.start(launch())
    with pytest.raises(TransientError, match=r"Unable to contact slurm controller.*for 0.5 s"):
        for _ in range(20):
            runner.poll(1.0)
    slurm.fix("down")
    runner.close()


def test_an_unanswered_submission_is_not_made_twice(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("unanswered")
    with runner_of(slurm, tmp_path, ["sh", "-c", "echo once >> ran; sleep 6"]) as runner:
        runner.start(launch())
        outcome = wait(runner)
    assert outcome.state is State.FINISHED, outcome.reason
    assert (tmp_path / "ran").read_text() == "once\n"
    assert slurm.count == 1


def test_a_refused_job_ends_the_session_with_what_was_said(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("refuse", "Batch job submission failed: Invalid account or account/partition combination specified")
    runner = runner_of(slurm, tmp_path, ["true"])
    runner.start(launch())
    with pytest.raises(StripewiseError, match=r"refused the job: .*Invalid account"):
        runner.poll(1.0)
    slurm.fix("refuse")
    runner.close()


def test_the_job_of_a_killed_tuner_is_found_and_ended_before_its_run_starts_again(slurm: Slurm, tmp_path: Path) -> None:
    command = ["sh", "-c", "echo x >> begun; exec sleep 60"]
    killed = runner_of(slurm, tmp_path, command)
    killed.start(launch())
    until(killed, (tmp_path / "begun").exists)
    with runner_of(slurm, tmp_path, command) as runner:
        runner.prepare()
        again = launch(attempt=1, timeout=0.5)
        runner.reap(again)
        assert slurm.state(1) == "CANCELLED"
        runner.start(again)
        assert wait(runner).state is State.FAILED
    killed._under_way.clear()
    killed.close()


def test_a_job_submitted_just_before_the_kill_is_found_by_its_name(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("hold")
    killed = runner_of(slurm, tmp_path, ["true"])
    killed.start(launch())
    killed.poll(0.0)
    place = tmp_path / "runs" / "0"
    (place / "process.json").write_text("{}")
    with runner_of(slurm, tmp_path, ["true"]) as runner:
        runner.prepare()
        runner.reap(launch(attempt=1))
    assert slurm.state(1) == "CANCELLED"
    killed._under_way.clear()
    killed.close()


def test_a_job_that_nobody_can_see_does_not_begin_with_a_run_that_was_given_up(slurm: Slurm, tmp_path: Path) -> None:
    slurm.fault("hold")
    runner = runner_of(slurm, tmp_path, ["touch", "begun"])
    runner.start(launch())
    until(runner, lambda: slurm.count == 1)
    assert give_up_run(tmp_path / "runs" / "0") == ""
    slurm.fix("hold")
    fake = slurm.job(1)
    until(runner, lambda: fake_slurm.read(fake, "exit") == "0")
    assert not (tmp_path / "begun").exists()
    assert not (tmp_path / "runs" / "0" / "began").exists()
    runner._under_way.clear()
    runner.close()


def test_a_second_job_of_the_same_run_does_nothing(slurm: Slurm, tmp_path: Path) -> None:
    with runner_of(slurm, tmp_path, ["sh", "-c", "echo once >> ran"]) as runner:
        runner.start(launch())
        assert wait(runner).state is State.FINISHED
        (tmp_path / "runs" / "0" / "ended").unlink()
        done = subprocess.run(
            ["bash", str(tmp_path / "runs" / "0" / "job.sh")],
            env={**slurm.environment, "SLURM_JOB_ID": "99"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "another job has this run" in done.stderr
    assert (tmp_path / "ran").read_text() == "once\n"


@pytest.mark.parametrize("mark", ["", "SuspendTime"])
def test_the_result_of_a_job_that_outlived_its_tuner_is_taken_unless_it_was_interrupted(
    slurm: Slurm, tmp_path: Path, mark: str
) -> None:
    command = ["sh", "-c", "echo once >> ran"]
    killed = runner_of(slurm, tmp_path, command)
    killed.start(launch())
    killed.poll(0.0)
    deadline = time.monotonic() + 60
    while not (tmp_path / "runs" / "0" / "ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if mark:
        fake_slurm.say(slurm.job(1), mark, "2026-11-30T19:49:38")
    with runner_of(slurm, tmp_path, command) as runner:
        runner.prepare()
        again = launch(attempt=1)
        runner.reap(again)
        runner.start(again)
        outcome = wait(runner)
        assert outcome.state is State.FINISHED
        assert ("adopted" in outcome.facts) is not bool(mark)
        changed = replace(again, plan=Plan(identifier="another"))
        runner.start(replace(changed, attempt=2))
        assert "adopted" not in wait(runner).facts
    assert (tmp_path / "ran").read_text() == "once\n" * (3 if mark else 2)
    killed._under_way.clear()
    killed.close()


def test_reaping_waits_for_nothing_it_cannot_know(slurm: Slurm, tmp_path: Path) -> None:
    killed = runner_of(slurm, tmp_path, ["sleep", "60"])
    killed.start(launch())
    until(killed, lambda: slurm.state(1) == "RUNNING")
    killed._under_way.clear()
    killed.close()
    slurm.fault("down")
    with runner_of(slurm, tmp_path, ["sleep", "60"]) as runner:
        runner.prepare()
        with pytest.raises(StripewiseError, match="Unable to contact"):
            runner.reap(launch(attempt=1))
    slurm.fix("down")


def test_long_output_is_kept_at_both_ends(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripewise.runners.batch.runner.DEFAULT_LIMIT", 100)
    with runner_of(slurm, tmp_path, ["sh", "-c", "seq 1000; echo the end"]) as runner:
        runner.start(launch())
        outcome = wait(runner)
    assert outcome.folder is not None
    text = (outcome.folder / "stdout").read_text()
    assert text.startswith("1\n2\n")
    assert text.endswith("the end\n")
    assert "bytes of" in text


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder for runs that takes 256 KiB."""
    require(os.geteuid() == 0, "mounting a small file system needs root")
    (folder := tmp_path / "runs").mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "none", folder]
    require(subprocess.run(words, capture_output=True, check=False).returncode == 0, "mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_is_full_as_a_job_is_noted_ends_nothing(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Scratch.note

    def full(place: Scratch, process: Mapping[str, Any], pid: int | None = None) -> None:
        if process.get("job"):
            raise OSError(28, "No space left on device")
        note(place, process, pid)

    monkeypatch.setattr(Scratch, "note", full)
    with runner_of(slurm, tmp_path, ["echo", "rate: 1"], objective="regex:rate: (.)") as runner:
        runner.start(launch())
        assert wait(runner).state is State.FINISHED


def test_a_disk_that_is_full_for_a_while_counts_no_earlier_number(slurm: Slurm, tmp_path: Path, small: Path) -> None:
    fill = "[ -e ran ] || head -c 1M /dev/zero; touch ran; rm -f runs/full; echo rate: 9"
    command = ["bash", "-c", f"echo rate: 1; head -c 64k /dev/zero > runs/full; {fill}"]
    with runner_of(slurm, tmp_path, command, objective="regex:rate: (.)") as runner:
        runner.start(launch())
        with pytest.raises(StripewiseError, match="run 0: its output is not whole: its job could not write all"):
            wait(runner)
    (small / "0" / "stdout").write_bytes(b"")
    with runner_of(slurm, tmp_path, command, objective="regex:rate: (.)") as runner:
        runner.reap(launch(attempt=1))
        runner.start(launch(attempt=1))
        outcome = wait(runner)
    assert (outcome.state, "adopted" in outcome.facts) == (State.FINISHED, False)
    assert (small / "0.1" / "stdout").read_text() == "rate: 1\nrate: 9\n"


def test_a_disk_without_room_for_the_record_is_no_failure_of_settings(
    slurm: Slurm, tmp_path: Path, small: Path
) -> None:
    command = ["bash", "-c", "head -c 1M /dev/zero > runs/full; exit 0"]
    with runner_of(slurm, tmp_path, command, objective="regex:rate: (.)") as runner:
        runner.start(launch())
        with pytest.raises(StripewiseError, match=f"without leaving a result; the file system of {small}/0 is full"):
            wait(runner)


def test_variables_of_slurms_commands_hide_no_job(tmp_path: Path) -> None:
    """On a real Slurm, SCANCEL_STATE=PENDING left a job running, and SBATCH_JOB_NAME gave it another name."""
    told = {"SCANCEL_STATE": "PENDING", "SQUEUE_PARTITION": "b", "SBATCH_JOB_NAME": "x", "SBATCH_ACCOUNT": "a"}
    queue = JobQueue(Batch(), tmp_path, {**told, "PATH": os.environ["PATH"]})
    seen = dict(line.split("=", 1) for line in queue.call(["env"]).stdout.splitlines())
    assert seen.keys() & told.keys() == {"SBATCH_ACCOUNT"}


def test_there_must_be_a_scheduler(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": "/nowhere"}
    experiment = Experiment(command=["/bin/true"], runner="batch")
    with pytest.raises(UserError, match="no sbatch here"):
        BatchRunner(experiment, tmp_path, Surroundings(environment=environment)).prepare()
    assert isinstance(make_runner(experiment, tmp_path), BatchRunner)
    assert list(tmp_path.iterdir()) == []
