"""Searches of simulated experiments with the tuning loop, and what each of their configurations is truly worth.

The loop is that of ``stripewise tune FILE``, called without a store on disk. The true value of a configuration is
that of a run without noise on the same site.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.runner.registry import make_runner
from stripewise.spec.configuration import Configuration
from stripewise.spec.experiment import Experiment
from stripewise.spec.launch import Launch
from stripewise.spec.plan import Plan, settings_of
from stripewise.spec.space import Space
from stripewise.spec.trial import Phase, Role
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.tuning.session import Session
from stripewise.tuning.space import bind_space


def space_of(asked: Mapping[str, Any]) -> Space:
    """The space of an experiment on a simulated Lustre site with ROMIO."""
    experiment = Experiment.model_validate(asked)
    runner = make_runner(experiment, Path(tempfile.gettempdir()))
    workload = runner.prepare().workload or experiment.workload
    return bind_space(experiment, workload, "romio").space


class Truth:
    """Values of configurations without noise.

    Parameters
    ----------
    asked : mapping
        An experiment on a simulated site.
    """

    def __init__(self, asked: Mapping[str, Any]) -> None:
        quiet = Experiment.model_validate({**asked, "runner": f"{asked['runner']}@noise.enabled=false"})
        self.space = space_of(asked)
        self._metric = quiet.objective.build().name
        self._runner = make_runner(quiet, Path(tempfile.gettempdir()))
        self._runner.prepare()
        self._known: dict[Configuration, float] = {}

    def of(self, configuration: Mapping[str, Any]) -> float:
        """Value of a configuration; of a trial that sets nothing: of the default."""
        whole = self.space.canonical({**self.space.default, **configuration})
        if whole not in self._known:
            number = len(self._known) + 1
            plan = Plan(settings_of(self.space, whole), "truth")
            self._runner.start(Launch("truth", number, whole, plan, Phase.SEARCH, timeout=1e9))
            (outcome,) = self._runner.poll(0.0)
            self._known[whole] = float(outcome.metrics[self._metric])
        return self._known[whole]

    def all(self) -> list[float]:
        """Values of every configuration of the space: what exhaustive search would find."""
        return [self.of(self.space.configuration(row)) for row in self.space.enumerate()]


@dataclass(frozen=True)
class Trace:
    """A search.

    Attributes
    ----------
    values : list of float
        True value of each run's configuration, the default's first.
    final : float
        True value of what the search would use at its end.
    seconds : float
        Simulated seconds of the runs.
    """

    values: list[float]
    final: float
    seconds: float

    def runs_until(self, goal: float) -> int | None:
        """The first run (from 1) whose configuration is truly that good; None if none is."""
        return next((number for number, value in enumerate(self.values, 1) if value >= goal), None)


def search(asked: Mapping[str, Any], truth: Truth) -> Trace:
    """Run an experiment and look at it with the eyes of one who knows the truth."""
    experiment = Experiment.model_validate(asked)
    store = open_store(MEMORY)
    try:
        identifier = store.create(experiment)
        runner = make_runner(experiment, Path(tempfile.gettempdir()))
        result = Session(store, identifier, runner, "study").run()
        trials = store.trials(identifier)
    finally:
        store.close()
    searched = sorted(
        (run.number, trial, run)
        for trial in trials
        if trial.role in (Role.CANDIDATE, Role.DEFAULT)
        for run in trial.runs
        if run.phase is Phase.SEARCH
    )
    chosen = (result["candidate"] or result["best"])["configuration"]
    return Trace(
        [truth.of(trial.configuration) for _, trial, _ in searched],
        truth.of(chosen),
        math.fsum(run.elapsed or 0.0 for _, _, run in searched),
    )
