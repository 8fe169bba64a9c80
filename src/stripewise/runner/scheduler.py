"""A batch system as the runner sees it: jobs go in, and now and then it says where they stand.

PSI/J submits, watches and cancels; Slurm, PBS, LSF and Flux are the same from here. What it says of a job that is
over is not believed blindly: jobs that a scheduler no longer lists count as completed there.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import IO, Any

from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.spec.batch import MARKS, Batch

COMMAND_SECONDS = 60.0
"""A scheduler's command that takes longer has failed: its daemon may be restarting."""
_NEVER = 1 << 30
_EXECUTORS = {
    "slurm": ("slurm", "SlurmJobExecutor"),
    "pbs": ("pbs", "PBSJobExecutor"),
    "pbs_classic": ("pbs_classic", "PBSClassicJobExecutor"),
    "lsf": ("lsf", "LsfJobExecutor"),
}
_RESOURCES = {
    "slurm": re.compile(r"#SBATCH --(nodes|ntasks|ntasks-per-node|cpus-per-task|exclusive)\b"),
    "pbs": re.compile(r"#PBS -l (?!walltime)"),
    "pbs_classic": re.compile(r"#PBS -l (?!walltime)"),
    "lsf": re.compile(r"#BSUB -(nnodes|n|x)\b"),
}
"""What PSI/J's templates say of resources even where nothing was asked of them: a user's own script says it better."""
_TIME = {
    "slurm": re.compile(r"#SBATCH --time\b"),
    "pbs": re.compile(r"#PBS -l walltime"),
    "pbs_classic": re.compile(r"#PBS -l walltime"),
    "lsf": re.compile(r"#BSUB -W\b"),
}
_FIRST = {"slurm": ("#SBATCH --no-requeue",)}
"""What holds unless the user's script says otherwise: Slurm lets a requeued job wait two minutes, we submit at once."""
_OURS = {"slurm": ("#SBATCH --job-name={name}", "#SBATCH --export=ALL")}
"""What must hold whatever a user's script says: jobs are found by their name, and runs get the environment."""
_COMMANDS = {"slurm": "sbatch", "pbs": "qsub", "pbs_classic": "qsub", "lsf": "bsub"}


class Phase(StrEnum):
    """Where a job stands, as far as the scheduler has said."""

    QUEUED = "queued"
    ACTIVE = "active"
    OVER = "over"


@dataclass(frozen=True)
class Standing:
    """What the scheduler says of a job.

    Attributes
    ----------
    phase : Phase
    why : str
        Why it is over, in words; empty where it simply ended, or nobody knows.
    lost : bool
        Whether the machine is at fault (a node failed, the job was preempted or is unknown): another try may work.
    """

    phase: Phase
    why: str = ""
    lost: bool = False


UNKNOWN = Standing(Phase.OVER, "the scheduler no longer knows its job, and it left no result", True)
"""A job that a scheduler has forgotten: it may have come through, or never have been."""


@dataclass(frozen=True)
class Request:
    """A job to be submitted.

    Attributes
    ----------
    name : str
        Unique, so that a job can be found by it.
    script : Path
        What bash is to run.
    folder : Path
        Where the job starts.
    seconds : float or None
        Its time limit; None where the directives give one.
    batch : Batch
    directives : tuple of str
        Lines of the user's own script, with their marks.
    """

    name: str
    script: Path
    folder: Path
    seconds: float | None
    batch: Batch
    directives: tuple[str, ...] = ()


@dataclass
class Ticket:
    """A submitted job."""

    identifier: str
    name: str
    handle: Any = field(default=None, repr=False)


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
        return _watchful(base, self)

    def _configuration(self) -> Any:
        from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig  # noqa: PLC0415

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


def _watchful(base: type[Any], scheduler: Scheduler) -> type[Any]:
    """Mend, thinly, what PSI/J's executors do where a scheduler stumbles.

    Commands without a time limit would hang with the scheduler's daemon, and an exception of one would fail all jobs.
    """

    class Watchful(base):  # type: ignore[misc]
        def _run_command(self, cmd: list[str]) -> str:
            done = scheduler.call(cmd)
            if done.returncode:
                said = "\n".join(part for part in (done.stdout, done.stderr) if part) or "it printed nothing"
                raise subprocess.CalledProcessError(done.returncode, cmd, output=said)
            return done.stdout

        def generate_submit_script(self, job: Any, context: dict[str, object], submit_file: IO[str]) -> None:
            draft = StringIO()
            super().generate_submit_script(job, context, draft)
            submit_file.write(_with_directives(draft.getvalue(), scheduler.batch.scheduler, job.spec.stripewise))

    Watchful.__name__ = base.__name__
    # PSI/J names an executor's folder and threads by this.
    Watchful._NAME_ = getattr(base, "_NAME_", scheduler.batch.scheduler)
    return Watchful


def _with_directives(script: str, kind: str, request: Request) -> str:
    """Put the user's directives into PSI/J's script, after its own: of two that contradict the later one holds."""
    lines = script.splitlines()
    mark = MARKS[kind]
    if request.directives:
        lines = [line for line in lines if not _RESOURCES[kind].match(line)]
    if request.seconds is None:
        lines = [line for line in lines if not _TIME[kind].match(line)]
    last = max((at for at, line in enumerate(lines) if line.startswith(mark)), default=0)
    added = [*_FIRST.get(kind, ()), *request.directives, *(f"{mark} {option}" for option in request.batch.directives)]
    added += [line.format(name=request.name) for line in _OURS.get(kind, ())]
    return "\n".join([*lines[: last + 1], *added, *lines[last + 1 :]]) + "\n"


def _first_line(text: str | None) -> str:
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")
