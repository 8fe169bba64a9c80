"""Starting from earlier experiments: what is taken over, and that fewer runs are needed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.session import Session
from stripewise.errors import UserError
from stripewise.requests.experiment import Budget, Confirmation, Experiment
from stripewise.runners.function import FunctionRunner
from stripewise.search.base import sampler_rng
from stripewise.search.belief.belief import Earlier, EarlierPrior, compare_workloads, translate
from stripewise.search.samplers.auto import AutoSampler
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.trial import History, Phase, Role, Run, State, Trial
from tests.unit.search_histories import ELAPSED

NODES = Parameter("aggregators", Kind.ORDINAL, (1, 2, 4, 8, 16, 32, 64), 1, scale=Scale.LOG2)
BUFFER = Parameter("buffer", Kind.ORDINAL, tuple(2**k for k in range(16, 26)), 2**16, scale=Scale.LOG2)
MODE = Parameter("mode", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic")
SPACE = Space.bind([NODES, BUFFER, MODE])
WRITE = Workload(operation="write", nodes=8, piece_size=1024)


def seconds(configuration, nodes):
    """Fastest with an aggregator a node, a buffer of 8 MiB, and collective buffering off."""
    return math.exp(
        0.4 * abs(math.log2(configuration["aggregators"] / nodes))
        + 0.15 * abs(math.log2(configuration["buffer"] / 2**23))
        + 0.5 * (configuration["mode"] != "disable")
    )


def trial(number, values, result, role=Role.CANDIDATE):
    runs = (Run(number, number, Phase.SEARCH, State.FINISHED, result),)
    return Trial(number, Configuration(values), role, runs)


def earlier(nodes=8, workload=WRITE, points=40):
    rows = SPACE.sample(np.random.default_rng(3), points)
    default = dict(SPACE.default)
    trials = [trial(0, {}, seconds(default, nodes), Role.DEFAULT)]
    trials += [trial(k, c, seconds(c, nodes)) for k, c in enumerate(map(SPACE.configuration, rows), 1)]
    return Earlier(workload, default, History(ELAPSED, tuple(trials)))


def runs_needed(prior, nodes=8):
    best = min(seconds(SPACE.configuration(row), nodes) for row in SPACE.enumerate())
    history = History(ELAPSED)
    for number in range(60):
        (one,) = AutoSampler(prior=prior).ask(SPACE, history, sampler_rng(0, number), 1)
        value = seconds(one.configuration, nodes)
        if value <= 1.05 * best:
            return number + 1
        history = History(ELAPSED, (*history.trials, trial(number, one.configuration, value)))
    return 61


def test_the_same_workload_says_all_and_another_less():
    assert compare_workloads(WRITE, WRITE) == 1
    double = compare_workloads(WRITE, WRITE.model_copy(update={"nodes": 16}))
    read = compare_workloads(WRITE, WRITE.model_copy(update={"operation": "read"}))
    far = compare_workloads(WRITE, Workload(operation="read", nodes=512, piece_size=2**20))
    unknown = compare_workloads(WRITE, Workload())
    assert 1 > double > unknown > read > far > 0


def test_trials_are_put_in_terms_of_todays_space():
    old = Earlier(
        WRITE,
        {"aggregators": 2, "buffer": 2**16, "gone": 1},
        History(
            ELAPSED,
            (
                trial(0, {}, 5.0, Role.DEFAULT),
                trial(1, {}, 9.0, Role.REFERENCE),
                trial(2, {"aggregators": 12, "buffer": 2**30, "gone": 3}, 4.0),
                trial(3, {"aggregators": 16, "buffer": 2**25, "gone": 2}, 4.2),
                trial(4, {"aggregators": 1, "mode": "lazy"}, 3.0),
            ),
        ),
    )
    found = translate(SPACE, old).trials
    assert [dict(t.configuration) for t in found] == [
        {"aggregators": 2, "buffer": 2**16, "mode": "automatic"},
        {"aggregators": 16, "buffer": 2**25, "mode": "automatic"},
    ]
    assert found[1].values == (4.0, 4.2)
    assert [t.number for t in found] == [0, 1]


def test_an_earlier_experiment_saves_runs_and_a_like_one_some():
    cold = runs_needed(None)
    same = runs_needed(EarlierPrior(SPACE, WRITE, [earlier()]))
    other = WRITE.model_copy(update={"nodes": 4})
    like = runs_needed(EarlierPrior(SPACE, WRITE, [earlier(nodes=4, workload=other)]))
    assert same <= 4 < cold
    assert like < cold


def test_a_misleading_one_is_recovered_from():
    class Opposite(EarlierPrior):
        def __call__(self, space, levels):
            return -super().__call__(space, levels)

    assert runs_needed(Opposite(SPACE, WRITE, [earlier()])) <= 40


def test_a_distant_workload_moves_the_base_only_a_little():
    far = Workload(operation="read", nodes=512, piece_size=2**20)

    def base(space, levels):
        return 0.1 * levels[:, 0]

    rows = SPACE.sample(np.random.default_rng(0), 20)
    told = base(SPACE, rows) - base(SPACE, SPACE.levels([SPACE.default]))
    near = EarlierPrior(SPACE, WRITE, [earlier()], base)(SPACE, rows)
    distant = EarlierPrior(SPACE, WRITE, [earlier(workload=far)], base)(SPACE, rows)
    assert np.abs(distant - told).max() < 0.3 * np.abs(near - told).max()
    assert EarlierPrior(SPACE, WRITE, [], base)(SPACE, rows) == pytest.approx(told)


# -- from a store


def carry_out(store, *, warm_start=(), budget=7, objective=ELAPSED, space=SPACE, nodes=8, name="function"):
    experiment = Experiment(
        name=name,
        runner="function",
        sampler="auto" if warm_start else "random",
        objective={"name": objective.name, "direction": objective.direction},
        warm_start=list(warm_start),
        budget=Budget(runs=budget),
        confirmation=Confirmation(pairs=0),
        warmup=0,
    )
    identifier = store.create(experiment)
    runner = FunctionRunner(lambda c: seconds(c, nodes), space, objective)
    return identifier, Session(store, identifier, runner, "test").run().as_json()


def asked(store, identifier):
    return [dict(t.configuration) for t in store.trials(identifier) if t.role is Role.CANDIDATE]


def test_auto_finds_finished_experiments_and_says_which():
    with open_store(MEMORY) as store:
        first, cold = carry_out(store, budget=40)
        assert cold["warm_start"] == []
        second, warm = carry_out(store, warm_start=["auto"])
        (used,) = warm["warm_start"]
        assert used == {
            "experiment": first,
            "name": "function",
            "similarity": 1.0,
            "trials": store.record(first).trials,
        }
        best = min(seconds(SPACE.configuration(row), 8) for row in SPACE.enumerate())
        assert min(seconds(c, 8) for c in asked(store, second)[:3]) <= 1.1 * best
        third, named = carry_out(store, warm_start=[first[:6]])
        assert [one["experiment"] for one in named["warm_start"]] == [first]
        assert asked(store, third) == asked(store, second)


def test_a_resumed_search_starts_from_the_same_experiments():
    with open_store(MEMORY) as store:
        first, _ = carry_out(store, budget=40)
        whole, _ = carry_out(store, warm_start=["auto"])
        part = store.create(store.record(whole).experiment)
        calls = []

        def stop_after_four(configuration):
            calls.append(configuration)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return seconds(configuration, 8)

        with pytest.raises(KeyboardInterrupt):
            Session(store, part, FunctionRunner(stop_after_four, SPACE, ELAPSED), "test").run()
        carry_out(store)  # another one that auto would find now
        Session(store, part, FunctionRunner(lambda c: seconds(c, 8), SPACE, ELAPSED), "test").run()
        chosen = [one["experiment"] for one in store.record(part).facts["warm_start"]]
        assert set(chosen) == {first, whole}
        fresh = asked(store, part)
        assert len(fresh) == len({tuple(c.values()) for c in fresh})


def test_what_cannot_be_started_from_is_refused_before_a_run():
    with open_store(MEMORY) as store:
        first, _ = carry_out(store)
        open_one = store.create(store.record(first).experiment)
        with pytest.raises(UserError, match="is created, not finished"):
            carry_out(store, warm_start=[open_one])
        with pytest.raises(UserError, match="does not exist"):
            carry_out(store, warm_start=["ffffffff"])
        bandwidth = type(ELAPSED)("bandwidth", "maximize", "MiB/s")
        with pytest.raises(UserError, match=r"another objective \(elapsed\)"):
            carry_out(store, warm_start=[first], objective=bandwidth)
        strange = Space.bind([Parameter("x", Kind.INTEGER, range(9), 0)])
        with pytest.raises(UserError, match="no parameter in common"):
            Session(
                store,
                store.create(Experiment(runner="function", warm_start=[first], warmup=0)),
                FunctionRunner(lambda c: 1.0 + c["x"], strange, ELAPSED),
                "test",
            ).run()
