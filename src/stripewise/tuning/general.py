"""General knowledge at the start of a search: whether it takes part, and what the user is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stripewise.errors import UserError
from stripewise.objectives import kind_of
from stripewise.search.auto import AutoSampler
from stripewise.search.base import Sampler
from stripewise.search.portfolio.choice import POINTS, Advice
from stripewise.search.portfolio.features import ROLES
from stripewise.search.portfolio.proposal import TAG
from stripewise.search.portfolio.shipped import Shipped, shipped
from stripewise.spec.experiment import Experiment
from stripewise.spec.objective import Objective
from stripewise.spec.space import Space
from stripewise.spec.trial import Role, Trial
from stripewise.spec.workload import Workload
from stripewise.tuning.ledger import Ledger
from stripewise.tuning.try_first import configurations

_LEAST_NODES = 2


def take_part(
    experiment: Experiment, sampler: Sampler, space: Space, workload: Workload, objective: Objective
) -> Shipped | None:
    """Give ``auto`` what ships, where that is for such a workload and nothing better is known.

    It is for programs on several nodes: on one node it was measured to bring nothing.

    Returns
    -------
    Shipped or None
        None where it takes no part.

    Raises
    ------
    UserError
        If the file that ships is missing or damaged; it takes no part then.
    """
    if not isinstance(sampler, AutoSampler):
        return None
    # A sampler may have served another experiment before.
    sampler.advice = None
    wanted = experiment.general_knowledge and sampler.prior is None
    if not wanted or (workload.nodes or 1) < _LEAST_NODES:
        return None
    if _points(experiment, space) <= 0 or not any(parameter.role in ROLES for parameter in space.parameters):
        return None
    known = shipped()
    sampler.advice = Advice(known.members, _facts(workload, objective), known.members.weights)
    return known


def _points(experiment: Experiment, space: Space) -> int:
    """Points that are left for it: configurations that the user wants to try first take their places."""
    return POINTS - len(configurations(space, experiment.try_first)[0])


def _facts(workload: Workload, objective: Objective) -> dict[str, Any]:
    """What is known of the workload; where the objective measures one operation, only that one counts."""
    measured = kind_of(objective.name).operation or workload.operation
    return workload.model_dump() | {"processes": workload.processes, "operation": measured}


def knowledge_before_runs(
    ledger: Ledger,
    sampler: Sampler,
    space: Space,
    workload: Workload,
    objective: Objective,
    note: Callable[[str], None],
) -> None:
    """Let the search start from general knowledge; remembered, so that a resumed search proposes the same.

    Called once the workload and the prior are known.

    Parameters
    ----------
    note : callable
        Is told in a sentence that it takes part, and how to search without it.
    """
    try:
        known = take_part(ledger.experiment, sampler, space, workload, objective)
    except UserError as error:
        note(f"the search starts without general knowledge: {error}")
        return
    if known is None:
        return
    assert isinstance(sampler, AutoSampler)
    before = ledger.facts.general_knowledge
    if before is None and any(trial.role is Role.CANDIDATE for trial in ledger.trials):
        # An earlier version, which had none, began the search.
        sampler.advice = None
    elif before is None:
        ledger.remember(general_knowledge={"digest": known.digest, "members": list(known.members.groups)})
        count, what = _points(ledger.experiment, space), "phase" if ledger.experiment.in_one_launch else "run"
        note(
            f"up to {count} {what}{'s' * (count > 1)} after the default come from general knowledge: settings that "
            "helped programs on several nodes of other systems, measured and simulated; --no-general-knowledge "
            "searches without it"
        )
    elif before["digest"] != known.digest:
        sampler.advice = None
        note("general knowledge has changed since the experiment began: the search continues without it")


def knowledge_of(facts: Mapping[str, Any] | None, trials: Sequence[Trial]) -> dict[str, Any] | None:
    """What the result says of general knowledge: its members, and the trials that came from it."""
    if facts is None:
        return None
    return {**facts, "trials": [trial.number for trial in trials if trial.tag == TAG]}
