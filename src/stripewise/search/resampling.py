"""Resampling: which trial to run once more, because a single run on a busy machine is noisy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import bdtr, ndtr, stdtrit

from stripewise.search.costs import Costs, Floats
from stripewise.search.posterior import Posterior
from stripewise.spec.options import Options, parse_options
from stripewise.spec.space import Space
from stripewise.spec.trial import History, Phase, State, Trial

_LEFTOVER = 0.1

Schedule = Literal["constant", "exponential", "multiplicative"]


class ResamplingOptions(Options):
    """The ``[resampling]`` table. The default and the first points are repeated like all others."""

    kind: Literal["none", "simple", "dynamic", "racing"] = Field(
        default="racing",
        description="never; every trial alike; until its interval is narrow; or only where it may change the choice",
    )
    repeats: int = Field(default=3, ge=1, le=1000, description="simple: runs of every trial")
    statistic: Literal["mean", "median"] = Field(
        default="mean", description="dynamic: whose 95% interval is looked at; that of a median needs six runs at least"
    )
    tolerance: float = Field(
        default=0.1, ge=0, le=10, description="dynamic: the interval's full width, as a fraction of the statistic"
    )
    schedule: Schedule = Field(
        default="constant", description="dynamic: how the tolerance shrinks with the number of the trial"
    )
    promising: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="dynamic: only trials at most this many times the median of those before",
    )
    promising_schedule: Schedule = Field(default="constant", description="dynamic: how that limit shrinks")
    decay: float = Field(default=0.95, gt=0, le=1, description="dynamic: base of the exponential schedules")
    floor: float = Field(default=0.1, ge=0, le=1, description="dynamic: schedules never shrink below this share")
    maximum: int = Field(default=10, ge=1, le=1000, description="dynamic, racing: most runs of a trial")
    worth: float = Field(
        default=0.01, ge=0, le=1, description="racing: expected gain of the final choice that is worth a run (0.01: 1%)"
    )
    share: float = Field(default=0.34, ge=0, le=1, description="racing: most of all search runs that may be repeats")


class Resampler(ABC):
    """Decides on repeats; like a sampler, it keeps nothing between calls."""

    def __init__(self, options: ResamplingOptions) -> None:
        self.options = options

    @abstractmethod
    def next(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """Give the number of the trial to run once more, or None to go on with new ones.

        Called by the tuning loop before each question to the sampler. Failed and pruned trials are never repeated, nor
        is a trial while one of its runs is still to end, except where every trial gets the same number of runs.
        """

    def last(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """Give a trial to repeat where every configuration has been tried and runs are left; None to end the search."""
        return None


class NoResampling(Resampler):
    """One run a trial."""

    def next(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """See :meth:`Resampler.next`."""
        return None


class SimpleResampling(Resampler):
    """The same number of runs for every trial that works."""

    def next(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """See :meth:`Resampler.next`."""
        for trial in history.trials:
            states = _search_states(trial)
            if State.FINISHED in states and len(states) < self.options.repeats:
                return trial.number
        return None


class DynamicResampling(Resampler):
    """Repeats a trial until the interval of its mean or median is narrow enough."""

    def next(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """See :meth:`Resampler.next`."""
        cost = Costs.of(history).cost
        for place, trial in enumerate(history.trials):
            if _repeatable(trial, self.options.maximum) and self._promising(cost, place):
                width = interval_width(np.asarray(trial.values), self.options.statistic)
                if width > self.options.tolerance * self._shrunk(self.options.schedule, place):
                    return trial.number
        return None

    def _promising(self, cost: Floats, place: int) -> bool:
        before = cost[:place][~np.isnan(cost[:place])]
        if self.options.promising is None or len(before) == 0:
            return True
        limit = self.options.promising * self._shrunk(self.options.promising_schedule, place)
        return bool(np.exp(cost[place] - np.median(before)) <= limit)

    def _shrunk(self, schedule: Schedule, place: int) -> float:
        """Share of its first value that a scheduled quantity has for the trial at a place."""
        shares = {"constant": 1.0, "exponential": self.options.decay**place, "multiplicative": 1 / (1 + place)}
        return max(self.options.floor, shares[schedule])


class Racing(Resampler):
    """Repeats the trial whose next run is expected to improve the final choice most, if that is worth a run.

    1. Stop if repeats already take their share of the runs.
    2. Learn a normal posterior of each trial's cost, with the noise of the repeats so far
       (:class:`stripewise.search.posterior.Posterior`).
    3. Compute the knowledge gradient of each trial: by how much one more run is expected to lower the least posterior
       mean (Frazier, Powell, Dayanik, SIAM J. Control Optim. 47, 2008). It is large for the incumbent and for trials
       within the noise of it, and falls as they are repeated.
    4. Repeat the trial with the largest, unless that is less than :attr:`ResamplingOptions.worth`.
    """

    def next(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """See :meth:`Resampler.next`."""
        runs = [len(_search_states(trial)) for trial in history.trials]
        repeats = sum(count - 1 for count in runs if count)
        if repeats + 1 > self.options.share * (sum(runs) + 1):
            return None
        return self._choose(history, self.options.worth)

    def last(self, space: Space, history: History, rng: np.random.Generator) -> int | None:
        """See :meth:`Resampler.last`: with nothing new to run, small gains are worth a run as well."""
        return self._choose(history, _LEFTOVER * self.options.worth)

    def _choose(self, history: History, worth: float) -> int | None:
        posterior = Posterior.of(history)
        gain = knowledge_gradient(posterior)
        gain[[not _repeatable(trial, self.options.maximum) for trial in posterior.trials]] = -np.inf
        if len(gain) == 0 or gain.max() < worth:
            return None
        return posterior.trials[int(np.argmax(gain))].number


_KINDS: dict[str, type[Resampler]] = {
    "none": NoResampling,
    "simple": SimpleResampling,
    "dynamic": DynamicResampling,
    "racing": Racing,
}


def make_resampler(options: Mapping[str, Any] | None = None) -> Resampler:
    """Make a resampler from the ``[resampling]`` table.

    Raises
    ------
    UserError
        Unknown option, or a value out of bounds.
    """
    parsed = parse_options(ResamplingOptions, options or {}, "resampling")
    return _KINDS[parsed.kind](parsed)


def knowledge_gradient(posterior: Posterior) -> Floats:
    """Expected fall of the lowest posterior mean through one more run of each trial, shape ``(n,)``."""
    mean, variance = posterior.mean, posterior.sd**2
    if len(mean) < 2:
        return np.zeros(len(mean))
    change = variance / np.sqrt(variance + posterior.noise**2)
    lowest, second = np.partition(mean, 1)[:2]
    rival = np.where(np.arange(len(mean)) == np.argmin(mean), second, lowest)
    z = -np.abs(mean - rival) / change
    return np.asarray(change * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)), dtype=np.float64)


def interval_width(values: Floats, statistic: Literal["mean", "median"]) -> float:
    """Full width of the 95% interval of a statistic, relative to it; infinite where too few values bound it.

    Student's interval of the mean; for the median the narrowest symmetric pair of order statistics that covers it in
    95% of samples of any distribution.
    """
    count = len(values)
    if statistic == "mean":
        if count < 2:
            return np.inf
        width, centre = 2 * stdtrit(count - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(count), np.mean(values)
    else:
        outer = int(np.sum(bdtr(np.arange(count + 1), count, 0.5) < 0.025))
        if outer < 1:
            return np.inf
        # From the outer-th value to the outer-th from the end: covers 1 - 2 P(X < outer), at least 95% by definition.
        ordered = np.sort(values)
        width, centre = ordered[count - outer] - ordered[outer - 1], np.median(values)
    return float(width / abs(centre)) if centre else (np.inf if width else 0.0)


def _search_states(trial: Trial) -> list[State]:
    return [run.state for run in trial.runs if run.phase is Phase.SEARCH]


def _repeatable(trial: Trial, maximum: int) -> bool:
    """Whether a trial has worked so far, nothing of it is still to end, and it may have more runs."""
    states = _search_states(trial)
    return State.FINISHED in states and set(states) <= {State.FINISHED, State.PRUNED} and len(states) < maximum
