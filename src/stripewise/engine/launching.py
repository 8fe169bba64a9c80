"""From a planned run to its launch, which may take a share of what is left, and from its outcome to its result."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING

from stripewise.catalogue.carriers import ENVIRONMENT, Setting
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.stack import OffEntry, all_off, load_stack
from stripewise.engine.budget import worst_case
from stripewise.engine.schedule import schedule_of
from stripewise.engine.space import BoundSpace
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import ended_run
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight, Runner
from stripewise.search.policy.pruning import Bound
from stripewise.trial import Phase, Role, Run, State, Trial

if TYPE_CHECKING:
    from stripewise.engine.ledger import ExperimentLedger

_FIRST_TIMEOUT = 3600.0
_LEAST_TIMEOUT = 60.0
_TIMES_DEFAULT = 30.0


def make_launch(
    ledger: ExperimentLedger,
    bound: BoundSpace | None,
    trial: Trial,
    run: Run,
    *,
    timeout: float | None = None,
    pruned: Bound | None = None,
) -> Launch:
    """Make the launch of a run.

    The default sets nothing but the environment that switches a component on; the reference switches it off.
    """
    experiment, reference = ledger.experiment, trial.role is Role.REFERENCE
    configuration = trial.configuration
    if bound is not None and trial.role is not Role.CANDIDATE:
        configuration = bound.space.default
    off = switched_off(bound) if reference else OffEntry()
    return Launch(
        experiment=ledger.identifier,
        number=run.number,
        configuration=configuration,
        plan=plan_of(ledger.identifier, experiment, bound, trial),
        phase=run.phase,
        reference=reference,
        timeout=timeout,
        bound=None if pruned is None else pruned.seconds,
        why_bound="" if pruned is None else pruned.why,
        attempt=run.facts.attempt,
        command=off.command,
        unset=tuple(off.unset),
        pair=run.pair,
        block=run.facts.block,
        program=experiment.objective.program,
    )


def plan_of(identifier: str, experiment: Experiment, bound: BoundSpace | None, trial: Trial) -> Plan:
    """The plan that makes a program run as a trial's runs did: its settings, and components switched on or off."""
    settings: list[Setting] = []
    # Before the first run has shown the workload, only the stacks that the user named are known.
    stacks = bound.stacks if bound is not None else tuple(load_stack(name) for name in experiment.stacks)
    for stack in stacks:
        exports = stack.exports(trial.role is not Role.REFERENCE)
        settings += [Setting(ENVIRONMENT, key, value) for key, value in exports.items()]
    if bound is not None and trial.role in (Role.CANDIDATE, Role.CEILING):
        settings += settings_of(bound.space, trial.configuration)
    return Plan(tuple(settings), f"{identifier}.{trial.number}", experiment.override, experiment.files)


def switched_off(bound: BoundSpace | None) -> OffEntry:
    """How the program runs without the components that can be switched off, all of them together."""
    return all_off([stack.off for stack in bound.stacks if stack.off is not None] if bound is not None else [])


def run_timeout(
    experiment: Experiment, trials: Sequence[Trial], spent_seconds: float | None, phase: Phase = Phase.SEARCH
) -> float:
    """Seconds after which a run counts as hung.

    Parameters
    ----------
    trials : sequence of Trial
        A run may take thirty times as long as the default did, for a bad configuration can be that slow; and longer
        where the runs of one configuration differed by more than those of the default did.
    spent_seconds : float or None
        Wall time used so far; no run may outlive the time budget. None where time is simulated.
    phase : Phase
        Of the run. Where the search runs replays, they say nothing of how long the program takes.
    """
    limit, trials = experiment.timeout, schedule_of(experiment).lasting(trials, phase)
    if limit is None:
        elapsed = [run.elapsed for t in trials for run in t.runs if t.role is Role.DEFAULT and run.elapsed]
        slowest = max([*elapsed, *(_noise(t) * statistics.median(elapsed) for t in trials if elapsed)], default=0.0)
        limit = max(_LEAST_TIMEOUT, _TIMES_DEFAULT * slowest) if elapsed else _FIRST_TIMEOUT
    if experiment.budget.seconds is not None and spent_seconds is not None:
        limit = min(limit, max(1.0, experiment.budget.seconds - spent_seconds))
    return limit


