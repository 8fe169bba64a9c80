"""A smaller case that is searched first: its experiment, and what it leaves to the whole."""

from dataclasses import replace

import numpy as np
import pytest

from stripewise.catalogue.workload import Workload
from stripewise.engine.priors import agreement
from stripewise.engine.smaller_case import after_small, small_case
from stripewise.errors import UserError
from stripewise.requests.experiment import Budget, Confirmation, Experiment
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.trial import History, Phase, Run, State, Trial

WHOLE = Experiment(
    name="app",
    command=["mpiexec", "-n", "64", "./app", "{steps}"],
    stacks=["romio"],
    budget=Budget(runs=30, seconds=100.0, node_hours=8.0),
    confirmation=Confirmation(pairs=10),
    workload=Workload(nodes=16, file_size=1 << 40),
    warm_start=["0123abcd"],
    parameters={"steps": {"carrier": "argument", "values": [1, 2], "default": 1}},
)


def test_the_small_case_has_the_same_space_and_no_proof():
    case = small_case(WHOLE, ["mpiexec", "-n", "2", "./app", "{steps}"], 12)
    assert (case.name, case.command[2], case.budget.runs) == ("app (small)", "2", 12)
    assert case.confirmation.pairs == 0
    assert case.workload == Workload()
    assert (case.stacks, case.parameters, case.objective) == (WHOLE.stacks, WHOLE.parameters, WHOLE.objective)
    # A limit holds for both together.
    assert (case.budget.seconds, case.budget.node_hours) == (100.0, 8.0)


@pytest.mark.parametrize(
    ("changes", "command", "told"),
    [
        ({"runner": "sim:kay"}, ["./app"], "launches none"),
        ({"runner": "within"}, ["./app"], "--within .* leave one of them out"),
        ({"sampler": "random"}, ["./app"], "cannot start from a small case"),
        ({"replay": {"record": "x.record"}}, ["./app"], "--replay"),
        ({}, [], "names no program"),
    ],
)
def test_what_cannot_be_searched_small_is_refused_before_a_run(changes, command, told):
    whole = Experiment.model_validate({**WHOLE.model_dump(), **changes})
    with pytest.raises(UserError, match=told):
        small_case(whole, command, 12)


class _Result:
    seconds, node_hours = 40.0, 1.5


class _Record:
    id, result = "89abcdef", _Result()


def test_the_whole_starts_from_the_small_case_with_what_is_left_of_the_limits():
    whole = after_small(WHOLE, _Record())
    assert whole.warm_start == ["0123abcd", "89abcdef"]
    assert whole.budget == Budget(runs=30, seconds=60.0, node_hours=6.5)
    assert whole.model_copy(update={"warm_start": WHOLE.warm_start, "budget": WHOLE.budget}) == WHOLE
    short = WHOLE.model_copy(update={"budget": Budget(runs=30, seconds=40.0)})
    with pytest.raises(UserError, match="--warm-start 89abcdef"):
        after_small(short, _Record())


@pytest.mark.parametrize(("direction", "told"), [("minimize", "-1.00"), ("maximize", "1.00")])
def test_agreement_is_the_rank_correlation_of_what_was_expected_with_what_was_measured(direction, told):
    space = space_of({"x": [1, 2, 3, 4, 5, 6]}, {}, ())
    trials = tuple(
        Trial(n, space.configuration(np.array([n])), runs=(Run(n, n, Phase.SEARCH, State.FINISHED, float(n + 1)),))
        for n in range(6)
    )
    history = History(Objective("value", direction, "s"), trials)

    def expects_more_of_larger_values(space, levels):
        return levels[:, 0].astype(float) ** 3

    assert told in agreement(expects_more_of_larger_values, space, history)
    assert agreement(lambda space, levels: np.zeros(len(levels)), space, history) == ""
    assert agreement(expects_more_of_larger_values, space, replace(history, trials=trials[:4])) == ""
