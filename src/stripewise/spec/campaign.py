"""A campaign: benchmark runs over workloads and tunables, as written in a file; one table comes of it."""

from __future__ import annotations

import hashlib
import json
import shlex
import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stripewise.errors import UserError
from stripewise.spec.parameter import Apply
from stripewise.spec.sizes import parse_size
from stripewise.spec.stack import Scalar, explain_validation, load_stack
from stripewise.spec.workload import Size

Operation = Literal["read", "write"]

SIZES = ("file_size", "transfer_size", "piece_size", "stripe_size", "collective_buffer_size", "sieving_buffer_size")
"""Roles whose values are bytes."""

WORKLOAD_ROLES = (
    *("nodes", "processes", "processes_per_node", "file_size", "transfer_size", "piece_size", "layout", "collective"),
    *("file_per_process", "api"),
)
"""Roles that say what the program does: they become words of its command line."""

_COUNTS = ("nodes", "processes", "processes_per_node")
_ROLES = (*WORKLOAD_ROLES, *SIZES, "stripe_count", "aggregators", "collective_buffering", "data_sieving")
_MAX_BYTES = 1 << 20
# What may change between sessions of one campaign without making its runs another's.
_NOT_IDENTITY = {"description", "source", "license", "limits", "timeout"}


class Factor(BaseModel):
    """A ``[[workload]]`` table: something that cannot be tuned, with the values to be measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    values: list[Scalar] = Field(min_length=1)
    role: str = Field(default="", description="the field's word for it; by default the name, where that is one")
    kind: Literal["ordinal", "categorical"] | None = None
    unit: str | None = None
    scale: Literal["linear", "log2"] | None = None
    default: Scalar | None = None
    assumed: list[Scalar] = Field(
        default_factory=list, description="values that the study followed does not print: chosen by whoever wrote this"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("values"), list):
            return data
        data = dict(data)
        role = data.get("role") or (data.get("name") if data.get("name") in _ROLES else "other")
        data["role"] = role
        if data.get("unit") is None and role in SIZES:
            data["unit"] = "B"
        if data.get("unit") == "B":
            for key in ("values", "assumed"):
                data[key] = [_size(value) for value in data.get(key, [])]
            if data.get("default") is not None:
                data["default"] = _size(data["default"])
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.name.isidentifier():
            raise ValueError(f"'{self.name}' is no name: use letters, digits and underscores")
        if self.name in ("operation", "repeat"):
            raise ValueError(f"'{self.name}' is kept for the table's own column; operations are named at the top")
        if len(set(map(repr, self.values))) != len(self.values):
            raise ValueError(f"{self.name} lists a value twice")
        if self.ordered and [*self.values] != sorted(self.values, key=float):
            raise ValueError(f"{self.name}: values must ascend")
        if self.role in _COUNTS and any(isinstance(v, bool | str | float) or v < 1 for v in self.values):
            raise ValueError(f"{self.name}: the number of {self.role} must be whole and at least 1")
        if self.axis == "log2" and float(self.values[0]) <= 0:
            raise ValueError(f"{self.name} has scale log2 but a value of {self.values[0]}")
        for given, what in ((self.assumed, "assumed"), ([] if self.default is None else [self.default], "default")):
            unknown = [value for value in given if value not in self.values]
            if unknown and not (what == "default" and isinstance(self, Tunable)):
                raise ValueError(f"{self.name}: {what} {unknown[0]!r} is not among its values")
        return self

    @property
    def ordered(self) -> bool:
        """Whether values can be compared by size."""
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)
        if self.kind == "ordinal" and not numbers:
            raise ValueError(f"{self.name} is ordinal but has a value that is no number")
        return numbers and self.kind != "categorical"

    @property
    def axis(self) -> Literal["linear", "log2"]:
        """The scale: log2 where values are sizes or grow by factors, unless declared."""
        if self.scale is not None or not self.ordered:
            return self.scale or "linear"
        values = [float(value) for value in self.values]
        doubling = (
            len(values) > 1 and values[0] > 0 and all(b / a >= 2 for a, b in zip(values, values[1:], strict=False))
        )
        return "log2" if doubling else "linear"


class Tunable(Factor):
    """A ``[[tunable]]`` table: something that a user can set; how is known from a stack, or said here."""

    operations: list[Operation] = Field(
        default=["read", "write"], description="for which it can be set; for others it belongs to the workload"
    )
    apply: Apply | None = Field(default=None, description="how it is set, where no stack says so")
    key: str = ""
    active_if: str | None = None


class DesignEntry(BaseModel):
    """The ``[design]`` table: which of all combinations are measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["grid", "subset", "latin_hypercube", "sequential"] = "grid"
    size: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="combinations an operation; all but a grid need it"
    )
    initial: Annotated[int, Field(ge=4)] = Field(
        default=16, description="sequential: combinations measured before the first choice"
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
    folder: str = Field(default="", description="of the file system that is measured; needed unless simulated")
    name: str = Field(default="stripewise-profile.dat", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    sync: bool = Field(default=True, description="a write counts when it is on the disk (fsync inside its time)")
    caches: Literal["none", "advise", "system"] = Field(
        default="advise", description="before each read: pages leave this node's memory; or the whole cache (root)"
    )


class LimitsEntry(BaseModel):
    """The ``[limits]`` table: a campaign that could exceed one is not started."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    runs: Annotated[int, Field(ge=1)] | None = None
    bytes: Size | None = None
    free: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.1, description="share of the file system's blocks and inodes that must stay free"
    )
    seconds: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="of a session; it ends by itself and can be resumed"
    )
    node_hours: Annotated[float, Field(gt=0)] | None = None


class Campaign(BaseModel):
    """Everything that fixes a campaign."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    description: str = ""
    source: str = ""
    license: str = ""
    runner: str = "local"
    program: Literal["kernel", "ior", "command"] = "kernel"
    executable: str = Field(default="", description="path of kernel or ior, if not the one that is found")
    command: list[str] = Field(default_factory=list, description="of program = 'command', with placeholders")
    launcher: list[str] = Field(default_factory=list, description="with {processes}, {nodes}, {processes_per_node}")
    stacks: list[str] = Field(default_factory=list)
    operations: list[Operation] = Field(default=["write", "read"], min_length=1)
    objective: str = Field(default="bandwidth", description="bandwidth is that of the operation")
    direction: Literal["minimize", "maximize"] | None = None
    unit: str | None = None
    repeats: Annotated[int, Field(ge=1, le=10_000)] = 3
    warmup: Annotated[int, Field(ge=0, le=100)] = 1
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    timeout: Annotated[float, Field(gt=0)] = 3600.0
    setup: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    constraints: list[str] = Field(default_factory=list)
    design: DesignEntry = DesignEntry()
    files: FilesEntry = FilesEntry()
    limits: LimitsEntry = LimitsEntry()
    workload: list[Factor] = Field(default_factory=list)
    tunable: list[Tunable] = Field(min_length=1)

    @field_validator("command", "launcher", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return shlex.split(value) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _from_stacks(cls, data: Any) -> Any:
        """What a stack knows of a tunable need not be said again."""
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
                known.get(str(entry.get("name"))) if isinstance(entry, dict) and not entry.get("apply") else None
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
        if len(set(self.operations)) != len(self.operations):
            raise ValueError("an operation is named twice")
        if self.program == "command" and self.runner == "local" and not self.command:
            raise ValueError("program = 'command' needs a command")
        if self.program != "command" and self.command:
            raise ValueError(f"command belongs to program = 'command', not to {self.program}")
        return self

    @property
    def factors(self) -> list[Factor]:
        """Workload, then tunables."""
        return [*self.workload, *self.tunable]

    @property
    def digest(self) -> str:
        """What tells this campaign's runs from another's (16 hex digits)."""
        content = self.model_dump(mode="json", exclude=_NOT_IDENTITY)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def assumptions(self) -> dict[str, list[Any]]:
        """Values that the study followed does not print, by factor."""
        return {factor.name: list(factor.assumed) for factor in self.factors if factor.assumed}


def _size(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


def parse_campaign(text: str, origin: str) -> Campaign:
    """Read a campaign from TOML.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    try:
        return Campaign.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{origin} is no TOML: {error}", "mend the line it names") from error
    except ValidationError as error:
        raise explain_validation(error, origin) from error
    except UserError as error:
        raise UserError(f"{origin}: {error.what}", error.mend) from error


def preset_names() -> list[str]:
    """List the campaigns that come with Stripewise."""
    folder = resources.files("stripewise.spec") / "campaigns"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def campaign_text(name: str) -> tuple[str, str]:
    """Give the text of a campaign file or preset, and its name for messages.

    Raises
    ------
    UserError
        If there is no such file or preset.
    """
    if name in preset_names():
        text = (resources.files("stripewise.spec") / "campaigns" / f"{name}.toml").read_text("utf-8")
        return text, f"preset {name}"
    path = Path(name)
    if path.suffix != ".toml" and not path.exists():
        raise UserError(
            f"there is no campaign '{name}'",
            f"choose from {', '.join(preset_names())}, or give the path of a .toml file",
        )
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UserError(f"campaign file {path} is larger than 1 MiB", "is it the right file?")
        return path.read_text("utf-8"), str(path)
    except OSError as error:
        raise UserError(f"cannot read the campaign file {path}: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"campaign file {path} is not UTF-8 text", "is it the right file?") from error


def load_campaign(name: str, changes: Iterable[tuple[str, Any]] = ()) -> Campaign:
    """Read a campaign file, or a preset by its name.

    Parameters
    ----------
    name : str
    changes : iterable of (str, value)
        Keys to be put in place of the file's, tables as ``table.key``.

    Raises
    ------
    UserError
        If it cannot be read or is wrong.
    """
    text, origin = campaign_text(name)
    campaign = parse_campaign(text, origin)
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
