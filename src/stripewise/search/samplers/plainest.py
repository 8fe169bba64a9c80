"""Plain configurations: of those of which the same is expected, the one nearest to the default."""

from __future__ import annotations

import numpy as np

from stripewise.catalogue.space import Levels, Space
from stripewise.models.domain import Floats

_ALIKE = 1e-9


def plainest(space: Space, rows: Levels, cost: Floats) -> int:
    """Of the configurations with the least cost, the place of the one with the fewest changed parameters.

    Of several, it is the one the fewest steps from the default, and then the first. What an expectation says nothing
    about keeps its default, because defaults are mostly sound.

    Parameters
    ----------
    space : Space
    rows : ndarray, shape (n, d)
        Folded, not empty.
    cost : ndarray, shape (n,)
        Costs that differ by less than 1e-9 are alike.
    """
    alike = np.flatnonzero(cost <= cost.min() + _ALIKE)
    steps = np.abs(rows[alike] - space.levels([space.default]))
    return int(alike[np.lexsort((steps.sum(axis=1), np.count_nonzero(steps, axis=1)))[0]])
