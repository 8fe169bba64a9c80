"""The interface of a runner: the stage that turns a planned run into an outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Self

from stripewise.catalogue.meaning import versions_in
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.told import Told
from stripewise.catalogue.workload import Workload
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.replayer import Replayer

Family = tuple[str, str, bool, bool]
"""Files that a program comes back to: site, ``write`` or ``read``, and whether it is collective and strided."""


@dataclass(frozen=True)
class Preflight:
    """What a runner found out before the first run.

    Attributes
    ----------
    warnings : tuple of str
        One line each, to be shown before the first run; nothing in them prevents the experiment.
    summary : tuple of str
        What was found, one line each, for people (which MPI, how settings are carried).
    command : tuple of str
        Which programs the command starts, one line each: ranks, launcher, wrappers, container.
    fingerprint : mapping
        What must not change between the runs of one experiment (MPI library and version, program): on resuming, a
        difference is refused, because runs that differ are never pooled.
    environment : mapping
        What the report states of the machine: ``mpi``, ``mpi_path``, ``io``, ``host``, ``kernel``, ``cpus``,
        ``modules``.
    io : str or None
        The program's MPI-IO implementation, ``romio`` or ``ompio``, as far as it can be told without running it.
    told : Told
        What its MPI library says of its own settings.
    workload : Workload
        What the command line says of it (ranks, nodes).
    lost : callable
        Gives the reason why a parameter's value cannot reach the program, empty if it can: such a parameter is not
        searched.
    largest : mapping
        Role of a parameter to the largest value that there is here, as the OSTs of the file system for
        ``stripe_count``: larger values act as it does, and are not searched.
    space, objective : Space or None, Objective or None
        Given by runners that bring their own (a replayed table, a Python function).
    replayer : Replayer or None
        What the search launches in place of the program, where it is to replay a record.
    benchmark : callable or None
        Gives the program of the bundled benchmark behind the program's launcher, and builds it; None where it cannot
        take the program's place.
    watched : bool
        Whether each run tells which of the objects of Python it used that settings belong to.
    nodes : int or None
        Nodes that each run occupies; None where only the workload tells.
    occupied : callable or None
        Gives the most seconds for which a run with a time limit occupies nodes of a cluster, whose hours somebody pays:
        then large costs need consent. None where runs occupy none.
    unknown : tuple of str
        What :meth:`Runner.inspect` did not find out, because it starts nothing.
    """

    warnings: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    io: str | None = None
    told: Told = field(default_factory=Told)
    workload: Workload = field(default_factory=Workload)
    lost: Callable[[Parameter], str] = lambda parameter: ""
    largest: Mapping[str, int] = field(default_factory=dict)
    space: Space | None = None
    objective: Objective | None = None
    replayer: Replayer | None = None
    benchmark: Callable[[], tuple[str, ...]] | None = None
    watched: bool = False
    nodes: int | None = None
    occupied: Callable[[float], float] | None = None
    unknown: tuple[str, ...] = ()

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of I/O libraries, as far as the loaded modules tell them."""
        return versions_in(self.environment.get("modules") or ())


class SharedLaunch:
    """A launch whose phases are the runs, so that it goes on beside them and between them.

    This one is shared by nobody: where each run is a launch of its own, there is nothing to tell and to do.
    """

    @property
    def held(self) -> Mapping[int, int]:
        """Runs that were started but wait because trying has cost too much, and for how many phases of the default."""
        return {}

    @property
    def over(self) -> str:
        """Why no run can be started or end any more until the experiment is resumed; empty while one can."""
        return ""

    @property
    def seen(self) -> tuple[Workload, Mapping[str, int]] | None:
        """What runs without reports have shown: the workload, and the layout of the files; None if nothing."""
        return None

    def conclude(self, plan: Plan) -> str:
        """Take note that the experiment is decided: what still runs may use the plan, whose settings are proven.

        Called once at the end, with an empty plan where no gain is proven. Gives how the program failed; empty if it
        did not.
        """
        return ""

    @property
    def family(self) -> Family:
        """The file family that is tuned; asked for only where there are :attr:`others`."""
        raise NotImplementedError

    @property
    def others(self) -> Sequence[Family]:
        """Families of the same launch that are to have searches of their own; none before they are known."""
        return ()

    def beside(self, family: Family, experiment: Experiment) -> Runner:
        """Give the runner of another family, for an experiment of its own; called for each of :attr:`others`."""
        raise NotImplementedError

    def keep(self, plan: Plan) -> None:
        """Take note that a family is decided while others go on: its phases may use the plan from now on."""


