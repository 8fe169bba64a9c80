"""What a search expects before its first run: from earlier experiments, and from a performance model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.engine.ledger import ExperimentLedger
from stripewise.engine.model_prior import Expecting, ModelPrior
from stripewise.engine.planner import Planner
from stripewise.errors import UserError
from stripewise.models.registry import load_model
from stripewise.requests.objective import Objective
from stripewise.search.base import PriorMean, Sampler
from stripewise.search.belief.belief import Earlier, EarlierPrior, compare_workloads
from stripewise.store.base import Record, Store
from stripewise.trial import History

AUTO = "auto"
_MOST = 5
_PAGE = 200
_LEAST_SIMILAR = 0.1
_COMMON = 0.5
_LEAST_RANKED = 5


def sampler_at_start(
    store: Store,
    ledger: ExperimentLedger,
    planner: Planner,
    space: Space,
    workload: Workload,
    note: Callable[[str], None],
    read_model: Callable[[str], Expecting],
) -> Sampler:
    """Give the sampler what is expected before the first run: earlier experiments, on top of a model or its own prior.

    What was chosen is kept among the experiment's facts, so that a resumed search starts from the same.

    Parameters
    ----------
    note : callable
        Is told in a sentence what the search starts from.
    read_model : callable
        Reads the experiment's model.
    """
    sampler = planner.sampler
    if ledger.experiment.model is not None:
        started = start_from_model(ledger.experiment.model, space, workload, ledger.facts.model, read_model)
        if ledger.facts.model is None:
            ledger.remember(model=started.facts)
            note(started.note)
        sampler = sampler.starting_from(started.prior)
    wanted = ledger.experiment.warm_start
    if not wanted:
        return sampler
    chosen = ledger.facts.warm_start
    if chosen is None:
        chosen = choose(
            store, wanted, ledger.identifier, planner.objective, space, workload, simulated=ledger.simulated
        )
        ledger.remember(warm_start=chosen)
        names = ", ".join(f"{one['experiment']} ({one['similarity']:.0%} like this one)" for one in chosen)
        note(f"the search starts from {names or 'nothing: no earlier experiment is like it'}")
    prior = prior_of(store, chosen, space, workload, planner.objective, sampler.expectation(space))
    return sampler if prior is None else sampler.starting_from(prior)


def check_named(store: Store, wanted: Sequence[str]) -> None:
    """Refuse experiments that cannot be started from before a run is spent.

    Raises
    ------
    UserError
        If the experiment does not exist, or it has not finished.
    """
    for name in wanted:
        if name == AUTO:
            continue
        record = store.record(name)
        if record.state != "finished" or record.result is None:
            raise UserError(
                f"warm start: experiment {record.id} is {record.state}, not finished",
                f"finish it with: stripewise resume {record.id}",
            )


def choose(
    store: Store,
    wanted: Sequence[str],
    own: str,
    objective: Objective,
    space: Space,
    workload: Workload,
    *,
    simulated: bool,
) -> list[dict[str, Any]]:
    """Choose the experiments to start from; kept among the facts, so that a resumed search starts from the same.

    Parameters
    ----------
    wanted : sequence of str
        Identifiers, or ``auto``: finished experiments of the store with the same objective and at least half of the
        parameters, the five most similar workloads of them, the latest first where they are alike.
    own : str
        Identifier of the experiment that is starting.
    objective, space, workload
        Of the experiment that is starting.
    simulated : bool
        Whether its runs are; simulated and measured ones are never mixed.

    Returns
    -------
    list of dict
        ``experiment``, ``name``, ``similarity`` (0 to 1) and ``trials`` of each.

    Raises
    ------
    UserError
        If a named experiment has another objective, no parameter in common, or was simulated where this one is not.
    """
    chosen: list[Record] = []
    for name in wanted:
        if name == AUTO:
            continue
        record = store.record(name)
        reason = _why_not(record, objective, space, simulated=simulated, common=0.0)
        if reason:
            raise UserError(f"warm start: experiment {record.id} {reason}", "leave it out of --warm-start")
        chosen.append(record)
    if AUTO in wanted:
        known = {own, *(record.id for record in chosen)}
        found = [
            record
            for record in _list_finished(store)
            if record.id not in known
            and not _why_not(record, objective, space, simulated=simulated, common=_COMMON)
            and _measure_likeness(record, workload) >= _LEAST_SIMILAR
        ]
        found.sort(key=lambda record: -_measure_likeness(record, workload))
        chosen += found[: max(0, _MOST - len(chosen))]
    return [
        {
            "experiment": record.id,
            "name": record.experiment.name,
            "similarity": _measure_likeness(record, workload),
            "trials": record.trials,
        }
        for record in chosen
    ]


def prior_of(
    store: Store,
    chosen: Sequence[Mapping[str, Any]],
    space: Space,
    workload: Workload,
    objective: Objective,
    expected: PriorMean | None,
) -> PriorMean | None:
    """Make the prior of the chosen experiments, on top of what is expected without them; None if there are none.

    Raises
    ------
    UserError
        If one of them has been deleted since it was chosen.
    """
    if not chosen:
        return None
    earlier = []
    for one in chosen:
        identifier = str(one["experiment"])
        try:
            record = store.record(identifier)
        except UserError as error:
            raise UserError(
                f"this experiment started from experiment {identifier}, which is not in the store any more",
                "start a new experiment",
            ) from error
        default = record.result.default.configuration if record.result else {}
        history = History(objective, store.trials(record.id, facts=False))
        earlier.append(Earlier(_workload(record), default, history))
    return EarlierPrior(space, workload, earlier, expected)


def agreement(prior: PriorMean, space: Space, history: History) -> str:
    """Say how the earlier experiments ranked the configurations that ran since; empty where too few have run.

    Parameters
    ----------
    prior : PriorMean
        What was expected before the first run.
    history : History
        Of the experiment that started from it.
    """
    trials = history.finished
    if len(trials) < _LEAST_RANKED:
        return ""
    expected = prior(space, space.levels([trial.configuration for trial in trials]))
    measured = np.array([trial.value for trial in trials])
    if np.ptp(expected) == 0 or np.ptp(measured) == 0:
        return ""
    from scipy.stats import spearmanr  # noqa: PLC0415  slow to load

    found = float(spearmanr(expected, measured if history.objective.maximize else -measured)[0])
    return (
        f"the earlier experiments ranked the {len(trials)} configurations that ran here with a correlation of "
        f"{found:.2f} to their measurements"
    )


def _list_finished(store: Store) -> list[Record]:
    found: list[Record] = []
    for offset in range(0, store.count("finished"), _PAGE):
        # Nobody named those that cannot be read.
        found += store.records(state="finished", limit=_PAGE, offset=offset, on_unreadable=lambda error: None)
    return found


def _why_not(record: Record, objective: Objective, space: Space, *, simulated: bool, common: float) -> str:
    """Why nothing can be learned from an experiment; empty if something can."""
    result = record.result
    if result is None:
        return "has no result"
    if result.simulated != simulated:
        return "was simulated, this one is not" if result.simulated else "was measured, this one is simulated"
    theirs = result.objective
    if (theirs.name, theirs.direction) != (objective.name, objective.direction):
        return f"has another objective ({theirs.name})"
    names = {parameter.name for parameter in result.space.parameters}
    shared = names & set(space.names)
    if not shared or len(shared) < common * len(space.names):
        return "has no parameter in common with this one" if not shared else "has few parameters in common"
    return ""


def _measure_likeness(record: Record, workload: Workload) -> float:
    return compare_workloads(_workload(record), workload)


def _workload(record: Record) -> Workload:
    return record.result.workload if record.result else Workload()


# -- a performance model -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromModel:
    """A model at the start of a search.

    Attributes
    ----------
    facts : dict
        ``file``, ``digest``, ``name``, ``table``, ``simulated``, and ``parameters`` that it knows.
    note : str
        For the user.
    """

    prior: ModelPrior
    facts: dict[str, Any]
    note: str


def start_from_model(
    path: str,
    space: Space,
    workload: Workload,
    earlier: Mapping[str, Any] | None,
    read_model: Callable[[str], Expecting] = load_model,
) -> FromModel:
    """Load the model of an experiment.

    Parameters
    ----------
    space : Space
        To be searched.
    earlier : mapping, optional
        The facts when the experiment began, if it is resumed.
    read_model : callable
        Reads the file.

    Raises
    ------
    UserError
        If the file cannot be read or has changed since, or the model knows none of the space's parameters.
    """
    model = read_model(path)
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    if earlier is not None and earlier.get("digest") != digest:
        raise UserError(
            f"the model {path} has changed since the experiment began", "restore it, or start a new experiment"
        )
    prior = ModelPrior(model, workload)
    shared = prior.shared(space)
    if not shared:
        known = ", ".join(column.name for column in model.domain.columns[model.domain.contexts :])
        raise UserError(
            f"the model {path} knows none of the parameters that are tuned", f"it knows {known}; leave out --model"
        )
    schema = model.domain.schema
    simulated = "simulated" in schema.description.lower()
    origin = "simulated runs of " if simulated else ""
    note = f"the search starts from model {model.name} of {origin}table {schema.name}, which knows {', '.join(shared)}"
    facts = {
        "file": path,
        "digest": digest,
        "name": model.name,
        "table": schema.name,
        "simulated": simulated,
        "parameters": shared,
    }
    return FromModel(prior, facts, note)
