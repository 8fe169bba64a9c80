"""Simulated annealing: a walk that accepts worse steps less and less often (Kirkpatrick et al., Science 220, 1983)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from stripewise.catalogue.space import Levels, Space
from stripewise.search.base import Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.belief.costs import Costs
from stripewise.search.belief.kernel import neighbours
from stripewise.search.samplers.initial import Plan, complete
from stripewise.trial import History

_TAG = re.compile(r"(step|jump) (\d+) temperature (\S+) draw (\S+)")
_TRIES = 64
_FACTORS = {"exponential": 0.95, "logarithmic": 1.0, "multiplicative": 0.1}


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
    cooling: Literal["exponential", "logarithmic", "multiplicative"] = Field(
        default="exponential", description="after k steps: T * f^k, T / (1 + f * log(1 + k)), or T / (1 + f * k)"
    )
    cooling_factor: float | None = Field(
        default=None, ge=0, le=1000, description="f; 0.95 for exponential, 1 for logarithmic, 0.1 for multiplicative"
    )
    restart: Literal["none", "random", "threshold"] = Field(
        default="none",
        description="heat up again at random, or when a typical worse step has hardly any chance to be accepted",
    )
    restart_probability: float = Field(default=0.05, ge=0, le=1, description="random: at each step")
    restart_threshold: float = Field(default=0.01, ge=0, le=1, description="threshold: the chance that is too little")
    restart_from: Literal["random", "best", "current"] = Field(default="random", description="where to go on from")

    @model_validator(mode="after")
    def _cools(self) -> AnnealingOptions:
        if self.cooling == "exponential" and self.factor > 1:
            raise ValueError("cooling_factor of exponential cooling must be at most 1")
        return self

    @property
    def factor(self) -> float:
        """The factor that holds."""
        return _FACTORS[self.cooling] if self.cooling_factor is None else self.cooling_factor

    def cooled(self, step: int) -> float:
        """The temperature after a number of steps."""
        if self.cooling == "exponential":
            return self.temperature * self.factor**step
        slowed = np.log1p(step) if self.cooling == "logarithmic" else step
        return float(self.temperature / (1 + self.factor * slowed))


@dataclass
class _Walk:
    """Where the walk stands; ``at`` is None before any value is known, ``worse`` holds by how much worse steps were."""

    at: Levels | None = None
    cost: float = np.inf
    best: Levels | None = None
    least: float = np.inf
    next_step: int = 0
    worse: list[float] = field(default_factory=list)

    def consider(self, row: Levels, cost: float, limit: float) -> None:
        """Move to a configuration unless it is worse by more than ``limit``."""
        if cost <= self.cost + limit:
            self.at, self.cost = row, cost
        if cost < self.least:
            self.best, self.least = row, cost


class AnnealingSampler(Sampler):
    """Walks from neighbour to neighbour (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983).

    1. Try the points of an initial plan, and start at the best.
    2. Try a random neighbour (:func:`stripewise.search.belief.kernel.neighbours`).
    3. Move there if its cost is lower, or else with probability ``exp(-difference / temperature)`` (Metropolis et al.,
       J. Chem. Phys. 21, 1953).
    4. Lower the temperature, or start again with the first one if the rule of restarts says so, and return to step 2.

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
                point = complete(self.options.plan, space, seen, rng, size=self.options.initial, n=1)
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
                walk.next_step = int(note[2]) + 1
            if np.isnan(cost):
                continue
            if note is None:
                walk.consider(row, float(cost), 0.0)
            elif note[1] == "jump":
                walk.consider(row, float(cost), np.inf)
            else:
                if cost > walk.cost:
                    walk.worse.append(float(cost) - walk.cost)
                walk.consider(row, float(cost), -float(note[3]) * float(np.log(float(note[4]))))
        return walk

    def _move(self, space: Space, seen: Seen, walk: _Walk, rng: np.random.Generator) -> tuple[Levels, str]:
        """The next step of the walk and its tag."""
        assert walk.at is not None and walk.best is not None
        origin, word = walk.at, "step"
        if self._restarts(walk, rng):
            walk.next_step = 0
            origin = walk.best if self.options.restart_from == "best" else walk.at
            word = "step" if self.options.restart_from == "current" else "jump"
        temperature, draw = self.options.cooled(walk.next_step), 1.0 - rng.random()
        tag = f"{word} {walk.next_step} temperature {temperature:.9g} draw {draw:.9g}"
        walk.next_step += 1
        near = np.empty((0, len(origin)), dtype=np.int64)
        if word == "step" or self.options.restart_from == "best":
            near = seen.new(neighbours(space, origin, rng, _TRIES))
        return (near[:1] if len(near) else seen.draw(rng, 1)), tag

    def _restarts(self, walk: _Walk, rng: np.random.Generator) -> bool:
        if walk.next_step == 0 or self.options.restart == "none":
            return False
        if self.options.restart == "random":
            return bool(rng.random() < self.options.restart_probability)
        if not walk.worse or self.options.temperature == 0:
            return False
        now, hot = (
            float(np.exp(-np.median(walk.worse) / max(temperature, 1e-12)))
            for temperature in (self.options.cooled(walk.next_step), self.options.temperature)
        )
        # Where even the first temperature is too cold, heating up would never end.
        return now < self.options.restart_threshold <= hot
