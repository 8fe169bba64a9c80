"""Configurations that were not asked for yet: the one place where duplicates are kept out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.trial import History

_ROUNDS = 6
_MOST_LISTED = 20_000_000


class Seen:
    """The configurations of a history, and those chosen since.

    Parameters
    ----------
    space : Space
    levels : ndarray, shape (n, d)
        Folded.
    """

    def __init__(self, space: Space, levels: Levels) -> None:
        self.space = space
        self._rows: dict[bytes, Levels] = {}
        self.add(levels)

    @classmethod
    def of(cls, space: Space, history: History) -> Seen:
        """Take all trials of a history, whatever came of them."""
        return cls(space, space.levels([trial.configuration for trial in history.trials]))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def levels(self) -> Levels:
        """All seen configurations in order, shape ``(n, d)``."""
        rows = list(self._rows.values())
        return np.stack(rows) if rows else np.empty((0, len(self.space.parameters)), dtype=np.int64)

    def add(self, levels: Iterable[Levels]) -> None:
        """Remember more rows."""
        for row in levels:
            self._rows.setdefault(_key(row), row)

    def new(self, levels: Levels) -> Levels:
        """Fold candidates and keep, in their order, the first of each that is feasible and unseen, shape ``(m, d)``."""
        folded = self.space.fold(levels)
        folded = folded[self.space.feasible(folded)]
        fresh: dict[bytes, int] = {}
        for index, row in enumerate(folded):
            key = _key(row)
            if key not in self._rows:
                fresh.setdefault(key, index)
        return folded[list(fresh.values())]

    def draw(self, rng: np.random.Generator, n: int) -> Levels:
        """Draw unseen configurations at random, all different.

        Uniform over the grid before folding, so that a value which switches others off is drawn as often as the rest.

        Returns
        -------
        ndarray, shape (m, d)
            ``m < n`` only if no more are left, or hardly any in a grid too large to be listed.

        Raises
        ------
        UserError
            If hardly any point of a grid too large to be listed is feasible.
        """
        found = np.empty((0, len(self.space.parameters)), dtype=np.int64)
        if n <= 0:
            return found
        listable = self.space.cardinality <= _MOST_LISTED
        for _ in range(_ROUNDS):
            try:
                drawn = self.space.sample(rng, max(32, 2 * n))
            except UserError:
                if listable:
                    break
                raise
            found = self.new(np.concatenate([found, drawn]))
            if len(found) >= n:
                return found[:n]
        return self._draw_listed(rng, n) if listable else found

    def _draw_listed(self, rng: np.random.Generator, n: int) -> Levels:
        """Draw from all that is left, one part of the grid at a time, each with a random key: the smallest keys win."""
        best = np.empty((0, len(self.space.parameters)), dtype=np.int64)
        keys = np.empty(0)
        for chunk in self.space.chunks():
            part = self.new(chunk)
            best = np.concatenate([best, part])
            keys = np.concatenate([keys, rng.random(len(part))])
            smallest = np.argsort(keys)[:n]
            best, keys = best[smallest], keys[smallest]
        return best


def _key(row: Levels) -> bytes:
    return row.tobytes()
