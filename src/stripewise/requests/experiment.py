"""An experiment: application, space, objective, budget; as written in a file or built from the command line.

How runs go through a batch system: the ``[batch]`` table.

Parameters of an experiment: those of its stacks as ``[parameters.NAME]`` changes them, and those it adds.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from stripewise.catalogue.carriers import FILE, Setting, named_in
from stripewise.catalogue.configuration import place_of, sizes
from stripewise.catalogue.meaning import check_value
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import EXPRESSIONS, ParameterEntry, Scalar, load_stack, read_carrier
from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation, parse_document
from stripewise.errors import UserError
from stripewise.shell import DirectiveOption, ResourceName, ShellLine, ShownName, VariableName, VariableValue


class Batch(BaseModel):
    """The ``[batch]`` table: runs as jobs of a scheduler, or as steps within an allocation."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    scheduler: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")] = Field(
        default="slurm",
        description="`slurm`, `pbs`, `pbs_classic`, `lsf`, `flux`, or one of another package; all but Slurm were "
        "tried over samples of their output only",
    )
    nodes: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="nodes of a run; by default those of the script's directives, of the command (`srun -N 4`) or "
        "of `[workload]`, else 1",
    )
    processes_per_node: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        default=None, description="ranks per node that the job requests"
    )
    jobs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="runs at the same time; by default 1, and as many steps as fit. They share the file system: more "
        "than one disturb each other. The confirmation makes one at a time",
    )
    walltime: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="seconds of a job; by default the run's time limit, that of its hooks, and a minute"
    )
    queue: ResourceName | None = Field(
        default=None,
        description="as the scheduler calls it (Slurm: partition): letters, digits and `_ . , : @ / + % -`",
    )
    account: ResourceName | None = Field(default=None, description="likewise")
    reservation: ResourceName | None = Field(default=None, description="likewise")
    exclusive: bool = Field(
        default=True, description="no other job on the nodes; left to the script where it has directives"
    )
    directives: list[DirectiveOption] = Field(
        default_factory=list,
        description="further options of the scheduler, as `--constraint=haswell`; each begins with `-` and stays on "
        "its line",
    )
    retries: Annotated[int, Field(ge=0, le=10)] = Field(
        default=1,
        description="times that a run is submitted again after the machine lost it, as by a failed node",
    )
    patience: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=600.0,
        description="seconds for which the scheduler may fail to take or to look up jobs before the session ends "
        "(it can be resumed)",
    )
    poll: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=5,
        description="seconds between two queries of the scheduler's queue; results are seen at once, through the "
        "run's own record",
    )


_MOST_VALUES = 10_000


LARGEST_INPUT = 512 << 10
"""Bytes of a program's standard input that are kept with an experiment."""

LONGEST_NAME = 400
"""Characters of a name that is made from other names; a definition admits 500."""


class ObjectiveEntry(BaseModel):
    """The ``[objective]`` table; a plain text stands for its name."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(
        default="elapsed",
        description="`elapsed`, `io_time`, `write_bandwidth`, `read_bandwidth`, `bandwidth`, `write_rate`, "
        "`read_rate`, `metadata_rate`, `darshan_bandwidth`, `energy`, `energy:COMMAND`, "
        "`phase_bandwidth`, `phase_bandwidth:OPERATION`, or `regex:PATTERN`",
    )
    direction: Literal["minimize", "maximize"] | None = Field(
        default=None, description="for `regex:PATTERN` only; the other objectives have their own"
    )
    unit: str | None = Field(default=None, description="for display")
    program: str = Field(
        default="", description="of the programs that the command starts, the one that is measured; all if empty"
    )
    subject_to: list[str] = Field(
        default_factory=list,
        description="limits for other measures of each run, as `busy_share >= 90`; a run that breaks one has failed",
    )


class Budget(BaseModel):
    """The ``[budget]`` table: the first limit that is reached ends the experiment.

    Every launch counts: warm-up, failures, confirmation. The budget is a most: launches that are not worth their price
    are saved, unless ``spend_all`` is set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    runs: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=40, description="launches in total: warm-up, search, failures, confirmation"
    )
    seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="wall time in total; time in which all runs wait in a queue does not count"
    )
    node_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="nodes times hours in total"
    )
    spend_all: bool = Field(
        default=False,
        description="also launches that are not worth their price",
    )


