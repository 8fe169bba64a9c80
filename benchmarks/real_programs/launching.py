"""Launch a program with chosen settings in interleaved rounds, and carry out whole experiments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.space import Space
from stripewise.engine.session import Session
from stripewise.errors import RunFailed
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import measure, objective_of
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.result import Result
from stripewise.runners.base import Runner
from stripewise.runners.registry import make_runner
from stripewise.store.opening import open_store
from stripewise.trial import Phase, State, Trial

TIMEOUT = 120.0
"""Seconds after which a run counts as hung."""


def carry_out(
    experiment: Experiment, store_url: str, folder: Path, runner: Runner | None = None
) -> tuple[Result, tuple[Trial, ...]]:
    """Carry out an experiment as `stripewise tune` does; by default with the runner that it names."""
    store = open_store(store_url)
    try:
        identifier = store.create(experiment)
        runner = runner or make_runner(experiment, folder / identifier)
        result = Session(store, identifier, runner, "benchmark").run()
        return result, store.trials(identifier)
    finally:
        store.close()


def launch(runner: Runner, experiment: Experiment, space: Space, configuration: Configuration, number: int) -> Outcome:
    """Run the program once with a configuration; the default sets nothing."""
    settings = () if configuration == space.default else settings_of(space, configuration)
    plan = Plan(settings, f"interleaved.{number}", override=experiment.override)
    runner.start(Launch("interleaved", number, configuration, plan, Phase.CONFIRMATION, timeout=TIMEOUT))
    while True:
        for outcome in runner.poll(TIMEOUT):
            return outcome


def interleaved(
    experiment: Experiment,
    space: Space,
    arms: Mapping[str, Configuration],
    rounds: int,
    folder: Path,
    *,
    control: int = 0,
    seed: int = 1,
) -> Iterator[tuple[str, Outcome, float | None]]:
    """Run each arm once a round, in random order.

    Parameters
    ----------
    control : int
        Run the arm ``default`` again after this many runs; 0 for never.

    Yields
    ------
    tuple of (str, Outcome, float or None)
        The arm, its outcome, and the objective's value; None where the run failed.
    """
    objective = objective_of(experiment.objective)
    rng = np.random.default_rng(seed)
    number = 0
    with make_runner(experiment, folder) as runner:
        runner.prepare()
        for _ in range(rounds):
            order: list[str] = []
            for place, name in enumerate(rng.permutation(list(arms)), 1):
                order += [str(name), "default"] if control and place % control == 0 else [str(name)]
            for name in order:
                outcome = launch(runner, experiment, space, arms[name], number)
                number += 1
                yield name, outcome, _value(objective, outcome)


def _value(objective: Objective, outcome: Outcome) -> float | None:
    if outcome.state is not State.FINISHED:
        return None
    try:
        return measure(objective, outcome)
    except RunFailed:
        return None
