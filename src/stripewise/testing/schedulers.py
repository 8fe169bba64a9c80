"""The contract of schedulers.

Subclass :class:`SchedulerContract` in a test file, give it your scheduler and samples of what its commands print, and
run the tests with pytest. No scheduler need be installed: text goes in, and text comes out.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from stripewise.errors import UserError
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler
from stripewise.runners.schedulers.job import Answer, JobPhase, JobRequest, Standing
from stripewise.runners.schedulers.registry import make_scheduler

_LINE = "\n"


class SchedulerContract:
    r"""What the runner of jobs relies on.

    A subclass defines :meth:`make` and the samples, as the scheduler's own commands print them::

        class TestMyScheduler(SchedulerContract):
            submitted = ("queued as 7\n", "7")
            listed = "7 waits\n8 runs\n9 done\n"
            standings = {"7": Standing(JobPhase.QUEUED), "8": Standing(JobPhase.ACTIVE), "9": Standing(JobPhase.OVER)}
            named = ("7\n8\n", ["7", "8"])
            gone = "no such job: 9"
            times = {"90": 90.0, "forever": None}

            def make(self):
                return MyScheduler()

    Attributes
    ----------
    submitted : tuple of (str, str)
        What submitting prints, and the identifier in it.
    listed : str
        What the status command prints. Include a site's message and a state that no version has, if that is text.
    standings : mapping of str to Standing
        What is in it.
    named : tuple of (str, sequence of str) or None
        What the search for a name prints, and the jobs in it that are not over; None if the command does not exist.
    gone : str
        What the command that cancels prints about a job that is over.
    times : mapping of str to (float or None)
        Time limits in a script, in seconds; None where the text sets no limit.
    """

    submitted: tuple[str, str]
    listed: str
    standings: Mapping[str, Standing]
    named: tuple[str, Sequence[str]] | None = None
    gone: str
    times: Mapping[str, float | None]

    def make(self) -> Scheduler:
        """Make the scheduler; called often."""
        raise NotImplementedError("define make() in your subclass")

    def request(self, scheduler: Scheduler, **fields: object) -> JobRequest:
        """Describe a job."""
        batch = Batch.model_validate({"scheduler": scheduler.name, "nodes": 2, "processes_per_node": 4, **fields})
        return JobRequest("stripewise-x.1", Path("/runs/x 1/job.sh"), Path("/home/a b"), 90.0, batch)

    # -- the script ------------------------------------------------------------------------------------------------

    def test_a_script_holds_directives_first_and_then_starts_the_run(self) -> None:
        """Bash and the scheduler read the same lines."""
        scheduler = self.make()
        lines = scheduler.script(self.request(scheduler, queue="debug", directives=["--own=1"])).split(_LINE)
        assert lines[0] == "#!/bin/bash"
        assert lines[-1] == ""
        marked = [at for at, line in enumerate(lines) if line.startswith(f"{scheduler.mark} -")]
        assert marked == list(range(1, 1 + len(marked)))
        assert f"{scheduler.mark} --own=1" in lines
        assert any("debug" in line for line in lines)
        assert any("stripewise-x.1" in line for line in lines)
        assert lines[marked[-1] + 1 : -1] == ["cd -- '/home/a b' || exit 66", "exec /bin/bash -- '/runs/x 1/job.sh'"]
        done = subprocess.run(["bash", "-n"], input=_LINE.join(lines), text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr

    def test_what_the_scheduler_writes_it_also_reads(self) -> None:
        """Nodes and the time limit survive, and the last of two directives counts."""
        scheduler = self.make()
        text = scheduler.script(self.request(scheduler))
        found = scheduler.read_script(text)
        assert found.nodes == 2
        assert found.walltime is not None
        assert 90.0 <= found.walltime <= 150.0, "a limit is rounded up, by a minute at most"
        more = scheduler.read_options(
            [*scheduler.resource_options(3, 1, False), *scheduler.resource_options(5, 1, True)]
        )
        assert more.nodes == 5
        assert scheduler.read_script(f"#!/bin/bash\n./app\n{text}").lines == (), "directives end at the first command"

    def test_a_users_own_directives_say_what_resources_are_needed(self) -> None:
        """They come after ours, so that they win, and before the options that must hold."""
        scheduler = self.make()
        own = f"{scheduler.mark} {scheduler.resource_options(7, 1, False)[0]}"
        asked = self.request(scheduler, queue="debug")
        request = JobRequest(asked.name, asked.script, asked.folder, None, asked.batch, (own,))
        lines = scheduler.script(request).split(_LINE)
        assert scheduler.read_script(_LINE.join(lines)).nodes == 7
        assert scheduler.read_script(_LINE.join(lines)).walltime is None
        options = [f"{scheduler.mark} {option}" for option in scheduler.name_options(asked.name)]
        assert lines.index(own) < min(map(lines.index, options))

    def test_time_limits_are_read_as_the_scheduler_reads_them(self) -> None:
        """What sets no limit is not a number."""
        scheduler = self.make()
        assert {text: scheduler.read_time(text) for text in self.times} == dict(self.times)
        for text in ("", "x", "1:2:3:4:5", "-1", "1::2", "٣"):
            assert scheduler.read_time(text) is None

    def test_a_reservation_is_written_or_refused(self) -> None:
        """It is never left out silently."""
        scheduler = self.make()
        try:
            text = scheduler.script(self.request(scheduler, reservation="maintenance"))
        except UserError:
            return
        assert "maintenance" in text

    # -- the commands ----------------------------------------------------------------------------------------------

    def test_commands_are_words(self) -> None:
        """The first word is one of the scheduler's programs."""
        scheduler = self.make()
        for words in (scheduler.submit_words, scheduler.status([self.submitted[1]]), scheduler.cancel_words):
            assert words[0] in scheduler.programs
        assert scheduler.submit_words[0] == scheduler.programs[0]

    def test_the_identifier_is_read(self) -> None:
        """Output without one gives nothing."""
        scheduler = self.make()
        assert scheduler.identifier(self.submitted[0]) == self.submitted[1]
        assert scheduler.identifier("") == ""

    def test_states_are_read(self) -> None:
        """A job that is not known to be over is not over."""
        scheduler = self.make()
        assert scheduler.standings(self.listed) == dict(self.standings)
        assert {standing.phase for standing in self.standings.values()} == set(JobPhase), "give a sample of each phase"
        for standing in self.standings.values():
            assert standing.phase is JobPhase.OVER or not (standing.why or standing.lost)

    def test_other_output_is_not_read_as_states(self) -> None:
        """It is refused by ValueError, or holds no job."""
        scheduler = self.make()
        for output in ("[]", "3", '{"Jobs": [1], "RECORDS": {}}', '{"RECORDS": [{}, 7]}', "[" * 100_000):
            try:
                assert scheduler.standings(output) == {}
            except ValueError as error:
                assert str(error)

    def test_jobs_are_found_by_name(self) -> None:
        """If the scheduler cannot do that, the command is missing."""
        scheduler = self.make()
        words = scheduler.find("stripewise-x.1")
        assert bool(words) == (self.named is not None)
        if self.named is not None:
            assert any("stripewise-x.1" in word for word in words)
            assert scheduler.found(_make_answer(words, self.named[0])) == list(self.named[1])
            assert scheduler.found(_make_answer(words, "", "cannot connect to the server", 1)) is None

    def test_a_job_that_is_over_needs_no_cancelling(self) -> None:
        """Other failures are failures."""
        scheduler = self.make()
        assert scheduler.gone.search(self.gone)
        assert not scheduler.gone.search("cannot connect to the server")

    def test_a_job_knows_itself(self) -> None:
        """The words hold in a shell that runs outside of any job, too."""
        inside = self.make().inside
        words = (inside.job, inside.nodes, inside.node_list, inside.restarts)
        text = "set -u\n" + "".join(f'printf "%s\\n" "{word}"\n' for word in words)
        done = subprocess.run(
            ["bash", "-c", text], env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        job, nodes, hosts, restarts = done.stdout.split("\n")[:4]
        assert job and hosts and restarts.isdigit()
        assert nodes == "" or nodes.isdigit()

    def test_the_name_is_registered(self) -> None:
        """Experiments name it."""
        scheduler = self.make()
        assert type(make_scheduler(scheduler.name)) is type(scheduler)
        with pytest.raises(UserError, match="unknown scheduler"):
            make_scheduler("no-such-scheduler")


def _make_answer(words: Sequence[str], out: str, error: str = "", code: int = 0) -> Answer:
    return subprocess.CompletedProcess(list(words), code, out, error)