def _noise(trial: Trial) -> float:
    """By which factor the longest run of a configuration exceeded the shortest; the warm-up does not count."""
    times = [r.elapsed for r in trial.runs if r.phase is not Phase.WARMUP and r.state is State.FINISHED and r.elapsed]
    return max(times) / min(times) if times else 1.0


_FILES_KEPT = 20


def run_of(
    planned: Run,
    outcome: Outcome,
    objective: Objective,
    nodes: int,
    censored: float | None = None,
    units: MutableMapping[str, str] | None = None,
) -> Run:
    """Give the run with its value, or with the reason why it has none.

    Parameters
    ----------
    nodes : int
        Nodes that the run occupied, where the runner does not say.
    censored : float or None
        The value that the run is known to be worse than, if it was cut.
    units : mapping, optional
        Units that the first run printed (:func:`~stripewise.observe.objectives.measure`).
    """
    facts = planned.facts.ended(outcome.facts, outcome.elapsed, nodes)
    facts = facts.with_(metrics=dict(outcome.metrics), exit_code=outcome.exit_code)
    if outcome.folder is not None:
        facts = facts.with_(folder=str(outcome.folder))
    if outcome.report is not None:
        facts = facts.with_(report=outcome.report.as_json(_FILES_KEPT))
    return ended_run(planned, outcome, objective, facts, censored, units)


_ROOM = 3.0
"""Times the slowest default run that a run must be allowed to last before others may start beside it."""


class Allowance:
    """What runs may take, those that are under way counted as if they took all that they may.

    Parameters
    ----------
    preflight : Preflight
        Of the runner.
    """

    def __init__(self, ledger: ExperimentLedger, runner: Runner, preflight: Preflight) -> None:
        self._ledger = ledger
        self._runner = runner
        self._preflight = preflight

    def nodes(self, of_workload: int | None) -> int:
        """Nodes that a run occupies."""
        return self._preflight.nodes or of_workload or 1

    def timeout(self, running: Mapping[int, Launch], nodes: int, phase: Phase = Phase.SEARCH) -> float:
        """Seconds after which a run that begins now is ended."""
        experiment, trials = self._ledger.experiment, self._ledger.trials
        if self._runner.simulated:
            return run_timeout(experiment, trials, None)
        # As with the time budget: a run that hangs ends where the node-hours do.
        limit = run_timeout(experiment, trials, self._ledger.spent().seconds, phase)
        return min(limit, max(1.0, self.left(running, nodes)))

    def left(self, running: Mapping[int, Launch], nodes: int) -> float:
        """How long the next run may last by the node-hours that are left; 0 if it must wait for one that runs.

        Runs side by side share what is left, so that they cannot exceed it together. Where the shares are too small for
        a run, one alone gets everything.
        """
        most = self._ledger.experiment.budget.node_hours
        if most is None or self._runner.simulated:
            return math.inf
        promised = sum(launch.timeout or 0.0 for launch in running.values()) * nodes / 3600
        seconds = max(0.0, 3600 * (most - self._ledger.spent().node_hours - promised) / nodes)
        share = seconds / max(1, self._runner.capacity - len(running))
        default = next((trial for trial in self._ledger.trials if trial.role is Role.DEFAULT), None)
        usual = [run.elapsed for run in default.runs if run.state is State.FINISHED and run.elapsed] if default else []
        if usual and share >= _ROOM * max(usual):
            return share
        return 0.0 if running else seconds

    def worst(self, running: Mapping[int, Launch], of_workload: int | None) -> dict[str, float | None]:
        """Give the most that the experiment can cost, as far as it is known; see :func:`worst_case`."""
        experiment, facts = self._ledger.experiment, self._ledger.facts
        nodes, occupied = self.nodes(of_workload), self._preflight.occupied
        seconds = self.timeout(running, nodes)
        # Where nothing is launched no hours pass, and no byte moves.
        launched = self._runner.kind == "measured"
        # The time limit of runs is the user's, or a run has shown how long they take.
        known = launched and (occupied is not None or experiment.timeout is not None or bool(self._ledger.trials))
        return worst_case(
            experiment,
            nodes,
            (occupied(seconds) if occupied else seconds) if known else None,
            facts.run_bytes if launched else None,
            at_once=self._runner.capacity,
        )
