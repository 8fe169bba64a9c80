"""One experiment from its first run to its result: plan, launch, measure, store, until nothing is left to do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

# A search needs them while runs are under way: loaded then, they would delay it, and an interruption would meet them.
import scipy.linalg
import scipy.special  # noqa: F401

from stripewise.catalogue.plan import Plan
from stripewise.engine.binding import Seen, check_program
from stripewise.engine.budget import confirmation_runs, shortfall
from stripewise.engine.ceiling import as_benchmark, check_stored, lay_out, read_stored, why_none
from stripewise.engine.companions import Companions, Steps
from stripewise.engine.conclusion import so_far
from stripewise.engine.consent import Consent, agree_always, check_cost, check_run
from stripewise.engine.events import Event, Listener, ignore_event
from stripewise.engine.launching import Allowance, make_launch, run_of
from stripewise.engine.ledger import ExperimentLedger, check_same
from stripewise.engine.loop import Finish, Loop, Planned, Wait, next_attempt
from stripewise.engine.model_prior import Expecting
from stripewise.engine.planner import Planner
from stripewise.engine.priors import agreement, check_named, sampler_at_start
from stripewise.engine.result import conclude, machine_level
from stripewise.engine.schedule import schedule_of
from stripewise.engine.space import BoundSpace, check_space, circumstances_before, describe_space
from stripewise.engine.try_first import configurations, wanted_first
from stripewise.errors import NothingWorks, Stopped, StripewiseError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.models.registry import load_model
from stripewise.observe.ceiling import Ceiling
from stripewise.observe.objectives import kind_of, objective_of
from stripewise.observe.objectives.own_figure import compare_own_figure
from stripewise.requests.experiment import Experiment, ObjectiveEntry
from stripewise.requests.objective import Objective
from stripewise.requests.policy import Policy
from stripewise.result import Result
from stripewise.runners.base import Preflight, Runner
from stripewise.search.base import Sampler, make_sampler
from stripewise.search.policy.pruning import Bound, censored_value, make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.sizes import count_of
from stripewise.store.base import Store
from stripewise.trial import Phase, Role, Run, State, Trial


@dataclass(frozen=True)
class Given:
    """What a session gets from whoever starts it, besides the experiment.

    Attributes
    ----------
    consent : callable
        Is asked before anything is started whose worst case is above the limits of the site.
    policy : Policy
        What the site allows.
    read_model : callable
        Reads the model from which the search starts.
    sampler : Sampler or None
        In place of the one that the experiment names.
    """

    consent: Consent = agree_always
    policy: Policy = field(default_factory=Policy)
    read_model: Callable[[str], Expecting] = load_model
    sampler: Sampler | None = None


class Session:
    """Carries one experiment on.

    Parameters
    ----------
    identifier : str
        The experiment's.
    owner : str
        Who holds the claim, for messages to others.
    listener : callable
        Is told every :class:`~stripewise.engine.events.Event`.
    given : Given, optional
    beside : bool
        Whether another session shares the launch, and waits for its end.
    """

    def __init__(
        self,
        store: Store,
        identifier: str,
        runner: Runner,
        owner: str,
        listener: Listener = ignore_event,
        *,
        given: Given | None = None,
        beside: bool = False,
    ) -> None:
        self._beside = beside
        self._store = store
        self._identifier = identifier
        self._runner = runner
        self._owner = owner
        self._listener = listener
        self._given = given or Given()
        self._bound: BoundSpace | None = None
        self._preflight = Preflight()
        self._companions: Companions | None = None
        self._interrupted: list[Planned] = []
        self._changes: int | None = None
        self._idle: frozenset[tuple[str, object]] | None = None
        self._kept_layouts: tuple[str, ...] | None = None
        self._considered = -1
        self._decided = False

    def run(self) -> Result:
        """Run what is left of the experiment and give its result.

        Raises
        ------
        UserError
            If the experiment cannot be carried out as asked.
        NothingWorks
            If the program fails with its default settings.
        Stopped
            If someone asked for a stop.
        """
        with contextlib.closing(self.steps()) as steps:
            while True:
                try:
                    next(steps)
                except StopIteration as ended:
                    return cast("Result", ended.value)

    def steps(self) -> Steps:
        """Do what :meth:`run` does, a turn of the loop for each element; closed before the end, it can be resumed."""
        try:
            return (yield from self._steps())
        except StripewiseError as error:
            error.naming(self._identifier)
            raise

    def _steps(self) -> Steps:
        self._ledger = ExperimentLedger(
            self._store,
            self._identifier,
            self._owner,
            simulated=lambda: self._runner.simulated,
            queued=lambda: self._runner.queued_seconds,
        )
        self._schedule = schedule_of(self._ledger.experiment)
        self._loop = Loop(self._ledger, self, self._tell_start)
        try:
            self._preflight = self._runner.prepare()
            self._allowance = Allowance(self._ledger, self._runner, self._preflight)
            if not self._ledger.trials and (short := shortfall(self._ledger.experiment)):
                self._preflight = replace(self._preflight, warnings=(*self._preflight.warnings, short))
            self._objective = self._preflight.objective or objective_of(self._ledger.experiment.objective)
            self._tell(
                "prepared",
                preflight=self._preflight,
                objective=self._objective,
                trials=tuple(self._ledger.trials),
            )
            self._check_same_environment()
            self._check_space(self._preflight)
            if self._ledger.facts.ceiling is None:
                check_stored(self._ledger.experiment)
            if self._ledger.facts.warm_start is None:
                check_named(self._store, self._ledger.experiment.warm_start)
            self._ledger.set_state("running")
            self._announce_cost()
            self._planner = self._make_planner()
            self._reap_interrupted()
            self._companions = Companions(
                self._store, self._ledger, self._runner.shared, self._begin_beside, self._note
            )
            result = yield from self._turns()
        except NothingWorks as error:
            # Kept, so that a resumed session gives the program another try instead of the same answer.
            self._ledger.remember(gave_up=len(self._ledger.runs))
            self._put_back(error)
            raise
        except BaseException as error:
            self._put_back(error)
            raise
        finally:
            if self._companions is not None:
                self._companions.close()
            self._runner.close()
            self._schedule.end(self._preflight.replayer, self._identifier)
        self._ledger.release()
        self._tell("finished", result=result)
        return result

    # -- the loop ------------------------------------------------------------------------------------------

    def _turns(self) -> Steps:
        assert self._companions is not None, "made before the loop"
        while True:
            self._fix_space()
            step = self._loop.fill(self._next)
            over = isinstance(step, Finish) and not self._loop.running
            if isinstance(step, Finish) and over and not self._companions.under_way:
                if undecided := self._companions.undecided:
                    raise self._over(undecided, hopeful=True)
                self._tell_stop()
                return self._conclude(step.reason)
            if isinstance(step, Finish) and over:
                self._keep(step.reason)
            self._collect()
            self._companions.advance()
            if self._runner.shared.over:
                how_far, hopeful = so_far(self._objective, self._ledger.experiment, self._ledger.trials)
                raise self._over(f"{self._runner.shared.over}: {how_far}", hopeful)
            self._tell("waiting")
            self._remark()
            if self._ledger.stop_requested():
                raise Stopped(
                    f"experiment {self._identifier} was stopped", f"stripewise resume {self._identifier} goes on"
                )
            self._ledger.keep()
            yield

    def _next(self) -> Planned | Wait | Finish:
        if self._interrupted:
            return self._interrupted.pop(0)
        step = self._planner.next(self._ledger.trials, self._ledger.spent())
        if isinstance(step, Planned) and step.run.phase is Phase.CONFIRMATION:
            self._tell_stop()
        return step

    def _over(self, why: str, hopeful: bool) -> Stopped:
        if not hopeful:
            return Stopped(why, "keep the default, or start a new experiment with other parameters or a larger budget")
        return Stopped(why, f"stripewise resume {self._identifier} goes on with another launch")

    def _begin_beside(self, identifier: str, runner: Runner) -> Steps:
        """Begin the search of another file family of the same launch."""
        # What its runs show in detail belongs to its own result.
        return Session(
            self._store,
            identifier,
            runner,
            self._owner,
            given=replace(self._given, consent=agree_always, sampler=None),
            beside=True,
        ).steps()

    def _keep(self, reason: str) -> None:
        """Let the program use what is proven while searches of other file families go on."""
        if not self._decided:
            self._decided = True
            result = self._result(reason)
            if result.confirmed:
                self._runner.shared.keep(Plan.parse(result.plan, "the plan of the result"))

    def _collect(self) -> None:
        for run, outcome in self._loop.collect():
            check_program(self._ledger, run)
            if self._ledger.trials[run.trial].role is Role.DEFAULT:
                self._schedule.check_default(self._ledger, self._preflight.replayer, run, outcome.activity)
            self._tell_end(run)
            if told := loss_told(run, self._ledger.trials, self._ledger.experiment):
                self._note(told)
        self._take_back()

    def _take_back(self) -> None:
        """Take back runs that trying has cost too much for, where there is something to prove in the meantime.

        Runs of a proof wait: one that never was must not count in its pair.
        """
        held, runs = self._runner.shared.held, self._ledger.runs
        done = sum(run.state.ended for run in runs.values())
        if not held or set(held) != set(self._loop.running) or self._considered == done:
            return
        if any(runs[number].phase is Phase.CONFIRMATION for number in held):
            return
        self._considered = done
        waits = min(held.values())
        if self._planner.space is None or not self._planner.lost_too_much(self._ledger.trials, waits):
            return
        why = f"not tried: by what trying has lost, it would wait for about {self._schedule.counted(waits)}"
        for number in held:
            self._loop.take_back(number)
            outcome = Outcome(number, State.PRUNED, 0.0, time.time(), why, facts=RunFacts(block=0, waits=waits))
            run = run_of(runs[number], outcome, self._objective, 0)
            self._ledger.accept(run)
            self._tell_end(run)

    # -- how runs become results: see Rig ------------------------------------------------------------------

    def has_room(self, running: Mapping[int, Launch]) -> bool:
        """Whether the runner takes one more run, and the node-hours suffice for it."""
        if len(running) >= self._runner.capacity:
            return False
        return not running or self._allowance.left(running, self._nodes) > 0

    def make(self, trial: Trial, run: Run, running: Mapping[int, Launch]) -> Launch:
        """Make the launch of a run, with its limits."""
        timeout = self._allowance.timeout(running, self._nodes, run.phase)
        launch = make_launch(self._ledger, self._bound, trial, run, timeout=timeout, pruned=self._bound_of(run))
        if trial.role is Role.CEILING and self._preflight.benchmark is not None:
            default = next(one for one in self._ledger.trials if one.role is Role.DEFAULT)
            return as_benchmark(launch, self._preflight.benchmark(), default)
        return self._schedule.launched(launch, self._preflight.replayer, self._runner.capacity)

    def start(self, launch: Launch) -> None:
        """Begin a run."""
        self._runner.start(launch)

    def poll(self, timeout: float) -> list[Outcome]:
        """Give runs that have ended."""
        return self._runner.poll(timeout)

    def cancel(self, number: int) -> None:
        """End a run without an outcome."""
        self._runner.cancel(number)

    def result(self, run: Run, outcome: Outcome) -> Run:
        """Give a run with its value; a cut one with the value that it is known to be worse than."""
        if self._ledger.trials[run.trial].role is Role.CEILING:
            # It has times of its own, and no value of the objective.
            return replace(
                run_of(run, outcome, objective_of(ObjectiveEntry()), self._seen.workload.nodes or 1), value=None
            )
        cut = outcome.state is State.PRUNED and self._planner.space is not None
        censored = censored_value(self._planner.history(self._ledger.trials), outcome.elapsed) if cut else None
        facts, units = self._ledger.facts, dict(self._ledger.facts.units)
        made = run_of(run, outcome, self._objective, self._seen.workload.nodes or 1, censored, units)
        if units != facts.units:
            self._ledger.remember(units=units)
        return made

    def _bound_of(self, run: Run) -> Bound | None:
        """When a run is cut: one of the search, of a configuration that has not worked yet."""
        trial, planner = self._ledger.trials[run.trial], self._planner
        if planner.space is None or run.phase is not Phase.SEARCH or trial.role is not Role.CANDIDATE or trial.values:
            return None
        kind, experiment = kind_of(self._objective.name), self._ledger.experiment
        # Slow reads do not keep a configuration from being the best for writes. A number that a limit bounds, such as
        # the most accelerators, may be larger in a run that takes longer.
        other = kind.operation and self._seen.workload.operation != kind.operation
        bounded = kind.name == "regex" and experiment.objective.subject_to
        if (other or bounded) and not experiment.pruning:
            return None
        return planner.pruner.bound(planner.history(self._ledger.trials))

    # -- the result ----------------------------------------------------------------------------------------

    def _conclude(self, reason: str) -> Result:
        assert self._companions is not None, "made before the loop"
        own, prior = self._result(reason), self._planner.sampler.prior
        if self._ledger.facts.warm_start and prior is not None and self._bound is not None:
            told = agreement(prior, self._bound.space, self._planner.history(self._ledger.trials))
            if told:
                self._note(told)
        result = self._companions.tell(own)
        self._ledger.set_state("finished", result)
        plan = Plan.parse(own.plan, "the plan of the result") if own.confirmed else Plan()
        if self._beside:
            self._runner.shared.keep(plan)
        elif failed := self._runner.shared.conclude(plan):
            self._ledger.remember(program_failed=failed)
        return result

    def _result(self, reason: str) -> Result:
        if self._bound is None:
            failed = [run.reason for run in self._ledger.runs.values() if run.state is State.FAILED]
            raise NothingWorks(
                f"{reason} before the program has run once{f': {failed[-1]}' if failed else ''}",
                "make the command work by itself, then start a new experiment with a larger budget",
            )
        return conclude(self._ledger, self._planner, self._bound, reason)

    # -- workload and space --------------------------------------------------------------------------------

    def _make_planner(self) -> Planner:
        experiment = self._ledger.experiment
        sampler = self._given.sampler or make_sampler(experiment.sampler, experiment.sampler_options)
        self._schedule.begin(sampler)
        return Planner(
            experiment,
            self._objective,
            None,
            False,
            sampler,
            make_resampler(experiment.resampling),
            make_pruner(experiment.pruning),
            make_stopping(experiment.stopping),
            self._ledger.facts.gave_up,
        )

    def _fix_space(self) -> None:
        """Fix the space as soon as the workload is known, and remember what it was fixed with."""
        if self._bound is not None or not self._seen.enough:
            return
        bound = self._bound = self._seen.bind(self._objective.program or "", self._note)
        workload, facts = self._seen.workload, self._ledger.facts
        count, exact = bound.space.count()
        self._tell("space", bound=bound, distinct=count, exact=exact, workload=workload)
        if facts.space is None:
            for entry in configurations(bound.space, wanted_first(bound.space, self._ledger.experiment.try_first))[1]:
                self._note(f"not tried first, since it changes nothing that is searched here: {entry}")
            # For those who watch: the result has both in the end.
            self._ledger.remember(space=describe_space(bound).as_json(), objective=self._objective.as_json())
        sampler = sampler_at_start(
            self._store, self._ledger, self._planner, bound.space, workload, self._note, self._given.read_model
        )
        reference = bound.reference is not None
        ceiling = lay_out(bound, workload) if self._measures_ceiling() else None
        self._planner = replace(
            self._planner,
            space=bound.space,
            reference=reference,
            sampler=sampler,
            ceiling=ceiling,
            stored=self._stored_ceiling(),
        )
        finished = (run for run in self._ledger.runs.values() if run.state is State.FINISHED)
        notes = facts.objective_notes or explain_objective(self._objective, next(finished, None))
        for told in notes:
            self._note(told)
        if notes and not facts.objective_notes:
            self._ledger.remember(objective_notes=notes)
        if self._ledger.trials and self._preflight.space is None:
            # The first run has shown how long runs take and how much they move.
            self._announce_cost()

    def _measures_ceiling(self) -> bool:
        """Whether one of the launches is of the benchmark; say why it is not where the user may expect it."""
        default = next((trial for trial in self._ledger.trials if trial.role is Role.DEFAULT), None)
        if default is None or any(trial.role is Role.CEILING for trial in self._ledger.trials):
            return default is not None
        why = why_none(self._ledger.experiment, default, self._preflight.benchmark)
        if why:
            self._note(f"the ceiling of this storage is not measured: {why}")
        return why == ""

    def _stored_ceiling(self) -> Ceiling | None:
        """What the storage gives by the experiment's file, as the first run of the program made it known."""
        known = self._ledger.facts.ceiling
        default = next((trial for trial in self._ledger.trials if trial.role is Role.DEFAULT), None)
        if known is not None or default is None:
            return known
        try:
            found = read_stored(self._ledger.experiment, default)
        except StripewiseError as error:
            self._note(f"the ceiling of this storage is not known: {error}")
            return None
        if found is not None:
            self._ledger.remember(ceiling=found.model_dump(exclude={"default", "best"}))
        return found

    def _announce_cost(self) -> None:
        """Say what the experiment costs at worst, and ask for consent where that is much."""
        if not self._schedule.announced:
            return
        worst = self._allowance.worst(self._loop.running, self._seen.workload.nodes)
        self._tell("worst_case", **worst)
        if self._preflight.occupied is None:
            return
        check_run(self._ledger.facts.run_bytes if self._runner.kind == "measured" else None, self._given.policy)
        also = "" if self._preflight.benchmark is None else ", with one launch of the bundled benchmark"
        agreed = check_cost(worst, self._given.policy, self._ledger.facts.agreed, self._given.consent, also)
        if agreed is not None:
            self._ledger.remember(agreed=agreed)

    def _check_space(self, preflight: Preflight) -> None:
        """Refuse what cannot be searched before a run is spent on it."""
        if preflight.space is None and not self._ledger.trials:
            check_space(self._ledger.experiment, circumstances_before(preflight, self._seen.workload))

    @property
    def _seen(self) -> Seen:
        return Seen(self._ledger, self._preflight, self._runner)

    @property
    def _nodes(self) -> int:
        return self._allowance.nodes(self._seen.workload.nodes)

    # -- interruption --------------------------------------------------------------------------------------

    def _check_same_environment(self) -> None:
        """Never pool runs that differ: another MPI or program makes another experiment."""
        now = dict(self._preflight.fingerprint)
        if self._ledger.facts.fingerprint is None or not any(
            run.state is State.FINISHED for run in self._ledger.runs.values()
        ):
            # No run has a value yet: the user may have repaired the program meanwhile, and wants to tune that.
            self._ledger.remember(fingerprint=now, environment=dict(self._preflight.environment))
        else:
            check_same(self._ledger.facts.fingerprint, now, "start a new experiment")

    def _reap_interrupted(self) -> None:
        """End the processes of runs that an earlier session planned and did not finish; these runs come first."""
        for run in self._ledger.runs.values():
            if not run.state.ended:
                trial, attempt = self._ledger.trials[run.trial], next_attempt(run)
                again = replace(run, facts=run.facts.with_(attempt=attempt))
                self._runner.reap(make_launch(self._ledger, self._bound, trial, again))
                self._interrupted.append(Planned(trial, run, new=False, attempt=attempt))

    def _put_back(self, error: BaseException) -> None:
        """Leave the experiment in a state from which it can be resumed."""
        self._loop.cancel()
        failed = isinstance(error, StripewiseError) and not isinstance(error, Stopped)
        try:
            self._ledger.set_state("failed" if failed else "stopped")
            self._ledger.release()
        except StripewiseError:
            # The store itself may be what failed: the first error is the one to report, and the lease runs out.
            return

    # -- what people are told ------------------------------------------------------------------------------

    def _tell(self, kind: str, **data: Any) -> None:
        self._listener(Event(kind, data))

    def _note(self, text: str) -> None:
        self._tell("note", text=text)

    def _tell_stop(self) -> None:
        """Keep why the search has ended, before the first pair or, without one, before the answer.

        A stopping rule of the user's is said as well.
        """
        trials = self._ledger.trials
        if confirmation_runs(trials) or self._ledger.facts.search_ended:
            return
        if ended := self._planner.why_ended(trials, self._ledger.spent()):
            self._ledger.remember(search_ended=ended)
        if why := self._planner.why_stopped(trials):
            self._note(f"The search ends by its stopping rule: {why}.")

    def _tell_start(self, trial: Trial, run: Run) -> None:
        if run.facts.attempt:
            self._note(f"run {run.number} was interrupted and is launched again")
        self._tell("started", run=run, trial=trial, spent=self._ledger.spent(), budget=self._ledger.experiment.budget)

    def _tell_end(self, run: Run) -> None:
        trials = tuple(self._ledger.trials)
        self._tell("ended", run=run, trial=trials[run.trial], trials=trials, spent=self._ledger.spent())

    def _remark(self) -> None:
        """Say what the search has learned, each once; what earlier sessions have told is not told again."""
        planner, trials = self._planner, self._ledger.trials
        if planner.space is not None:
            changes = machine_level(planner.history(trials)).changes
            for change in changes[len(changes) if self._changes is None else self._changes :]:
                self._note(change.sentence)
            self._changes = max(self._changes or 0, len(changes))
        idle = {(one.name, one.where): one for one in planner.idle(trials)}
        for key in () if self._idle is None else idle.keys() - self._idle:
            self._note(idle[key].sentence)
        self._idle = (self._idle or frozenset()) | idle.keys()
        kept = planner.kept_layouts(trials)
        if kept and self._kept_layouts == ():
            self._note(f"no longer varied: {', '.join(kept)}: files that were there already keep their layout")
        self._kept_layouts = kept


