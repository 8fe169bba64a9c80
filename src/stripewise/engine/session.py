"""One experiment from its first run to its result: plan, launch, measure, store, until nothing is left to do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from stripewise.catalogue.plan import Plan
from stripewise.engine.allowance import Allowance
from stripewise.engine.binding import Seen, check_program, check_replay
from stripewise.engine.budget import shortfall
from stripewise.engine.companions import Companions, Steps
from stripewise.engine.conclusion import so_far
from stripewise.engine.consent import Consent, check_cost, check_run, granted
from stripewise.engine.events import Event, Listener, silent
from stripewise.engine.launching import make_launch, run_of
from stripewise.engine.ledger import Ledger
from stripewise.engine.model_prior import Expecting
from stripewise.engine.planner import Finish, Planned, Planner, Wait
from stripewise.engine.priors import agreement, check_named, sampler_at_start
from stripewise.engine.remarks import Remarks, beside_own_figure, loss_told
from stripewise.engine.result import conclude, machine_level
from stripewise.engine.resuming import check_same_environment, next_attempt, reap_interrupted
from stripewise.engine.schedule import schedule_of
from stripewise.engine.space import BoundSpace, Circumstances, check_space, describe_space
from stripewise.engine.try_first import configurations
from stripewise.errors import NothingWorks, Stopped, StripewiseError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.models.registry import load_model
from stripewise.observe.objectives import kind_of, objective_of
from stripewise.requests.policy import Policy
from stripewise.result import Result
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.replayer import Replayer
from stripewise.search.base import Sampler, make_sampler
from stripewise.search.policy.pruning import Bound, censored_value, make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.store.base import Store
from stripewise.trial import Phase, Role, Run, State, Trial

_POLL_SECONDS = 0.5


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

    consent: Consent = granted
    policy: Policy = field(default_factory=Policy)
    read_model: Callable[[str], Expecting] = load_model
    sampler: Sampler | None = None


class Session:
    """Carries one experiment on.

    Parameters
    ----------
    store : Store
    identifier : str
        The experiment's.
    runner : Runner
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
        listener: Listener = silent,
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
        self._running: dict[int, Launch] = {}
        self._interrupted: list[tuple[Trial, Run]] = []
        self._bound: BoundSpace | None = None
        self._preflight = Preflight()
        self._companions: Companions | None = None
        self._remarks = Remarks(self._note)
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
        self._ledger = Ledger(
            self._store,
            self._identifier,
            self._owner,
            simulated=lambda: self._runner.simulated,
            queued=lambda: self._runner.queued_seconds,
        )
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
            check_same_environment(self._ledger, self._preflight)
            self._check_space(self._preflight)
            if self._ledger.facts.warm_start is None:
                check_named(self._store, self._ledger.experiment.warm_start)
            self._ledger.set_state("running")
            self._announce_cost()
            planner = self._planner()
            self._interrupted = reap_interrupted(self._ledger, self._runner, self._bound)
            self._companions = Companions(
                self._store, self._ledger, self._runner.shared, self._begin_beside, self._note
            )
            result = yield from self._loop(planner)
        except NothingWorks as error:
            # Kept, so that a resumed session gives the program another try instead of the same answer.
            self._ledger.remember(gave_up=sum(1 for _ in self._ledger.runs()))
            self._put_back(error)
            raise
        except BaseException as error:
            self._put_back(error)
            raise
        finally:
            if self._companions is not None:
                self._companions.close()
            self._runner.close()
            if self._preflight.replayer is not None:
                self._preflight.replayer.delete_folders(self._identifier)
        self._ledger.release()
        self._tell("finished", result=result)
        return result

    # -- the loop ------------------------------------------------------------------------------------------

    def _loop(self, planner: Planner) -> Steps:
        assert self._companions is not None, "made before the loop"
        while True:
            planner = self._with_space(planner)
            step = self._fill(planner)
            if isinstance(step, Finish) and not self._running and not self._companions.under_way:
                if undecided := self._companions.undecided:
                    raise self._over(undecided)
                return self._conclude(planner, step.reason)
            if isinstance(step, Finish) and not self._running:
                self._keep(planner, step.reason)
            self._collect(planner)
            self._companions.advance()
            if self._runner.shared.over:
                how_far = so_far(self._objective, self._ledger.experiment, self._ledger.trials)
                raise self._over(f"{self._runner.shared.over}: {how_far}")
            self._tell("waiting")
            if planner.space is not None:
                self._remarks.changes(machine_level(planner.history(self._ledger.trials)).changes)
            self._remarks.idle(planner.idle(self._ledger.trials))
            if self._ledger.stop_requested():
                raise Stopped(
                    f"experiment {self._identifier} was stopped", f"stripewise resume {self._identifier} goes on"
                )
            self._ledger.keep()
            yield

    def _over(self, why: str) -> Stopped:
        return Stopped(why, f"stripewise resume {self._identifier} goes on with another launch")

    def _begin_beside(self, identifier: str, runner: Runner) -> Steps:
        """Begin the search of another file family of the same launch."""
        # What its runs show in detail belongs to its own result.
        return Session(
            self._store,
            identifier,
            runner,
            self._owner,
            given=replace(self._given, consent=granted, sampler=None),
            beside=True,
        ).steps()

    def _note(self, text: str) -> None:
        self._tell("note", text=text)

    def _keep(self, planner: Planner, reason: str) -> None:
        """Let the program use what is proven while searches of other file families go on."""
        if not self._decided:
            self._decided = True
            result = self._result(planner, reason)
            if result.confirmed:
                self._runner.shared.keep(Plan.parse(result.plan, "the plan of the result"))

    def _fill(self, planner: Planner) -> Finish | Wait:
        """Start runs until the runner is full or nothing can be planned; interrupted ones come first."""
        while len(self._running) < self._runner.capacity and (
            self._allowance.left(self._running, self._nodes) > 0 or not self._running
        ):
            if self._interrupted:
                trial, run = self._interrupted.pop(0)
                attempt = next_attempt(run)
                if attempt:
                    self._tell("note", text=f"run {run.number} was interrupted and is launched again")
                self._launch(planner, trial, run, attempt=attempt)
                continue
            step = planner.next(self._ledger.trials, self._ledger.spent())
            if not isinstance(step, Planned):
                return step
            self._ledger.plan(step.trial, step.run, new=step.new)
            self._launch(planner, step.trial, step.run, attempt=0)
        return Wait()

    def _launch(self, planner: Planner, trial: Trial, run: Run, attempt: int) -> None:
        run = self._ledger.begin(run, attempt)
        launch = make_launch(
            self._ledger,
            self._bound,
            trial,
            run,
            timeout=self._allowance.timeout(self._running, self._nodes, run.phase),
            pruned=self._bound_of(planner, run),
            replayer=self._replayer(run),
        )
        self._running[run.number] = launch
        self._tell("started", run=run, trial=trial, spent=self._ledger.spent(), budget=self._ledger.experiment.budget)
        self._runner.start(launch)

    def _bound_of(self, planner: Planner, run: Run) -> Bound | None:
        """When a run is cut: one of the search, of a configuration that has not worked yet."""
        trial = self._ledger.trials[run.trial]
        if planner.space is None or run.phase is not Phase.SEARCH or trial.role is not Role.CANDIDATE or trial.values:
            return None
        one = kind_of(self._objective.name).operation
        if one and self._seen.workload.operation != one and not self._ledger.experiment.pruning:
            # Slow reads do not keep a configuration from being the best for writes.
            return None
        return planner.pruner.bound(planner.history(self._ledger.trials))

    def _replayer(self, run: Run) -> Replayer | None:
        """What replays the record, in a folder that no other run uses at the same time."""
        found = self._preflight.replayer
        own = self._identifier if self._runner.capacity == 1 else f"{self._identifier}.{run.number}"
        return None if found is None else found.within(own)

    def _collect(self, planner: Planner) -> None:
        for outcome in self._runner.poll(_POLL_SECONDS):
            launch = self._running.pop(outcome.number, None)
            if launch is None:
                continue
            cut = outcome.state is State.PRUNED and planner.space is not None
            censored = censored_value(planner.history(self._ledger.trials), outcome.elapsed) if cut else None
            planned, nodes = self._ledger.run(launch.number), self._seen.workload.nodes or 1
            run = run_of(planned, outcome, self._objective, nodes, censored)
            self._ledger.accept(run)
            check_program(self._ledger, run)
            check_replay(self._ledger, self._preflight.replayer, run, outcome.activity)
            trials = tuple(self._ledger.trials)
            self._tell("ended", run=run, trial=trials[run.trial], trials=trials, spent=self._ledger.spent())
            if told := loss_told(run, trials, self._ledger.experiment):
                self._tell("note", text=told)
        self._take_back(planner)

    def _take_back(self, planner: Planner) -> None:
        """Take back runs that trying has cost too much for, where there is something to prove in the meantime.

        Runs of a proof wait: one that never was must not count in its pair.
        """
        held, done = self._runner.shared.held, sum(run.state.ended for _, run in self._ledger.runs())
        if not held or set(held) != set(self._running) or self._considered == done:
            return
        if any(self._ledger.run(number).phase is Phase.CONFIRMATION for number in held):
            return
        self._considered = done
        waits = min(held.values())
        if planner.space is None or not planner.lost_too_much(self._ledger.trials, waits):
            return
        for number in held:
            self._runner.cancel(number)
            del self._running[number]
            why = f"not tried: by what trying has lost, it would wait for about {planner.schedule.counted(waits)}"
            outcome = Outcome(number, State.PRUNED, 0.0, time.time(), why, facts=RunFacts(block=0, waits=waits))
            self._accept(run_of(self._ledger.run(number), outcome, self._objective, 0))

    def _accept(self, run: Run) -> None:
        self._ledger.accept(run)
        trials = tuple(self._ledger.trials)
        self._tell("ended", run=run, trial=trials[run.trial], trials=trials, spent=self._ledger.spent())

    def _conclude(self, planner: Planner, reason: str) -> Result:
        assert self._companions is not None, "made before the loop"
        own = self._result(planner, reason)
        if self._ledger.facts.warm_start and planner.sampler.prior is not None and self._bound is not None:
            history = planner.history(self._ledger.trials)
            if told := agreement(planner.sampler.prior, self._bound.space, history):
                self._tell("note", text=told)
        result = self._companions.tell(own)
        self._ledger.set_state("finished", result)
        plan = Plan.parse(own.plan, "the plan of the result") if own.confirmed else Plan()
        if self._beside:
            self._runner.shared.keep(plan)
        else:
            self._runner.shared.conclude(plan)
        return result

    def _result(self, planner: Planner, reason: str) -> Result:
        if self._bound is None:
            failed = [run.reason for _, run in self._ledger.runs() if run.state is State.FAILED]
            raise NothingWorks(
                f"{reason} before the program has run once{f': {failed[-1]}' if failed else ''}",
                "make the command work by itself, then start a new experiment with a larger budget",
            )
        return conclude(self._ledger, planner, self._bound, reason)

    # -- workload and space --------------------------------------------------------------------------------

    def _planner(self) -> Planner:
        experiment = self._ledger.experiment
        sampler = self._given.sampler or make_sampler(experiment.sampler, experiment.sampler_options)
        schedule_of(experiment).begin(sampler)
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

    def _with_space(self, planner: Planner) -> Planner:
        """Fix the space as soon as the workload is known, and remember what it was fixed with."""
        if self._bound is None and self._seen.enough:
            self._bound = self._seen.bind(self._objective.program or "", self._note)
            count, exact = self._bound.space.count()
            self._tell("space", bound=self._bound, distinct=count, exact=exact, workload=self._seen.workload)
            if self._ledger.facts.space is None:
                for entry in configurations(self._bound.space, self._ledger.experiment.try_first)[1]:
                    self._tell("note", text=f"not tried first, since it changes nothing that is searched here: {entry}")
                # For those who watch: the result has both in the end.
                self._ledger.remember(space=describe_space(self._bound).as_json(), objective=self._objective.as_json())
            sampler = sampler_at_start(
                self._store,
                self._ledger,
                planner,
                self._bound.space,
                self._seen.workload,
                self._note,
                self._given.read_model,
            )
            reference = self._bound.reference is not None
            planner = replace(planner, space=self._bound.space, reference=reference, sampler=sampler)
            folder = next((run.facts.folder for _, run in self._ledger.runs() if run.state is State.FINISHED), None)
            if told := beside_own_figure(self._objective.name, folder):
                self._note(told)
            if self._ledger.trials and self._preflight.space is None:
                # The first run has shown how long runs take and how much they move.
                self._announce_cost()
        return planner

    def _announce_cost(self) -> None:
        """Say what the experiment costs at worst, and ask for consent where that is much."""
        if not schedule_of(self._ledger.experiment).announced:
            return
        worst = self._allowance.worst(self._running, self._seen.workload.nodes)
        self._tell("worst_case", **worst)
        if self._preflight.occupied is None:
            return
        check_run(self._ledger.facts.run_bytes if self._runner.kind == "measured" else None, self._given.policy)
        agreed = check_cost(worst, self._given.policy, self._ledger.facts.agreed, self._given.consent)
        if agreed is not None:
            self._ledger.remember(agreed=agreed)

    def _check_space(self, preflight: Preflight) -> None:
        """Refuse what cannot be searched before a run is spent on it."""
        if preflight.space is None and not self._ledger.trials:
            mpi = preflight.environment.get("mpi")
            check_space(
                self._ledger.experiment,
                Circumstances(
                    self._seen.workload,
                    preflight.io,
                    mpi,
                    preflight.lost,
                    preflight.largest,
                    versions=preflight.versions,
                ),
            )

    @property
    def _seen(self) -> Seen:
        return Seen(self._ledger, self._preflight, self._runner)

    @property
    def _nodes(self) -> int:
        return self._allowance.nodes(self._seen.workload.nodes)

    # -- interruption --------------------------------------------------------------------------------------

    def _put_back(self, error: BaseException) -> None:
        """Leave the experiment in a state from which it can be resumed."""
        for number in list(self._running):
            self._runner.cancel(number)
        failed = isinstance(error, StripewiseError) and not isinstance(error, Stopped)
        try:
            self._ledger.set_state("failed" if failed else "stopped")
            self._ledger.release()
        except StripewiseError:
            # The store itself may be what failed: the first error is the one to report, and the lease runs out.
            return

    def _tell(self, kind: str, **data: Any) -> None:
        self._listener(Event(kind, data))
