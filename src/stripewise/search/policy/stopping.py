"""Stopping rules: when to end the search before the budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from stripewise.catalogue.space import Space
from stripewise.options import Options, parse_options
from stripewise.search.base import DOUBT, Sampler
from stripewise.search.belief.posterior import Posterior
from stripewise.search.policy.resampling import knowledge_gradient
from stripewise.trial import History

WORTH = 0.03
"""Possible gain for which a search goes on that need not spend its budget."""


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


class StoppingOptions(Options):
    """The ``[stopping]`` table: each rule that is present may end the search. None by default."""

    improvement: Improvement | None = Field(default=None, description="no improvement over a window")
    expected_gain: ExpectedGain | None = Field(default=None, description="another run costs more than it can gain")


class Stopping:
    """The stopping rules of an experiment.

    The search ends when one of these holds:

    1. *improvement*: the best cost of the last trials is hardly better than that before;
    2. *expected_gain*: neither a new configuration (expected improvement) nor a repeat (knowledge gradient) is expected
       to save as much, over all runs to come, as a run costs (Nguyen et al., Regret for Expected Improvement over the
       Best-Observed Value and Stopping Condition, ACML 2017).
    """

    def __init__(self, options: StoppingOptions) -> None:
        self.options = options

    def reason(self, space: Space, history: History, sampler: Sampler | None = None) -> str | None:
        """Say in one sentence why the search should stop, or None to go on. Called before each new trial.

        The sampler is asked for its expected improvement.
        """
        rules = self.options
        return (
            (rules.improvement and _no_improvement(rules.improvement, history))
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


def nothing_more(space: Space, history: History, sampler: Sampler) -> str | None:
    """Say why another launch is not worth its price, by which a search ends that need not spend its budget.

    A bound on the regret ends it, as Makarova et al. propose ("Automatic Termination for Hyperparameter Optimization",
    AutoML 2022), here against a gain that is worth launches:

    1. Take the lowest cost of a known configuration that its runs leave possible: the mean and
       :data:`~stripewise.search.base.DOUBT` standard deviations.
    2. Ask the sampler for the lowest cost that an untried configuration may have: as many below what its model expects.
       While the sampler cannot tell, the search goes on.
    3. The search ends where the first exceeds the second by less than :data:`WORTH`.

    Replayed on recorded sweeps (``benchmarks/notes/real-programs.md``), it kept what a search of the whole budget finds
    and proves. The expected improvement, the expected minimum of all that is untried (compare Ishibashi et al., AISTATS
    2023) and a number of runs without improvement ended the search too early, in programs with interactions.
    """
    least = sampler.least_cost(space, history)
    if least is None:
        return None
    known = Posterior.of(history)
    if np.min(known.mean + DOUBT * known.sd) - least >= np.log1p(WORTH):
        return None
    return f"nothing that has not been tried is likely to gain {WORTH:.0%} more"


def _no_gain(rule: ExpectedGain, space: Space, history: History, sampler: Sampler | None) -> str | None:
    new = None if sampler is None else sampler.expected_improvement(space, history)
    if new is None:
        return None
    # A repeat may show that another of the known ones is better.
    gain = max([new, *knowledge_gradient(Posterior.of(history))])
    if gain * rule.uses >= 1:
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
