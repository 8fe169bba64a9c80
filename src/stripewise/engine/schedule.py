"""How an experiment is carried out: by launches of the program, by phases of one launch, or by replays of a record.

The schedule answers whatever differs between them: words, costs, what is tried, and how a proof goes on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stripewise.catalogue.space import Space
from stripewise.engine.confirmation import FIRST_LOOK, pairs_to_prove, provable_pairs
from stripewise.engine.protocol import phase_points
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.launch import Launch
from stripewise.observe.activity import Activity
from stripewise.requests.experiment import Experiment
from stripewise.result import Replays
from stripewise.runners.replayer import Replayer
from stripewise.search.base import Sampler, Suggestion
from stripewise.search.belief.costs import Costs
from stripewise.search.policy.stopping import make_stopping
from stripewise.shell import quote_all
from stripewise.trial import History, Phase, Role, Run, State, Trial

if TYPE_CHECKING:
    from stripewise.engine.ledger import ExperimentLedger

_CHANGES = 1.5
"""Phases of a pair that only separate settings: one in the pair, and half of the time one before it."""
LONGEST_BLOCK = 2
_CERTAIN = 0.99
_LIKELY = 0.8
"""The chance that the smallest proof shows a gain which is no longer searched on."""
_SEARCHED = 112
"""Phases that may pass before what was found is proven."""
_DISCOUNT = 0.5
"""What is left of a gain that the search saw, at the least: the best of many noisy runs looks better than it is."""
_SETTLED = make_stopping({"improvement": {"window": 8, "minimum": 0.1}})
"""When a large gain is no longer searched on."""
_ASKED = (1, 8, 64)
"""Suggestions that the sampler is asked for, one number after the other while all of them are left out."""
_OF_DEFAULT, _OF_OTHERS = 4, 2
"""Phases of the default, and of anything else, without which no search ends that has found nothing."""
_AHEAD = 4
"""Suggestions that are kept at most; never more than a quarter of what has been tried, of which they know nothing."""


class Schedule:
    """Each run is a launch of the program.

    Attributes
    ----------
    word : tuple of str
        What a run is called, and several of them.
    proven : str
        Where a gain is proven, to follow "proven".
    announced : bool
        Whether the worst case is told before the first run.
    takes_cheapest : bool
        Whether the cheapest of those within 5% of the best is taken.
    apis : tuple of str
        Libraries whose stacks are searched without being named, where the program uses them.
    not_small : tuple of str
        Why a smaller case cannot be searched first, and what to do; empty if it can.
    leaves_out : bool
        Whether settings are left out in some pairs of the proof, to measure their shares.
    saves : bool
        Whether each run that is not made saves something.
    searched_at_once : int
        Runs of the search that are planned before the first of them has ended, at most; 0 for as many as have room.
    proves_ahead : bool
        Whether pairs of the proof are planned before those before them have ended.
    searches_on : bool
        Whether the search goes on before another candidate is tested.
    """

    word: ClassVar[tuple[str, str]] = ("launch", "launches")
    announced: ClassVar[bool] = True
    takes_cheapest: ClassVar[bool] = True
    apis: ClassVar[tuple[str, ...]] = ()
    not_small: ClassVar[tuple[()] | tuple[str, str]] = ()
    leaves_out: ClassVar[bool] = True
    saves: ClassVar[bool] = True
    searched_at_once: ClassVar[int] = 0
    proves_ahead: ClassVar[bool] = False
    searches_on: ClassVar[bool] = False

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    @property
    def proven(self) -> str:
        """Where a gain is proven."""
        return ""

    @property
    def nothing_left(self) -> str:
        """Why the sampler has nothing left to suggest."""
        return "every configuration has been tried"

    def counted(self, runs: int) -> str:
        """Say how many launches, or phases of one, a part of the budget is."""
        return f"{runs} {self.word[runs != 1]}"

    # -- what it costs ---------------------------------------------------------------------------------------

    def cost_of_pair(self, block: int = 1) -> float:
        """What a pair takes of the budget."""
        return 2.0

    def block_for(self, history: History, trial: Trial, left: float) -> int:
        """How many phases each run of a trial's proof is to hold, with ``left`` of the budget; 1 for a launch."""
        return 1

    def lasting(self, trials: Sequence[Trial], phase: Phase) -> Sequence[Trial]:
        """Give the trials whose runs tell how long a run of a phase of the experiment lasts."""
        return trials

    # -- what is tried ---------------------------------------------------------------------------------------

    def begin(self, sampler: Sampler) -> None:
        """Prepare for the first run."""

    def searched(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Give the trials with the runs that the sampler learns from."""
        return trials

    def ask(
        self, sampler: Sampler, space: Space, history: History, rng: Callable[[], np.random.Generator]
    ) -> list[Suggestion]:
        """Ask the sampler what to try next; ``rng`` gives the same random numbers at each call."""
        return sampler.ask(space, history, rng(), 1)

    def ends_search(self, space: Space, history: History) -> str | None:
        """Say why the best is to be proven now instead of searched on; None to go on."""
        return None

    def waits_long(self, trials: Sequence[Trial], waits: int) -> bool:
        """Whether what has not been tried would wait for longer than a proof takes.

        Parameters
        ----------
        waits : int
            Phases for which a run waits now.
        """
        return False

    def passed(self, trials: Sequence[Trial]) -> int:
        """How much of the budget has passed, with what nothing was tried in: a program within which runs are ends."""
        return 0

    def may_pass(self, most: int, *, found: bool) -> int:
        """How much of the budget may pass before the proof, of the most that leaves it a few pairs."""
        return most

    def measures_again(self, reserve: int) -> bool:
        """Whether a trial is repeated where nothing else is left to try, with so many runs kept for the proof."""
        return True

    def once_more(self, history: History) -> int | None:
        """Give a trial to run again where nothing is left to try and nothing looks better; None to end the search."""
        return None

    # -- the proof -------------------------------------------------------------------------------------------

    def of_arm(self, facts: RunFacts, block: int) -> RunFacts:
        """Add what a run of the proof is to hold."""
        return facts

    def points(self, runs: Sequence[Run]) -> tuple[list[str], list[str]]:
        """Give the points of good practice that the runs of a proof keep and miss besides those of any proof."""
        return [], []

    # -- replays ---------------------------------------------------------------------------------------------

    def launched(self, launch: Launch, replayer: Replayer | None, at_once: int) -> Launch:
        """Give the launch with what it starts in place of the program, if anything, beside others or alone."""
        return launch

    def check_default(
        self, ledger: ExperimentLedger, replayer: Replayer | None, run: Run, activity: Activity | None
    ) -> None:
        """Refuse to search on what runs of the default show to be something else than the program.

        Raises
        ------
        UserError
            If it is.
        """

    def end(self, replayer: Replayer | None, experiment: str) -> None:
        """Delete what launches have left beside their output."""

    def replays(
        self, trials: Sequence[Trial], default: Trial, shown: Trial | None, faithful: Mapping[str, Any]
    ) -> Replays | None:
        """Tell what the search saw of replays; None if it launched none."""
        return None


class Phases(Schedule):
    """Each run is a phase of one launch, or several in a row: the program goes on, whatever is planned."""

    word = ("phase", "phases")
    announced = False  # the user's own launch, and no more
    # A single noisy phase for each does not tell what is that near, and what gains nothing would often be proven in
    # place of what does.
    takes_cheapest = False
    apis = ("hdf5",)
    leaves_out = False  # each change of settings costs phases that prove nothing
    saves = False  # the program goes on, whatever is planned
    searched_at_once = 2  # the next order is there when the phase of the one before it ends
    proves_ahead = True  # a phase without an order proves nothing
    searches_on = True  # the program goes on
    not_small = (
        "--within searches phases of one launch, and --small launches of a smaller case",
        "leave one of them out",
    )

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(experiment)
        self._space: Space | None = None
        self._ahead: list[Suggestion] = []

    @property
    def proven(self) -> str:
        """Where a gain is proven."""
        return " within another launch" if self.experiment.confirmation.again else " within one launch"

    @property
    def nothing_left(self) -> str:
        """Why the sampler has nothing left to suggest."""
        factor = self.experiment.within.factor
        return (
            "all that the sampler suggests has been tried, or is expected to take over "
            f"{factor:g} times as long as the default"
        )

    def cost_of_pair(self, block: int = 1) -> float:
        """What a pair takes: the phases of both runs and those between."""
        return 2 * block + _CHANGES

    def block_for(self, history: History, trial: Trial, left: float) -> int:
        """How many phases each run of a proof is to hold.

        Each change of settings costs a phase that proves nothing, so longer runs prove more with as many phases: two
        phases a run halve the variance of a pair, for 5.5 phases in place of 3.5. A gain so large that the first look
        will show it anyway, even if the search saw twice the truth, is proven soonest with single phases. Only the
        search decides, which is no part of the proof. Where ``left``, the rest of the budget, holds too few pairs for a
        proof by longer runs, they have single phases too.
        """
        fewest = max(FIRST_LOOK, provable_pairs(self.experiment.confirmation))
        if left < fewest * self.cost_of_pair(LONGEST_BLOCK):
            return 1
        return 1 if self.shows_at_first_look(history, trial, _CERTAIN) else LONGEST_BLOCK

    def begin(self, sampler: Sampler) -> None:
        """Load the sampler before the program starts, whose phases do not wait."""
        sampler.load()

    def ask(
        self, sampler: Sampler, space: Space, history: History, rng: Callable[[], np.random.Generator]
    ) -> list[Suggestion]:
        """Ask the sampler for several at once; what is expected to be far slower than the default is left out.

        A search that thinks after each phase keeps a processor busy on which the program runs.
        """
        tried = {trial.configuration for trial in history.trials}
        ahead = [one for one in self._ahead if one.configuration not in tried] if self._space is space else []
        kept = self._worth_trying(sampler, space, history, ahead)
        most = min(_AHEAD, max(1, len(history.trials) // 4))
        for count in _ASKED if not kept else ():
            found = sampler.ask(space, history, rng(), max(count, most))
            kept = self._worth_trying(sampler, space, history, found)[:most]
            if kept or len(found) < count:
                break
        self._space, self._ahead = space, kept[1:]
        return kept[:1]

    def _worth_trying(
        self, sampler: Sampler, space: Space, history: History, found: Sequence[Suggestion]
    ) -> list[Suggestion]:
        if not found:
            return []
        expected = sampler.slowdown(space, history, space.levels([one.configuration for one in found]))
        most = math.log(self.experiment.within.factor)
        return [one for one, slower in zip(found, expected, strict=True) if slower <= most]

    def ends_search(self, space: Space, history: History) -> str | None:
        """Say why a large gain is proven now: each phase before that is without it, and the program may end."""
        cost = Costs.of(history).cost
        if np.isnan(cost).all():
            return None
        best = history.trials[int(np.nanargmin(cost))]
        return _SETTLED.reason(space, history) if self.shows_at_first_look(history, best, _LIKELY) else None

    def waits_long(self, trials: Sequence[Trial], waits: int) -> bool:
        """See :class:`Schedule`. What a phase may lose is a share of what the launch has cost, and grows with it."""
        ended = [run for trial in trials for run in trial.runs if run.state.ended]
        last = max(ended, key=lambda run: run.number, default=None)
        return max(waits, 0 if last is None else last.facts.waits) > FIRST_LOOK * self.cost_of_pair()

    def passed(self, trials: Sequence[Trial]) -> int:
        """See :class:`Schedule`. While settings wait for what trying may lose, phases pass.

        Those before anything was tried are not held against the search: where the machine is busy, the program goes on
        while the tuner starts.
        """
        runs = [run for trial in trials for run in trial.runs]
        proven = max((run.number for run in runs if run.phase is Phase.CONFIRMATION), default=-1)
        tried = [
            run.facts.passed
            for trial in trials
            if trial.role is Role.CANDIDATE
            for run in trial.runs
            if run.state.ended and run.number > proven
        ]
        return max(run.facts.passed for run in runs) - min(tried) if tried else 0

    def may_pass(self, most: int, *, found: bool) -> int:
        """See :class:`Schedule`. Nobody knows when the program ends, so what was found is proven soon.

        While there is nothing to prove, phases without settings cost nothing, and half as many more may pass.
        """
        return min(most, _SEARCHED if found else _SEARCHED * 3 // 2)

    def measures_again(self, reserve: int) -> bool:
        """A phase more of the proof is worth more than a slightly better choice."""
        return not reserve

    def once_more(self, history: History) -> int | None:
        """See :class:`Schedule`. One lucky phase of the default, or one slow phase of a setting, ends no search.

        The default comes first, because all else is expected beside it; then what was taken back before it was tried,
        and what has a single phase, the fastest of them first.
        """
        cost = dict(zip((trial.number for trial in history.trials), Costs.of(history).cost, strict=True))
        default = next(trial for trial in history.trials if trial.role is Role.DEFAULT)
        if len(default.values) < _OF_DEFAULT:
            return default.number
        few = [trial for trial in history.trials if len(trial.values) < _OF_OTHERS and trial is not default]
        few = [trial for trial in few if not any(run.state is State.FAILED for run in trial.runs)]
        found = min(few, key=lambda t: (bool(t.values), cost[t.number]), default=None)
        return None if found is None else found.number

    def of_arm(self, facts: RunFacts, block: int) -> RunFacts:
        """Add how many phases it holds."""
        return facts.with_(block=block)

    def points(self, runs: Sequence[Run]) -> tuple[list[str], list[str]]:
        """See :func:`stripewise.engine.protocol.phase_points`."""
        return phase_points(runs, self.experiment)

    def shows_at_first_look(self, history: History, trial: Trial, chance: float) -> bool:
        """Whether the smallest proof shows a trial's gain with a chance, even if the search saw twice the truth."""
        rule = self.experiment.confirmation
        needed = pairs_to_prove(rule, history, trial, share=_DISCOUNT, chance=chance, most=FIRST_LOOK)
        return needed is not None and needed <= FIRST_LOOK


class OnReplays(Schedule):
    """The search launches replays of a record, and the proof the program."""

    not_small = ("--small and --replay both say what is searched in place of the program", "leave one out")

    @property
    def proven(self) -> str:
        """Where a gain is proven."""
        return " on the program, after a search on replays"

    def lasting(self, trials: Sequence[Trial], phase: Phase) -> Sequence[Trial]:
        """Replays say nothing of how long the program takes, nor does it of them."""
        return _with_runs(trials, proof=True) if phase is Phase.CONFIRMATION else self.searched(trials)

    def searched(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """Give the trials without the runs of the proof, which are the program's."""
        return _with_runs(trials, proof=False)

    def launched(self, launch: Launch, replayer: Replayer | None, at_once: int) -> Launch:
        """Replay the record in a folder that no other run uses meanwhile; the runs of the proof launch the program."""
        if replayer is None or launch.phase is Phase.CONFIRMATION:
            return launch
        own = replayer.within(launch.experiment if at_once == 1 else f"{launch.experiment}.{launch.number}")
        calls, prepare = quote_all(own.words("calls")), quote_all(own.words("prepare"))
        return replace(launch, command=calls, before=(prepare,), program="", replays=True)

    def check_default(
        self, ledger: ExperimentLedger, replayer: Replayer | None, run: Run, activity: Activity | None
    ) -> None:
        """Refuse to search on replays that are not faithful to the program, once they ran with the default."""
        if replayer is None or run.phase is Phase.CONFIRMATION or activity is None:
            return
        known = ledger.facts.replay
        if known is not None and known["faithful"]:
            return
        from stripewise.engine.fidelity import Done, Faithfulness  # noqa: PLC0415  few experiments replay a record

        record, replay = replayer.record, replayer.replay
        now = Faithfulness(Done.by_record(record), Done.by_activity(activity, record), replay.whole)
        ledger.remember(replay=now.as_json())
        if now.differences and run.phase is not Phase.WARMUP:
            raise UserError(
                f"replays of {replay.record} are not faithful to the program: {'; '.join(now.differences)}",
                "record the program again on this machine as it is now, set think = true in [replay], or tune the "
                "program itself",
            )

    def end(self, replayer: Replayer | None, experiment: str) -> None:
        """Delete the folders in which replays have made their files."""
        if replayer is not None:
            replayer.delete_folders(experiment)

    def replays(
        self, trials: Sequence[Trial], default: Trial, shown: Trial | None, faithful: Mapping[str, Any]
    ) -> Replays | None:
        """See :class:`Schedule`."""
        assert self.experiment.replay is not None

        def value(trial: Trial | None) -> float | None:
            return statistics.median(trial.values) if trial is not None and trial.values else None

        runs = sum(len(trial.runs) for trial in self.searched(trials))
        return Replays(
            record=self.experiment.replay.record,
            runs=runs,
            default=value(default),
            candidate=value(shown),
            faithful=dict(faithful),
        )


def _with_runs(trials: Sequence[Trial], *, proof: bool) -> tuple[Trial, ...]:
    return tuple(
        replace(trial, runs=tuple(run for run in trial.runs if (run.phase is Phase.CONFIRMATION) is proof))
        for trial in trials
    )


def schedule_of(experiment: Experiment) -> Schedule:
    """Give the schedule that an experiment asks for."""
    if experiment.runner == "within":
        return Phases(experiment)
    return Schedule(experiment) if experiment.replay is None else OnReplays(experiment)
