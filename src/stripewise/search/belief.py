"""What ``auto`` believes after a history: cost and feasibility of every configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from stripewise.search.base import PriorMean
from stripewise.search.costs import Costs, CostScale, Floats
from stripewise.search.gp import Data, Hyperprior, Process, fit
from stripewise.search.kernel import Geometry
from stripewise.search.knowledge import knowledge_prior
from stripewise.spec.space import Levels, Space
from stripewise.spec.trial import History


@dataclass(frozen=True)
class Belief:
    space: Space
    geometry: Geometry
    prior: PriorMean | None
    process: Process | None
    feasibility: Process | None
    best: float
    centre: float
    run: Levels

    def predict(self, levels: Levels) -> tuple[Floats, Floats]:
        assert self.process is not None
        mean, sd = self.process.predict(self.geometry.knots(levels), expected(self.prior, self.space, levels))
        return mean + self.centre, sd

    def works(self, levels: Levels) -> Floats:
        if self.feasibility is None:
            return np.ones(len(levels))
        mean, sd = self.feasibility.predict(self.geometry.knots(levels), np.zeros(len(levels)))
        return ndtr((mean + 0.5) / np.sqrt(0.25 + sd**2))

    def leaders(self, count: int) -> Levels:
        """The configurations that were run and are believed best, shape ``(m, d)``."""
        mean, _ = self.predict(self.run)
        return self.run[np.argsort(mean, kind="stable")[:count]]

    def imagine(self, levels: Levels) -> Belief:
        if len(levels) == 0 or self.process is None:
            return self
        mean, _ = self.predict(levels)
        data = self.process.data
        more = Data(
            np.concatenate([data.knots, self.geometry.knots(levels)]),
            np.concatenate([data.cost, mean - self.centre]),
            np.concatenate([data.variance, np.ones(len(levels))]),
            np.concatenate([data.prior, expected(self.prior, self.space, levels)]),
        )
        process = replace(self.process, data=more)
        return replace(self, process=process, best=min(self.best, float(mean.min())))


def expected(prior: PriorMean | None, space: Space, levels: Levels) -> Floats:
    """Expected cost, up to a constant."""
    return np.zeros(len(levels)) if prior is None else -np.asarray(prior(space, levels), dtype=np.float64)


def believe(space: Space, history: History, prior: PriorMean | None, options: Any) -> Belief:
    geometry = Geometry(space)
    if prior is None and options.knowledge and space.knowledge:
        prior = knowledge_prior
    costs = Costs.of(history)
    levels = space.levels([trial.configuration for trial in history.trials])
    known = ~np.isnan(costs.known)
    if not known.any():
        return Belief(space, geometry, prior, None, None, 0.0, 0.0, levels[:0])
    scale = CostScale.of(history)
    groups = [scale(t.values) for t in history.finished if len(t.values) > 1]
    squares = float(sum(np.sum((g - g.mean()) ** 2) for g in groups))
    freedom = float(sum(len(g) - 1 for g in groups))
    knots = geometry.knots(levels)
    cost = costs.known[known]
    centre = float(np.median(cost))
    m = expected(prior, space, levels[known])
    data = Data(knots[known], cost - centre, 1.0 / np.maximum(costs.runs[known], 1), m, squares, freedom)
    process = fit(geometry, data, Hyperprior(), options.trust)
    feasibility = None
    if costs.failed.any():
        judged = known | costs.failed
        label = np.where(costs.failed[judged], -1.0, 1.0) - 0.5
        feasibility = fit(geometry, Data(knots[judged], label, np.ones(len(label)), np.zeros(len(label))))
    mean, _ = process.predict(knots[known], m)
    belief = Belief(space, geometry, prior, process, feasibility, float(mean.min()) + centre, centre, levels[known])
    return belief.imagine(levels[costs.open]) if costs.open.any() else belief
