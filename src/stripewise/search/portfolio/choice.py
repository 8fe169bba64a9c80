"""The configuration that helps most on other systems, weighed by how well each of them agrees with the runs here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stripewise.model.domain import Floats
from stripewise.search.costs import Costs
from stripewise.search.plain import plainest
from stripewise.search.portfolio.members import Members
from stripewise.spec.space import Levels, Space
from stripewise.spec.trial import History

PRIOR_OF_NONE = 0.3
"""Probability, before the first run, that this system resembles none of the others."""
GAIN_DEVIATION = 0.3
"""Standard deviation of the error of a gain (logarithm) on a system that is not among the members."""
POINTS = 2
"""Configurations after the default that come from it."""
LEAST_GAIN = 0.02
"""Expected gain (logarithm) for which a configuration is tried."""


@dataclass(frozen=True, eq=False)
class Advice:
    """What the members say of one workload.

    Attributes
    ----------
    members : Members
    facts : mapping
        What is known of the workload: the words of :class:`~stripewise.spec.workload.Workload`, and ``processes``.
    weights : ndarray, shape (k,)
        How much each member counts before the first run.
    points : int
        Configurations after the default that come from it.
    """

    members: Members
    facts: Mapping[str, Any]
    weights: Floats
    points: int = POINTS

    def __call__(self, space: Space, levels: Levels) -> Floats:
        """Logarithm of performance over the default's on each of the systems: ``(n, d)`` to ``(k, n)``."""
        return self.members.gains(self.facts, space, levels)


def resemblance(weights: Floats, gains: Floats, cost: Floats) -> Floats:
    """How probable it is that this system behaves as each of the others, or as none of them.

    Parameters
    ----------
    weights : ndarray, shape (k,)
        How much each of the systems counts before the first run.
    gains : ndarray, shape (k, m)
        Of the configurations that have run, on each of the other systems.
    cost : ndarray, shape (m,)
        Their costs here (logarithms), up to a constant.

    Returns
    -------
    ndarray, shape (k + 1,)
        The last is the probability that it resembles none; then all gains are 0, up to :data:`GAIN_DEVIATION`.
    """
    before = np.append((1 - PRIOR_OF_NONE) * weights, PRIOR_OF_NONE)
    if len(cost) == 0:
        return before
    error = np.concatenate([gains, np.zeros((1, len(cost)))]) + cost
    error -= error.mean(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):  # a member without weight stays without
        log = np.log(before) - 0.5 * np.sum(error**2, axis=1) / GAIN_DEVIATION**2
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def choose(advice: Advice, space: Space, history: History, seen: Levels, candidates: Levels) -> Levels:
    """Give the configuration that is expected to improve most on what was tried, over the other systems.

    1. Find how probable it is that this system behaves as each of the others (:func:`resemblance`).
    2. On each of them, the best of what was tried has a gain, and a candidate improves on it or does not. Take the
       candidate with the largest improvement on average, so that a second one helps where the first does not.
    3. Of candidates that the members cannot tell apart, take the :func:`~.plain.plainest`: beyond what they have seen,
       trees say the same of all values.

    Parameters
    ----------
    advice : Advice
    space : Space
    history : History
    seen : ndarray, shape (m, d)
        Configurations that ran or are running; not empty.
    candidates : ndarray, shape (n, d)

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) where nothing is expected to improve by :data:`LEAST_GAIN`.
    """
    if len(candidates) == 0:
        return candidates
    known = Costs.of(history).known
    worked = ~np.isnan(known)
    ran = space.levels([trial.configuration for trial in history.trials])[worked]
    gains = advice(space, np.concatenate([ran, seen, candidates]))
    here, tried, new = np.split(gains, [len(ran), len(ran) + len(seen)], axis=1)
    weight = resemblance(advice.weights, here, known[worked])[:-1]
    improvement = weight @ np.maximum(new - np.max(tried, axis=1, keepdims=True), 0.0)
    chosen = plainest(space, candidates, -improvement)
    return candidates[[chosen]] if improvement[chosen] >= LEAST_GAIN else candidates[:0]
