"""A campaign's shards as a job array of Slurm: our own script, within what the scheduler takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from stripewise.errors import StripewiseError, UserError
from stripewise.shell import check_job_name, directive, directive_path, quote_all
from stripewise.spec.batch import of_lines

Call = Callable[[Sequence[str]], "CompletedProcess[str]"]
"""Runs one of Slurm's commands."""


@dataclass(frozen=True)
class ArrayLimits:
    """How many tasks Slurm takes.

    Attributes
    ----------
    size : int or None
        Most tasks of one array (one less than ``MaxArraySize``, which bounds the index).
    submit : int or None
        Most jobs that the user may have submitted (``MaxSubmitJobs``); None where nothing is said of it.
    """

    size: int | None = None
    submit: int | None = None

    def allowed(self, wanted: int) -> tuple[int, str]:
        """Give the number of shards that fit, and why it is fewer than wanted; empty if it is not."""
        bounds = {"MaxArraySize": self.size, "MaxSubmitJobs": self.submit}
        known = {name: value for name, value in bounds.items() if value is not None and value < wanted}
        if not known:
            return wanted, ""
        name = min(known, key=lambda key: known[key])
        return known[name], f"{known[name]} shards in place of {wanted}: {name} of this cluster allows no more"


def find_limits(call: Call, user: str) -> ArrayLimits:
    """Ask Slurm for its limits; without accounting there are none for a user.

    Raises
    ------
    StripewiseError
        If the controller does not answer, or allows no arrays.
    """
    done = call(["scontrol", "show", "config"])
    if done.returncode:
        raise StripewiseError(f"scontrol failed: {done.stderr.strip()}", "submit where Slurm answers")
    size = re.search(r"^MaxArraySize\s*=\s*(\d+)", done.stdout, re.MULTILINE)
    if size is not None and int(size[1]) < 2:
        raise UserError("this cluster allows no job arrays (MaxArraySize)", "submit shards one by one: --shard i/n")
    told = call(["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}", "format=MaxSubmitJobs"])
    numbers = [int(line) for line in told.stdout.split() if line.isdigit()] if told.returncode == 0 else []
    return ArrayLimits(int(size[1]) - 1 if size else None, min(numbers, default=None))


@dataclass(frozen=True)
class Array:
    """A job array that makes a campaign.

    Attributes
    ----------
    name : str
    command : tuple of str
        Makes the campaign; gets ``--shard``.
    shards, at_once, nodes : int
        ``at_once`` shards run at a time: more than one disturb each other.
    processes_per_node : int
    logs : Path
    directives : tuple of str
        Options for sbatch, as ``--time=2:00:00``; they win over ours.
    """

    name: str
    command: tuple[str, ...]
    shards: int
    at_once: int
    nodes: int
    processes_per_node: int
    logs: Path
    directives: tuple[str, ...] = ()

    def script(self) -> str:
        """Write the job script."""
        own = [
            f"--job-name=stripewise-{check_job_name(self.name)}",
            f"--nodes={self.nodes}",
            f"--ntasks-per-node={self.processes_per_node}",
            "--exclusive",
        ]
        asked = of_lines([directive("#SBATCH", option) for option in self.directives], "slurm")
        if asked.nodes is not None and asked.nodes < self.nodes:
            raise UserError(
                f"the campaign needs {self.nodes} nodes, and a directive asks for {asked.nodes}", "raise it"
            )
        last = [
            f"--array=1-{self.shards}%{min(self.at_once, self.shards)}",
            f"--output={directive_path(Path(str(self.logs).replace('%', '%%')) / '%a.out')}",
            "--export=ALL",
        ]
        lines = [directive("#SBATCH", option) for option in (*own, *self.directives, *last)]
        return (
            "#!/bin/bash\n" + "\n".join(lines) + "\n"
            "# A shard that was interrupted goes on where it was: submit this again.\n"
            f'exec {quote_all(self.command)} --shard "$SLURM_ARRAY_TASK_ID/{self.shards}"\n'
        )


def submit(script: Path, call: Call) -> str:
    """Submit a job array and give its number.

    Raises
    ------
    StripewiseError
        If Slurm refuses it.
    """
    done = call(["sbatch", "--parsable", str(script)])
    if done.returncode:
        said = (done.stderr.strip() or "sbatch failed").splitlines()[-1]
        raise StripewiseError(f"the scheduler refused the array: {said}", f"correct it, then: sbatch {script}")
    return done.stdout.strip().partition(";")[0]
