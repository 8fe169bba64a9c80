"""Samplers that learn nothing from values: random search, Latin hypercubes, and the whole grid."""

from __future__ import annotations

import re
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.catalogue.space import Space
from stripewise.errors import UserError
from stripewise.search.base import Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.samplers.initial import complete_plan
from stripewise.trial import History

_TAG = re.compile(r"place (\d+)")
_BLOCK = 1024
_MOST_WALKED = 4_000_000
"""Grid points looked at for one suggestion."""
_LAYERS = 4
_MIX = np.uint64(0x9E3779B97F4A7C15)


class RandomSampler(Sampler):
    """Draws unseen configurations at random."""

    name: ClassVar[str] = "random"

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        return suggest(space, Seen.of(space, history).draw(rng, n))


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
            points = complete_plan("latin_hypercube", space, seen, rng, size=full, n=n - len(suggestions))
            if len(points) == 0:
                break
            seen.add(points)
            suggestions += suggest(space, points)
        return suggestions


class ExhaustiveOptions(SamplerOptions):
    """Options of ``exhaustive``."""

    order: int = Field(default=0, ge=0, lt=2**63, description="seed of the order in which the space is walked")


class ExhaustiveSampler(Sampler):
    """Walks the whole grid in one shuffled order, the same for every seed of the experiment.

    The tag is the place in that order, so that a walk goes on where it stood; the order is computed, never listed.
    """

    name: ClassVar[str] = "exhaustive"
    whole: ClassVar[bool] = True
    Options: ClassVar[type[SamplerOptions]] = ExhaustiveOptions
    options: ExhaustiveOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        if space.cardinality > 2**62:
            raise UserError("a grid of more than 2^62 points cannot be walked", "narrow it, or use another sampler")
        seen = Seen.of(space, history)
        places = [int(match[1]) for trial in history.trials if (match := _TAG.fullmatch(trial.tag))]
        suggestions: list[Suggestion] = []
        first = start = max(places, default=-1) + 1
        while start < space.cardinality and len(suggestions) < n:
            ahead = np.arange(start, min(start + _BLOCK, space.cardinality), dtype=np.int64)
            levels = space.unflat(shuffle_places(ahead, space.cardinality, self.options.order))
            # Of the grid points that fold together, the one that is folded already stands for all.
            for place in np.flatnonzero(np.all(space.fold(levels) == levels, axis=1) & space.feasible(levels)):
                fresh = seen.new(levels[[place]])
                seen.add(fresh)
                suggestions += suggest(space, fresh, f"place {ahead[place]}")
                if len(suggestions) == n:
                    break
            start += _BLOCK
            if start - first > _MOST_WALKED:
                if suggestions:
                    break
                raise UserError(
                    f"{_MOST_WALKED:,} points of the grid in turn break its constraints",
                    "loosen the constraints, or use another sampler",
                )
        return suggestions


def shuffle_places(places: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Give the elements at some places of a random permutation of ``range(size)``, without making all of it.

    A Feistel network permutes the next larger power of four; what falls outside the range is sent through it again
    until it falls inside (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
    """
    bits = np.uint64(max(1, -(-(size - 1).bit_length() // 2)))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    keys = np.random.default_rng(seed).integers(2**63, size=_LAYERS).astype(np.uint64)
    numbers = places.astype(np.uint64)
    outside = np.arange(len(numbers))
    while len(outside):
        left, right = numbers[outside] >> bits, numbers[outside] & mask
        for key in keys:
            mixed = (right ^ key) * _MIX
            mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX
            left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
        numbers[outside] = (left << bits) | right
        outside = outside[numbers[outside] >= size]
    return numbers.astype(np.int64)
