"""stripewise.tune(): what it takes for a space, what it refuses, and going on after an interruption."""

import doctest
import importlib
import random

import numpy as np
import pytest

import stripewise as sw
from stripewise import api
from stripewise.errors import NothingWorks, UserError
from stripewise.requests import from_python
from stripewise.search.base import Sampler, make_sampler, suggest
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


def test_a_budget_that_tries_nothing_says_why():
    configurations, found = tried({"x": [1, 2]}, budget=6, pairs=3)
    assert configurations == []
    why = "the rest of the budget is kept for the confirmation"
    assert found.result["verdict"] == f"The default is kept: {why}, so no other configuration was tried."


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


def test_what_was_found_can_be_looked_at_in_a_notebook():
    found = sw.tune(lambda c: (c["x"] - 3) ** 2 + 1, {"x": range(10), "y": ["<b>", "c"]}, budget=12, pairs=0, unit="s")
    assert found.best == found.record.result.default.configuration
    assert found.best_found["x"] == 3
    assert found.verdict == "The default is kept: no confirmation was asked for, so no gain is proven."
    table = found.to_dataframe()
    assert list(table.index) == list(range(len(table)))
    assert len(table) == found.result["runs"]
    assert set(table["y"]) == {"<b>", "c"}, "also where a run does not name it"
    assert set(table.loc[table["x"] == 3, "value"]) == {1.0}
    page = found._repr_html_()
    assert "<td>x</td><td>0</td><td>3</td>" in page
    assert "best found, not proven" in page
    assert "<b>" not in page
    assert found.plot_trajectory().data
    assert found.plot_parallel().data
    with pytest.raises(UserError, match="there is no confirmation to draw"):
        found.plot_confirmation()


def test_a_proven_gain_has_all_figures():
    found = sw.tune(lambda c: 4.0 / c["x"], {"x": [1, 2, 4]}, budget=24)
    assert found.confirmed
    assert found.best_found == found.best
    assert found.plot_confirmation().data


class Backwards(Sampler):
    """Proposes the last values first."""

    name = "backwards"

    def ask(self, space, history, rng, n):
        tried = {trial.configuration["x"] for trial in history.trials}
        left = [place for place, value in enumerate(space["x"].values) if value not in tried]
        return suggest(space, np.array(left[::-1][:n]).reshape(-1, 1)) if left else []


def test_samplers_may_be_objects():
    found = sw.tune(lambda c: 1.0 + c["x"], {"x": range(5)}, budget=5, pairs=0, sampler=Backwards())
    assert [trial.configuration.get("x") for trial in found.trials] == [None, 4, 3, 2, 1]
    named = make_sampler("random")
    assert sw.tune(lambda c: 1.0 + c["x"], {"x": range(5)}, budget=5, pairs=0, sampler=named).trials
    with pytest.raises(UserError, match="beside a sampler"):
        sw.tune(length, {"x": [1, 2]}, sampler=named, sampler_options={"a": 1})


def test_a_search_asks_and_is_told():
    search = sw.Search({"x": sw.integers(1, 4)}, direction="maximize", sampler="random")
    first, second = search.ask(), search.ask()
    assert first == {"x": 1} != second
    assert search.best is None
    search.tell(second, 5.0)
    search.tell(first, None)
    assert search.best == (second, 5.0)
    for value, told in ((0.0, "above zero"), (2.0, "is not waited for")):
        with pytest.raises(UserError, match=told):
            search.tell(second, value)
    assert {search.ask()["x"] for _ in range(2)} == {1, 2, 3, 4} - {1, second["x"]}
    with pytest.raises(UserError, match="every configuration"):
        search.ask()


def test_ranges_are_values():
    assert list(sw.integers(0, 10, 5)) == [0, 5, 10]
    assert sw.integers(3, 30, log=True) == [3, 6, 12, 24, 30]
    assert sw.integers(4, 4, log=True) == [4]
    assert sw.floats(0, 1, 3) == [0.0, 0.5, 1.0]
    for wrong in (
        lambda: sw.integers(2, 1),
        lambda: sw.integers(0, 8, log=True),
        lambda: sw.floats(1, 1),
        lambda: sw.floats(0, 1, log=True),
    ):
        with pytest.raises(UserError, match="has no values"):
            wrong()


def test_a_progress_bar_is_shown_if_wanted(capsys):
    tried({"x": [1, 2, 3]}, progress=True)
    assert "/6" in capsys.readouterr().err
    tried({"x": [1, 2, 3]})
    assert not capsys.readouterr().err


def test_a_function_that_reaches_zero_is_told_what_to_do():
    with pytest.raises(NothingWorks, match=r"the function fails .* is 0, but must be above zero.*add a constant"):
        sw.tune(lambda c: float(c["x"]), {"x": range(4)})


def test_the_package_shows_what_there_is():
    assert {"tune", "Tuned", "Search", "integers", "floats", "Client"} <= set(dir(sw))
    for name in dir(sw):
        assert getattr(sw, name) is not None
    assert importlib.import_module("stripewise.desk.client").Client is sw.Client


def test_examples_of_the_docstrings_run():
    for module, examples in ((api, 5), (from_python, 2)):
        done = doctest.testmod(module, extraglobs={"integers": sw.integers})
        assert done.attempted >= examples
        assert not done.failed


def test_the_order_of_a_proof_is_not_the_same_for_all_who_leave_the_seed() -> None:
    # Else what comes back every five launches, as a cache that is emptied, is proven a gain by each of them.
    def order(first: float) -> tuple[int, ...]:
        calls: list[int] = []

        def seconds(values: dict[str, int]) -> float:
            calls.append(values["x"])
            return first if len(calls) == 1 else 2.0 / values["x"]

        assert sw.tune(seconds, {"x": [1, 2]}, budget=16).confirmed
        return tuple(calls[-8:])

    assert order(2.0) == order(2.0)
    assert len({order(2.0 + part / 1000) for part in range(4)}) > 1


@pytest.mark.parametrize(("seed", "budget"), [(4, 120), (5, 120), (7, 120), (0, 40), (1, 40), (2, 40), (3, 40)])
def test_settings_that_leave_work_to_the_next_run_are_not_proven_beside_runs_that_leave_one_out(seed, budget) -> None:
    chance, left = random.Random(seed), [False]

    def seconds(values):
        after, left[0] = left[0], "on" in values.values()
        own = 2.0 - 0.2 * (values["flush"] == "on") - 0.25 * (values["cache"] == "on")
        return (own + 2.0 * after) * chance.lognormvariate(0, 0.03)

    found = sw.tune(seconds, {"flush": ["off", "on"], "cache": ["off", "on"]}, budget=budget, seed=seed)
    assert not found.confirmed
    assert any(run.arm for trial in found.trials for run in trial.runs)
