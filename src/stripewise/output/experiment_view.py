"""An experiment as reports and pages show it, at any moment: plain data, nothing drawn yet.

Until it has a result, what its runs show so far is put in the words of a result.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stripewise.catalogue.configuration import identity, place_of
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.observe.objectives import objective_of
from stripewise.output.markup import list_changes
from stripewise.output.plots.job_io import BoundedRun
from stripewise.output.plots.parameters import Axis, Line
from stripewise.output.plots.proof import Control, chart_control
from stripewise.output.plots.trajectory import GenerationPoint, RunPoint
from stripewise.requests.objective import Objective
from stripewise.result import (
    Arm,
    Best,
    Candidate,
    PairOfRuns,
    ParameterSummary,
    Proof,
    Reference,
    Result,
    SpaceSummary,
)
from stripewise.search.base import sampler_class
from stripewise.search.statistics import summarize_values
from stripewise.sizes import format_value
from stripewise.store.base import Record
from stripewise.trial import Phase, Role, Run, State, Trial, failures_of

_MOST_LEVELS = 200
_MOST_CELLS = 16
_LEAST_LINES = 4


@dataclass(frozen=True)
class ExperimentView:
    """A finished experiment.

    Attributes
    ----------
    record : Record
        With its result.
    completed : callable
        Completes the commands that a text names, so that they can be copied.
    """

    record: Record
    trials: Sequence[Trial]
    completed: Callable[[str], str] = str

    @property
    def result(self) -> Result:
        """The result as the tuning loop wrote it."""
        return self.record.result or Result()

    @property
    def quantity(self) -> str:
        """What was measured."""
        return self.result.objective.name

    @property
    def unit(self) -> str:
        """Its unit."""
        return self.result.objective.unit

    @property
    def maximize(self) -> bool:
        """Whether larger is better."""
        return self.result.objective.maximize

    @property
    def scale(self) -> dict[str, Any]:
        """The objective as figures want it."""
        return {"quantity": self.quantity, "unit": self.unit, "maximize": self.maximize}

    @cached_property
    def units(self) -> dict[str, str]:
        """Units of the parameters."""
        return {parameter.name: parameter.unit for parameter in self.parameters}

    @property
    def parameters(self) -> tuple[ParameterSummary, ...]:
        """The space's parameters."""
        return self.result.space.parameters

    @property
    def default(self) -> dict[str, Any]:
        """The default configuration."""
        return self.result.default.configuration

    def describe(self, trial: Trial) -> str:
        """What a trial changes, in words."""
        if trial.role is Role.DEFAULT:
            return "default"
        if trial.role is Role.REFERENCE:
            return "reference: without the component"
        if trial.role is Role.CEILING:
            return "ceiling: the benchmark"
        return " ".join(self.changed(trial)) or "(defaults)"

    def changed(self, trial: Trial) -> list[str]:
        """What a trial changes, as ``name=value`` words."""
        return list_changes(trial.configuration, self.default, self.units)

    @cached_property
    def runs(self) -> list[tuple[Run, Trial]]:
        """All runs that ended, in order of planning."""
        ended = [(run, trial) for trial in self.trials for run in trial.runs if run.state.ended]
        return sorted(ended, key=lambda pair: pair[0].number)

    @cached_property
    def started(self) -> float | None:
        """When the first run began, in epoch seconds."""
        return min((run.started for run, _ in self.runs if run.started is not None), default=None)

    # -- figures -------------------------------------------------------------------------------------------

    def points(self) -> list[RunPoint]:
        """Runs of the trajectory; without their times where they were computed rather than made."""
        zero = None if self.result.simulated else self.started
        return [
            RunPoint(
                run.number,
                run.value,
                kind(run, trial),
                "\n".join(part for part in (self.describe(trial), run.reason) if part),
                None if zero is None or run.started is None else run.started - zero,
                run.elapsed,
            )
            for run, trial in self.runs
        ]

    def times(self) -> list[RunPoint]:
        """Runs of which is known when they were made and how long they took."""
        return [point for point in self.points() if point.start is not None and point.seconds]

    @property
    def slower(self) -> dict[int, float]:
        """How many times slower than on average the machine was at each search run; empty if it did not change."""
        return {one.run: one.slower for one in self.result.level.runs}

    def bounded(self) -> list[BoundedRun]:
        """What limited each configuration, where runs were simulated: the default first, then by the objective."""
        sign = -1 if self.maximize else 1
        ranked = sorted(
            (trial for trial in self.trials if trial.values),
            key=lambda trial: (trial.role is not Role.DEFAULT, sign * (trial.value or 0.0)),
        )
        found = []
        for trial in ranked:
            # The first run that was not a warm-up stands for the trial: its noise stretches all bounds alike.
            run = next((run for run in trial.runs if run.phase is not Phase.WARMUP and run.facts.bounds), None)
            if run is None:
                continue
            bounds: dict[str, float] = {}
            data = metadata = 0.0
            for way, seconds in run.facts.bounds.items():
                for name, value in seconds.items():
                    bounds[name] = bounds.get(name, 0.0) + float(value)
                times = run.facts.phases[way]
                data += times["data"]
                metadata += times["open"] + times["close"]
            bounds.pop("metadata", None)
            name = "default" if trial.role is Role.DEFAULT else str(trial.number)
            found.append(BoundedRun(name, bounds, data, metadata, self.describe(trial)))
        return found

    def incumbent(self) -> list[tuple[int, float]]:
        """The search's best median after each run where it changed."""
        values: dict[int, list[float]] = {}
        medians: dict[int, float] = {}
        steps: list[tuple[int, float]] = []
        choose = max if self.maximize else min
        for run, trial in self.runs:
            if run.phase is not Phase.SEARCH or run.state is not State.FINISHED or run.value is None:
                continue
            if trial.role is Role.REFERENCE:
                continue
            values.setdefault(trial.number, []).append(run.value)
            medians[trial.number] = statistics.median(values[trial.number])
            best = choose(medians.values())
            if not steps or best != steps[-1][1]:
                steps.append((run.number, best))
        return steps

    def generations(self) -> list[GenerationPoint]:
        """Trials of the search with the generation that each belongs to; empty where the sampler has none."""
        try:
            sampler = sampler_class(self.record.experiment.sampler)
        except UserError:
            # Of a package that is not installed here.
            return []
        return [
            GenerationPoint(generation, trial.value, self.describe(trial))
            for trial in self.trials
            if trial.role is Role.CANDIDATE
            and trial.value is not None
            and (generation := sampler.generation(trial.tag)) is not None
        ]

    def lines(self) -> tuple[list[Axis], list[Line]]:
        """Axes and lines of the parallel coordinates: parameters that were varied, trials with a value."""
        return self._lines

    @cached_property
    def _lines(self) -> tuple[list[Axis], list[Line]]:
        seen = [trial for trial in self.trials if trial.value is not None and trial.role is not Role.REFERENCE]
        full = {trial.number: {**self.default, **trial.configuration} for trial in seen}
        axes: list[Axis] = []
        order: list[tuple[str, list[Any]]] = []
        for parameter in self.parameters:
            name = parameter.name
            used = [configuration[name] for configuration in full.values() if name in configuration]
            values = _levels(parameter, used)
            if len({identity(value) for value in used}) > 1 and len(values) <= _MOST_LEVELS:
                order.append((name, values))
                axes.append(Axis(name, [format_value(value, self.units[name]) for value in values]))
        best = self.result.best.trial
        lines = [
            Line(
                [place_of(full[trial.number][name], values) or 0 for name, values in order],
                trial.value,
                self.describe(trial),
                best=trial.number == best,
            )
            for trial in seen
            if trial.value is not None and all(name in full[trial.number] for name, _ in order)
        ]
        return axes, lines

    def contour(self) -> tuple[list[Axis], list[list[float | None]]]:
        """Two parameters, and the best at each pair of their values; empty if fewer varied.

        Those of the answer come first, by their measured shares, then those of which most values were tried.
        """
        axes, lines = self.lines()
        shares = {share.name: share.slowdown or 0.0 for share in self.result.shares}
        answer = self.result.changed(self.result.shown)

        def rank(index: int) -> tuple[float, bool, int]:
            name = axes[index].name
            return -shares.get(name, 0.0), name not in answer, -len({line.levels[index] for line in lines})

        few = [index for index, axis in enumerate(axes) if len(axis.labels) <= _MOST_CELLS]
        chosen = sorted(few, key=rank)[:2]
        if len(chosen) < 2 or len(lines) < _LEAST_LINES:
            return [], []
        across, up = (axes[index] for index in chosen)
        grid: list[list[float | None]] = [[None] * len(across.labels) for _ in up.labels]
        for line in lines:
            column, row = (line.levels[index] for index in chosen)
            before = grid[row][column]
            if before is None or (line.value > before) == self.maximize:
                grid[row][column] = line.value
        return [across, up], grid

    @cached_property
    def machine(self) -> tuple[list[Run], list[float], Control]:
        """The default's runs in order of time, their seconds since the first run, and their control chart."""
        own = [
            run
            for run, trial in self.runs
            if trial.role is Role.DEFAULT
            and run.phase is not Phase.WARMUP
            and run.state is State.FINISHED
            and run.value is not None
        ]
        own.sort(key=lambda run: (run.started or 0.0, run.number))
        zero = self.started or 0.0
        when = [(run.started or zero) - zero for run in own]
        return own, when, chart_control([float(run.value or 0.0) for run in own])

    @property
    def whole_space(self) -> float | None:
        """Seconds that one run of each configuration would take, by the median run of the search; None if unknown."""
        took = [run.elapsed for run, _ in self.runs if run.phase is Phase.SEARCH and run.elapsed]
        distinct = self.result.space.distinct
        return distinct * statistics.median(took) if took and distinct else None

    def spending(self) -> tuple[dict[str, float], dict[str, int]]:
        """Seconds and launches by kind of run, and the seconds between runs."""
        seconds: dict[str, float] = {}
        launches: dict[str, int] = {}
        for run, trial in self.runs:
            name = _SPENT[kind(run, trial)] if run.phase is not Phase.CONFIRMATION else "confirmation"
            seconds[name] = seconds.get(name, 0.0) + (run.elapsed or 0.0)
            launches[name] = launches.get(name, 0) + 1
        whole = self.result.seconds
        between = whole - sum(seconds.values())
        if not self.result.simulated and between > 0.005 * whole:
            seconds["between runs"] = between
        return seconds, launches


