"""Several small models, each of a group of systems: what settings brought there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats
from stripewise.model.features import Matrix
from stripewise.model.trees.ensemble import Trees
from stripewise.search.portfolio.features import encode, settings_by_role
from stripewise.spec.space import Levels, Space


@dataclass(frozen=True, eq=False)
class Members:
    """Trees of several groups of systems.

    Attributes
    ----------
    groups : tuple of str
        Systems behind each of the members, and their MPI library.
    simulated : tuple of bool
        Whether each was learned from simulated runs.
    trees : tuple of Trees
        Each predicts the natural logarithm of performance, up to a constant of the workload, from
        :func:`~stripewise.search.portfolio.features.encode`.
    """

    groups: tuple[str, ...]
    simulated: tuple[bool, ...]
    trees: tuple[Trees, ...]

    def only(self, kept: Sequence[bool]) -> Members:
        """Give what is known from some of the members alone."""
        places = [place for place, keep in enumerate(kept) if keep]
        return Members(
            tuple(self.groups[place] for place in places),
            tuple(self.simulated[place] for place in places),
            tuple(self.trees[place] for place in places),
        )

    @property
    def weights(self) -> Floats:
        """How much each member counts before anything has run, shape ``(members,)``; their sum is 1.

        Measured ones count together as much as simulated ones, which share one simulator and therefore its errors.
        """
        simulated = np.array(self.simulated, dtype=bool)
        weight = np.zeros(len(simulated))
        for kind in (simulated, ~simulated):
            weight[kind] = 1.0 / max(1, int(kind.sum()))
        return np.asarray(weight / max(1.0, weight.sum()), dtype=np.float64)

    def predict(self, x: Matrix) -> Floats:
        """What each member says, shape ``(members, n)``; rows that are alike are asked about once."""
        if not self.trees:
            return np.zeros((0, len(x)))
        distinct, place = np.unique(x, axis=0, return_inverse=True)
        # All trees at once: asking each member by itself takes ten times as long.
        each = np.add.reduceat(self._joined.members(distinct), self._starts, axis=1)
        return np.asarray(each.T[:, place.reshape(-1)])

    @cached_property
    def _joined(self) -> Trees:
        return Trees.joined(self.trees)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where the trees of each member begin among all."""
        return np.cumsum([0, *(len(one) for one in self.trees[:-1])])

    def gains(self, facts: Mapping[str, Any], space: Space, levels: Levels) -> Floats:
        """Logarithm of each configuration's performance over the default's, as each member has it, ``(members, n)``.

        Where a program reads and writes, the mean of both.
        """
        rows = np.concatenate([space.levels([space.default]), levels])
        operation = facts.get("operation")
        each = ("read", "write") if operation in (None, "both") else (str(operation),)
        total = np.zeros((len(self.trees), len(levels)))
        for one in each:
            found = self.predict(encode(facts, one, settings_by_role(space, rows, one), len(rows)))
            total += (found[:, 1:] - found[:, :1]) / len(each)
        return total
