"""A batch system as the runner sees it: jobs go in, and now and then it says where they stand.

PSI/J submits, watches and cancels; Slurm, PBS, LSF and Flux are the same from here. What it says of a job that is
over is not believed blindly: jobs that a scheduler no longer lists count as completed there.
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.runner.batch.psij_executor import watchful
from stripewise.runner.batch.scheduled import Phase, Request, Standing, Ticket
from stripewise.shell import directive_path, job_identifier
from stripewise.spec.batch import Batch

COMMAND_SECONDS = 60.0
"""A scheduler's command that takes longer has failed: its daemon may be restarting."""
_NEVER = 1 << 30
_EXECUTORS = {
    "slurm": ("slurm", "SlurmJobExecutor"),
    "pbs": ("pbs", "PBSJobExecutor"),
    "pbs_classic": ("pbs_classic", "PBSClassicJobExecutor"),
    "lsf": ("lsf", "LsfJobExecutor"),
}
_COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "pbs_classic": "qsub", "lsf": "bsub"}


class Scheduler:
    """A batch system through PSI/J.

    Parameters
    ----------
    batch : Batch
    folder : Path
        Where PSI/J keeps its scripts; compute nodes must see it.
    environment : mapping
        For finding the scheduler's commands.
    """

    def __init__(self, batch: Batch, folder: Path, environment: Mapping[str, str]) -> None:
        self.batch = batch
        self._folder = folder
        self._environment = environment
        self._executor: Any = None
        self._lock = threading.Lock()

    # -- what schedulers have in common ------------------------------------------------------------------------

    def check(self, which: Callable[[str], str | None]) -> None:
        """Refuse, before the first run, a scheduler that is not here.

        Raises
        ------
        UserError
            With the command or library that is missing.
        """
        command = _COMMANDS.get(self.batch.scheduler)
        if command is not None and which(command) is None:
            raise UserError(
                f"runner batch submits to {self.batch.scheduler}, but there is no {command} here",
                "run on a login node, load the scheduler's module, or set scheduler under [batch]",
            )
        if command is None:
            try:
                import flux  # type: ignore[import-not-found]  # noqa: F401, PLC0415  a library of the site's
            except ImportError as error:
                raise UserError(
                    "runner batch submits to Flux, whose Python library is not here",
                    "use the Python that Flux was installed for, or set scheduler under [batch]",
                ) from error

    def submit(self, request: Request) -> Ticket:
        """Hand a job in.

        Raises
        ------
        TransientError
            If the scheduler does not answer: the job may or may not be in its queue.
        StripewiseError
            If it refuses the job.
        """
        import psij  # noqa: PLC0415  it costs half a second, which only this runner needs

        job = psij.Job(self._specification(request))
        try:
            self._psij().submit(job)
        except psij.SubmitException as error:
            raise self._refused(str(error)) from error
        except OSError as error:
            raise StripewiseError(
                f"cannot write the job script of {request.name}: {error.strerror}", "make room, then resume"
            ) from error
        return Ticket(str(job.native_id), request.name, job)

    def standing(self, ticket: Ticket) -> Standing:
        """Say where a job stands, as PSI/J last heard."""
        import psij  # noqa: PLC0415

        status = ticket.handle.status
        if status.final:
            metadata = status.metadata or {}
            why = metadata.get("why") or _first_line(status.message)
            if not why and status.state is psij.JobState.CANCELED:
                why = "the job was cancelled in the scheduler"
            return Standing(Phase.OVER, why, bool(metadata.get("lost")))
        return Standing(Phase.ACTIVE if status.state is psij.JobState.ACTIVE else Phase.QUEUED)

    def attach(self, identifier: str, name: str) -> Ticket:
        """Take up a job that an earlier process submitted."""
        import psij  # noqa: PLC0415

        job_identifier(identifier)
        job = psij.Job()
        with contextlib.suppress(psij.SubmitException, psij.InvalidJobException):
            self._psij().attach(job, identifier)
        return Ticket(identifier, name, job)

    def cancel(self, ticket: Ticket) -> None:
        """Ask for the end of a job; it may take a while.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        import psij  # noqa: PLC0415

        try:
            self._psij().cancel(ticket.handle)
        except psij.SubmitException as error:
            raise TransientError(f"cannot cancel job {ticket.identifier}: {_first_line(str(error))}") from error

    def gone(self, ticket: Ticket) -> bool | None:
        """Whether nothing of a job runs or will run any more; None where the scheduler does not say."""
        return True if ticket.handle.status.final else None

    def named(self, name: str) -> list[str] | None:
        """Give the jobs of a name that are not over; None where the scheduler cannot tell."""
        return None

    def away(self, since: float, until: float) -> bool:
        """Whether a launcher may have waited for the scheduler between two times (epoch seconds)."""
        return False

    def close(self) -> None:
        """Stop watching; jobs go on."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None and hasattr(executor, "_queue_poll_thread"):
            # Otherwise the thread would ask on until the executor is collected.
            executor._queue_poll_thread.done = True

    # -- PSI/J ---------------------------------------------------------------------------------------------------

    def _psij(self) -> Any:
        with self._lock:
            if self._executor is None:
                self._executor = self._make_executor()
            return self._executor

    def _make_executor(self) -> Any:
        import psij  # noqa: PLC0415

        if self.batch.scheduler == "flux":
            return psij.JobExecutor.get_instance("flux")
        module, name = _EXECUTORS[self.batch.scheduler]
        base = getattr(importlib.import_module(f"psij.executors.batch.{module}"), name)
        return self.mended(base)(url=None, config=self._configuration())

    def mended(self, base: type[Any]) -> type[Any]:
        """Give PSI/J's class of an executor with what it falls short of."""
        return watchful(base, self.batch, self.call)

    def _configuration(self) -> Any:
        from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig  # noqa: PLC0415

        directive_path(self._folder)
        return BatchSchedulerExecutorConfig(
            work_directory=self._folder,
            queue_polling_interval=self.batch.poll,
            initial_queue_polling_delay=0,
            # PSI/J fails every job when it could not ask thrice: a scheduler that restarts has lost none.
            queue_polling_error_threshold=_NEVER,
        )

    def _specification(self, request: Request) -> Any:
        import psij  # noqa: PLC0415

        batch = request.batch
        attributes = psij.JobAttributes(queue_name=batch.queue, account=batch.account, reservation_id=batch.reservation)
        if request.seconds is not None:
            attributes.duration = timedelta(seconds=request.seconds)
        resources = None
        if batch.nodes is not None:
            resources = psij.ResourceSpecV1(
                node_count=batch.nodes,
                processes_per_node=batch.processes_per_node or 1,
                exclusive_node_use=batch.exclusive,
            )
        if batch.scheduler == "flux" and resources is not None:
            resources = psij.ResourceSpecV1(process_count=batch.nodes, node_count=batch.nodes)
        specification: Any = psij.JobSpec(
            executable="/bin/bash",
            arguments=[str(request.script)],
            directory=request.folder,
            name=request.name,
            # Rendered as --export=ALL: what a run needs is exported by its script.
            inherit_environment=True,
            resources=resources,
            attributes=attributes,
            launcher="single",
        )
        specification.stripewise = request
        return specification

    def _refused(self, said: str) -> StripewiseError:
        line = _first_line(said)
        return StripewiseError(
            f"the scheduler refused the job: {line}", "correct the directives, the [batch] table or the limits"
        )

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Call one of the scheduler's programs, and wait no longer than it may take."""
        try:
            return subprocess.run(
                list(words),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMMAND_SECONDS,
                stdin=subprocess.DEVNULL,
                env=dict(self._environment),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(
                list(words), 1, "", f"{words[0]} did not answer in {COMMAND_SECONDS:g} s"
            )
        except OSError as error:
            return subprocess.CompletedProcess(list(words), 1, "", f"cannot run {words[0]}: {error.strerror}")


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
