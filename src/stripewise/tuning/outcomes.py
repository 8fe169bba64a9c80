"""From what came of a launch to the result of a run, as the store keeps it."""

from __future__ import annotations

from dataclasses import replace

from stripewise.errors import RunFailed
from stripewise.objectives import kind_of, measure
from stripewise.spec.facts import RunFacts
from stripewise.spec.launch import Outcome
from stripewise.spec.objective import Objective
from stripewise.spec.trial import Run, State

_FILES_KEPT = 20


def run_of(planned: Run, outcome: Outcome, objective: Objective, nodes: int) -> Run:
    """Give the run with its value, or with the reason why it has none.

    Parameters
    ----------
    planned : Run
    outcome : Outcome
    objective : Objective
    nodes : int
        Nodes that the run occupied, where the runner does not say.
    """
    facts = {**planned.facts, **outcome.facts, "metrics": dict(outcome.metrics), "exit_code": outcome.exit_code}
    if outcome.folder is not None:
        facts["folder"] = str(outcome.folder)
    if outcome.report is not None:
        facts["report"] = outcome.report.as_json(_FILES_KEPT)
    facts.setdefault("node_hours", int(facts.get("nodes") or nodes) * outcome.elapsed / 3600)
    state, value, reason = outcome.state, None, outcome.reason
    if state is State.FINISHED:
        try:
            value = measure(objective, outcome)
        except RunFailed as failure:
            state, reason = State.FAILED, str(failure)
    elif state is State.PRUNED and kind_of(objective.name).wall_time:
        value = outcome.elapsed
    return replace(
        planned,
        state=state,
        value=value,
        elapsed=outcome.elapsed,
        started=outcome.started,
        reason=reason,
        facts=RunFacts(facts),
    )
