"""What an experiment cost, what its result saves, and what a cheaper configuration would give."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from stripewise.search.economy import NEAR, dearer, price
from stripewise.spec.objective import Objective
from stripewise.spec.result import Alternative, Cost
from stripewise.spec.trial import History, Phase, Role, Run, State, Trial
from stripewise.tuning.budget import Spent
from stripewise.tuning.space import BoundSpace


def cheapest(bound: BoundSpace, history: History, best: Trial, objective: Objective) -> Alternative | None:
    """The cheapest configuration within 5% of the best, if it is cheaper than the best."""
    if best.role is not Role.CANDIDATE or best.value is None:
        return None
    near = [
        trial
        for trial in history.finished
        if trial.value is not None and objective.speedup(trial.value, best.value) >= 1 - NEAR
    ]
    cheapest = min(near, key=lambda trial: (price(bound.space, trial.configuration), trial.number))
    if price(bound.space, cheapest.configuration) >= price(bound.space, best.configuration):
        return None
    return _alternative(cheapest)


def preferred_over(bound: BoundSpace, history: History, shown: Trial | None) -> Alternative | None:
    """The dearer configuration that looked best, if the one shown was preferred to it for its price."""
    best = None if shown is None else dearer(bound.space, history, shown)
    return None if best is None else _alternative(best)


def _alternative(trial: Trial) -> Alternative:
    return Alternative(configuration=dict(trial.configuration), value=trial.value, trial=trial.number)


def cost(
    trials: Sequence[Trial],
    used: Spent,
    default: Trial,
    best: Trial,
    confirmation: Sequence[Run],
) -> Cost:
    """What was spent, what a run saves now, and after how many runs the search has paid for itself."""
    runs = [run for trial in trials for run in trial.runs]

    def elapsed(trial: Trial) -> float | None:
        own = [run for run in confirmation or trial.runs if run.trial == trial.number]
        worked = [run.elapsed for run in own if run.state is State.FINISHED and run.elapsed]
        return statistics.median(worked) if worked else None

    slow, fast = elapsed(default), elapsed(best)
    saved = slow - fast if slow is not None and fast is not None and best is not default else 0.0
    return Cost(
        launches={phase.value: sum(run.phase is phase for run in runs) for phase in Phase},
        seconds=used.seconds,
        node_hours=used.node_hours,
        bytes=sum(_bytes(run) for run in runs),
        saved_a_run_seconds=saved,
        break_even_runs=math.ceil(used.seconds / saved) if saved > 0 else None,
    )


def _bytes(run: Run) -> int:
    return run.report.totals.bytes_read + run.report.totals.bytes_written if run.report is not None else 0
