"""Each scheduler keeps the contract, over samples of what its commands print; and what only one of them does."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stripewise import plugins
from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers import registry
from stripewise.runners.schedulers.base import Scheduler
from stripewise.runners.schedulers.flux import Flux
from stripewise.runners.schedulers.job import UNKNOWN, JobPhase, JobRequest, Standing
from stripewise.runners.schedulers.lsf import Lsf
from stripewise.runners.schedulers.pbs import ClassicPbs, Pbs
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import all_schedulers, arrays_of, scheduler_names, steps_of
from stripewise.runners.schedulers.slurm import Slurm
from stripewise.testing.schedulers import SchedulerContract

QUEUED, ACTIVE, DONE = Standing(JobPhase.QUEUED), Standing(JobPhase.ACTIVE), Standing(JobPhase.OVER)


class TestSlurm(SchedulerContract):
    submitted = ("sbatch: note of the site\nSubmitted batch job 12 on cluster c1\n", "12")
    listed = (
        "12|PENDING|(ReqNodeNotAvail, UnavailableNodes:n[1-4])|a\nThis cluster is down on Monday | please note\n"
        "13|RUNNING|None|b c\n14_3|SOME_NEW_STATE|x|d\n15|COMPLETED|None|e\n16|NODE_FAIL|None|f\n"
        "17|FAILED|NonZeroExitCode|g\n"
        "18|CANCELLED by 1000|None|h\n"
    )
    standings: ClassVar = {
        "12": QUEUED,
        "13": ACTIVE,
        "14_3": ACTIVE,
        "15": DONE,
        "16": Standing(JobPhase.OVER, "a node of its job failed", True),
        "17": Standing(JobPhase.OVER, "its job failed"),
        "18": Standing(JobPhase.OVER, "its job was cancelled in the scheduler"),
    }
    named = ("12|PENDING|None|stripewise-x.1\n11|COMPLETED|None|stripewise-x.1\n", ["12"])
    gone = "scancel: error: Invalid job id 12"
    times: ClassVar = {
        "10": 600,
        "10:30": 630,
        "1:00:00": 3600,
        "1-2": 93600,
        "1-02:30:10": 95410,
        "infinite": None,
        "1:2:3:4": None,
    }

    def make(self) -> Slurm:
        return Slurm()


class TestPbs(SchedulerContract):
    submitted = ("note of the site\n12.server.domain\n", "12.server.domain")
    listed = json.dumps(
        {
            "Jobs": {
                "12.server": {"job_state": "Q"},
                "13.server": {"job_state": "R"},
                "14.server": {"job_state": "M"},
                "15.server": {"job_state": "F", "Exit_status": 0},
                "16.server": {"job_state": "F", "Exit_status": 271},
                "17.server": {"job_state": "F", "Exit_status": -3},
                "18.server": {"job_state": "F", "Exit_status": 2, "comment": "Job run at Monday and failed"},
            }
        }
    )
    standings: ClassVar = {
        "12.server": QUEUED,
        "13.server": ACTIVE,
        "14.server": ACTIVE,
        "15.server": DONE,
        "16.server": Standing(JobPhase.OVER, "its job was ended by signal 15"),
        "17.server": Standing(JobPhase.OVER, "PBS could not run its job (exit status -3)", True),
        "18.server": Standing(JobPhase.OVER, "Job run at Monday and failed"),
    }
    named = ("12.server\n13.server\n", ["12.server", "13.server"])
    gone = "qdel: Unknown Job Id 12.server"
    times: ClassVar = {"90": 90, "01:30:00": 5400, "2:30": 150}

    def make(self) -> Pbs:
        return Pbs()


class TestClassicPbs(TestPbs):
    def make(self) -> ClassicPbs:
        return ClassicPbs()


class TestLsf(SchedulerContract):
    submitted = ("Job <12> is submitted to default queue <normal>.\n", "12")
    listed = json.dumps(
        {
            "RECORDS": [
                {"JOBID": "12", "STAT": "PEND", "EXIT_REASON": "", "KILL_REASON": ""},
                {"JOBID": "13", "STAT": "RUN", "EXIT_REASON": "", "KILL_REASON": ""},
                {"JOBID": "14", "STAT": "UNKWN", "EXIT_REASON": "", "KILL_REASON": ""},
                {"JOBID": "15", "STAT": "DONE", "EXIT_REASON": "", "KILL_REASON": ""},
                {"JOBID": "16", "STAT": "EXIT", "EXIT_REASON": "TERM_RUNLIMIT: job killed", "KILL_REASON": ""},
                {"ERROR": "Job <17> is not found"},
            ]
        }
    )
    standings: ClassVar = {
        "12": QUEUED,
        "13": ACTIVE,
        "14": ACTIVE,
        "15": DONE,
        "16": Standing(JobPhase.OVER, "TERM_RUNLIMIT: job killed"),
    }
    named = ("12\n13\n", ["12", "13"])
    gone = "Job <12>: Job has already finished"
    times: ClassVar = {"2:30": 9000, "30": 1800}

    def make(self) -> Lsf:
        return Lsf()

    def test_bjobs_fails_if_no_job_has_the_name(self) -> None:
        answer = subprocess.CompletedProcess(["bjobs"], 255, "", "Job <x> is not found\n")
        assert Lsf().found(answer) == []


class TestFlux(SchedulerContract):
    submitted = ("ƒ2oLkTLb\n", "ƒ2oLkTLb")
    listed = (
        "ƒ1|SCHED||a\nƒ2|RUN||b|c\nƒ3|SOME_NEW_STATE||d\nƒ4|INACTIVE|COMPLETED|e\n"
        "ƒ5|INACTIVE|TIMEOUT|f\nnote of the site\n"
    )
    standings: ClassVar = {
        "ƒ1": QUEUED,
        "ƒ2": ACTIVE,
        "ƒ3": ACTIVE,
        "ƒ4": DONE,
        "ƒ5": Standing(JobPhase.OVER, "its job reached the walltime"),
    }
    named = ("ƒ1\n", ["ƒ1"])
    gone = "flux-cancel: ƒ1: job is inactive"
    times: ClassVar = {"5m": 300, "2.5h": 9000, "10": 600, "90s": 90, "1d": 86400}

    def make(self) -> Flux:
        return Flux()

    def test_reservations_are_refused(self) -> None:
        with pytest.raises(UserError, match="Flux has no reservations"):
            Flux().script(self.request(Flux(), reservation="r"))


def test_every_scheduler_has_a_title_and_commands_of_its_own() -> None:
    found = all_schedulers()
    assert [scheduler.name for scheduler in found] == scheduler_names()
    assert len({scheduler.title for scheduler in found}) == len(found)
    assert len({scheduler.inside.job for scheduler in found}) == len(found) - 1, "classic PBS has those of PBS"


@pytest.mark.parametrize("ask", [steps_of, arrays_of])
def test_what_a_scheduler_lacks_is_said_with_those_that_have_it(ask: Any) -> None:
    assert ask(Slurm()) is not None
    for scheduler in (Pbs(), Lsf(), Flux()):
        with pytest.raises(UserError, match="use Slurm"):
            ask(scheduler)


@pytest.mark.parametrize("scheduler", all_schedulers(), ids=lambda scheduler: scheduler.name)
def test_the_reference_says_what_each_scheduler_is_asked_for(scheduler: Scheduler) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "on-a-cluster.md").read_text("utf-8")
    programs = ", ".join(f"`{program}`" for program in scheduler.programs)
    assert f"| `{scheduler.name}` | {scheduler.title} | `{scheduler.mark}` | {programs} |" in page
    row = next(line for line in page.splitlines() if line.startswith(f"| `{scheduler.name}` | `"))
    written = set(re.findall(r"`([^`]+)`", row)) - {scheduler.name}
    asked = {*scheduler.resource_options(2, 4, True), *scheduler.time_options(5400)}
    plain = scheduler.place_options(Batch(scheduler=scheduler.name))
    for values in ({"queue": "Q"}, {"account": "A"}, {"reservation": "R"}):
        try:
            found = scheduler.place_options(Batch.model_validate({"scheduler": scheduler.name, **values}))
        except UserError:
            assert "refused" in row
            continue
        asked |= {option for option in found if option not in plain}
    assert written == asked


@pytest.mark.parametrize(
    ("option", "nodes"),
    [
        ("-l select=2:ncpus=4:mpiprocs=4+1:ncpus=8,walltime=01:00:00", 3),
        ("-l walltime=01:00:00,select=ncpus=4+12:ncpus=8", 13),
        ("-l nodes=2:ppn=4+big:ppn=8", 3),
        ("-l nodes=n17+n18", 2),
    ],
)
def test_pbs_adds_up_the_chunks_of_a_selection(option: str, nodes: int) -> None:
    assert Pbs().read_options([option]).nodes == nodes


# -- the queue, over commands that a test stands for ---------------------------------------------------------------

FAKE = r"""#!/bin/bash
# A scheduler of one job, for tests: its answers are the files beside it.
here=$(dirname "$0")
echo "$(basename "$0") $*" >> "$here/../called"
[ -e "$here/../down" ] && { echo "cannot connect to the server" >&2; exit 1; }
cat "$here/../$(basename "$0")" 2>/dev/null
exit "$(cat "$here/../$(basename "$0").code" 2>/dev/null || echo 0)"
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for scheduler in all_schedulers():
        for program in scheduler.programs:
            (tmp_path / "bin" / program).write_text(FAKE)
            (tmp_path / "bin" / program).chmod(0o755)
    return tmp_path


