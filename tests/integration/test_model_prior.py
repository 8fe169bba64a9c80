"""A model as a search's expectation: columns found by name, unknown ones averaged, and fewer runs for it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.model_prior import ModelPrior
from stripewise.errors import UserError
from stripewise.models.registry import make_model
from stripewise.search.base import make_sampler
from tests.fixtures.campaigns import GIB, MIB, campaign, law

WORKLOAD = Workload(operation="write", nodes=4, processes_per_node=4, file_size=8 * GIB, collective=True)


@functools.cache
def model() -> Any:
    table = campaign(tunables=("stripe_count", "stripe_size", "romio_cb_write"), noise=0.02, repeats=1)
    return make_model("tree", {"max_depth": 0}).fit(table)


def space() -> Space:
    parameters = [
        Parameter("stripe_count", Kind.ORDINAL, (1, 2, 4, 8, 16), 1),
        Parameter("stripe_size", Kind.ORDINAL, (MIB, 4 * MIB), MIB, unit="B"),
        Parameter("romio_cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable", "perhaps"), "automatic"),
        Parameter("unheard_of", Kind.ORDINAL, (1, 2, 3), 1),
    ]
    return Space.bind(parameters, context=WORKLOAD.words())


def test_the_prior_orders_configurations_as_the_law_does() -> None:
    prior, made = ModelPrior(model(), WORKLOAD), space()
    assert prior.shared(made) == ["stripe_count", "stripe_size", "romio_cb_write"]
    levels = made.enumerate()
    expected = prior(made, levels)
    row = {"operation": "write", "nodes": 4, "ppn": 4, "file_gib": 8}
    known = [c for c in map(made.configuration, levels) if c["stripe_count"] != 2 and c["romio_cb_write"] != "perhaps"]
    truth = [np.log(law({**row, **c})) for c in known]
    mine = prior(made, made.levels(known))
    assert np.corrcoef(truth, mine)[0, 1] > 0.97
    best = made.configuration(levels[int(np.argmax(expected))])
    assert (best["stripe_count"], best["romio_cb_write"]) == (16, "disable")


def test_what_the_model_does_not_know_makes_no_difference() -> None:
    prior, made = ModelPrior(model(), WORKLOAD), space()
    rows = [made.default.with_values(unheard_of=value) for value in (1, 2, 3)]
    assert len(set(prior(made, made.levels(rows)).tolist())) == 1
    unseen = prior(made, made.levels([made.default, made.default.with_values(romio_cb_write="perhaps")]))
    assert unseen[0] == unseen[1]


def test_an_open_workload_is_averaged_over_what_was_measured() -> None:
    made = space()
    levels = made.levels([made.default])
    both = [ModelPrior(model(), WORKLOAD.model_copy(update={"nodes": n}))(made, levels)[0] for n in (2, 4, 8)]
    open_one = ModelPrior(model(), WORKLOAD.model_copy(update={"nodes": None}))(made, levels)[0]
    assert open_one == pytest.approx(np.mean(both))


def test_a_space_of_which_the_model_knows_nothing_is_refused() -> None:
    stack = load_stack("ompio")
    made = Space.bind(stack.parameters[:1], context=Workload().words())
    with pytest.raises(UserError, match="knows none of the parameters"):
        ModelPrior(model(), WORKLOAD)(made, made.levels([made.default]))


def test_a_sampler_starts_from_the_prior() -> None:
    from stripewise.requests.objective import Objective
    from stripewise.trial import History

    made = space()
    sampler = make_sampler("auto", {}, prior=ModelPrior(model(), WORKLOAD))
    first = sampler.ask(made, History(Objective("bandwidth", "maximize", "MiB/s"), ()), np.random.default_rng(0), 2)
    assert first[0].configuration == made.default
    assert first[1].configuration["stripe_count"] == 16
    assert first[1].configuration["romio_cb_write"] == "disable"
