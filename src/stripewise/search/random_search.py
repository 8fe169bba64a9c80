"""Random search: the yardstick."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stripewise.search.base import Sampler, Suggestion, suggest
from stripewise.search.unseen import Seen
from stripewise.spec.space import Space
from stripewise.spec.trial import History


class RandomSampler(Sampler):
    """Draws unseen configurations at random."""

    name: ClassVar[str] = "random"

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        return suggest(space, Seen.of(space, history).draw(rng, n))
