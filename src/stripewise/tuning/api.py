"""The tuner as a Python function, over any callable."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import ValidationError

from stripewise.errors import UserError
from stripewise.runner.function import FunctionRunner
from stripewise.search.registry import make_sampler
from stripewise.spec.configuration import Configuration, Value
from stripewise.spec.documents import explain_validation
from stripewise.spec.experiment import Experiment
from stripewise.spec.expression import Expression
from stripewise.spec.objective import Objective
from stripewise.spec.parameter import Kind, Parameter, Scale
from stripewise.spec.space import Space
from stripewise.spec.stack import load_stack
from stripewise.spec.trial import Trial
from stripewise.store.opening import open_store
from stripewise.tuning.events import Listener, silent
from stripewise.tuning.session import Session


@runtime_checkable
class Computable(Protocol):
    """An object whose ``compute`` takes the values of a configuration, in the space's order, and gives a number."""

    def compute(self, values: list[Value]) -> float:
        """Measure a configuration."""


@dataclass(frozen=True)
class Tuned:
    """What a search in Python has found.

    Attributes
    ----------
    best : dict
        The best configuration proven; the default if no gain was proven.
    value, default : float or None
        Median values of the best and of the default; None where no run of them has a value.
    speedup, speedup_ci95 : float, tuple of float or None
        Of best over default.
    confirmed : bool
        Whether the gain was proven by interleaved runs.
    verdict : str
        The same in a sentence.
    experiment : str
        Identifier in the store.
    trials : tuple of Trial
        All that was tried.
    result : dict
        Everything, as ``stripewise tune --json`` prints it.
    """

    best: dict[str, Value]
    value: float | None
    default: float | None
    speedup: float
    speedup_ci95: tuple[float, float] | None
    confirmed: bool
    verdict: str
    experiment: str
    trials: tuple[Trial, ...] = field(repr=False)
    result: dict[str, Any] = field(repr=False)


def tune(
    objective: Callable[[Configuration], float] | Computable,
    space: Space | Mapping[str, Sequence[Value]] | str,
    *,
    budget: int = 40,
    direction: Literal["minimize", "maximize"] = "minimize",
    default: Mapping[str, Value] | None = None,
    constraints: Sequence[str] = (),
    sampler: str = "auto",
    sampler_options: Mapping[str, Any] | None = None,
    pairs: int | None = None,
    warmup: int = 0,
    seed: int = 0,
    unit: str = "",
    name: str = "function",
    store: str | None = None,
    resume: str | None = None,
    listener: Listener = silent,
) -> Tuned:
    """Find the configuration for which a function is best, and prove the gain over the default.

    Parameters
    ----------
    objective : callable or object with ``compute``
        A callable gets a mapping from parameter name to value; ``compute`` gets the values in the space's order.
    space : Space, mapping or str
        A space, a mapping from parameter name to its values (numbers ascending; the first is the default unless
        ``default`` says otherwise), or a stack's name or file.
    budget : int
        Calls in all, those of the confirmation included.
    direction : {"minimize", "maximize"}
    default : mapping, optional
        Default values by name, for a space given as a mapping.
    constraints : sequence of str
        Expressions that must hold, for a space given as a mapping.
    sampler, sampler_options : str, mapping
        See :func:`stripewise.search.registry.sampler_names`.
    pairs : int, optional
        Most pairs of calls in the confirmation; 0 for none, as suits a function without noise.
    warmup : int
        Calls of the default that are discarded.
    seed : int
    unit, name : str
        For reports.
    store : str, optional
        Where to keep the experiment; in memory if left out. ``stripewise list`` shows what is in a store.
    resume : str, optional
        Identifier of an interrupted experiment in the store, to continue: its budget, sampler and seed stay.
    listener : callable
        Is told what happens.

    Raises
    ------
    UserError
        If the space or an option is wrong.
    NothingWorks
        If the function fails with the default configuration.

    Examples
    --------
    >>> found = tune(lambda c: (c["x"] - 3) ** 2 + 1, {"x": range(10)}, budget=12, pairs=0)
    >>> found.result["candidate"]["configuration"]
    {'x': 3}
    """
    bound = _space(space, default or {}, constraints)
    call = _callable(objective, bound)
    if direction not in ("minimize", "maximize"):
        raise UserError(f"direction '{direction}' is unknown", "use minimize or maximize")
    make_sampler(sampler, dict(sampler_options or {}))
    fields = {
        "name": name,
        "runner": "function",
        "budget": budget,
        "sampler": sampler,
        "sampler_options": dict(sampler_options or {}),
        "seed": seed,
        "warmup": warmup,
        "confirmation": {"pairs": pairs},
    }
    try:
        experiment = Experiment.model_validate(fields)
    except ValidationError as error:
        raise explain_validation(error, "tune") from error
    if resume is not None and store is None:
        raise UserError(f"experiment {resume} is in no store", "give the store that it was begun in")
    with open_store(store if store is not None else "sqlite:///:memory:") as opened:
        identifier = opened.create(experiment) if resume is None else opened.record(resume).id
        runner = FunctionRunner(call, bound, Objective("value", direction, unit))
        owner = f"python@{socket.gethostname()}:{os.getpid()}"
        result = Session(opened, identifier, runner, owner, listener).run()
        trials = opened.trials(identifier)
    ends = result.speedup_interval
    return Tuned(
        best=result.best.configuration,
        value=result.best.value,
        default=result.default.value,
        speedup=result.speedup,
        speedup_ci95=None if ends is None else (ends.low, ends.high),
        confirmed=result.confirmed,
        verdict=result.verdict,
        trials=trials,
        experiment=identifier,
        result=result.as_json(),
    )


