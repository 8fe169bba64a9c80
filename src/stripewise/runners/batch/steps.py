"""The steps runner: runs side by side within an allocation, each on nodes of its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from subprocess import CompletedProcess

from stripewise.catalogue.workload import Workload
from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Preflight
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.local.scratch import Scratch, read_earlier, reap
from stripewise.runners.program.target import Target
from stripewise.runners.program_runner import Found, Surroundings
from stripewise.runners.schedulers.base import Allocation
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.runners.schedulers.registry import steps_of
from stripewise.trial import State

_ALLOCATION = "allocation"
_MPIEXEC = ("mpiexec", "mpirun", "mpiexec.hydra")
_END_SECONDS = 60.0


class _Unasked(Exception):  # noqa: N818  not an error: the scheduler would have to be asked
    """Only a command of the scheduler tells."""


def _ask_nobody(words: Sequence[str]) -> CompletedProcess[str]:
    raise _Unasked(words[0])


class StepsRunner(LocalRunner):
    """Runs the experiment's command as steps of the allocation that it is called in.

    The command's ``srun`` (or ``mpiexec``) gets the nodes of its run; both runs of a pair of the confirmation get the
    same ones, and pairs take the sets of nodes in turn.

    Parameters
    ----------
    experiment, folder, surroundings
        See :class:`~stripewise.runners.program_runner.ProgramRunner`.
    queue : JobQueue, optional
        For calls of the scheduler's commands.
    """

    name = "steps"

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        surroundings: Surroundings | None = None,
        *,
        queue: JobQueue | None = None,
    ) -> None:
        super().__init__(experiment, folder, surroundings)
        self._batch = experiment.batch
        self._queue = queue or JobQueue(self._batch, folder / "jobs", self.environment)
        self._steps = steps_of(self._queue.scheduler)
        self._allocation: Allocation | None = None
        self._size = 1
        self._slots: list[tuple[str, ...]] = []
        self._taken: dict[int, int] = {}
        self._launches: dict[int, Launch] = {}
        self._dead: set[int] = set()
        self._again: list[Launch] = []
        self._losses: dict[int, list[str]] = {}
        self._suspension = ""
        self._suspension_before: dict[int, str] = {}

    @property
    def capacity(self) -> int:
        """Runs side by side: as many as there are sets of nodes, or fewer if asked for."""
        live = len(self._slots) - len(self._dead)
        return max(1, min(live or 1, self._batch.jobs or 1 << 30))

    def prepare(self) -> Preflight:
        """Look at the command and the allocation; see :class:`Runner`."""
        self._allocation = self._steps.allocation(self.environment, self._queue.call)
        self._last_suspension()
        return super().prepare()

    def inspect(self) -> Preflight:
        """Look at the command, but do not ask the scheduler for the allocation's nodes; see :class:`Runner`."""
        with contextlib.suppress(_Unasked):
            self._allocation = self._steps.allocation(self.environment, _ask_nobody)
        return super().inspect()

    def _describe(self, preflight: Preflight, found: Found | None) -> Preflight:
        """Check that runs can be steps, and say how many there are side by side, as far as the nodes are known."""
        if self._allocation is None:
            preflight = replace(preflight, unknown=(*preflight.unknown, "the nodes of the allocation"))
        if found is None:
            return replace(preflight, nodes=self._batch.nodes, occupied=lambda timeout: timeout)
        line = found.target.line
        if not line.launcher:
            raise UserError(
                "runner steps gives each run its nodes through srun or mpiexec, but the command has neither",
                "write srun before the program, or use --runner batch for a script",
            )
        if PurePath(line.launcher).name not in (*self._queue.scheduler.start[:1], *_MPIEXEC):
            raise UserError(
                f"runner steps does not know how to give nodes to {line.launcher}", "use srun, or --runner batch"
            )
        self._size = self._batch.nodes or line.nodes or self.experiment.workload.nodes or 1
        declared = Workload(nodes=self._size, processes_per_node=self._batch.processes_per_node)
        summary, allocation = preflight.summary, self._allocation
        if allocation is not None:
            self._slots = allocation.slots(self._size)
            if not self._slots:
                raise UserError(
                    f"a run takes {self._size} nodes, and the allocation has {len(allocation.nodes)}",
                    "ask for more nodes, or set nodes under [batch]",
                )
            many = f"{self._size} node{'' if self._size == 1 else 's'}"
            shown = f"steps     in job {allocation.job}: {len(allocation.nodes)} nodes, {many} a run"
            summary = (*summary, f"{shown}, {self.capacity} side by side")
        workload = declared.merged(preflight.workload)
        return replace(
            preflight, summary=summary, workload=workload, nodes=self._size, occupied=lambda timeout: timeout
        )

    def start(self, launch: Launch) -> None:
        """Begin a run on a free set of nodes; see :class:`Runner`."""
        if not self._slots:
            self.prepare()
        slot = self._slot(launch)
        if slot is None:
            raise StripewiseError(f"no nodes are free for run {launch.number}", "poll first")
        self._taken[launch.number] = slot
        self._launches[launch.number] = launch
        self._suspension_before[launch.number] = self._suspension
        assert self._allocation is not None
        try:
            # Before the run starts: a later session ends its step by this.
            Scratch.of(self.folder, launch).create({_ALLOCATION: self._allocation.job})
            super().start(launch)
        except BaseException:
            self._taken.pop(launch.number, None)
            raise

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for ended runs, and start those again whose nodes were lost; see :class:`Runner`."""
        waiting, self._again = self._again, []
        for launch in waiting:
            if self._slot(launch) is None:
                self._again.append(launch)
            else:
                self.start(launch)
        found = (self._complete(outcome) for outcome in super().poll(timeout))
        return [outcome for outcome in found if outcome is not None]

    def cancel(self, number: int) -> None:
        """End a run and its step; see :class:`Runner`."""
        self._again = [launch for launch in self._again if launch.number != number]
        run = self._under_way.get(number)
        super().cancel(number)
        if run is not None:
            self._end_step(run.launch)
        self._taken.pop(number, None)

    def reap(self, launch: Launch) -> None:
        """End what an earlier process left of a run, in this or another allocation; see :class:`Runner`."""
        places = [Scratch.of(self.folder, replace(launch, attempt=n)) for n in range(launch.attempt + 1)]
        allocations = {text for place in places if (text := _read(place.path / _ALLOCATION))}
        try:
            gone = bool(allocations) and all(self._steps.is_over(job, self._queue.call) for job in allocations)
            for job in () if gone else allocations:
                for place in places:
                    if left := self._end(job, place.job_name):
                        what = f"step {left[0]} of run {launch.number} cannot be ended"
                        raise StripewiseError(what, "end it by hand, then resume")
        except TransientError as error:
            raise StripewiseError(
                f"it is not known whether run {launch.number} is over: {error.what}",
                "resume when the scheduler answers",
            ) from error
        if not gone or not read_earlier(self.folder, launch):
            reap(self.folder, launch)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _slot(self, launch: Launch) -> int | None:
        """Choose the nodes of a run: those of its pair, or the first that are free; None if it must wait.

        Raises
        ------
        StripewiseError
            If the allocation has lost all its nodes.
        """
        live = [at for at in range(len(self._slots)) if at not in self._dead]
        if not live:
            raise StripewiseError("all nodes of the allocation are down", "resume in another allocation")
        busy = set(self._taken.values())
        candidates = live if launch.pair is None else [live[launch.pair % len(live)]]
        return next((at for at in candidates if at not in busy), None)

    def _placed(self, launch: Launch, target: Target) -> Target:
        nodes = self._slots[self._taken[launch.number]]
        line = target.line
        at = line.launcher_at + 1
        if not line.launcher:
            return target
        name = PurePath(line.launcher).name
        if name in self._queue.scheduler.start[:1]:
            # These options come first, so that the options of the command itself win.
            options = self._steps.options(nodes, Scratch.of(self.folder, launch).job_name)
        elif target.mpi is not None and target.mpi.abi == "openmpi":
            ranks = line.per_node or -(-(line.ranks or len(nodes)) // len(nodes))
            options = ["--host", ",".join(f"{node}:{ranks}" for node in nodes)]
        else:
            options = ["-hosts", ",".join(nodes)]
        first, *rest = line.segments
        before = (*first.before[:at], *options, *first.before[at:])
        return replace(target, line=replace(line, segments=(replace(first, before=before), *rest)))

    def _complete(self, outcome: Outcome) -> Outcome | None:
        slot, launch = self._taken.pop(outcome.number), self._launches.pop(outcome.number)
        if outcome.state is not State.FINISHED:
            # A killed launcher may leave its step behind, and the next run would wait for the nodes.
            self._end_step(launch)
        losses = self._losses.setdefault(outcome.number, [])
        down = self._down(slot) if outcome.state is State.FAILED else ()
        if down:
            self._dead.add(slot)
            if len(losses) < self._batch.retries:
                losses.append(f"node {', '.join(down)} went down: the run was started again on others")
                self._again.append(launch)
                return None
        suspended = self._suspension_before.pop(outcome.number) != self._last_suspension()
        if suspended and len(losses) < self._batch.retries:
            losses.append("the scheduler suspended the allocation: the run was started again")
            self._again.append(launch)
            return None
        if suspended and outcome.state is State.FINISHED:
            outcome = replace(outcome, state=State.FAILED, reason="the scheduler suspended the allocation")
        facts = outcome.facts.with_(
            nodes=self._size,
            node_list=",".join(self._slots[slot]),
            node_hours=self._size * outcome.elapsed / 3600,
        )
        if losses:
            facts = facts.with_(resubmissions=len(losses), notes=[*losses, *facts.notes])
        reason = f"node {', '.join(down)} went down: {outcome.reason}" if down else outcome.reason
        return replace(outcome, facts=facts, reason=reason)

    def _down(self, slot: int) -> tuple[str, ...]:
        """List the nodes of a set that are down or no longer belong to the allocation."""
        assert self._allocation is not None
        try:
            left = self._steps.nodes_left(self._allocation.job, self._queue.call)
        except TransientError:
            return ()
        return tuple(node for node in self._slots[slot] if node not in left)

    def _last_suspension(self) -> str:
        assert self._allocation is not None
        with contextlib.suppress(TransientError):
            self._suspension = self._steps.suspended(self._allocation.job, self._queue.call)
        return self._suspension

    def _end(self, allocation: str, name: str) -> list[str]:
        """End the steps with a name and wait until they are over; give those that continue.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        deadline = time.monotonic() + _END_SECONDS
        while left := self._steps.named(allocation, name, self._queue.call):
            if time.monotonic() > deadline:
                return left
            self._steps.end(left, self._queue.call)
            time.sleep(0.25)
        return []

    def _end_step(self, launch: Launch) -> None:
        assert self._allocation is not None
        try:
            self._end(self._allocation.job, Scratch.of(self.folder, launch).job_name)
        except TransientError:
            # Its processes on this node have ended. The next reap ends what is left elsewhere.
            return


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
