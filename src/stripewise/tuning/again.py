"""Confirm again: a small experiment that runs the default and a result's best side by side, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.runner.registry import make_runner
from stripewise.spec.configuration import sizes
from stripewise.spec.experiment import LONGEST_NAME, Experiment
from stripewise.spec.overrides import is_own
from stripewise.store.base import Record
from stripewise.tuning.budget import LONGEST_BLOCK, cost_of_pair
from stripewise.tuning.companions import of_one_family
from stripewise.tuning.confirm import HOPELESS_PAIRS
from stripewise.tuning.folders import runs_folder, working_folder

USUAL_PAIRS = 12
"""Pairs of a new confirmation, where nobody says how many."""


def confirm_again(record: Record, pairs: int = USUAL_PAIRS) -> Experiment:
    """Make the experiment that confirms a result once more.

    Its space holds two configurations, the current default and the best. Its search is one run of each, and the rest of
    its budget goes into pairs.

    Parameters
    ----------
    record : Record
        Finished, with something better than the default to confirm: what was proven, or what looked best.
    pairs : int
        Most pairs of runs.

    Raises
    ------
    UserError
        If there is nothing to confirm.
    """
    result = record.result
    if result is None:
        raise UserError(f"experiment {record.id} has no result yet", f"finish it first: stripewise resume {record.id}")
    if not 1 <= pairs <= HOPELESS_PAIRS:
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
            held.append(f"{name} == {_literal(default[name])}")
    for name in known:
        parameters.setdefault(name, {"exclude": name not in changed})
    for name, value in changed.items():
        entry = {key: given for key, given in parameters[name].items() if key not in ("low", "high")}
        parameters[name] = {**entry, "values": _ordered([default[name], value])}
    together = " and ".join(f"{name} == {_literal(value)}" for name, value in changed.items())
    apart = " and ".join(f"{name} == {_literal(default[name])}" for name in changed)
    if result.families:
        # The other families have experiments of their own, which can be confirmed as well.
        family = result.families[0]
        own = of_one_family(own, family.files, family.operation)
    fields = own.model_dump()
    proof = math.ceil(pairs * cost_of_pair(own, LONGEST_BLOCK))
    return Experiment.model_validate(
        {
            **fields,
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
            "budget": {"runs": first + proof, "seconds": None, "node_hours": None},
            "confirmation": {**fields["confirmation"], "pairs": pairs, "candidates": 1, "again": record.id},
        }
    )


def changed_since(record: Record) -> list[str]:
    """Say what is not as it was when an experiment ran: another MPI library, another version, another program.

    The runner's preflight is made, no run is started.

    Returns
    -------
    list of str
        A sentence for each difference; empty where the result still holds for this machine.

    Raises
    ------
    UserError
        If the program cannot be looked at any more.
    """
    experiment = record.experiment
    folder = runs_folder(experiment) / "check"
    with make_runner(experiment, folder, cwd=Path(working_folder(record.facts))) as runner:
        now: Mapping[str, str] = runner.prepare().fingerprint
    before = record.facts.fingerprint or {}
    return [
        f"{name} was {before.get(name, 'absent')} and is {now.get(name, 'absent')} now"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values) if sizes(values) else values


def _literal(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
