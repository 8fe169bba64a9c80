"""Runs inside one launch: each phase of a running program, from open to close of a file, is a run.

The tuner appends orders to a file; the runtime in the program reads them before each open and answers in a journal
after each close. Neither waits for the other: a phase for which no order has come runs as the program has it. Where the
tuner is killed, the program goes on; the next session joins it, or starts the next launch.
"""

from __future__ import annotations

import bisect
import contextlib
import copy
import itertools
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.carriers.hint import ROMIO_COMPONENT
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.formats import MAX_ORDERS
from stripewise.launch import Launch, Outcome
from stripewise.observe.journal import JournalPhase, report_of
from stripewise.observe.objectives import kind_of
from stripewise.observe.objectives.loaders import SampleRate
from stripewise.observe.objectives.reported import PhaseBandwidth
from stripewise.observe.orders import Order
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Family, Preflight, Runner, SharedLaunch
from stripewise.runners.program_runner import Found, ProgramRunner, Surroundings
from stripewise.runners.within.families import (
    MIXED,
    REPEATED,
    Kind,
    choose_kinds,
    family_of,
    leave_out_alike,
    members_of,
    orders_for,
    round_with,
    rounds_of,
)
from stripewise.runners.within.launched import Launched
from stripewise.trial import Phase, State

_LEAST_OF_LEVEL = 8
_LEAST_CHANGE = 1.25


def _list_levels(usual: Sequence[tuple[int, JournalPhase]]) -> list[tuple[int, float]]:
    """List from which phase on the default takes which time for a byte: the machine may become slower on the way.

    Parameters
    ----------
    usual : sequence of (int, JournalPhase)
        Phases of the default, with their places in the launch.

    Returns
    -------
    list of (int, float)
        One entry unless most phases of one stretch took longer than most of the next, by a quarter at least.
    """
    each = [math.log(max(phase.seconds / phase.moved, sys.float_info.min)) for _, phase in usual]
    sums = list(itertools.accumulate(each))

    def explained(cut: int) -> float:
        """What a change at a place explains of the squares' sum."""
        return sums[cut - 1] ** 2 / cut + (sums[-1] - sums[cut - 1]) ** 2 / (len(each) - cut)

    cuts = range(_LEAST_OF_LEVEL, len(each) - _LEAST_OF_LEVEL + 1)
    if best := max(cuts, key=explained, default=0):
        parts = each[:best], each[best:]
        (low, middle, high), (low_after, middle_after, high_after) = map(statistics.quantiles, parts)
        apart = high < low_after or high_after < low
        if apart and abs(middle_after - middle) >= math.log(_LEAST_CHANGE):
            return [*_list_levels(usual[:best]), *_list_levels(usual[best:])]
    # The mean, because a launch takes the sum: what disturbs phases now and then disturbs the default too.
    # By their median, each disturbance would count as the loss of the settings that it happened to meet.
    cost = sum(phase.seconds for _, phase in usual) / sum(phase.moved for _, phase in usual)
    return [(usual[0][0], cost)]


