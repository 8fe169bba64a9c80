"""What was observed of an experiment and of its runs: open mappings of JSON values, whose keys are known here alone.

Code makes facts with named arguments and reads them as attributes. Stores keep them as they are. A runner from outside
may add keys of its own by passing a mapping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, TypedDict, Unpack

from stripewise.spec.objective import Objective
from stripewise.spec.result import SpaceSummary
from stripewise.spec.workload import Workload


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


class Facts(_Observed):
    """What was observed of an experiment."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any] | None = None, /, **known: Unpack[ExperimentKeys]) -> None:
        super().__init__({**(values or {}), **known})

    def with_(self, **changes: Unpack[ExperimentKeys]) -> Facts:
        """Give the same facts with some added or replaced."""
        return Facts(self, **changes)

    @property
    def folder(self) -> str | None:
        """The absolute folder in which the program starts; None for the current one."""
        folder = self.get("folder")
        return None if folder is None else str(folder)

    @property
    def user(self) -> str:
        """Who began it on the command line."""
        return str(self.get("user", ""))

    @property
    def submitter(self) -> str:
        """Who gave it to a service."""
        return str(self.get("submitter", ""))

    @property
    def seconds(self) -> float:
        """Wall time spent in all sessions so far."""
        return float(self.get("seconds", 0.0))

    @property
    def runs(self) -> int:
        """Runs spent so far."""
        return int(self.get("runs", 0))

    @property
    def gave_up(self) -> int:
        """How many runs there were when a session found that the program fails as it is."""
        return int(self.get("gave_up", 0))

    @property
    def environment(self) -> dict[str, Any]:
        """MPI library, host, modules and the like, as the preflight found them."""
        return dict(self.get("environment", {}))

    @property
    def fingerprint(self) -> dict[str, str] | None:
        """What must be the same in all runs; None before the first preflight."""
        known = self.get("fingerprint")
        return None if known is None else dict(known)

    @property
    def workload(self) -> Workload | None:
        """The workload that the space was bound with; None before that."""
        known = self.get("workload")
        return None if known is None else Workload.model_validate(known)

    @property
    def io(self) -> str | None:
        """The MPI-IO implementation that the space was bound with."""
        return self.get("io")

    @property
    def layout(self) -> dict[str, Any]:
        """The layout of the program's files that the space was bound with."""
        return dict(self.get("layout", {}))

    @property
    def first_run(self) -> dict[str, Any]:
        """What else the first run showed when the space was bound."""
        return dict(self.get("first_run", {}))

    @property
    def run_bytes(self) -> int | None:
        """Bytes that the first run moved."""
        return self.get("run_bytes")

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

    @property
    def warm_start(self) -> list[dict[str, Any]] | None:
        """The earlier experiments that the search started from; None before they were chosen."""
        return self.get("warm_start")

    @property
    def model(self) -> dict[str, Any] | None:
        """The performance model that the search started from."""
        return self.get("model")

    @property
    def agreed(self) -> dict[str, Any] | None:
        """The worst case that somebody agreed to."""
        return self.get("agreed")

    @property
    def campaign(self) -> dict[str, Any] | None:
        """The campaign whose runs these are, where it is not a search."""
        return self.get("campaign")


class _RunKeys(TypedDict, total=False):
    """What facts of a run are made of. Those without a property of :class:`RunFacts` are for people."""

    # Of any runner.
    nodes: int
    node_hours: float
    notes: list[str]
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
    # Of the loop that asked for the run.
    report: Mapping[str, Any]
    folder: str
    metrics: Mapping[str, float]
    exit_code: int | None
    attempt: int
    against: int
    answer: Mapping[str, Any]
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

    @property
    def answer(self) -> dict[str, Any] | None:
        """The configuration that a run of the default is the first to be paired with, if no trial has it yet."""
        return self.get("answer")

    @property
    def report(self) -> dict[str, Any] | None:
        """The runtime's report."""
        return self.get("report")

    @property
    def folder(self) -> str | None:
        """The run's folder."""
        return self.get("folder")

    @property
    def node_hours(self) -> float:
        """Node-hours that the run took."""
        return float(self.get("node_hours", 0.0))

    @property
    def hosts(self) -> str | list[str]:
        """Names of the nodes that the run occupied: a list, or a scheduler's text for one; empty where unknown."""
        for key in ("node_list", "hosts", "node_names", "nodes"):
            named = self.get(key)
            if named and isinstance(named, str | list):
                return named
        return []

    @property
    def node_list(self) -> str:
        """Names of the nodes as the scheduler writes them; empty where there is none."""
        return str(self.get("node_list", ""))

    @property
    def no_report(self) -> str:
        """Why a report that was expected is missing; empty where it is there, or none was expected."""
        return str(self.get("no_report", ""))

    @property
    def notes(self) -> list[str]:
        """What went wrong on the way and was put right."""
        return list(self.get("notes", []))

    @property
    def job(self) -> str:
        """The scheduler's identifier of the run's job; empty where it has none."""
        return str(self.get("job") or "")

    @property
    def darshan_log(self) -> str | None:
        """The run's Darshan log, where its runner knows it."""
        return self.get("darshan_log")

    @property
    def against(self) -> int | None:
        """Of a confirmation: the candidate's trial that its pair is about."""
        return self.get("against")

    @property
    def attempt(self) -> int:
        """How often the run was launched again after an interruption."""
        return int(self.get("attempt", 0))

    @property
    def bounds(self) -> dict[str, dict[str, float]]:
        """Of a simulated run: seconds that each bound adds, by operation."""
        return dict(self.get("bounds", {}))

    @property
    def phases(self) -> dict[str, dict[str, float]]:
        """Of a simulated run: seconds of open, data and close, by operation."""
        return dict(self.get("phases", {}))

    @property
    def targets(self) -> tuple[int, ...]:
        """Storage targets that the run's files lay on, as its runner says."""
        return tuple(int(target) for target in self.get("osts", ()))
