"""Costs: the objective as samplers see it, on a logarithmic axis where smaller is better.

All costs are at one level of the machine: what a change of the machine in the meantime adds to a run is taken off here,
and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stripewise.search.belief.level import Level
from stripewise.trial import History, Phase, Run, State, Trial

Floats = NDArray[np.float64]

_RELIABLE_RUNS = 4
"""Runs without a failure that count as seen of every configuration."""


@dataclass(frozen=True)
class CostScale:
    """Maps objective values to costs.

    Attributes
    ----------
    sign : float
        -1 where the objective is maximised.
    unit : float or None
        None for the logarithm. An objective that is zero or negative somewhere has none: its values are then divided
        by this typical size, so that near it a difference of 0.01 in cost still means about one percent.
    """

    sign: float
    unit: float | None

    @classmethod
    def of(cls, history: History) -> CostScale:
        """Choose the scale from all values seen."""
        sign = -1.0 if history.objective.maximize else 1.0
        seen = np.array([value for trial in history.trials for value in (*trial.values, *trial.bounds)])
        if np.all(seen > 0):
            return cls(sign, None)
        return cls(sign, float(np.median(np.abs(seen))) or 1.0)

    def __call__(self, values: ArrayLike) -> Floats:
        """Give the costs of objective values, in the same shape."""
        numbers = np.asarray(values, dtype=np.float64)
        return self.sign * (np.log(numbers) if self.unit is None else numbers / self.unit)


@dataclass(frozen=True)
class RunCosts:
    """What the search runs of a history cost, in order of their trials; those without value or bound are left out.

    Attributes
    ----------
    trial : ndarray of int, shape (k,)
        Place of each run's trial in the history.
    cost : ndarray, shape (k,)
        At the mean level of the machine; of pruned runs, the bound.
    level : Level
        What was taken off.
    """

    runs: tuple[Run, ...]
    trial: NDArray[np.int64]
    cost: Floats
    level: Level

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, history: History) -> RunCosts:
        """Read the history."""
        scale = CostScale.of(history)
        counted = [
            (place, run, run.value)
            for place, trial in enumerate(history.trials)
            for run in (() if trial.broken else trial.runs)
            if run.phase is Phase.SEARCH and run.state in (State.FINISHED, State.PRUNED) and run.value is not None
        ]
        runs = tuple(run for _, run, _ in counted)
        trial = np.array([place for place, _, _ in counted], dtype=np.int64)
        cost = scale([value for _, _, value in counted])
        level = Level(0.0, np.zeros(len(runs)))
        # Without the logarithm a slower machine does not add the same to all costs.
        if scale.unit is None and runs:
            # A bound does not repeat a value.
            alone = np.array([run.state is State.PRUNED for run in runs])
            configuration = np.where(alone, -1 - np.arange(len(runs)), trial)
            level = _learn_level(tuple(list_starts(runs)), tuple(configuration), tuple(cost))
        return cls(runs, trial, cost - level.mean, level)

    @property
    def level_at(self) -> dict[int, float]:
        """The level at each run, by the run's number."""
        return {run.number: float(mean) for run, mean in zip(self.runs, self.level.mean, strict=True)}

    @property
    def level_now(self) -> float:
        """The level at the run that started last."""
        return float(self.level.mean[np.argmax(list_starts(self.runs))]) if self.runs else 0.0

    def by_trial(self, trials: int) -> list[NDArray[np.int64]]:
        """Indices of the runs of each trial."""
        ends = np.searchsorted(self.trial, np.arange(trials + 1))
        return [np.arange(start, end) for start, end in pairwise(ends)]

    def shared(self, trials: NDArray[np.int64]) -> Floats:
        """Covariance of the costs of some trials that comes from the uncertain level; last, the next run's.

        Shapes: returns ``(n + 1, n + 1)``.
        """
        moments = len(self.level.covariance)
        weight = np.zeros((int(self.trial.max()) + 1, moments))
        np.add.at(weight, (self.trial, self.level.moment), 1.0)
        chosen = np.append(weight[trials] / weight[trials].sum(axis=1, keepdims=True), np.eye(moments)[-1:], axis=0)
        return np.asarray(chosen @ self.level.covariance @ chosen.T)


