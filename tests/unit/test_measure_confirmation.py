"""The confirmation's rules: no claim without a gain, a claim where there is one, nothing free."""

import math
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.engine import confirmation as sequential
from stripewise.engine.confirmation import Assessment, Decision, assess, pairs_needed, same_against_same
from stripewise.requests.experiment import Confirmation
from stripewise.result import Interval, Same

RULE = {"maximize": False, "most_pairs": 24}


def normal(rng, shape):
    return rng.normal(0, 0.1, shape)


def cori(rng, shape):
    """Logarithm of the slow-down of writes on a production system (fitted to Cori and Edison)."""
    return rng.normal(-0.01, 0.11, shape) + (rng.random(shape) < 0.15) * rng.exponential(0.75, shape)


@cache
def claims(noise, gain: float, most: int, experiments: int = 200, first: int = sequential.FIRST_LOOK) -> int:
    """How many experiments claim a gain, by the rules as the tuner applies them."""
    rng = np.random.default_rng(11)
    claimed = 0
    for _ in range(experiments):
        default = np.exp(noise(rng, most))
        candidate = np.exp(noise(rng, most)) / gain
        for n in sequential.looks(most, first):
            decision = assess(default[:n], candidate[:n], maximize=False, most_pairs=most, first=first).decision
            if decision is not Decision.CONTINUE:
                break
        claimed += decision is Decision.PROVEN
    return claimed


@pytest.mark.slow
@pytest.mark.parametrize("noise", [normal, cori])
@pytest.mark.parametrize("most", [8, 14, 24, 30])
def test_nothing_to_gain_is_rarely_claimed(noise, most):
    assert claims(noise, 1.0, most) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("first", [6, 7])
def test_an_early_first_look_claims_as_rarely(first):
    assert claims(cori, 1.0, 18, first=first) <= 10


def test_every_random_order_of_eight_runs_is_as_likely_and_so_is_each_order_within_its_pairs():
    rng = np.random.default_rng(3)
    orders, first_of_pairs = Counter(), Counter()
    for _ in range(7000):
        order = sequential.shuffle(rng, 4)
        assert sorted(order) == [(pair, arm) for pair in range(4) for arm in ("candidate", "default")]
        orders[tuple(arm for _, arm in order)] += 1
        first_of_pairs[tuple(next(arm for number, arm in order if number == pair) for pair in range(4))] += 1
    assert len(orders) == 62 and max(orders.values()) < 160 and min(orders.values()) > 70
    assert all(("default",) * 2 in pairwise(one) and ("candidate",) * 2 in pairwise(one) for one in orders)
    assert len(first_of_pairs) == 16 and max(first_of_pairs.values()) < 530 and min(first_of_pairs.values()) > 345


def test_eight_runs_in_random_order_prove_a_gain_where_each_of_the_candidate_is_better():
    rule = {"maximize": False, "most_pairs": 14, "first": 4}
    default, candidate = [1.0, 1.1, 1.2, 1.3], [0.5, 0.6, 0.7, 0.8]
    assert assess(default[1:], candidate[1:], **rule).decision is Decision.CONTINUE
    found = assess(default, candidate, **rule)
    assert found.decision is Decision.PROVEN
    assert found.level == pytest.approx(1 / 70)
    ratios = sorted(a / b for a in default for b in candidate)
    assert (found.speedup.interval.low, found.speedup.interval.high) == pytest.approx((ratios[0], ratios[-1]))
    assert ratios[7] <= found.speedup.estimate <= ratios[8]
    # Every pair is won, but the slowest run of the candidate is slower than the fastest of the default.
    overlapping = assess([1.0, 1.1, 1.2, 1.3], [0.5, 0.6, 0.7, 1.05], **rule)
    assert overlapping.decision is Decision.CONTINUE
    # No gain beyond the one that was asked for before, nor for a candidate that fails.
    least = Confirmation(minimum_effect=1.3)
    assert assess(default, candidate, **rule, rule=least).decision is Decision.CONTINUE
    assert assess(default, [0.5, 0.6, 0.7, math.inf], **rule).decision is Decision.CONTINUE


