"""The points of a search that come from general knowledge."""

from __future__ import annotations

import numpy as np

from stripewise.search.acquisition import Pool, one_step
from stripewise.search.portfolio.choice import Advice, choose
from stripewise.search.portfolio.features import ROLES
from stripewise.search.unseen import Seen
from stripewise.spec.space import Levels
from stripewise.spec.trial import History

TAG = "general"
"""The tag of their trials."""
_MOST_SCORED = 20_000
_SAMPLE = 2_000
_ROUNDS = 12


def propose(advice: Advice, pool: Pool, history: History, seen: Seen, rng: np.random.Generator) -> Levels:
    """Propose the next configuration from general knowledge, while its turn is.

    Spaces of more than 20,000 configurations are sampled and climbed; what the members do not know keeps its default.

    Parameters
    ----------
    advice : Advice
    pool : Pool
        Of the space that is searched.
    history : History
    seen : Seen
        The configurations of the history, and those proposed since.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) before the default, after its :attr:`~.Advice.points`, and where nothing is expected to help.
    """
    space = pool.space
    if not 1 <= len(seen) <= advice.points:
        return seen.levels[:0]
    if pool.levels is not None and len(pool.levels) <= _MOST_SCORED:
        return choose(advice, space, history, seen.levels, pool.levels[pool.unseen(seen)])
    drawn = seen.draw(rng, _SAMPLE)
    silent = [place for place, parameter in enumerate(space.parameters) if parameter.role not in ROLES]
    drawn[:, silent] = space.levels([space.default])[0, silent]
    best = choose(advice, space, history, seen.levels, seen.new(drawn))
    for _ in range(_ROUNDS if len(best) else 0):
        # The best comes first among its steps, and wins where none is better.
        found = choose(advice, space, history, seen.levels, seen.new(one_step(space, best, rng)))
        if np.array_equal(found, best):
            break
        best = found
    return best
