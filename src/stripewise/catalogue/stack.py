"""Stack files: named sets of parameters of one layer, read from TOML.

A user's own file has the same form, so any component can be tuned without code; see ``docs/reference/stack-files.md``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from stripewise.catalogue.carriers import ARGUMENT, Carrier
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import OPERATIONS, Breakage, Kind, KnownValue, Parameter, Safety, Scale, Scope, When
from stripewise.catalogue.space import Derived, Knowledge
from stripewise.documents import Bundled, parse_document
from stripewise.errors import UserError
from stripewise.shell import VariableName, VariableValue
from stripewise.sizes import parse_size

_STACKS = Bundled("stack", "catalogue/stacks")
_MAX_VALUES = 1_000_000
_LONGEST = 4096
"""Characters of a value: spaces hold all values of a parameter as an array."""
_LARGEST = 1 << 62
_ENDS = ("lowest", "highest")
_SHORT = ("argument", "env", "file")
_WITH_KEY = ("file",)
"""Carriers that an entry may name by a key of its own, and those of them whose key stands beside it."""
_NOT_COPIED = ("low", "high", "step", "scale")
EXPRESSIONS = ("active_if", "same_as_default", "maximum_from", "default_from")
"""Keys of a parameter that hold expressions."""


def _make_plain(value: Any) -> Any:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a number, a text or true/false")
    if isinstance(value, str) and len(value) > _LONGEST:
        raise ValueError(f"must be a text of at most {_LONGEST} characters")
    if isinstance(value, int) and abs(value) >= _LARGEST:
        raise ValueError(f"must be a number below {_LARGEST:,}")
    return value


Scalar = Annotated[Any, BeforeValidator(_make_plain)]


def read_carrier(data: Any) -> Any:
    """Write ``argument``, ``env`` and ``file`` as carrier and key; refuse the key that ``carrier`` had before."""
    if not isinstance(data, dict):
        return data
    if "apply" in data:
        raise ValueError(f"'apply' is called 'carrier' now, and is one of {', '.join(Carrier.known)}")
    words = [word for word in _SHORT if word in data]
    if not words:
        return data
    if len(words) > 1 or "carrier" in data:
        raise ValueError(f"has {' and '.join([*words, *(['carrier'] if 'carrier' in data else [])])}: keep one of them")
    short, key = data[words[0]], data.get("key")
    if not isinstance(short, str) or not short:
        raise ValueError(f"'{words[0]}' must be a text")
    if words[0] in _WITH_KEY:
        if not isinstance(key, str) or not key:
            raise ValueError(f"'{words[0]}' needs 'key', the name of the entry in the file, as in \"io.buffer_size\"")
        key = f"{short}:{key}"
    elif key is not None:
        raise ValueError(f"'{words[0]}' is the key: leave 'key' out")
    else:
        key = short
    return {**{k: v for k, v in data.items() if k != words[0]}, "carrier": words[0], "key": key}


class ParameterEntry(BaseModel):
    """A ``[[parameter]]`` table of a stack file, or a ``[parameters.NAME]`` table of an experiment file."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="letters, digits, underscores; unique among the stacks used")
    kind: Kind = Field(description="`integer`, `ordinal` (ordered), `categorical`, `boolean`")
    values: list[Scalar] | None = Field(default=None, description="all values; ascending where ordered")
    other_values: bool = Field(
        default=False,
        description="`categorical`: the component also understands words that `values` does not list; experiments "
        "and plans may name them",
    )
    low: Scalar | None = Field(default=None, description="integer: smallest value, instead of `values`")
    high: Scalar | None = Field(default=None, description="integer: largest value; always tried, whatever `step`")
    step: int | None = Field(default=None, ge=1, description="integer: distance of values")
    default: Scalar | None = Field(
        default=None,
        description="the value that acts when nothing is set; the first value if left out. It is never emitted",
    )
    unit: str = Field(default="", description='`B` lets sizes be written as `"4 MiB"`')
    scale: Scale | None = Field(
        default=None,
        description='of ordered values: `linear`, `log2`; on a logarithmic axis, 0 means "unset" and lies next to '
        "the smallest value",
    )
    role: str = Field(
        default="other",
        description="its meaning in the field's terms: `aggregators`, `stripe_count`, `stripe_size`, "
        "`collective_buffering`, `collective_buffer_size`, `data_sieving`, `sieving_buffer_size`, ..., "
        "`other`",
    )
    carrier: Carrier = Field(
        default=ARGUMENT,
        description="how a value reaches the program. `hint`: MPI_Info. `layout`: of a new file. `hdf5`: a "
        "property. `pnetcdf`: a hint of PnetCDF. `env`: a variable. `mca`: `OMPI_MCA_NAME`. `argument`: "
        "put into the command as `{NAME}`. `adios2`: a parameter in a copy of the program's ADIOS2 "
        "file, which the command names as `{adios2:FILE}`. `file`: an entry of a copy of the program's "
        "configuration file. `posix`: what the observer does beside the program's own calls",
    )
    key: str = Field(
        default="",
        description="the carrier's name for it; `name` if empty. Of `file`: the entry's path (`io.buffer_size`), "
        "after the file's path and a colon if the program has several files",
    )
    when: When = Field(default=When.OPEN, description="what it acts on")
    scope: Scope = Field(default=Scope.FILE, description="what one value governs")
    operations: list[Literal["read", "write"]] = Field(
        default_factory=lambda: list(OPERATIONS),  # type: ignore[arg-type]
        description="`read`, `write` or both: what it can influence",
    )
    driver: list[str] = Field(
        default_factory=list, description="prefixes of `romio_filesystem_type` under which it acts; empty: any"
    )
    library: str = Field(default="", description="the stack's `library`, where the parameter has another one")
    mpi: list[str] = Field(default_factory=list, description="the stack's `mpi`, where the parameter has others")
    since: str = Field(default="", description="first version of the stack's `library` that supports it")
    until: str = Field(
        default="", description="last version that supports it, with all its releases: `4.1` includes 4.1.9"
    )
    active_if: str | None = Field(
        default=None, description="expression; where it is false, the parameter is inactive and no run is spent on it"
    )
    same_as_default: str | None = Field(
        default=None, description="expression; where it is true, the value acts as the default does"
    )
    maximum_from: str | None = Field(default=None, description="expression of the workload: largest value")
    default_from: str | None = Field(default=None, description="expression of the workload: default")
    safety: Safety = Field(
        default=Safety.PURE,
        description="`pure`, `layout` (where bytes lie), `format` (the file's format), `corrupting` (never searched)",
    )
    evidence: str = Field(default="none", description="the rule that proves its effect; see effects")
    switch: list[Scalar] = Field(
        default_factory=list,
        description="strong values: the ones that change the most. `auto` tries each of them within the first eight "
        'runs, where it acts. Of an ordered parameter, `"lowest"` and `"highest"` stand for the ends of '
        "its values",
    )
    cost: float = Field(
        default=0.0, description="relative price of a larger value; among equally good values the cheaper wins"
    )
    breaks: list[Breakage] = Field(
        default_factory=list,
        description="values under which calls of MPI-IO go wrong by a fault of the library, with calls as a report "
        'names them. One is `{ value = "disable", calls = ["write_ordered"], how = "what goes wrong" '
        "}`. A program whose first run makes such a call does not get the value; exports and `knobs` "
        "warn",
    )
    known: list[KnownValue] = Field(
        default_factory=list,
        description='values that only some versions of the stack\'s `library` know: `{ value = "two_phase", until = '
        '"4.1" }`, with `since` and `until` as of a parameter. A program that uses another version does '
        "not get the value",
    )
    defaults: list[KnownValue] = Field(
        default_factory=list,
        description='defaults of versions that have another one than `default`: `{ value = "8 MiB", since = "2.0" }`',
    )
    description: str = Field(default="", description="what it does")
    trap: str = Field(default="", description="what goes wrong silently")

    _renamed = model_validator(mode="before")(staticmethod(read_carrier))

    def build(
        self, layer: str, io_component: Sequence[str] = (), library: str = "", mpi: Sequence[str] = ()
    ) -> Parameter:
        """Make the parameter.

        Raises
        ------
        UserError
            If values are missing, contradictory or of the wrong type.
        """
        values = self._values()
        if len(values) == 0:
            raise UserError(f"parameter {self.name} has no values", "list at least one under 'values'")
        default = self._in_kind(self.default)
        fields = {name: getattr(self, name) for name in type(self).model_fields if name not in _NOT_COPIED}
        fields |= {name: _expression(fields[name]) for name in EXPRESSIONS}
        fields |= {"operations": tuple(self.operations), "driver": tuple(self.driver)}
        fields |= {"breaks": tuple(self.breaks), "known": tuple(self.known)}
        fields["defaults"] = tuple(replace(one, value=self._in_kind(one.value)) for one in self.defaults)
        fields["switch"] = tuple(self._switch_value(value) for value in self.switch)
        fields |= {"values": values, "default": values[0] if default is None else default}
        fields |= {"layer": layer, "io_component": tuple(io_component)}
        fields |= {"library": self.library or library, "mpi": tuple(self.mpi or mpi)}
        return Parameter(**fields, scale=self.scale or Scale.LINEAR)

    def _switch_value(self, value: Any) -> Any:
        ordered = self.kind in (Kind.INTEGER, Kind.ORDINAL)
        return self._number(value) if ordered and value not in _ENDS else value

    def _in_kind(self, value: Any) -> Any:
        return self._number(value) if self.kind in (Kind.INTEGER, Kind.ORDINAL) else value

    def _number(self, value: Any) -> Any:
        if isinstance(value, str):
            if self.unit == "B":
                size = parse_size(value)
                if size >= _LARGEST:
                    raise UserError(f"parameter {self.name}: {value!r} is too large", "use a smaller size")
                return size
            raise UserError(
                f"parameter {self.name}: {value!r} is not a number", 'set unit = "B" to write sizes as text'
            )
        return value

    def _values(self) -> tuple[Value, ...] | range:
        if self.kind is Kind.BOOLEAN:
            if self.values is not None and sorted(map(bool, self.values)) != [False, True]:
                raise UserError(f"parameter {self.name} is boolean, so its values are false and true")
            return (False, True)
        if self.values is not None:
            if self.low is not None or self.high is not None:
                raise UserError(f"parameter {self.name} has both values and low/high", "keep one of them")
            ordered = self.kind in (Kind.INTEGER, Kind.ORDINAL)
            return tuple(self._number(value) if ordered else value for value in self.values)
        if self.kind is not Kind.INTEGER or self.low is None or self.high is None:
            raise UserError(f"parameter {self.name} has no values", "give 'values', or 'low' and 'high' of an integer")
        low, high = self._number(self.low), self._number(self.high)
        if not isinstance(low, int) or not isinstance(high, int) or low > high:
            raise UserError(f"parameter {self.name}: low {low!r} and high {high!r} span no integers")
        grid = range(low, high + 1, self.step or 1)
        if len(grid) > _MAX_VALUES:
            raise UserError(
                f"parameter {self.name} has {len(grid):,} values",
                f"raise 'step' to stay under {_MAX_VALUES:,}",
            )
        if grid[-1] != high:
            # The top value is part of the range whatever the step: else the largest setting is never tried.
            return (*grid, high)
        return grid


