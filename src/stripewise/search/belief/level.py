"""The level of the machine: by how much all runs cost more or less at one time than at another.

The cost of a run is that of its configuration, plus the level of the machine when it ran, plus noise. The level never
changes, or changes in one step, or in one step and back, or is an Ornstein-Uhlenbeck process in time (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.1), which follows drift and several steps. Only
repeats inform about it: what differs between two runs of the same configuration cannot come from the configuration.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stripewise.threads import one_thread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOVING = 0.2
"""Probability, before any run, that the machine changes during an experiment."""
_AMPLITUDES = (0.15, 0.4, 1.0)
_LENGTHS = (4.0, 16.0, 64.0)
_STEP = 0.7
"""Typical size of a step: a factor of two."""
_MOST_STEPS = 24
_MOST_TURNS = 12
_NOISES = (0.005, 0.015, 0.04, 0.08, 0.16, 0.32, 0.64)
_TYPICAL_NOISE = (float(np.log(0.06)), 0.7)
_FREEDOM = 4.0
"""Of the t distribution of the noise: an outlier costs the explanation without change little."""
_REWEIGHTINGS = 5
_NEGLIGIBLE = 1e-3
"""Probability of a hypothesis that is not averaged over."""
_CONFIGURATION_VARIANCE = 100.0
"""Of the cost of configurations: so wide that single runs say nothing about the level."""
_MOST_RUNS = 60
_MOST_OF_ONE = 20
"""Runs of one configuration, where there are too many."""
_MOST_MOMENTS = 256
_LEAST_CHANGE = float(np.log(1.15))
_CERTAIN = 2.5
_MOST = 0.7
"""Share of a change of which the data must be sure."""
_SETTLED = 0.1
"""Share of a change that counts as none yet, or as all but done."""


@dataclass(frozen=True)
class Change:
    """A change of the level that the data are sure of.

    Attributes
    ----------
    before, after : int
        Indices of the runs between which it took place; neighbours in time if it was sudden.
    rise : float
        By how much the cost of every configuration rose, on the scale of costs.
    """

    before: int
    after: int
    rise: float


@dataclass(frozen=True)
class Level:
    """Belief about the level when each run started, relative to the mean over all runs.

    Attributes
    ----------
    probability : float
        That the machine changed at all; an outlier at either end of the repeats may look the same.
    mean : ndarray, shape (k,)
        All 0 unless the machine probably changed.
    noise : float
        Standard deviation of the cost of a run at a known level; NaN unless the machine probably changed.
    moment : ndarray of int, shape (k,)
        Index of each run's time among the moments.
    covariance : ndarray, shape (m, m)
        Of the level at the moments; the last is the time of the next run.
    changes : tuple of Change
        In order of time.
    """

    probability: float
    mean: Floats
    noise: float = np.nan
    moment: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    covariance: Floats = field(default_factory=lambda: np.empty((0, 0)))
    changes: tuple[Change, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the machine probably changed."""
        return len(self.covariance) > 0

    @property
    def suspect(self) -> bool:
        """Whether the repeats made a change more probable than it was before any run."""
        return self.probability > _MOVING

    @classmethod
    def of(cls, started: Floats, configuration: Ints, cost: Floats) -> Level:
        """Learn the level from runs.

        1. Measure time in units of the typical distance between two runs, so that a pause is a long time.
        2. Compute the probability of the repeats without a change, with a step between any two of them, with a step
           and one back, and with processes of several amplitudes and lengths; all of them for several strengths of
           noise, which comes from a t distribution (as a scale mixture, by expectation and maximisation).
        3. If no change is the most probable, the level is 0 everywhere. Otherwise average the level over the other
           hypotheses (Hoeting et al., Stat. Sci. 14, 1999).

        Parameters
        ----------
        started : ndarray, shape (k,)
            When each run started, in any unit.
        configuration : ndarray of int, shape (k,)
            Number of its configuration.
        cost : ndarray, shape (k,)
        """
        quiet = np.zeros(len(cost))
        part = _repeats(started, configuration)
        if len(part) == 0 or np.ptp(started[part]) == 0:
            return cls(_MOVING, quiet)
        time = _clock(started)
        data = _repeats_of(tuple(time[part]), tuple(configuration[part]), tuple(cost[part]))
        weight = data.weights()
        probability = 1 - float(np.sum(weight[data.still]))
        sure = float(np.sum(weight[~data.doubtful]))
        if sure <= 0.5:
            return cls(probability, quiet)
        weight = np.where(data.doubtful, 0.0, weight) / sure
        moments, moment = _moments(time)
        mean, covariance = data.level(moments, weight)
        # Relative to the mean over all runs: no run says what the level is by itself.
        share = np.bincount(moment, minlength=len(moments)) / len(moment)
        mean = mean - share @ mean
        common = covariance @ share
        covariance = covariance - common - common[:, None] + share @ common
        noise = float(np.exp(weight @ np.log(data.noise)))
        changes = _list_changes(np.argsort(started, kind="stable"), moment, mean, covariance)
        return cls(probability, mean[moment], noise, moment, covariance, changes)