@dataclass(frozen=True)
class Loss:
    """What trying has cost in a launch, in seconds of I/O.

    Attributes
    ----------
    lost : float
        Against the default, over all phases that had other settings; negative for a gain.
    doubt : float
        One standard deviation of it, by how phases of the default scatter: what met a phase by chance is no loss.
    default : float
        What all phases would have taken with the default.
    typical : float
        What one phase of the family would have, on average.
    pace : float
        What all that pass until the next phase of the family would have.
    """

    lost: float
    doubt: float
    default: float
    typical: float
    pace: float

    @classmethod
    def of(cls, phases: Sequence[JournalPhase], others: Iterable[Sequence[JournalPhase]] = ()) -> Loss | None:
        """Estimate it from the phases of one family in a launch; None before one has run after the first.

        Parameters
        ----------
        phases : sequence of JournalPhase
        others : iterable of sequence of JournalPhase
            Of the other families that are tuned in this launch, up to the same moment: what is lost is lost by all.
        """
        own = cls._of_one(phases)
        if own is None:
            return None
        beside = [loss for family in others if (loss := cls._of_one(family)) is not None]
        whole = own.default + sum(loss.default for loss in beside)
        lost = own.lost + sum(loss.lost for loss in beside)
        doubt = math.hypot(own.doubt, *(loss.doubt for loss in beside))
        return cls(lost, doubt, whole, own.typical, own.pace * whole / own.default)

    @classmethod
    def _of_one(cls, phases: Sequence[JournalPhase]) -> Loss | None:
        pairs = list(enumerate(zip(phases, phases[1:], strict=False), start=1))
        usual = [(place, phase) for place, (_, phase) in pairs if not phase.settings]
        if not usual:
            return None
        # What a phase leaves to be written slows the next one, which therefore counts as tried too.
        apart = [(place, phase) for place, (before, phase) in pairs if not phase.settings and not before.settings]
        levels = _list_levels(apart or usual)
        starts = [place for place, _ in levels[1:]]
        costs = [levels[bisect.bisect_right(starts, place)][1] for place in range(len(phases))]
        tried = [place for place, (before, phase) in pairs if phase.settings or before.settings]
        lost = sum(phases[place].seconds - costs[place] * phases[place].moved for place in tried)
        scattered = [phase.seconds - costs[place] * phase.moved for place, phase in apart or usual]
        doubt = statistics.stdev(scattered) * math.sqrt(len(tried)) if len(scattered) > 1 else 0.0
        default = sum(cost * phase.moved for cost, phase in zip(costs, phases, strict=True))
        typical = costs[-1] * statistics.median(phase.moved for phase in phases)
        return cls(lost, doubt, default, typical, typical)

    def wait(self, excess: float, most: float) -> int:
        """Phases of the default that must pass before such a phase keeps the loss below the part that is allowed.

        What is allowed grows with the launch, because it is a share of its I/O time. Of what was lost, only what is
        more than chance counts: on a busy machine single phases take ten times as long, whatever they try.
        """
        if excess <= 0:
            return 0
        missing = (max(min(self.lost, 0.0), self.lost - self.doubt) + excess * self.typical) / most - self.default
        return max(0, math.ceil(missing / self.pace - 1e-9))


def excess_of(asked: Launch, phases: Sequence[JournalPhase], loss: Loss, factor: float) -> float:
    """How much longer than the default a phase of a run is expected to take, as a part of the default's time.

    Parameters
    ----------
    asked : Launch
    phases : sequence of JournalPhase
        The family's in the launch.
    loss : Loss
    factor : float
        How many times as long as the default something untried may take.
    """
    if not asked.plan.settings:
        return 0.0
    wanted = name_settings(asked.plan.settings)
    own = [phase.seconds / phase.moved for phase in phases if phase.settings == wanted]
    excess = factor - 1
    if own:
        excess = statistics.fmean(own) * statistics.median(p.moved for p in phases) / loss.typical - 1
    if asked.phase is Phase.CONFIRMATION and (not own or excess <= factor - 1):
        return 0.0  # what the search saw to be the best is not expected to lose
    return excess


def name_settings(settings: Sequence[Setting]) -> dict[str, str]:
    """Give settings as answers name them."""
    return {f"{s.layer} {s.key}" if s.carrier.of_file_system else s.key: s.value for s in settings}


def block_of(asked: Launch, phases: Sequence[JournalPhase], last: JournalPhase) -> Sequence[JournalPhase] | None:
    """Give the phases that a run holds, the last of which is known; None where they are no evidence.

    A setting that only puts off what is to be written looks fast, and makes the next phase slow. So each run of a pair
    follows a phase with the same settings: the pair compares what the program would take with these settings all the
    time.

    Parameters
    ----------
    asked : Launch
    phases : sequence of JournalPhase
        The family's in the launch, in order.
    last : JournalPhase
        One of them.
    """
    end = phases.index(last) + 1
    if asked.phase is not Phase.CONFIRMATION:
        return [last] if last.settings != MIXED else None
    block = phases[max(0, end - asked.block) : end]
    before = phases[: end - asked.block][-1:] if end > asked.block else []
    return block if before and all(one.settings == last.settings for one in (*before, *block)) else None


