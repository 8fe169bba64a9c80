"""What an experiment would do, without starting anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.filesystems import find_file_system
from stripewise.catalogue.filesystems.base import may_be_mounted
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.workload import Workload
from stripewise.engine.budget import most_pairs, shortfall, worst_case
from stripewise.engine.launching import run_timeout
from stripewise.engine.schedule import schedule_of
from stripewise.engine.space import BoundSpace, bind_space, check_space, circumstances_before, describe_space
from stripewise.engine.try_first import configurations, wanted_first
from stripewise.observe.objectives import objective_of
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import Runner
from stripewise.search.base import make_sampler, sampler_rng
from stripewise.trial import History, Role, Trial

_FIRST = 5


def dry_run(experiment: Experiment, runner: Runner) -> dict[str, Any]:
    """Show the space, the first configurations and the worst-case cost.

    The runner inspects the program and its MPI by reading files; nothing at all is started.

    Returns
    -------
    dict
        ``found`` (what the command starts, program, MPI, how settings travel), ``space``, ``left_out``, ``first``
        (configurations), ``worst_case``, ``counted`` (its runs, as launches or as
        phases of one), ``confirmation_pairs``, ``notes``.
    """
    preflight = runner.inspect()
    workload = experiment.workload.merged(preflight.workload)
    if preflight.space is not None:
        bound = BoundSpace(preflight.space, (), {})
    else:
        known = circumstances_before(preflight, workload)
        if experiment.runner == "local":
            known = replace(known, lost=_with_mounts(known.lost))
        check_space(experiment, known)
        bound = bind_space(experiment, known)
    objective = preflight.objective or objective_of(experiment.objective)
    longest, nodes, occupied = None, preflight.nodes or workload.nodes or 1, preflight.occupied
    # The first run will show how long runs take; until then the limit says nothing about the cost. How long the one
    # launch of a program lasts that goes on beside the runs, only the program knows.
    if runner.kind == "measured" and schedule_of(experiment).announced and (occupied or experiment.timeout):
        seconds = run_timeout(experiment, (), None)
        longest = occupied(seconds) if occupied else seconds
    notes = [*preflight.warnings]
    # Of a program without MPI no run shows more than its time and what it prints.
    if workload.operation is None and preflight.space is None and preflight.environment.get("mpi_path"):
        notes.append(
            "the warm-up run will show what the program does, and parameters that cannot act are left out then"
        )
    if experiment.model is not None or experiment.warm_start:
        notes.append(
            "the first configurations are those of a search without the model or the earlier experiments, "
            "which are read when it begins"
        )
    if short := shortfall(experiment):
        notes.append(short)
    if preflight.unknown:
        notes.append(f"not looked at, because a dry run starts nothing: {'; '.join(preflight.unknown)}")
    return {
        "experiment": experiment.name,
        "simulated": runner.simulated,
        "objective": objective.as_json(),
        "space": describe_space(bound).as_json(),
        "left_out": dict(bound.left_out),
        "first": [dict(configuration) for configuration in _list_first(experiment, bound, workload, objective)],
        "worst_case": worst_case(experiment, nodes, longest, None, at_once=runner.capacity),
        "counted": schedule_of(experiment).counted(experiment.budget.runs),
        "confirmation_pairs": most_pairs(experiment),
        "found": [*preflight.command, *preflight.summary],
        "notes": notes,
    }


def _with_mounts(lost: Callable[[Parameter], str]) -> Callable[[Parameter], str]:
    """Add to what cannot reach the program the layouts of file systems that are not mounted here."""

    def why(parameter: Parameter) -> str:
        system = find_file_system(parameter.layer)
        if parameter.carrier.of_file_system and system.types and not may_be_mounted(system.types):
            return f"lays out files on {system.label}, which is not mounted here"
        return lost(parameter)

    return why


def _list_first(
    experiment: Experiment, bound: BoundSpace, workload: Workload, objective: Objective
) -> list[Configuration]:
    sampler = make_sampler(experiment.sampler, experiment.sampler_options)
    trials = [Trial(0, bound.space.default, Role.DEFAULT)]
    for number, wanted in enumerate(
        configurations(bound.space, wanted_first(bound.space, experiment.try_first))[0][:_FIRST], 1
    ):
        trials.append(Trial(number, wanted))
    while len(trials) <= _FIRST:
        number = len(trials)
        history = History(objective, tuple(trials))
        found = sampler.ask(bound.space, history, sampler_rng(experiment.seed, number), 1)
        if not found:
            break
        trials.append(Trial(number, found[0].configuration, tag=found[0].tag))
    return [trial.configuration for trial in trials]
