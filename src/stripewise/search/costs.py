"""Costs: the objective as samplers see it, on a logarithmic axis where smaller is better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stripewise.spec.trial import History, Phase, State, Trial

Floats = NDArray[np.float64]


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
class Costs:
    """What the trials of a history cost, one entry a trial, in order of asking.

    Attributes
    ----------
    cost : ndarray, shape (n,)
        Median over the runs, plus the price of unreliability: a program that fails every other time costs twice as
        much. NaN without a value.
    bound : ndarray, shape (n,)
        Of pruned trials, the cost that the truth exceeds; NaN elsewhere.
    runs : ndarray of int, shape (n,)
        Finished and pruned search runs.
    failed : ndarray of bool, shape (n,)
        Trials that ended without any value.
    open : ndarray of bool, shape (n,)
        Trials that are pending or running and have no value yet.
    """

    cost: Floats
    bound: Floats
    runs: NDArray[np.int64]
    failed: NDArray[np.bool_]
    open: NDArray[np.bool_]

    @classmethod
    def of(cls, history: History) -> Costs:
        """Read the history."""
        scale = CostScale.of(history)
        rows = [_row(trial, scale) for trial in history.trials]
        columns = list(zip(*rows, strict=True)) if rows else [()] * 5
        return cls(
            np.array(columns[0], dtype=np.float64),
            np.array(columns[1], dtype=np.float64),
            np.array(columns[2], dtype=np.int64),
            np.array(columns[3], dtype=np.bool_),
            np.array(columns[4], dtype=np.bool_),
        )

    @property
    def known(self) -> Floats:
        """The cost, or the bound of a pruned trial; NaN where neither is known."""
        return np.where(np.isnan(self.cost), self.bound, self.cost)


def _row(trial: Trial, scale: CostScale) -> tuple[float, float, int, bool, bool]:
    runs = len(trial.values) + len(trial.bounds)
    if trial.values:
        # A run stopped at its bound counts as if it had ended there: leaving it out would flatter the trial.
        median = float(np.median(scale([*trial.values, *trial.bounds])))
        failures = sum(run.phase is Phase.SEARCH and run.state is State.FAILED for run in trial.runs)
        return median + float(np.log1p(failures / runs)), np.nan, runs, False, False
    if trial.bounds:
        return np.nan, float(np.max(scale(trial.bounds))), runs, False, False
    failed = trial.state is State.FAILED
    return np.nan, np.nan, 0, failed, not failed
