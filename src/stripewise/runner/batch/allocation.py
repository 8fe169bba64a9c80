"""The Slurm allocation that Stripewise runs in: its nodes, and the steps that go on in it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stripewise.errors import TransientError, UserError
from stripewise.runner.batch.scheduler import Scheduler
from stripewise.runner.batch.slurm import parse_queue

_END_SECONDS = 60.0


@dataclass(frozen=True)
class Allocation:
    """Nodes that belong to us for a while.

    Attributes
    ----------
    job : str
    nodes : tuple of str
    """

    job: str
    nodes: tuple[str, ...]

    def slots(self, size: int) -> list[tuple[str, ...]]:
        """Divide the nodes into sets of a size; what is left over stays idle."""
        return [self.nodes[at : at + size] for at in range(0, len(self.nodes) - size + 1, size)]


def find_allocation(environment: Mapping[str, str], scheduler: Scheduler) -> Allocation:
    """Find the allocation that this process is in.

    Raises
    ------
    UserError
        If it is in none.
    """
    job, nodes = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_JOB_NODELIST", "")
    if not job or not nodes:
        raise UserError(
            "runner steps works inside a Slurm allocation, and this is none",
            "start it by salloc or in a job script, or use --runner batch",
        )
    done = scheduler.call(["scontrol", "show", "hostnames", nodes])
    names = tuple(done.stdout.split())
    if done.returncode or not names:
        raise UserError(
            f"cannot read the node list {nodes}: {done.stderr.strip() or 'scontrol printed nothing'}",
            "is Slurm's module loaded?",
        )
    return Allocation(job, names)


def steps_named(allocation: str, name: str, scheduler: Scheduler) -> list[str]:
    """Give the steps of an allocation that have a name and are not over.

    Raises
    ------
    TransientError
        If Slurm does not answer.
    """
    done = scheduler.call(["squeue", "--steps", "--noheader", "--jobs", allocation, "--format=%i|RUNNING||%j"])
    if done.returncode:
        if "Invalid job id" in done.stderr:
            return []
        raise TransientError(f"squeue failed: {done.stderr.strip()}", "Slurm may be restarting")
    lines = [line.strip().split("|") for line in done.stdout.splitlines()]
    return [fields[0] for fields in lines if len(fields) == 4 and fields[3] == name]


def end_steps(allocation: str, name: str, scheduler: Scheduler, wait: float = _END_SECONDS) -> Sequence[str]:
    """End the steps of a name, and wait until they are over.

    Returns
    -------
    sequence of str
        Steps that go on in spite of it.

    Raises
    ------
    TransientError
        If Slurm does not answer.
    """
    deadline = time.monotonic() + wait
    while left := steps_named(allocation, name, scheduler):
        if time.monotonic() > deadline:
            return left
        scheduler.call(["scancel", "--quiet", *left])
        time.sleep(0.25)
    return ()


def nodes_left(job: str, scheduler: Scheduler) -> tuple[str, ...]:
    """Give the nodes that belong to an allocation now: one that went down leaves it, also if it comes back.

    Raises
    ------
    TransientError
        If Slurm does not answer.
    """
    done = scheduler.call(["squeue", "--noheader", "--jobs", job, "--format=%N"])
    named = done.stdout.strip()
    if done.returncode or not named:
        raise TransientError(f"squeue failed: {done.stderr.strip()}", "Slurm may be restarting")
    expanded = scheduler.call(["scontrol", "show", "hostnames", named])
    if expanded.returncode:
        raise TransientError(f"scontrol failed: {expanded.stderr.strip()}", "Slurm may be restarting")
    return tuple(expanded.stdout.split())


def is_over(job: str, scheduler: Scheduler) -> bool:
    """Whether an allocation is over, with all its steps.

    Raises
    ------
    TransientError
        If Slurm does not answer.
    """
    done = scheduler.call(["squeue", "--noheader", "--states=all", "--jobs", job, "--format=%i|%T|%r|%j"])
    if done.returncode and "Invalid job id" not in done.stderr:
        raise TransientError(f"squeue failed: {done.stderr.strip()}", "Slurm may be restarting")
    live = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED")
    return not any(line.state in live for line in parse_queue(done.stdout))
