"""How runs go through a batch system: the ``[batch]`` table."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from stripewise.shell import DirectiveOption, ResourceName


class Batch(BaseModel):
    """The ``[batch]`` table: runs as jobs of a scheduler, or as steps within an allocation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    scheduler: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")] = "slurm"
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