def queue_of(fake: Path, name: str) -> JobQueue:
    return JobQueue(Batch(scheduler=name, poll=1), fake / "scripts", {"PATH": f"{fake / 'bin'}:/usr/bin:/bin"})


def wait(queue: JobQueue, ticket: Any, phase: JobPhase) -> Standing:
    deadline = time.monotonic() + 60
    while (found := queue.standing(ticket)).phase is not phase:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("suite", [TestPbs(), TestLsf(), TestFlux()], ids=lambda suite: type(suite).__name__)
def test_a_job_goes_through_the_queue(suite: SchedulerContract, fake: Path) -> None:
    scheduler = suite.make()
    queue = queue_of(fake, scheduler.name)
    queue.check()
    status = fake / scheduler.status(())[0]
    over = next(key for key, standing in suite.standings.items() if standing.why)
    (fake / scheduler.programs[0]).write_text(suite.submitted[0].replace(suite.submitted[1], over))
    status.write_text(suite.listed) if status.name != scheduler.programs[0] else None
    try:
        request = JobRequest("stripewise-x.1", fake / "job.sh", fake, 60.0, queue.batch)
        if scheduler.name == "flux":
            # All of Flux's answers come from one command.
            (fake / "flux").write_text(over)
            ticket = queue.submit(request)
            (fake / "flux").write_text(suite.listed)
        else:
            ticket = queue.submit(request)
        assert ticket.identifier == over
        assert wait(queue, ticket, JobPhase.OVER) == suite.standings[over]
        assert queue.gone(ticket) is True
        called = (fake / "called").read_text()
        assert f"{' '.join(scheduler.status([over]))}\n" in called
        (fake / "down").touch()
        with pytest.raises(TransientError, match="cannot cancel job"):
            queue.cancel(ticket)
        with pytest.raises(TransientError, match=f"{scheduler.title} may be restarting"):
            queue.named("stripewise-x.1")
    finally:
        queue.close()


