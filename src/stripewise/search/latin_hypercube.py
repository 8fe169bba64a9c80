"""Latin hypercube sampling: plan after plan, each even on every axis."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from stripewise.search.base import Sampler, SamplerOptions, Suggestion, suggest
from stripewise.search.initial import complete
from stripewise.search.unseen import Seen
from stripewise.spec.space import Space
from stripewise.spec.trial import History


class LatinHypercubeOptions(SamplerOptions):
    """Options of ``latin_hypercube``."""

    points: int = Field(
        default=16, ge=1, le=10_000, description="points of a plan; when it is full, another one follows"
    )


class LatinHypercubeSampler(Sampler):
    """Fills the space evenly, learning nothing from the values."""

    name: ClassVar[str] = "latin_hypercube"
    Options: ClassVar[type[SamplerOptions]] = LatinHypercubeOptions
    options: LatinHypercubeOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            full = (len(seen) // self.options.points + 1) * self.options.points
            points = complete("latin_hypercube", space, seen, rng, size=full, n=n - len(suggestions))
            if len(points) == 0:
                break
            seen.add(points)
            suggestions += suggest(space, points)
        return suggestions
