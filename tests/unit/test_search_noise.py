"""Which trial is run again, when a run is cut short, and when the search ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stripewise.errors import UserError
from stripewise.search.base import make_sampler
from stripewise.search.belief.posterior import Posterior
from stripewise.search.policy.pruning import censored_value, make_pruner
from stripewise.search.policy.resampling import knowledge_gradient, make_resampler
from stripewise.search.policy.stopping import make_stopping, nothing_more
from stripewise.trial import History, Phase, Role, Run, State
from tests.unit.search_histories import BANDWIDTH, ELAPSED, LINE, history, run, trial


def next_of(kind, seen, **options):
    return make_resampler({"kind": kind, **options}).next(seen)


def reason(options, seen, sampler=None):
    return make_stopping(options).reason(LINE, seen, sampler)


# -- resampling


def test_none_repeats_nothing():
    assert next_of("none", history(1.0, 1.0)) is None


def test_simple_gives_every_working_trial_its_runs_the_first_ones_too():
    assert next_of("simple", history(1.0, 2.0)) == 0
    assert next_of("simple", history((1.0, 1.0, 1.0), 2.0)) == 1
    assert next_of("simple", history((1.0, 1.0, "pending"), (2.0, 2.0, 2.0))) is None
    assert next_of("simple", history("failed", "pruned 3", "pending", "running")) is None
    assert next_of("simple", history(1.0), repeats=1) is None


def race(seen, **options):
    return next_of("racing", seen, controls=False, **options)


def test_racing_repeats_the_incumbent_or_its_close_challenger_only():
    far = [2.0 + 0.1 * k for k in range(6)]
    assert race(history(1.0, 1.01, *far)) in (0, 1)
    assert race(history(1.0, 1.5, *far)) is None
    assert race(history(1.0, "failed", "pruned 9", *far)) is None


def test_racing_looks_at_the_direction_of_the_objective():
    close = [1.0, 1.01, *(2.0 + 0.2 * k for k in range(6))]
    assert race(history(*close)) in (0, 1)
    assert race(history(*close, objective=BANDWIDTH)) is None


def test_racing_does_not_repeat_what_is_running_or_has_failed_once():
    far = [2.0 + 0.1 * k for k in range(8)]
    assert race(history((1.0, "pending"), 1.01, *far)) == 1
    assert race(history((1.0, "running"), (1.01, "pending"), *far)) is None
    assert race(history((1.0, "failed"), 1.9, *far)) is None


def test_racing_keeps_to_its_share():
    alike = [1.0, 1.01, 1.02, 1.01]
    assert race(history(*alike)) is not None
    assert race(history(*alike), share=0) is None
    assert race(history((1.0, 1.0), (1.01, 1.0), 1.02, 1.01)) is None


def test_racing_is_worth_more_under_more_noise():
    middles = (1.0, 1.06, 1.2, 1.3)
    quiet = history(*[(middle * 1.001, middle / 1.001) for middle in middles], *[2.0] * 12)
    loud = history(*[(middle * 1.2, middle / 1.2) for middle in middles], *[2.0] * 12)
    assert knowledge_gradient(Posterior.of(loud)).max() > 3 * knowledge_gradient(Posterior.of(quiet)).max()
    assert race(quiet) is None
    assert race(loud) is not None


def test_racing_ends_a_tried_space_only_once_the_repeats_show_how_quiet_the_machine_is():
    def last(seen):
        return make_resampler({"kind": "racing"}).last(seen)

    assert last(history(1.0, 1.3, 1.4, 1.4)) is not None
    agreeing = [(middle * 1.001, middle / 1.001) for middle in (1.0, 1.3, 1.4, 1.4)]
    assert last(history(*agreeing)) is None
    loud = [(middle * 1.2, middle / 1.2) for middle in (1.0, 1.3, 1.4, 1.4)]
    assert last(history(*loud)) is not None


def test_racing_comes_to_an_end_and_repeats_only_what_is_alike():
    repeats = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        true = [1.0] * 6 + [2.0] * 24
        results = [[value * float(np.exp(0.1 * rng.normal()))] for value in true]
        for _ in range(60):
            number = race(history(*map(tuple, results)), share=1.0, worth=0.002)
            if number is None:
                break
            assert number < 6
            results[number].append(true[number] * float(np.exp(0.1 * rng.normal())))
        assert number is None
        assert max(map(len, results)) <= 10
        repeats += sum(map(len, results)) - 30
    assert repeats >= 6


def test_racing_with_hardly_any_history():
    assert next_of("racing", history()) is None
    assert next_of("racing", history(1.0)) is None
    assert next_of("racing", history("failed", "pending")) is None


# -- pruning


def test_bounds():
    seen = history(10.0, 12.0, 2.0, "failed", "pending", "pruned 30")
    assert make_pruner({"kind": "none"}).bound(seen) is None
    assert make_pruner({"factor": 4}).bound(seen).seconds == pytest.approx(8)
    assert make_pruner({"kind": "incumbent"}).bound(history("failed")) is None


def test_what_takes_three_times_as_long_as_the_best_is_cut_by_default():
    pruner = make_pruner()
    assert pruner.bound(history("failed", "pending")) is None
    assert pruner.bound(history(10.0)).seconds == 30, "of the default, as soon as it has run"
    bound = pruner.bound(history(10.0, 12.0, 2.0))
    assert (bound.seconds, bound.why) == (6.0, "3 times as long as the best")
    assert pruner.bound(history(1.0, 1.2, 0.2)).seconds == pytest.approx(2.2), "two seconds are allowed in any case"


def test_the_bound_takes_no_slow_run_of_the_default_for_a_slower_machine():
    def with_default(*times):
        seen = history(times, 12.0, (2.0, 3.0))
        default = replace(seen.trials[0], role=Role.DEFAULT)
        return History(ELAPSED, (default, *seen.trials[1:]))

    assert make_pruner().bound(with_default(10.0)).seconds == pytest.approx(9), "of the longest recent run"
    assert make_pruner().bound(with_default(10.0, 10.0, 10.0, 20.0)).seconds == pytest.approx(9), "it may be an outlier"
    assert make_pruner().bound(with_default(20.0, 10.0, 10.0, 10.0)).seconds == pytest.approx(9), "that was long ago"
    cut = ["pruned 6"] * 3
    assert make_pruner().bound(history(10.0, 12.0, 2.0, *cut)).seconds == 12, "or nothing would ever end"
    assert make_pruner().bound(history(10.0, 12.0, 2.0, *cut, 9.0)).seconds == 6


def test_a_cut_run_is_worse_than_a_value_of_any_objective():
    seen = history(10.0, (2.0, 2.0))
    assert censored_value(seen, 8.0) == 8.0
    rates = [tuple(replace(r, value=100 / r.value) for r in t.runs) for t in seen.trials]
    faster = History(BANDWIDTH, tuple(replace(t, runs=r) for t, r in zip(seen.trials, rates, strict=True)))
    assert censored_value(faster, 8.0) == pytest.approx(12.5)
    assert censored_value(history("failed"), 8.0) is None
    below_zero = [tuple(replace(r, value=-r.value) for r in t.runs) for t in seen.trials]
    shown = History(BANDWIDTH, tuple(replace(t, runs=r) for t, r in zip(seen.trials, below_zero, strict=True)))
    assert censored_value(shown, 80.0) <= -2.0, "the best value, and no better one"


def test_bound_is_wall_time_of_search_runs_whatever_the_objective():
    def timed(number, bandwidth, elapsed):
        runs = (
            Run(
                2 * number,
                number,
                Phase.SEARCH,
                State.FINISHED,
                bandwidth,
                elapsed=elapsed,
                facts={"queue_seconds": 1e6},
            ),
            Run(2 * number + 1, number, Phase.CONFIRMATION, State.FINISHED, bandwidth, elapsed=1e6),
        )
        return type(trial(0))(number, trial(number).configuration, runs=runs)

    seen = History(BANDWIDTH, tuple(timed(k, 100.0 + k, 5.0 - k) for k in range(4)))
    assert make_pruner({"kind": "incumbent"}).bound(seen).seconds == pytest.approx(6.0)


# -- stopping


class Expecting(type(make_sampler("random"))):
    """A sampler that expects the same of every next run."""

    def __init__(self, gain, least=None):
        super().__init__()
        self.gain, self.least = gain, least

    def expected_improvement(self, space, history):
        return self.gain

    def least_cost(self, space, history):
        return self.least


def test_the_search_ends_where_little_more_is_to_be_had():
    settled, close = history(1.0, 1.5, 2.0, 2.1, 2.2), history(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    rule = {"expected_gain": {"uses": 33}}
    assert reason(rule, settled, Expecting(0.02)).startswith("another run is expected to gain 2.00%, ")
    assert reason(rule, settled, Expecting(0.04)) is None
    # A repeat would show which of those that look alike is best.
    strict = {"expected_gain": {"uses": 100}}
    assert reason(strict, settled, Expecting(0.0)) is not None
    assert reason(strict, close, Expecting(0.0)) is None


def test_launches_are_saved_once_nothing_untried_is_likely_to_be_better():
    seen = history((1.0, 1.01, 0.99), 1.5, 2.0, 2.1)
    known = Posterior.of(seen)
    best = float(np.min(known.mean + known.sd))
    assert nothing_more(LINE, seen, Expecting(0.0, best - 0.02)) == (
        "nothing that has not been tried is likely to gain 3% more"
    )
    assert nothing_more(LINE, seen, Expecting(0.0, best - 0.04)) is None
    assert nothing_more(LINE, seen, make_sampler("random")) is None, "it expects nothing"


def test_nothing_stops_by_default():
    assert reason({}, history(*[1.0] * 50), Expecting(0.0)) is None


def test_no_improvement_over_a_window():
    rule = {"improvement": {"window": 5, "minimum": 0.05}}
    falling = [10.0 / 1.2**k for k in range(12)]
    assert reason(rule, history(*falling)) is None
    assert "not 5% better" in reason(rule, history(*falling, *[falling[-1] * 1.01] * 3, *[falling[0]] * 5))
    assert reason(rule, history(*[1.0] * 5)) is None, "nothing to compare with yet"


def test_a_minimum_of_zero_goes_on_at_any_progress():
    rule = {"improvement": {"window": 2, "minimum": 0}}
    assert reason(rule, history(1.0, 1.0, 1.0, 1.0)) is None
    assert reason(rule, history(1.0, 1.0, 1.1, 1.2)) is not None


def test_expected_gain_below_the_cost_of_a_run():
    certain = Expecting(0.001)
    assert "saves less than one run in 100 runs" in reason({"expected_gain": {"uses": 100}}, history(1.0), certain)
    assert reason({"expected_gain": {"uses": 10_000}}, history(1.0), certain) is None
    assert reason({"expected_gain": {}}, history(1.0), make_sampler("random")) is None
    assert reason({"expected_gain": {"uses": 0}}, history(1.0), certain) is not None


# -- options


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_resampler, {"kind": "magic"}, "resampling: option kind = 'magic'"),
        (make_resampler, {"repeat": 3}, "resampling has no option 'repeat'"),
        (make_resampler, {"repeats": 0}, "must be at least 1"),
        (make_pruner, {"seconds": 7}, "pruning has no option 'seconds'"),
        (make_pruner, {"kind": "incumbent", "factor": "x"}, "option factor = 'x'"),
        (make_stopping, {"improvement": {"windw": 3}}, "stopping has no option 'improvement.windw'"),
        (make_stopping, {"runs": 3}, "stopping has no option 'runs'"),
    ],
)
def test_wrong_options_are_named(make, options, message):
    with pytest.raises(UserError) as caught:
        make(options)
    assert message in str(caught.value)
    assert "its options: " in caught.value.fix


def test_run_of_the_helpers_knows_every_state():
    assert run(0, 0, "pruned 3").value == 3
    assert {run(0, 0, word).state for word in ("failed", "pending", "running")} == {
        State.FAILED,
        State.PENDING,
        State.RUNNING,
    }
