"""How runs on a shared file system vary: from run to run, from day to day, and when the machine changes.

Most runs differ little, and some are far slower because of what others do. So the logarithm of the slowdown is a narrow
normal distribution to which, now and then, an exponential delay is added: left-skewed in bandwidth, and not log-normal.
The numbers were fitted to 12,701 production runs of a year on Cori and Edison of NERSC, relative to the median of 30
days (NERSC/tokio-abcutils; project notes on the simulated cluster). What days have in common, changes of regime and the
load of others are switched apart from it.

All randomness comes from counters: the same run of the same seed is slowed in the same way whatever ran before it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from stripewise.lab.site import Background, Drift, Slowdown

Floats = NDArray[np.float64]

WRITE, READ, LOAD, NODE, OST, QUEUE = range(6)
"""Streams of random numbers, one for each thing that is drawn for a run."""
_DAYS, _REGIMES = 100, 101
_SCORES = np.linspace(-6.5, 6.5, 5201)
_MOST_LOAD = 0.95


def cdf(law: Slowdown, x: ArrayLike) -> Floats:
    """Give the probability that ln(slowdown) is at most ``x``, shape as ``x``.

    ln(slowdown) = Normal(mean, sigma) + Bernoulli(probability) * Exponential(tau); a run that is delayed follows the
    exponentially modified normal distribution, whose distribution function has a closed form.
    """
    z = (np.asarray(x, dtype=float) - law.mean) / law.sigma
    ordinary = ndtr(z)
    if law.probability == 0 or law.tau == 0:
        return np.asarray(ordinary)
    ratio = law.sigma / law.tau
    tail = np.exp(np.minimum(-z * ratio + ratio**2 / 2 + log_ndtr(z - ratio), 0.0))
    return np.asarray(ordinary - law.probability * tail)


def of_scores(law: Slowdown, scores: ArrayLike) -> Floats:
    """Turn standard normal scores into ln(slowdown), shape as ``scores``: large scores are slow runs."""
    if law.sigma == 0 and (law.probability == 0 or law.tau == 0):
        return np.full(np.shape(scores), law.mean)
    return np.asarray(np.interp(np.asarray(scores, dtype=float), _SCORES, _quantiles(law)))


@lru_cache(maxsize=64)
def _quantiles(law: Slowdown) -> Floats:
    """ln(slowdown) at the grid of scores, by inverting the distribution function."""
    law = law.model_copy(update={"sigma": max(law.sigma, 1e-6)})
    low, high = law.mean - 8 * law.sigma, law.mean + 8 * law.sigma
    far = high + 25 * law.tau
    x = np.unique(np.concatenate([np.linspace(low, high, 6000), np.linspace(high, far, 6000)]))
    p = np.maximum.accumulate(cdf(law, x))
    distinct = np.concatenate([[True], np.diff(p) > 0])
    return np.asarray(np.interp(ndtr(_SCORES), p[distinct], x[distinct]))


def run_scores(numbers: ArrayLike, seed: int, stream: int) -> Floats:
    """Give a standard normal score for each run, shape as ``numbers``.

    Parameters
    ----------
    numbers : array of int
        The runs' numbers; the same number of the same seed and stream gives the same score.
    """
    return np.asarray(ndtri(run_uniforms(numbers, seed, stream)))


def run_uniforms(numbers: ArrayLike, seed: int, stream: int) -> Floats:
    """Give a uniform number between 0 and 1, exclusive, for each run: a hash, so that no order matters."""
    which = np.asarray(numbers, dtype=np.int64)
    # At least one dimension: numpy warns of the overflow of scalars, and overflow is the point of the mixing.
    bits = _mix_counters(np.atleast_1d(which).astype(np.uint64), seed, stream)
    return np.asarray(((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53).reshape(which.shape)


def slowdowns(law: Slowdown, numbers: ArrayLike, seed: int, stream: int = WRITE) -> Floats:
    """Give the factor by which the data phases of runs take longer than on a machine without noise, shape (n,).

    Parameters
    ----------
    numbers : array of int, shape (n,)
        The runs' numbers.
    stream : int
        :data:`WRITE` or :data:`READ`: the two phases of a run are slowed apart.
    """
    return np.exp(of_scores(law, run_scores(numbers, seed, stream)))


def day_factors(drift: Drift, days: ArrayLike, seed: int) -> Floats:
    """Give the slowdown that all runs of a day have in common, shape as ``days``; 1 where drift is switched off.

    ln(factor) is first-order autoregressive over days, plus a level that changes with each regime. Regimes last
    ``step_days`` on average and follow one another at random; the first has level 0.

    Parameters
    ----------
    days : array of float
        Days since the site's first, at least 0.

    Raises
    ------
    ValueError
        If a day is before the site's first.
    """
    when = np.asarray(days, dtype=float)
    if when.min(initial=0.0) < 0:
        raise ValueError("a day before the site's first")
    if not drift.enabled:
        return np.ones(when.shape)
    whole = np.floor(when).astype(np.int64)
    length = int(whole.max(initial=0)) + 1
    total = drift.sigma * _autoregressive(_generator(seed, _DAYS).standard_normal(length), drift.correlation)
    if drift.step_days > 0:
        draws = _generator(seed, _REGIMES).standard_normal((length, 2))
        changes = ndtr(draws[:, 0]) < -np.expm1(-1.0 / drift.step_days)
        changes[0] = False
        levels = np.where(changes, drift.step_sigma * draws[:, 1], 0.0)
        began = np.maximum.accumulate(np.where(changes, np.arange(length), 0))
        total = total + levels[began]
    return np.asarray(np.exp(total[whole]))


def spare_shares(background: Background, numbers: ArrayLike, seed: int) -> Floats:
    """Give the part of servers and OSTs that other users leave to each run, shape (n,): above 0, at most 1."""
    scores = run_scores(numbers, seed, LOAD)
    used = background.load * (1 + background.spread * scores)
    return np.asarray(1 - np.clip(used, 0.0, _MOST_LOAD))


def _autoregressive(fresh: Floats, coefficient: float) -> Floats:
    """Standard normal states with the given lag-one correlation, from independent ones."""
    states = np.array(fresh)
    scale = np.sqrt(1 - coefficient**2)
    for day in range(1, len(states)):
        states[day] = coefficient * states[day - 1] + scale * fresh[day]
    return states


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed % 2**64, stream]))


def _mix_counters(numbers: NDArray[np.uint64], seed: int, stream: int) -> NDArray[np.uint64]:
    """Mix counters into random bits (SplitMix64: Steele, Lea and Flood, 2014): the seed first, then the numbers."""
    key = np.array([(seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03 + 1) % 2**64], dtype=np.uint64)
    return _splitmix(_splitmix(key) + numbers * np.uint64(0x9E3779B97F4A7C15))


def _splitmix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