@lru_cache(maxsize=2)
def _repeats_of(time: tuple[float, ...], configuration: tuple[int, ...], cost: tuple[float, ...]) -> _Repeats:
    """Weigh all hypotheses, once for all the histories that differ in runs of other configurations."""
    with one_thread():
        return _Repeats(np.array(time), np.array(configuration), np.array(cost))


class _Kernel(Protocol):
    """Covariance of the level at some times with that at others."""

    def __call__(self, a: Floats, b: Floats) -> Floats:
        """Give it, shapes ``(a,)`` and ``(b,)`` to ``(a, b)``."""


def _keep_still(a: Floats, b: Floats) -> Floats:
    """No change."""
    return np.zeros((len(a), len(b)))


def _step(a: Floats, b: Floats, *, start: float, end: float) -> Floats:
    """One step, at any time between two with the same probability."""
    past = [np.clip((time - start) / (end - start), 0, 1) for time in (a, b)]
    return np.asarray(_STEP**2 * np.minimum(past[0][:, None], past[1]))


def _step_and_back(a: Floats, b: Floats, *, coming: tuple[float, float], going: tuple[float, float]) -> Floats:
    """A step within one interval of time, and the same step back within a later one."""
    return np.asarray(_step_and_back_factor(a, coming, going) @ _step_and_back_factor(b, coming, going).T)


def _drift(a: Floats, b: Floats, *, amplitude: float, length: float) -> Floats:
    """An Ornstein-Uhlenbeck process."""
    return np.asarray(amplitude**2 * np.exp(-np.abs(a[:, None] - b) / length))


