"""What every sampler is: a pure function from the history of an experiment to the next configurations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Levels, Space
from stripewise.options import Options
from stripewise.search.belief.posterior import Posterior, expected_improvement, rank
from stripewise.trial import History, Trial


@dataclass(frozen=True)
class Suggestion:
    """A configuration to run next.

    Attributes
    ----------
    configuration : Configuration
        Canonical, feasible, and not in the history.
    tag : str
        The sampler's note to itself; it comes back as :attr:`stripewise.trial.Trial.tag`.
    """

    configuration: Configuration
    tag: str = ""


def suggest(space: Space, levels: Levels, tag: str = "") -> list[Suggestion]:
    """Make suggestions of rows of levels, all with the same tag."""
    return [Suggestion(space.configuration(row), tag) for row in levels]


class SamplerOptions(Options):
    """Options of a sampler; see :class:`stripewise.options.Options`."""


class PriorMean(Protocol):
    """What is expected before the first run, from a performance model or from expert knowledge."""

    def __call__(self, space: Space, levels: Levels) -> NDArray[np.float64]:
        """Expected natural logarithm of performance, larger is better, up to any constant: ``(n, d)`` to ``(n,)``."""


class Sampler(ABC):
    """A search method.

    A sampler keeps nothing between calls: the tuning loop may make a new one for every question, on any host, and
    replay any part of a history. What a method must remember (a generation, a temperature) travels in the tags of its
    own suggestions, and its randomness comes from ``rng`` alone.

    Parameters
    ----------
    options : SamplerOptions, optional
        An instance of :attr:`Options`; the defaults if left out.
    prior : PriorMean, optional
        For samplers that can use one; others ignore it.
    """

    name: ClassVar[str]
    uses_prior: ClassVar[bool] = False
    """Whether the search starts from a prior, so that users who ask for one can be told where it would be ignored."""
    whole: ClassVar[bool] = False
    """Whether it covers the whole space, including what the evidence of the runs says does nothing."""
    Options: ClassVar[type[SamplerOptions]] = SamplerOptions

    def __init__(self, options: SamplerOptions | None = None, *, prior: PriorMean | None = None) -> None:
        self.options = self.Options() if options is None else options
        self.prior = prior

    def starting_from(self, prior: PriorMean) -> Self:
        """Make the same sampler with a prior.

        Called once, before the first question, where a model or earlier experiments are given. A sampler whose
        constructor has other arguments overrides it.
        """
        return type(self)(self.options, prior=prior)

    def load(self) -> None:  # noqa: B027  most have nothing to load
        """Load what the first question needs, before a program runs whose phases would pass meanwhile."""

    @abstractmethod
    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """Propose the next configurations.

        Called by the tuning loop whenever runners are free and no trial is to be repeated. The history then holds all
        trials asked for so far: finished, failed and pruned ones, and those pending or running on other runners.

        Parameters
        ----------
        space : Space
        history : History
        rng : numpy.random.Generator
            Keyed by the experiment's seed and the number of the next trial
            (:func:`stripewise.search.registry.sampler_rng`).
        n : int
            How many are wanted, at least 1.

        Returns
        -------
        list of Suggestion
            Distinct, canonical and feasible configurations, none of them in the history. Fewer than ``n``, or none,
            means that nothing else is left to try.
        """

    def expectation(self, space: Space) -> PriorMean | None:
        """Give the prior, or what the method expects in its place (expert knowledge, say); None for neither.

        Called before the search, by what is put on top of it (:class:`stripewise.search.belief.priors.EarlierPrior`).
        """
        return self.prior

    def slowdown(self, space: Space, history: History, levels: Levels) -> NDArray[np.float64]:
        """Logarithm of how many times the default's cost configurations are expected to have, shape ``(n,)``.

        Called before a configuration is tried inside a job that is not to be slowed down. The default knows what is
        expected before the search alone; 0 where that is nothing.
        """
        prior = self.expectation(space)
        if prior is None or len(levels) == 0:
            return np.zeros(len(levels))
        usual = prior(space, space.levels([space.default]))
        return np.asarray(usual - prior(space, levels), dtype=np.float64)

    def recommend(self, space: Space, history: History) -> list[Trial]:
        """Order the finished trials by how good they are believed to be, best first.

        Called at the end of the search, to choose what is confirmed. The default discounts single lucky runs by
        shrinkage (:func:`stripewise.search.belief.posterior.rank`) and ignores the space.
        """
        return rank(history)

    def gain_if_it_works(self, space: Space, history: History, levels: Levels) -> NDArray[np.float64]:
        """Expected improvement of configurations over the best cost, were they not to fail, shape ``(n,)``.

        Called to decide whether a trial that failed is run once more. The default knows nothing of the space: it takes
        them for draws from the population of all trials.
        """
        posterior = Posterior.of(history)
        if not posterior.trials:
            return np.zeros(len(levels))
        centre, spread = (np.full(len(levels), x) for x in (np.mean(posterior.mean), posterior.spread))
        return expected_improvement(centre, spread, float(np.min(posterior.mean)))

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """Expected gain of the next run, as a fraction of the best cost; None if the method cannot tell.

        Called before each question if the user stops the search on it (:mod:`stripewise.search.policy.stopping`).
        """
        return None