@pytest.mark.parametrize(("confidence", "candidates", "pairs"), [(0.95, 1, 4), (0.95, 2, 5), (0.99, 1, 5)])
def test_the_fewest_runs_in_random_order_follow_the_level(confidence, candidates, pairs):
    rule = Confirmation(confidence=confidence, candidates=candidates)
    assert sequential.shuffled_pairs(rule) == pairs
    assert sequential.are_shuffled(pairs, rule) and not sequential.are_shuffled(sequential.provable_pairs(rule), rule)
    found = assess([2.0] * pairs, [1.0] * pairs, maximize=False, most_pairs=pairs, first=pairs, rule=rule)
    assert found.decision is Decision.PROVEN


@pytest.mark.slow
@pytest.mark.parametrize("changes", [0.0, 0.15])
def test_random_orders_claim_as_rarely_on_a_machine_that_changes(changes):
    rng, claimed = np.random.default_rng(12), 0
    for _ in range(300):
        order = sequential.shuffle(rng, 4)
        for pair in range(4, 14):
            order += [(pair, arm) for _, arm in sequential.shuffle(rng, 1)]
        values = {"default": np.ones(14), "candidate": np.ones(14)}
        times = np.exp(cori(rng, 28) + np.cumsum(rng.random(28) < changes) % 2)
        for (pair, arm), time in zip(order, times, strict=True):
            values[arm][pair] = time
        for n in sequential.looks(14, 4):
            seen = [values[arm][:n] for arm in ("default", "candidate")]
            decision = assess(*seen, maximize=False, most_pairs=14, first=4).decision
            if decision is not Decision.CONTINUE:
                break
        claimed += decision is Decision.PROVEN
    assert claimed <= 14


def test_an_early_look_that_was_planned_gives_up_what_is_hopeless_between_looks():
    default, slower = [1.0] * 5, [1.2, 1.1, 1.3, 1.2, 1.1]
    assert assess(default[:4], slower[:4], maximize=False, most_pairs=14, first=7).decision is Decision.CONTINUE
    assert assess(default, slower, maximize=False, most_pairs=14, first=7).decision is Decision.FUTILE
    assert assess(default, slower, maximize=False, most_pairs=14).decision is Decision.CONTINUE


@pytest.mark.slow
def test_a_tenth_is_found_under_a_tenth_of_noise():
    assert claims(normal, 1.1, 28) >= 160


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "most", "power"), [(1.5, 12, 0.76), (1.2, 24, 0.77), (1.5, 24, 0.97)])
def test_gains_on_a_production_system(gain, most, power):
    """Powers are those of 20,000 simulated experiments; 200 may fall three standard deviations short of them."""
    assert claims(cori, gain, most) >= 200 * power - 3 * math.sqrt(200 * power * (1 - power))


def test_a_large_gain_is_proven_at_the_first_look():
    rng = np.random.default_rng(0)
    default, candidate = np.exp(normal(rng, 8)), np.exp(normal(rng, 8)) / 3
    result = assess(default, candidate, **RULE)
    assert result.decision is Decision.PROVEN
    assert 2 < result.speedup.interval.low < result.speedup.estimate < result.speedup.interval.high < 4.5
    assert result.speedup.interval.level > 0.95  # the price of looking early


@pytest.mark.parametrize("first", [6, 7])
def test_an_early_first_look_claims_where_every_pair_is_won(first):
    rule = {"maximize": False, "most_pairs": 16, "first": first}
    default, won = [1.0 + k / 100 for k in range(first)], [0.4] * first
    assert assess(default[1:], won[1:], **rule).decision is Decision.CONTINUE
    found = assess(default, won, **rule)
    assert found.decision is Decision.PROVEN
    assert found.level == 0.5**first
    assert assess(default, [*won[1:], 1.2], **rule).decision is Decision.CONTINUE