@lru_cache(maxsize=2)
def _learn_level(started: tuple[float, ...], configuration: tuple[int, ...], cost: tuple[float, ...]) -> Level:
    """Learn the level, once for all the histories that differ in other runs (planned ones, those of the proof)."""
    return Level.of(np.array(started), np.array(configuration), np.array(cost))


def list_starts(runs: tuple[Run, ...]) -> Floats:
    """When each run started; their order of planning where the times of some are not known."""
    times = [run.started for run in runs]
    known = [time for time in times if time is not None]
    return np.array(known if len(known) == len(runs) else [run.number for run in runs], dtype=np.float64)


def bring_to_one_level(history: History) -> History:
    """The history as if the machine had stayed at its mean level: values are what the runs would have shown then."""
    each = RunCosts.of(history)
    if not each.level.moves:
        return history
    sign = CostScale.of(history).sign
    factor = {number: float(np.exp(-sign * mean)) for number, mean in each.level_at.items()}

    def levelled(run: Run) -> Run:
        return run if run.value is None else replace(run, value=run.value * factor.get(run.number, 1.0))

    trials = (replace(trial, runs=tuple(levelled(run) for run in trial.runs)) for trial in history.trials)
    return History(history.objective, tuple(trials))


@dataclass(frozen=True)
class Costs:
    """What the trials of a history cost, one entry a trial, in order of asking.

    Attributes
    ----------
    cost : ndarray, shape (n,)
        Median over the runs, plus the price of unreliability: what works with probability p costs 1/p times as much.
        One failure says little about p, so that a setting that failed at random is not lost. NaN without a value.
    bound : ndarray, shape (n,)
        Of pruned trials, the cost that the truth exceeds; NaN elsewhere.
    runs : ndarray of int, shape (n,)
        Finished and pruned search runs.
    failed : ndarray of bool, shape (n,)
        Trials that ended without any value.
    open : ndarray of bool, shape (n,)
        Trials that are pending or running and have no value yet.
    each : RunCosts
        The runs that these costs are of.
    """

    cost: Floats
    bound: Floats
    runs: NDArray[np.int64]
    failed: NDArray[np.bool_]
    open: NDArray[np.bool_]
    each: RunCosts

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, history: History) -> Costs:
        """Read the history."""
        each = RunCosts.of(history)
        rows = [
            _row(trial, each.cost[index], np.array([each.runs[i].state is State.PRUNED for i in index], dtype=bool))
            for trial, index in zip(history.trials, each.by_trial(len(history.trials)), strict=True)
        ]
        columns = list(zip(*rows, strict=True)) if rows else [()] * 5
        return cls(
            np.array(columns[0], dtype=np.float64),
            np.array(columns[1], dtype=np.float64),
            np.array(columns[2], dtype=np.int64),
            np.array(columns[3], dtype=np.bool_),
            np.array(columns[4], dtype=np.bool_),
            each,
        )

    @property
    def known(self) -> Floats:
        """The cost, or the bound of a pruned trial; NaN where neither is known."""
        return np.where(np.isnan(self.cost), self.bound, self.cost)


def _row(trial: Trial, costs: Floats, pruned: NDArray[np.bool_]) -> tuple[float, float, int, bool, bool]:
    if not pruned.all():
        # A run stopped at its bound counts as if it had ended there: leaving it out would flatter the trial.
        failures = sum(run.phase is Phase.SEARCH and run.state is State.FAILED for run in trial.runs)
        price = -float(np.log1p(-failures / (failures + len(costs) + _RELIABLE_RUNS)))
        return float(np.median(costs)) + price, np.nan, len(costs), False, False
    if len(costs):
        return np.nan, float(np.max(costs)), len(costs), False, False
    failed = trial.state is State.FAILED
    return np.nan, np.nan, 0, failed, not failed
