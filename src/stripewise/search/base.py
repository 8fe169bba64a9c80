"""Samplers: what each is, how it is found by name, and what keeps it from asking twice.

A sampler is a pure function from the history of an experiment to the next configurations. Samplers are built in,
presets, adapters, or brought by other packages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.options import Options, parse_options
from stripewise.plugins import Plugins, import_place
from stripewise.search.belief.posterior import Posterior, expected_improvement, rank_trials
from stripewise.trial import History, Trial


@dataclass(frozen=True)
class Suggestion:
    """A configuration to run next.

    Attributes
    ----------
    configuration : Configuration
        Canonical, feasible, and not in the history.
    tag : str
        The sampler's note to itself; it comes back as :attr:`stripewise.trial.Trial.tag`.
    """

    configuration: Configuration
    tag: str = ""


def suggest(space: Space, levels: Levels, tag: str = "") -> list[Suggestion]:
    """Make suggestions of rows of levels, all with the same tag."""
    return [Suggestion(space.configuration(row), tag) for row in levels]


class SamplerOptions(Options):
    """Options of a sampler; see :class:`stripewise.options.Options`."""


class PriorMean(Protocol):
    """What is expected before the first run, from a performance model or from expert knowledge."""

    def __call__(self, space: Space, levels: Levels) -> NDArray[np.float64]:
        """Expected natural logarithm of performance, larger is better, up to any constant: ``(n, d)`` to ``(n,)``."""


class Sampler(ABC):
    """A search method.

    A sampler keeps nothing between calls: the tuning loop may make a new one for every question, on any host, and
    replay any part of a history. What a method must remember (a generation, a temperature) travels in the tags of its
    own suggestions, and its randomness comes from ``rng`` alone.

    Parameters
    ----------
    options : SamplerOptions, optional
        An instance of :attr:`Options`; the defaults if left out.
    prior : PriorMean, optional
        For samplers that can use one; others ignore it.
    """

    name: ClassVar[str]
    uses_prior: ClassVar[bool] = False
    """Whether the search starts from a prior, so that users who ask for one can be told where it would be ignored."""
    whole: ClassVar[bool] = False
    """Whether it covers the whole space, including what the evidence of the runs says does nothing."""
    Options: ClassVar[type[SamplerOptions]] = SamplerOptions

    def __init__(self, options: SamplerOptions | None = None, *, prior: PriorMean | None = None) -> None:
        self.options = self.Options() if options is None else options
        self.prior = prior

    def starting_from(self, prior: PriorMean) -> Self:
        """Make the same sampler with a prior.

        Called once, before the first question, where a model or earlier experiments are given. A sampler whose
        constructor has other arguments overrides it.
        """
        return type(self)(self.options, prior=prior)

    @classmethod
    def generation(cls, tag: str) -> int | None:
        """Give the generation that a tag of this method names; None where the method has none. Called for figures."""
        return None

    def load(self) -> None:  # noqa: B027  most have nothing to load
        """Load what the first question needs, before a program runs whose phases would pass meanwhile."""

    @abstractmethod
    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """Propose the next configurations.

        Called by the tuning loop whenever runners are free and no trial is to be repeated. The history then holds all
        trials asked for so far: finished, failed and pruned ones, and those pending or running on other runners.

        Parameters
        ----------
        rng : numpy.random.Generator
            Keyed by the experiment's seed and the number of the next trial
            (:func:`stripewise.search.base.sampler_rng`).
        n : int
            How many are wanted, at least 1.

        Returns
        -------
        list of Suggestion
            Distinct, canonical and feasible configurations, none of them in the history. Fewer than ``n``, or none,
            means that nothing else is left to try.
        """

    def expectation(self, space: Space) -> PriorMean | None:
        """Give the prior, or what the method expects in its place (expert knowledge, say); None for neither.

        Called before the search, by what is put on top of it (:class:`stripewise.search.belief.belief.EarlierPrior`).
        """
        return self.prior

    def slowdown(self, space: Space, history: History, levels: Levels) -> NDArray[np.float64]:
        """Logarithm of how many times the default's cost configurations are expected to have, shape ``(n,)``.

        Called before a configuration is tried inside a job that is not to be slowed down. The default knows what is
        expected before the search alone; 0 where that is nothing.
        """
        prior = self.expectation(space)
        if prior is None or len(levels) == 0:
            return np.zeros(len(levels))
        usual = prior(space, space.levels([space.default]))
        return np.asarray(usual - prior(space, levels), dtype=np.float64)

    def recommend(self, space: Space, history: History) -> list[Trial]:
        """Order the finished trials by how good they are believed to be, best first.

        Called at the end of the search, to choose what is confirmed. The default discounts single lucky runs by
        shrinkage (:func:`stripewise.search.belief.posterior.rank_trials`) and ignores the space.
        """
        return rank_trials(history)

    def gain_if_it_works(self, space: Space, history: History, levels: Levels) -> NDArray[np.float64]:
        """Expected improvement of configurations over the best cost, were they not to fail, shape ``(n,)``.

        Called to decide whether a trial that failed is run once more. The default knows nothing of the space: it takes
        them for draws from the population of all trials.
        """
        posterior = Posterior.of(history)
        if not posterior.trials:
            return np.zeros(len(levels))
        centre, spread = (np.full(len(levels), x) for x in (np.mean(posterior.mean), posterior.spread))
        return expected_improvement(centre, spread, float(np.min(posterior.mean)))

    def expected_improvement(self, space: Space, history: History) -> float | None:
        """Expected gain of the next run, as a fraction of the best cost; None if the method cannot tell.

        Called before each question if the user stops the search on it (:mod:`stripewise.search.policy.stopping`).
        """
        return None

    def least_cost(self, space: Space, history: History) -> float | None:
        """Cost that the most promising untried configuration may have; None if the method cannot tell.

        :data:`DOUBT` standard deviations below what is expected of it; of the best that is known where nothing is left
        to try. Called before each question, unless the whole budget is to be spent
        (:func:`stripewise.search.policy.stopping.nothing_more`).
        """
        return None


DOUBT = 0.75
"""Standard deviations of what a search may still be wrong by when it ends: 1 took a launch more on recorded sweeps and
proved as many gains, and 0.7 proved fewer."""
ENTRY_POINTS = "stripewise.samplers"

_SAMPLERS = Plugins(
    "sampler",
    ENTRY_POINTS,
    Sampler,
    {
        "auto": "stripewise.search.samplers.auto:AutoSampler",
        "random": "stripewise.search.samplers.nonadaptive:RandomSampler",
        "latin_hypercube": "stripewise.search.samplers.nonadaptive:LatinHypercubeSampler",
        "exhaustive": "stripewise.search.samplers.nonadaptive:ExhaustiveSampler",
        "genetic": "stripewise.search.samplers.metaheuristics:GeneticSampler",
        "annealing": "stripewise.search.samplers.metaheuristics:AnnealingSampler",
        "surrogate": "stripewise.search.samplers.surrogate:SurrogateSampler",
    },
)
_OPTUNA = "stripewise.search.samplers.optuna_adapter:OptunaSampler"

PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # Bagbaba and Wang, iWAPT 2021: bandwidth is the fitness, in proportion to which parents are chosen.
    "io-search": (
        "genetic",
        {"population": 10, "generations": 30, "mutation_rate": 0.15, "selection": "probabilistic", "plan": "random"},
    ),
    # Robert, Zertal and Goret, SITA 2020: 30 initial points, then one child at a time from all that was tried.
    "shaman": (
        "genetic",
        {"initial": 30, "parents": "all", "population": 1, "generations": 70, "plan": "hybrid"},
    ),
}
"""Name to sampler and the options it presets; options given by the user go on top."""


def sampler_names() -> list[str]:
    """List all names that :func:`make_sampler` knows; ``optuna:NAME`` stands for any of Optuna's samplers."""
    own = list(_SAMPLERS.built_in)
    foreign = [name for name in _SAMPLERS.names() if name not in own and name not in PRESETS]
    return [*own, *PRESETS, *foreign, "optuna:NAME"]


