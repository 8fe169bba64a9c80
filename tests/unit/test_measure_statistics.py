"""Paired statistics against brute force, textbook values and simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stripewise.measure.statistics import (
    bonferroni,
    holm,
    log_speedups,
    median_ci,
    paired_speedup,
    signed_rank_p,
    smallest_p,
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
    interval = paired_speedup(default, candidate, maximize)
    assert interval.low <= interval.estimate <= interval.high
    logs = log_speedups(default, candidate, maximize)
    assert (interval.low > 1) == (signed_rank_p(logs) <= 0.025)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=12))
def test_exchanging_the_arms_inverts_the_ratio(pairs):
    default, candidate = [a for a, _ in pairs], [b for _, b in pairs]
    there, back = paired_speedup(default, candidate, True), paired_speedup(candidate, default, True)
    assert there.estimate == pytest.approx(1 / back.estimate)
    assert there.low == pytest.approx(1 / back.high if math.isfinite(back.high) else 0.0)


@pytest.mark.parametrize("n", range(1, 6))
def test_fewer_than_six_pairs_exclude_nothing(n):
    interval = paired_speedup([1.0] * n, [100.0] * n, True)
    assert (interval.low, interval.high, interval.bounded) == (0.0, math.inf, False)
    assert interval.estimate == pytest.approx(100.0)


def test_six_unanimous_pairs_exclude_one():
    interval = paired_speedup([10.0] * 6, [12.0, 12.5, 13.0, 12.2, 12.9, 12.1], True)
    assert interval.low == pytest.approx(1.2)
    assert interval.bounded


def test_direction_follows_the_objective():
    assert paired_speedup([2.0] * 3, [1.0] * 3, maximize=False).estimate == pytest.approx(2.0)
    assert paired_speedup([2.0] * 3, [1.0] * 3, maximize=True).estimate == pytest.approx(0.5)


def test_a_failed_candidate_counts_as_the_worst():
    good = paired_speedup([10.0] * 8, [20.0] * 8, True)
    failed = paired_speedup([10.0] * 8, [20.0] * 7 + [0.0], True)
    assert failed.low <= good.low
    assert failed.low == 0.0
    assert failed.geometric_mean == 0.0
    assert failed.p10 == 0.0
    assert paired_speedup([0.0] * 8, [0.0] * 8, True).estimate == 1.0


def test_coverage_of_the_interval():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(400):
        noise = np.exp(rng.standard_t(3, (2, 12)) * 0.1)
        interval = paired_speedup(list(noise[0]), list(1.3 * noise[1]), True)
        inside += interval.low <= 1.3 <= interval.high
    assert inside >= 0.93 * 400


def test_unpaired_or_impossible_values_are_refused():
    with pytest.raises(ValueError, match="no pairs"):
        paired_speedup([1.0], [1.0, 2.0], True)
    with pytest.raises(ValueError, match="negative"):
        paired_speedup([1.0], [-1.0], True)
    with pytest.raises(ValueError, match="no pairs"):
        paired_speedup([], [], True)


def test_walsh_averages_of_three():
    assert list(walsh_averages(np.array([0.0, 1.0, 4.0]))) == [0.0, 0.5, 1.0, 2.0, 2.5, 4.0]


@pytest.mark.parametrize(("n", "place"), [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (30, 10)])
def test_median_interval_uses_the_textbook_order_statistics(n, place):
    values = list(range(1, n + 1))
    interval = median_ci(values[::-1])
    assert (interval.low, interval.high) == (place, n + 1 - place)
    assert stats.binom.cdf(place - 1, n, 0.5) <= 0.025 < stats.binom.cdf(place, n, 0.5)


def test_median_of_few_values_has_no_interval():
    interval = median_ci([3.0, 1.0, 2.0])
    assert (interval.median, interval.low, interval.high, interval.runs) == (2.0, None, None, 3)


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=8))
def test_holm_lies_between_raw_and_bonferroni(p_values):
    for raw, stepped, plain in zip(p_values, holm(p_values), bonferroni(p_values), strict=True):
        assert raw <= stepped <= plain <= 1


def test_holm_of_a_textbook_case():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_smallest_p():
    assert smallest_p(8, 0.025) == pytest.approx(5 / 256)
    assert smallest_p(5, 0.025) == 0.0
