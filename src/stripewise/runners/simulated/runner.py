"""Runner on the simulated cluster: an experiment's workload in simulated time, without a program.

Figures are computed, not measured, and everything that comes from them says so.

What a simulated run starts from: the site with its changes, and a plan's settings.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from pydantic import ValidationError

from stripewise.catalogue.carriers import Carrier, Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan, spell
from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.lab import noise
from stripewise.lab.batch import Access, RunBatch, directions, not_modelled, parameters
from stripewise.lab.engine import SimulatedOutcome as Simulated
from stripewise.lab.engine import add_noise, simulate
from stripewise.lab.site import Site, load_site
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import Phases, kind_of, kinds, objective_of
from stripewise.requests.experiment import Experiment, chosen_words
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.runners.simulated.report import simulated_report
from stripewise.sizes import count_of, format_size
from stripewise.trial import State


def open_site(name: str) -> tuple[Site, Access]:
    """Read the site, and the access beyond the workload, that a runner's name asks for.

    Parameters
    ----------
    name : str
        ``NAME`` or ``FILE.toml``, followed by ``@KEY=VALUE,KEY=VALUE``: a key is one of the site's file
        (``noise.enabled``, ``failures.node_lost``) or ``access.`` with one of the access (``access.fsync``).

    Raises
    ------
    UserError
        If the site or key does not exist, or the key cannot have the value.
    """
    path, _, rest = name.partition("@")
    site = load_site(path)
    fields: dict[str, Any] = {**site.model_dump(), "access": {}}
    for word in rest.split(",") if rest else []:
        key, equals, text = word.partition("=")
        *tables, last = key.strip().split(".")
        place: Any = fields
        for table in tables:
            place = place.get(table) if isinstance(place, dict) else None
        known = isinstance(place, dict) and (last in place or tables == ["access"])
        if not equals or not known or isinstance(place.get(last), dict):
            raise UserError(
                f"sim:{name}: '{word}' changes nothing that a site has",
                "write KEY=VALUE with a key of the site's file, as in failures.node_lost=0.05 or noise.enabled=false",
            )
        place[last] = _value(text.strip())
    try:
        access = Access.model_validate(fields.pop("access"))
        return Site.model_validate(fields), access
    except ValidationError as error:
        raise explain_validation(error, f"sim:{name}") from error


def _value(text: str) -> Any:
    """A value as TOML reads it; anything else is text, for sizes and times are written without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


def settings_of_plan(plan: Plan) -> dict[str, Any]:
    """Give the plan's settings by the names of the stacks' parameters, as batches take them.

    Like an MPI library, this ignores values that it does not understand.
    """
    known = _parameters()
    found: dict[str, Any] = {}
    for setting in plan.settings:
        parameter = known.get((setting.carrier, setting.name))
        if parameter is None and not setting.carrier.of_file_system:
            found[setting.key] = setting.value
        elif parameter is not None and _is_understood(parameter, setting.value):
            found[parameter.name] = setting.value
    return found


@cache
def _parameters() -> dict[tuple[Carrier, str], Parameter]:
    """Parameters of the stacks that the simulated cluster models, by carrier and name."""
    return {
        (parameter.carrier, Setting(parameter.carrier, parameter.setting, "", parameter.layer).name): parameter
        for parameter in parameters().values()
    }


def _is_understood(parameter: Parameter, value: str) -> bool:
    if parameter.kind in (Kind.CATEGORICAL, Kind.BOOLEAN):
        return value in {spell(known) for known in parameter.values}
    try:
        float(value)
    except ValueError:
        return False
    return True


_DAY = 86400.0
_NEEDED = ("operation", "nodes", "processes_per_node", "file_size")


@dataclass(frozen=True)
class _Ending:
    """How a run ends, and after how many seconds."""

    seconds: float
    state: State
    reason: str


