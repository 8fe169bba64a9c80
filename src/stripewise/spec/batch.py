"""How runs go through a batch system: the ``[batch]`` table, and the directives of a user's own script."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stripewise.shell import DirectiveOption, ResourceName

MARKS = {"slurm": "#SBATCH", "pbs": "#PBS", "pbs_classic": "#PBS", "lsf": "#BSUB", "flux": "#flux:"}
"""How a line of a job script begins that is meant for the scheduler."""

_NODES = {
    "slurm": re.compile(r"(?:--nodes[= ]|-N ?)(\d+)"),
    "pbs": re.compile(r"-l ?(?:select=|nodes=)(\d+)"),
    "pbs_classic": re.compile(r"-l ?(?:select=|nodes=)(\d+)"),
    "lsf": re.compile(r"-nnodes ?(\d+)"),
    "flux": re.compile(r"(?:--nodes[= ]|-N ?)(\d+)"),
}
_TIME = {
    "slurm": re.compile(r"(?:--time[= ]|-t ?)([\d:-]+)"),
    "pbs": re.compile(r"-l ?walltime=([\d:]+)"),
    "pbs_classic": re.compile(r"-l ?walltime=([\d:]+)"),
    "lsf": re.compile(r"-W ?([\d:]+)"),
    "flux": re.compile(r"(?:--time-limit[= ]|-t ?)([\d.]+[smhd]?)"),
}
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Batch(BaseModel):
    """The ``[batch]`` table: runs as jobs of a scheduler, or as steps within an allocation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    scheduler: Literal["slurm", "pbs", "pbs_classic", "lsf", "flux"] = "slurm"
    nodes: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="nodes of a run; from the command or the script's directives if left out"
    )
    processes_per_node: Annotated[int, Field(ge=1, le=100_000)] | None = None
    jobs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="runs at the same time; 1 for jobs, as many as there are nodes for in steps"
    )
    walltime: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="seconds of a job; by default from the run's time limit and its hooks"
    )
    queue: ResourceName | None = Field(default=None, description="partition or queue")
    account: ResourceName | None = None
    reservation: ResourceName | None = None
    exclusive: bool = Field(default=True, description="no other job on the nodes")
    directives: list[DirectiveOption] = Field(
        default_factory=list, description="further options of the scheduler, one a line, as `--constraint=haswell`"
    )
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        default=1, description="times that a run is submitted again after the machine lost it"
    )
    patience: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=600.0, description="seconds for which a scheduler may fail to take or to look up jobs"
    )
    poll: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=5, description="seconds between two looks at the scheduler's queue"
    )


@dataclass(frozen=True)
class Directives:
    """What a job script asks the scheduler for.

    Attributes
    ----------
    lines : tuple of str
        As they are written, with their mark.
    nodes : int or None
    walltime : float or None
        Seconds.
    """

    lines: tuple[str, ...] = ()
    nodes: int | None = None
    walltime: float | None = None


def read_directives(text: str, scheduler: str) -> Directives:
    r"""Read the directives at the head of a job script: as schedulers do, up to its first command.

    Examples
    --------
    >>> read_directives("#!/bin/sh\n#SBATCH -N 4 --time=10\nsrun ./app\n#SBATCH -N 8\n", "slurm")
    Directives(lines=('#SBATCH -N 4 --time=10',), nodes=4, walltime=600.0)
    """
    mark = MARKS[scheduler]
    lines = []
    # Only a line feed parts lines, for bash and schedulers alike: str.splitlines knows ten more characters.
    for line in text.split("\n"):
        bare = line.strip()
        if bare.startswith(mark):
            lines.append(bare)
        elif bare and not bare.startswith("#"):
            break
    return of_lines(lines, scheduler)


def of_lines(lines: list[str], scheduler: str) -> Directives:
    """Give directives with what they say of nodes and time; of several the last one counts."""
    said = " ".join(_bare(line, MARKS[scheduler]) for line in lines)
    nodes = _NODES[scheduler].findall(f" {said}")
    time = _TIME[scheduler].findall(f" {said}")
    return Directives(
        tuple(lines), int(nodes[-1]) if nodes else None, walltime_seconds(time[-1], scheduler) if time else None
    )


def _bare(line: str, mark: str) -> str:
    try:
        return " ".join(shlex.split(line.removeprefix(mark), comments=True))
    except ValueError:
        return line.removeprefix(mark)


def walltime_seconds(text: str, scheduler: str) -> float | None:
    """Read a time limit as the scheduler does; None where it is none.

    Slurm's single number is minutes, and so is that of LSF; PBS counts seconds. Sources: the manual pages of sbatch,
    qsub, bsub and flux-batch.
    """
    if scheduler == "flux":
        unit = text[-1] if text[-1:].isalpha() else ""
        return float(text.removesuffix(unit)) * _UNITS[unit] if unit else 60.0 * float(text)
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in (*parts, *([days] if dash else []))) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:
        scaled = zip(numbers, (3600, 60, 1), strict=False)
    elif len(numbers) == 3:
        scaled = zip(numbers, (3600, 60, 1), strict=True)
    elif scheduler == "slurm":
        scaled = zip(numbers, (60, 1), strict=False)
    elif scheduler == "lsf":
        scaled = zip(numbers, (3600, 60) if len(numbers) == 2 else (60,), strict=True)
    else:
        scaled = zip(numbers, (60, 1) if len(numbers) == 2 else (1,), strict=True)
    return float(86400 * int(days or 0) + sum(number * factor for number, factor in scaled))