class Confirmation(BaseModel):
    """The ``[confirmation]`` table: how a gain is proven."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    pairs: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="most pairs of runs; by default from the budget"
    )
    minimum_effect: Annotated[float, Field(ge=1.0, le=100.0)] = Field(
        default=1.0, description="the speed-up that the interval's lower bound must exceed"
    )
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = Field(
        default=0.95, description="of the interval, all looks and candidates together"
    )
    candidates: Annotated[int, Field(ge=1, le=10)] = Field(
        default=1,
        description="how many of the search's best may be tested; the interval is corrected for the "
        "number; `tune --within` takes 2",
    )
    again: str = Field(
        default="", description="the experiment whose best is measured once more; `tune --confirm` writes it"
    )


class Hooks(BaseModel):
    """The ``[hooks]`` table: shell lines around each run, outside its time; ``STRIPEWISE_RUN`` holds its number."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    before: list[ShellLine] = Field(default_factory=list, description="shell lines before each run")
    after: list[ShellLine] = Field(default_factory=list, description="shell lines after each run, failed ones included")
    delete: list[VariableValue] = Field(
        default_factory=list, description="files that the program writes, removed before each run"
    )
    drop_caches: Literal["none", "advise", "system"] = Field(
        default="none",
        description="`advise`: the pages of known files are dropped from this node's memory; `system`: the whole "
        "cache (root)",
    )
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=600.0, description="seconds that a hook or the setup lines may take"
    )


class Within(BaseModel):
    """The ``[within]`` table: the runner ``within``, for which each phase of one launch is a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    max_loss: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.05, description="the most time that trying may lose, as a part of the I/O time of the default"
    )
    factor: Annotated[float, Field(ge=1, le=100)] = Field(
        default=1.25,
        description="candidates that are expected to take longer than so many times the default are left out",
    )
    families: Literal["costliest", "sum", "each"] = Field(
        default="costliest",
        description="tune the file family that takes the most I/O time, all by one search over their sum, or each by "
        "a search of its own",
    )
    settle: bool = Field(default=False, description="synchronise files before they are closed, at the phase's cost")


class Replay(BaseModel):
    """The ``[replay]`` table: the search launches replays of a record, and the proof the program itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    record: VariableValue = Field(description="the record of the program, as `stripewise lab record` writes it")
    folder: VariableValue | Literal[""] = Field(
        default="",
        description="folder for the files of the replays, to whose name that of the experiment is added; by default "
        "one beside the program's files",
    )
    think: bool = Field(default=False, description="pause before each call as long as the program did")
    steps: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="open at most so many of files whose names differ in numbers only"
    )
    repetitions: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="make each call at most so many times on an open file"
    )

    @property
    def whole(self) -> bool:
        """Whether a replay makes all calls of the program."""
        return self.steps is None and self.repetitions is None


