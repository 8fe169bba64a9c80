"""An experiment's record and runs, read for drawing: plain data, nothing drawn yet.

A control chart of the default over the session asks whether it was the machine. That is an individuals chart
(Shewhart): limits at three standard deviations from the centre, where the deviation is estimated from the mean moving
range, which a slow drift hardly widens. Performance varies by factors, so it is drawn up on logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from stripewise.catalogue.configuration import identity, place_of
from stripewise.output.markup import changes, value_text
from stripewise.output.plots import Axis, BoundedRun, Line, PairPoint, RunPoint, RunTime
from stripewise.result import LevelChange, ParameterSummary, Result
from stripewise.store.base import Record
from stripewise.trial import Phase, Role, Run, State, Trial

_PROOF = "The proof compares runs side by side in time, which a slow change does not favour."
LEAST_RUNS = 8
"""With fewer runs the limits would be guesses."""

_MOVING_RANGE = 1.128  # expectation of the range of two standard normal values
_ONE_SIDE = 9
_TREND = 6


@dataclass(frozen=True)
class Control:
    """A control chart.

    Attributes
    ----------
    centre, low, high : float or None
        None where there are too few runs.
    rules : tuple of tuple of str
        For each value, the rules that it breaks, in words.
    """

    centre: float | None
    low: float | None
    high: float | None
    rules: tuple[tuple[str, ...], ...]

    @property
    def broken(self) -> list[int]:
        """Indices of values out of the ordinary."""
        return [index for index, rules in enumerate(self.rules) if rules]


def control(values: Sequence[float]) -> Control:
    """Draw up the chart of values in order of time.

    By chance some rule is broken in 6% of steady log-normal series of 13 values, and in 13% of those of 24.
    """
    if len(values) < LEAST_RUNS:
        return Control(None, None, None, ((),) * len(values))
    positive = min(values) > 0
    scaled = [math.log(value) if positive else value for value in values]
    centre = statistics.fmean(scaled)
    sigma = statistics.fmean(abs(b - a) for a, b in zip(scaled, scaled[1:], strict=False)) / _MOVING_RANGE
    back = math.exp if positive else float
    deviations = [value - centre for value in scaled]
    rules = tuple(_rules(deviations, scaled, index, sigma) for index in range(len(values)))
    return Control(back(centre), back(centre - 3 * sigma), back(centre + 3 * sigma), rules)


def _rules(deviations: Sequence[float], scaled: Sequence[float], index: int, sigma: float) -> tuple[str, ...]:
    broken = []
    here = deviations[index]
    side = 1 if here > 0 else -1
    if abs(here) > 3 * sigma:
        broken.append("beyond the limits")
    lately = deviations[max(0, index - 2) : index + 1]
    if side * here > 2 * sigma and sum(side * d > 2 * sigma for d in lately) >= 2:
        broken.append("two of three near the same limit")
    row = deviations[max(0, index - _ONE_SIDE + 1) : index + 1]
    if len(row) == _ONE_SIDE and all(side * d > 0 for d in row):
        broken.append(f"{_ONE_SIDE} in a row on one side")
    steps = [b - a for a, b in zip(scaled[: index + 1], scaled[1 : index + 1], strict=False)][-(_TREND - 1) :]
    if len(steps) == _TREND - 1 and (all(s > 0 for s in steps) or all(s < 0 for s in steps)):
        broken.append(f"{_TREND} in a row {'rising' if steps[0] > 0 else 'falling'}")
    return tuple(broken)


def sentence(chart: Control, runs: Sequence[int], span: str, changes: Sequence[LevelChange] = ()) -> str:
    """Answer the question in words.

    Parameters
    ----------
    chart : Control
    runs : sequence of int
        The runs' numbers.
    span : str
        The time from the first to the last.
    changes : sequence of LevelChange
        Those of the machine that the search saw, in the runs of all configurations.
    """
    if changes:
        told = " ".join(change.sentence for change in changes)
        return f"Yes, it changed during the search. {told} {_PROOF}"
    if chart.centre is None:
        return (
            f"Cannot be told: the default ran {len(runs)} times, and {LEAST_RUNS} runs are the least for a judgement."
        )
    if not chart.broken:
        return (
            f"Probably not: {len(runs)} runs of the default over {span} stay within their own limits; "
            "nothing suggests that the machine changed."
        )
    told = "; ".join(f"run {runs[index]}: {', '.join(chart.rules[index])}" for index in chart.broken[:4])
    more = f"; and {len(chart.broken) - 4} more" if len(chart.broken) > 4 else ""
    return f"It may have changed: the default itself does not stay within what chance allows ({told}{more}). {_PROOF}"


_MOST_LEVELS = 200
_MOST_CELLS = 16
_LEAST_LINES = 4


@dataclass(frozen=True)
class Reading:
    """A finished experiment.

    Attributes
    ----------
    record : Record
        With its result.
    trials : sequence of Trial
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
        return " ".join(self.changed(trial)) or "(defaults)"

    def changed(self, trial: Trial) -> list[str]:
        """What a trial changes, as ``name=value`` words."""
        return changes(trial.configuration, self.default, self.units)

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
        """Runs of the trajectory."""
        return [RunPoint(run.number, run.value, kind(run, trial), self._label(run, trial)) for run, trial in self.runs]

    @property
    def slower(self) -> dict[int, float]:
        """How many times slower than on average the machine was at each search run; empty if it did not change."""
        return {one.run: one.slower for one in self.result.level.runs}

    def _label(self, run: Run, trial: Trial) -> str:
        return "\n".join(part for part in (self.describe(trial), run.reason) if part)

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
                axes.append(Axis(name, [value_text(value, self.units[name]) for value in values]))
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
        """The two parameters that matter most, and the best at each pair of their values; empty if fewer varied."""
        axes, lines = self.lines()
        shares = self.result.importance
        few = [index for index, axis in enumerate(axes) if len(axis.labels) <= _MOST_CELLS]
        chosen = sorted(few, key=lambda index: -shares.get(axes[index].name, 0.0))[:2]
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

    def times(self) -> list[RunTime]:
        """When each run was made; nothing where runs were computed rather than made."""
        if self.result.simulated or self.started is None:
            return []
        return [
            RunTime(
                kind(run, trial), run.started - self.started, run.elapsed, f"run {run.number}: {self.describe(trial)}"
            )
            for run, trial in self.runs
            if run.started is not None and run.elapsed
        ]

    def pairs(self) -> list[PairPoint]:
        """The confirmation's pairs."""
        return [
            PairPoint(row.pair, row.default, row.candidate, row.order.removesuffix("-first"))
            for row in self.result.confirmation.pairs
        ]

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
        return own, when, control([float(run.value or 0.0) for run in own])

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