def test_looks_after_an_early_first_one_share_what_it_leaves():
    assert sequential.looks(16, 7) == (7, 9, 11, 13, 16)
    assert sequential.looks(6, 7) == (6,)
    for most in (8, 12, 16, 24, 40):
        for first, paid in ((4, 1 / 70), (6, 0.5**6), (7, 0.5**7)):
            design = sequential.boundary(sequential.looks(most, first), 0.025, most, first=first)
            assert design.levels[0] == paid
            assert 0 < sum(sequential.crossing_probabilities(design, 0.0)) <= 0.025


# Ten pairs in favour but one, whose rank is the third: too little for the look at eight, plenty for an end at ten.
DOUBTFUL = [math.exp(step / 10) for step in (1, 2, -3, 4, 5, 6, 7, 8, 9, 10)]


def test_between_looks_nothing_is_decided():
    assert assess(DOUBTFUL[:8], [1.0] * 8, **RULE).decision is Decision.CONTINUE
    assert assess(DOUBTFUL, [1.0] * 10, **RULE).decision is Decision.CONTINUE


def test_no_pair_yet():
    assert assess([], [], **RULE) == Assessment(Decision.CONTINUE, None, 0.0)
    assert assess([], [], maximize=True, most_pairs=0).decision is Decision.NOT_PROVEN


def test_the_end_of_the_budget_between_looks_is_judged_with_what_is_left():
    ended = assess(DOUBTFUL, [1.0] * 10, **RULE, final=True)
    assert ended.decision is Decision.PROVEN
    assert ended.level > sequential.boundary((8, 12), 0.025, 24).levels[1]
    assert ended.speedup.interval.low > 1
    assert ended.speedup.pairs == 10
    assert assess([1.0] * 10, [1.0] * 10, **RULE, final=True).decision is Decision.NOT_PROVEN


def test_a_claim_stays_with_the_interval_it_was_paid_with():
    rng = np.random.default_rng(0)
    default, candidate = np.exp(normal(rng, 9)), np.exp(normal(rng, 9)) / 3
    at_look = assess(default[:8], candidate[:8], **RULE)
    assert at_look.decision is Decision.PROVEN
    assert assess(default[:8], candidate[:8], **RULE, final=True) == at_look
    assert assess(default, candidate, **RULE) == at_look


def test_what_was_given_up_is_not_tested_again():
    rng = np.random.default_rng(2)
    default, candidate = np.exp(normal(rng, 8)), np.exp(normal(rng, 8)) * 1.3
    assert assess(default, candidate, **RULE, final=True).decision is Decision.FUTILE


def test_slower_candidates_are_given_up_early():
    rng = np.random.default_rng(2)
    default, candidate = np.exp(normal(rng, 8)), np.exp(normal(rng, 8)) * 1.3
    assert assess(default, candidate, **RULE).decision is Decision.FUTILE


def test_minimum_effect_must_be_exceeded():
    rng = np.random.default_rng(2)
    default, candidate = np.exp(normal(rng, 24)), np.exp(normal(rng, 24)) / 1.2
    assert assess(default, candidate, **RULE).decision is Decision.PROVEN
    strict = assess(default, candidate, **RULE, rule=Confirmation(minimum_effect=1.2))
    assert strict.decision is Decision.NOT_PROVEN
    assert strict.speedup.interval.low < 1.2


