"""A campaign's shards as a job array: our own script, within what the scheduler takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.runners.schedulers.base import Scheduler
from stripewise.runners.schedulers.job import Call
from stripewise.runners.schedulers.registry import arrays_of
from stripewise.shell import check_job_name, directive, quote_all


@dataclass(frozen=True)
class Array:
    """A job array that makes a campaign.

    Attributes
    ----------
    command : tuple of str
        Makes the campaign; gets ``--shard``.
    shards, at_once, nodes : int
        ``at_once`` shards run at a time: more than one disturb each other.
    directives : tuple of str
        Options for the scheduler, as ``--time=2:00:00``; they win over ours.
    """

    name: str
    command: tuple[str, ...]
    shards: int
    at_once: int
    nodes: int
    processes_per_node: int
    logs: Path
    directives: tuple[str, ...] = ()

    def script(self, scheduler: Scheduler) -> str:
        """Write the job script.

        Raises
        ------
        UserError
            If the scheduler has no arrays, or a directive asks for too few nodes.
        """
        arrays = arrays_of(scheduler)
        name = check_job_name(f"stripewise-{self.name}")
        resources = scheduler.resource_options(self.nodes, self.processes_per_node, exclusive=True)
        asked = scheduler.read_options(self.directives)
        if asked.nodes is not None and asked.nodes < self.nodes:
            raise UserError(
                f"the campaign needs {self.nodes} nodes, and a directive asks for {asked.nodes}", "raise it"
            )
        last = [*scheduler.name_options(name), *arrays.options(self.shards, min(self.at_once, self.shards), self.logs)]
        lines = [directive(scheduler.mark, option) for option in (*resources, *self.directives, *last)]
        return (
            "#!/bin/bash\n" + "\n".join(lines) + "\n"
            "# A shard that was interrupted continues where it was: submit this again.\n"
            f'exec {quote_all(self.command)} --shard "${arrays.index}/{self.shards}"\n'
        )


def submit(script: Path, scheduler: Scheduler, call: Call) -> str:
    """Submit a job array and give its number.

    Raises
    ------
    StripewiseError
        If the scheduler refuses it.
    """
    words = arrays_of(scheduler).submit(script)
    done = call(words)
    if done.returncode:
        said = (done.stderr.strip() or f"{words[0]} failed").splitlines()[-1]
        raise StripewiseError(f"the scheduler refused the array: {said}", f"correct it, then: {words[0]} {script}")
    return done.stdout.strip().partition(";")[0]