class StandardInput(BaseModel):
    """The ``[stdin]`` table: the standard input of every launch; a plain text stands for its file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: VariableValue | Literal[""] = Field(
        default="",
        description="the file that `tune` reads, once; a relative path counts from the folder where `tune` is started",
    )
    text: Annotated[str, Field(max_length=LARGEST_INPUT)] | None = Field(
        default=None,
        description="what the program reads; `tune` writes it, from the file or from its own standard input. A "
        "definition that you send to a service has the text itself",
    )

    @model_validator(mode="after")
    def _given(self) -> StandardInput:
        if not self.file and self.text is None:
            raise ValueError("it names no file and has no text")
        if "\0" in (self.text or ""):
            raise ValueError("the text has a zero byte")
        return self

    @property
    def data(self) -> bytes:
        """What the program reads; :func:`stripewise.engine.definition.check` has made sure of the text."""
        return (self.text or "").encode()

    def describe(self) -> str:
        """Say what it is, in a few words."""
        digest = hashlib.sha256(self.data).hexdigest()[:16]
        return f"{f'{self.file}, ' if self.file else ''}{len(self.data):,} bytes, SHA-256 {digest}"


class ParameterOverride(BaseModel):
    """A ``[parameters.NAME]`` table: a change to a stack's parameter, or a whole parameter of the user's own."""

    model_config = ConfigDict(extra="allow", frozen=True)
    values: list[Scalar] | None = Field(
        default=None, description="values to be tried; the default stays in the space as the baseline"
    )
    exclude: bool = Field(default=False, description="leave the parameter out of the space")

    _carried = model_validator(mode="before")(staticmethod(read_carrier))


_MANY_LAUNCHES = 30
"""Launches from which one of them may be spent on what the storage gives."""
_RETIRED = {"general_knowledge"}


class Experiment(BaseModel):
    """Everything that fixes an experiment; with the same seed and a deterministic program its history is the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Bounds, because the space, its rules and their product are computed as soon as somebody asks for a dry run.
    name: ShownName = Field(default="", description="a name for the experiment; the program's name if empty")
    command: list[VariableValue] = Field(
        default_factory=list,
        description="the program, as a text or a list of words; what follows `--` on the command line replaces it. "
        '`{NAME}` stands for the value of a parameter with `carrier = "argument"`. `{adios2:FILE}` and '
        "`{file:FILE}` stand for the path of the program's ADIOS2 or configuration file, or of its "
        "changed copy",
    )
    stdin: StandardInput | None = Field(
        default=None,
        description="the standard input of every launch: a table, or the path of a file as a text; what you pipe "
        "into `tune` replaces it",
    )
    runner: str = Field(
        default="local",
        description="`local`: launches the command on this host, one run at a time. `batch`: each run is a job of a "
        "scheduler. `steps`: runs side by side inside a Slurm allocation. `within`: the phases of one "
        "launch are the runs. `replay:TABLE`: answers from a measured table. `sim:NAME-or-FILE`: "
        "computes them on a simulated cluster from `[workload]`, without a command",
    )
    stacks: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="names, or paths of `.toml` files (from the folder where tune is started); found from the "
        "program if empty",
    )
    objective: ObjectiveEntry = Field(default=ObjectiveEntry(), description="a table, or its name as a text")
    budget: Budget = Field(default=Budget(), description="a table, or the number of launches")
    sampler: str = Field(default="auto", description="see samplers")
    sampler_options: dict[str, Any] = Field(default_factory=dict, description="options of the sampler")
    resampling: dict[str, Any] = Field(default_factory=dict, description="when a trial is run once more")
    pruning: dict[str, Any] = Field(default_factory=dict, description="when a run that cannot win is cut")
    stopping: dict[str, Any] = Field(default_factory=dict, description="when the search ends before its budget")
    model: VariableValue | None = Field(
        default=None,
        description="a performance model to start from, as `train` has written it; a relative path counts from the "
        "folder of the command",
    )
    warm_start: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="identifiers of finished experiments in the store to start from, or `auto` for the most similar",
    )
    try_first: list[str] = Field(
        default_factory=list,
        max_length=1000,
        description="settings to try before the sampler's, one configuration an entry: plan lines, separated by "
        "`;`. `tune --from DIAGNOSIS.json` fills it with the proposals of a diagnosis",
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default=0, description="of every random choice")
    setup: list[ShellLine] = Field(
        default_factory=list, description="shell lines (bash) that run before each run, in its shell: `module load ...`"
    )
    env: dict[VariableName, VariableValue] = Field(
        default_factory=dict, description="variables for the program; names have letters, digits and underscores"
    )
    parameters: dict[str, ParameterOverride] = Field(
        default_factory=dict,
        max_length=100,
        description="changes to the stacks' parameters, and parameters of your own",
    )
    constraints: list[str] = Field(
        default_factory=list, max_length=100, description="expressions that must hold, besides the stacks' own"
    )
    workload: Workload = Field(
        default=Workload(), description="what the program does; what is left out is observed in the warm-up run"
    )
    hooks: Hooks = Field(default=Hooks(), description="what happens around each run")
    batch: Batch = Field(default=Batch(), description="how runs go through a scheduler")
    within: Within = Field(default=Within(), description="how much the phases of one launch may lose")
    replay: Replay | None = Field(
        default=None, description="the record whose replays the search launches in place of the program"
    )
    confirmation: Confirmation = Field(default=Confirmation(), description="how a gain is proven")
    ceiling: bool | VariableValue = Field(
        default=True,
        description="of 30 launches or more, one shows what the storage gives; or a calibration or a campaign's table",
    )
    warmup: Annotated[int, Field(ge=0, le=100)] = Field(
        default=1, description="runs of the default that are discarded first"
    )
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="seconds a run; default from the warm-up"
    )
    scratch: VariableValue | None = Field(default=None, description="folder for the runs' own folders")
    override: bool = Field(default=False, description="the plan wins over the application's own hints")
    files: str = Field(default="*", description="glob of the files that the plan governs")

    @property
    def measures_ceiling(self) -> bool:
        """Whether one of its launches may be spent on the ceiling: where runs are phases, there is one launch."""
        return self.ceiling is True and self.runner != "within" and self.budget.runs >= _MANY_LAUNCHES

    @property
    def stored_ceiling(self) -> Path | None:
        """The file that says what the storage gives; None without one, or where runs are not launches."""
        named = isinstance(self.ceiling, str) and self.runner != "within" and self.replay is None
        return Path(str(self.ceiling)) if named else None

    @property
    def is_demo(self) -> bool:
        """Whether it is that of ``stripewise demo``: short runs of the bundled benchmark."""
        return self.name == "demo" and any(word.endswith("/stripewise-kernel") for word in self.command)

    @model_validator(mode="before")
    @classmethod
    def _without_retired_keys(cls, given: Any) -> Any:
        """Leave out keys of versions before 0.2, so that experiments which they stored are still read."""
        return {key: given[key] for key in given if key not in _RETIRED} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _files_named(self) -> Experiment:
        """Mark the files of the command that parameters are in: whoever looks at the command sees what is read."""
        own = [entry.model_extra or {} for entry in self.parameters.values()]
        keys = [str(entry.get("key")) for entry in own if entry.get("carrier") == FILE.name]
        object.__setattr__(self, "command", named_in(self.command, keys))
        return self

    @field_validator("parameters")
    @classmethod
    def _not_too_many_values(cls, given: dict[str, ParameterOverride]) -> dict[str, ParameterOverride]:
        if sum(len(entry.values or ()) for entry in given.values()) > _MOST_VALUES:
            raise ValueError(f"the parameters have more than {_MOST_VALUES:,} values in all")
        return given

    @field_validator("objective", mode="before")
    @classmethod
    def _objective_text(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("stdin", mode="before")
    @classmethod
    def _stdin_file(cls, value: Any) -> Any:
        return {"file": value} if isinstance(value, str) else value

    @field_validator("budget", mode="before")
    @classmethod
    def _budget_number(cls, value: Any) -> Any:
        return {"runs": value} if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("warm_start", mode="before")
    @classmethod
    def _warm_start_text(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("command", mode="before")
    @classmethod
    def _command_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return shlex.split(value)
        return value


def parse_experiment(text: str, origin: str) -> Experiment:
    """Read an experiment from TOML.

    Raises
    ------
    UserError
        With the file and the place that is wrong.
    """
    return parse_document(Experiment, text, origin)


OWN_LAYER = "user"
"""The layer of parameters that no stack has."""
_OF_STACK = ("layer", "io_component", "library", "mpi")
_NOT_WRITTEN = {*_OF_STACK, "counted"}
"""Fields of a parameter that its entry in a file does not have."""


def _entry(parameter: Parameter) -> dict[str, Any]:
    """A parameter as a stack file writes it."""
    names = [field.name for field in fields(parameter) if field.name not in _NOT_WRITTEN]
    plain = {name: getattr(parameter, name) for name in names}
    texts = {name: None if plain[name] is None else plain[name].text for name in EXPRESSIONS}
    several = ("values", "operations", "driver", "switch", "breaks", "known", "defaults")
    lists = {name: list(plain[name]) for name in several}
    return {**plain, **texts, **lists}


def override_parameter(parameter: Parameter, override: ParameterOverride) -> Parameter:
    """Give a stack's parameter with what the experiment changes about it.

    Raises
    ------
    UserError
        If a value is none of the carrier's, or the definition contradicts itself.
    """
    # Sizes of ordered values may be written as texts here.
    for value in (override.values or []) if not parameter.ordered else []:
        known = Setting(parameter.carrier, parameter.setting, spell(value), parameter.layer)
        check_value(known, f"[parameters.{parameter.name}]")
    changes = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if not changes:
        return parameter
    entry = {**_entry(parameter), **changes}
    if "low" in changes or "high" in changes:
        entry.pop("values")
    where = f"[parameters.{parameter.name}]"
    of_stack = [getattr(parameter, name) for name in _OF_STACK]
    try:
        entry_model = ParameterEntry.model_validate(entry)
        if "values" in changes and "default" not in changes:
            # The baseline is always in the space, whatever values the user wants tried; sizes may be written as texts.
            values = list(entry_model.model_copy(update={"default": None}).build(*of_stack).values)
            wanted = values if place_of(parameter.default, values) is not None else [*values, parameter.default]
            ordered = sorted(wanted, key=float) if parameter.ordered else wanted
            entry_model = entry_model.model_copy(update={"values": ordered})
        return entry_model.build(*of_stack)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.fix) from error


def own_parameter(name: str, override: ParameterOverride) -> Parameter:
    """Make a parameter that no stack has, as the experiment defines it.

    Raises
    ------
    UserError
        If it is not defined in full.
    """
    where = f"[parameters.{name}]"
    given = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if not is_own(override):
        raise UserError(
            f"{where}: no stack has a parameter of this name",
            "correct it, or say how its values reach the program: argument, env or file",
        )
    if "kind" not in given:
        given["kind"] = _kind_of(given)
    try:
        return ParameterEntry.model_validate({"name": name, **given}).build(OWN_LAYER)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.fix) from error