_APART = SharedLaunch()


class Runner(ABC):
    """Launches planned runs, at most :attr:`capacity` at a time.

    The tuning loop calls :meth:`prepare` once, then :meth:`start` and :meth:`poll` in turn from one thread, and
    :meth:`close` at the end whatever happened. Every started run gives exactly one outcome, unless it was
    cancelled. Constructors have no side effects: no thread, no folder, no look at the machine.
    """

    name: ClassVar[str]
    simulated: bool = False
    """Whether figures come from a simulation, once :meth:`prepare` was called; replayed measurements do not."""
    kind: ClassVar[str] = "measured"
    """``measured``, ``replayed`` or ``simulated``: what results must say about their figures."""

    @property
    def capacity(self) -> int:
        """How many runs may be under way at the same time."""
        return 1

    @property
    def queued_seconds(self) -> float:
        """Wall seconds in which all runs under way waited in a scheduler's queue; budgets do not count them."""
        return 0.0

    @property
    def shared(self) -> SharedLaunch:
        """The launch that all runs share; by default each run is a launch of its own."""
        return _APART

    @abstractmethod
    def prepare(self) -> Preflight:
        """Check, once before the first run, that runs can start, and prepare for them.

        Raises
        ------
        UserError
            If no run could succeed, with what is wrong and how to fix it.
        """

    @abstractmethod
    def inspect(self) -> Preflight:
        """Find out what :meth:`prepare` would, as far as files alone tell, for a dry run to which nobody has agreed.

        It starts no program and no setup line, loads no library and builds nothing.
        ``unknown`` names what it therefore leaves open; ``fingerprint`` holds only what is certain.

        Raises
        ------
        UserError
            If no run could succeed, as far as files tell.
        """

    @abstractmethod
    def start(self, launch: Launch) -> None:
        """Begin a run and return at once.

        Called only while fewer than :attr:`capacity` runs are under way. What goes wrong with the program is an
        outcome; an error is raised only where the machine keeps any run from starting (a full disk).

        Raises
        ------
        StripewiseError
            The run was not started and may be started again later.
        """

    @abstractmethod
    def poll(self, timeout: float) -> list[Outcome]:
        """Wait until a run ends, at most ``timeout`` seconds, and give all ended runs not given before.

        Returns at once if no run is under way.
        """

    @abstractmethod
    def cancel(self, number: int) -> None:
        """End a run and all its processes; it gives no outcome. A number that is not under way is ignored."""

    @abstractmethod
    def reap(self, launch: Launch) -> None:
        """Make sure that a planned run of an earlier process is dead, before it is started again.

        Called on resuming, before :meth:`start` of the same run with a higher attempt.

        Raises
        ------
        StripewiseError
            If this host cannot make sure, because another host started the run.
        """

    def close(self) -> None:  # noqa: B027  a runner without processes has nothing to end
        """End all runs under way and release all resources. May be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AnsweringRunner(Runner):
    """A runner whose runs have ended when they are started: they are computed, looked up or called."""

    def __init__(self) -> None:
        self._ended: list[Outcome] = []

    @abstractmethod
    def answer(self, launch: Launch) -> Outcome:
        """Give the outcome of a run."""

    def inspect(self) -> Preflight:
        """Prepare: that starts nothing; see :class:`Runner`."""
        return self.prepare()

    def start(self, launch: Launch) -> None:
        """Find the answer; see :class:`Runner`."""
        self._ended.append(self.answer(launch))

    def poll(self, timeout: float) -> list[Outcome]:
        """Give the answers."""
        ended, self._ended = self._ended, []
        return ended

    def cancel(self, number: int) -> None:
        """Forget an answer that was not given yet."""
        self._ended = [outcome for outcome in self._ended if outcome.number != number]

    def reap(self, launch: Launch) -> None:
        """Nothing to end: no process was started."""

    def close(self) -> None:
        """Forget the answers that were not given yet."""
        self._ended = []
