"""A campaign: benchmark runs over workloads and tunables, as written in a file; one table comes of it."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stripewise.catalogue.factor import WORKLOAD_ROLES, Factor, Operation, Tunable
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Size
from stripewise.documents import Bundled, explain_validation, parse_document
from stripewise.requests.experiment import Batch
from stripewise.shell import ShellLine, VariableName, VariableValue

_CAMPAIGNS = Bundled("campaign", "requests/campaigns")
# What may change between sessions of one campaign without making its runs another's.
_NOT_IDENTITY = {"description", "source", "license", "limits", "timeout", "batch"}
LAUNCHING = ("local", "batch", "steps")
"""Runners that launch programs on a machine, in place of computing or replaying their figures."""


class DesignEntry(BaseModel):
    """The ``[design]`` table: which of all combinations are measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["grid", "subset", "latin_hypercube", "sequential"] = Field(
        default="grid",
        description="all; some at random; some spread evenly over every factor; or chosen one after the other, "
        "where an ensemble of trees is most uncertain",
    )
    size: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="combinations per operation; all kinds except a grid need it"
    )
    initial: Annotated[int, Field(ge=4)] = Field(
        default=16, description="sequential: combinations, spread evenly, before the first choice"
    )
    batch: Annotated[int, Field(ge=1)] = Field(default=8, description="sequential: combinations chosen at a time")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind != "grid" and self.size is None:
            raise ValueError(f"a {self.kind} design needs a size")
        if self.kind == "grid" and self.size is not None:
            raise ValueError("a grid has the size that its values give; use kind = 'subset' for fewer")
        return self


class FilesEntry(BaseModel):
    """The ``[files]`` table: where the benchmark's file lies and what is done to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    folder: str = Field(default="", description="a folder on the file system to be measured; also `--folder`")
    name: str = Field(
        default="stripewise-profile.dat",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="of the file, or the first part of its names",
    )
    sync: bool = Field(default=True, description="a write counts when it is on the disk")
    caches: Literal["none", "advise", "system"] = Field(
        default="advise",
        description="before each read: pages are dropped from this node's memory, or its whole cache is dropped (root)",
    )


class LimitsEntry(BaseModel):
    """The ``[limits]`` table: a campaign that could exceed one is not started."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    runs: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="most runs; a campaign with more is not started"
    )
    bytes: Size | None = Field(default=None, description="most bytes moved in total; likewise")
    free: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.1, description="share of the file system's blocks and inodes that must stay free"
    )
    seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="of a session; it ends by itself and can be continued"
    )
    node_hours: Annotated[float, Field(gt=0)] | None = Field(default=None, description="of a session; likewise")


