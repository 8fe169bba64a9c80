"""Failures: whether a run failed because of its settings or at random, and which trial deserves another run for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stripewise.search.belief.costs import Floats
from stripewise.trial import History, Phase, Role, State, Trial

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
            reasons = {_plain(run.reason) for run in trial.runs if run.state is State.FAILED}
            failures = states.count(State.FAILED)
            if len(states) > failures:
                working, runs, failed = working + 1, runs + len(states), failed + failures
                harmless |= reasons
            elif failures > 1:
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


def failed_once(history: History, *, at_once: bool = False) -> list[Trial]:
    """Give the trials that failed in their only run, for a reason for which no configuration was given up.

    Parameters
    ----------
    history : History
    at_once : bool
        Also those after whose failure hardly anything was run: what made them fail may still hold.
    """
    failures = Failures.of(history)
    latest = max((run.number for trial in history.trials for run in trial.runs), default=0)
    found = []
    for trial in history.trials:
        runs = [run for run in trial.runs if run.phase is Phase.SEARCH]
        if trial.role is not Role.CANDIDATE or [run.state for run in runs] != [State.FAILED]:
            continue
        waited = at_once or latest - runs[0].number >= _LATER
        if waited and _plain(runs[0].reason) not in failures.given_up:
            found.append(trial)
    return found


def retry(history: History, trials: list[Trial], gain: Floats) -> int | None:
    """Choose the failed trial that deserves another run; None if none does.

    Its expected gain is the probability that it failed at random, times what it gains if it works. It is worth a run
    where that is as large as the least gain that is worth a repeat. After a second failure a trial is given up.

    Parameters
    ----------
    history : History
    trials : list of Trial
        Of :func:`failed_once`.
    gain : ndarray, shape (n,)
        Expected improvement of each over the best cost if it works.
    """
    expected = Failures.of(history).chance(1) * gain
    if len(expected) == 0 or float(np.max(expected)) < WORTH:
        return None
    return trials[int(np.argmax(expected))].number


def _plain(reason: str) -> str:
    """A reason without its numbers: times and processes differ from run to run."""
    return re.sub(r"\d+", "0", reason)
