"""The flagship sampler: a Gaussian process that starts from what is known and asks where most is to be gained."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from stripewise.search.base import Sampler, SamplerOptions, Suggestion
from stripewise.search.belief import Belief, believe
from stripewise.search.candidates import Pool, Search, maximise
from stripewise.search.improvement import expected_improvement
from stripewise.search.initial import complete
from stripewise.search.posterior import rank
from stripewise.search.unseen import Seen
from stripewise.spec.space import Space
from stripewise.spec.trial import History, Trial


class AutoOptions(SamplerOptions):
    """Options of ``auto``."""

    initial: int = Field(
        default=6, ge=1, le=10_000, description="points tried before the model is asked, the default among them"
    )
    knowledge: bool = Field(default=True, description="use the stack files' expectations where no model is given")
    trust: float = Field(
        default=0.5, ge=0, le=10, description="how far the weight of the prior may move from 1 (standard deviation)"
    )
    search: Search = Field(
        default="auto", description="score every configuration, only screened ones, or whichever is affordable"
    )
    observations: int = Field(default=400, ge=10, le=5000, description="most trials that the model learns from")


class AutoSampler(Sampler):
    """Gaussian process with expected improvement, learned noise and a prior mean."""

    name: ClassVar[str] = "auto"
    Options: ClassVar[type[SamplerOptions]] = AutoOptions
    options: AutoOptions
    _listed: Pool | None = None

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        suggestions: list[Suggestion] = []
        pending = np.empty((0, len(space.parameters)), dtype=np.int64)
        belief: Belief | None = None
        while len(suggestions) < n:
            default = seen.new(space.levels([space.default])) if len(seen) == 0 else pending[:0]
            if len(default):
                point, tag = default, "default"
            elif len(seen) < self.options.initial:
                point, tag = complete("latin_hypercube", space, seen, rng, size=self.options.initial, n=1), "plan"
            else:
                belief = belief or self._believe(space, history)
                point, tag = (
                    maximise(self._pool(space), seen, belief.imagine(pending), rng, self.options.search),
                    "gain",
                )
            if len(point) == 0:
                break
            seen.add(point)
            pending = np.concatenate([pending, point])
            suggestions.append(Suggestion(space.configuration(point[0]), tag))
        return suggestions

    def recommend(self, space: Space, history: History) -> list[Trial]:
        """See :meth:`stripewise.search.base.Sampler.recommend`; by posterior mean."""
        belief = self._believe(space, history)
        if belief.process is None:
            return rank(history)
        trials = [trial for trial in history.trials if trial.values]
        mean, _ = belief.predict(space.levels([trial.configuration for trial in trials]))
        return [trials[int(index)] for index in np.argsort(mean, kind="stable")]

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """See :meth:`stripewise.search.base.Sampler.expected_improvement`."""
        seen = Seen.of(space, history)
        belief = self._believe(space, history)
        if belief.process is None or len(seen) < self.options.initial:
            return None
        rng = np.random.default_rng(len(history.trials))
        best = maximise(self._pool(space), seen, belief, rng, self.options.search)
        if len(best) == 0:
            return 0.0
        mean, sd = belief.predict(best)
        return float(expected_improvement(mean, sd, belief.best)[0])

    def _pool(self, space: Space) -> Pool:
        # A function of the space alone: kept because listing a large one takes as long as scoring it.
        if self._listed is None or self._listed.space is not space:
            self._listed = Pool(space)
        return self._listed

    def _believe(self, space: Space, history: History) -> Belief:
        return believe(space, history, self.prior, self.options)
