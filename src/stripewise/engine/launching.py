"""From a planned run to its launch, and from what came of the launch to the run's result."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stripewise.catalogue.carriers import ENVIRONMENT, Setting
from stripewise.catalogue.plan import Plan, settings_of
from stripewise.catalogue.stack import OffEntry, all_off, load_stack
from stripewise.engine.schedule import schedule_of
from stripewise.engine.space import BoundSpace
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import ended_run
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.replayer import Replayer
from stripewise.search.policy.pruning import Bound
from stripewise.trial import Phase, Role, Run, State, Trial

if TYPE_CHECKING:
    from stripewise.engine.ledger import Ledger

_FIRST_TIMEOUT = 3600.0
_LEAST_TIMEOUT = 60.0
_TIMES_DEFAULT = 30.0


def make_launch(
    ledger: Ledger,
    bound: BoundSpace | None,
    trial: Trial,
    run: Run,
    *,
    timeout: float | None = None,
    pruned: Bound | None = None,
    replayer: Replayer | None = None,
) -> Launch:
    """Make the launch of a run; with a replayer all but those of the confirmation replay the record.

    The default sets nothing but the environment that switches a component on; the reference switches it off.
    """
    experiment, reference = ledger.experiment, trial.role is Role.REFERENCE
    configuration = trial.configuration
    if bound is not None and trial.role is not Role.CANDIDATE:
        configuration = bound.space.default
    off = switched_off(bound) if reference else OffEntry()
    return schedule_of(experiment).launched(
        Launch(
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
        ),
        replayer,
    )


def plan_of(identifier: str, experiment: Experiment, bound: BoundSpace | None, trial: Trial) -> Plan:
    """The plan that makes a program run as a trial's runs did: its settings, and components switched on or off."""
    settings: list[Setting] = []
    # Before the first run has shown the workload, only the stacks that the user named are known.
    stacks = bound.stacks if bound is not None else tuple(load_stack(name) for name in experiment.stacks)
    for stack in stacks:
        exports = stack.exports(trial.role is not Role.REFERENCE)
        settings += [Setting(ENVIRONMENT, key, value) for key, value in exports.items()]
    if bound is not None and trial.role is Role.CANDIDATE:
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
    experiment : Experiment
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


def run_of(planned: Run, outcome: Outcome, objective: Objective, nodes: int, censored: float | None = None) -> Run:
    """Give the run with its value, or with the reason why it has none.

    Parameters
    ----------
    planned : Run
    outcome : Outcome
    objective : Objective
    nodes : int
        Nodes that the run occupied, where the runner does not say.
    censored : float or None
        The value that the run is known to be worse than, if it was cut.
    """
    facts = planned.facts.ended(outcome.facts, outcome.elapsed, nodes)
    facts = facts.with_(metrics=dict(outcome.metrics), exit_code=outcome.exit_code)
    if outcome.folder is not None:
        facts = facts.with_(folder=str(outcome.folder))
    if outcome.report is not None:
        facts = facts.with_(report=outcome.report.as_json(_FILES_KEPT))
    return ended_run(planned, outcome, objective, facts, censored)