class Campaign(BaseModel):
    """Everything that fixes a campaign."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(
        min_length=1,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$",
        description="letters, digits, `.`, `_` and `-`; of the table, too",
    )
    description: str = Field(default="", description="copied into the table")
    source: str = Field(default="", description="copied into the table")
    license: str = Field(default="", description="copied into the table")
    runner: str = Field(
        default="local",
        description="`local`: launches on this host. `batch`: each run is a job. `steps`: a step of the Slurm "
        "allocation. `sim:NAME-or-FILE`: a simulated site. `replay:TABLE`: a measured table, with all "
        "its contexts",
    )
    program: Literal["kernel", "ior", "command"] = Field(
        default="kernel", description="the benchmark program, IOR, or a program of your own"
    )
    executable: VariableValue = Field(
        default="",
        description="path of kernel or IOR; by default the kernel is built for the launcher's MPI, and IOR is "
        "looked for on the path",
    )
    command: list[VariableValue] = Field(
        default_factory=list,
        description='of `program = "command"`: words with `{NAME}` for a factor\'s value, `{operation}` and '
        "`{file}`. The program gets no standard input: write `bash -c './app < deck'`",
    )
    launcher: list[VariableValue] = Field(
        default_factory=list,
        description="with `{processes}`, `{nodes}`, `{processes_per_node}`; by default `mpiexec -n {processes}`, in "
        "jobs and steps `srun` where it exists",
    )
    stacks: list[str] = Field(
        default_factory=list, description="the stacks that describe the tunables, by name or file"
    )
    operations: list[Operation] = Field(
        default=["write", "read"], min_length=1, description="`write`, `read`, in the order in which they are made"
    )
    objective: str = Field(
        default="bandwidth",
        description="`bandwidth` is that of the operation, from open to close; or an objective of experiment files",
    )
    direction: Literal["minimize", "maximize"] | None = Field(default=None, description="of a `regex:` objective")
    unit: str | None = Field(default=None, description="of a `regex:` objective")
    repeats: Annotated[int, Field(ge=1, le=10_000)] = Field(default=3, description="runs of each combination")
    warmup: Annotated[int, Field(ge=0, le=100)] = Field(
        default=1, description="runs of each operation that are not recorded, in each session"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default=0, description="of the design and the order")
    timeout: Annotated[float, Field(gt=0)] = Field(
        default=3600.0, description="seconds after which a run counts as hung"
    )
    setup: list[ShellLine] = Field(default_factory=list, description="shell lines before each run: `module load ...`")
    env: dict[VariableName, VariableValue] = Field(default_factory=dict, description="variables for the program")
    constraints: list[str] = Field(
        default_factory=list,
        description="expressions over factors and words of the workload that must hold; the table keeps them",
    )
    design: DesignEntry = Field(default=DesignEntry(), description="which combinations are measured")
    files: FilesEntry = Field(default=FilesEntry(), description="where the benchmark's file lies")
    limits: LimitsEntry = Field(default=LimitsEntry(), description="what the campaign may use")
    batch: Batch = Field(default=Batch(), description="how runs go through a scheduler")
    workload: list[Factor] = Field(default_factory=list, max_length=100, description="factors that cannot be tuned")
    tunable: list[Tunable] = Field(min_length=1, max_length=100, description="factors that can")

    @field_validator("command", "launcher", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return shlex.split(value) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _from_stacks(cls, data: Any) -> Any:
        """Fill in what a stack knows of a tunable."""
        if not isinstance(data, dict) or not isinstance(data.get("tunable"), list):
            return data
        stacks = data.get("stacks")
        known = {
            parameter.name: parameter
            for name in (stacks if isinstance(stacks, list) else [])
            for parameter in load_stack(str(name)).parameters
        }
        filled = []
        for entry in data["tunable"]:
            parameter = (
                known.get(str(entry.get("name"))) if isinstance(entry, dict) and not entry.get("carrier") else None
            )
            if parameter is not None:
                about: dict[str, Any] = {"role": parameter.role, "unit": parameter.unit, "scale": parameter.scale.value}
                about["operations"] = list(parameter.operations)
                if not parameter.ordered:
                    about |= {"kind": "categorical", "scale": "linear"}
                entry = {**about, **{key: value for key, value in entry.items() if value is not None}}  # noqa: PLW2901
            filled.append(entry)
        return {**data, "tunable": filled}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.runner.startswith("replay:") and "@" in self.runner:
            raise ValueError("runner: a campaign replays every context of its table; leave out '@' and what follows it")
        names = [factor.name for factor in self.factors]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two factors are called {name}")
        roles = [factor.role for factor in self.factors if factor.role in WORKLOAD_ROLES]
        for role in roles:
            if roles.count(role) > 1:
                raise ValueError(f"two factors have the role {role}")
        if {"processes", "processes_per_node"} <= set(roles):
            raise ValueError("give processes or processes_per_node, not both")
        if self.batch.nodes is not None or self.batch.processes_per_node is not None:
            raise ValueError("[batch]: nodes and processes_per_node of a run are those of its workload")
        if len(set(self.operations)) != len(self.operations):
            raise ValueError("an operation is named twice")
        if self.program == "command" and self.launches and not self.command:
            raise ValueError("program = 'command' needs a command")
        if self.program != "command" and self.command:
            raise ValueError(f"command belongs to program = 'command', not to {self.program}")
        return self

    @property
    def factors(self) -> list[Factor]:
        """Workload, then tunables."""
        return [*self.workload, *self.tunable]

    @property
    def launches(self) -> bool:
        """Whether programs are launched on a machine."""
        return self.runner in LAUNCHING

    @property
    def digest(self) -> str:
        """What tells this campaign's runs from another's (16 hex digits)."""
        content = self.model_dump(mode="json", exclude=_NOT_IDENTITY)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def assumptions(self) -> dict[str, list[Any]]:
        """Values that the study followed does not print, by factor."""
        return {factor.name: list(factor.assumed) for factor in self.factors if factor.assumed}


def parse_campaign(text: str, origin: str) -> Campaign:
    """Read a campaign from TOML.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    return parse_document(Campaign, text, origin)


def preset_names() -> list[str]:
    """List the campaigns that come with Stripewise."""
    return _CAMPAIGNS.names()


def campaign_text(name: str) -> tuple[str, str]:
    """Give the text of a campaign file or preset, and its name for messages.

    Raises
    ------
    UserError
        If the file or preset does not exist.
    """
    return _CAMPAIGNS.find(name)


def load_campaign(name: str, changes: Iterable[tuple[str, Any]] = ()) -> Campaign:
    """Read a campaign file, or a preset by its name.

    Parameters
    ----------
    changes : iterable of (str, value)
        Keys to be put in place of the file's, tables as ``table.key``.

    Raises
    ------
    UserError
        If it cannot be read or is wrong.
    """
    text, origin = campaign_text(name)
    return changed_campaign(parse_campaign(text, origin), changes, origin)


def changed_campaign(campaign: Campaign, changes: Iterable[tuple[str, Any]], origin: str) -> Campaign:
    """Give a campaign with other values of some keys; parameters and errors as for :func:`load_campaign`."""
    fields = campaign.model_dump(mode="json", exclude_unset=True)
    changed = False
    for key, value in changes:
        table, _, rest = key.partition(".")
        if rest:
            fields[table] = {**fields.get(table, {}), rest: value}
        else:
            fields[key] = value
        changed = True
    if not changed:
        return campaign
    try:
        return Campaign.model_validate(fields)
    except ValidationError as error:
        raise explain_validation(error, origin) from error
