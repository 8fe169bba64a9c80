"""The searches of the studies: simulated annealing and a genetic algorithm.

Annealing is a walk that accepts worse steps less and less often (Kirkpatrick et al., Science 220, 1983). In the genetic
algorithm, each generation is bred from the fittest of the one before; it follows Bagbaba and Wang (iWAPT 2021) and
Robert, Zertal and Goret (SITA 2020), whose settings are the presets ``io-search`` and ``shaman``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.catalogue.space import Levels, Space
from stripewise.search.base import Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.belief.costs import Costs, Floats
from stripewise.search.belief.kernel import neighbours
from stripewise.search.samplers.initial import Plan, complete_plan
from stripewise.trial import History

_TAG = re.compile(r"step (\d+) temperature (\S+) draw (\S+)")
_TRIES = 64


class AnnealingOptions(SamplerOptions):
    """Options of ``annealing``."""

    initial: int = Field(default=4, ge=1, le=10_000, description="points tried first; the walk starts at the best")
    plan: Plan = Field(default="latin_hypercube", description="how the first points are spread")
    temperature: float = Field(
        default=0.3,
        ge=0,
        le=100,
        description="at first; 0.3 accepts a step that is 35% slower about once in three times",
    )
    cooling_factor: float = Field(default=0.95, ge=0, le=1, description="f; after k steps the temperature is T * f^k")


@dataclass
class _Walk:
    """Where the walk stands; ``at`` is None before any value is known."""

    at: Levels | None = None
    cost: float = np.inf
    next_step: int = 0

    def consider(self, row: Levels, cost: float, limit: float) -> None:
        """Move to a configuration unless it is worse by more than ``limit``."""
        if cost <= self.cost + limit:
            self.at, self.cost = row, cost


class AnnealingSampler(Sampler):
    """Walks from neighbour to neighbour (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983).

    1. Try the points of an initial plan, and start at the best.
    2. Try a random neighbour (:func:`stripewise.search.belief.kernel.neighbours`).
    3. Move there if its cost is lower, or else with probability ``exp(-difference / temperature)`` (Metropolis et al.,
       J. Chem. Phys. 21, 1953).
    4. Lower the temperature, and return to step 2.

    A tag holds a trial's step, its temperature and the random number that decides on a worse result, so that the walk
    can be replayed from any history. Simultaneous runs try different neighbours of one place.
    """

    name: ClassVar[str] = "annealing"
    Options: ClassVar[type[SamplerOptions]] = AnnealingOptions
    options: AnnealingOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        walk = self._follow(space, history)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            tag = ""
            if len(seen) < self.options.initial:
                point = complete_plan(self.options.plan, space, seen, rng, size=self.options.initial, n=1)
            elif walk.at is None:
                point = seen.draw(rng, 1)
            else:
                point, tag = self._move(space, seen, walk, rng)
            if len(point) == 0:
                break
            seen.add(point)
            suggestions += suggest(space, point, tag)
        return suggestions

    def _follow(self, space: Space, history: History) -> _Walk:
        """Replay the walk: tags and costs fix every decision."""
        walk = _Walk()
        levels = space.levels([trial.configuration for trial in history.trials])
        for trial, row, cost in zip(history.trials, levels, Costs.of(history).known, strict=True):
            note = _TAG.fullmatch(trial.tag)
            if note:
                walk.next_step = int(note[1]) + 1
            if not np.isnan(cost):
                walk.consider(row, float(cost), -float(note[2]) * float(np.log(float(note[3]))) if note else 0.0)
        return walk

    def _move(self, space: Space, seen: Seen, walk: _Walk, rng: np.random.Generator) -> tuple[Levels, str]:
        """The next step of the walk and its tag."""
        assert walk.at is not None
        temperature, draw = self.options.temperature * self.options.cooling_factor**walk.next_step, 1.0 - rng.random()
        tag = f"step {walk.next_step} temperature {temperature:.9g} draw {draw:.9g}"
        walk.next_step += 1
        near = seen.new(neighbours(space, walk.at, rng, _TRIES))
        return (near[:1] if len(near) else seen.draw(rng, 1)), tag


_GENETIC_TAG = re.compile(r"generation (\d+)")
_BIRTHS = 16


class GeneticOptions(SamplerOptions):
    """Options of ``genetic``, ``io-search`` and ``shaman``."""

    population: int = Field(default=10, ge=1, le=10_000, description="children of a generation")
    generations: int = Field(default=30, ge=0, le=1_000_000, description="generations bred after the first population")
    initial: int | None = Field(default=None, ge=1, le=10_000, description="size of the first population, if another")
    plan: Plan = Field(default="latin_hypercube", description="how the first population is spread")
    parents: Literal["generation", "all"] = Field(
        default="generation", description="parents come from the generation before, or from all that was tried"
    )
    elitism: int = Field(default=1, ge=0, le=10_000, description="best of earlier generations that stay parents")
    selection: Literal["tournament", "probabilistic"] = Field(
        default="tournament", description="the best of a few, or at random in proportion to performance"
    )
    tournament_size: int = Field(default=3, ge=1, le=10_000, description="contestants of a tournament")
    crossover: Literal["single", "double"] = Field(default="single", description="points at which parents are cut")
    mutation_rate: float = Field(default=0.15, ge=0, le=1, description="chance of each value to be redrawn")


class GeneticSampler(Sampler):
    """Breeds generations, after Holland, Adaptation in Natural and Artificial Systems, 1975.

    1. The first population is a plan. Trials of other origin (the default, an earlier experiment) count as part of it.
    2. Parents are the trials of the generation before, and the elite of all earlier ones (or all trials).
    3. Each child has two parents, chosen by tournament or in proportion to performance. Their values are crossed at one
       or two points, and each value is redrawn with the probability of a mutation.
    4. Of several such children the first that is new is tried; if all are known, a random configuration.

    The tag of a trial is its generation. A generation starts as soon as all of the one before has been asked for, even
    while some of that is still running: runners never wait.
    """

    name: ClassVar[str] = "genetic"
    Options: ClassVar[type[SamplerOptions]] = GeneticOptions
    options: GeneticOptions

    @classmethod
    def generation(cls, tag: str) -> int | None:
        """See :meth:`stripewise.search.base.Sampler.generation`."""
        match = _GENETIC_TAG.fullmatch(tag)
        return int(match[1]) if match else None

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        levels = space.levels([trial.configuration for trial in history.trials])
        cost = Costs.of(history).known
        generations = np.array([self.generation(trial.tag) or 0 for trial in history.trials], dtype=np.int64)
        current = int(generations.max(initial=0))
        asked = int(np.sum(generations == current))
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            if asked >= self._size(current):
                current, asked = current + 1, 0
            if current > self.options.generations:
                break
            pool = self._pool(cost, generations, current)
            if current == 0:
                child = complete_plan(self.options.plan, space, seen, rng, size=self._size(0), n=1)
            elif len(pool) == 0:
                child = seen.draw(rng, 1)
            else:
                child = self._breed(space, seen, levels[pool], cost[pool], rng)
            if len(child) == 0:
                break
            seen.add(child)
            suggestions += suggest(space, child, f"generation {current}")
            asked += 1
        return suggestions

    def _size(self, generation: int) -> int:
        first = self.options.initial if self.options.initial is not None else self.options.population
        return first if generation == 0 else self.options.population

    def _pool(self, cost: Floats, generations: NDArray[np.int64], current: int) -> NDArray[np.int64]:
        """Indices of the trials that may become parents: those with a cost, of the generation before or elite."""
        able = np.flatnonzero(~np.isnan(cost) & (generations < current))
        young = able[generations[able] == current - 1]
        if self.options.parents == "all" or len(young) == 0:
            return able
        elite = able[np.argsort(cost[able], kind="stable")[: self.options.elitism]]
        return np.union1d(young, elite)

    def _breed(self, space: Space, seen: Seen, parents: Levels, cost: Floats, rng: np.random.Generator) -> Levels:
        """One child that is new, shape ``(1, d)``; a random newcomer if all births repeat what is known."""
        births = []
        for _ in range(_BIRTHS):
            mother = self._select(cost, rng)
            father = self._select(np.where(np.arange(len(cost)) == mother, np.inf, cost), rng)
            births.append(self._mutate(space, self._cross(parents[mother], parents[father], rng), rng))
        children = seen.new(np.stack(births))
        return children[:1] if len(children) else seen.draw(rng, 1)

    def _select(self, cost: Floats, rng: np.random.Generator) -> int:
        able = np.flatnonzero(np.isfinite(cost))
        if len(able) == 0:
            return 0
        if self.options.selection == "tournament":
            contestants = rng.choice(able, size=min(self.options.tournament_size, len(able)), replace=False)
            return int(contestants[np.argmin(cost[contestants])])
        # The exponential of a negative logarithmic cost is the performance itself: bandwidth, or one over the time.
        fitness = np.exp(cost[able].min() - cost[able])
        return int(rng.choice(able, p=fitness / fitness.sum()))

    def _cross(self, mother: Levels, father: Levels, rng: np.random.Generator) -> Levels:
        place = np.arange(len(mother))
        if self.options.crossover == "single":
            from_father = place >= rng.integers(len(mother) + 1)
        else:
            first, second = np.sort(rng.integers(len(mother) + 1, size=2))
            from_father = (place >= first) & (place < second)
        return np.where(from_father, father, mother)

    def _mutate(self, space: Space, child: Levels, rng: np.random.Generator) -> Levels:
        shape = np.asarray(space.shape)
        other = (child + rng.integers(1, np.maximum(shape, 2))) % shape
        return np.where(rng.random(len(child)) < self.options.mutation_rate, other, child)