def explain_objective(objective: Objective, run: Run | None) -> list[str]:
    """Say what a run shows of the objective: how it is timed there, and the figure that the program prints itself."""
    if run is None:
        return []
    timed = "" if run.activity is None else kind_of(objective.name).explain(run.activity)
    printed = compare_own_figure(objective.name, run.facts.folder, run.value, objective.unit)
    left = ""
    if run.facts.behind:
        many = count_of(run.facts.behind, "process was", "processes were")
        left = f"{many} still running when the command had ended, and ended with it: what was left to do is not timed"
    return [note for note in (timed, printed, left) if note]


def loss_told(run: Run, trials: Sequence[Trial], experiment: Experiment) -> str:
    """Say what trying has lost once a phase has taken it above what it may lose; empty for any other run.

    Parameters
    ----------
    run : Run
        The latest that ended.
    """
    most, lost = experiment.within.max_loss, run.facts.lost or 0.0
    usual = next((trial.value for trial in trials if trial.role is Role.DEFAULT), None)
    others = [one for trial in trials for one in trial.runs if one.facts.lost is not None and one.number < run.number]
    before = max(others, key=lambda one: one.number).facts.lost or 0.0 if others else 0.0
    if not before <= most < lost or not run.value or not usual or not run.facts.waits:
        return ""
    waits = schedule_of(experiment).counted(run.facts.waits)
    return (
        f"run {run.number} took {usual / run.value:.3g} times as long as the default: trying has lost {lost:.0%} of "
        f"the default's I/O time so far, and {most:.0%} are allowed. Untried settings are paused for about "
        f"{waits} of the default, in which the allowance grows. What is known to be faster, and its proof, go on"
    )
