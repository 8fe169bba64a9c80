"""The noise of the simulated cluster has the measured percentiles, and each run its own, whatever the order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from stripewise.lab import noise
from stripewise.lab.site import Background, Drift, Noise, Slowdown

PERCENTS = (1, 5, 10, 25, 75, 95, 99)
# Bandwidth over its 30-day median: 12,701 production runs on Cori and Edison (NERSC/tokio-abcutils, BSD).
MEASURED = {
    "write": (0.13, 0.47, 0.73, 0.93, 1.05, 1.16, 1.37),
    "read": (0.23, 0.53, 0.68, 0.89, 1.06, 1.23, 1.46),
}


def percentiles(law: Slowdown, percents: Sequence[float]) -> NDArray[np.float64]:
    """Give percentiles of bandwidth over its median, as measurements are published."""
    slow = noise.of_scores(law, norm.ppf(1 - np.asarray(percents) / 100))
    return np.exp(float(noise.of_scores(law, 0.0)) - slow)


@pytest.mark.parametrize("operation", ["write", "read"])
def test_percentiles_are_within_a_tenth_of_the_measured_ones(operation: str) -> None:
    law = getattr(Noise(), operation)
    exact = percentiles(law, PERCENTS)
    assert exact == pytest.approx(MEASURED[operation], rel=0.10)
    drawn = 1 / noise.slowdowns(law, np.arange(100_000), seed=5)
    assert np.percentile(drawn, PERCENTS) / np.median(drawn) == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize("operation", ["write", "read"])
def test_bandwidth_is_skewed_to_the_left(operation: str) -> None:
    bandwidth = 1 / noise.slowdowns(getattr(Noise(), operation), np.arange(50_000), seed=2)
    centred = np.log(bandwidth) - np.log(bandwidth).mean()
    assert (centred**3).mean() / (centred**2).mean() ** 1.5 < -1.5
    # A log-normal of the same spread would have its 1st and 99th percentile equally far from the median.
    low, high = np.percentile(bandwidth, [1, 99]) / np.median(bandwidth)
    assert 1 / low > 2 * high


def test_the_distribution_function_is_that_of_the_sum_it_describes() -> None:
    law = Slowdown(mean=0.2, sigma=0.3, probability=0.4, tau=0.6)
    rng = np.random.default_rng(0)
    sample = rng.normal(0.2, 0.3, 200_000) + (rng.random(200_000) < 0.4) * rng.exponential(0.6, 200_000)
    for x in (-0.5, 0.0, 0.3, 1.0, 3.0):
        assert noise.cdf(law, x) == pytest.approx((sample <= x).mean(), abs=0.005)


def test_without_spread_there_is_no_noise() -> None:
    still = Slowdown(mean=0.0, sigma=0.0, probability=0.0, tau=0.0)
    assert noise.slowdowns(still, np.arange(5), seed=1).tolist() == [1.0] * 5
    rare = Slowdown(mean=0.0, sigma=0.0, probability=0.2, tau=0.5)
    drawn = np.log(noise.slowdowns(rare, np.arange(50_000), seed=1))
    assert (np.abs(drawn) < 1e-4).mean() == pytest.approx(0.8, abs=0.01)
    assert drawn[drawn > 1e-4].mean() == pytest.approx(0.5, rel=0.05)


def test_a_run_draws_the_same_in_any_company() -> None:
    together = noise.run_scores([0, 7, 3], seed=9, stream=noise.WRITE)
    assert noise.run_scores(7, seed=9, stream=noise.WRITE) == together[1]
    assert noise.run_scores([3], seed=9, stream=noise.WRITE)[0] == together[2]
    assert noise.run_scores(7, seed=10, stream=noise.WRITE) != together[1]
    assert noise.run_scores(7, seed=9, stream=noise.READ) != together[1]


def test_streams_and_seeds_are_independent() -> None:
    numbers = np.arange(20_000)
    columns = [noise.run_scores(numbers, seed, stream) for seed in (0, 1, 2) for stream in (noise.WRITE, noise.READ)]
    correlations = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(correlations).max() < 0.03
    for column in columns:
        assert column.mean() == pytest.approx(0, abs=0.03)
        assert column.std() == pytest.approx(1, abs=0.03)
        assert np.corrcoef(column[1:], column[:-1])[0, 1] == pytest.approx(0, abs=0.03)


def test_drift_is_off_unless_asked_for() -> None:
    assert noise.day_factors(Drift(), [0.0, 5.5, 300.0], seed=1).tolist() == [1.0, 1.0, 1.0]


def test_days_are_autoregressive() -> None:
    drift = Drift(enabled=True, correlation=0.4, sigma=0.1)
    logs = np.log(noise.day_factors(drift, np.arange(20_000), seed=3))
    assert logs.std() == pytest.approx(0.1, rel=0.05)
    assert np.corrcoef(logs[1:], logs[:-1])[0, 1] == pytest.approx(0.4, abs=0.03)
    # Runs of one day share it, and what came later does not change the past.
    assert noise.day_factors(drift, [3.1, 3.9], seed=3).tolist() == [np.exp(logs[3])] * 2


def test_regimes_last_as_long_as_asked() -> None:
    drift = Drift(enabled=True, correlation=0.0, sigma=0.0, step_days=50, step_sigma=0.3)
    logs = np.log(noise.day_factors(drift, np.arange(20_000), seed=3))
    assert logs[0] == 0
    changes = np.flatnonzero(np.diff(logs))
    assert len(changes) == pytest.approx(400, rel=0.15)
    assert np.unique(logs).std() == pytest.approx(0.3, rel=0.15)


def test_there_is_no_day_before_the_first() -> None:
    with pytest.raises(ValueError, match="before the site's first"):
        noise.day_factors(Drift(enabled=True), [-0.5], seed=1)


def test_others_leave_a_share() -> None:
    assert noise.spare_shares(Background(), [1, 2], seed=0).tolist() == [1.0, 1.0]
    shares = noise.spare_shares(Background(load=0.3, spread=0.2), np.arange(20_000), seed=0)
    assert shares.mean() == pytest.approx(0.7, abs=0.01)
    assert shares.std() == pytest.approx(0.06, rel=0.05)
    crowded = noise.spare_shares(Background(load=0.9, spread=3.0), np.arange(1000), seed=0)
    assert crowded.min() > 0
    assert crowded.max() <= 1