class DerivedEntry(BaseModel):
    """A ``[[derived]]`` table."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(description="the carrier's key")
    carrier: Carrier = Field(description="the carrier, as above")
    template: str = Field(default="{value}", description="text of the value")
    value: str = Field(description="expression; the setting is emitted where a parameter it names is changed")
    active_if: str | None = Field(default=None, description="expression; where it is false, nothing is emitted")

    _renamed = model_validator(mode="before")(staticmethod(read_carrier))


class KnowledgeEntry(BaseModel):
    """A ``[[knowledge]]`` table."""

    model_config = ConfigDict(extra="forbid")
    condition: str = Field(description="expression of parameters and workload")
    gain: float = Field(gt=0, description="expected factor where it holds; 1.2 is 20% better")
    source: str = Field(description="why")
    doubt: float | None = Field(
        default=None,
        gt=0,
        description="standard deviation of the logarithm of the gain between other workloads and systems, where it "
        "was measured on some. `prescribe` without a model relies on such knowledge alone",
    )


class ForbiddenEntry(BaseModel):
    """A ``[[forbidden]]`` table: a combination that nothing may set."""

    model_config = ConfigDict(extra="forbid")
    condition: str = Field(description="expression of parameters and workload")
    reason: str = Field(min_length=1, description="why; users read it")

    def rule(self, origin: str) -> Expression:
        """Give the rule that every configuration keeps, with the reason.

        Parameters
        ----------
        origin : str
            Who forbids it, for people.

        Raises
        ------
        UserError
            If the condition is not an expression.
        """
        flat = " ".join(self.condition.split())
        why = f"{origin} forbids {flat}: {self.reason}"
        return replace(Expression.parse(f"not ({self.condition})"), reason=why)


class OffEntry(BaseModel):
    """The ``[off]`` table: how to run the program without the component."""

    model_config = ConfigDict(extra="forbid")
    description: str = Field(default="", description="what the reference is")
    env: dict[VariableName, VariableValue] = Field(default_factory=dict, description="variables to set instead")
    unset: list[VariableName] = Field(default_factory=list, description="variables to remove")
    command: str | None = Field(default=None, description="another command, instead of the experiment's")

    @property
    def how(self) -> str:
        """How to run without the component, in words that can be copied; empty where nothing is known."""
        how = [f"{key}={value}" for key, value in self.env.items()]
        how += [f"without {name} in the environment" for name in self.unset]
        how += [f"run {_one_line(self.command)}"] if self.command else []
        return ", ".join(how)


def _one_line(command: str) -> str:
    """A command that stands on several lines of its stack file: pasted so, each would be a command by itself."""
    joined = " ".join(line.strip() for line in command.splitlines())
    return joined if shlex.split(joined) == shlex.split(command) else command


class StackFile(BaseModel):
    """A whole stack file."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="of the stack")
    layer: str = Field(
        default="", description="`name` if empty; for layouts the file system (`lustre`, `cephfs`, `beegfs`, `dfuse`)"
    )
    version: int = Field(default=1, description="of the file")
    description: str = Field(default="", description="what it tunes")
    source: str = Field(default="", description="where its facts come from")
    io_component: list[str] = Field(
        default_factory=list, description="`romio`, `ompio`: MPI-IO implementations under which it acts; empty: any"
    )
    library: str = Field(
        default="",
        description="the component whose versions `since` and `until` name: `MPICH` (for ROMIO, also that of Open "
        "MPI), `Open MPI`, `HDF5`, `Lustre`, `PnetCDF`, or your own. If empty: that of the shipped "
        "stack of the same layer",
    )
    mpi: list[str] = Field(
        default_factory=list, description="MPI libraries that alone know its parameters (`Cray MPICH`); empty: any"
    )
    env: dict[VariableName, VariableValue] = Field(
        default_factory=dict, description="variables that switch the component on, in every run but the reference"
    )
    parameter: list[ParameterEntry] = Field(min_length=1, description="one or more")
    constraint: list[str] = Field(default_factory=list, description="expressions that must hold")
    forbidden: list[ForbiddenEntry] = Field(
        default_factory=list,
        description="combinations that nothing may set, each with `condition`, an expression, and `reason`",
    )
    derived: list[DerivedEntry] = Field(default_factory=list, description="settings computed from parameters")
    knowledge: list[KnowledgeEntry] = Field(
        default_factory=list, description="what experts expect before the first run"
    )
    off: OffEntry | None = Field(default=None, description="how to run without the component")


