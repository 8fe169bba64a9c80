"""The points of a grid: numbered, listed, counted and drawn without making more of them than asked for.

Inside a space, a configuration is a row of *levels*, the index of each parameter's value, so that millions can be
folded, checked and enumerated as one integer array of shape ``(n, d)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.expression import Expression
from stripewise.errors import UserError

Levels = NDArray[np.int64]
"""Rows of value indices, shape ``(n, d)``."""

CHUNK = 1 << 18
"""Grid points that are looked at together."""

_MAX_TRIES = 200


def levels_at(numbers: NDArray[np.int64], shape: Sequence[int]) -> Levels:
    """Give the levels of grid points by their number, the last parameter's fastest, shape ``(n, d)``.

    NumPy has a function for at most 64 parameters.
    """
    levels = np.empty((len(numbers), len(shape)), dtype=np.int64)
    for axis in reversed(range(len(shape))):
        numbers, levels[:, axis] = np.divmod(numbers, shape[axis])
    return levels


class Grid(ABC):
    """All combinations of levels, of which those count that are folded and feasible."""

    constraints: tuple[Expression, ...]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Number of values of each parameter."""

    @abstractmethod
    def fold(self, levels: Levels) -> Levels:
        """Give the canonical form of each row: equal behaviour has one form."""

    @abstractmethod
    def active(self, levels: Levels) -> NDArray[np.bool_]:
        """Say which parameters mean something in each row, shape of ``levels``."""

    @abstractmethod
    def feasible(self, levels: Levels) -> NDArray[np.bool_]:
        """Say which rows satisfy every constraint, shape ``(n,)``."""

    @cached_property
    def cardinality(self) -> int:
        """Number of points of the full grid, before constraints and folding."""
        return math.prod(self.shape)

    def flat(self, levels: Levels) -> NDArray[np.int64]:
        """Number each row of levels by its place in the full grid, shape ``(n,)``.

        Raises
        ------
        UserError
            If the grid has more than 2^62 points.
        """
        if self.cardinality > 2**62:
            raise UserError("a grid of more than 2^62 points is too large to number")
        numbers = np.zeros(len(levels), dtype=np.int64)
        for column, size in zip(levels.T, self.shape, strict=True):
            numbers = numbers * size + column
        return numbers

    def unflat(self, numbers: NDArray[np.int64]) -> Levels:
        """Invert :meth:`flat`."""
        return levels_at(numbers, self.shape)

    def chunks(self) -> Iterator[Levels]:
        """Yield the distinct feasible configurations in grid order, some hundred thousand grid points at a time."""
        for start in range(0, self.cardinality, CHUNK):
            numbers = np.arange(start, min(start + CHUNK, self.cardinality), dtype=np.int64)
            levels = self.unflat(numbers)
            # A folded form is itself a grid point: keeping exactly the points that fold to themselves counts each once.
            own = np.all(self.fold(levels) == levels, axis=1)
            levels = levels[own]
            yield levels[self.feasible(levels)]

    def enumerate(self, limit: int = 20_000_000) -> Levels:
        """All distinct feasible configurations, shape ``(n, d)``.

        Raises
        ------
        UserError
            If the grid has more than ``limit`` points, or no configuration is feasible.
        """
        if self.cardinality > limit:
            raise UserError(
                f"the grid has {self.cardinality:,} points, more than the {limit:,} that can be listed",
                "narrow it under [parameters]",
            )
        parts = list(self.chunks())
        return np.concatenate(parts)

    def count(self, limit: int = 2_000_000) -> tuple[int, bool]:
        """Count distinct feasible configurations.

        Returns
        -------
        (int, bool)
            The number, and whether it is exact; beyond ``limit`` grid points it is estimated from a fixed sample.
        """
        if self.cardinality <= limit:
            return sum(len(chunk) for chunk in self.chunks()), True
        rng = np.random.default_rng(0)
        levels = np.stack([rng.integers(0, n, size=100_000) for n in self.shape], axis=1)
        folded, acting = self.fold(levels), self.active(levels)
        own = np.all((folded == levels) | ~acting, axis=1) & self.feasible(folded)
        # A point stands for all that differ from it in what does not act: few points of a grid are folded themselves.
        share = np.prod(np.where(acting, 1.0, 1.0 / np.array(self.shape)), axis=1)
        # In whole numbers: a large grid has more points than a float can hold.
        return max(1, round(self.cardinality * Fraction(float(np.sum(share[own]))) / len(own))), False

    def sample(self, rng: np.random.Generator, n: int) -> Levels:
        """Draw ``n`` feasible configurations uniformly from the grid, folded, shape ``(n, d)``; repeats are possible.

        Raises
        ------
        UserError
            If hardly any grid point is feasible.
        """
        found: list[Levels] = []
        have = 0
        for _ in range(_MAX_TRIES):
            batch = max(64, 2 * (n - have))
            levels = self.fold(np.stack([rng.integers(0, size, size=batch) for size in self.shape], axis=1))
            levels = levels[self.feasible(levels)]
            found.append(levels)
            have += len(levels)
            if have >= n:
                return np.concatenate(found)[:n]
        texts = "', '".join(constraint.text for constraint in self.constraints)
        raise UserError(f"hardly any configuration satisfies '{texts}'", "loosen the constraints")
