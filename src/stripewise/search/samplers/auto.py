"""The default sampler: Bayesian optimisation that starts from prior knowledge.

Plain configurations: of those of which the same is expected, the one nearest to the default.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from stripewise.catalogue.space import Levels, Space
from stripewise.search.base import DOUBT, PriorMean, Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.belief.belief import Belief, believe, expect_cost, knowledge_prior
from stripewise.search.belief.costs import Floats
from stripewise.search.belief.gp import load_optimizer
from stripewise.search.belief.posterior import expected_improvement, rank_trials
from stripewise.search.samplers.initial import complete_plan, next_switch
from stripewise.search.samplers.surrogate import Pool, Search, maximise
from stripewise.threads import one_thread
from stripewise.trial import History, Trial

_ALIKE = 1e-9


def find_plainest(space: Space, rows: Levels, cost: Floats) -> int:
    """Of the configurations with the least cost, the place of the one with the fewest changed parameters.

    Of several, it is the one the fewest steps from the default, and then the first. What an expectation says nothing
    about keeps its default, because defaults are mostly sound.

    Parameters
    ----------
    rows : ndarray, shape (n, d)
        Folded, not empty.
    cost : ndarray, shape (n,)
        Costs that differ by less than 1e-9 are alike.
    """
    alike = np.flatnonzero(cost <= cost.min() + _ALIKE)
    steps = np.abs(rows[alike] - space.levels([space.default]))
    return int(alike[np.lexsort((steps.sum(axis=1), np.count_nonzero(steps, axis=1)))[0]])


_SAMPLE = 2_000
_TRUST = 0.5
"""Standard deviation of the prior's weight, whose mean is 1."""
_OBSERVATIONS = 400
"""Most trials that the process learns from: the better half of them, and a spread of the rest."""
_FEWEST = 4
"""Points after which the process is asked what is still to be gained, if a prior chose them."""
_CONVINCING = 0.25
"""Logarithm of the Bayes factor from which a prior takes the place of the plan."""


class AutoOptions(SamplerOptions):
    """Options of ``auto``."""

    initial: int = Field(
        default=8,
        ge=1,
        le=10_000,
        description="points tried before the process is asked: the default, what the stack's knowledge likes best, its "
        "strong switches, a Latin hypercube. Skipped while the measurements agree with a model's prior",
    )
    knowledge: bool = Field(default=True, description="start from the stack files' expectations if no model is given")
    search: Search = Field(
        default="auto", description="score every configuration, only screened ones, or whichever is affordable"
    )


