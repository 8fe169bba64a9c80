"""What was observed of an experiment and of its runs: open mappings of JSON values, whose keys are known here alone.

Code makes facts with named arguments and reads them as attributes. Stores keep them as they are. A runner from outside
may add keys of its own by passing a mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack

from stripewise.catalogue.workload import Workload
from stripewise.observe.ceiling import Ceiling
from stripewise.requests.objective import Bound, Objective
from stripewise.result import SpaceSummary

T = TypeVar("T")


class _Observed(Mapping[str, Any]):
    """An immutable mapping."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = dict(values or {})

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._values!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[dict[str, Any]]]:
        return type(self), (self._values,)


class _Fact(Generic[T]):
    """An attribute that reads the fact of its name; an empty value where the fact is unknown.

    Parameters
    ----------
    read : callable
        Makes the attribute's value of the fact; without an argument it makes the empty value.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        self._read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, facts: _Observed, owner: type) -> T:
        known = facts.get(self._name)
        return self._read() if known is None else self._read(known)


class _Maybe(_Fact[T | None]):
    """As :class:`_Fact`, but None where the fact is unknown."""

    def __get__(self, facts: _Observed, owner: type) -> T | None:
        known = facts.get(self._name)
        return None if known is None else self._read(known)


class ExperimentKeys(TypedDict, total=False):
    """What facts of an experiment are made of; :class:`Facts` says what each is."""

    folder: str | None
    user: str
    submitter: str
    seconds: float
    runs: int
    gave_up: int
    environment: Mapping[str, Any]
    fingerprint: Mapping[str, str]
    workload: Mapping[str, Any]
    io: str | None
    layout: Mapping[str, Any]
    run_bytes: int
    first_run: Mapping[str, Any]
    objective: Mapping[str, Any]
    space: Mapping[str, Any]
    warm_start: list[dict[str, Any]]
    model: Mapping[str, Any] | None
    agreed: Mapping[str, Any]
    campaign: Mapping[str, Any]
    replay: Mapping[str, Any]
    families: list[dict[str, Any]]
    objective_notes: list[str]
    units: Mapping[str, str]
    ceiling: Mapping[str, Any]
    whole: Mapping[str, Any]
    followed: str
    search_ended: str
    program_failed: str


class Facts(_Observed):
    """What was observed of an experiment."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any] | None = None, /, **known: Unpack[ExperimentKeys]) -> None:
        super().__init__({**(values or {}), **known})

    def with_(self, **changes: Unpack[ExperimentKeys]) -> Facts:
        """Give the same facts with some added or replaced."""
        return Facts(self, **changes)

    folder = _Maybe(str)
    """The absolute folder in which the program starts; None for the current one."""

    units = _Fact[dict[str, str]](dict)
    """By objective, the unit that the first run printed behind its number."""

    user = _Fact(str)
    """Who began it on the command line."""

    submitter = _Fact(str)
    """Who gave it to a service."""

    seconds = _Fact(float)
    """Wall time spent in all sessions so far."""

    runs = _Fact(int)
    """Runs spent so far."""

    gave_up = _Fact(int)
    """How many runs there were when a session found that the program fails as it is."""

    environment = _Fact[dict[str, Any]](dict)
    """MPI library, host, modules and the like, as the preflight found them."""

    fingerprint = _Maybe[dict[str, str]](dict)
    """What must be the same in all runs; None before the first preflight."""

    workload = _Maybe(Workload.model_validate)
    """The workload that the space was bound with; None before that."""

    io = _Maybe(str)
    """The MPI-IO implementation that the space was bound with."""

    layout = _Fact[dict[str, Any]](dict)
    """The layout of the program's files that the space was bound with."""

    first_run = _Fact[dict[str, Any]](dict)
    """What else the first run showed when the space was bound."""

    run_bytes = _Maybe(int)
    """Bytes that the first run moved."""

    @property
    def objective(self) -> Objective | None:
        """What is improved, once the runner has said it."""
        known = self.get("objective")
        return Objective(**known) if known else None

    @property
    def space(self) -> SpaceSummary | None:
        """The space, once it is bound."""
        known = self.get("space")
        return SpaceSummary.from_json(known) if known else None

    warm_start = _Maybe[list[dict[str, Any]]](list)
    """The earlier experiments that the search started from; None before they were chosen."""

    model = _Maybe[dict[str, Any]](dict)
    """The performance model that the search started from."""

    families = _Fact[list[dict[str, Any]]](list)
    """Of an experiment within one launch: other file families that it tunes, each with its own experiment."""

    objective_notes = _Fact[list[str]](list)
    """What the first run showed of the objective: how it is timed here, and the program's own figure beside it."""

    ceiling = _Maybe(Ceiling.model_validate)
    """What the storage gives by the file that the experiment names; None where that says nothing of the program."""

    whole = _Maybe[dict[str, Any]](dict)
    """Of a smaller case: the experiment at full size, which follows."""

    followed = _Fact(str)
    """Of a smaller case: the experiment at full size that was begun after it."""

    search_ended = _Fact(str)
    """Why the search ended, once its confirmation has begun."""

    program_failed = _Fact(str)
    """Of an experiment within one launch: how the program failed after the answer was known."""

    agreed = _Maybe[dict[str, Any]](dict)
    """The worst case that somebody agreed to."""

    campaign = _Maybe[dict[str, Any]](dict)
    """The campaign whose runs these are, where it is not a search."""

    replay = _Maybe[dict[str, Any]](dict)
    """How faithful replays were to the program, once one has run with the default."""


