"""Runs inside one launch: each phase of a running program, from open to close of a file, is a run.

The tuner appends orders to a file; the runtime in the program reads them before each open and answers in a journal
after each close. Neither waits for the other: a phase for which no order has come runs as the program has it. Where the
tuner is killed, the program goes on; the next session joins it, or starts the next launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.errors import StripewiseError, UserError
from stripewise.objectives import kind_of
from stripewise.objectives.reported import PhaseBandwidth
from stripewise.ownership import make_folder, written_whole
from stripewise.runner.base import Preflight, Runner
from stripewise.runner.inject.assemble import defaults_of, words_of
from stripewise.runner.inject.foreground import prepare
from stripewise.runner.inject.injection import Guidance
from stripewise.runner.local.preflight import Found, find
from stripewise.runner.local.processes import Identity
from stripewise.runner.within.families import MIXED, REPEATED, Kind, choose_kinds, rounds_of
from stripewise.runner.within.launched import Launched
from stripewise.runner.within.loss import Loss
from stripewise.runner.within.outcome import block_of, outcome_of, parse_settings
from stripewise.spec.experiment import Experiment
from stripewise.spec.formats import MAX_ORDERS
from stripewise.spec.journal import JournalPhase
from stripewise.spec.launch import Launch, Outcome
from stripewise.spec.orders import Order, append_orders
from stripewise.spec.parameter import Parameter
from stripewise.spec.plan import Plan
from stripewise.spec.policy import load_policy
from stripewise.spec.stack import load_stack
from stripewise.spec.trial import Phase, State
from stripewise.spec.workload import Workload

_STEP = 0.01
_AHEAD = 16
"""Orders that are written ahead once the experiment is decided."""


class WithinRunner(Runner):
    """Runs the phases of one launch of the experiment's command, on this machine or by the command's own launcher.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where the folders of the launches are made.
    runtime : str
        As for the local runner, but not ``none``.
    cwd : Path, optional
    """

    name = "within"

    def __init__(self, experiment: Experiment, folder: Path, *, runtime: str = "auto", cwd: Path | None = None) -> None:
        self._experiment = experiment
        self._folder = folder.absolute()
        self._runtime = runtime
        self._cwd = cwd or Path.cwd()
        self._found: Found | None = None
        self._launches: list[Launched] = []
        self._joined = False
        self._asked: dict[int, Launch] = {}
        self._kinds: tuple[Kind, ...] = ()
        self._over = ""

    # -- the stage -----------------------------------------------------------------------------------------

    def prepare(self) -> Preflight:
        """Check the command, and read what earlier sessions have left; see :class:`Runner`."""
        experiment = self._experiment
        if not isinstance(kind_of(experiment.objective.name), PhaseBandwidth):
            raise UserError(
                f"phases of one launch have no {experiment.objective.name}",
                "leave --objective out, or use phase_bandwidth:write or phase_bandwidth:read",
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
        found = self._found = find(experiment, os.environ, self._cwd, self._runtime)
        if found.library_for(found.target) is None:
            why = found.target.why_not_preloaded or "it is not an MPI program"
            raise UserError(f"orders need the runtime, which cannot be preloaded: {why}", "tune without --within")
        while (folder := self._folder / f"launch-{len(self._launches)}").is_dir():
            self._launches.append(Launched.reopened(folder))
        if self._launches:
            self._choose()
        known = found.preflight.lost

        def lost(parameter: Parameter) -> str:
            early = parameter.carrier.undecided
            return f"{early}: ordinary trials can search it, without --within" if early else known(parameter)

        summary = [*found.preflight.summary, f"launches  {self._folder}: orders, answers, output of the program"]
        if found.preflight.io == "ompio":
            summary.append(
                "OMPIO     its own parameters act when the program is launched; with --mca io romio341 the hints of "
                "ROMIO act at each open"
            )
        if experiment.within.settle:
            summary.append("settle    files are synchronised before they are closed: phases cost more than without")
        return replace(found.preflight, lost=lost, summary=tuple(summary))

    def start(self, launch: Launch) -> None:
        """Ask for a run; see :class:`Runner`. The program is started for the first one, unless it still runs."""
        self._asked[launch.number] = launch
        if self._joined and (self._kinds or self._launches[-1].running):
            return
        if not self._launches or not self._launches[-1].running:
            self._begin()
        self._joined = True

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for the answer; see :class:`Runner`."""
        deadline = time.monotonic() + timeout
        while self._asked:
            current = self._launches[-1]
            running = current.running
            current.look()
            self._choose()
            answered = [found for asked in self._asked.values() if (found := self._outcome(asked)) is not None]
            if not answered and not running:
                answered = self._ended(current)
            for outcome in answered:
                del self._asked[outcome.number]
            if answered or self._over:
                return answered
            for asked in self._asked.values():
                self._order(asked, current)
            if time.monotonic() >= deadline:
                break
            self._pause()
        return []

    def _pause(self) -> None:
        """Wait for the program."""
        time.sleep(_STEP)

    def cancel(self, number: int) -> None:
        """Forget a run; its order, if it has one, is answered for the next session."""
        self._asked.pop(number, None)

    def reap(self, launch: Launch) -> None:
        """Nothing is to end: an order that was given is answered by the phase that carries it out."""

    @property
    def capacity(self) -> int:
        """Two: the next order is there when the phase of the one before it ends."""
        return 2

    @property
    def held(self) -> Mapping[int, int]:
        """Runs that wait because trying has cost too much; see :class:`Runner`."""
        if not self._launches or not self._kinds:
            return {}
        current = self._launches[-1]
        phases = self._alike(current)
        waits = {n: self._wait(asked, phases) for n, asked in self._asked.items() if n not in current.given}
        return {number: phases for number, phases in waits.items() if phases}

    @property
    def over(self) -> str:
        """The program has ended; see :class:`Runner`."""
        return self._over

    @property
    def seen(self) -> tuple[Workload, Mapping[str, int]] | None:
        """What the first phase of the kind that is tuned shows; see :class:`Runner`."""
        phase = next((phase for one in self._launches for phase in self._alike(one)), None)
        if phase is None:
            return None
        known: dict[str, Any] = {}
        for name, value in {**phase.workload, **({"driver": phase.driver} if phase.driver else {})}.items():
            with contextlib.suppress(ValidationError):
                known |= Workload.model_validate({name: value}).model_dump(exclude_none=True)
        layout = {key: int(value) for key, value in phase.layout.items() if value.isdigit()}
        return Workload.model_validate(known), {k: layout[k] for k in ("stripe_count", "stripe_size") if k in layout}

    def charged(self, timeout: float) -> tuple[float, int | None]:
        """One launch, whose length only the program knows."""
        return 0.0, None

    def conclude(self, plan: Plan) -> None:
        """Let the rest of the program run with what is proven, and wait for its end; see :class:`Runner`."""
        if not self._launches or not self._kinds:
            return
        settings = [setting for setting in plan.settings if setting.carrier.decided]
        current = self._launches[-1]
        given: dict[Kind, list[int]] = {kind: [] for kind in self._kinds}
        while current.running:
            current.look()
            for kind, waiting in given.items() if settings else ():
                waiting[:] = [number for number in waiting if current.ordered(number) is None]
                if len(waiting) < _AHEAD // 2 and current.last + _AHEAD < MAX_ORDERS:
                    numbers = range(current.last + 1, current.last + 1 + _AHEAD)
                    current.order([Order(number, *kind[:2], settings) for number in numbers])
                    waiting.extend(numbers)
            time.sleep(5 * _STEP)

    # -- launches ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        found = self._found
        assert found is not None, "prepare comes first"
        experiment = self._experiment
        folder = self._folder / f"launch-{len(self._launches)}"
        launched = Launched(folder)
        guidance = Guidance.under(
            load_policy(),
            "orders",
            journal=folder / "answers",
            orders=launched.orders,
            settle=experiment.within.settle,
        )
        try:
            make_folder(folder)
            append_orders(launched.orders, ())
        except OSError as error:
            raise StripewiseError(f"cannot write {folder}: {error.strerror}", "make room, then resume") from error
        plan = Plan(override=experiment.override, files=experiment.files)
        words = words_of(experiment, None, defaults_of(experiment))
        library = found.library_for(found.target)
        ready = prepare(
            plan, words, folder, environment=found.environment, cwd=self._cwd, guidance=guidance, library=library
        )
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            try:
                # A session of its own: the program outlives a tuner that is interrupted or killed.
                launched.process = subprocess.Popen(
                    ready.words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=self._cwd,
                    env={**found.environment, "STRIPEWISE_RUN_FOLDER": str(folder)},
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(f"cannot start {ready.words[0]}: {error.strerror}", "check the command") from error
        launched.identity = Identity.of(launched.process.pid)
        with written_whole(folder / "job.json") as part:
            part.write_text(json.dumps(launched.identity.as_json()), "utf-8")
        self._launches.append(launched)

    def _ended(self, current: Launched) -> list[Outcome]:
        """The program has ended before the runs that were asked for."""
        code = None if current.process is None else current.process.returncode
        how = "ended" if code is None else f"ended with exit code {code}"
        if not self._kinds:
            reason = f"the program {how} before phases of I/O were repeated {REPEATED} times"
            return [
                Outcome(number, State.FAILED, 0.0, time.time(), reason, exit_code=code, folder=current.folder)
                for number in self._asked
            ]
        self._over = f"the program {how} after {len(self._alike(current))} phases, before the experiment was decided"
        return []

    # -- phases --------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        if not self._kinds:
            operation = self._experiment.objective.name.partition(":")[2]
            together = self._experiment.within.families == "sum"
            found = (choose_kinds(one.phases, operation, together=together) for one in self._launches)
            self._kinds = next(filter(None, found), ())

    def _alike(self, launched: Launched) -> list[JournalPhase]:
        return rounds_of(launched.phases, self._kinds)

    def _outcome(self, asked: Launch) -> Outcome | None:
        if not self._kinds:
            return None
        for launched in reversed(self._launches):
            if asked.number in launched.given:
                phase = launched.ordered(launched.given[asked.number])
                if phase is None:
                    continue
                if phase.kind in self._kinds:
                    alike = self._alike(launched)
                    whole = next((one for one in alike if one.order == phase.order), None)
                    if whole is None:
                        continue  # phases of other families are still to come
                    block = block_of(asked, alike, whole)
                    if block is not None:
                        return self._outcome_of(asked, launched, block)
                # The program did something else at that open, or the phases are to be repeated.
                del launched.given[asked.number]
        if asked.phase is Phase.WARMUP and not asked.plan.settings and (first := self._alike(self._launches[-1])[:1]):
            # The first phase of a launch makes folders and connections, and stands apart.
            return self._outcome_of(asked, self._launches[-1], first)
        return None

    def _outcome_of(self, asked: Launch, launched: Launched, block: Sequence[JournalPhase]) -> Outcome:
        return outcome_of(asked, self._experiment, launched.folder, self._alike(launched), block)

    def _order(self, asked: Launch, current: Launched) -> None:
        """Append the orders of the run that is asked for, unless they are there or must wait."""
        if not self._kinds or asked.number in current.given or self._wait(asked, self._alike(current)):
            return
        settings, count = asked.plan.settings, asked.block
        last = self._alike(current)[-1].settings
        # After a mixed round one family is an order behind: the round that follows is mixed as well.
        if last == MIXED or (asked.phase is Phase.CONFIRMATION and last != parse_settings(asked.plan)):
            count += 1
        kinds = [kind for _ in range(count) for kind in self._kinds]
        orders = [Order(number, *kind[:2], settings) for number, kind in enumerate(kinds, current.last + 1)]
        current.order([*orders[:-1], replace(orders[-1], run=asked.number)])
        current.given[asked.number] = current.last

    def _wait(self, asked: Launch, phases: Sequence[JournalPhase]) -> int:
        """Phases that must pass before a run may be tried, by what trying has cost so far in this launch."""
        loss = Loss.of(phases)
        if not phases or (loss is None and asked.plan.settings):
            return 1  # the first phase of a launch stands apart
        if loss is None or not asked.plan.settings:
            return 0
        wanted, within = parse_settings(asked.plan), self._experiment.within
        own = [phase.seconds / phase.moved for phase in phases if phase.settings == wanted]
        excess = within.factor - 1
        if own:
            excess = statistics.median(own) * statistics.median(p.moved for p in phases) / loss.typical - 1
        if asked.phase is Phase.CONFIRMATION and (not own or excess <= within.factor - 1):
            excess = 0.0  # what the search saw to be the best is not expected to lose
        return loss.wait(excess, within.max_loss)