def sampler_class(name: str) -> type[Sampler]:
    """Find the class behind a name; its ``Options`` describe what can be set.

    Raises
    ------
    UserError
        Unknown name, or a plug-in that cannot be loaded.
    """
    if name in PRESETS:
        return sampler_class(PRESETS[name][0])
    cls: type[Sampler] = import_place(_OPTUNA) if name.startswith("optuna:") else _SAMPLERS.load(name, sampler_names())
    return cls


def make_sampler(name: str, options: Mapping[str, Any] | None = None, prior: PriorMean | None = None) -> Sampler:
    """Make a sampler from its name and options.

    Parameters
    ----------
    name : str
        One of :func:`sampler_names`.
    options : mapping, optional
        By option name; texts are converted, so that ``NAME=VALUE`` of a command line can be handed on.

    Raises
    ------
    UserError
        Unknown name or option, or a value out of bounds.
    """
    cls = sampler_class(name)
    preset: dict[str, Any] = dict(PRESETS[name][1]) if name in PRESETS else {}
    if name.startswith("optuna:"):
        preset["sampler"] = name.removeprefix("optuna:")
    return cls(parse_options(cls.Options, {**preset, **(options or {})}, f"sampler {name}"), prior=prior)


def sampler_rng(seed: int, number: int) -> np.random.Generator:
    """Give the random numbers for the trial of a number: counter-based, so no state has to be kept.

    Parameters
    ----------
    seed : int
        The experiment's.
    number : int
        Of the (first) trial asked for.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))


_ROUNDS = 6
_MOST_LISTED = 20_000_000


class Seen:
    """The configurations of a history, and those chosen since.

    Parameters
    ----------
    levels : ndarray, shape (n, d)
        As they ran: what the search has found to do nothing since then folds here.
    """

    def __init__(self, space: Space, levels: Levels) -> None:
        self.space = space
        self._rows: dict[bytes, Levels] = {}
        self.add(space.fold(levels) if len(levels) else levels)

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
        """Remember more rows, folded."""
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