def test_more_candidates_need_more_evidence():
    alone = sequential.boundary(sequential.looks(24), 0.025, 24).levels
    shared = sequential.boundary(sequential.looks(24), 0.025 / 3, 24).levels
    assert all(a >= b for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize("seed", range(20))
def test_claim_and_interval_agree(seed):
    rng = np.random.default_rng(seed)
    default, candidate = np.exp(normal(rng, 16)), np.exp(normal(rng, 16)) / 1.1
    result = assess(default, candidate, **RULE)
    assert (result.decision is Decision.PROVEN) == (result.speedup.interval.low > 1)


def test_failed_candidates_prevent_a_claim():
    default, candidate = [2.0] * 8, [1.0] * 7 + [math.inf]
    assert assess(default, [1.0] * 8, **RULE).decision is Decision.PROVEN
    assert assess(default, candidate, **RULE).decision is not Decision.PROVEN
    assert assess([math.inf] * 8, [math.inf] * 8, **RULE).decision is not Decision.PROVEN


def test_levels_spend_no_more_than_allowed():
    for most in (6, 8, 11, 12, 20, 24, 30, 48, 100):
        planned = sequential.looks(most)
        assert planned[-1] == most
        assert sorted(set(planned)) == list(planned)
        design = sequential.boundary(planned, 0.025, most)
        assert 0 < sum(sequential.crossing_probabilities(design, 0.0)) <= 0.025


def test_power_follows_simulation():
    known = ((8, 1.2, 0.1, 0.82), (12, 1.2, 0.2, 0.45), (24, 1.1, 0.1, 0.81), (30, 1.1, 0.2, 0.34))
    for pairs, gain, noise, simulated in known:
        assert sequential.power(pairs, gain, noise) == pytest.approx(simulated, abs=0.03)
    assert sequential.power(24, 1.0, 0.1) == 0.0


def test_pairs_needed():
    assert pairs_needed(math.log(3), 0.05) == 6
    assert 22 <= pairs_needed(math.log(1.1), 0.1) <= 26
    assert pairs_needed(math.log(1.1), 0.1) < pairs_needed(math.log(1.05), 0.1)
    assert pairs_needed(0.0, 0.1) == pairs_needed(1e-6, 0.1) == 1000


@given(st.floats(0.01, 2.0), st.floats(0.01, 0.5), st.integers(5, 60))
def test_pairs_beyond_those_at_hand_are_not_counted(gain, noise, most):
    needed = pairs_needed(gain, noise)
    assert pairs_needed(gain, noise, most=most) == (needed if needed <= most else 1000)


def test_same_against_same():
    rng = np.random.default_rng(4)
    steady = same_against_same(list(np.exp(normal(rng, 24))), True)
    assert steady.passed
    assert steady.interval.bounded and steady.interval.level == 0.95
    # Falling steadily: alternating who plays the candidate keeps a drift from looking like a gain.
    assert same_against_same([100.0 - i for i in range(24)], True).passed
    # A machine that swings with the order of the runs would make any candidate look good.
    swinging = [1.0, 2.0, 2.0, 1.0] * 6
    assert not same_against_same(swinging, True).passed
    assert same_against_same([1.0], True) is None
    assert same_against_same([1.0, math.inf, 0.0], True) is None


def test_same_against_same_rarely_stops_an_honest_session():
    rng = np.random.default_rng(6)
    passed = [same_against_same(list(np.exp(cori(rng, 24))), False).passed for _ in range(300)]
    assert sum(passed) >= 285


@pytest.mark.parametrize(
    ("same", "said"),
    [
        (
            Same(ratio=1.02, interval=Interval(0.9, 1.1)),
            "shows no gain, as it must (ratio 1.02, 95% interval 0.9 to 1.1).",
        ),
        (
            Same(ratio=4.42, interval=Interval(0.2, 18.0)),
            "is too noisy to tell whether it shows a gain (ratio 4.42, 95% interval ",
        ),
        (Same(ratio=4.42, runs=3), "The default was not tested against itself: 3 runs of it are too few."),
        (
            same_against_same([1.0, 2.0, 1.5], False),
            "The default was not tested against itself: 3 runs of it are too few.",
        ),
        (
            Same(ratio=1.5, interval=Interval(1.2, 1.8), passed=False),
            "shows a gain (ratio 1.5, 95% interval 1.2 to 1.8), so",
        ),
    ],
)
def test_the_default_against_itself_is_told_with_its_doubt(same, said):
    assert said in same.says
