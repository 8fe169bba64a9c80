"""Confirm again: a small experiment that runs the default and a result's best side by side, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.configuration import sizes
from stripewise.documents import explain_validation
from stripewise.engine.budget import fewest_pairs, useful_pairs
from stripewise.engine.companions import of_one_family
from stripewise.engine.confirmation import HOPELESS_PAIRS
from stripewise.engine.folders import runs_folder, working_folder
from stripewise.engine.schedule import LONGEST_BLOCK, schedule_of
from stripewise.errors import UserError
from stripewise.requests.experiment import LONGEST_NAME, Experiment, is_own
from stripewise.runners.registry import make_runner
from stripewise.store.base import Record

USUAL_PAIRS = 12
"""Pairs of a new confirmation, where nobody says how many."""


def confirm_again(
    record: Record,
    pairs: int | None = None,
    *,
    budget: Mapping[str, float | None] | None = None,
    minimum_effect: float | None = None,
    **given: Any,
) -> Experiment:
    """Make the experiment that confirms a result once more.

    Its space holds two configurations, the current default and the best. Its search is one run of each, and the rest of
    its budget goes into pairs. Its limits are its own, not those of the experiment that it confirms.

    Parameters
    ----------
    record : Record
        Finished, with something better than the default to confirm: what was proven, or what looked best.
    pairs : int, optional
        Most pairs of runs; by default as many as the budget allows, or :data:`USUAL_PAIRS` without one.
    budget : mapping, optional
        ``runs``, ``seconds`` and ``node_hours``; None where not given.
    minimum_effect : float, optional
        In place of the experiment's.
    **given
        Further fields of the experiment, such as ``name`` and ``timeout``; None where not given.

    Raises
    ------
    UserError
        If there is nothing to confirm, the budget allows no proof, or a field is wrong.
    """
    result = record.result
    if result is None:
        raise UserError(f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}")
    if pairs is not None and not 1 <= pairs <= HOPELESS_PAIRS:
        raise UserError(f"{pairs} pairs are not possible", f"choose 1 to {HOPELESS_PAIRS}")
    default, changed = result.default.configuration, result.changed(result.shown)
    if not changed:
        raise UserError(
            f"experiment {record.id} changes no setting: there is nothing to confirm", "start a new search instead"
        )
    own = record.experiment
    # The warm-up, the default, the program without the component where it has one, and the best.
    first = own.warmup + 2 + (result.reference is not None)
    known = {parameter.name for parameter in result.space.parameters}
    parameters: dict[str, Any] = {}
    held = []
    for name, override in own.parameters.items():
        parameters[name] = entry = override.model_dump(exclude_none=True)
        if not is_own(override):
            entry["exclude"] = name not in changed
        elif name in default and name not in changed:
            # The user's own parameter: no stack has it without its definition, so it cannot be excluded.
            held.append(f"{name} == {_write_literal(default[name])}")
    for name in known:
        parameters.setdefault(name, {"exclude": name not in changed})
    for name, value in changed.items():
        entry = {key: given for key, given in parameters[name].items() if key not in ("low", "high")}
        # Before its first run nobody knows the default that a folder or the program itself gives.
        parameters[name] = {**entry, "values": _order_values([default[name], value]), "default": default[name]}
    together = " and ".join(f"{name} == {_write_literal(value)}" for name, value in changed.items())
    apart = " and ".join(f"{name} == {_write_literal(default[name])}" for name in changed)
    if result.families:
        # The other families have experiments of their own, which can be confirmed as well.
        family = result.families[0]
        own = of_one_family(own, family.files, family.operation)
    fields = own.model_dump()
    limits = dict(budget or {})
    pairs = _pairs_within(own, first, pairs, limits.get("runs"))
    proof = math.ceil(pairs * schedule_of(own).cost_of_pair(LONGEST_BLOCK))
    rule = {"pairs": pairs, "candidates": 1, "again": record.id}
    if minimum_effect is not None:
        rule["minimum_effect"] = minimum_effect
    changes = {
        "name": f"{own.name[:LONGEST_NAME]} (confirm {record.id})",
        "parameters": parameters,
        "constraints": [*own.constraints, *held, f"({together}) or ({apart})"],
        "sampler": "exhaustive",
        "sampler_options": {},
        "resampling": {"kind": "none"},
        "stopping": {},
        "warm_start": [],
        "try_first": [],
        "model": None,
        "budget": {"seconds": None, "node_hours": None, **limits, "runs": limits.get("runs") or first + proof},
        "confirmation": {**fields["confirmation"], **rule},
        **{name: value for name, value in given.items() if value is not None},
    }
    try:
        return Experiment.model_validate({**fields, **changes})
    except ValidationError as error:
        raise explain_validation(error, "experiment") from error


def _pairs_within(experiment: Experiment, first: int, pairs: int | None, runs: float | None) -> int:
    """Give the most pairs of a confirmation: what was asked for, as far as the budget holds it."""
    if runs is None:
        return pairs or USUAL_PAIRS
    schedule = schedule_of(experiment)
    held = math.floor((runs - first) / schedule.cost_of_pair(LONGEST_BLOCK))
    rule = experiment.confirmation.model_copy(update={"candidates": 1})
    experiment = experiment.model_copy(update={"confirmation": rule})
    fewest = min(pairs or HOPELESS_PAIRS, fewest_pairs(experiment))
    if held < fewest:
        least = first + math.ceil(fewest * schedule.cost_of_pair(LONGEST_BLOCK))
        raise UserError(
            f"a budget of {schedule.counted(int(runs))} holds too few pairs: {first} come before the first of them",
            f"allow {schedule.counted(least)} or more, enough for {fewest} pair{'' if fewest == 1 else 's'}",
        )
    return min(pairs or useful_pairs(experiment, held), held, HOPELESS_PAIRS)


def changed_since(record: Record) -> tuple[list[str], tuple[str, ...]]:
    """Say what is not as it was when an experiment ran: another MPI library, another version, another program.

    The runner inspects files, and nothing is started.

    Returns
    -------
    tuple of (list of str, tuple of str)
        A sentence for each difference, none where the result still holds for this machine as far as files tell; and
        what was not looked at, because only a started program tells.

    Raises
    ------
    UserError
        If the program cannot be looked at any more.
    """
    experiment = record.experiment
    folder = runs_folder(experiment) / "check"
    with make_runner(experiment, folder, cwd=Path(working_folder(record.facts))) as runner:
        found = runner.inspect()
    before, now = record.facts.fingerprint or {}, found.fingerprint
    # What only a started program tells is not in the fingerprint of an inspection.
    names = sorted(now if found.unknown else {*before, *now})
    differences = [
        f"{name} was {before.get(name, 'absent')} and is {now.get(name, 'absent')} now"
        for name in names
        if before.get(name) != now.get(name)
    ]
    return differences, found.unknown


def _order_values(values: list[Any]) -> list[Any]:
    return sorted(values) if sizes(values) else values


def _write_literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