def _callable(
    objective: Callable[[Configuration], float] | Computable, space: Space
) -> Callable[[Configuration], float]:
    if isinstance(objective, Computable):
        computable = objective
        return lambda configuration: computable.compute([configuration[name] for name in space.names])
    if not callable(objective):
        raise UserError(
            f"{type(objective).__name__} can be neither called nor computed",
            "give a function, or an object with .compute",
        )
    return objective


def _space(
    space: Space | Mapping[str, Sequence[Value]] | str, default: Mapping[str, Value], constraints: Sequence[str]
) -> Space:
    if isinstance(space, Space):
        return space
    if isinstance(space, str):
        stack = load_stack(space)
        return Space.bind(stack.parameters, stack.constraints, stack.derived, {}, stack.knowledge)
    if not space:
        raise UserError("the space has no parameters", "give a mapping from parameter name to its values")
    unknown = default.keys() - space.keys()
    if unknown:
        raise UserError(
            f"default names {sorted(unknown)[0]}, which is not a parameter", f"parameters: {', '.join(space)}"
        )
    parameters = [_parameter(name, values, default) for name, values in space.items()]
    texts = [constraints] if isinstance(constraints, str) else constraints
    return Space.bind(parameters, [Expression.parse(text) for text in texts])


def _parameter(name: str, values: Sequence[Value], default: Mapping[str, Value]) -> Parameter:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(f"parameter {name} has {values!r} in place of its values", "give a list of them")
    listed = values if isinstance(values, range) else tuple(_plain(name, value) for value in values)
    if len(listed) == 0:
        raise UserError(f"parameter {name} has no values", "list at least one")
    first = _plain(name, default.get(name, listed[0]))
    if set(listed) == {False, True} and all(isinstance(value, bool) for value in listed):
        return Parameter(name, Kind.BOOLEAN, (False, True), first)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in listed):
        ordered = listed if isinstance(listed, range) and listed.step > 0 else tuple(sorted(listed, key=float))
        return Parameter(name, Kind.ORDINAL, ordered, first, scale=_scale([float(v) for v in ordered]))
    return Parameter(name, Kind.CATEGORICAL, listed, first)


def _plain(name: str, value: Any) -> Value:
    """A value as the store keeps it: arrays have number types of their own."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, bool | int | float | str) or (isinstance(plain, float) and not math.isfinite(plain)):
        raise UserError(f"parameter {name}: {value!r} is not a value", "use numbers, texts, True and False")
    return plain


def _scale(values: list[float]) -> Scale:
    """Values that grow by factors lie on a log axis: 1, 2, 4, 8 are evenly spaced there."""
    if len(values) < 3 or values[0] <= 0:
        return Scale.LINEAR
    return (
        Scale.LOG2
        if values[-1] / values[0] >= 8 and values[1] - values[0] < (values[-1] - values[-2]) / 2
        else Scale.LINEAR
    )
