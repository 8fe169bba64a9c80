"""Runs points of a campaign through any runner: this machine's, jobs, steps, a simulated site's, a measured table's."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import LAYOUT
from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.factor import WORKLOAD_ROLES
from stripewise.catalogue.plan import Plan
from stripewise.errors import UserError
from stripewise.launch import Launch, Outcome
from stripewise.models.table import Table, read_table
from stripewise.observe.objectives import kind_of, objective_of
from stripewise.requests.campaign import Campaign, FilesEntry
from stripewise.requests.campaign_points import Point, Points
from stripewise.requests.experiment import Experiment, Hooks, ObjectiveEntry
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.hooks import delete
from stripewise.runners.native import benchmark_lines
from stripewise.runners.native.benchmark_lines import make_ready
from stripewise.runners.registry import make_runner
from stripewise.trial import Phase


@dataclass(eq=False)
class _Lane:
    """A runner with what it is for."""

    runner: Runner
    objective: Objective
    preflight: Preflight


class Bench:
    """Launches points of a campaign, at most :attr:`capacity` at a time.

    Where a runner takes its workload from its experiment (a simulated site, a table), there is a runner for each
    workload that occurs; others get it with each command. Runs on a machine are made one at a time unless the campaign
    asks for more: they share a file system. Constructors have no side effects.

    Parameters
    ----------
    campaign : Campaign
    points : Points
    folder : Path
        Where the runs' own folders are made.
    environment : mapping
        In which programs are looked for.
    runtime : str
        See :class:`~stripewise.runners.local.runner.LocalRunner`.
    """

    def __init__(
        self, campaign: Campaign, points: Points, folder: Path, environment: Mapping[str, str], runtime: str = "auto"
    ) -> None:
        self.campaign = campaign
        self._points = points
        self._folder = folder
        self._environment = dict(environment)
        self._runtime = runtime
        self._lanes: dict[Any, _Lane] = {}
        self._under_way: dict[int, _Lane] = {}
        self._program = ""
        self._table: Table | None = None
        self._identifier = f"{campaign.name}-{campaign.digest[:8]}"

    @property
    def launches(self) -> bool:
        """Whether programs are launched: here, as jobs, or as steps."""
        return self.campaign.launches

    @property
    def simulated(self) -> bool:
        """Whether figures are computed."""
        return any(lane.runner.simulated for lane in self._lanes.values())

    @property
    def kind(self) -> str:
        """``measured``, ``replayed`` or ``simulated``."""
        kinds = [lane.runner.kind for lane in self._lanes.values()]
        return kinds[0] if kinds else "measured"

    @property
    def capacity(self) -> int:
        """Runs that may be under way at the same time."""
        # All lanes have runners of one kind.
        most = next((lane.runner.capacity for lane in self._lanes.values()), 1)
        return min(most, self._at_once) if self.launches else most

    def admits(self, point: Point) -> bool:
        """Whether a run of a point may be started now."""
        if len(self._under_way) >= self.capacity:
            return False
        if self.campaign.runner != "steps":
            return True
        # Each lane's runner hands out the allocation's nodes by itself: two of them would hand out the same ones.
        own = self._lane(point)
        return {*self._under_way.values()} <= {own} and len(self._under_way) < own.runner.capacity

    @property
    def _at_once(self) -> int:
        return self.campaign.batch.jobs or 1

    # -- before the first run ------------------------------------------------------------------------------

    def prepare(self) -> Preflight:
        """Check that runs can be started, and get ready.

        Raises
        ------
        UserError
            If the program, the launcher, the folder or its file system cannot do what is asked.
        """
        points = self._points.all
        if self.launches:
            self.campaign, self._program = make_ready(self.campaign, self._points, self._environment)
            if self._points.campaign.files.name == FilesEntry().name:
                # Others may measure in the same folder; an interrupted campaign finds its own file again.
                self.campaign = self._with_files(f".{hashlib.sha256(bytes(self._folder.absolute())).hexdigest()[:8]}")
        preflight = self._lane(points[0]).preflight
        for operation in self.campaign.operations[1:]:
            self._lane(self._points.of(operation)[0])
        return preflight

    # -- runs ----------------------------------------------------------------------------------------------

    def launch(self, point: Point, number: int, *, attempt: int = 0, phase: Phase = Phase.SEARCH) -> Launch:
        """Write the launch of a point's run."""
        settings = self._points.settings(point)
        identifier = self._identifier
        plan = Plan(tuple(s for s in settings if s.carrier is not LAYOUT), f"{identifier}.{number}", override=True)
        launch = Launch(
            identifier, number, self._configuration(point), plan, phase, timeout=self.campaign.timeout, attempt=attempt
        )
        if not self.launches:
            return replace(launch, plan=Plan(settings, plan.identifier, override=True))
        own = self._with_files(f".run{number}") if self._at_once > 1 else self.campaign
        off = self._points.off(point)
        if off.command and own.program == "command":
            own = own.model_copy(update={"command": shlex.split(off.command)})
        found = benchmark_lines.lines(own, point, settings, self._program)
        command = shlex.join(found.command)
        return replace(launch, command=command, before=found.before, after=found.after, unset=tuple(off.unset))

    def _with_files(self, ending: str) -> Campaign:
        """Name the files otherwise: those of runs side by side must not be the same."""
        files = self.campaign.files
        return self.campaign.model_copy(update={"files": files.model_copy(update={"name": f"{files.name}{ending}"})})

    def start(self, point: Point, launch: Launch) -> None:
        """Begin a run; see :meth:`Runner.start`."""
        lane = self._lane(point)
        self._under_way[launch.number] = lane
        lane.runner.start(launch)

    def poll(self, timeout: float) -> list[Outcome]:
        """Give runs that have ended; see :meth:`Runner.poll`."""
        found: list[Outcome] = []
        lanes = dict.fromkeys(self._under_way.values())
        for lane in lanes:
            found += lane.runner.poll(timeout / len(lanes))
        for outcome in found:
            self._under_way.pop(outcome.number, None)
        return found

    def objective(self, point: Point) -> Objective:
        """What is measured of a point's runs."""
        return self._lane(point).objective

    def cancel(self, number: int) -> None:
        """End a run without an outcome."""
        lane = self._under_way.pop(number, None)
        if lane is not None:
            lane.runner.cancel(number)

    def reap(self, point: Point, launch: Launch) -> None:
        """End what an earlier session left of a run; see :meth:`Runner.reap`."""
        self._lane(point).runner.reap(launch)

    def close(self) -> None:
        """End all runs and delete the benchmark's file."""
        for number in list(self._under_way):
            self.cancel(number)
        for lane in self._lanes.values():
            lane.runner.close()
        if self.launches and self._lanes:
            delete(self._patterns(), Path.cwd())

    def _patterns(self) -> tuple[str, ...]:
        return benchmark_lines.patterns(self._with_files(".run*") if self._at_once > 1 else self.campaign)

    # -- runners -------------------------------------------------------------------------------------------

    def _lane(self, point: Point) -> _Lane:
        # A job asks for the nodes of its runs, and a step is given them.
        shape = (point.workload.nodes, point.workload.processes_per_node)
        key: Any = point.operation if self.campaign.runner == "local" else (point.operation, shape)
        if not self.launches:
            fixed = [f.name for f in self.campaign.factors if f.name not in self._configuration(point)]
            key = (point.operation, *(repr(point.values[name]) for name in fixed))
        if key not in self._lanes:
            experiment = self._experiment(point)
            runner = make_runner(experiment, self._folder, runtime=self._runtime)
            preflight = runner.prepare()
            self._lanes[key] = _Lane(runner, preflight.objective or objective_of(experiment.objective), preflight)
        return self._lanes[key]

    def _experiment(self, point: Point) -> Experiment:
        campaign = self.campaign
        about: dict[str, Any] = {
            "name": campaign.name,
            "runner": self._runner(point),
            "stacks": campaign.stacks,
            "objective": self._objective(point.operation),
            "seed": campaign.seed,
            "setup": campaign.setup,
            "env": campaign.env,
            "workload": point.workload,
            "timeout": campaign.timeout,
            "override": True,
        }
        if self.launches:
            found = benchmark_lines.lines(campaign, point, self._points.settings(point), self._program)
            about["command"] = list(found.command)
            nodes, per_node = point.workload.nodes or 1, point.workload.processes_per_node
            about["batch"] = campaign.batch.model_copy(update={"nodes": nodes, "processes_per_node": per_node})
            about["hooks"] = Hooks(
                # Each of several runs at a time has a file of its own, which only its own lines may delete.
                delete=list(self._patterns()) if self._at_once == 1 else [],
                drop_caches="system" if campaign.files.caches == "system" and point.operation == "read" else "none",
                timeout=campaign.timeout,
            )
        return Experiment(**about)

    def _objective(self, operation: str) -> ObjectiveEntry:
        campaign = self.campaign
        name = kind_of(campaign.objective).of_operation(operation)
        if name == campaign.objective:
            return ObjectiveEntry(name=campaign.objective, direction=campaign.direction, unit=campaign.unit)
        text = benchmark_lines.OBJECTIVES.get(campaign.program) if self.launches else None
        if text is None:
            return ObjectiveEntry(name=name)
        name = text.format(operation=operation, Operation=operation.capitalize())
        return ObjectiveEntry(name=name, direction="maximize", unit="MiB/s")

    def _runner(self, point: Point) -> str:
        """The runner's name; a table is asked for the point's own context."""
        name = self.campaign.runner
        if not name.startswith("replay:"):
            return name
        words = []
        for column in self._replayed().schema.context:
            value = self._value(point, column.name, column.role)
            words.append(f"{column.name}={value}")
        return name + ("@" + ",".join(words) if words else "")

    def _replayed(self) -> Table:
        if self._table is None:
            self._table = read_table(self.campaign.runner.removeprefix("replay:"))
        return self._table

    def _configuration(self, point: Point) -> Configuration:
        """What the runner is given: a table's parameters, else tunables that are not words of the workload."""
        if self.campaign.runner.startswith("replay:"):
            parameters = self._replayed().schema.parameter
            return Configuration({c.name: self._value(point, c.name, c.role) for c in parameters})
        chosen = {f.name: f.role for f in self.campaign.tunable if self.launches or f.role not in WORKLOAD_ROLES}
        return Configuration({name: point.values[name] for name in chosen})

    def _value(self, point: Point, name: str, role: str) -> Value:
        if name in point.values:
            return point.values[name]
        if role == "operation" or name == "operation":
            return point.operation
        raise UserError(
            f"the campaign says nothing of {name}, a column of {self.campaign.runner}", "add it as a [[workload]]"
        )
