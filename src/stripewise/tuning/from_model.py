"""A search that starts from a performance model: which file it was, and what it expects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.model.registry import load_model
from stripewise.prescribe.prior import ModelPrior
from stripewise.spec.space import Space
from stripewise.spec.workload import Workload


@dataclass(frozen=True)
class FromModel:
    """A model at the start of a search.

    Attributes
    ----------
    prior : ModelPrior
    facts : dict
        ``file``, ``digest``, ``name``, ``table``, ``simulated``, and ``parameters`` that it knows.
    note : str
        For the user.
    """

    prior: ModelPrior
    facts: dict[str, Any]
    note: str


def start_from_model(path: str, space: Space, workload: Workload, earlier: Mapping[str, Any] | None) -> FromModel:
    """Load the model of an experiment.

    Parameters
    ----------
    path : str
    space : Space
        To be searched.
    workload : Workload
    earlier : mapping, optional
        The facts when the experiment began, if it is resumed.

    Raises
    ------
    UserError
        If the file cannot be read or has changed since, or the model knows none of the space's parameters.
    """
    model = load_model(path)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
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