class AutoSampler(Sampler):
    """Bayesian optimisation with Gaussian processes, a prior mean, learned noise and expected improvement.

    Each suggestion is made in these steps:

    1. The first configuration is the default, and the second the one that the prior (a model, or else the knowledge of
       the stack files) expects most of; of several, the one nearest to the default.
    2. While the plan of :attr:`AutoOptions.initial` points is not complete, the next point that covers strong switches
       (:func:`stripewise.search.samplers.initial.next_switch`), then that of a Latin hypercube
       (:func:`stripewise.search.samplers.initial.latin_hypercube`). The plan is skipped while the measurements
       agree with the prior of a model, by their Bayes factor, except for switches that the prior says nothing about.
    3. From then on, Gaussian processes are fitted to the costs of the whole history
       (:func:`stripewise.search.belief.belief.believe`): one with an exponential and one with a Matern kernel,
       averaged by their posterior densities (Hoeting et al., Stat. Sci. 14, 1999). The prior is their mean,
       with a weight that is learned.
    4. The acquisition function is the expected improvement (Jones, Schonlau, Welch, J. Global Optim. 13, 1998) over
       the least posterior mean, times the probability that the configuration works (Gelbart, Snoek, Adams, UAI 2014).
    5. It is evaluated for every new configuration where that takes less than about a second, and otherwise climbed from
       a random sample and the neighbours of the best (:func:`stripewise.search.samplers.surrogate.maximise`).
    6. For further suggestions at the same time, the chosen configuration counts as if it had its expected cost
       (Ginsbourger, Le Riche, Carraro, 2010), and steps 4 and 5 are repeated.

    ``docs/explanation/search.md`` explains the choices and the measurements behind them.
    """

    name: ClassVar[str] = "auto"
    uses_prior: ClassVar[bool] = True
    Options: ClassVar[type[SamplerOptions]] = AutoOptions
    options: AutoOptions
    # Results of pure functions, kept because the loop asks several questions after one history, of the whole space and
    # of what is left of it.
    _pools: tuple[Pool, ...] = ()
    _believed: tuple[tuple[Space, History, Belief | None], ...] = ()

    def load(self) -> None:
        """See :meth:`stripewise.search.base.Sampler.load`."""
        load_optimizer()

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        with one_thread():
            return self._ask(space, history, rng, n)

    def _ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        seen = Seen.of(space, history)
        belief = self._believe(space, history)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            point, tag = self._next(space, seen, belief, rng)
            if len(point) == 0:
                break
            seen.add(point)
            belief = belief and belief.fantasize(point)
            suggestions += suggest(space, point, tag)
        return suggestions

    def _next(self, space: Space, seen: Seen, belief: Belief | None, rng: np.random.Generator) -> tuple[Levels, str]:
        """Choose the next point, and its tag."""
        if len(seen) == 0 and len(default := seen.new(space.levels([space.default]))):
            return default, "default"
        prior = self.expectation(space)
        # Knowledge concerns few parameters: its favourite is worth a run, but does not replace exploring the others.
        if prior is not None and (len(seen) <= 1 or (belief is None and self.prior is not None)):
            return self._favourite(space, seen, prior, rng), "prior"
        agrees = belief is not None and belief.log_bayes_factor > _CONVINCING
        if len(seen) < self.options.initial and len(point := next_switch(space, seen, prior, trusted=agrees)):
            return point, "switch"
        # A model's prior replaces the plan while the measurements agree with it.
        if belief is not None and (agrees or len(seen) >= self.options.initial):
            return maximise(self._listed(space), seen, belief, rng, self.options.search), "gain"
        # Nothing has worked yet, or the search has just begun: a plan, which continues while everything fails.
        size = max(self.options.initial, len(seen) + 1)
        return complete_plan("latin_hypercube", space, seen, rng, size=size, n=1, prior=prior), "plan"

    def _favourite(self, space: Space, seen: Seen, prior: PriorMean, rng: np.random.Generator) -> Levels:
        """The plainest of the configurations that the prior expects most of."""
        pool = self._listed(space)
        if self.options.search != "screened" and pool.levels is not None:
            new = pool.unseen(seen)
            rows = pool.levels[new]
            return rows[[find_plainest(space, rows, pool.expected(prior)[new])]] if len(rows) else rows
        rows = seen.draw(rng, _SAMPLE)
        best = rows[[int(np.argmin(expect_cost(prior, space, rows)))]] if len(rows) else rows
        # A sample hardly holds the plain ones: put the parameters back to their defaults, one after the other.
        for _ in range(len(space.parameters) if len(best) else 0):
            steps = np.tile(best, (len(space.parameters), 1))
            np.fill_diagonal(steps, space.levels([space.default])[0])
            rows = np.concatenate([best, seen.new(steps)])
            found = rows[[find_plainest(space, rows, expect_cost(prior, space, rows))]]
            if np.array_equal(found, best):
                break
            best = found
        return best

    def recommend(self, space: Space, history: History) -> list[Trial]:
        """See :meth:`stripewise.search.base.Sampler.recommend`; by posterior mean, which pools neighbours."""
        belief = self._believe(space, history)
        trials = [trial for trial in history.trials if trial.values]
        if belief is None or not trials:
            return rank_trials(history)
        mean = belief.known_mean(space.levels([trial.configuration for trial in trials]))
        return [trials[int(index)] for index in np.argsort(mean, kind="stable")]

    def gain_if_it_works(self, space: Space, history: History, levels: Levels) -> Floats:
        """See :meth:`stripewise.search.base.Sampler.gain_if_it_works`; by the process, which knows the neighbours."""
        belief = self._believe(space, history)
        return np.zeros(len(levels)) if belief is None else expected_improvement(*belief.predict(levels), belief.best)

    def slowdown(self, space: Space, history: History, levels: Levels) -> Floats:
        """See :meth:`stripewise.search.base.Sampler.slowdown`; by the process, which has seen the neighbours."""
        belief = self._believe(space, history)
        if belief is None or len(levels) == 0:
            return super().slowdown(space, history, levels)
        mean, _ = belief.predict(levels)
        return np.asarray(mean - belief.known_mean(space.levels([space.default])), dtype=np.float64)

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """See :meth:`stripewise.search.base.Sampler.expected_improvement`; None before the first points are tried."""
        found = self._promising(space, history, self.options.initial)
        if found is None:
            return None
        belief, point = found
        if len(point) == 0:
            return 0.0
        gain: Floats = expected_improvement(*belief.predict(point), belief.best) * belief.probability_of_success(point)
        return float(gain[0])

    def least_cost(self, space: Space, history: History) -> float | None:
        """See :meth:`stripewise.search.base.Sampler.least_cost`; None before the first points are tried.

        With a prior, these are its favourite, every strong switch, and a few at least.
        """
        prior, seen = self.expectation(space), Seen.of(space, history)
        told = prior is not None and len(next_switch(space, seen, prior)) == 0
        found = self._promising(space, history, _FEWEST if told else self.options.initial)
        if found is None:
            return None
        belief, point = found
        if len(point) == 0:
            return belief.best
        mean, sd = belief.predict(point)
        return float(mean[0] - DOUBT * sd[0])

    def _promising(self, space: Space, history: History, fewest: int) -> tuple[Belief, Levels] | None:
        """Give what is believed, and the untried configuration that promises the most gain, if there is one.

        None while fewer points than ``fewest`` have been tried, and others are left.
        """
        seen, belief, pool = Seen.of(space, history), self._believe(space, history), self._listed(space)
        few = len(seen) < fewest and (pool.levels is None or len(pool.levels[pool.unseen(seen)]) > 0)
        if belief is None or few:
            return None
        return belief, maximise(pool, seen, belief, np.random.default_rng(len(history.trials)), self.options.search)

    def expectation(self, space: Space) -> PriorMean | None:
        """See :meth:`stripewise.search.base.Sampler.expectation`: without a prior, the stack files' knowledge."""
        if self.prior is None and self.options.knowledge and space.knowledge:
            return knowledge_prior
        return self.prior

    def _listed(self, space: Space) -> Pool:
        held = next((pool for pool in self._pools if pool.space is space), None)
        if held is None:
            held = Pool(space)
            self._pools = (*self._pools[-1:], held)
        return held

    def _believe(self, space: Space, history: History) -> Belief | None:
        held = next((one for one in self._believed if one[0] is space and one[1] is history), None)
        if held is None:
            with one_thread():
                belief = believe(
                    space,
                    history,
                    self.expectation(space),
                    trust=_TRUST,
                    most=_OBSERVATIONS,
                    test_prior=self.prior is not None,
                )
            held = (space, history, belief)
            self._believed = (*self._believed[-1:], held)
        return held[2]
