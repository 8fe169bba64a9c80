"""Paired statistics against brute force, textbook values and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stripewise.result import Summary
from stripewise.search.statistics import (
    estimate_speedup,
    log_speedups,
    signed_rank_p,
    smallest_p,
    summarize_values,
    walsh_averages,
)

POSITIVE = st.floats(min_value=0.01, max_value=1e6)


def brute_force_p(values: list[float]) -> float:
    """Share of all sign changes whose statistic is at least the observed one."""
    ranks = np.argsort(np.argsort(np.abs(values))) + 1
    observed = sum(rank for rank, value in zip(ranks, values, strict=True) if value > 0)
    signs = itertools.product([0, 1], repeat=len(values))
    sums = [sum(r for r, keep in zip(ranks, kept, strict=True) if keep) for kept in signs]
    return float(np.mean([total >= observed for total in sums]))


@pytest.mark.parametrize("seed", range(5))
def test_signed_rank_p_is_exact(seed):
    values = np.random.default_rng(seed).normal(0.5, 1.0, 9)
    assert signed_rank_p(values) == pytest.approx(brute_force_p(list(values)))
    assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(values, alternative="greater").pvalue)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=6, max_size=20), st.booleans())
def test_interval_and_test_agree(pairs, maximize):
    default, candidate = [a for a, _ in pairs], [b for _, b in pairs]
    found = estimate_speedup(default, candidate, maximize)
    assert found.interval.low <= found.estimate <= found.interval.high
    logs = log_speedups(default, candidate, maximize)
    assert (found.interval.low > 1) == (signed_rank_p(logs) <= 0.025)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=12))
def test_exchanging_the_arms_inverts_the_ratio(pairs):
    default, candidate = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = estimate_speedup(default, candidate, True), estimate_speedup(candidate, default, True)
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.interval.low == pytest.approx(1 / back.interval.high if math.isfinite(back.interval.high) else 0.0)


@pytest.mark.parametrize("n", range(1, 6))
def test_fewer_than_six_pairs_exclude_nothing(n):
    found = estimate_speedup([1.0] * n, [100.0] * n, True)
    assert (found.interval.low, found.interval.high, found.interval.bounded) == (0.0, math.inf, False)
    assert found.estimate == pytest.approx(100.0)


def test_six_unanimous_pairs_exclude_one():
    found = estimate_speedup([10.0] * 6, [12.0, 12.5, 13.0, 12.2, 12.9, 12.1], True)
    assert found.interval.low == pytest.approx(1.2)
    assert found.interval.bounded


def test_direction_follows_the_objective():
    assert estimate_speedup([2.0] * 3, [1.0] * 3, maximize=False).estimate == pytest.approx(2.0)
    assert estimate_speedup([2.0] * 3, [1.0] * 3, maximize=True).estimate == pytest.approx(0.5)


def test_a_failed_candidate_counts_as_the_worst():
    good = estimate_speedup([10.0] * 8, [20.0] * 8, True)
    failed = estimate_speedup([10.0] * 8, [20.0] * 7 + [0.0], True)
    assert failed.interval.low <= good.interval.low
    assert failed.interval.low == 0.0
    assert failed.geometric_mean == 0.0
    assert failed.p10 == 0.0
    assert estimate_speedup([0.0] * 8, [0.0] * 8, True).estimate == 1.0


def test_coverage_of_the_interval():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        noise = np.exp(rng.standard_t(3, (2, 12)) * 0.1)
        found = estimate_speedup(list(noise[0]), list(1.3 * noise[1]), True)
        inside += found.interval.low <= 1.3 <= found.interval.high
    assert inside >= 0.93 * 400


def test_unpaired_or_impossible_values_are_refused():
    with pytest.raises(ValueError, match="not pairs"):
        estimate_speedup([1.0], [1.0, 2.0], True)
    with pytest.raises(ValueError, match="negative"):
        estimate_speedup([1.0], [-1.0], True)
    with pytest.raises(ValueError, match="no pairs"):
        estimate_speedup([], [], True)


def test_walsh_averages_of_three():
    assert list(walsh_averages(np.array([0.0, 1.0, 4.0]))) == [0.0, 0.5, 1.0, 2.0, 2.5, 4.0]


@pytest.mark.parametrize(("n", "place"), [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (30, 10)])
def test_median_interval_uses_the_textbook_order_statistics(n, place):
    values = list(range(1, n + 1))
    found = summarize_values(values[::-1])
    assert (found.interval.low, found.interval.high) == (place, n + 1 - place)
    assert stats.binom.cdf(place - 1, n, 0.5) <= 0.025 < stats.binom.cdf(place, n, 0.5)


def test_median_of_few_values_has_no_interval():
    found = summarize_values([3.0, 1.0, 2.0])
    assert (found.value, found.interval, found.runs) == (2.0, None, 3)
    assert summarize_values([]) == Summary()


def test_smallest_p():
    assert smallest_p(8, 0.025) == pytest.approx(5 / 256)
    assert smallest_p(5, 0.025) == 0.0
