"""Pruning: when to stop a run that has already taken too long to be the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from stripewise.options import Options, parse_options
from stripewise.search.belief.costs import RunCosts
from stripewise.search.belief.posterior import rank_trials
from stripewise.trial import History, Phase, Run, State, Trial

_RECENT = 2
_LEAST_SECONDS = 2.0
"""Starting a program takes time that says nothing about its settings."""
_SUSPECT = 3


class PruningOptions(Options):
    """The ``[pruning]`` table. First points are pruned like all others; time in a queue never counts."""

    kind: Literal["none", "incumbent"] = Field(
        default="incumbent", description="never; or after a multiple of the time of the best so far"
    )
    factor: float = Field(default=3.0, gt=0, le=1000, description="incumbent: multiple of that time")


@dataclass(frozen=True)
class Bound:
    """When a run is cut.

    Attributes
    ----------
    seconds : float
        Wall time of the program.
    why : str
        What a run that takes so long is, for people: ``3 times as long as the best``.
    """

    seconds: float
    why: str


class Pruner:
    """Sets the time limit of a run before it starts: a multiple of the time of the trial believed best.

    A pruned run is censored: its cost is known only to exceed that of the time it had. Runs of the default and the
    reference, repeats of what has worked, and the confirmation are never cut: they show whether the
    machine has changed.

    1. Start from the longest of that trial's latest runs.
    2. Where the machine is slower now than it was then, multiply by that ratio: the level that the search has learned
       from all repeats (:class:`stripewise.search.belief.level.Level`).
    3. Multiply by :attr:`PruningOptions.factor`; and allow two seconds more than the best took in any case.
    4. If the last three runs were all cut, the machine may have become slower without any repeat to show it: double the
       bound until a run ends.
    """

    def __init__(self, options: PruningOptions) -> None:
        self.options = options

    def bound(self, history: History) -> Bound | None:
        """Say when the next run of a new configuration is cut; None for never."""
        best = next((runs for trial in rank_trials(history) if (runs := _list_timed(trial))), None)
        if best is None or self.options.kind == "none":
            return None
        usual = float(np.median([run.elapsed for run in best]))
        if usual == 0:
            # A replay takes no time.
            return None
        each = RunCosts.of(history)
        level = each.level_at
        slower = [max(0.0, each.level_now - level.get(run.number, each.level_now)) for run in best[-_RECENT:]]
        expected = max(
            (run.elapsed or 0.0) * float(np.exp(rise)) for run, rise in zip(best[-_RECENT:], slower, strict=True)
        )
        doubled = 2 ** (_cut_at_end(history) // _SUSPECT)
        seconds = doubled * max(self.options.factor * expected, expected + _LEAST_SECONDS)
        return Bound(seconds, f"{seconds / usual:.2g} times as long as the best")


def make_pruner(options: Mapping[str, Any] | None = None) -> Pruner:
    """Make a pruner from the ``[pruning]`` table.

    Raises
    ------
    UserError
        Unknown option, or a value out of bounds.
    """
    return Pruner(parse_options(PruningOptions, options or {}, "pruning"))


def censored_value(history: History, elapsed: float) -> float | None:
    """Give the value that a run which was cut is known to be worse than; None while no run has a value.

    The objective may be a bandwidth, which no unfinished run tells. What the program does besides its I/O takes as long
    in every run, so that its I/O is slower by more than the whole run is: the bound is the value of the trial believed
    best, worse by the ratio of the wall times. Where values are not positive, it is the value of that trial.
    """
    best = next((trial for trial in rank_trials(history) if _list_times(trial)), None)
    if best is None or best.value is None:
        return None
    if best.value <= 0:
        return best.value
    ratio = max(1.0, elapsed / float(np.median(_list_times(best))))
    return best.value / ratio if history.objective.maximize else best.value * ratio


def _search_runs(trial: Trial) -> list[Run]:
    return [run for run in trial.runs if run.phase is Phase.SEARCH and run.elapsed is not None]


def _list_timed(trial: Trial) -> list[Run]:
    """The finished and pruned search runs, in order."""
    return [run for run in _search_runs(trial) if run.state in (State.FINISHED, State.PRUNED)]


def _list_times(trial: Trial) -> list[float]:
    """Their wall times."""
    return [run.elapsed or 0.0 for run in _list_timed(trial)]


def _cut_at_end(history: History) -> int:
    """How many of the latest runs that ended were cut, without one that finished between."""
    ended = [run for trial in history.trials for run in _search_runs(trial) if run.state is not State.FAILED]
    states = [run.state for run in sorted(ended, key=lambda run: run.number, reverse=True)]
    return next((k for k, state in enumerate(states) if state is not State.PRUNED), len(states))