def test_slurm_is_asked_about_a_job_that_its_queue_forgot(fake: Path) -> None:
    queue = queue_of(fake, "slurm")
    try:
        (fake / "sbatch").write_text("Submitted batch job 12\n")
        ticket = queue.submit(JobRequest("stripewise-x.1", fake / "job.sh", fake, 60.0, queue.batch))
        (fake / "scontrol").write_text("slurm_load_jobs error: Invalid job id specified")
        (fake / "scontrol.code").write_text("1")
        assert wait(queue, ticket, JobPhase.OVER) is UNKNOWN
        assert queue.gone(ticket) is True
    finally:
        queue.close()


def test_jobs_stand_as_before_while_the_scheduler_does_not_answer(fake: Path) -> None:
    queue = queue_of(fake, "lsf")
    try:
        (fake / "bsub").write_text("Job <7> is submitted to default queue <normal>.\n")
        ticket = queue.submit(JobRequest("stripewise-x.1", fake / "job.sh", fake, 60.0, queue.batch))
        script = fake / "scripts" / "stripewise-x.1.job"
        assert script.read_text() == queue.scheduler.script(
            JobRequest("stripewise-x.1", fake / "job.sh", fake, 60.0, queue.batch)
        )
        (fake / "bjobs").write_text("no JSON")
        deadline = time.monotonic() + 60
        while (fake / "called").read_text().count("bjobs") < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert queue.standing(ticket) == Standing(JobPhase.QUEUED)
        (fake / "bjobs").write_text('{"RECORDS": [{"JOBID": "7", "STAT": "RUN"}]}')
        assert wait(queue, ticket, JobPhase.ACTIVE) == Standing(JobPhase.ACTIVE)
        assert script.exists()
        (fake / "bjobs").write_text('{"RECORDS": []}')
        assert wait(queue, ticket, JobPhase.OVER) == Standing(JobPhase.OVER), "it has left the list"
        assert not script.exists()
        (fake / "bsub").write_text("bsub is closed today\n")
        with pytest.raises(StripewiseError, match="it did not name the job: bsub is closed today"):
            queue.submit(JobRequest("stripewise-x.2", fake / "job.sh", fake, 60.0, queue.batch))
    finally:
        queue.close()
    for thread in threading.enumerate():
        if thread.name == "job queue":
            thread.join(70)
            assert not thread.is_alive()