_SPENT = {
    "warmup": "warm-up",
    "default": "default, before the search",
    "reference": "without the component",
    "search": "search",
    "confirmation": "confirmation",
    "failed": "failed",
    "pruned": "cut",
}


def kind(run: Run, trial: Trial) -> str:
    """Say what a run is in a figure."""
    if run.state is State.FAILED:
        return "failed"
    if run.state is State.PRUNED:
        return "pruned"
    if run.phase is Phase.WARMUP:
        return "warmup"
    if trial.role is not Role.CANDIDATE:
        return trial.role.value
    return run.phase.value


def _levels(parameter: ParameterSummary, used: Iterable[Any]) -> list[Any]:
    """A parameter's values in order; of long ranges the result keeps the ends only, and the values tried fill them."""
    listed = list(parameter.values)
    missing = {identity(value): value for value in used if place_of(value, listed) is None}
    if not missing:
        return listed
    both = [*listed, *missing.values()]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in both)
    return sorted(both, key=float) if numbers else both


def view_experiment(record: Record, trials: Sequence[Trial], completed: Callable[[str], str] = str) -> ExperimentView:
    """Read an experiment: by its result, or by what is known until it has one."""
    if record.result is None:
        record = replace(record, result=read_unfinished(record, trials))
    return ExperimentView(record, trials, completed)


