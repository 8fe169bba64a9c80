"""Riders: settings of what looks best that the data cannot tell from their defaults, and the runs that tell.

After the search each changed setting is taken back alone. A setting stays only if it earns its place: the configuration
without it must be measurably worse. Where no run shows that, the setting goes before anything is proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stripewise.catalogue.configuration import Configuration, find_changes
from stripewise.catalogue.space import Space
from stripewise.engine.effects import activities_of, all_idle, effects_of, idle_settings
from stripewise.observe.evidence import UNPROVABLE, list_calls
from stripewise.result import Effect
from stripewise.search.belief.posterior import Posterior
from stripewise.trial import History, Phase, Role, State, Trial

_TOLD = 1.64
"""Standard deviations by which a configuration without a setting must be worse: one such in twenty is chance."""
_TOLD_ALIKE = 3.0
"""The same where both make the same calls, so that hardly anything could make them differ."""
_SETTLED = 0.5
"""Standard deviations below which more runs would hardly show that a setting is needed."""
_MOST_RUNS = 3
"""Runs of each of the two that are compared."""


def take_back(space: Space, configuration: Configuration, name: str) -> Configuration | None:
    """Give a configuration with one setting at its default; None where no such configuration can be run."""
    levels = space.levels([configuration.with_values(**{name: space[name].default})])
    return space.configuration(levels[0]) if space.feasible(levels)[0] else None


def list_changed(space: Space, configuration: Configuration) -> list[str]:
    """List the parameters that a configuration sets to something else than their default."""
    changed = find_changes(configuration, space.default)
    return [name for name in space.names if name in changed]


@dataclass(frozen=True)
class Answer:
    """A configuration that may be proposed, and the trial whose runs show what it does.

    Attributes
    ----------
    stands : Trial
        Of the configuration itself, or of one that differs from it in nothing that acts.
    """

    configuration: Configuration
    stands: Trial


@dataclass(frozen=True)
class Riders:
    """What the trials so far say of each setting of what looks best.

    Parameters
    ----------
    history : History
        As the sampler sees it: search runs, at one level of the machine.
    trials : sequence of Trial
        With the default's.
    """

    space: Space
    history: History
    trials: Sequence[Trial]

    def simplify(self, trial: Trial) -> Answer:
        """Take back what did nothing by the evidence, then each setting that the data cannot tell from its default.

        Of several such settings, the one without which the value is best goes first. What is left is always compared
        with the trial itself, so that small losses do not add up.
        """
        answer = self._without_idle(Answer(trial.configuration, trial))
        while True:
            found = [
                (
                    self._excess(known, trial),
                    place,
                    Answer(less, known if known.configuration == less else answer.stands),
                )
                for place, (less, known) in enumerate(self._taken_back(answer))
                if known is not None and known.values and not self._told(known, trial)
            ]
            if not found:
                return answer
            answer = self._without_idle(min(found, key=lambda one: one[:2])[2])

    def next_run(self, trial: Trial) -> Configuration | Trial | None:
        """Give what to run next to tell whether a setting is needed: a new configuration, or a trial again.

        None where every setting is settled.
        """
        answer = self.simplify(trial)
        if (fewest := self._take_back_together(answer)) is not None:
            return fewest
        # What simplifying has dropped may have been too few runs to tell.
        whole = Answer(trial.configuration, trial)
        dropped = [(less, known) for less, known in self._taken_back(whole) if known is not None]
        for less, known in (*self._taken_back(answer), *dropped):
            if known is None:
                return less
            if not known.values or self._settled(known, trial):
                continue
            # Runs that failed count as well: a configuration that fails now and then must not take the whole budget.
            shorter = min((known, trial), key=_count_runs)
            if _count_runs(shorter) < _MOST_RUNS:
                return shorter
        return None

    def _taken_back(self, answer: Answer) -> Iterator[tuple[Configuration, Trial | None]]:
        """Give each configuration with one setting less, other than the default, and the trial that shows it.

        Where it did not run, another trial without the setting shows it, if that makes the calls of the answer. One in
        which nothing acts is the default by another name: a noisy run of it must not take what acts out of the answer.
        """
        for name in list_changed(self.space, answer.configuration):
            less = take_back(self.space, answer.configuration, name)
            if less is not None and less not in (self.space.default, answer.configuration):
                known = self._find(less) or self._find_alike(answer, name)
                if known is None or not all_idle(self._effects_in(known)):
                    yield less, known

    def _take_back_together(self, answer: Answer) -> Configuration | None:
        """Give the configuration without all settings that nothing shows to act or to be needed; one is left.

        If it makes the same calls, one run shows that none of them is needed.
        """
        effects = {effect.name: effect.status for effect in self._effects(answer)}
        untold, left = [], answer.configuration
        for name in list_changed(self.space, left):
            less = take_back(self.space, left, name)
            if (
                effects.get(name) == UNPROVABLE
                and less is not None
                and not (self._find(less) or self._find_alike(answer, name))
            ):
                untold.append(name)
        if len(untold) == len(list_changed(self.space, left)) and untold:
            untold.remove(max(untold, key=lambda name: (bool(self.space[name].switch_levels), self.space[name].cost)))
        if not untold:
            return None
        usual = {name: self.space[name].default for name in untold}
        levels = self.space.levels([left.with_values(**usual)])
        found = self.space.configuration(levels[0])
        feasible = self.space.feasible(levels)[0] and found not in (self.space.default, left)
        return found if feasible and self._find(found) is None else None

    def _effects(self, answer: Answer) -> list[Effect]:
        return self._effects_in(answer.stands, self.trials)

    def _effects_in(self, trial: Trial, others: Sequence[Trial] = ()) -> list[Effect]:
        default = next(one for one in self.trials if one.role is Role.DEFAULT)
        return effects_of(self.space, trial, default, others)

    def _find(self, configuration: Configuration) -> Trial | None:
        own = (one for one in self.trials if one.role is Role.CANDIDATE and one.configuration == configuration)
        return next((one for one in own if any(run.state is not State.PENDING for run in one.runs)), None)

    def _find_alike(self, answer: Answer, name: str) -> Trial | None:
        usual = self.space[name].default
        without = (
            one for one in self.history.trials if one.role is Role.CANDIDATE and one.configuration[name] == usual
        )
        return next((one for one in without if one.values and make_same_calls(one, answer.stands)), None)

    def _without_idle(self, answer: Answer) -> Answer:
        """Reset all settings that the evidence calls without effect."""
        idle = idle_settings(self._effects(answer)) & set(self.space.names)
        configuration = answer.configuration
        usual = {name: self.space[name].default for name in idle}
        levels = self.space.levels([configuration.with_values(**usual)])
        less = self.space.configuration(levels[0])
        if less in (self.space.default, configuration) or not self.space.feasible(levels)[0]:
            return answer
        known = self._find(less)
        if known is not None and known.state in (State.FAILED, State.PRUNED):
            return answer
        return Answer(less, known if known is not None and known.values else answer.stands)

    # -- what the values say -------------------------------------------------------------------------------

    @cached_property
    def _posterior(self) -> Posterior:
        return Posterior.of(self.history)

    def _excess(self, less: Trial, trial: Trial) -> float:
        """How many standard deviations a trial costs more than another, by what is believed of both."""
        found = self._posterior.compare(less, trial)
        return -np.inf if found is None else found[0] / found[1]

    def _told(self, less: Trial, trial: Trial) -> bool:
        """Whether the runs show that a trial with one setting less is worse."""
        if not make_same_calls(less, trial):
            return self._excess(less, trial) >= _TOLD
        # Calls say that nothing differs. Few runs do not overrule them: noise that was hardly repeated looks small.
        return min(_count_runs(less), _count_runs(trial)) >= _MOST_RUNS and self._excess(less, trial) >= _TOLD_ALIKE

    def _settled(self, less: Trial, trial: Trial) -> bool:
        excess = self._excess(less, trial)
        if make_same_calls(less, trial):
            return excess < _TOLD_ALIKE  # beyond, what no call shows may differ, and more runs tell
        # A search that ended early has hardly repeated anything, and may take the noise for far more than it is.
        repeated = min(_count_runs(less), _count_runs(trial)) > 1
        return (excess <= _SETTLED and repeated) or excess >= _TOLD_ALIKE


def _count_runs(trial: Trial) -> int:
    return sum(run.phase is Phase.SEARCH for run in trial.runs)


def make_same_calls(one: Trial, other: Trial) -> bool:
    """Whether runs of two trials made the same calls, as far as both left reports."""
    made, others = ([list_calls(activity) for activity in activities_of(trial)] for trial in (one, other))
    return any(calls in others for calls in made if calls)