class _Repeats:
    """Runs of repeated configurations under every hypothesis of the grid, ``h`` in number."""

    def __init__(self, time: Floats, configuration: Ints, cost: Floats) -> None:
        same = configuration[:, None] == configuration
        self._time = time
        # Without the mean of each configuration the numbers stay small beside the wide prior.
        self._cost = cost - same @ cost / same.sum(axis=1)
        self._common = _CONFIGURATION_VARIANCE * same
        ends = np.unique(time)
        ends = np.unique(ends[np.linspace(0, len(ends) - 1, _MOST_STEPS + 1).astype(np.int64)])
        steps = list(itertools.pairwise(ends))
        few = steps[:: -(-len(steps) // _MOST_TURNS)]
        visits = list(itertools.combinations(few, 2))
        drifts = list(itertools.product(_AMPLITUDES, _LENGTHS))
        moving: list[_Kernel] = [partial(_drift, amplitude=amplitude, length=length) for amplitude, length in drifts]
        self._kernels: list[_Kernel] = [
            _keep_still,
            *(partial(_step, start=start, end=end) for start, end in steps),
            *(partial(_step_and_back, coming=coming, going=going) for coming, going in visits),
            *moving,
        ]
        kinds = [len(kind) for kind in (steps, visits, drifts) if kind]
        share = np.array([1 - _MOVING, *(_MOVING / len(kinds) / size for size in kinds for _ in range(size))])
        self.noise = np.tile(_NOISES, len(self._kernels))
        # A step with one run on a side looks the same as an outlier.
        lone = [min(np.sum(time <= start), np.sum(time >= end)) < 2 for start, end in steps]
        self.still = np.arange(len(self.noise)) < len(_NOISES)
        lone += [np.sum((time >= coming[1]) & (time <= going[0])) < 2 for coming, going in visits]
        self.doubtful = self.still | np.repeat([False, *lone, *[False] * len(drifts)], len(_NOISES))
        prior = -0.5 * ((np.log(self.noise) - _TYPICAL_NOISE[0]) / _TYPICAL_NOISE[1]) ** 2
        self._log_prior = prior + np.repeat(np.log(share), len(_NOISES))
        factors = [
            np.zeros((len(time), 1)),
            *(_step_factor(time, start, end) for start, end in steps),
            *(_step_and_back_factor(time, coming, going) for coming, going in visits),
        ]
        sparse = _reweight_runs(_Sparse(factors, configuration, self._cost))
        dense = _reweight_runs(_Dense([kernel(time, time) + self._common for kernel in moving], self._cost))
        self._own, self._log_likelihood = (np.concatenate(parts) for parts in zip(sparse, dense, strict=True))

    def weights(self) -> Floats:
        """Posterior probability of each hypothesis, shape ``(h,)``; negligible ones are 0."""
        log = self._log_prior + self._log_likelihood
        weight = np.exp(log - np.max(log))
        weight = weight / np.sum(weight)
        kept = np.where(weight < _NEGLIGIBLE, 0.0, weight)
        return np.asarray(kept / np.sum(kept))

    def level(self, moments: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance of the level at some times, averaged over the hypotheses."""
        mean = np.zeros(len(moments))
        square = np.zeros((len(moments), len(moments)))
        for h in np.flatnonzero(weight):
            kernel = self._kernels[h // len(_NOISES)]
            total = kernel(self._time, self._time) + self._common + np.diag(self._own[h])
            cross = kernel(moments, self._time) @ np.linalg.inv(total)
            found = cross @ self._cost
            own = kernel(moments, moments) - cross @ kernel(self._time, moments)
            mean += weight[h] * found
            square += weight[h] * (own + np.outer(found, found))
        return mean, square - np.outer(mean, mean)


class _Fit(NamedTuple):
    """The costs of ``k`` runs under ``h`` hypotheses, each with a covariance of its own."""

    alpha: Floats
    """Inverse covariance times the costs, shape ``(h, k)``."""
    precision: Floats
    """Diagonal of the inverse covariance, shape ``(h, k)``."""
    log_determinant: Floats
    """Of the covariance, shape ``(h,)``."""


class _Covariances(Protocol):
    """Covariances of the costs under some hypotheses, without the variance of each run's own noise."""

    cost: Floats
    kernels: int

    def fit(self, own: Floats) -> _Fit:
        """Fit the costs with that variance, shape ``(h, k)``."""


class _Dense:
    """Covariances without structure."""

    def __init__(self, covariances: list[Floats], cost: Floats) -> None:
        self.cost = cost
        self.kernels = len(covariances)
        self._covariance = np.repeat(covariances, len(_NOISES), axis=0)

    def fit(self, own: Floats) -> _Fit:
        total = self._covariance + own[:, :, None] * np.eye(own.shape[1])
        precision = np.linalg.inv(total)
        return _Fit(precision @ self.cost, np.einsum("hii->hi", precision), np.linalg.slogdet(total)[1])


class _Sparse:
    """Covariances that are a matrix of low rank, given by its factors, plus what runs of a configuration share.

    Their inverse follows from that of the rest by the formula of Sherman, Morrison and Woodbury.
    """

    def __init__(self, factors: list[Floats], configuration: Ints, cost: Floats) -> None:
        self.cost = cost
        self.kernels = len(factors)
        rank = max(factor.shape[1] for factor in factors)
        padded = np.zeros((len(factors), len(cost), rank))
        for place, factor in enumerate(factors):
            padded[place, :, : factor.shape[1]] = factor
        self._factor = np.repeat(padded, len(_NOISES), axis=0)
        _, self._member = np.unique(configuration, return_inverse=True)
        self._groups = np.eye(int(self._member.max()) + 1)[self._member]

    def fit(self, own: Floats) -> _Fit:
        weight = 1 / own
        total = weight @ self._groups + 1 / _CONFIGURATION_VARIANCE
        share = weight / total[:, self._member]

        def solved(right: Floats) -> Floats:
            """The inverse without the factors times some columns."""
            scaled = weight[:, :, None] * right
            return np.asarray(scaled - share[:, :, None] * (self._groups.T @ scaled)[:, self._member])

        turned = solved(self._factor)
        inner = np.eye(self._factor.shape[2]) + np.swapaxes(self._factor, 1, 2) @ turned
        taken = turned @ np.linalg.inv(inner)
        alpha = solved(np.broadcast_to(self.cost[:, None], (*own.shape, 1)))[:, :, 0]
        alpha = alpha - (taken @ (np.swapaxes(turned, 1, 2) @ self.cost)[:, :, None])[:, :, 0]
        determinant = np.sum(np.log(own), axis=1) + np.sum(np.log(_CONFIGURATION_VARIANCE * total), axis=1)
        return _Fit(
            alpha,
            weight - weight * share - np.einsum("hkr,hkr->hk", taken, turned),
            determinant + np.linalg.slogdet(inner)[1],
        )


def _reweight_runs(covariances: _Covariances) -> tuple[Floats, Floats]:
    """Fit a t distribution of the noise: the variance of each run, ``(h, k)``, and the log likelihood, ``(h,)``."""
    variance = np.tile(np.square(_NOISES), covariances.kernels)[:, None] * np.ones(len(covariances.cost))
    own, scale = variance, np.ones_like(variance)
    for _ in range(_REWEIGHTINGS):
        fit = covariances.fit(own)
        square = (own * fit.alpha) ** 2 + own - own**2 * fit.precision
        scale = (_FREEDOM + 1) / (_FREEDOM + square / variance)
        own = variance / scale
    fit = covariances.fit(own)
    log = -0.5 * (fit.alpha @ covariances.cost + fit.log_determinant)
    return own, log + 0.5 * _FREEDOM * np.sum(np.log(scale) - scale + 1, axis=1)


def _step_factor(time: Floats, start: float, end: float) -> Floats:
    """Factor of :func:`_step` at the times of the runs: the step is the sum of those between neighbours in time."""
    inner = np.unique(time[(time >= start) & (time <= end)])
    return np.asarray(_STEP * np.sqrt(np.diff(inner) / (end - start)) * (time[:, None] >= inner[1:]))


def _step_and_back_factor(time: Floats, coming: tuple[float, float], going: tuple[float, float]) -> Floats:
    """Factor of :func:`_step_and_back`."""
    past = [np.clip((time - start) / (end - start), 0, 1) for start, end in (coming, going)]
    return np.asarray(_STEP * (past[0] - past[1])[:, None])


def _repeats(started: Floats, configuration: Ints) -> Ints:
    """Runs of configurations that ran more than once, in order; of too many, a spread over the whole time."""
    _, inverse, count = np.unique(configuration, return_inverse=True, return_counts=True)
    runs = np.flatnonzero(count[inverse] > 1)
    if len(runs) <= _MOST_RUNS:
        return runs
    in_time = runs[np.argsort(started[runs], kind="stable")]
    spread = []
    for one in np.flatnonzero(count > 1):
        own = in_time[inverse[in_time] == one]
        spread.append(own[np.unique(np.linspace(0, len(own) - 1, _MOST_OF_ONE).astype(np.int64))])
    spread.sort(key=lambda own: started[own[0]] - started[own[-1]])
    kept = np.cumsum([len(own) for own in spread]) <= _MOST_RUNS
    return np.sort(np.concatenate([own for own, keep in zip(spread, kept, strict=True) if keep]))


def _clock(started: Floats) -> Floats:
    """Time since the first run, in units of the typical distance between two; pauses are not typical."""
    gaps = np.diff(np.sort(started))
    usual = gaps[gaps <= np.quantile(gaps, 0.9)]
    unit = float(np.mean(usual))
    return (started - np.min(started)) / (unit if unit > 0 else 1.0)


def _moments(time: Floats) -> tuple[Floats, Ints]:
    """Times at which the level is asked for, the next run's at the end, and the index of each run's among them."""
    different = np.unique(time)
    if len(different) > _MOST_MOMENTS:
        different = np.unique(np.quantile(different, np.linspace(0, 1, _MOST_MOMENTS)))
    nearest = np.abs(np.searchsorted(0.5 * (different[1:] + different[:-1]), time))
    return np.append(different, different[-1] + 1.0), nearest.astype(np.int64)


def _list_changes(order: Ints, moment: Ints, mean: Floats, covariance: Floats) -> tuple[Change, ...]:
    """Cut the course of the level into changes: moves in one direction that are large and sure."""
    level, place = mean[moment[order]], moment[order]
    found = []
    for start, end in _cut_legs(level):
        rise = float(level[end] - level[start])
        # Not every moment is equally well known: most of the change between any two of the leg must be sure.
        leg = place[start : end + 1]
        part = np.sign(rise) * (level[None, start : end + 1] - level[start : end + 1, None])
        own = np.diag(covariance)[leg]
        sd = np.sqrt(np.maximum(1e-12, own[:, None] + own - 2 * covariance[np.ix_(leg, leg)]))
        sure = np.any(part / sd >= _CERTAIN, where=part >= _MOST * abs(rise)) if len(leg) > 1 else False
        if abs(rise) < _LEAST_CHANGE or not sure:
            continue
        # The leg without its level ends: where it leaves the old level, and where it has reached the new one.
        done = (level[start : end + 1] - level[start]) / rise
        before = start + int(np.flatnonzero(done <= _SETTLED)[-1])
        after = start + int(np.flatnonzero(done >= 1 - _SETTLED)[0])
        found.append(Change(int(order[min(before, after - 1)]), int(order[after]), rise))
    return tuple(found)


def _cut_legs(level: Floats) -> list[tuple[int, int]]:
    """Cut a course at its turning points; a turn counts once the course has gone back by a change worth reporting."""
    turns, extreme = [0], 0
    for here in range(1, len(level)):
        up = level[extreme] - level[turns[-1]]
        if (level[here] - level[extreme]) * up >= 0:
            extreme = here
        elif abs(level[here] - level[extreme]) >= _LEAST_CHANGE:
            if abs(up) >= _LEAST_CHANGE:
                turns.append(extreme)
            else:
                turns[-1] = extreme
            extreme = here
    return list(itertools.pairwise([*turns, extreme]))