def read_unfinished(record: Record, trials: Sequence[Trial]) -> Result:
    """Write what an unfinished experiment has shown: the parts of a result that need no conclusion.

    Nothing in it is confirmed: ``best`` is the default, and ``candidate`` is what looks best in the search.
    """
    objective = record.facts.objective or objective_of(record.experiment.objective)
    default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
    reference = next((trial for trial in trials if trial.role is Role.REFERENCE), None)
    space = record.facts.space or SpaceSummary(parameters=_parameters(trials))
    base = {parameter.name: parameter.default for parameter in space.parameters}
    sign = -1 if objective.maximize else 1
    ranked = sorted(
        (trial for trial in trials if trial.value is not None and trial.role is Role.CANDIDATE),
        key=lambda trial: (sign * float(trial.value or 0.0), trial.number),
    )
    best = ranked[0] if ranked else None
    better = (
        best is not None
        and best.value is not None
        and (default is None or default.value is None or objective.better(best.value, default.value))
    )
    # Figures stress the trial; nothing better than the default is claimed.
    stressed = best if better else default
    runs = [run for trial in trials for run in trial.runs]
    own = dict(summarize_values(default.values if default else ()))
    return Result(
        experiment=record.id,
        name=record.experiment.name,
        simulated=record.experiment.runner.startswith("sim:"),
        state=record.state,
        objective=objective,
        default=Arm(**own, configuration=base),
        reference=None if reference is None else Reference(**dict(summarize_values(reference.values))),
        best=Best(**own, configuration=base, trial=stressed.number if stressed else None),
        candidate=_candidate(best, default, objective) if better and best is not None else None,
        confirmation=Proof(pairs=pairs(runs)),
        failures=failures_of(runs),
        runs=len(runs),
        seconds=record.facts.seconds,
        node_hours=sum(run.facts.node_hours for run in runs),
        environment=record.facts.environment,
        workload=record.facts.workload or Workload(),
        space=space,
    )


