"""Among nearly equal configurations the cheapest is chosen, and luck does not make them nearly equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

import stripewise as sw
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.engine.planner import Planner
from stripewise.engine.result import find_cheapest
from stripewise.engine.space import BoundSpace
from stripewise.requests.experiment import Experiment
from stripewise.search.base import make_sampler
from stripewise.search.belief.costs import Costs
from stripewise.search.belief.posterior import (
    count_departures,
    find_passed_over,
    prefer_cheapest,
    price_configuration,
    rank_trials,
)
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.trial import History, Phase, Role, Run, State, Trial
from tests.unit.search_histories import ELAPSED

SPACE = Space.bind(
    [
        Parameter("stripes", Kind.ORDINAL, (1, 2, 4, 8, 16), 1, cost=1.0),
        Parameter("memory", Kind.ORDINAL, (1, 4, 16), 1, cost=0.2),
        Parameter("mode", Kind.CATEGORICAL, ("a", "b"), "a"),
    ]
)


def history(*entries):
    """Entries of (stripes, memory, mode) and values; the first is the default."""
    trials = []
    for number, (stripes, memory, mode, *values) in enumerate(entries):
        configuration = Configuration({"stripes": stripes, "memory": memory, "mode": mode})
        runs = tuple(
            Run(10 * number + k, number, Phase.SEARCH, State.FINISHED, value) for k, value in enumerate(values)
        )
        trials.append(Trial(number, configuration, Role.CANDIDATE if number else Role.DEFAULT, runs))
    return History(ELAPSED, tuple(trials))


DEFAULT = (1, 1, "a", 10.0, 10.1, 9.9, 10.0)


def test_the_price_grows_with_stripes_and_memory_and_not_with_what_is_free():
    prices = [
        price_configuration(SPACE, {"stripes": s, "memory": m, "mode": x})
        for s, m, x in [(1, 1, "b"), (2, 1, "a"), (16, 16, "a")]
    ]
    assert prices == pytest.approx([0, 0.25, 1.2])


def test_of_equally_cheap_ones_the_one_that_changes_least_is_preferred():
    seen = history(DEFAULT, (1, 16, "b", 4.0, 4.0, 4.01), (4, 1, "b", 4.02, 4.02, 4.02), (4, 1, "a", 4.1, 4.1, 4.1))
    ranked = prefer_cheapest(SPACE, seen, rank_trials(seen))
    assert ranked[0].number == 1  # the cheapest, whatever it changes
    ranked = prefer_cheapest(SPACE, seen, [trial for trial in rank_trials(seen) if trial.number != 1])
    assert ranked[0].number == 3  # as cheap as trial 2, without the mode that gains nothing
    assert [count_departures(SPACE, trial.configuration) for trial in seen.trials] == [0, 2, 2, 1]


def test_the_cheapest_within_five_percent_is_preferred():
    seen = history(
        DEFAULT,
        (16, 16, "b", 4.0, 4.0, 4.02),
        (4, 1, "b", 4.1, 4.12, 4.1),
        (2, 1, "b", 4.6, 4.62, 4.6),
        (8, 1, "b", 4.05, 4.05),
    )
    assert [t.number for t in rank_trials(seen)][:3] == [1, 4, 2]
    ranked = prefer_cheapest(SPACE, seen, rank_trials(seen))
    assert [t.number for t in ranked][:3] == [2, 1, 4]
    assert len(ranked) == 5
    over = find_passed_over(SPACE, seen, ranked[0])
    assert over is not None and over.number == 1
    assert find_passed_over(SPACE, seen, rank_trials(seen)[0]) is None


def test_the_default_is_never_preferred_and_nothing_behind_it():
    seen = history(DEFAULT, (16, 16, "b", 9.8, 9.9, 9.8), (2, 1, "b", 10.15, 10.1, 10.15))
    assert [t.number for t in prefer_cheapest(SPACE, seen, rank_trials(seen))] == [1, 0, 2]
    assert [t.number for t in prefer_cheapest(SPACE, history(DEFAULT), rank_trials(history(DEFAULT)))] == [0]
    assert prefer_cheapest(SPACE, History(ELAPSED), []) == []


def test_a_single_lucky_run_does_not_bring_a_cheap_one_near():
    noisy = (8.0, 13.0, 10.0, 11.5, 8.5)
    seen = history(
        (1, 1, "a", *noisy), (16, 1, "b", *(0.4 * v for v in noisy)), (2, 1, "b", 4.0), (4, 16, "a", 9.0, 12.0)
    )
    assert prefer_cheapest(SPACE, seen, rank_trials(seen))[0].number == 1


def test_the_best_is_not_given_up_for_what_is_only_perhaps_near():
    rough = (0.85, 1.15, 0.9, 1.1, 1.0)
    cheap, dear = [4.15 * f for f in rough], [4.0 * f for f in rough]
    default = (1, 1, "a", *(10 * f for f in rough))
    once = history(default, (16, 1, "b", dear[-1]), (4, 1, "b", cheap[-1]))
    often = history(default, (16, 1, "b", *dear * 6), (4, 1, "b", *cheap * 6))
    assert prefer_cheapest(SPACE, once, rank_trials(once))[0].number == 1
    assert prefer_cheapest(SPACE, often, rank_trials(often))[0].number == 2


def cheaper_than(number, seen, tested):
    found = find_cheapest(BoundSpace(SPACE, (), {}), seen, seen.trials[number], tested)
    return found and found.trial


def test_neither_the_default_nor_what_was_refuted_is_cheaper_and_nearly_as_good():
    seen = history((1, 1, "a", 4.1), (16, 1, "b", 4.0), (4, 1, "b", 4.1), (8, 1, "b", 4.1))
    assert cheaper_than(1, seen, {1}) == 2
    assert cheaper_than(1, seen, {1, 2}) == 3
    assert cheaper_than(2, seen, {2}) is None


def test_what_ran_while_the_machine_was_fast_is_not_nearly_as_good():
    """The default is repeated: the last runs came when everything took half the time."""
    runs = [(0, 10.0), (1, 4.0), (0, 10.1), (1, 4.05), (0, 9.9), (0, 5.0), (2, 4.1), (0, 5.05), (1, 2.0), (0, 4.95)]
    trials = history((1, 1, "a"), (16, 1, "b"), (4, 1, "b")).trials
    for number, (place, value) in enumerate(runs):
        run = Run(number, place, Phase.SEARCH, State.FINISHED, value, value, started=10.0 * number)
        trials = tuple(replace(t, runs=(*t.runs, run)) if t.number == place else t for t in trials)
    seen = History(ELAPSED, trials)
    assert Costs.of(seen).each.level.moves
    assert cheaper_than(1, seen, {1}) is None


@pytest.mark.slow
def test_tune_confirms_the_cheaper_and_says_what_it_was_preferred_to():
    def seconds(configuration):
        return {1: 10.0, 2: 9.0, 4: 4.1, 8: 4.05, 16: 4.0}[configuration["stripes"]]

    only = Space.bind([SPACE["stripes"]])
    result = sw.tune(seconds, only, budget=40, sampler="random").result
    assert result["confirmed"] and result["best"]["configuration"] == {"stripes": 4}
    assert result["preferred_over"]["configuration"] == {"stripes": 16}
    assert result["cheapest"] is None


@pytest.mark.parametrize(("runner", "chosen"), [("local", 2), ("within", 1)])
def test_within_one_launch_the_best_is_proven_and_not_the_cheapest_near_it(runner: str, chosen: int) -> None:
    seen = history(DEFAULT, (8, 1, "a", 8.0, 8.0, 8.0), (2, 1, "a", 8.05, 8.05, 8.05))
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    planner = Planner(Experiment(runner=runner), ELAPSED, SPACE, False, *parts)
    assert planner.candidate(seen.trials) == chosen
