"""Pruning: when to stop a run that has already taken too long to be the best."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from stripewise.search.posterior import rank
from stripewise.spec.options import Options, parse_options
from stripewise.spec.trial import History, Phase, State, Trial


class PruningOptions(Options):
    """The ``[pruning]`` table. First points are pruned like all others; time in a queue never counts."""

    kind: Literal["none", "fixed", "median", "incumbent"] = Field(
        default="none",
        description="never; after fixed seconds; or after a multiple of the median or of the best so far",
    )
    seconds: float | None = Field(default=None, gt=0, description="fixed: wall time of a run")
    factor: float = Field(default=2.0, gt=0, le=1000, description="median, incumbent: multiple of that time")
    after: int = Field(default=4, ge=1, le=100_000, description="median, incumbent: runs that must have ended before")

    @model_validator(mode="after")
    def _complete(self) -> PruningOptions:
        if self.kind == "fixed" and self.seconds is None:
            raise ValueError("kind = 'fixed' needs 'seconds'")
        return self


class Pruner(ABC):
    """Sets the time limit of a run before it starts.

    A pruned run is censored: its cost is known only to exceed that of the time it had.
    """

    def __init__(self, options: PruningOptions) -> None:
        self.options = options

    @abstractmethod
    def bound(self, history: History) -> float | None:
        """Give the wall seconds at which the next search run may be stopped, or None for no bound."""


class NoPruning(Pruner):
    """Lets every run end."""

    def bound(self, history: History) -> float | None:
        """See :meth:`Pruner.bound`."""
        return None


class FixedPruning(Pruner):
    """Stops runs after a fixed time."""

    def bound(self, history: History) -> float | None:
        """See :meth:`Pruner.bound`."""
        return self.options.seconds


class MedianPruning(Pruner):
    """Stops runs that take a multiple of the median time; pruned runs count with the time they had."""

    def bound(self, history: History) -> float | None:
        """See :meth:`Pruner.bound`."""
        times = [time for trial in history.trials for time in _times(trial)]
        return self.options.factor * float(np.median(times)) if len(times) >= self.options.after else None


class IncumbentPruning(Pruner):
    """Stops runs that take a multiple of the time of the trial believed best."""

    def bound(self, history: History) -> float | None:
        """See :meth:`Pruner.bound`."""
        ended = sum(len(_times(trial)) for trial in history.trials)
        best = next((times for trial in rank(history) if (times := _times(trial))), None)
        return None if best is None or ended < self.options.after else self.options.factor * float(np.median(best))


_KINDS: dict[str, type[Pruner]] = {
    "none": NoPruning,
    "fixed": FixedPruning,
    "median": MedianPruning,
    "incumbent": IncumbentPruning,
}


def make_pruner(options: Mapping[str, Any] | None = None) -> Pruner:
    """Make a pruner from the ``[pruning]`` table.

    Raises
    ------
    UserError
        Unknown option, or a value out of bounds.
    """
    parsed = parse_options(PruningOptions, options or {}, "pruning")
    return _KINDS[parsed.kind](parsed)


def _times(trial: Trial) -> list[float]:
    """Wall times of the finished and pruned search runs."""
    return [
        run.elapsed
        for run in trial.runs
        if run.phase is Phase.SEARCH and run.state in (State.FINISHED, State.PRUNED) and run.elapsed is not None
    ]