def pairs(runs: Sequence[Run]) -> tuple[PairOfRuns, ...]:
    """List the pairs of the confirmation as they stand, those of the latest candidate."""
    own = sorted((run for run in runs if run.phase is Phase.CONFIRMATION), key=lambda run: run.number)
    if not own:
        return ()
    latest = own[-1].facts.against
    rows: dict[int, PairOfRuns] = {}
    for run in own:
        if run.pair is None or run.facts.against != latest:
            continue
        row = rows.setdefault(run.pair, PairOfRuns(pair=run.pair, order=f"{run.arm}-first"))
        if run.state is State.FINISHED:
            rows[run.pair] = row.model_copy(update={run.arm: run.value})
    return tuple(rows.values())


def _parameters(trials: Sequence[Trial]) -> tuple[ParameterSummary, ...]:
    """The parameters as the trials name them, where the space is not known yet."""
    found: dict[str, list[Any]] = {}
    for trial in trials:
        for name, value in trial.configuration.items():
            if place_of(value, found.setdefault(name, [])) is None:
                found[name].append(value)
    default: Mapping[str, Any] = next((trial.configuration for trial in trials if trial.role is Role.DEFAULT), {})
    return tuple(
        ParameterSummary(name=name, values=tuple(values), count=len(values), default=default.get(name))
        for name, values in found.items()
    )


def _candidate(best: Trial, default: Trial | None, objective: Objective) -> Candidate:
    speedup = None
    # A value of zero has no ratio to another.
    if default is not None and default.value and best.value:
        speedup = objective.speedup(best.value, default.value)
    return Candidate(configuration=dict(best.configuration), trial=best.number, value=best.value, speedup=speedup)
