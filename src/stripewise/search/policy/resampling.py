"""Resampling: which trial to run once more, because a single run on a busy machine is noisy or because it failed.

A run fails because of its settings or at random; only the latter deserves another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from pydantic import Field

from stripewise.options import Options, parse_options
from stripewise.search.belief.costs import Floats, RunCosts
from stripewise.search.belief.posterior import Posterior, expected_improvement, learn_noise, rank_trials
from stripewise.trial import History, Phase, Role, State, Trial

_LEFTOVER = 0.1
_DOUBT = 0.1
"""Probability that the noise is larger than what is taken for it where only repeats are left to run."""
_APART = 2
"""Other runs between two of the same trial."""
_FIRST = 4
"""Runs before the first control of the machine."""
_SOON = 2
"""Runs between two controls of a machine that may have changed."""
_QUANTILES = 63
"""Outcomes of a run that stand for all in the knowledge gradient."""


class ResamplingOptions(Options):
    """The ``[resampling]`` table. The default and the first points are repeated like all others."""

    kind: Literal["none", "simple", "racing"] = Field(
        default="racing", description="never; the same number for every trial; or only where it may change the choice"
    )
    repeats: int = Field(default=3, ge=1, le=1000, description="simple: runs of every trial")
    maximum: int = Field(default=10, ge=1, le=1000, description="racing: most runs of a trial")
    worth: float = Field(
        default=0.01, ge=0, le=1, description="racing: expected gain of the final choice that is worth a run (0.01: 1%)"
    )
    controls: bool = Field(
        default=True,
        description="racing: also run the default or the incumbent again now and then, to see changes of the machine",
    )
    share: float = Field(default=0.34, ge=0, le=1, description="racing: most of all search runs that may be repeats")


class Resampler:
    """Decides on repeats; like a sampler, it keeps nothing between calls.

    ``none`` never repeats a trial; ``simple`` gives the same number of runs to every trial that works. ``racing``
    repeats the trial whose next run is expected to improve the final choice most, if that is worth a run:

    1. Stop if repeats already take their share of the runs.
    2. Learn a normal posterior of each trial's cost, with the noise and the level of the machine of the repeats so far
       (:class:`stripewise.search.belief.posterior.Posterior`).
    3. Compute the knowledge gradient of each trial: by how much one more run is expected to lower the least posterior
       mean (Frazier, Powell, Dayanik, SIAM J. Control Optim. 47, 2008). It is large for the incumbent and for trials
       within the noise of it, and falls as they are repeated. While the level moves, a run of one trial also says how
       fast the machine is now, and so informs about others.
    4. Repeat the trial with the largest, unless that is less than :attr:`ResamplingOptions.worth`.
    5. Otherwise, control the machine: repeat the first trial (the default) or the incumbent, whichever ran longer ago,
       if there have been as many runs since the last repeat as before it. On a quiet machine this takes a run at about
       run 5, 11, 23, ...; once the repeats make a change likely, it is due after :data:`_SOON` runs.

    A trial that is among the latest :data:`_APART` runs is not repeated yet: runs far apart in time say more about it.
    """

    def __init__(self, options: ResamplingOptions) -> None:
        self.options = options

    def next(self, history: History) -> int | None:
        """Give the number of the trial to run once more, or None to run a new one.

        Called by the tuning loop before each question to the sampler. Trials that never ended well are never repeated,
        nor is a trial while one of its runs is still to end, except where every trial gets the same number of runs.
        """
        runs = [_search_states(trial) for trial in history.trials]
        if self.options.kind == "simple":
            short = (State.FINISHED in states and len(states) < self.options.repeats for states in runs)
            return next((trial.number for trial, less in zip(history.trials, short, strict=True) if less), None)
        repeats = sum(len(states) - 1 for states in runs if states)
        if self.options.kind == "none" or repeats + 1 > self.options.share * (sum(map(len, runs)) + 1):
            return None
        chosen = self._choose(Posterior.of(history), history, self.options.worth, _APART)
        return self._control(history) if chosen is None and self.options.controls else chosen

    def last(self, history: History, *, saves: bool = False) -> int | None:
        """Give a trial to repeat where every configuration has been tried and runs are left; None to end the search.

        With nothing new to run, small gains are worth a run as well to ``racing``, unless it saves what it can. A few
        values, or a few repeats that happen to agree, do not show that the machine is quiet. So the noise is taken at
        the upper end of what the repeats leave possible: the search ends when more runs would not matter then.
        """
        if self.options.kind != "racing":
            return None
        noise = learn_noise(history, _DOUBT)
        worth = self.options.worth if saves else _LEFTOVER * self.options.worth
        return self._choose(Posterior.of(history, noise), history, worth, 0)

    def _choose(self, posterior: Posterior, history: History, worth: float, apart: int) -> int | None:
        gain = knowledge_gradient(posterior)
        since = _runs_since(history)
        for place, trial in enumerate(posterior.trials):
            if not _repeatable(trial, self.options.maximum) or since[trial.number] < apart:
                gain[place] = -np.inf
        if len(gain) == 0 or gain.max() < worth:
            return None
        return posterior.trials[int(np.argmax(gain))].number

    def _control(self, history: History) -> int | None:
        finished = [trial for trial in history.trials if trial.values]
        if len(finished) < 2:
            return None
        since = _runs_since(history)
        planned = sum(len(_search_states(trial)) for trial in history.trials)
        repeated = [since[trial.number] for trial in history.trials if len(_search_states(trial)) > 1]
        due = _SOON if RunCosts.of(history).level.suspect else max(_FIRST, planned // 2)
        if min(repeated, default=planned - 1) < due:
            return None
        controls = [t for t in (finished[0], rank_trials(history)[0]) if _repeatable(t, 2 * self.options.maximum)]
        longest = max(controls, key=lambda trial: since[trial.number], default=None)
        return None if longest is None or since[longest.number] < _APART else longest.number


def make_resampler(options: Mapping[str, Any] | None = None) -> Resampler:
    """Make a resampler from the ``[resampling]`` table.

    Raises
    ------
    UserError
        Unknown option, or a value out of bounds.
    """
    return Resampler(parse_options(ResamplingOptions, options or {}, "resampling"))


def knowledge_gradient(posterior: Posterior) -> Floats:
    """Expected fall of the lowest posterior mean through one more run of each trial, shape ``(n,)``."""
    mean, variance = posterior.mean, posterior.sd**2
    if len(mean) < 2:
        return np.zeros(len(mean))
    if posterior.covariance is not None:
        return _dependent_gradient(posterior, posterior.covariance)
    change = variance / np.sqrt(variance + posterior.noise**2)
    lowest, second = np.partition(mean, 1)[:2]
    rival = np.where(np.arange(len(mean)) == np.argmin(mean), second, lowest)
    return expected_improvement(np.abs(mean - rival), change, 0.0)


def _dependent_gradient(posterior: Posterior, covariance: Floats) -> Floats:
    """As above, where a run of one trial informs about all of them (Frazier et al., INFORMS J. Comput. 21, 2009)."""
    # A run now costs what its trial does, plus the level of now, plus noise.
    with_run = covariance + posterior.to_next[:, None]
    own = np.diag(covariance) + 2 * posterior.to_next + posterior.next_variance + posterior.noise**2
    change = with_run / np.sqrt(own)
    z = scipy.special.ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    found = [float(np.mean(np.min(posterior.mean[:, None] + change[:, [i]] * z, axis=0))) for i in range(len(own))]
    return np.asarray(float(np.min(posterior.mean)) - np.array(found))


def _runs_since(history: History) -> dict[int, int]:
    """How many search runs were planned after the last one of each trial, by its number."""
    last = {
        trial.number: max((run.number for run in trial.runs if run.phase is Phase.SEARCH), default=-1)
        for trial in history.trials
    }
    numbers = np.sort([run.number for trial in history.trials for run in trial.runs if run.phase is Phase.SEARCH])
    return {trial: len(numbers) - int(np.searchsorted(numbers, number, "right")) for trial, number in last.items()}


def _search_states(trial: Trial) -> list[State]:
    return [run.state for run in trial.runs if run.phase is Phase.SEARCH]


def _repeatable(trial: Trial, maximum: int) -> bool:
    """Whether a trial has worked so far, nothing of it is still to end, and it may have more runs."""
    states = _search_states(trial)
    return State.FINISHED in states and all(state.ended for state in states) and len(states) < maximum


WORTH = 0.01
"""Expected gain of the best cost that is worth a run."""
_LATER = 3
_RANDOM = (0.5, 10.0)
_BREAKING = (0.5, 2.0)
"""Failures and runs (trials) that count as seen before the first."""


@dataclass(frozen=True)
class Failures:
    """What the failures of a history say about the program.

    Attributes
    ----------
    at_random : float
        Probability that a run of a configuration that works fails.
    breaking : float
        Probability that a configuration does not work at all.
    seen : bool
        Whether a configuration that works has failed at all.
    given_up : frozenset of str
        Reasons, without their numbers, for which configurations failed twice and never worked; without those that also
        made working configurations fail.
    """

    at_random: float
    breaking: float
    seen: bool
    given_up: frozenset[str]

    @classmethod
    def of(cls, history: History) -> Failures:
        """Learn from all runs, whatever their phase."""
        runs = failed = working = broken = 0
        harmless, suspect = set(), set()
        for trial in history.trials:
            states = [run.state for run in trial.runs if run.state.ended]
            reasons = {_strip_numbers(run.reason) for run in trial.runs if run.state is State.FAILED}
            failures = states.count(State.FAILED)
            if len(states) > failures and not trial.broken:
                working, runs, failed = working + 1, runs + len(states), failed + failures
                harmless |= reasons
            elif failures > 1 or trial.broken:
                broken += 1
                suspect |= reasons
        return cls(
            (failed + _RANDOM[0]) / (runs + _RANDOM[1]),
            (broken + _BREAKING[0]) / (broken + working + _BREAKING[1]),
            failed > 0,
            frozenset(suspect - harmless),
        )

    def chance(self, failures: int) -> float:
        """Probability that a configuration works which has failed so many times and never worked yet."""
        innocent = (1 - self.breaking) * self.at_random**failures
        return innocent / (innocent + self.breaking)


def find_failed_once(history: History, *, at_once: bool = False) -> list[Trial]:
    """Give the trials that failed in their only run, for a reason for which no configuration was given up.

    Parameters
    ----------
    at_once : bool
        Also those after whose failure hardly anything was run: what made them fail may still hold.
    """
    failures = Failures.of(history)
    latest = max((run.number for trial in history.trials for run in trial.runs), default=0)
    found = []
    for trial in history.trials:
        runs = [run for run in trial.runs if run.phase is Phase.SEARCH]
        if trial.role is not Role.CANDIDATE or [run.state for run in runs] != [State.FAILED] or trial.broken:
            continue
        waited = at_once or latest - runs[0].number >= _LATER
        if waited and _strip_numbers(runs[0].reason) not in failures.given_up:
            found.append(trial)
    return found


def choose_retry(history: History, trials: list[Trial], gain: Floats) -> int | None:
    """Choose the failed trial that deserves another run; None if none does.

    Its expected gain is the probability that it failed at random, times what it gains if it works. It is worth a run
    where that is as large as the least gain that is worth a repeat. After a second failure a trial is given up.

    Parameters
    ----------
    trials : list of Trial
        Of :func:`find_failed_once`.
    gain : ndarray, shape (n,)
        Expected improvement of each over the best cost if it works.
    """
    expected = Failures.of(history).chance(1) * gain
    if len(expected) == 0 or float(np.max(expected)) < WORTH:
        return None
    return trials[int(np.argmax(expected))].number


def _strip_numbers(reason: str) -> str:
    """A reason without its numbers: times and processes differ from run to run."""
    return re.sub(r"\d+", "0", reason)