@dataclass(frozen=True)
class Stack:
    """A named set of parameters of one layer.

    Attributes
    ----------
    parameters, constraints, derived, knowledge
        See :class:`~stripewise.catalogue.space.Space`.
    env : mapping
        Environment that switches the component on, in every run but the reference.
    off : OffEntry or None
        How to run without the component; then that run is the *reference*.
    """

    name: str
    layer: str
    description: str
    parameters: tuple[Parameter, ...]
    constraints: tuple[Expression, ...] = ()
    derived: tuple[Derived, ...] = ()
    knowledge: tuple[Knowledge, ...] = ()
    env: Mapping[str, str] | None = None
    off: OffEntry | None = None

    @property
    def switch(self) -> Parameter | None:
        """Whether the component is on, for campaigns and models that vary it; None where nothing says how."""
        if self.off is None:
            return None
        return Parameter(
            name=re.sub(r"\W", "_", self.name),
            kind=Kind.BOOLEAN,
            values=(True, False),
            default=True,
            layer=self.layer,
            when=When.START,
            scope=Scope.PROCESS,
            description="Whether the component is on.",
        )

    def with_switch(self, names: Collection[str]) -> Stack:
        """Add :attr:`switch` as a parameter if its name is among some names: the others act only while it is on."""
        switch = self.switch
        if switch is None or switch.name not in names or any(p.name == switch.name for p in self.parameters):
            return self
        return replace(self, parameters=(switch, *(_while_on(p, switch.name) for p in self.parameters)))

    def exports(self, on: bool) -> Mapping[str, str]:
        """Give the variables that switch the component on, or off."""
        return (self.env or {}) if on or self.off is None else self.off.env