class _RunKeys(TypedDict, total=False):
    """What facts of a run are made of. Those without an attribute of :class:`RunFacts` are for people."""

    # Of any runner.
    nodes: int
    node_hours: float
    notes: list[str]
    behind: int
    cache: str
    carried: list[dict[str, str]]
    no_report: str
    # Of a scheduler.
    scheduler: str
    job: str | None
    queue_seconds: float
    node_list: str
    requeues: int
    resubmissions: int
    adopted: bool
    # Of runs without a program.
    replayed: str
    simulated: bool
    site: str
    phases: Mapping[str, Mapping[str, float]]
    bounds: Mapping[str, Mapping[str, float]]
    binding: Mapping[str, str]
    slow_ost: int
    # Of a phase of one launch.
    file_family: str
    block: int
    switched: float | None
    kept_layout: bool
    lost: float
    waits: int
    passed: int
    # Of the loop that asked for the run.
    report: Mapping[str, Any]
    folder: str
    metrics: Mapping[str, float]
    exit_code: int | None
    attempt: int
    against: int
    subject_to: Mapping[str, float]
    answer: Mapping[str, Any]
    left_out: str
    extra: int
    first_look: int
    repeat: int


class RunFacts(_Observed):
    """What was observed of a run."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any] | None = None, /, **known: Unpack[_RunKeys]) -> None:
        super().__init__({**(values or {}), **known})

    def with_(self, **changes: Unpack[_RunKeys]) -> RunFacts:
        """Give the same facts with some added or replaced."""
        return RunFacts(self, **changes)

    def but(self, later: RunFacts) -> RunFacts:
        """Give the same facts with all of others added; these replace."""
        return RunFacts({**self, **later})

    def brief(self) -> RunFacts:
        """Give what a campaign keeps of a run."""
        kept = ("cache", "notes", "nodes", "node_hours", "queue_seconds", "simulated", "replayed")
        return RunFacts({key: self[key] for key in kept if key in self})

    def ended(self, observed: RunFacts, elapsed: float, nodes: int) -> RunFacts:
        """Add what a runner observed, and the node-hours that the run took if the runner does not say them."""
        facts = self.but(observed)
        if "node_hours" not in facts:
            facts = facts.with_(node_hours=(facts.nodes or nodes) * elapsed / 3600)
        return facts

    @property
    def nodes(self) -> int | None:
        """How many nodes the run occupied; None where its runner does not say."""
        number = self.get("nodes")
        return int(number) if isinstance(number, int | float) else None

    answer = _Maybe[dict[str, Any]](dict)
    """The configuration that a run of the default is the first to be paired with, if no trial has it yet."""

    subject_to = _Fact[dict[str, float]](dict)
    """What the run measured of each of the objective's limits (:class:`~stripewise.requests.objective.Bound`)."""

    @property
    def broken(self) -> str:
        """The first of the objective's limits that the run broke; empty where all hold."""
        return next((text for text, value in self.subject_to.items() if not Bound.parse(text).holds(value)), "")

    report = _Maybe[dict[str, Any]](dict)
    """The runtime's report."""

    folder = _Maybe(str)
    """The run's folder."""

    node_hours = _Fact(float)
    """Node-hours that the run took."""

    @property
    def hosts(self) -> str | list[str]:
        """Names of the nodes that the run occupied: a list, or a scheduler's text for one; empty where unknown."""
        for key in ("node_list", "hosts", "node_names", "nodes"):
            named = self.get(key)
            if named and isinstance(named, str | list):
                return named
        return []

    node_list = _Fact(str)
    """Names of the nodes as the scheduler writes them; empty where there is none."""

    no_report = _Fact(str)
    """Why a report that was expected is missing; empty where it is there, or none was expected."""

    notes = _Fact[list[str]](list)
    """What went wrong during the run and was corrected."""

    behind = _Fact(int)
    """Processes of the program that were still running at its end, and were ended."""

    file_family = _Fact(str)
    """Of a phase: the files that it was of, as ``writing /scratch/chk.#``."""

    switched = _Maybe(float)
    """Of a phase: the bandwidth of the phase before it, where that was the first one with its settings."""

    @property
    def block(self) -> int:
        """How many phases the run holds, one after the other with the same settings; 1 outside a proof in a launch."""
        return int(self.get("block", 1))

    @property
    def phases_spent(self) -> int:
        """How many phases of a launch the run took, with the one that only separates its settings from others."""
        return self.block + (self.switched is not None)

    kept_layout = _Fact(bool)
    """Of a phase: whether its file kept another layout than was asked for."""

    waits = _Fact(int)
    """Of a phase: how many phases of the default must pass after it before settings may be tried that nobody knows."""

    passed = _Fact(int)
    """Phases of the program that had passed when a run within one launch ended."""

    lost = _Maybe(float)
    """Of a phase: what trying has cost in its launch so far, as a part of the I/O time of the default."""

    job = _Fact(str)
    """The scheduler's identifier of the run's job; empty where it has none."""

    darshan_log = _Maybe(str)
    """The run's Darshan log, where its runner knows it."""

    first_look = _Fact(int)
    """Of a confirmation: the pairs at its first look where that comes early; 0 where it does not."""

    against = _Maybe(int)
    """Of a confirmation: the candidate's trial that its pair is about."""

    left_out = _Fact(str)
    """Of a confirmation: the candidate's setting that this run leaves out, to measure its share; empty in a pair."""

    extra = _Fact(int)
    """Of a confirmation: how many runs are kept beside its pairs to measure shares, fixed at its first run."""

    attempt = _Fact(int)
    """How often the run was launched again after an interruption."""

    @property
    def repeats(self) -> int:
        """How often the run was launched beyond its first launch, as far as that is known.

        A tuner that was killed between writing down a launch and making it is counted as having made it.
        """
        # A result that was there already needed no launch.
        again = self.attempt - 1 if self.get("adopted") else self.attempt
        return max(0, again) + int(self.get("requeues", 0)) + int(self.get("resubmissions", 0))

    bounds = _Fact[dict[str, dict[str, float]]](dict)
    """Of a simulated run: seconds that each bound adds, by operation."""

    phases = _Fact[dict[str, dict[str, float]]](dict)
    """Of a simulated run: seconds of open, data and close, by operation."""

    @property
    def targets(self) -> tuple[int, ...]:
        """Storage targets that the run's files lay on, as its runner says."""
        return tuple(int(target) for target in self.get("osts", ()))
