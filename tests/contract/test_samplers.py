"""Every registered sampler keeps the contract of samplers; Hypothesis looks for the space that breaks one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.search.base import Sampler, make_sampler, sampler_names
from stripewise.testing.samplers import SamplerContract
from tests.conftest import require

# Settings under which the samplers leave their first points behind within the contract's short searches.
SHORT: dict[str, dict[str, Any]] = {
    "random": {},
    "latin_hypercube": {"points": 5},
    "exhaustive": {},
    "genetic": {"population": 4},
    "io-search": {"population": 4},
    "shaman": {"initial": 4},
    "annealing": {"initial": 3},
    "surrogate": {"initial": 4, "candidates": 64, "regressor_options": {"optimizer": None}},
    "auto": {"initial": 4},
    "optuna:tpe": {"arguments": {"n_startup_trials": 4}},
    "optuna:nsgaii": {"arguments": {"population_size": 4}},
    "optuna:cmaes": {"arguments": {"n_startup_trials": 4}},
}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, options) for name, options in SHORT.items()},
    "genetic, double and probabilistic": (
        "genetic",
        {"population": 4, "crossover": "double", "selection": "probabilistic", "elitism": 0, "plan": "hybrid"},
    ),
    "surrogate, trees": (
        "surrogate",
        {
            "initial": 4,
            "candidates": 64,
            "copies": 4,
            "regressor": "decision_tree",
            "acquisition": "pi",
        },
    ),
}
NEEDS = {"optuna:tpe": "optuna", "optuna:nsgaii": "optuna", "optuna:cmaes": "cmaes"}


def _contract(name: str, options: dict[str, Any]) -> type[SamplerContract]:
    class Contract(SamplerContract):
        # All leave their first points behind after four or five trials; Optuna is given the whole history each time.
        trials = 6 if name.startswith("optuna:") else 8

        def make(self) -> Sampler:
            needed = NEEDS.get(name)
            require(needed is None or find_spec(needed), f"the package {needed}")
            return make_sampler(name, options)

    return Contract


for _title, (_name, _options) in VARIANTS.items():
    _class = "Test" + "".join(word.capitalize() for word in _title.replace(":", " ").replace("-", " ").split())
    globals()[_class.replace(",", "").replace("_", "")] = _contract(_name, _options)


def test_no_registered_sampler_is_left_out():
    assert set(sampler_names()) - {"optuna:NAME"} == {name for name in SHORT if not name.startswith("optuna:")}


@st.composite
def parameters(draw: st.DrawFn, name: str, earlier: list[Parameter]) -> Parameter:
    kind = draw(st.sampled_from(list(Kind)))
    scale = Scale.LINEAR
    values: Any
    if kind is Kind.BOOLEAN:
        values = (False, True)
    elif kind is Kind.CATEGORICAL:
        values = ("a", "b", "c", "d")[: draw(st.integers(1, 4))]
    elif draw(st.booleans()):
        scale = Scale.LOG2
        values = tuple(1 << k for k in range(draw(st.integers(1, 5))))
    else:
        values = range(0, draw(st.integers(1, 12)), draw(st.integers(1, 3)))
    condition = None
    if earlier and draw(st.booleans()):
        switch = draw(st.sampled_from(earlier))
        condition = Expression.parse(f"{switch.name} != {draw(st.sampled_from(list(switch.values)))!r}")
    return Parameter(name, kind, values, draw(st.sampled_from(list(values))), scale=scale, active_if=condition)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    chosen: list[Parameter] = []
    for number in range(draw(st.integers(1, 5))):
        chosen.append(draw(parameters(f"p{number}", chosen)))
    ordered = [parameter for parameter in chosen if parameter.ordered]
    constraints = []
    if ordered and draw(st.booleans()):
        limited = draw(st.sampled_from(ordered))
        constraints.append(Expression.parse(f"{limited.name} <= {limited.default}"))
    return Space.bind(chosen, constraints)


CHEAP = ["random", "latin_hypercube", "exhaustive", "genetic", "shaman", "annealing", "surrogate, trees", "auto"]


@pytest.mark.parametrize("title", CHEAP)
def test_any_space(title):
    contract = _contract(*VARIANTS[title])()

    @settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
    @given(spaces(), st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 2))
    def check(space, seed, batch, waiting):
        contract.check(space, seed=seed, batch=batch, waiting=waiting)

    check()
