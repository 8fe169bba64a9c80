"""The flagship sampler: Gaussian processes that start from what is known and ask where most is to be gained."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from stripewise.search.base import PriorMean, Sampler, SamplerOptions, Suggestion, suggest
from stripewise.search.belief import Belief, believe, expected
from stripewise.search.candidates import Pool, Search, maximise
from stripewise.search.costs import Floats
from stripewise.search.improvement import expected_improvement
from stripewise.search.initial import complete
from stripewise.search.knowledge import knowledge_prior
from stripewise.search.posterior import rank
from stripewise.search.unseen import Seen
from stripewise.spec.space import Levels, Space
from stripewise.spec.trial import History, Trial

_SAMPLE = 2_000
_CONVINCING = 0.25


class AutoOptions(SamplerOptions):
    """Options of ``auto``."""

    initial: int = Field(
        default=8,
        ge=1,
        le=10_000,
        description="points tried before the process is asked: the default, what the stack's knowledge likes best, "
        "a Latin hypercube; a model's prior makes them needless as long as the runs bear it out",
    )
    knowledge: bool = Field(default=True, description="start from the stack files' expectations if no model is given")
    trust: float = Field(
        default=0.5, ge=0, le=10, description="standard deviation of the prior's weight, whose mean is 1"
    )
    search: Search = Field(
        default="auto", description="score every configuration, only screened ones, or whichever is affordable"
    )
    observations: int = Field(
        default=400,
        ge=10,
        le=2_000,
        description="most trials that the process learns from: the better half of them, and a spread of the rest",
    )


class AutoSampler(Sampler):
    """Gaussian processes over the whole history, with learned noise, a prior mean and expected improvement.

    Choices by measurement are explained in ``docs/explanation/search.md``.
    """

    name: ClassVar[str] = "auto"
    uses_prior: ClassVar[bool] = True
    Options: ClassVar[type[SamplerOptions]] = AutoOptions
    options: AutoOptions
    # Results of pure functions, kept because the loop asks several questions after one history and of one space.
    _pool: Pool | None = None
    _believed: tuple[Space, History, Belief | None] | None = None

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        belief = self._believe(space, history)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            point, tag = self._next(space, seen, belief, rng)
            if len(point) == 0:
                break
            seen.add(point)
            belief = belief and belief.imagine(point)
            suggestions += suggest(space, point, tag)
        return suggestions

    def _next(self, space: Space, seen: Seen, belief: Belief | None, rng: np.random.Generator) -> tuple[Levels, str]:
        if len(seen) == 0 and len(default := seen.new(space.levels([space.default]))):
            return default, "default"
        prior = self.expectation(space)
        # Knowledge speaks of few parameters: its favourite is worth a run, but no reason to leave the rest unexplored.
        if prior is not None and (len(seen) <= 1 or (belief is None and self.prior is not None)):
            return self._liked(space, seen, prior, rng), "prior"
        # A model's prior saves the plan for as long as what was measured bears it out.
        if belief is not None and (belief.evidence > _CONVINCING or len(seen) >= self.options.initial):
            return maximise(self._listed(space), seen, belief, rng, self.options.search), "gain"
        # Nothing has worked yet, or it is early: a plan, which goes on as long as everything fails.
        size = max(self.options.initial, len(seen) + 1)
        return complete("latin_hypercube", space, seen, rng, size=size, n=1), "plan"

    def _liked(self, space: Space, seen: Seen, prior: PriorMean, rng: np.random.Generator) -> Levels:
        """The configuration that the prior expects most of."""
        pool = self._listed(space)
        if self.options.search == "screened" or pool.levels is None:
            rows = seen.draw(rng, _SAMPLE)
            cost = expected(prior, space, rows)
        else:
            new = pool.unseen(seen)
            rows, cost = pool.levels[new], pool.expected(prior)[new]
        return rows[[int(np.argmin(cost))]] if len(rows) else rows

    def recommend(self, space: Space, history: History) -> list[Trial]:
        """See :meth:`stripewise.search.base.Sampler.recommend`; by posterior mean, which pools what neighbours say."""
        belief = self._believe(space, history)
        trials = [trial for trial in history.trials if trial.values]
        if belief is None or not trials:
            return rank(history)
        mean = belief.seen(space.levels([trial.configuration for trial in trials]))
        return [trials[int(index)] for index in np.argsort(mean, kind="stable")]

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """See :meth:`stripewise.search.base.Sampler.expected_improvement`; None until the first points are through."""
        seen = Seen.of(space, history)
        belief = self._believe(space, history)
        if belief is None or len(seen) < self.options.initial:
            return None
        rng = np.random.default_rng(len(history.trials))
        point = maximise(self._listed(space), seen, belief, rng, self.options.search)
        if len(point) == 0:
            return 0.0
        gain: Floats = expected_improvement(*belief.predict(point), belief.best) * belief.works(point)
        return float(gain[0])

    def expectation(self, space: Space) -> PriorMean | None:
        """See :meth:`stripewise.search.base.Sampler.expectation`: without a prior, the stack files' knowledge."""
        if self.prior is None and self.options.knowledge and space.knowledge:
            return knowledge_prior
        return self.prior

    def _listed(self, space: Space) -> Pool:
        if self._pool is None or self._pool.space is not space:
            self._pool = Pool(space)
        return self._pool

    def _believe(self, space: Space, history: History) -> Belief | None:
        held = self._believed
        if held is None or held[0] is not space or held[1] is not history:
            options = self.options
            belief = believe(
                space,
                history,
                self.expectation(space),
                trust=options.trust,
                most=options.observations,
                judged=self.prior is not None,
            )
            self._believed = held = (space, history, belief)
        return held[2]
