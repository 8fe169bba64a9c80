"""Exhaustive search: every configuration once, in an order that is spread over the space from the start."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from stripewise.search.base import Sampler, SamplerOptions, Suggestion, suggest
from stripewise.search.unseen import Seen
from stripewise.spec.space import Space
from stripewise.spec.trial import History

_BLOCK = 1024


class ExhaustiveOptions(SamplerOptions):
    """Options of ``exhaustive``."""

    order: int = Field(default=0, ge=0, lt=2**63, description="seed of the order in which the space is walked")


class ExhaustiveSampler(Sampler):
    """Walks the whole space in one random order, the same for every seed of the experiment."""

    name: ClassVar[str] = "exhaustive"
    Options: ClassVar[type[SamplerOptions]] = ExhaustiveOptions
    options: ExhaustiveOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`.

        Raises
        ------
        UserError
            If the space is too large to be listed.
        """
        everything = space.enumerate()
        order = np.random.default_rng(self.options.order).permutation(len(everything))
        seen = Seen.of(space, history)
        suggestions: list[Suggestion] = []
        for start in range(0, len(order), _BLOCK):
            fresh = seen.new(everything[order[start : start + _BLOCK]])
            suggestions += suggest(space, fresh[: n - len(suggestions)])
            if len(suggestions) == n:
                break
        return suggestions
