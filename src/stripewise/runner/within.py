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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from stripewise.spec.experiment import Experiment
from stripewise.spec.facts import RunFacts
from stripewise.spec.formats import MAX_ORDERS
from stripewise.spec.journal import JournalPhase, parse_journal
from stripewise.spec.launch import Launch, Outcome
from stripewise.spec.orders import Order, append_orders, runs_of
from stripewise.spec.parameter import Parameter
from stripewise.spec.phase_report import report_of
from stripewise.spec.plan import Plan
from stripewise.spec.policy import load_policy
from stripewise.spec.stack import load_stack
from stripewise.spec.trial import Phase, State
from stripewise.spec.workload import Workload

_STEP = 0.01
_REPEATED = 3
_AHEAD = 16
"""Orders that are written ahead once the experiment is decided."""


def choose_kind(phases: Iterable[JournalPhase], operation: str = "") -> tuple[str, str, bool, bool] | None:
    """Choose which phases to tune: as soon as some have come three times, of those that came twice the costliest.

    Parameters
    ----------
    phases : iterable of JournalPhase
        Of one launch, in order.
    operation : str
        ``write`` or ``read`` where only these count.

    Returns
    -------
    tuple or None
        As :attr:`~stripewise.spec.journal.JournalPhase.kind`; None where it is too early to tell.
    """
    count: Counter[tuple[str, str, bool, bool]] = Counter()
    seconds: Counter[tuple[str, str, bool, bool]] = Counter()
    for phase in phases:
        if operation and phase.operation != operation:
            continue
        count[phase.kind] += 1
        seconds[phase.kind] += phase.seconds  # type: ignore[assignment]
        if count[phase.kind] == _REPEATED:
            return max((kind for kind in count if count[kind] > 1), key=lambda kind: seconds[kind])
    return None


@dataclass(frozen=True)
class Loss:
    """What trying has cost in a launch, in seconds of I/O.

    Attributes
    ----------
    lost : float
        Against the default, over all phases that had other settings; negative for a gain.
    default : float
        What all phases would have taken with the default.
    typical : float
        What one of them would have.
    """

    lost: float
    default: float
    typical: float

    @classmethod
    def of(cls, phases: Sequence[JournalPhase]) -> Loss | None:
        """Estimate it from the phases of one kind in a launch; None before one has run after the first."""
        pairs = list(zip(phases, phases[1:], strict=False))
        usual = [phase for _, phase in pairs if not phase.settings]
        if not usual:
            return None
        # What a phase leaves to be written slows the next one, which therefore counts as tried too.
        apart = [phase for before, phase in pairs if not phase.settings and not before.settings]
        cost = statistics.median(phase.seconds / phase.moved for phase in apart or usual)
        tried = [phase for before, phase in pairs if phase.settings or before.settings]
        lost = sum(phase.seconds - cost * phase.moved for phase in tried)
        moved = [phase.moved for phase in phases]
        return cls(lost, cost * sum(moved), cost * statistics.median(moved))

    def allows(self, excess: float, most: float) -> bool:
        """Whether a phase that may take ``excess`` times the default longer keeps the loss below a part of it."""
        return excess <= 0 or self.lost + excess * self.typical <= most * self.default


