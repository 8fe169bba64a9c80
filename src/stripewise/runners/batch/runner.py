"""The batch runner: each run is a job of a scheduler, and several jobs may run at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from stripewise.catalogue.workload import Workload
from stripewise.errors import StripewiseError, TransientError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import kinds_of
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Preflight
from stripewise.runners.batch.job import GRACE, BatchJob, finished_before, outcome_of
from stripewise.runners.batch.script import (
    Work,
    clear_records,
    give_up_run,
    job_script,
    of_user_script,
    read_end,
    read_start,
)
from stripewise.runners.injection import Injection
from stripewise.runners.local.processes import MARKER
from stripewise.runners.local.scratch import Scratch, read_earlier, run_id
from stripewise.runners.local.supervision import DEFAULT_LIMIT
from stripewise.runners.program.command import shell_line, substitute
from stripewise.runners.program.mpi import needs_sessions
from stripewise.runners.program_runner import Found, ProgramRunner, Surroundings
from stripewise.runners.schedulers.job import Directives, JobRequest, Ticket
from stripewise.runners.schedulers.queue import JobQueue

_T = TypeVar("_T")
SCRIPT = "job.sh"
_LOOK_SECONDS = 0.25
_END_SECONDS = 90.0
_MARGIN_SECONDS = 60.0


class BatchRunner(ProgramRunner):
    """Runs the experiment's command, or the user's own job script, as jobs of a scheduler.

    Parameters
    ----------
    experiment, folder, surroundings
        See :class:`~stripewise.runners.program_runner.ProgramRunner`.
    grace : float
        Seconds that compute nodes' files may take to be seen here.
    """

    name = "batch"

    def __init__(
        self, experiment: Experiment, folder: Path, surroundings: Surroundings | None = None, *, grace: float = GRACE
    ) -> None:
        super().__init__(experiment, folder, surroundings)
        self._given = experiment
        self._batch = experiment.batch
        self._queue = JobQueue(self._batch, self.folder / "jobs", self.environment)
        self._jobs = experiment.batch.jobs or 1
        self._directives = Directives()
        self._nodes_of_line: int | None = None
        self._under_way: dict[int, BatchJob] = {}
        self._ready: list[Outcome] = []
        self._queued = 0.0
        self._grace = grace
        self._ticked = time.monotonic()

    @property
    def capacity(self) -> int:
        """Jobs at a time, including those in the queue."""
        return self._jobs

    @property
    def queued_seconds(self) -> float:
        """See :attr:`Runner.queued_seconds`."""
        return self._queued

    def _check(self) -> None:
        self.experiment, self._directives = of_user_script(self._given, self.cwd, self._queue.scheduler)
        self._queue.check()

    def _describe(self, preflight: Preflight, found: Found | None) -> Preflight:
        """Say what jobs the runs are."""
        self._nodes_of_line = preflight.workload.nodes if found is None else found.target.line.nodes
        nodes = self._nodes()
        about = {**preflight.environment, "scheduler": self._batch.scheduler}
        at_once = f", up to {self._jobs} at a time" if self._jobs > 1 else ""
        line = f"jobs      {self._batch.scheduler}, {nodes} node{'' if nodes == 1 else 's'} a run{at_once}"
        declared = Workload(nodes=nodes, processes_per_node=self._batch.processes_per_node)
        return replace(
            preflight,
            environment=about,
            summary=(*preflight.summary, line),
            workload=declared.merged(preflight.workload),
            nodes=nodes,
            occupied=self._walltime,
        )

    def start(self, launch: Launch) -> None:
        """Write a run's folder; its job is submitted at the next poll; see :class:`Runner`."""
        if launch.number in self._under_way:
            raise StripewiseError(f"run {launch.number} is under way already", "poll or cancel it first")
        self.found  # noqa: B018  what is wrong with the command as such is raised
        before = finished_before(self.folder, launch)
        if before is not None and not self._interrupted(before):
            self._ready.append(self._adopted(launch, before))
            return
        self._tick()
        self._under_way[launch.number] = self._job(launch)

    def poll(self, timeout: float) -> list[Outcome]:
        """Take every job a step further until one ends; see :class:`Runner`."""
        outcomes, self._ready = self._ready, []
        deadline = time.monotonic() + max(0.0, timeout)
        while self._under_way:
            for number, job in list(self._under_way.items()):
                try:
                    outcome = job.look()
                except StripewiseError:
                    if not outcomes:
                        raise
                    # The job fails again at the next poll: the runs that have ended before must not be lost.
                    continue
                if outcome is not None:
                    del self._under_way[number]
                    self._remember_files(outcome)
                    outcomes.append(outcome)
            self._tick()
            left = deadline - time.monotonic()
            if outcomes or left <= 0:
                break
            time.sleep(min(_LOOK_SECONDS, left))
        return outcomes

    def cancel(self, number: int) -> None:
        """End a run's job; see :class:`Runner`. If the scheduler does not answer, the next :meth:`reap` ends it."""
        self._ready = [outcome for outcome in self._ready if outcome.number != number]
        job = self._under_way.pop(number, None)
        if job is not None:
            self._end([job])

    def reap(self, launch: Launch) -> None:
        """Make sure that no job of an earlier attempt runs or will run; see :class:`Runner`."""
        attempts = [replace(launch, attempt=attempt) for attempt in range(launch.attempt + 1)]
        tickets: dict[str, Ticket] = {}
        for attempt in attempts:
            place = Scratch.of(self.folder, attempt)
            if not place.path.is_dir() or read_end(place.path) is not None:
                continue
            owner = give_up_run(place.path)
            for identifier in dict.fromkeys(
                (owner, *_list_recorded(self.folder, attempt), *self._named(place.job_name, launch))
            ):
                if identifier:
                    tickets[identifier] = self._queue.attach(identifier, place.job_name)
        for ticket in tickets.values():
            try:
                self._queue.cancel(ticket)
            except TransientError as error:
                raise StripewiseError(
                    f"job {ticket.identifier} of run {launch.number} may still run: {error.what}",
                    "resume when the scheduler answers",
                ) from error
        left = _wait(lambda: [t for t in tickets.values() if self._queue.gone(t) is not True], _END_SECONDS)
        if left:
            raise StripewiseError(
                f"job {left[0].identifier} of run {launch.number} goes on {_END_SECONDS:g} s after it was cancelled",
                "see what keeps it, then resume",
            )

    def close(self) -> None:
        """End all jobs under way and stop watching."""
        jobs = list(self._under_way.values())
        self._under_way.clear()
        self._ready = []
        self._end(jobs)
        self._queue.close()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _nodes(self) -> int:
        declared = self.experiment.workload.nodes
        return self._batch.nodes or self._directives.nodes or self._nodes_of_line or declared or 1

    def _walltime(self, timeout: float | None) -> float:
        """The time limit of a job: the one that was asked for, or what the run and its hooks may take."""
        given = self._batch.walltime or self._directives.walltime
        if given is not None:
            return given
        around = self.experiment.hooks
        hooks = len(around.before) + len(around.after) + (1 if self.experiment.setup else 0)
        return (timeout or 3600.0) + hooks * around.timeout + _MARGIN_SECONDS

    def _job(self, launch: Launch) -> BatchJob:
        ready = self.assemble(launch, self.target_of(launch))
        place, values = ready.place, ready.values
        around = self.experiment.hooks
        bound = launch.bound is not None and (launch.timeout is None or launch.bound < launch.timeout)
        work = Work(
            folder=place.path,
            cwd=self.cwd,
            command=ready.words,
            exports={
                **ready.exports,
                "STRIPEWISE_RUN": str(launch.number),
                "STRIPEWISE_RUN_FOLDER": str(place.path),
                MARKER: place.run_id,
            },
            unset=launch.unset,
            setup=tuple(self.experiment.setup),
            sessions=needs_sessions(ready.target.mpi, (*self.found.environment, *ready.words)),
            before=tuple(shell_line(line, values) for line in (*around.before, *launch.before)),
            after=tuple(shell_line(line, values) for line in (*launch.after, *around.after)),
            delete=tuple(str(self.cwd / substitute(pattern, values)) for pattern in around.delete),
            deletes_in=self.deletes_in,
            caches=around.drop_caches,
            known=self.known_files,
            stdin=ready.stdin,
            seconds=launch.bound if bound else launch.timeout,
            bound=bound,
            hook_seconds=around.timeout,
            limit=DEFAULT_LIMIT,
            inside=self._queue.scheduler.inside,
        )
        script = place.path / SCRIPT
        request = JobRequest(
            name=place.job_name,
            script=script,
            folder=self.cwd,
            seconds=None if self._directives.walltime and not self._batch.walltime else self._walltime(launch.timeout),
            batch=self._batch if self._directives.lines else self._batch.model_copy(update={"nodes": self._nodes()}),
            directives=self._directives.lines,
        )
        objectives = kinds_of(self.experiment.objective)
        job = BatchJob(ready, request, self._queue, objectives, self._nodes(), self._grace)
        clear_records(place.path)
        place.create({**ready.injection.files, SCRIPT: job_script(work)}, job.record())
        return job

    def _interrupted(self, place: Scratch) -> bool:
        """Whether the scheduler interrupted a job while no tuner was attached, as far as it still knows."""
        began = read_start(place.path)
        return began is not None and bool(self._queue.interrupted(self._queue.attach(began.job, place.job_name)))

    def _adopted(self, launch: Launch, place: Scratch) -> Outcome:
        """Take the result of a job that finished while no tuner was attached."""
        through = read_end(place.path)
        began = read_start(place.path)
        assert through is not None
        nodes = (began.nodes if began else None) or self._nodes()
        facts = RunFacts(
            nodes=nodes,
            node_hours=nodes * through.seconds / 3600,
            scheduler=self._batch.scheduler,
            job=began.job if began else None,
            adopted=True,
        )
        note = "its job finished while no tuner was attached"
        return outcome_of(
            launch, place, through, Injection({}, {}, ()), kinds_of(self.experiment.objective), facts, (note,)
        )

    def _named(self, name: str, launch: Launch) -> list[str]:
        try:
            return self._queue.named(name) or []
        except TransientError as error:
            raise StripewiseError(
                f"whether a job of run {launch.number} still runs cannot be known: {error.what}",
                "resume when the scheduler answers",
            ) from error

    def _end(self, jobs: list[BatchJob]) -> None:
        for job in jobs:
            try:
                job.cancel()
            except TransientError:
                # The scheduler does not answer. The run is given up, so its job cannot start it, and a resumed
                # session makes sure that the job is over.
                continue
        _wait(lambda: [job for job in jobs if job.gone() is False], _END_SECONDS)

    def _tick(self) -> None:
        """Count the time in which all runs under way waited in the queue."""
        now = time.monotonic()
        if self._under_way and all(job.waiting for job in self._under_way.values()):
            self._queued += now - self._ticked
        self._ticked = now


def _list_recorded(folder: Path, launch: Launch) -> list[str]:
    wanted = run_id(folder, launch)
    return [
        str(data["job"]) for data in read_earlier(folder, launch) if data.get("run_id") == wanted and data.get("job")
    ]


def _wait(left: Callable[[], list[_T]], seconds: float) -> list[_T]:
    deadline = time.monotonic() + seconds
    while found := left():
        if time.monotonic() >= deadline:
            return found
        time.sleep(_LOOK_SECONDS)
    return []
