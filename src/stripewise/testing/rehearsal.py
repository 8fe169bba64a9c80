"""A small world in which searches are rehearsed: spaces of every shape, and what becomes of the runs in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.observe.objectives import parse_objective
from stripewise.requests.objective import Objective
from stripewise.search.base import Sampler, Suggestion
from stripewise.search.registry import sampler_rng
from stripewise.trial import History, Phase, Role, Run, State, Trial

MAXIMIZE = parse_objective("bandwidth")
MINIMIZE = parse_objective("elapsed")

Fate = Callable[[Space, Configuration], Sequence[tuple[State, float | None]]]
"""What becomes of the runs of a configuration: their states and values."""


def smooth_value(space: Space, configuration: Configuration) -> float:
    """A positive objective with one peak, a little rough, the same for each configuration at every call."""
    levels = space.levels([configuration])[0]
    places = [level / max(1, size - 1) for level, size in zip(levels, space.shape, strict=True)]
    height = sum((place - 0.7) ** 2 for place in places)
    return float(100.0 * np.exp(-height) * (1 + 0.05 * _chance(configuration)))


def all_finish(space: Space, configuration: Configuration) -> Sequence[tuple[State, float | None]]:
    """Every run ends well."""
    return [(State.FINISHED, smooth_value(space, configuration))]


def all_fail(space: Space, configuration: Configuration) -> Sequence[tuple[State, float | None]]:
    """Every run fails."""
    return [(State.FAILED, None)]


def mixed(space: Space, configuration: Configuration) -> Sequence[tuple[State, float | None]]:
    """Some configurations fail, some are pruned, some are run twice, some work only every other time."""
    value = smooth_value(space, configuration)
    fates: list[Sequence[tuple[State, float | None]]] = [
        [(State.FAILED, None)],
        [(State.PRUNED, value)],
        [(State.FINISHED, value), (State.FINISHED, value * 1.1)],
        [(State.FINISHED, value), (State.FAILED, None)],
        [(State.FINISHED, value), (State.RUNNING, None)],
    ]
    place = int(_chance(configuration) * 10)
    return fates[place] if place < len(fates) else [(State.FINISHED, value)]


def sample_spaces() -> dict[str, Space]:
    """Spaces of every shape that a sampler has to cope with, by name."""
    number = Parameter("cb_nodes", Kind.INTEGER, range(1, 9), 4)
    size = Parameter("cb_buffer_size", Kind.ORDINAL, tuple(1 << k for k in range(20, 26)), 1 << 24, scale=Scale.LOG2)
    switch = Parameter("cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic")
    flag = Parameter("sieving", Kind.BOOLEAN, (False, True), False)
    zero = Parameter("readahead", Kind.ORDINAL, (0, 1, 2), 0)
    fixed = Parameter("hashing", Kind.CATEGORICAL, ("on",), "on")
    dependent = replace(size, active_if=Expression.parse("cb_write != 'disable'"))
    nested = replace(number, active_if=Expression.parse("cb_write != 'disable' and cb_buffer_size > 1048576"))
    wide = [Parameter(f"axis{k}", Kind.INTEGER, range(12), 3) for k in range(7)]
    return {
        "one configuration": Space.bind([fixed]),
        "two configurations": Space.bind([fixed, flag]),
        "one parameter": Space.bind([number]),
        "only categories": Space.bind([switch, replace(switch, name="cb_read"), flag]),
        "values that are zero or false": Space.bind([zero, flag]),
        "conditional": Space.bind([switch, dependent, nested, flag]),
        "constrained": Space.bind(
            [number, zero, replace(number, name="stripes")],
            constraints=[Expression.parse("cb_nodes <= stripes"), Expression.parse("readahead < 2 or stripes == 8")],
        ),
        "large": Space.bind([*wide, switch], constraints=[Expression.parse("axis0 + axis1 < 20")]),
    }


@dataclass(frozen=True)
class Question:
    """A question that was put to a sampler, with its answer."""

    history: History
    seed: int
    n: int
    answer: tuple[Suggestion, ...]


def ask(sampler: Sampler, space: Space, history: History, n: int = 1, seed: int = 0) -> tuple[Suggestion, ...]:
    """Ask as the tuning loop does, and check that the answer keeps the promises of :meth:`Sampler.ask`."""
    answer = tuple(sampler.ask(space, history, sampler_rng(seed, len(history.trials)), n))
    known = {trial.configuration for trial in history.trials}
    assert len(answer) <= n, f"{len(answer)} suggestions, asked for {n}"
    for suggestion in answer:
        configuration = suggestion.configuration
        assert isinstance(suggestion.tag, str), f"tag {suggestion.tag!r} is not text"
        assert configuration not in known, f"{configuration} was asked for before"
        known.add(configuration)
        assert space.canonical(configuration) == configuration, f"{configuration} is not folded"
    return answer


def play(
    sampler: Sampler,
    space: Space,
    *,
    trials: int,
    fate: Fate = mixed,
    batch: int = 1,
    waiting: int = 0,
    objective: Objective = MAXIMIZE,
    seed: int = 0,
) -> tuple[History, list[Question]]:
    """Search a space: the default first, then what the sampler asks for, until it has nothing more or it is enough.

    Parameters
    ----------
    sampler : Sampler
    space : Space
    trials : int
        When to stop.
    fate : callable
        What becomes of each configuration.
    batch : int
        Trials asked for at a time.
    waiting : int
        How many of the latest trials are still pending at each question.
    objective : Objective
    seed : int
    """
    done = [Trial(0, space.default, Role.DEFAULT)]
    questions: list[Question] = []
    while True:
        done = [_ended(t, space, fate) if t.number < len(done) - waiting else _pending(t) for t in done]
        history = History(objective, tuple(done))
        if len(done) >= trials:
            return history, questions
        n = min(batch, trials - len(done))
        answer = ask(sampler, space, history, n, seed)
        questions.append(Question(history, seed, n, answer))
        if not answer:
            return history, questions
        done += [Trial(len(done) + k, s.configuration, tag=s.tag) for k, s in enumerate(answer)]


def stored(history: History) -> History:
    """The history after a trip through JSON, as a store would give it back."""
    trials = []
    for trial in history.trials:
        values = json.loads(json.dumps(dict(trial.configuration)))
        trials.append(replace(trial, configuration=Configuration(values), tag=json.loads(json.dumps(trial.tag))))
    return History(history.objective, tuple(trials))


def _chance(configuration: Configuration) -> float:
    return int(configuration.key, 16) / 16**12


def _pending(trial: Trial) -> Trial:
    return replace(trial, runs=(Run(trial.number, trial.number, Phase.SEARCH),))


def _ended(trial: Trial, space: Space, fate: Fate) -> Trial:
    runs = tuple(
        Run(1000 * trial.number + k, trial.number, Phase.SEARCH, state, value, elapsed=value)
        for k, (state, value) in enumerate(fate(space, trial.configuration))
    )
    return replace(trial, runs=runs)
