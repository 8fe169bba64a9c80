"""An experiment read at any moment: what its runs show so far, in the words of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stripewise.catalogue.configuration import place_of
from stripewise.catalogue.workload import Workload
from stripewise.observe.objectives import objective_of
from stripewise.output.reading import Reading
from stripewise.requests.objective import Objective
from stripewise.result import (
    Arm,
    Best,
    Candidate,
    PairOfRuns,
    ParameterSummary,
    Proof,
    Reference,
    Result,
    SpaceSummary,
)
from stripewise.search.statistics import summary_of
from stripewise.store.base import Record
from stripewise.trial import Phase, Role, Run, State, Trial, failures_of


def reading_of(record: Record, trials: Sequence[Trial], completed: Callable[[str], str] = str) -> Reading:
    """Read an experiment: by its result, or by what is known until it has one."""
    if record.result is None:
        record = replace(record, result=so_far(record, trials))
    return Reading(record, trials, completed)


def so_far(record: Record, trials: Sequence[Trial]) -> Result:
    """Write what an unfinished experiment has shown: the parts of a result that need no conclusion.

    Nothing in it is confirmed: ``best`` is the default, and ``candidate`` is what looks best in the search.
    """
    objective = record.facts.objective or objective_of(record.experiment.objective)
    default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
    reference = next((trial for trial in trials if trial.role is Role.REFERENCE), None)
    space = record.facts.space or SpaceSummary(parameters=_parameters(trials))
    base = {parameter.name: parameter.default for parameter in space.parameters}
    sign = -1 if objective.maximize else 1
    ranked = sorted(
        (trial for trial in trials if trial.value is not None and trial.role is Role.CANDIDATE),
        key=lambda trial: (sign * float(trial.value or 0.0), trial.number),
    )
    best = ranked[0] if ranked else None
    better = (
        best is not None
        and best.value is not None
        and (default is None or default.value is None or objective.better(best.value, default.value))
    )
    # Figures stress the trial; nothing better than the default is claimed.
    stressed = best if better else default
    runs = [run for trial in trials for run in trial.runs]
    own = dict(summary_of(default.values if default else ()))
    return Result(
        experiment=record.id,
        name=record.experiment.name,
        simulated=record.experiment.runner.startswith("sim:"),
        state=record.state,
        objective=objective,
        default=Arm(**own, configuration=base),
        reference=None if reference is None else Reference(**dict(summary_of(reference.values))),
        best=Best(**own, configuration=base, trial=stressed.number if stressed else None),
        candidate=_candidate(best, default, objective) if better and best is not None else None,
        confirmation=Proof(pairs=pairs(runs)),
        failures=failures_of(runs),
        runs=len(runs),
        seconds=record.facts.seconds,
        node_hours=sum(run.facts.node_hours for run in runs),
        environment=record.facts.environment,
        workload=record.facts.workload or Workload(),
        space=space,
    )


def pairs(runs: Sequence[Run]) -> tuple[PairOfRuns, ...]:
    """List the pairs of the confirmation as they stand, those of the latest candidate."""
    own = sorted((run for run in runs if run.phase is Phase.CONFIRMATION), key=lambda run: run.number)
    if not own:
        return ()
    latest = own[-1].facts.against
    rows: dict[int, PairOfRuns] = {}
    for run in own:
        if run.pair is None or run.facts.against != latest:
            continue
        row = rows.setdefault(run.pair, PairOfRuns(pair=run.pair, order=f"{run.arm}-first"))
        if run.state is State.FINISHED:
            rows[run.pair] = row.model_copy(update={run.arm: run.value})
    return tuple(rows.values())


def _parameters(trials: Sequence[Trial]) -> tuple[ParameterSummary, ...]:
    """The parameters as the trials name them, where the space is not known yet."""
    found: dict[str, list[Any]] = {}
    for trial in trials:
        for name, value in trial.configuration.items():
            if place_of(value, found.setdefault(name, [])) is None:
                found[name].append(value)
    default: Mapping[str, Any] = next((trial.configuration for trial in trials if trial.role is Role.DEFAULT), {})
    return tuple(
        ParameterSummary(name=name, values=tuple(values), count=len(values), default=default.get(name))
        for name, values in found.items()
    )


def _candidate(best: Trial, default: Trial | None, objective: Objective) -> Candidate:
    speedup = None
    # A value of zero has no ratio to another.
    if default is not None and default.value and best.value:
        speedup = objective.speedup(best.value, default.value)
    return Candidate(configuration=dict(best.configuration), trial=best.number, value=best.value, speedup=speedup)