def is_own(override: ParameterOverride) -> bool:
    """Say whether an entry defines a parameter by itself: it has a kind, or names a carrier."""
    return not ({"kind", "carrier"}.isdisjoint(override.model_extra or {}) or override.exclude)


def _kind_of(given: Mapping[str, Any]) -> Kind:
    """Derive the kind of a parameter from its values."""
    values: Sequence[Any] = given.get("values") or ()
    if values and all(isinstance(value, bool) for value in values):
        return Kind.BOOLEAN
    if not values and "low" in given:
        return Kind.INTEGER
    ordered = given.get("unit") == "B" or sizes(values)
    return Kind.ORDINAL if ordered else Kind.CATEGORICAL


def parameters_of(experiment: Experiment) -> dict[str, Parameter]:
    """Give the parameters of the stacks that an experiment names, as it changes them, and its own, by name.

    Raises
    ------
    UserError
        If a stack cannot be loaded or a parameter is wrong.
    """
    found = {p.name: p for stack in experiment.stacks for p in load_stack(stack).parameters}
    for name, override in experiment.parameters.items():
        if override.exclude:
            found.pop(name, None)
        elif name in found:
            found[name] = override_parameter(found[name], override)
        elif is_own(override):
            found[name] = own_parameter(name, override)
    return found


def chosen_words(experiment: Experiment) -> dict[str, str]:
    """Give the parameters that choose a word of the workload, each with its word.

    Raises
    ------
    UserError
        If a stack cannot be loaded or a parameter is wrong.
    """
    return {name: word for name, parameter in parameters_of(experiment).items() if (word := parameter.chosen_word)}