class SimulatedRunner(AnsweringRunner):
    """Answers a run with what the simulated cluster makes of the experiment's workload.

    A run's outcome depends on the site, the workload, the plan, the seed and the run's number alone. So does the
    simulated moment at which it starts: jobs are submitted at a fixed pace, one typical wait and one run with default
    settings apart. An experiment that was interrupted goes on as it would have gone on.

    Parameters
    ----------
    name : str
        A site's name or file, followed by ``@KEY=VALUE,...`` to change single values of it.
    experiment : Experiment
        Its ``workload`` is what runs; its ``seed`` decides the noise.
    """

    name = "sim"
    simulated = True
    kind: ClassVar[str] = "simulated"

    def __init__(self, name: str, experiment: Experiment) -> None:
        super().__init__()
        self._name = name
        self._experiment = experiment

    @cached_property
    def _opened(self) -> tuple[Site, Access]:
        return open_site(self._name)

    @property
    def site(self) -> Site:
        """The site, read when it is first needed.

        Raises
        ------
        UserError
            If it cannot be read.
        """
        return self._opened[0]

    @cached_property
    def workload(self) -> Workload:
        """What is run: the experiment's, with the site's driver and file system."""
        mpi, declared = self.site.mpi, self._experiment.workload
        system = mpi.file_system.name if mpi.file_system.keys else None
        words = {"driver": mpi.file_driver, "file_system": system, "api": declared.api or "mpiio"}
        if declared.layout is None:
            words["layout"] = "segmented"
        return declared.model_copy(update={key: value for key, value in words.items() if value is not None})

    @cached_property
    def _pace(self) -> float:
        """Seconds between the submissions of two jobs."""
        batches = self._batches(Plan()).values()
        typical = sum(float(simulate(self.site, batch).seconds[0]) for batch in batches)
        return self.site.queue.wait + typical

    def prepare(self) -> Preflight:
        """Check that the workload is complete and fits the site; see :class:`Runner`."""
        site, declared = self.site, self._experiment.workload
        missing = [name for name in _NEEDED if getattr(declared, name) is None]
        if missing:
            raise UserError(
                f"runner {self._experiment.runner} has no program to watch, and [workload] says nothing of "
                f"{', '.join(missing)}",
                'complete it: operation = "write", nodes = 4, processes_per_node = 8, file_size = "16 GiB" ...',
            )
        self._check_fit(site, declared)
        self._check_objective()
        workload = self.workload
        mpi = f"{site.mpi.io.upper()} (simulated)"
        return Preflight(
            warnings=tuple(self._warnings()),
            summary=(
                f"simulated {site.name}: {count_of(site.nodes, 'node')}, {count_of(site.ost.count, 'OST')} on "
                f"{count_of(site.oss.count, 'server')}, "
                f"{site.mpi.driver}; nothing is launched or measured",
                f"simulated {_describe(workload)}",
            ),
            fingerprint={"the simulated site": f"{site.name} ({_digest(*self._opened)})"},
            environment={"host": f"{site.name} (simulated)", "mpi": mpi, "io": site.mpi.io},
            lost=not_modelled,
            io=site.mpi.io,
            workload=workload,
            largest={"stripe_count": site.ost.count},
        )

    # -- checks ----------------------------------------------------------------------------------------------

    def _check_fit(self, site: Site, workload: Workload) -> None:
        for what, wanted, there in (
            ("nodes", workload.nodes, site.nodes),
            ("processes_per_node", workload.processes_per_node, site.cores),
        ):
            if wanted is not None and wanted > there:
                raise UserError(
                    f"[workload] {what} = {wanted}, but the simulated site {site.name} has {there}",
                    f"choose at most {there}, or another site",
                )

    def _check_objective(self) -> None:
        kind = kind_of(objective_of(self._experiment.objective).name)
        possible = _list_simulated(dict.fromkeys(("read", "write"), (1.0, 1.0)))
        if kind.title not in possible:
            raise UserError(
                f"objective {kind.title} cannot be simulated: no program runs",
                f"use one of {', '.join(possible)}",
            )
        if kind.simulated(dict.fromkeys(directions(self.workload), (1.0, 1.0))) is None:
            raise UserError(
                f"objective {kind.title}, but the workload's operation is {self.workload.operation}",
                "change one of the two",
            )

    def _warnings(self) -> list[str]:
        ignored = [
            name
            for name, given in (
                ("the command", self._experiment.command),
                ("setup lines", self._experiment.setup),
                ("hooks", [*self._experiment.hooks.before, *self._experiment.hooks.after]),
            )
            if given
        ]
        return [f"{', '.join(ignored)}: not run, for the runs are simulated from [workload]"] if ignored else []

    # -- runs ------------------------------------------------------------------------------------------------

    def _batches(self, plan: Plan, workload: Workload | None = None) -> dict[str, RunBatch]:
        """What is simulated for each direction."""
        settings, access, workload = settings_of_plan(plan), self._opened[1], workload or self.workload
        return {way: RunBatch.make(workload, way, settings, access) for way in directions(workload)}

    @cached_property
    def _chosen(self) -> dict[str, str]:
        """Parameters that choose what the program does, with the word of the workload that each is."""
        return chosen_words(self._experiment)

    def _workload_of(self, configuration: Mapping[str, Value]) -> Workload:
        """Give what a run with a configuration does."""
        if not self._chosen.keys() & configuration.keys():
            return self.workload
        words = {word: configuration[name] for name, word in self._chosen.items() if name in configuration}
        try:
            return Workload.model_validate({**self.workload.model_dump(exclude_none=True), **words})
        except ValidationError as error:
            raise explain_validation(error, "[parameters]") from error

    def answer(self, launch: Launch) -> Outcome:
        """Simulate a run."""
        site, seed, number = self.site, self._experiment.seed, launch.number
        wait = self._wait(number)
        started = number * self._pace + wait
        slow = self._slow_ost(number)
        speeds = None
        if slow is not None:
            speeds = np.ones(site.ost.count)
            speeds[: len(site.ost.speeds)] = site.ost.speeds
            speeds[slow] *= site.failures.ost_slow_factor
        workload = self._workload_of(launch.configuration)
        batches = self._batches(launch.plan, workload)
        phases = {
            way: add_noise(site, batch, simulate(site, batch, speeds), [number], seed, started / _DAY)
            for way, batch in batches.items()
        }
        seconds = sum(float(phase.seconds[0]) for phase in phases.values())
        facts = RunFacts(
            simulated=True,
            site=site.name,
            nodes=self.workload.nodes or 1,
            queue_seconds=wait,
            phases={way: _list_times(phase) for way, phase in phases.items()},
            bounds={way: _bounds(phase) for way, phase in phases.items()},
            binding={way: str(phase.binding[0]) for way, phase in phases.items()},
        )
        if slow is not None:
            facts = facts.with_(slow_ost=slow)
        ending = min(self._endings(launch, seconds), key=lambda found: found.seconds, default=None)
        if ending is not None:
            return Outcome(number, ending.state, ending.seconds, started, ending.reason, facts=facts)
        return Outcome(
            number,
            State.FINISHED,
            seconds,
            started,
            exit_code=0,
            report=simulated_report(site, workload, launch.plan, batches, phases, started),
            metrics=_list_simulated({way: (float(p.bytes[0]), float(p.seconds[0])) for way, p in phases.items()}),
            facts=facts,
        )

    def _endings(self, launch: Launch, seconds: float) -> list[_Ending]:
        """What would end the run before it is done."""
        site, found = self.site, []
        for limit, state, reason in (
            (launch.bound, State.PRUNED, launch.cut_after),
            (launch.timeout, State.FAILED, "longer than its time limit of {:g} s".format),
            (site.queue.walltime, State.FAILED, "killed at the walltime limit of {:g} s".format),
        ):
            if limit is not None and seconds > limit:
                found.append(_Ending(limit, state, f"{reason(limit)} (simulated)"))
        if self._uniform(launch.number, noise.NODE) < site.failures.node_lost:
            lost = seconds * self._uniform(launch.number, noise.NODE, again=1)
            found.append(_Ending(lost, State.FAILED, f"a node was lost after {lost:.3g} s (simulated)"))
        return found

    def _slow_ost(self, number: int) -> int | None:
        if self._uniform(number, noise.OST) >= self.site.failures.ost_slow:
            return None
        return int(self._uniform(number, noise.OST, again=1) * self.site.ost.count)

    def _wait(self, number: int) -> float:
        """Seconds in the queue: exponential, as arrivals at random make it."""
        return -self.site.queue.wait * math.log(self._uniform(number, noise.QUEUE)) if self.site.queue.wait else 0.0

    def _uniform(self, number: int, stream: int, again: int = 0) -> float:
        return float(noise.run_uniforms(number, self._experiment.seed, stream + 1000 * again))


def _digest(site: Site, access: Access) -> str:
    text = json.dumps([site.model_dump(), access.model_dump()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _describe(workload: Workload) -> str:
    way = {"read": "read", "write": "write"}.get(workload.operation or "", "write and read")
    files = "a file each" if workload.file_per_process else "one file"
    how = "collectively" if workload.collective else "independently"
    nodes = workload.nodes or 1
    return (
        f"{count_of(nodes * (workload.processes_per_node or 1), 'process')} on {count_of(nodes, 'node')} {way} "
        f"{format_size(workload.file_size or 0)} {how}, {files}, {workload.layout}"
    )


def _list_simulated(phases: Phases) -> dict[str, float]:
    """Every objective that a simulated run has, by name."""
    found = {kind.name: kind().simulated(phases) for kind in kinds() if kind.optional or not kind.text}
    return {name: value for name, value in found.items() if value is not None}


def _list_times(phase: Simulated) -> dict[str, float]:
    return {
        "open": float(phase.open_seconds[0]),
        "data": float(phase.data_seconds[0]),
        "close": float(phase.close_seconds[0]),
    }


def _bounds(phase: Simulated) -> dict[str, float]:
    return {name: float(seconds[0]) for name, seconds in phase.bounds.items()}
