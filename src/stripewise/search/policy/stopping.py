"""Stopping rules: when to end the search before the budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from stripewise.catalogue.space import Space
from stripewise.options import Options, parse_options
from stripewise.search.base import Sampler
from stripewise.search.belief.posterior import Posterior
from stripewise.search.policy.resampling import knowledge_gradient
from stripewise.trial import History


class Improvement(Options):
    """The ``[stopping.improvement]`` table."""

    window: int = Field(default=15, ge=1, le=100_000, description="latest trials that are compared with those before")
    minimum: float = Field(default=0.01, ge=0, le=10, description="gain that counts as progress (0.01: 1%)")


class ExpectedGain(Options):
    """The ``[stopping.expected_gain]`` table."""

    uses: float = Field(
        default=1000.0,
        ge=0,
        description="runs of the program to come; the search stops when it saves less in all of these than a run costs",
    )


class FurtherGain(Options):
    """The ``[stopping.further_gain]`` table."""

    minimum: float = Field(
        default=0.03, ge=0, le=10, description="expected gain of going on that is worth a launch (0.03: 3%)"
    )


class StoppingOptions(Options):
    """The ``[stopping]`` table: each rule that is present may end the search. None by default."""

    further_gain: FurtherGain | None = Field(default=None, description="going on is expected to gain too little")
    improvement: Improvement | None = Field(default=None, description="no improvement over a window")
    expected_gain: ExpectedGain | None = Field(default=None, description="another run costs more than it can gain")


class Stopping:
    """The stopping rules of an experiment.

    The search ends when one of these holds:

    1. *further_gain*: neither a new configuration nor a repeat is expected to improve the answer by as much as a launch
       is worth (expected improvement and knowledge gradient; compare Makarova et al., Automatic Termination for
       Hyperparameter Optimization, AutoML 2022);
    2. *improvement*: the best cost of the last trials is hardly better than that before;
    3. *expected_gain*: the sampler's expected improvement, over all runs to come, is less than the cost of a run
       (Nguyen et al., Regret for Expected Improvement over the Best-Observed Value and Stopping Condition, ACML 2017).
    """

    def __init__(self, options: StoppingOptions) -> None:
        self.options = options

    def reason(self, space: Space, history: History, sampler: Sampler | None = None) -> str | None:
        """Say in one sentence why the search should stop, or None to go on. Called before each new trial.

        The sampler is asked for its expected improvement.
        """
        rules = self.options
        return (
            (rules.further_gain and _little_to_gain(rules.further_gain, space, history, sampler))
            or (rules.improvement and _no_improvement(rules.improvement, history))
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


def _little_to_gain(rule: FurtherGain, space: Space, history: History, sampler: Sampler | None) -> str | None:
    new = None if sampler is None else sampler.expected_improvement(space, history)
    if new is None:
        return None
    # A repeat may show that another of the known ones is better.
    gains = [new, *knowledge_gradient(Posterior.of(history))]
    if max(gains) >= rule.minimum:
        return None
    return f"another launch is expected to gain {max(gains):.1%}, less than {rule.minimum:.0%}"


def _no_gain(rule: ExpectedGain, space: Space, history: History, sampler: Sampler | None) -> str | None:
    gain = None if sampler is None else sampler.expected_improvement(space, history)
    if gain is None or gain * rule.uses >= 1:
        return None
    return f"another run is expected to gain {gain:.2%}, which saves less than one run in {rule.uses:g} runs"


def _no_improvement(rule: Improvement, history: History) -> str | None:
    cost = Posterior.of(history).mean
    # The window is compared with as much as there is before it, at least one trial.
    if len(cost) <= rule.window:
        return None
    if np.min(cost[: -rule.window]) - np.min(cost[-rule.window :]) >= np.log1p(rule.minimum):
        return None
    last = "the last trial" if rule.window == 1 else f"the best of the last {rule.window} trials"
    return f"{last} is not {rule.minimum:.0%} better than those before"
