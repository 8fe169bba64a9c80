"""Which run comes next: a pure function of what has been run.

Nothing is remembered between two calls, so an experiment that was interrupted at any moment goes on exactly as it would
have gone on undisturbed.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_not
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.space import Space
from stripewise.engine.budget import (
    RUNS_FOR_SHARE,
    confirmation_runs,
    fewest_pairs,
    have_ended,
    leaving_out_runs,
    most_pairs,
    pairs_left,
    reserved_runs,
    runs_for_shares,
)
from stripewise.engine.ceiling import reached
from stripewise.engine.conclusion import NOTHING_BETTER
from stripewise.engine.confirmation import (
    FIRST_LOOK,
    Decision,
    Pair,
    are_shuffled,
    broken_in,
    chance_of_shuffled,
    expected_gain,
    find_candidate,
    first_look_of,
    judge,
    list_tested,
    looks,
    pairs_of,
    pairs_to_prove,
    provable_pairs,
    shuffle,
    shuffled_pairs,
)
from stripewise.engine.effects import all_idle, effects_of
from stripewise.engine.ineffective import Idle, Narrowing, io_too_short, list_kept, list_waiting, sets_any
from stripewise.engine.ledger import Spent
from stripewise.engine.loop import Finish, Planned, Wait
from stripewise.engine.riders import Riders, list_changed, take_back
from stripewise.engine.schedule import Schedule, schedule_of
from stripewise.engine.try_first import configurations, wanted_first
from stripewise.errors import NothingWorks
from stripewise.facts import RunFacts
from stripewise.observe.ceiling import Ceiling
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.search.base import Sampler, sampler_rng
from stripewise.search.belief.costs import bring_to_one_level
from stripewise.search.belief.posterior import prefer_cheapest
from stripewise.search.policy.pruning import Pruner
from stripewise.search.policy.resampling import Resampler, choose_retry, find_failed_once
from stripewise.search.policy.stopping import WORTH, Stopping, nothing_more
from stripewise.sizes import count_of
from stripewise.trial import History, Phase, Role, Run, State, Trial

_TRIES_OF_DEFAULT = 2
_TRIES_ONCE_IT_WORKED = 5
_PAIRING_STREAM = 1 << 41
_NOT_YET = -1
"""In place of a candidate's trial before one is chosen."""
_KEPT_GAIN = 0.75
"""What is expected to be left of the gain that the search saw: the best of many noisy runs looks better than it is."""
_SURE = 0.8
"""The chance of winning the fewest pairs from which these are looked at."""
_EVEN = 0.5
"""The same of the fewest runs in a random order: these are fewer, and later looks lose little."""
_TAKEN_BACK_RUNS = 2
"""Runs of a search that are kept for each setting of its best, to take it back."""


