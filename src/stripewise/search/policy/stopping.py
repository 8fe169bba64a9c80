"""Stopping rules: when to end the search before the budget is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from stripewise.catalogue.space import Space
from stripewise.options import Options, parse_options
from stripewise.search.base import Sampler
from stripewise.search.belief.costs import Costs, Floats
from stripewise.search.belief.kernel import embed, squared_distances
from stripewise.search.belief.posterior import Posterior
from stripewise.trial import History


class Usage(Protocol):
    """What an experiment has used so far; limits on it are the budget's, kept by the tuning loop."""

    @property
    def runs(self) -> int:
        """Launches."""

    @property
    def seconds(self) -> float:
        """Wall time."""

    @property
    def node_hours(self) -> float:
        """Nodes times hours."""


class Improvement(Options):
    """The ``[stopping.improvement]`` table."""

    window: int = Field(default=15, ge=1, le=100_000, description="latest trials that are compared with those before")
    statistic: Literal["best", "mean", "median"] = Field(default="best", description="what is compared")
    minimum: float = Field(default=0.01, ge=0, le=10, description="gain that counts as progress (0.01: 1%)")


class Movement(Options):
    """The ``[stopping.movement]`` table."""

    window: int = Field(default=15, ge=2, le=100_000, description="latest trials that are looked at")
    distance: float = Field(
        default=0.25,
        ge=0,
        le=100,
        description="a trial this far from every other of the window has moved; 1: an axis' length, another category",
    )
    count: int = Field(default=3, ge=1, le=100_000, description="moves that are enough to go on")


class ExpectedGain(Options):
    """The ``[stopping.expected_gain]`` table."""

    uses: float = Field(
        default=1000.0,
        ge=0,
        description="runs of the program to come; the search stops when it saves less in all of these than a run costs",
    )


class StoppingOptions(Options):
    """The ``[stopping]`` table: each rule that is present may end the search. None by default."""

    improvement: Improvement | None = Field(default=None, description="no improvement over a window")
    movement: Movement | None = Field(default=None, description="hardly any movement through the space")
    expected_gain: ExpectedGain | None = Field(default=None, description="another run costs more than it can gain")


class Stopping:
    """The stopping rules of an experiment.

    The search ends when one of these holds:

    1. *improvement*: the best (or mean, or median) cost of the last trials is hardly better than that before;
    2. *movement*: hardly any of the last trials is far from all others of the window, so the search has converged;
    3. *expected_gain*: the sampler's expected improvement, over all runs to come, is less than the cost of a run
       (Nguyen et al., Regret for Expected Improvement over the Best-Observed Value and Stopping Condition, ACML 2017).

    Parameters
    ----------
    options : StoppingOptions
    """

    def __init__(self, options: StoppingOptions) -> None:
        self.options = options

    def reason(self, space: Space, history: History, spent: Usage, sampler: Sampler | None = None) -> str | None:
        """Say in one sentence why the search should stop, or None to go on. Called before each new trial.

        The sampler is asked for its expected improvement.
        """
        rules = self.options
        return (
            (rules.improvement and _no_improvement(rules.improvement, history))
            or (rules.movement and _no_movement(rules.movement, space, history))
            or (rules.expected_gain and _no_gain(rules.expected_gain, space, history, sampler))
            or None
        )


def make_stopping(options: Mapping[str, Any] | None = None) -> Stopping:
    """Make the rules from the ``[stopping]`` table.

    Raises
    ------
    UserError
        Unknown option, or a value out of bounds.
    """
    return Stopping(parse_options(StoppingOptions, options or {}, "stopping"))


def _no_gain(rule: ExpectedGain, space: Space, history: History, sampler: Sampler | None) -> str | None:
    gain = None if sampler is None else sampler.expected_improvement(space, history)
    if gain is None or gain * rule.uses >= 1:
        return None
    return f"another run is expected to gain {gain:.2%}, which saves less than one run in {rule.uses:g} runs"


def _no_improvement(rule: Improvement, history: History) -> str | None:
    if rule.statistic == "best":
        posterior = Posterior.of(history)
        cost = posterior.mean
    else:
        known = Costs.of(history).known
        cost = known[~np.isnan(known)]
    # The window is compared with as much as there is before it, at least one trial.
    if len(cost) <= rule.window:
        return None
    statistics: dict[str, Callable[[Floats], Any]] = {"best": np.min, "mean": np.mean, "median": np.median}
    statistic = statistics[rule.statistic]
    before, after = float(statistic(cost[: -rule.window])), float(statistic(cost[-rule.window :]))
    if before - after >= np.log1p(rule.minimum):
        return None
    return (
        f"the {rule.statistic} of the last {rule.window} trials is not {rule.minimum:.0%} better than of those before"
    )


def _no_movement(rule: Movement, space: Space, history: History) -> str | None:
    latest = [trial.configuration for trial in history.trials[-rule.window :]]
    if len(latest) < rule.window:
        return None
    points = embed(space, space.levels(latest))
    squares = squared_distances(points, points) + np.diag(np.full(len(points), np.inf))
    moves = int(np.sum(np.sqrt(squares.min(axis=1)) > rule.distance))
    if moves >= rule.count:
        return None
    return f"only {moves} of the last {rule.window} trials moved by more than {rule.distance:g}"