@dataclass
class _Launched:
    """A launch of the program, with its orders and answers."""

    folder: Path
    identity: Identity | None = None
    process: subprocess.Popen[bytes] | None = None
    phases: list[JournalPhase] = field(default_factory=list)
    given: dict[int, int] = field(default_factory=dict)
    last: int = 0
    read: int = 0

    @property
    def orders(self) -> Path:
        return self.folder / "orders"

    @property
    def running(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return self.identity is not None and self.identity.here and self.identity.alive

    def look(self) -> None:
        """Read the answers that have come; one that is still being written waits."""
        try:
            with (self.folder / "answers").open("rb") as stream:
                stream.seek(self.read)
                new = stream.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self.read += len(whole)
        self.phases += parse_journal(whole.decode("utf-8", "surrogateescape")).phases

    def order(self, orders: Sequence[Order]) -> None:
        """Append orders."""
        append_orders(self.folder / "orders", orders)
        self.last = orders[-1].number

    def ordered(self, number: int) -> JournalPhase | None:
        return next((phase for phase in self.phases if phase.order == number), None)


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
        self._launches: list[_Launched] = []
        self._joined = False
        self._asked: dict[int, Launch] = {}
        self._kind: tuple[str, str, bool, bool] | None = None
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
            self._launches.append(_reopened(folder))
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
        if self._joined and (self._kind is not None or self._launches[-1].running):
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
        if not self._launches or self._kind is None:
            return
        settings = [setting for setting in plan.settings if setting.carrier.decided]
        current = self._launches[-1]
        written = current.last
        while current.running:
            current.look()
            waiting = sum(current.ordered(number) is None for number in range(max(1, written - _AHEAD), written + 1))
            if settings and waiting < _AHEAD // 2 and written + _AHEAD < MAX_ORDERS:
                site, operation, *_ = self._kind
                numbers = range(written + 1, written + 1 + _AHEAD)
                current.order([Order(n, site, operation, settings) for n in numbers])
                written += _AHEAD
            time.sleep(5 * _STEP)

    # -- launches ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        found = self._found
        assert found is not None, "prepare comes first"
        experiment = self._experiment
        folder = self._folder / f"launch-{len(self._launches)}"
        launched = _Launched(folder)
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

    def _ended(self, current: _Launched) -> list[Outcome]:
        """The program has ended before the runs that were asked for."""
        code = None if current.process is None else current.process.returncode
        how = "ended" if code is None else f"ended with exit code {code}"
        if self._kind is None:
            reason = f"the program {how} before phases of I/O were repeated {_REPEATED} times"
            return [
                Outcome(number, State.FAILED, 0.0, time.time(), reason, exit_code=code, folder=current.folder)
                for number in self._asked
            ]
        self._over = f"the program {how} after {len(self._alike(current))} phases, before the experiment was decided"
        return []

    # -- phases --------------------------------------------------------------------------------------------

    def _choose(self) -> None:
        if self._kind is None:
            operation = self._experiment.objective.name.partition(":")[2]
            kinds = (choose_kind(one.phases, operation) for one in self._launches)
            self._kind = next((kind for kind in kinds if kind is not None), None)

    def _alike(self, launched: _Launched) -> list[JournalPhase]:
        return [phase for phase in launched.phases if phase.kind == self._kind]

    def _outcome(self, asked: Launch) -> Outcome | None:
        if self._kind is None:
            return None
        for launched in reversed(self._launches):
            if asked.number in launched.given:
                phase = launched.ordered(launched.given[asked.number])
                if (
                    phase is not None
                    and phase.kind == self._kind
                    and not _pays_for_others(asked, self._alike(launched), phase)
                ):
                    return self._outcome_of(asked, launched, phase)
                if phase is not None:  # the program did something else at that open, or the phase is to be repeated
                    del launched.given[asked.number]
        if asked.phase is Phase.WARMUP and not asked.plan.settings:
            # The first phase of a launch makes folders and connections, and stands apart.
            return self._outcome_of(asked, self._launches[-1], self._alike(self._launches[-1])[0])
        return None

    def _outcome_of(self, asked: Launch, launched: _Launched, phase: JournalPhase) -> Outcome:
        doing = "writing" if phase.operation == "write" else "reading"
        alike = self._alike(launched)
        place = alike.index(phase)
        loss = Loss.of(alike[: place + 1])
        before = alike[place - 1] if place > 1 and alike[place - 2].settings != alike[place - 1].settings else None
        reason = ""
        if phase.missed:
            reason = (
                f"{phase.missed} of its settings did not act: the program sets them itself, or MPI or the file system "
                "refused them"
            )
        return Outcome(
            asked.number,
            State.FAILED if reason else State.FINISHED,
            phase.seconds,
            phase.time - phase.seconds,
            reason,
            report=report_of(phase),
            folder=launched.folder,
            metrics={self._experiment.objective.name: phase.bandwidth},
            facts=RunFacts(
                nodes=phase.nodes,
                adopted=bool(asked.attempt),  # its order may have been carried out before it was asked for again
                file_family=f"{doing} {phase.site}",
                switched=None if before is None else before.bandwidth,
                lost=0.0 if loss is None else loss.lost / loss.default,
            ),
        )

    def _order(self, asked: Launch, current: _Launched) -> None:
        """Append the order of the run that is asked for, unless it is there or must wait."""
        if self._kind is None or asked.number in current.given or not self._allowed(asked, self._alike(current)):
            return
        site, operation, *_ = self._kind
        settings, number = asked.plan.settings, current.last + 1
        orders = [Order(number, site, operation, settings, asked.number)]
        if asked.phase is Phase.CONFIRMATION and self._alike(current)[-1].settings != parse_settings(asked.plan):
            orders = [Order(number, site, operation, settings), replace(orders[0], number=number + 1)]
        current.order(orders)
        current.given[asked.number] = current.last

    def _allowed(self, asked: Launch, phases: Sequence[JournalPhase]) -> bool:
        """Whether a run may be tried now, by what trying has cost so far in this launch."""
        if not phases:
            return False  # the first phase of a launch stands apart
        if not asked.plan.settings:
            return True
        loss = Loss.of(phases)
        if loss is None:
            return False
        wanted = parse_settings(asked.plan)
        own = [phase.seconds / phase.moved for phase in phases if phase.settings == wanted]
        within = self._experiment.within
        if own:
            excess = statistics.mean(own) * statistics.median(p.moved for p in phases) / loss.typical - 1
        else:
            # What the search saw to be the best is not expected to lose.
            excess = 0.0 if asked.phase is Phase.CONFIRMATION else within.factor - 1
        return loss.allows(excess, within.max_loss)


def _pays_for_others(asked: Launch, phases: Sequence[JournalPhase], phase: JournalPhase) -> bool:
    """Whether a run of the proof may pay for what other settings left behind: then it is no evidence.

    A setting that only puts off what is to be written looks fast, and makes the next phase slow. So each run of a pair
    follows a phase with the same settings: the pair compares what the program would take with these settings all the
    time.
    """
    place = phases.index(phase)
    return asked.phase is Phase.CONFIRMATION and (place == 0 or phases[place - 1].settings != phase.settings)


def parse_settings(plan: Plan) -> dict[str, str]:
    """Give a plan's settings as answers name them."""
    return {f"{s.layer} {s.key}" if s.carrier.of_file_system else s.key: s.value for s in plan.settings}


def _reopened(folder: Path) -> _Launched:
    """A launch of an earlier session, with its orders and answers so far."""
    launched = _Launched(folder)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        launched.identity = Identity.read(json.loads((folder / "job.json").read_text("utf-8")))
    with contextlib.suppress(OSError):
        launched.given, launched.last = runs_of((folder / "orders").read_text("utf-8", "surrogateescape"))
    launched.look()
    return launched
