"""What the result says: orientation, failures, the reference, and what more budget could show."""

import json
import math

import pytest

import stripewise as sw
from stripewise.catalogue.plan import Plan
from stripewise.engine.result import _speedup
from stripewise.engine.session import Session
from stripewise.requests.experiment import Experiment
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight
from stripewise.runners.function import FunctionRunner
from stripewise.store.opening import open_store
from tests.unit.search_histories import BANDWIDTH, trial

OF_THE_DESIGN = {
    *("experiment", "simulated", "objective", "reference", "default", "best", "speedup", "speedup_ci95"),
    *("confirmed", "runs", "seconds", "settings"),
}


def tune(function, space=None, **options):
    return sw.tune(function, space or {"x": [1, 2, 4, 8]}, **{"budget": 40, "sampler": "random", **options})


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_speed_ups_are_above_one_in_both_directions(direction):
    noise = iter([1.0, 1.01, 0.99, 1.02, 0.98] * 100)

    def run(configuration):
        rate = 10.0 * configuration["x"] * next(noise)
        return rate if direction == "maximize" else 1 / rate

    result = tune(run, direction=direction).result
    assert result.keys() >= OF_THE_DESIGN
    assert result["objective"] == {"name": "value", "direction": direction, "unit": ""}
    assert result["confirmed"] and result["best"]["configuration"] == {"x": 8}
    low, high = result["speedup_ci95"]
    assert 1 < low <= result["speedup"] <= high
    assert result["speedup"] == pytest.approx(8, rel=0.1)
    better, worse = result["best"]["value"], result["default"]["value"]
    assert (better > worse) == (direction == "maximize")
    assert max(better, worse) / min(better, worse) == pytest.approx(8, rel=0.1)
    # Both figures are of the confirmation alone, pair by pair.
    pairs = result["confirmation"]["pairs"]
    assert result["best"]["runs"] == result["default"]["runs"] == len(pairs)
    # So large a gain takes four runs of each, which bound no value: the ratios of all of them bound the speed-up.
    assert len(pairs) == 4 and result["best"]["ci95"] is None


def test_a_default_of_zero_has_no_ratio():
    assert _speedup(None, trial(1, 5.0), trial(0, 0.0), (), BANDWIDTH) == 1.0
    assert _speedup(None, trial(1, 5.0), trial(0, 2.0), (), BANDWIDTH) == 2.5


def test_nothing_tried_is_not_called_worse():
    result = tune(lambda c: 1.0, budget=1).result
    assert "no other configuration was tried" in result["verdict"]
    assert not result["confirmed"] and result["speedup"] == 1.0


def test_a_budget_too_small_says_what_more_could_show():
    result = tune(lambda c: 1.0 / c["x"], budget=5).result
    assert not result["confirmed"]
    assert result["candidate"]["configuration"] == {"x": 8}
    assert "pairs would prove it" in result["confirmation"]["more_budget"]
    enough = int(result["confirmation"]["more_budget"].split("a budget of ")[1].split()[0])
    assert tune(lambda c: 1.0 / c["x"], budget=enough).confirmed


def failing_in_confirmation(arm):
    calls = [0]

    def run(configuration):
        calls[0] += 1
        if (configuration["x"] == 1) == (arm == "default") and configuration["x"] in (1, 8) and calls[0] > 5:
            raise ValueError("boom")
        return 10.0 / configuration["x"]

    return run


def test_a_default_that_fails_leaves_finite_figures_and_says_so():
    found = tune(failing_in_confirmation("default"))
    assert found.confirmed
    assert "of the default" in found.verdict and "inf" not in found.verdict
    assert math.isfinite(found.speedup) and found.speedup > 1 and found.speedup_ci95 is None
    json.dumps(found.result, allow_nan=False)


def test_a_best_that_fails_when_repeated_is_not_kept():
    found = tune(failing_in_confirmation("candidate"))
    assert not found.confirmed and found.best == {"x": 1}
    assert "failed" in found.verdict and "inf" not in found.verdict
    json.dumps(found.result, allow_nan=False)


def test_of_several_candidates_the_one_that_stands_best_is_shown():
    stack = {"x": [1, 2, 4, 8]}
    with open_store("sqlite:///:memory:") as store:
        rule = {"candidates": 3, "minimum_effect": 20.0}
        # Without spend_all, no proof of 20 times begins: the search has seen 8.
        budget = {"runs": 60, "spend_all": True}
        fields = {"runner": "function", "sampler": "random", "budget": budget, "confirmation": rule, "warmup": 0}
        identifier = store.create(Experiment.model_validate(fields))
        runner = FunctionRunner(lambda c: 1.0 / c["x"], space_of(stack, {}, ()), Objective("value", "minimize", ""))
        result = Session(store, identifier, runner, "test").run().as_json()
    assert result["confirmation"]["candidates_tested"] > 1
    assert result["candidate"]["configuration"] == {"x": 8}
    assert result["candidate"]["speedup"] == result["confirmation"]["estimate"] == pytest.approx(8)
    assert "8.00 times" in result["verdict"] and "the required 20" in result["verdict"]


STACK = """
name = "prefetcher"
env = { PREFETCHER = "on" }
[[parameter]]
name = "depth"
kind = "ordinal"
values = [1, 2, 4, 8]
default = 2
carrier = "env"
key = "PREFETCHER_DEPTH"
[off]
env = { PREFETCHER = "off" }
"""


class Program(FunctionRunner):
    """Looks like a program: its space comes from the stack, and a run is told by what its plan sets."""

    def prepare(self):
        return Preflight(objective=self._objective)

    def start(self, launch):
        exports = {setting.key: setting.value for setting in launch.plan.settings}
        self._function, before = (lambda _: before(exports)), self._function
        try:
            super().start(launch)
        finally:
            self._function = before


@pytest.mark.parametrize(("off", "winner"), [(100.0, "candidate"), (900.0, "reference")])
def test_the_plan_makes_a_program_run_as_the_winner_ran(tmp_path, off, winner):
    stack = tmp_path / "prefetcher.toml"
    stack.write_text(STACK)

    def run(exports):
        if exports["PREFETCHER"] == "off":
            return off
        return 100.0 + 10 * int(exports.get("PREFETCHER_DEPTH", 2))

    fields = {"runner": "function", "stacks": [str(stack)], "sampler": "random", "budget": 40}
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(Experiment.model_validate(fields))
        runner = Program(run, None, Objective("value", "maximize", ""))
        result = Session(store, identifier, runner, "test").run().as_json()
    assert result["confirmed"] and result["best"]["is"] == winner
    assert result["reference"]["value"] == off
    assert result["reference"]["off"] == {"env": {"PREFETCHER": "off"}}
    planned = {setting.key: setting.value for setting in Plan.parse(result["plan"], "the plan").settings}
    assert run(planned) == result["best"]["value"]
    # What switches the component on is no setting that was searched.
    assert set(result["settings"]) <= {"depth"}