def all_off(entries: Sequence[OffEntry]) -> OffEntry:
    """Give how to run without several components at once."""
    return OffEntry(
        description="; ".join(entry.description for entry in entries if entry.description),
        env={key: value for entry in entries for key, value in entry.env.items()},
        unset=[name for entry in entries for name in entry.unset],
        command=next((entry.command for entry in reversed(entries) if entry.command), None),
    )


def _while_on(parameter: Parameter, switch: str) -> Parameter:
    own = "" if parameter.active_if is None else f" and ({parameter.active_if.text})"
    return replace(parameter, active_if=Expression.parse(f"{switch} == True{own}"))


def _expression(text: str | None) -> Expression | None:
    return None if text is None else Expression.parse(text)


@lru_cache(maxsize=64)
def parse_stack(text: str, origin: str) -> Stack:
    """Read a stack from TOML text, once a process for the same text.

    Parameters
    ----------
    origin : str
        Where it came from, for messages.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    return build_stack(parse_document(StackFile, text, origin), origin)


def build_stack(entry: StackFile, origin: str) -> Stack:
    """Make the stack of a file's content.

    Raises
    ------
    UserError
        As :func:`parse_stack`.
    """
    layer = entry.layer or entry.name
    library = entry.library or _library_of(layer)
    for one in entry.parameter:
        named = [("breaks", entry.value) for entry in one.breaks] + [("known", entry.value) for entry in one.known]
        for key, value in named:
            if value not in (one.values or []):
                raise UserError(
                    f"{origin}: parameter {one.name}: {key} names {value!r}, which is not one of its values"
                )
    try:
        return Stack(
            name=entry.name,
            layer=layer,
            description=entry.description,
            parameters=tuple(one.build(layer, entry.io_component, library, entry.mpi) for one in entry.parameter),
            constraints=(
                *(Expression.parse(constraint) for constraint in entry.constraint),
                *(one.rule(f"stack {entry.name}") for one in entry.forbidden),
            ),
            derived=tuple(
                Derived(d.name, d.carrier, layer, d.template, Expression.parse(d.value), _expression(d.active_if))
                for d in entry.derived
            ),
            knowledge=tuple(
                Knowledge(Expression.parse(k.condition), k.gain, k.source, k.doubt) for k in entry.knowledge
            ),
            env=entry.env,
            off=entry.off,
        )
    except UserError as error:
        raise UserError(f"{origin}: {error.what}", error.fix) from error


@cache
def _library_of(layer: str) -> str:
    """Whose versions the stack of a layer goes by that comes with Stripewise; empty if there is none."""
    return parse_document(StackFile, *_STACKS.find(layer)).library if layer in stack_names() else ""


def stack_names() -> list[str]:
    """List the stacks that come with Stripewise."""
    return _STACKS.names()


@cache
def every_stack() -> tuple[Stack, ...]:
    """Load all stacks that come with Stripewise."""
    return tuple(load_stack(name) for name in stack_names())


@cache
def stacks_naming(key: str) -> tuple[Stack, ...]:
    """Load those stacks that come with Stripewise whose text has a setting's key: a launch has no time for all."""
    return tuple(load_stack(name) for name in stack_names() if key in _STACKS.find(name)[0])


def own_stack(name: str) -> StackFile | None:
    """Read a user's own stack as it is written; None for one that comes with Stripewise."""
    return None if name in stack_names() else parse_document(StackFile, *_STACKS.find(name))


def load_stack(name: str) -> Stack:
    """Load a stack by name, or from a file if ``name`` is the path of one.

    Raises
    ------
    UserError
        If there is none, or it cannot be read.
    """
    return parse_stack(*_STACKS.find(name))
