"""stripewise.tune(): what it takes for a space, what it refuses, and going on after an interruption."""

import numpy as np
import pytest

import stripewise as sw
from stripewise.errors import UserError
from stripewise.store.opening import open_store


def length(configuration):
    return 1.0 + len(str(configuration))


def tried(space, **options):
    found = sw.tune(length, space, **{"budget": 6, "sampler": "random", "pairs": 0, **options})
    return [dict(trial.configuration) for trial in found.trials[1:]], found


def test_numbers_of_arrays_are_numbers():
    configurations, found = tried({"x": np.arange(1, 4), "y": np.array([0.5, 1.0])})
    assert all(type(c["x"]) is int and type(c["y"]) is float for c in configurations)
    assert found.result["default"]["configuration"] == {"x": 1, "y": 0.5}


def test_a_single_truth_value_stays_single():
    configurations, _ = tried({"fixed": [True], "x": [1, 2, 3]})
    assert {c["fixed"] for c in configurations} == {True}


def test_one_constraint_may_be_a_text():
    configurations, _ = tried({"x": range(10)}, constraints="x < 3")
    assert {c["x"] for c in configurations} == {1, 2}


@pytest.mark.parametrize(
    ("space", "options", "told"),
    [
        ({}, {}, "no parameters"),
        ({"x": 3}, {}, "x has 3"),
        ({"x": "abc"}, {}, "x has 'abc'"),
        ({"x": []}, {}, "no values"),
        ({"x": [1, None]}, {}, "None is not a value"),
        ({"x": [1.0, float("nan")]}, {}, "nan is not a value"),
        ({"x": [1, 1]}, {}, "twice"),
        ({"x y": [1, 2]}, {}, "identifier"),
        ({"x": [1, 2]}, {"default": {"y": 1}}, "not a parameter"),
        ({"x": [1, 2]}, {"default": {"x": 3}}, "not among its values"),
        ({"x": [1, 2]}, {"direction": "max"}, "direction 'max'"),
        ({"x": [1, 2]}, {"budget": 0}, "budget"),
        ({"x": [1, 2]}, {"pairs": -1}, "pairs"),
        ({"x": [1, 2]}, {"seed": -1}, "seed"),
        ({"x": [1, 2]}, {"sampler": "magic"}, "magic"),
        ({"x": [1, 2]}, {"resume": "abc"}, "no store"),
        ("no-such-stack", {}, "no-such-stack"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(space, options, told):
    with pytest.raises(UserError) as caught:
        sw.tune(length, space, **options)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_an_interrupted_experiment_is_resumed(tmp_path):
    store, calls = f"sqlite:///{tmp_path}/s.db", []

    def run(configuration):
        calls.append(configuration["x"])
        if len(calls) == 4:
            raise KeyboardInterrupt
        return 1.0 / configuration["x"]

    options = {"budget": 30, "sampler": "random", "store": store, "direction": "minimize"}
    space = {"x": [1, 2, 4, 8, 16]}
    with pytest.raises(KeyboardInterrupt):
        sw.tune(run, space, **options)
    with open_store(store) as opened:
        identifier = opened.records()[0].id
    found = sw.tune(run, space, resume=identifier, **options)
    assert found.experiment == identifier
    assert found.confirmed and found.best == {"x": 16}
    assert len(calls) == found.result["runs"] + 1
    with pytest.raises(UserError, match="the space"):
        sw.tune(run, {"x": [1, 2]}, resume=identifier, **options)


def test_what_was_found_is_short_to_look_at():
    _, found = tried({"x": [1, 2, 3]})
    assert "confirmed=False" in repr(found) and len(repr(found)) < 400