def _find_switched(asked: Launch, phases: Sequence[JournalPhase], start: int) -> float | None:
    """The bandwidth of the phase before a run of the proof, where it only separates its settings from others."""
    if asked.phase is not Phase.CONFIRMATION or start < 2 or phases[start - 2].settings == phases[start - 1].settings:
        return None
    return phases[start - 1].bandwidth


def _append(current: Launched, orders: Sequence[Order]) -> None:
    current.order(orders)
    for one in orders:
        current.ahead[one.site, one.operation] = name_settings(one.settings)


_STEP = 0.01
_AHEAD = 64
"""Orders that are written ahead once the experiment is decided: a busy machine may hold the tuner up for a second."""


class WithinRunner(ProgramRunner, SharedLaunch):
    """Runs the phases of one launch of the experiment's command, on this machine or by the command's own launcher.

    Parameters
    ----------
    experiment, folder, surroundings
        See :class:`~stripewise.runners.program_runner.ProgramRunner`. The folders are of the launches, and phases need
        the runtime.
    """

    name = "within"

    def __init__(self, experiment: Experiment, folder: Path, surroundings: Surroundings | None = None) -> None:
        super().__init__(experiment, folder, surroundings)
        self._launches: list[Launched] = []
        self._joined = False
        # Shared by the runners of all families that are tuned in the same launches.
        self._searches: list[WithinRunner] = [self]
        self._tuned: list[tuple[Kind, ...]] = []
        self._begin_again()

    def _begin_again(self) -> None:
        self._asked: dict[int, Launch] = {}
        self._answered: list[Outcome] = []
        self._risked: dict[int, float] = {}
        self._kinds: tuple[Kind, ...] = ()
        self._others: tuple[Kind, ...] = ()
        self._kept: Sequence[Setting] = ()
        self._over = ""

    @property
    def _of_loaders(self) -> bool:
        """Whether phases are epochs of loaders, which count samples."""
        return isinstance(kind_of(self.experiment.objective.name), SampleRate)

    @property
    def _unit(self) -> int:
        return 1 if self._of_loaders else 2**20

    # -- the stage -----------------------------------------------------------------------------------------

    def prepare(self) -> Preflight:
        """Check the command, and read what earlier sessions have left; see :class:`Runner`."""
        preflight = super().prepare()
        while (folder := self.folder / f"launch-{len(self._launches)}").is_dir():
            self._launches.append(Launched.reopened(folder))
        if self._launches:
            self._choose()
        return preflight

    def _check(self) -> None:
        """Refuse what phases of one launch cannot have."""
        experiment = self.experiment
        if not isinstance(kind_of(experiment.objective.name), PhaseBandwidth | SampleRate):
            raise UserError(
                f"phases of one launch have no {experiment.objective.name}",
                "leave --objective out, or use phase_bandwidth:write, phase_bandwidth:read or sample_rate",
            )
        hooks = experiment.hooks
        if hooks.before or hooks.after or hooks.delete or hooks.drop_caches != "none":
            raise UserError("hooks surround launches, and phases of one launch have none", "leave the hooks out")
        switched = [name for name in experiment.stacks if load_stack(name).off is not None]
        if switched:
            raise UserError(
                f"the component of stack {switched[0]} is switched on when the program is launched",
                "tune it without --within",
            )

    def _describe(self, preflight: Preflight, found: Found | None) -> Preflight:
        """Say what trials inside one launch make of a preflight."""
        if self._of_loaders:
            why = found.target.program.isolated if found is not None else ""
            if why:
                raise UserError(f"orders need a module in the program's Python: {why}", "tune without --within")
        elif found is not None and found.library_for(found.target) is None:
            why = found.target.why_not_preloaded or "it is not an MPI program"
            cure = "tune without --within; loaders of PyTorch take orders with --stack torch"
            raise UserError(f"orders need the runtime, which cannot be preloaded: {why}", cure)
        known = preflight.lost

        def lost(parameter: Parameter) -> str:
            early = parameter.carrier.why_early(parameter.setting)
            if parameter.carrier.of_objects is not self._of_loaders:
                early = early or "only loaders are tuned" if self._of_loaders else "it is not of an open file"
            return f"{early}: ordinary trials can search it, without --within" if early else known(parameter)

        summary = [*preflight.summary, f"launches  {self.folder}: orders, answers, output of the program"]
        if preflight.io == "ompio":
            summary.append(
                "OMPIO     its own parameters act when the program is launched; with --mca io "
                f"{preflight.told.romio or f'COMPONENT, {ROMIO_COMPONENT},'} the hints of ROMIO act at each open"
            )
        if self.experiment.within.settle:
            summary.append("settle    files are synchronised before they are closed: phases cost more than without")
        # A phase of the program does not tell all that its Python used.
        return replace(preflight, lost=lost, summary=tuple(summary), watched=False)

    def start(self, launch: Launch) -> None:
        """Ask for a run; see :class:`Runner`. The program is started for the first one, unless it still runs."""
        self._asked[launch.number] = launch
        if self._joined and (self._kinds or self._launches[-1].running):
            return
        if not self._launches or not self._launches[-1].running:
            self._begin()
        self._joined = True

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for the answer; see :class:`Runner`. Searches of other families get theirs meanwhile."""
        deadline = time.monotonic() + timeout
        served: tuple[int, bool] | None = None
        while self._asked and not self._answered:
            current = self._launches[-1]
            running = current.running
            current.look()
            # Only an answer or the end of the program changes anything, and the program may need this processor.
            now = len(current.phases), running
            for search in self._searches if now != served else ():
                search._serve(current, running)
            served = now
            if any(search._answered or search._over for search in self._searches) or time.monotonic() >= deadline:
                break
            self._pause()
        answered, self._answered = self._answered, []
        return answered

    def _serve(self, current: Launched, running: bool) -> None:
        """Take the answers that have come, and give the next orders."""
        self._choose()
        answered = [found for asked in self._asked.values() if (found := self._outcome(asked)) is not None]
        if self._asked and not answered and not running:
            answered = self._ended(current)
        for outcome in answered:
            del self._asked[outcome.number]
            self._risked.pop(outcome.number, None)
        self._answered += answered
        if answered or self._over:
            return
        for asked in self._asked.values():
            self._order(asked, current)
        if running:
            self._write_ahead(current)

    def _pause(self) -> None:
        """Wait for the program."""
        time.sleep(_STEP)

    def cancel(self, number: int) -> None:
        """Forget a run; its order, if it has one, is answered for the next session."""
        self._asked.pop(number, None)
        self._risked.pop(number, None)

    def close(self) -> None:
        """Leave the launch to the searches of other families; see :class:`Runner`. The program goes on."""
        if not self._kept and self in self._searches:
            self._searches.remove(self)

    @property
    def shared(self) -> SharedLaunch:
        """All runs share its launches; see :class:`Runner`."""
        return self

    @property
    def family(self) -> Family:
        """See :class:`SharedLaunch`."""
        return self._kinds[0]

    @property
    def others(self) -> Sequence[Family]:
        """See :class:`SharedLaunch`."""
        return self._others

    def beside(self, family: Family, experiment: Experiment) -> Runner:
        """Give the runner of another family of the same launches; see :class:`SharedLaunch`."""
        other = copy.copy(self)
        other._begin_again()
        other.experiment = experiment
        other._kinds = (family,)
        self._searches.append(other)
        return other

    def reap(self, launch: Launch) -> None:
        """Nothing is to end: an order that was given is answered by the phase that carries it out."""

    @property
    def capacity(self) -> int:
        """Four: two pairs of a proof, so that orders are there whenever a phase begins."""
        return 4

    @property
    def held(self) -> Mapping[int, int]:
        """Runs that wait because trying has cost too much; see :class:`SharedLaunch`."""
        if not self._launches or not self._kinds:
            return {}
        current = self._launches[-1]
        waits = {n: self._wait(asked, current) for n, asked in self._asked.items() if not self._given(current, n)}
        return {number: phases for number, phases in waits.items() if phases}

    @property
    def over(self) -> str:
        """The program has ended; see :class:`SharedLaunch`."""
        return self._over

    @property
    def seen(self) -> tuple[Workload, Mapping[str, int]] | None:
        """What the first phase of the kind that is tuned shows; see :class:`SharedLaunch`."""
        phase = next((phase for one in self._launches for phase in self._alike(one)), None)
        if phase is None:
            return None
        known: dict[str, Any] = {}
        for name, value in {**phase.workload, **({"driver": phase.driver} if phase.driver else {})}.items():
            with contextlib.suppress(ValidationError):
                known |= Workload.model_validate({name: value}).model_dump(exclude_none=True)
        layout = {key: int(value) for key, value in phase.layout.items() if value.isdigit()}
        return Workload.model_validate(known), {k: layout[k] for k in ("stripe_count", "stripe_size") if k in layout}

    def keep(self, plan: Plan) -> None:
        """Let phases that nobody asks about have what is proven; see :class:`SharedLaunch`."""
        self._kept = [setting for setting in plan.settings if not setting.carrier.why_early(setting.key)]

    def conclude(self, plan: Plan) -> str:
        """Let the rest of the program run with what is proven, and wait for its end; see :class:`SharedLaunch`."""
        self.keep(plan)
        if not self._launches or not self._kinds:
            return ""
        current = self._launches[-1]
        while current.running:
            current.look()
            for search in self._searches:
                search._write_ahead(current)
            time.sleep(5 * _STEP)
        code = 0 if current.process is None else current.process.returncode
        return f"the program then ended with exit code {code} (its output is in {current.folder})" if code else ""

    def _write_ahead(self, current: Launched) -> None:
        """Keep orders with what is proven ahead of the program."""
        waiting = current.waiting if self._kept else Counter()
        for kind in self._kinds if self._kept else ():
            if waiting[kind[:2]] < _AHEAD // 2 and current.last + _AHEAD < MAX_ORDERS:
                numbers = range(current.last + 1, current.last + 1 + _AHEAD)
                _append(current, [Order(number, *kind[:2], self._kept) for number in numbers])

    # -- launches ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        folder = self.folder / f"launch-{len(self._launches)}"
        self._launches.append(Launched.started(folder, self.experiment, self.found, self.cwd, loaders=self._of_loaders))

    def _ended(self, current: Launched) -> list[Outcome]:
        """The program has ended before the runs that were asked for."""
        code = None if current.process is None else current.process.returncode
        how = "ended" if code is None else f"ended with exit code {code}"
        if not self._kinds:
            what = "phases of I/O were repeated"
            if self._of_loaders:
                what = "a loader of PyTorch, in one process that does all the work, had passed its data"
            reason = f"the program {how} before {what} {REPEATED} times"
            return [
                Outcome(number, State.FAILED, 0.0, time.time(), reason, exit_code=code, folder=current.folder)
                for number in self._asked
            ]
        self._over = f"the program {how} after {len(self._alike(current))} phases, before the experiment was decided"
        return []

    # -- phases --------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        if not self._kinds:
            entry = self.experiment
            operation = entry.objective.name.partition(":")[2]
            together = entry.within.families != "costliest"
            found = (choose_kinds(one.phases, operation, entry.files, together=together) for one in self._launches)
            self._kinds = next(filter(None, found), ())
            if entry.within.families == "each":
                self._kinds, self._others = self._kinds[:1], leave_out_alike(self._kinds)[1:]
        if self._kinds and self._kinds not in self._tuned:
            self._tuned.append(self._kinds)

    def _alike(self, launched: Launched) -> list[JournalPhase]:
        return rounds_of(launched.phases, self._kinds)

    def _loss(self, launched: Launched, phases: Sequence[JournalPhase]) -> Loss | None:
        """What trying has lost in a launch, all families together, until the last of some phases."""
        end = phases[-1].time if phases else 0.0
        others = (rounds_of(launched.phases, kinds) for kinds in self._tuned if kinds != self._kinds)
        return Loss.of(phases, ([phase for phase in one if phase.time <= end] for one in others))

    def _outcome(self, asked: Launch) -> Outcome | None:
        if not self._kinds:
            return None
        for launched in reversed(self._launches):
            key = self._kinds[0][:2], asked.number
            if key in launched.given:
                phase = launched.ordered(launched.given[key])
                if phase is None:
                    continue
                if phase.kind in self._kinds:
                    alike = self._alike(launched)
                    whole = round_with(alike, phase)
                    if whole is None:
                        continue  # phases of other families are still to come
                    block = block_of(asked, alike, whole)
                    if block is not None:
                        return self._outcome_of(asked, launched, alike, block)
                # The program did something else at that open, or the phases are to be repeated.
                del launched.given[key]
        if asked.phase is Phase.WARMUP and not asked.plan.settings and (first := self._alike(self._launches[-1])[:1]):
            # The first phase of a launch makes folders and connections, and stands apart.
            return self._outcome_of(asked, self._launches[-1], first, first)
        return None

    def _outcome_of(
        self, asked: Launch, launched: Launched, phases: Sequence[JournalPhase], block: Sequence[JournalPhase]
    ) -> Outcome:
        """Give the outcome of a run: block are its phases among those of its family in the launch."""
        start, last, within = phases.index(block[0]), block[-1], self.experiment.within
        loss = self._loss(launched, phases[: phases.index(last) + 1])
        earlier = sum(len(self._alike(one)) for one in self._launches[: self._launches.index(launched)])
        reason, kept_layout = "", any(phase.kept_layout for phase in block)
        if missed := max(phase.missed for phase in block):
            why = last.evidence.partition(";")[2] if self._of_loaders else ""
            why = why or ("the file was there already, and keeps its layout" if kept_layout else "")
            why = why or "the program sets them itself, or MPI or the file system refused them"
            reason = f"{missed} of its settings did not act: {why}"
        seconds = sum(phase.seconds for phase in block)
        return Outcome(
            asked.number,
            State.FAILED if reason else State.FINISHED,
            seconds,
            block[0].time - block[0].seconds,
            reason,
            report=report_of(members_of(launched.phases, self._kinds, last)),
            folder=launched.folder,
            metrics={self.experiment.objective.name: sum(phase.moved for phase in block) / self._unit / seconds},
            facts=RunFacts(
                nodes=last.nodes,
                adopted=bool(asked.attempt),  # its order may have been carried out before it was asked for again
                file_family=family_of(last),
                switched=_find_switched(asked, phases, start),
                kept_layout=kept_layout,
                passed=earlier + start + len(block),
                lost=0.0 if loss is None else loss.lost / loss.default,
                waits=0 if loss is None else loss.wait(within.factor - 1, within.max_loss),
            ),
        )

    def _given(self, current: Launched, number: int) -> bool:
        return (self._kinds[0][:2], number) in current.given

    def _order(self, asked: Launch, current: Launched) -> None:
        """Append the orders of the run that is asked for, unless they are there or must wait."""
        if not self._kinds or self._given(current, asked.number) or self._wait(asked, current):
            return
        settings, count = asked.plan.settings, asked.block
        search = self._kinds[0][:2]
        before = current.ahead.get(search) if current.waiting[search] else None
        last = self._alike(current)[-1].settings if before is None else before
        # After a mixed round one family may have been an order behind.
        if last == MIXED or (asked.phase is Phase.CONFIRMATION and last != name_settings(asked.plan.settings)):
            count += 1
        kinds = orders_for(current.phases, self._kinds, current.waiting, count)
        orders = [Order(number, *kind[:2], settings) for number, kind in enumerate(kinds, current.last + 1)]
        own = max(place for place, kind in enumerate(kinds) if kind == self._kinds[0])
        orders[own] = replace(orders[own], run=asked.number)
        _append(current, orders)

    def _wait(self, asked: Launch, current: Launched) -> int:
        """Phases that must pass before a run may be tried, by what trying has cost so far in this launch."""
        phases = self._alike(current)
        loss = self._loss(current, phases)
        if not phases or (loss is None and asked.plan.settings):
            return 1  # the first phase of a launch stands apart
        if loss is None or not asked.plan.settings:
            return 0
        within = self.experiment.within
        excess = excess_of(asked, phases, loss, within.factor)
        # What others have ordered may be lost as well.
        risked = sum(sum(search._risked.values()) for search in self._searches if search is not self)
        waits = replace(loss, lost=loss.lost + risked).wait(excess, within.max_loss)
        self._risked[asked.number] = max(0.0, excess * loss.typical)
        if waits:
            del self._risked[asked.number]
        return waits
