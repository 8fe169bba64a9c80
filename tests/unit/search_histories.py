"""Histories written down in a line, for the tests of the search."""

from __future__ import annotations

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.observe.objectives import parse_objective
from stripewise.trial import History, Phase, Run, State, Trial

ELAPSED = parse_objective("elapsed")
BANDWIDTH = parse_objective("bandwidth")
LINE = Space.bind([Parameter("a", Kind.INTEGER, range(100), 0), Parameter("b", Kind.INTEGER, range(10), 0)])


def run(number, trial, result, phase=Phase.SEARCH):
    """A run from its result: a value, or ``failed``, ``pending``, ``running``, or ``pruned VALUE``."""
    if isinstance(result, str):
        word, _, value = result.partition(" ")
        bound = float(value) if value else None
        return Run(number, trial, phase, State(word), bound, elapsed=bound)
    return Run(number, trial, phase, State.FINISHED, float(result), elapsed=float(result))


def trial(number, *results, configuration=None, tag=""):
    runs = tuple(run(100 * number + k, number, result) for k, result in enumerate(results))
    values = configuration or {"a": number % 100, "b": number // 100}
    return Trial(number, Configuration(values), runs=runs, tag=tag)


def history(*trials, objective=ELAPSED):
    """Each trial given as the tuple of its results, or as a single one."""
    return History(objective, tuple(trial(k, *(r if isinstance(r, tuple) else (r,))) for k, r in enumerate(trials)))
