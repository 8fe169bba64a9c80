"""The queue of a scheduler as the runner sees it: jobs go in, and it says where they stand.

PSI/J writes the scripts to disk, submits them and asks for their states in a thread of its own; the scheduler's class
says how. What PSI/J says of a job that is over is checked, because it counts jobs that have left the list as completed.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.interpreter import ask, inherited
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler
from stripewise.runners.schedulers.job import UNKNOWN, JobPhase, JobRequest, Standing, Ticket
from stripewise.runners.schedulers.registry import make_scheduler
from stripewise.shell import job_identifier

COMMAND_SECONDS = 60.0
"""A command that takes longer has failed: the scheduler's daemon may be restarting."""
_NEVER = 1 << 30
_OPTIONAL_SECONDS = 300.0
_AWAY_SECONDS = 5.0
"""A command that takes longer waited for the daemon; otherwise it takes a fraction of this."""


class JobQueue:
    """The queue of one scheduler.

    Parameters
    ----------
    batch : Batch
    folder : Path
        Where job scripts are kept; the scheduler's daemon must see it.
    environment : mapping
        For finding the scheduler's commands.
    """

    def __init__(self, batch: Batch, folder: Path, environment: Mapping[str, str]) -> None:
        self.batch = batch
        self.scheduler = make_scheduler(batch.scheduler)
        self._folder = folder
        self._environment = inherited(environment)
        self._executor: Any = None
        self._lock = threading.Lock()
        self._skip_optional = 0.0
        self._asking: list[tuple[float, float]] = []
        self._absences: list[tuple[float, float]] = []

    def check(self) -> None:
        """Refuse, before the first run, a scheduler that is not here.

        Raises
        ------
        UserError
            With the command that is missing.
        """
        command = self.scheduler.programs[0]
        if shutil.which(command, path=self._environment.get("PATH")) is None:
            raise UserError(
                f"runner batch submits to {self.batch.scheduler}, but there is no {command} here",
                "run on a login node, load the scheduler's module, or set scheduler under [batch]",
            )

    def submit(self, request: JobRequest) -> Ticket:
        """Submit a job.

        Raises
        ------
        StripewiseError
            If the scheduler refuses the job, or does not answer: then the job may be in its queue or not.
        """
        import psij  # noqa: PLC0415  it costs half a second, which only this runner needs

        specification: Any = psij.JobSpec(executable="/bin/bash", launcher="single")
        specification.request = request
        job = psij.Job(specification)
        try:
            self._psij().submit(job)
        except psij.SubmitException as error:
            raise StripewiseError(
                f"the scheduler refused the job: {_first_line(str(error))}",
                "correct the directives, the [batch] table or the limits",
            ) from error
        except OSError as error:
            raise StripewiseError(
                f"cannot write the job script of {request.name}: {error.strerror}",
                "make room, then continue with: stripewise resume ID",
            ) from error
        return Ticket(str(job.native_id), request.name, job)

    def attach(self, identifier: str, name: str) -> Ticket:
        """Take up a job that an earlier process submitted."""
        import psij  # noqa: PLC0415

        job_identifier(identifier)
        job = psij.Job()
        with contextlib.suppress(psij.SubmitException, psij.InvalidJobException):
            self._psij().attach(job, identifier)
        return Ticket(identifier, name, job)

    def standing(self, ticket: Ticket) -> Standing:
        """Say where a job stands.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        status = ticket.handle.status
        if not status.final:
            return Standing(JobPhase.ACTIVE if status.state.name == "ACTIVE" else JobPhase.QUEUED)
        if self.scheduler.lookups(ticket.identifier):
            return self._looked_up(ticket.identifier)
        metadata = status.metadata or {}
        return Standing(JobPhase.OVER, _first_line(status.message), bool(metadata.get("lost")))

    def cancel(self, ticket: Ticket) -> None:
        """Ask for the end of a job, which may take a while.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        done = self.call(self.scheduler.cancel(ticket.identifier))
        said = f"{done.stdout}\n{done.stderr}"
        if done.returncode and not self.scheduler.is_gone(said):
            why = _first_line(said) or f"{done.args[0]} failed"
            raise TransientError(f"cannot cancel job {ticket.identifier}: {why}")

    def gone(self, ticket: Ticket) -> bool | None:
        """Whether nothing of a job runs or will run; None if the scheduler does not say."""
        if not self.scheduler.lookups(ticket.identifier):
            return True if ticket.handle.status.final else None
        try:
            return self._looked_up(ticket.identifier).phase is JobPhase.OVER
        except TransientError:
            return None

    def named(self, name: str) -> list[str] | None:
        """List the jobs with a name that are not over; None if the scheduler cannot tell.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        words = self.scheduler.find(name)
        if not words:
            return None
        done = self.call(words)
        found = self.scheduler.found(done)
        if found is None:
            raise TransientError(
                f"{words[0]} failed: {done.stderr.strip()}", f"{self.scheduler.title} may be restarting"
            )
        return found

    def away(self, since: float, until: float) -> bool:
        """Whether a launcher may have waited for the scheduler's daemon between two times (epoch seconds)."""
        now = time.monotonic()
        with self._lock:
            waiting = [(at, at + now - mark) for at, mark in self._asking if now - mark > _AWAY_SECONDS]
            return any(began <= until and ended >= since for began, ended in (*self._absences, *waiting))

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run one of the scheduler's commands for a limited time, and remember when the daemon did not answer."""
        if words[0] not in self.scheduler.waits:
            return self._run(words)
        asked = time.time(), time.monotonic()
        with self._lock:
            self._asking.append(asked)
        done = self._run(words)
        took = time.monotonic() - asked[1]
        with self._lock:
            self._asking.remove(asked)
            if took > _AWAY_SECONDS or self.scheduler.silent(done):
                self._absences.append((asked[0], asked[0] + took))
        return done

    def close(self) -> None:
        """Stop watching; jobs go on."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            # Otherwise the thread would ask on until the executor is collected.
            executor._queue_poll_thread.done = True

    # -- parts -----------------------------------------------------------------------------------------------------

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return ask(words, COMMAND_SECONDS, self._environment)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(
                list(words), 1, "", f"{words[0]} did not answer in {COMMAND_SECONDS:g} s"
            )
        except OSError as error:
            return subprocess.CompletedProcess(list(words), 1, "", f"cannot run {words[0]}: {error.strerror}")

    def _looked_up(self, identifier: str) -> Standing:
        for lookup in self.scheduler.lookups(identifier):
            if lookup.optional and time.monotonic() < self._skip_optional:
                continue
            done = self.call(lookup.words)
            found = lookup.read(done)
            if found is not None:
                return found
            if lookup.optional and done.returncode:
                self._skip_optional = time.monotonic() + _OPTIONAL_SECONDS
        return UNKNOWN

    def _psij(self) -> Any:
        with self._lock:
            if self._executor is None:
                self._executor = _executor(self, self._folder)
            return self._executor


def _executor(queue: JobQueue, folder: Path) -> Any:
    """Make PSI/J's executor of a queue: an adapter that asks the scheduler's class for every text."""
    import psij  # noqa: PLC0415
    from psij.executors.batch.batch_scheduler_executor import (  # noqa: PLC0415
        BatchSchedulerExecutor,
        BatchSchedulerExecutorConfig,
    )

    scheduler: Scheduler = queue.scheduler

    class Adapter(BatchSchedulerExecutor):
        _NAME_ = scheduler.name

        def _run_command(self, cmd: list[str]) -> str:
            # PSI/J sets no time limit, and would hang with the scheduler's daemon.
            done = queue.call(cmd)
            if done.returncode:
                said = "\n".join(part for part in (done.stdout, done.stderr) if part) or "it printed nothing"
                raise subprocess.CalledProcessError(done.returncode, cmd, output=said)
            return done.stdout

        def generate_submit_script(self, job: Any, context: dict[str, object], submit_file: IO[str]) -> None:
            submit_file.write(scheduler.script(job.spec.request))

        def get_submit_command(self, job: Any, submit_file_path: Path) -> list[str]:
            return scheduler.submit(submit_file_path.absolute())

        def job_id_from_submit_output(self, out: str) -> str:
            found = scheduler.identifier(out)
            if not found:
                raise psij.SubmitException(f"it did not name the job: {out}")
            return found

        def get_status_command(self, native_ids: Any) -> list[str]:
            return scheduler.status(list(native_ids))

        def parse_status_output(self, exit_code: int, out: str) -> dict[str, Any]:
            if exit_code:
                raise RuntimeError(out)
            return {key: _status(standing) for key, standing in scheduler.standings(out).items()}

        def get_cancel_command(self, native_id: str) -> list[str]:
            return scheduler.cancel(native_id)

        def process_cancel_command_output(self, exit_code: int, out: str) -> None:
            raise psij.SubmitException(out)

        def get_list_command(self) -> list[str]:
            return scheduler.status(())

    return Adapter(
        config=BatchSchedulerExecutorConfig(
            work_directory=folder,
            queue_polling_interval=queue.batch.poll,
            initial_queue_polling_delay=0,
            # PSI/J fails all jobs once it could not ask three times: a scheduler that restarts has lost none.
            queue_polling_error_threshold=_NEVER,
        )
    )


def _status(standing: Standing) -> Any:
    import psij  # noqa: PLC0415

    if standing.phase is not JobPhase.OVER:
        return psij.JobStatus(psij.JobState[standing.phase.name])
    state = psij.JobState.FAILED if standing.why else psij.JobState.COMPLETED
    return psij.JobStatus(state, message=standing.why or None, metadata={"lost": standing.lost})


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
