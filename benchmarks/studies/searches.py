"""Searches as the tuning loop runs them, and what each of their configurations is truly worth.

Who plays is :class:`stripewise.engine.race.Search`: one of the samplers in the planner that ``tune`` uses. What the
loop adds to that (a store, warm-up, a confirmation, an analysis of what mattered) takes longer than a simulated run and
changes no choice, so it is left out here.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.model_prior import ModelPrior
from stripewise.engine.race import Search, moves
from stripewise.engine.space import Circumstances, bind_space
from stripewise.launch import Launch, Outcome
from stripewise.models.registry import load_model
from stripewise.observe.objectives import objective_of
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.registry import make_runner
from stripewise.search.base import make_sampler
from stripewise.trial import Phase


def space_of(asked: Mapping[str, Any]) -> tuple[Space, Workload]:
    """The space and the workload of an experiment on a simulated Lustre site with ROMIO."""
    experiment = Experiment.model_validate(asked)
    runner = make_runner(experiment, Path(tempfile.gettempdir()))
    workload = runner.prepare().workload or experiment.workload
    return bind_space(experiment, Circumstances(workload, "romio")).space, workload


class Simulated:
    """Runs of a simulated experiment, noisy or not.

    Parameters
    ----------
    asked : mapping
        The experiment.
    quiet : bool
        Without noise.
    """

    def __init__(self, asked: Mapping[str, Any], *, quiet: bool) -> None:
        self.space, self.workload = space_of(asked)
        runner = asked["runner"]
        if quiet:
            runner += f"{',' if '@' in runner else '@'}noise.enabled=false"
        experiment = Experiment.model_validate({**asked, "runner": runner})
        self.objective = objective_of(experiment.objective)
        self._runner = make_runner(experiment, Path(tempfile.gettempdir()))
        self._runner.prepare()
        self._number = 0

    def run(self, configuration: Mapping[str, Any]) -> Outcome:
        """Run a configuration once more; what it leaves out is at its default."""
        self._number += 1
        whole = self.space.canonical({**self.space.default, **configuration})
        plan = Plan(settings_of(self.space, whole), "study")
        self._runner.start(Launch("study", self._number, whole, plan, Phase.SEARCH, timeout=1e9))
        (outcome,) = self._runner.poll(0.0)
        return outcome

    def value(self, configuration: Mapping[str, Any]) -> float:
        """The objective of one run."""
        return float(self.run(configuration).metrics[self.objective.name])


class Truth:
    """Values of configurations without noise.

    Parameters
    ----------
    asked : mapping
        An experiment on a simulated site.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._quiet = Simulated(asked, quiet=True)
        self.space = self._quiet.space
        self._known: dict[Configuration, float] = {}

    def of(self, configuration: Mapping[str, Any]) -> float:
        """Value of a configuration; of an empty one: of the default."""
        whole = self.space.canonical({**self.space.default, **configuration})
        if whole not in self._known:
            self._known[whole] = self._quiet.value(whole)
        return self._known[whole]

    def all(self) -> list[float]:
        """Values of every configuration of the space: what exhaustive search would find."""
        return [self.of(configuration) for configuration in self._every()]

    def best(self) -> Configuration:
        """The best configuration of the space."""
        return max(self._every(), key=self.of)

    def _every(self) -> list[Configuration]:
        return [self.space.configuration(row) for row in self.space.enumerate()]


@dataclass(frozen=True)
class Trace:
    """A search.

    Attributes
    ----------
    values : list of float
        True value of each run's configuration.
    seen : list of float
        What the search saw of it.
    chosen : Configuration
        What the search would use at its end.
    final : float
        Its true value.
    seconds : float
        Of all runs; 0 where runs have no time.
    """

    values: list[float]
    seen: list[float]
    chosen: Configuration
    final: float
    seconds: float = 0.0

    def runs_until(self, goal: float) -> int | None:
        """The first run (from 1) whose configuration truly has a value so large; None if none has."""
        return next((number for number, value in enumerate(self.values, 1) if value >= goal), None)


def play(
    space: Space,
    objective: Objective,
    run: Callable[[Configuration], float],
    truth: Callable[[Configuration], float],
    *,
    sampler: str,
    runs: int,
    seed: int,
    model: ModelPrior | None = None,
) -> Trace:
    """Search a space with a number of runs.

    Parameters
    ----------
    run, truth : callable
        Value of a run, and without noise.
    model : ModelPrior, optional
        What is expected before the first run.
    """
    made = make_sampler(sampler, None, model)
    racer, values, seen = Search(space, objective, made, seed), [], []
    for configuration, value, _ in moves(racer, run, space.default, runs):
        seen.append(value)
        values.append(truth(configuration))
    chosen = racer.incumbent()
    return Trace(values, seen, chosen, truth(chosen))


def search(asked: Mapping[str, Any], truth: Truth) -> Trace:
    """Search as an experiment asks; look at it with the eyes of one who knows the truth."""
    noisy = Simulated(asked, quiet=False)
    elapsed: list[float] = []

    def run(configuration: Configuration) -> float:
        outcome = noisy.run(configuration)
        elapsed.append(float(outcome.metrics["elapsed"]))
        return float(outcome.metrics[noisy.objective.name])

    prior = None if asked.get("model") is None else ModelPrior(load_model(asked["model"]), noisy.workload)
    found = play(
        noisy.space, noisy.objective, run, truth.of, sampler=asked.get("sampler", "auto"), runs=asked["budget"]["runs"],
        seed=asked.get("seed", 0), model=prior,
    )  # fmt: skip
    return Trace(found.values, found.seen, found.chosen, found.final, math.fsum(elapsed))