@dataclass(frozen=True)
class Planner:
    """Decides what to run next.

    Attributes
    ----------
    space : Space or None
        None until the warm-up run has shown the workload.
    reference : bool
        Whether the program can also run without the component.
    sampler, resampler, pruner, stopping
        The parts of the search.
    forgiven : int
        Runs before this number count as no try of the default: an earlier session gave up after them, and was resumed.
    ceiling : Configuration or None
        Layout of the file of the benchmark that shows what the storage gives; None where it is not launched.
    stored : Ceiling or None
        What the storage gives by a file.
    narrowing : Narrowing
        Keeps what the evidence calls without effect out of what is tried.
    """

    experiment: Experiment
    objective: Objective
    space: Space | None
    reference: bool
    sampler: Sampler
    resampler: Resampler
    pruner: Pruner
    stopping: Stopping
    forgiven: int = 0
    ceiling: Configuration | None = None
    stored: Ceiling | None = None
    narrowing: Narrowing = field(default_factory=Narrowing)

    @cached_property
    def schedule(self) -> Schedule:
        """How the experiment is carried out."""
        return schedule_of(self.experiment)

    def next(self, trials: Sequence[Trial], spent: Spent) -> Planned | Wait | Finish:
        """Choose the next run.

        Raises
        ------
        NothingWorks
            If the program fails with its default settings.
        """
        over = self._over_budget(spent) or self._too_little(trials)
        first = self._first_runs(trials)
        if isinstance(first, Planned) and over:
            return Finish(over)
        if first is not None:
            return first
        confirmation = confirmation_runs(trials)
        if not confirmation or self._searches_on(trials, confirmation):
            step = self._search(trials, spent)
            if not isinstance(step, Finish):
                return step
            if any(run.state in (State.PENDING, State.RUNNING) for trial in trials for run in trial.runs):
                return Wait()
        return Finish(over) if over else self._confirm(trials, confirmation, spent)

    def history(self, trials: Sequence[Trial]) -> History:
        """What the sampler sees: the reference left out, the default as the configuration that it is.

        The same object as long as the trials are the same: a sampler knows it again, and believes what it believed.
        """
        if not self._held or len(self._held[0]) != len(trials) or any(map(is_not, self._held[0], trials)):
            self._held[:] = tuple(trials), self._make_history(trials)
        history: History = self._held[1]
        return history

    @cached_property
    def _held(self) -> list[Any]:
        return []

    def _make_history(self, trials: Sequence[Trial]) -> History:
        assert self.space is not None
        default, kept = self.space.default, self.kept_layouts(trials)
        return History(
            self.objective,
            tuple(
                replace(trial, configuration=default) if trial.role is Role.DEFAULT else trial
                for trial in self.schedule.searched(trials)
                if trial.role not in (Role.REFERENCE, Role.CEILING) and not sets_any(self.space, trial, kept)
            ),
        )

    def kept_layouts(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        """Parameters of layouts that are no longer varied, because files keep theirs; what set them is no answer."""
        return () if self.space is None else list_kept(self.space, trials)

    # -- phases --------------------------------------------------------------------------------------------

    def _over_budget(self, spent: Spent) -> str:
        budget = self.experiment.budget
        if spent.runs >= budget.runs:
            return f"the budget of {self.schedule.counted(budget.runs)} is used up"
        if budget.seconds is not None and spent.seconds >= budget.seconds:
            return f"the time budget of {budget.seconds:g} s is used up"
        if budget.node_hours is not None and spent.node_hours >= budget.node_hours:
            return f"the budget of {budget.node_hours:g} node-hours is used up"
        return ""

    def _too_little(self, trials: Sequence[Trial]) -> str:
        """Say why nothing that can be set matters, so that the first run is the last; empty if it may."""
        default = self._weighed(trials)
        told = "" if default is None or self.space is None else io_too_short(self.space, default)
        return f"{told} (--spend-all searches all the same)" if told else ""

    def _waiting(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        """Parameters that are varied once nothing else is left to try."""
        default = self._weighed(trials)
        return () if default is None or self.space is None else list_waiting(self.space, default)

    def _weighed(self, trials: Sequence[Trial]) -> Trial | None:
        """Give the default whose first report says what can matter; None where the objective is not the whole run."""
        if self.space is None or not self._may_save or self.objective.name != "elapsed":
            return None
        return next((trial for trial in trials if trial.role is Role.DEFAULT), None)

    def count_unneeded(self, trials: Sequence[Trial], spent: Spent) -> int:
        """How many launches of the budget nothing needed, although there was time for them."""
        left = self.experiment.budget.runs - spent.runs
        if not self.schedule.saves or self._over_budget(spent) or not self._time_for(trials, spent, left):
            return 0
        return left

    def _time_for(self, trials: Sequence[Trial], spent: Spent, runs: int) -> bool:
        """Whether so many more runs of typical length fit into the limits of time and node-hours."""
        budget = self.experiment.budget
        ended_runs = [run for trial in trials for run in trial.runs if run.elapsed is not None]
        if not ended_runs:
            return True
        seconds = float(np.median([run.elapsed or 0.0 for run in ended_runs]))
        node_hours = float(np.median([run.facts.node_hours for run in ended_runs]))
        return (budget.seconds is None or spent.seconds + runs * seconds <= budget.seconds) and (
            budget.node_hours is None or spent.node_hours + runs * node_hours <= budget.node_hours
        )

    def _first_runs(self, trials: Sequence[Trial]) -> Planned | Wait | None:
        """Warm-up, then the default, then the reference: nothing is worth searching before these have values."""
        default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
        if default is None:
            return self._plan(trials, Trial(0, Configuration({}), Role.DEFAULT), self._first_phase(), new=True)
        # Once it has a value, the default is repeated beside other runs.
        if not default.values and not have_ended(default.runs):
            return Wait()
        tries = [run for run in default.runs if run.number >= self.forgiven or run.state is State.FINISHED]
        warmups = [run for run in tries if run.phase is Phase.WARMUP]
        failed = [run for run in tries if run.state is State.FAILED and run.phase is not Phase.CONFIRMATION]
        works = any(run.state is State.FINISHED for run in default.runs)
        if len(failed) >= _TRIES_OF_DEFAULT and not works:
            if self.experiment.runner == "function":
                raise NothingWorks(
                    f"the function fails with the default configuration: {failed[-1].reason}",
                    "correct it, or start from another default; to a value that can reach zero, add a constant",
                )
            _check_limits_of_default(failed[-1])
            if failed[-1].facts.get("exit_code") == 0:
                raise NothingWorks(
                    f"the program ends well, but the default has no value: {failed[-1].reason}",
                    "begin anew with another objective, or make the program give this one first",
                )
            raise NothingWorks(
                f"the program fails as it is, before any setting is changed: {failed[-1].reason}",
                "make the command work by itself first",
            )
        warm = sum(run.state is State.FINISHED for run in warmups) >= self.experiment.warmup
        if not warm and len(warmups) - self.experiment.warmup < _TRIES_OF_DEFAULT - 1 and not default.values:
            return self._plan(trials, default, Phase.WARMUP)
        searched = [run for run in tries if run.phase is Phase.SEARCH]
        if not default.values:
            if len(searched) >= (_TRIES_ONCE_IT_WORKED if works else _TRIES_OF_DEFAULT):
                _check_limits_of_default(searched[-1])
                raise NothingWorks(
                    f"the default settings gave no value in {count_of(len(searched), 'run')}: {searched[-1].reason}",
                    "check the objective and the program's output",
                )
            return self._plan(trials, default, Phase.SEARCH)
        if self.reference and not any(trial.role is Role.REFERENCE for trial in trials):
            reference = Trial(len(trials), Configuration({}), Role.REFERENCE)
            return self._plan(trials, reference, Phase.SEARCH, new=True)
        if self.ceiling is not None:
            measured = next((trial for trial in trials if trial.role is Role.CEILING), None)
            if measured is None:
                # Nobody else's value: no sampler learns from it, and no proof counts it.
                return self._plan(trials, Trial(len(trials), self.ceiling, Role.CEILING), Phase.WARMUP, new=True)
            if not have_ended(measured.runs):
                return Wait()
        return None

    def _first_phase(self) -> Phase:
        return Phase.WARMUP if self.experiment.warmup else Phase.SEARCH

    def _search(self, trials: Sequence[Trial], spent: Spent) -> Planned | Wait | Finish:
        assert self.space is not None
        history = self.history(trials)
        reserve = reserved_runs(self.experiment, history)
        budget = self.experiment.budget
        if spent.runs + 1 + reserve > budget.runs:
            return Finish("the rest of the budget is kept for the confirmation")
        fewest = math.ceil(min(FIRST_LOOK, most_pairs(self.experiment)) * self.schedule.cost_of_pair())
        passed, most = self.schedule.passed(trials), budget.runs - fewest
        # Less may pass where something was found, and it is slow to say what.
        if fewest and passed > self.schedule.may_pass(most, found=True):
            may_pass = self.schedule.may_pass(most, found=self.candidate(trials) is not None)
            if passed > may_pass:
                return Finish(f"{self.schedule.counted(may_pass)} have passed, and the next are the proof's")
        kept = reserve
        if not self._time_for(trials, spent, 1 + kept):
            # Nothing is kept for a proof while there is nothing to prove, or where the whole limit is too short.
            usual = self.experiment.warmup + 2 + reserve
            possible = self._time_for(trials, Spent(0, 0.0, 0.0), usual) and self.candidate(trials) is not None
            kept = reserve if possible else 0
        if not self._time_for(trials, spent, 1 + kept):
            what = "kept for the confirmation" if kept else "too short for another run"
            return Finish(f"the rest of the time or node-hours is {what}")
        left = budget.runs - spent.runs - reserve
        if left <= self._longest_taking_back(history) and (step := self._take_back(trials, history, left)):
            return step
        kept_layouts = self.kept_layouts(trials)
        narrows = kept_layouts or not self.sampler.whole
        whole = self.narrowing.of(self.space, trials, kept_layouts) if narrows else self.space
        untried = self._untried(whole, history)
        waiting = self._waiting(trials)
        space = self.narrowing.of(self.space, trials, (*kept_layouts, *waiting)) if waiting else whole
        if reason := self._why_enough(trials, space, history, wanted=untried is not None):
            return self._take_back(trials, history) or Finish(reason)
        pending = sum(not run.state.ended for trial in trials for run in trial.runs)
        if 0 < self.schedule.searched_at_once <= pending:
            return Wait()
        if self.lost_too_much(trials):
            # Those that were asked for before may still find something better.
            return Wait() if pending else Finish("trying more would lose more than is allowed")
        number = len(trials)
        again = self.resampler.next(history)
        if again is None:
            again = self._retry(history)
        if again is not None:
            return self._plan(trials, trials[again], Phase.SEARCH)
        if untried is not None:
            return self._plan(trials, Trial(number, untried, Role.CANDIDATE), Phase.SEARCH, new=True)
        suggestions = self.schedule.ask(self.sampler, space, history, lambda: self._rng(number))
        if not suggestions and waiting:
            suggestions = self.schedule.ask(self.sampler, whole, history, lambda: self._rng(number))
        if not suggestions:
            again = None
            hopeless = next(self._acting(trials), None) is None
            if self.schedule.measures_again(reserve) or hopeless:
                again = self.resampler.last(history, saves=self._may_save)
            if again is None:
                again = self._retry(history, at_once=True)
            if again is None and hopeless:
                again = self.schedule.once_more(history)
            if again is None:
                return self._take_back(trials, history) or Finish(self.schedule.nothing_left)
            return self._plan(trials, trials[again], Phase.SEARCH)
        trial = Trial(number, suggestions[0].configuration, Role.CANDIDATE, tag=suggestions[0].tag)
        return self._plan(trials, trial, Phase.SEARCH, new=True)

    def _why_enough(self, trials: Sequence[Trial], space: Space, history: History, *, wanted: bool) -> str:
        """Say why no more is to be tried, although there is budget for it; empty where there is more to try.

        Parameters
        ----------
        wanted : bool
            Whether something is left that the experiment asks for.
        """
        settled = self.schedule.ends_search(space, history)
        if settled and next(self._acting(trials), None) is None:
            settled = None
        found = self.stopping.reason(space, history, self.sampler) or settled
        known = self.stored is not None or any(trial.role is Role.CEILING for trial in trials)
        if not found and known and not self.experiment.budget.spend_all:
            found = reached(trials, self.candidate(trials), self.stored)
        if found or wanted or not self._may_save:
            return found or ""
        return nothing_more(space, history, self.sampler) or ""

    @property
    def _may_save(self) -> bool:
        """Whether launches are left unspent that nothing needs: a search without a proof is all that was asked for."""
        experiment = self.experiment
        whole = self.sampler.whole or not self.schedule.saves
        return not (whole or experiment.budget.spend_all) and most_pairs(experiment) > 0

    def _longest_taking_back(self, history: History) -> int:
        """The most runs at the end of a search that taking back settings may take from it."""
        assert self.space is not None
        searched = sum(run.phase is Phase.SEARCH for trial in history.trials for run in trial.runs)
        return min(_TAKEN_BACK_RUNS * len(self.space.parameters), searched // 2)

    def _take_back(self, trials: Sequence[Trial], history: History, left: int | None = None) -> Planned | Wait | None:
        """Run what tells whether the settings of the best so far are needed; None where nothing is left to tell.

        Parameters
        ----------
        left : int, optional
            Runs that the search still has: while these are more than the settings need, it goes on.
        """
        assert self.space is not None
        best = None if pairs_left(self.experiment, trials, _NOT_YET) == 0 else self.candidate(trials)
        if best is None or trials[best].role is not Role.CANDIDATE:
            return None
        needed = _TAKEN_BACK_RUNS * len(list_changed(self.space, trials[best].configuration))
        if left is not None and left > needed:
            return None
        found = Riders(self.space, history, trials).next_run(trials[best])
        if found is None:
            return None
        if any(not run.state.ended for trial in trials for run in trial.runs):
            return Wait()  # what is under way may settle it
        if isinstance(found, Trial):
            return self._plan(trials, trials[found.number], Phase.SEARCH)
        return self._plan(trials, Trial(len(trials), found, Role.CANDIDATE), Phase.SEARCH, new=True)

    def why_ended(self, trials: Sequence[Trial], spent: Spent) -> str:
        """Say why the search is over; empty while it is not, or before it has begun."""
        if over := self._over_budget(spent):
            return over
        step = None if self.space is None or self._first_runs(trials) else self._search(trials, spent)
        return step.reason if isinstance(step, Finish) else ""

    def why_stopped(self, trials: Sequence[Trial]) -> str:
        """Say why the stopping rule ends the search; empty if it does not."""
        if self.space is None or not any(trial.role is Role.CANDIDATE for trial in trials):
            return ""
        space = self.space if self.sampler.whole else self.narrowing.of(self.space, trials)
        return self.stopping.reason(space, self.history(trials), self.sampler) or ""

    def idle(self, trials: Sequence[Trial]) -> tuple[Idle, ...]:
        """Parameters that are no longer varied."""
        return () if self.space is None or self.sampler.whole else self.narrowing.idle(self.space, trials)

    def lost_too_much(self, trials: Sequence[Trial], waits: int = 0) -> bool:
        """Whether new settings would wait longer than a proof takes, and there is something to prove.

        Where nothing better than the default is known, waiting for it costs nothing.

        Parameters
        ----------
        waits : int
            Phases for which a run waits now.
        """
        return self.schedule.waits_long(trials, waits) and self.candidate(trials) is not None

    def _untried(self, space: Space, history: History) -> Configuration | None:
        """The next of the configurations that the experiment asks for before those of the sampler."""
        wanted, _ = configurations(space, wanted_first(space, self.experiment.try_first))
        tried = {tuple(row) for row in space.fold(space.levels([t.configuration for t in history.trials]))}
        return next((one for one in wanted if tuple(space.levels([one])[0]) not in tried), None)

    def _retry(self, history: History, *, at_once: bool = False) -> int | None:
        """A trial that failed once and may work all the same; see :func:`choose_retry`."""
        assert self.space is not None
        failed = find_failed_once(history, at_once=at_once)
        if not failed:
            return None
        levels = self.space.levels([trial.configuration for trial in failed])
        return choose_retry(history, failed, self.sampler.gain_if_it_works(self.space, history, levels))

    def _confirm(self, trials: Sequence[Trial], runs: Sequence[Run], spent: Spent) -> Planned | Wait | Finish:
        tested = list_tested(runs)
        most = pairs_left(self.experiment, trials, tested[-1] if tested else _NOT_YET)
        if most == 0:
            return Finish(self._why_no_pairs())
        under_way = not have_ended([*runs, *leaving_out_runs(trials)])
        if under_way and not self.schedule.proves_ahead:
            return Wait()
        pairs = pairs_of(runs, tested[-1]) if tested else []
        block = runs[-1].facts.block if pairs else 1
        if not broken_in(pairs) and (due := self._due(trials, runs, pairs)):
            return self._arm(trials, *due, _find_tested(trials, runs, tested[-1]), block)
        if pairs and (step := self._leave_out(trials, runs, pairs, spent)):
            return step
        if pairs and under_way:
            # Values decide at looks only: up to the next one the pairs are known.
            if len(pairs) in looks(most, first_look_of(pairs)):
                return Wait()
        elif pairs:
            decision = judge(pairs, self.objective, self.experiment.confirmation, most).decision
            if decision is not Decision.CONTINUE:
                if decision is Decision.PROVEN or len(tested) >= self.experiment.confirmation.candidates:
                    return Finish(f"the confirmation is decided after {len(pairs)} pairs")
                if pairs_left(self.experiment, trials, _NOT_YET) == 0:
                    return Finish("the budget for the confirmation is used up")
                pairs = []
        if spent.runs + 2 * block > self.experiment.budget.runs or not self._time_for(trials, spent, 2):
            return Finish("the budget for the confirmation is used up")
        candidate = _find_tested(trials, runs, tested[-1]) if pairs else self._answer(trials, tested)
        if candidate is None and not tested and self.candidate(trials) is not None:
            return Finish("by the evidence, no setting of what looked better did anything")
        if candidate is None:
            return Finish(NOTHING_BETTER)
        if not tested and (reason := self._why_no_proof(trials)):
            return Finish(reason)
        number = 1 + max((run.pair for run in runs if run.pair is not None), default=-1)
        first = self._first_arm(trials, number)
        if pairs:
            step = self._leave_out(trials, runs, pairs, spent, before=number)
            return step or self._arm(trials, number, first, candidate, block)
        block = self._block(trials, candidate, spent)
        if order := self._shuffled(trials, number, self._first_look(trials, candidate)):
            number, first = order[0]
        return self._arm(trials, number, first, candidate, block)

    def _searches_on(self, trials: Sequence[Trial], runs: Sequence[Run]) -> bool:
        """Whether the search goes on, because what was tested last is no gain, and another may be tested."""
        tested = list_tested(runs)
        may = self.schedule.searches_on or self.objective.subject_to
        if not may or len(tested) >= self.experiment.confirmation.candidates:
            return False
        pairs, most = pairs_of(runs, tested[-1]), pairs_left(self.experiment, trials, tested[-1])
        if not have_ended(runs) or not (broken_in(pairs) or all(pair.complete for pair in pairs)):
            return False
        decision = judge(pairs, self.objective, self.experiment.confirmation, most).decision
        # While what broke a limit looked best, the search had no reason to try what lies below it.
        searched = decision is Decision.BROKEN or self.schedule.searches_on
        return searched and decision not in (Decision.CONTINUE, Decision.PROVEN)

    def _due(self, trials: Sequence[Trial], runs: Sequence[Run], pairs: Sequence[Pair]) -> tuple[int, str] | None:
        """Give pair and arm of the next run of the pairs that have begun; None where these are complete."""
        if not pairs:
            return None
        known = find_candidate(runs[-1])
        begun = 1 + max((run.pair for run in runs if run.pair is not None and find_candidate(run) != known), default=-1)
        made = {(run.pair, run.arm) for run in runs}
        order = self._shuffled(trials, begun, first_look_of(pairs))
        last = None if pairs[-1].complete else (pairs[-1].number, pairs[-1].next_arm)
        return next((one for one in order if one not in made), last)

    def _shuffled(self, trials: Sequence[Trial], number: int, first_look: int) -> list[tuple[int, str]]:
        """Pair and arm of each run before the first look, where their order is random as a whole; else empty."""
        if not first_look or not are_shuffled(first_look, self.experiment.confirmation):
            return []
        order = shuffle(self._pairing_rng(trials, number), first_look)
        return [(number + pair, arm) for pair, arm in order]

    def _coins(self, trials: Sequence[Trial], pair: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Two random numbers of a pair: which of its arms runs first, and whether what leaves a setting out does."""
        return self._pairing_rng(trials, pair).random(2)

    def _first_arm(self, trials: Sequence[Trial], pair: int) -> str:
        return "default" if self._coins(trials, pair)[0] < 0.5 else "candidate"

    def _sides(self, trials: Sequence[Trial], begun: int, places: int) -> list[bool | None]:
        """Tell for so many pairs whether what leaves a setting out runs before each, or after it; None for neither.

        It may not run where an arm follows itself for the first time: until then, no pair proves anything.
        """
        orders = [self._first_arm(trials, begun + place) for place in range(places + 1)]
        # Where two pairs have different orders, the second begins with the arm that ended the first.
        turns = [place for place in range(1, places + 1) if orders[place] != orders[place - 1]]
        kept = {next((place for place in turns if orders[place] == arm), None) for arm in ("default", "candidate")}
        found: list[bool | None] = []
        for place in range(places):
            drawn = place > 0 and bool(self._coins(trials, begun + place)[1] < 0.5)
            sides = [before for before in (drawn, not drawn) if (place > 0 or not before)]
            found.append(next((before for before in sides if place + (not before) not in kept), None))
        return found

    def _pairing_rng(self, trials: Sequence[Trial], pair: int) -> np.random.Generator:
        """Random numbers of a pair. What the first run measured counts, too: all users have the same seed.

        Else all proofs had one order, and what comes back every few launches could be proven a gain each time.
        """
        before = (run for trial in trials for run in trial.runs if run.value and run.phase is not Phase.CONFIRMATION)
        first = min(before, key=lambda run: run.number, default=None)
        (measured,) = struct.unpack("<Q", struct.pack("<d", first.value or 0.0 if first else 0.0))
        return sampler_rng(self.experiment.seed ^ measured, _PAIRING_STREAM + pair)

    def _leave_out(
        self,
        trials: Sequence[Trial],
        runs: Sequence[Run],
        pairs: Sequence[Pair],
        spent: Spent,
        before: int | None = None,
    ) -> Planned | None:
        """Plan the run beside a pair that leaves out one setting of the candidate; None where none is due now.

        It runs before or after both arms, never between them. Which setting is left out in which pair depends on no
        value of the proof, so the proof is what it would be without these runs.

        Parameters
        ----------
        before : int, optional
            The pair that begins; by default what belongs after the last pair is asked for.
        """
        assert self.space is not None
        number = pairs[-1].number if before is None else before
        place = len(pairs) - (before is None)
        known = find_candidate(runs[-1])
        done = [run for run in leaving_out_runs(trials) if find_candidate(run) == known]
        extra = runs[-1].facts.extra
        first_look = runs[-1].facts.first_look or FIRST_LOOK
        sides = self._sides(trials, pairs[0].number, max(first_look, place + 1))
        after = 2 * max(1, first_look - place)  # where time is short, it is the proof's
        if not extra or sides[place] is not (before is not None):
            return None
        if spent.runs + 1 > self.experiment.budget.runs or not self._time_for(trials, spent, after + 1):
            return None
        choices = self._can_be_left_out(_find_tested(trials, runs, known))
        names = list(choices)[: max(1, extra // RUNS_FOR_SHARE)]
        # As many a pair as give each setting its runs by the first look, in turn.
        wanted, usable = RUNS_FOR_SHARE * len(names), max(1, sum(side is not None for side in sides[:first_look]))
        turn = sum(side is not None for side in sides[:place])
        begin, end = (wanted * count // usable for count in (turn, turn + 1))
        due = [names[index % len(names)] for index in range(begin, min(extra, end))]
        name = next((one for one in due if one not in {run.facts.left_out for run in done if run.pair == number}), None)
        if name is None:
            return None
        same = (t for t in trials if t.role is Role.CANDIDATE and t.configuration == choices[name])
        trial = next(same, Trial(len(trials), choices[name], Role.CANDIDATE))
        planned = self._plan(trials, trial, Phase.CONFIRMATION, new=trial.number == len(trials))
        facts = RunFacts(against=known, left_out=name)
        return replace(planned, run=replace(planned.run, pair=number, arm="without", facts=facts))

    def _can_be_left_out(self, candidate: Trial) -> dict[str, Configuration]:
        """The candidate without each of its settings, where that is something else than the default."""
        assert self.space is not None
        if candidate.role is not Role.CANDIDATE:
            return {}
        names = list_changed(self.space, candidate.configuration)
        found = {name: take_back(self.space, candidate.configuration, name) for name in names}
        none = (self.space.default, candidate.configuration)
        return {name: less for name, less in found.items() if less is not None and less not in none}

    def _extra(self, trials: Sequence[Trial], candidate: Trial) -> int:
        """How many runs beside its pairs the confirmation is to have: what its first run says, if there is one."""
        begun = confirmation_runs(trials)
        if begun:
            return begun[0].facts.extra
        rule, most = self.experiment.confirmation, pairs_left(self.experiment, trials, candidate.number)
        if self._proves_by_order(most):
            return 0
        needed = most
        if rule.pairs is None:
            needed = min(most, pairs_to_prove(rule, self.history(trials), candidate, most=most) or most)
        settings = len(self._can_be_left_out(candidate))
        return runs_for_shares(self.experiment, trials, settings, max(needed, min(most, FIRST_LOOK)))

    def _first_look(self, trials: Sequence[Trial], candidate: Trial) -> int:
        """Give the pairs at an early first look of the proof, by the gain that the search saw; 0 for none.

        The fewest runs that prove anything, in a random order, must all be better than the default's. Where that is
        likely, the look comes after these, and otherwise after one pair more than must all be won: that leaves later
        looks as much power as a first look after eight pairs. Beside runs that leave a setting out, each pair is run by
        itself, and the first look comes after the fewest pairs where winning all of them is likely. Where fewer pairs
        than these are left, only a random order can prove anything.
        """
        begun = confirmation_runs(trials)
        if begun:
            return begun[0].facts.first_look
        rule = self.experiment.confirmation
        fewest, most = provable_pairs(rule), pairs_left(self.experiment, trials, candidate.number)
        if self._proves_by_order(most):
            return fewest_pairs(self.experiment)
        if not self.schedule.saves or fewest >= FIRST_LOOK:
            return 0
        history = self.history(trials)
        if not self._extra(trials, candidate):
            few = shuffled_pairs(rule)
            likely = chance_of_shuffled(rule, history, candidate, share=_KEPT_GAIN) >= _EVEN
            return few if likely and few <= most else min(fewest + 1, FIRST_LOOK)
        needed = pairs_to_prove(rule, history, candidate, share=_KEPT_GAIN, chance=_SURE, most=fewest)
        return fewest if needed is not None and needed <= fewest else min(fewest + 1, FIRST_LOOK)

    def _proves_by_order(self, most: int) -> bool:
        """Whether so many pairs can prove a gain only by the random order of their runs."""
        return fewest_pairs(self.experiment) <= most < provable_pairs(self.experiment.confirmation)

    def _block(self, trials: Sequence[Trial], candidate: Trial, spent: Spent) -> int:
        left = self.experiment.budget.runs - spent.runs
        return self.schedule.block_for(self.history(trials), candidate, left)

    def _answer(self, trials: Sequence[Trial], tested: Sequence[int]) -> Trial | None:
        """Choose what to confirm: the best trial left of which a setting acts, without what earns nothing."""
        assert self.space is not None
        default = next(t for t in trials if t.role is Role.DEFAULT)
        for number in self._acting(trials):
            answer = trials[number]
            if answer.role is Role.CANDIDATE:
                answer = self._simplest(trials, answer)
            if answer.number not in tested and not all_idle(effects_of(self.space, answer, default)):
                return answer
        return None

    def _acting(self, trials: Sequence[Trial]) -> Iterator[int]:
        """Give those of :meth:`_better` of which a setting acts: others look better by chance."""
        assert self.space is not None
        default = next(t for t in trials if t.role is Role.DEFAULT)
        for number in self._better(trials):
            if not all_idle(effects_of(self.space, trials[number], default)):
                yield number

    def _simplest(self, trials: Sequence[Trial], trial: Trial) -> Trial:
        """Take back the settings that the data cannot tell from their defaults; the answer may be a new trial."""
        assert self.space is not None
        found = Riders(self.space, self.history(trials), trials).simplify(trial)
        same = (t for t in trials if t.role is Role.CANDIDATE and t.configuration == found.configuration)
        return next(same, Trial(len(trials), found.configuration, Role.CANDIDATE))

    def _why_no_proof(self, trials: Sequence[Trial]) -> str:
        """Say why a proof is not worth its launches, by the gains that the search leaves possible; empty if it may be.

        Where the number of pairs was asked for, the proof was, too.
        """
        rule, best = self.experiment.confirmation, self.candidate(trials)
        if not self._may_save or rule.pairs is not None or best is None:
            return ""
        most = pairs_left(self.experiment, trials, best)
        gain = expected_gain(rule, self.history(trials), trials[best], most)
        if gain is None or gain >= math.log1p(WORTH):
            return ""
        least = max(1 + WORTH, rule.minimum_effect)
        return f"what is left of the budget is not expected to prove {least:g} times the default (--spend-all tries)"

    def _why_no_pairs(self) -> str:
        if self.experiment.confirmation.pairs == 0:
            return "no confirmation was asked for"
        needed = self.schedule.counted(math.ceil(fewest_pairs(self.experiment) * self.schedule.cost_of_pair()))
        return f"the budget leaves fewer than the {needed} that a proof takes"

    def candidate(self, trials: Sequence[Trial]) -> int | None:
        """The trial most likely to be best, if it looks better than the default; the reference competes too.

        Among those within 5% of it the cheapest is taken, where the schedule does.
        """
        return next(iter(self._better(trials)), None)

    def _better(self, trials: Sequence[Trial]) -> list[int]:
        """All trials that look better than the default and were not tested, the most likely to be best first."""
        history = self.history(trials)
        assert self.space is not None
        ranked = self.sampler.recommend(self.space, history)
        if self.schedule.takes_cheapest:
            ranked = prefer_cheapest(self.space, history, ranked)
        better = itertools.takewhile(lambda trial: trial.role is not Role.DEFAULT, ranked)
        tested = list_tested(confirmation_runs(trials))
        found = [trial.number for trial in better if trial.number not in tested]
        reference = next((t for t in trials if t.role is Role.REFERENCE and t.values), None)
        if reference is None or reference.number in tested:
            return found
        # They may have run while the machine was faster or slower.
        level = bring_to_one_level(History(self.objective, (*history.trials, reference)))
        values = {trial.number: trial.value for trial in level.trials if trial.value is not None}
        rival = values.get(ranked[0].number) if ranked else None
        ahead = rival is None or self.objective.better(values[reference.number], rival)
        return [reference.number, *found] if ahead else found

    # -- making runs ---------------------------------------------------------------------------------------

    def _rng(self, stream: int) -> np.random.Generator:
        return sampler_rng(self.experiment.seed, stream)

    def _arm(self, trials: Sequence[Trial], pair: int, arm: str, candidate: Trial, block: int) -> Planned:
        new = candidate.number >= len(trials)
        facts = self.schedule.of_arm(RunFacts(against=candidate.number), block)
        if extra := self._extra(trials, candidate):
            facts = facts.with_(extra=extra)
        if first := self._first_look(trials, candidate):
            facts = facts.with_(first_look=first)
        if arm == "default":
            trial = next(t for t in trials if t.role is Role.DEFAULT)
            facts = facts.with_(answer=dict(candidate.configuration)) if new else facts
        else:
            trial = candidate
        planned = self._plan(trials, trial, Phase.CONFIRMATION, new=new and arm == "candidate")
        return replace(planned, run=replace(planned.run, pair=pair, arm=arm, facts=facts))

    def _plan(self, trials: Sequence[Trial], trial: Trial, phase: Phase, *, new: bool = False) -> Planned:
        number = sum(len(t.runs) for t in trials)
        return Planned(replace(trial, runs=()), Run(number, trial.number, phase), new)


def _check_limits_of_default(failed: Run) -> None:
    """Refuse to search where the default breaks a limit of the objective: gains are ratios to it."""
    if failed.facts.broken:
        raise NothingWorks(
            f"the default {failed.reason}", "loosen the limit in a new experiment, or make the default keep it"
        )


def _find_tested(trials: Sequence[Trial], runs: Sequence[Run], number: int) -> Trial:
    """Give the candidate of a confirmation that has begun; before its own first run it is not a trial yet."""
    if number < len(trials):
        return trials[number]
    answer = next(run.facts.answer for run in runs if find_candidate(run) == number)
    return Trial(number, Configuration(answer or {}), Role.CANDIDATE)
