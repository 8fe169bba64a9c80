"""Paired statistics of runs: ratios, intervals, tests.

Values of runs are positive; ratios are compared by their logarithms, where a speed-up and the same slow-down are
equally far from nothing. Everything is exact for small samples (signed ranks, order statistics), since a confirmation
has a dozen pairs, not a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from stripewise.result import Interval, Summary

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Speedup:
    """How much better the candidate is than the default, from pairs of runs; above 1 is better.

    Attributes
    ----------
    estimate : float
        Hodges and Lehmann's median, of the pairs' ratios or of those of all runs: robust to a disturbed run.
    interval : Interval
        From 0 to infinity where the pairs are too few to bound anything.
    geometric_mean : float
        Of the ratios; 0 if a run of the candidate failed, infinity if only runs of the default did.
    p10 : float
        Tenth percentile of the ratios: what one pair in ten falls short of.
    """

    estimate: float
    interval: Interval
    geometric_mean: float
    p10: float
    pairs: int


def log_speedups(default: Sequence[float], candidate: Sequence[float], maximize: bool) -> Floats:
    """Logarithms of the pairs' speed-ups, shape ``(n,)``; above 0 is better.

    A failed run is given as the worst value there is (0 where larger is better, infinity where smaller is); its pair
    then counts as infinitely bad or good, and as nothing if both failed.

    Raises
    ------
    ValueError
        If the arms differ in length or a value is negative or not a number.
    """
    a, b = np.asarray(default, dtype=float), np.asarray(candidate, dtype=float)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"{a.size} values of the default and {b.size} of the candidate are not pairs")
    if np.any(np.isnan(a) | (a < 0)) or np.any(np.isnan(b) | (b < 0)):
        raise ValueError("a value is negative or not a number")
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(b) - np.log(a) if maximize else np.log(a) - np.log(b)
    return np.where(np.isnan(logs), 0.0, logs)


def walsh_averages(values: Floats) -> Floats:
    """All averages of two values (each with itself as well), ascending, shape ``(n (n + 1) / 2,)``."""
    first, second = _pairs(len(values))
    with np.errstate(invalid="ignore"):
        averages = (values[first] + values[second]) / 2
    return np.sort(np.where(np.isnan(averages), 0.0, averages))


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of all pairs of ``n`` values, each with itself as well."""
    return np.triu_indices(n)


@lru_cache(maxsize=256)
def _signed_rank_cdf(n: int) -> Floats:
    """P(W <= k) of the signed-rank statistic under no effect, k from 0 to n (n + 1) / 2."""
    probability = np.zeros(n * (n + 1) // 2 + 1)
    probability[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probability)
        shifted[rank:] = probability[: len(probability) - rank]
        probability = (probability + shifted) / 2
    cdf: Floats = np.minimum(np.cumsum(probability), 1.0)
    return cdf


def signed_rank_p(logs: Floats, offset: float = 0.0) -> float:
    """Exact one-sided p-value that the logarithms lie above ``offset``.

    Ties and zeros count against the effect, so the test stays valid for discrete values.
    """
    n = len(logs)
    if n == 0:
        return 1.0
    not_above = int(np.sum(walsh_averages(np.asarray(logs, dtype=float)) <= offset))
    return float(_signed_rank_cdf(n)[not_above])


def smallest_p(n: int, significance: float) -> float:
    """The largest p-value at or below ``significance`` that ``n`` pairs can give; 0 if they can give none."""
    cdf = _signed_rank_cdf(n)
    below = cdf[cdf <= significance * (1 + 1e-12)]
    return float(below[-1]) if len(below) else 0.0


def estimate_speedup(
    default: Sequence[float], candidate: Sequence[float], maximize: bool, confidence: float = 0.95
) -> Speedup:
    """Estimate the speed-up with the exact interval that belongs to the signed-rank test.

    Below six pairs no interval at 95% can exclude 1: the bounds are then 0 and infinity.

    Parameters
    ----------
    default, candidate : sequence of float, shape (n,)
        Values of the pairs, in order.
    maximize : bool
        Whether larger values are better.
    confidence : float
        Two-sided.

    Raises
    ------
    ValueError
        See :func:`log_speedups`; also without any pair.
    """
    logs = log_speedups(default, candidate, maximize)
    n = len(logs)
    if n == 0:
        raise ValueError("no pairs")
    significance = (1 - confidence) / 2 * (1 + 1e-9)
    outside = int(np.searchsorted(_signed_rank_cdf(n), significance, side="right"))
    return _between(walsh_averages(logs), outside, logs, confidence)


def estimate_shuffled(
    default: Sequence[float], candidate: Sequence[float], maximize: bool, confidence: float = 0.95
) -> Speedup:
    """Estimate the speed-up from runs whose order was random as a whole, not only within pairs.

    The interval holds the ratios of all runs of the candidate to all of the default. It belongs to the rank-sum test at
    its most extreme: a speed-up by which one arm's runs would all be better than the other's is outside. Where fewer
    orders are possible than the confidence asks for, the bounds are 0 and infinity.

    See :func:`estimate_speedup`, whose parameters these are.
    """
    logs, n = log_speedups(default, candidate, maximize), len(default)
    every = np.sort(log_speedups(np.repeat(default, n).tolist(), np.tile(candidate, n).tolist(), maximize))
    outside = int(1 / math.comb(2 * n, n) <= (1 - confidence) / 2 * (1 + 1e-9))
    return _between(every, outside, logs, confidence)


def _between(ordered: Floats, outside: int, logs: Floats, confidence: float) -> Speedup:
    """Estimate by the median of ordered values, without so many of them at either end."""
    low = float(ordered[outside - 1]) if outside else -math.inf
    high = float(ordered[len(ordered) - outside]) if outside else math.inf
    return Speedup(
        estimate=_exp(float(np.median(ordered))),
        interval=Interval(_exp(low), _exp(high), confidence),
        geometric_mean=_geometric_mean(logs),
        p10=_exp(float(np.quantile(logs, 0.1, method="lower"))),
        pairs=len(logs),
    )


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def _geometric_mean(logs: Floats) -> float:
    if np.any(np.isneginf(logs)):
        return 0.0
    return _exp(float(np.mean(logs)))


def summarize_values(values: Sequence[float], confidence: float = 0.95) -> Summary:
    """Median with the exact interval between order statistics; None where the values are too few for one."""
    ordered = sorted(float(value) for value in values)
    n = len(ordered)
    if not n:
        return Summary()
    r = int(np.sum(scipy.special.bdtr(np.arange(n + 1), n, 0.5) < (1 - confidence) / 2))
    interval = Interval(ordered[r - 1], ordered[n - r], confidence) if r else None
    return Summary(value=float(np.median(ordered)), interval=interval, runs=n)