def test_a_list_that_a_scheduler_of_ones_own_reads_wrongly_is_not_silence(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = queue_of(fake, "lsf")
    monkeypatch.setattr(queue.scheduler, "standings", lambda output: {}["7"])
    try:
        ticket = queue.attach("7", "stripewise-x.1")
        with pytest.raises(KeyError):
            wait(queue, ticket, JobPhase.OVER)
    finally:
        queue.close()


def test_the_end_of_a_job_leaves_the_script_of_the_one_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is submitted again under its name, while the queue notices that its first job is over."""
    queue = JobQueue(Batch(scheduler="slurm"), tmp_path, {"PATH": str(tmp_path)})
    monkeypatch.setattr(queue, "_watch", lambda closed: None)
    submitted: list[bool] = []

    def call(words: list[str]) -> subprocess.CompletedProcess[str]:
        if words[0] != "sbatch":
            return subprocess.CompletedProcess(words, 0, "", "")  # no job is left in the list
        if submitted:
            queue._update()
        submitted.append(Path(words[-1]).exists())
        return subprocess.CompletedProcess(words, 0, f"Submitted batch job {len(submitted)}", "")

    monkeypatch.setattr(queue, "call", call)
    for _ in range(2):
        queue.submit(JobRequest("stripewise-x.1", tmp_path / "job.sh", tmp_path, 60.0, queue.batch))
    assert submitted == [True, True]
    queue._update()
    assert not list(tmp_path.glob("*.job"))


def test_a_scheduler_that_is_not_here_is_refused(tmp_path: Path) -> None:
    for scheduler in all_schedulers():
        queue = JobQueue(Batch(scheduler=scheduler.name), tmp_path, {"PATH": str(tmp_path)})
        with pytest.raises(UserError, match=f"there is no {scheduler.programs[0]} here"):
            queue.check()


class HalfScheduler(Scheduler):
    """One of another package that says neither how jobs are submitted and cancelled, nor what its list means."""

    name, title, mark, programs = "half", "Half", "#HALF", ("half-submit",)


def test_a_scheduler_that_lacks_something_is_refused_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("half", f"{__name__}:HalfScheduler", registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry])
    with pytest.raises(UserError, match="scheduler 'half'") as refused:
        registry.make_scheduler("half")
    lacks = str(refused.value).partition(" lacks ")[2].partition(";")[0].split(", ")
    assert {"submit_words", "cancel_words", "name_words", "gone", "standings"} <= {*lacks}
    assert not {"name", "start", "steps", "overview"} & {*lacks}, "these it has, or need not have"
